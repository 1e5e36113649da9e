//! A front end and its data nodes: placement, stripes, loss of a node, false reports.

use std::net::{IpAddr, SocketAddr, TcpListener as Listener};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use byte_ranges::RangeSet;
use gridftp_cluster::{Member, Node, Nodes, Role, Serve, create_token};
use gridftp_dsi_posix::Posix;
use gridftp_server::config::{Config, Options};
use gridftp_server::{DataNode, Front, serve_stream};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;
use xio_tcp::TcpHandle;

use crate::support::{
    Data, Ftp, PATIENCE, Reply, TestServer, bytes, hidden, host_port, pasv_address,
};

/// Bytes of a block in these tests.
pub(crate) const BLOCK: usize = 64 << 10;

/// A front end over a tree, and nodes on addresses of their own: 127.0.0.11 and so on.
pub(crate) struct Farm {
    pub(crate) server: TestServer,
    nodes: Arc<Nodes>,
    members: Vec<AbortHandle>,
    _folder: TempDir,
}

impl Farm {
    pub(crate) fn new(nodes: u8) -> Self {
        Self::with(nodes, |front| front)
    }

    fn with(nodes: u8, change: impl FnOnce(Front) -> Front) -> Self {
        Self::of(change, |folder, root, runtime, address| {
            (1..=nodes)
                .map(|n| {
                    let node = honest(root, n);
                    join(folder, &format!("n{n}"), Arc::new(node), runtime, address)
                })
                .collect()
        })
    }

    /// A farm whose nodes `begin` starts; it gets the cluster's folder, the tree and the address
    /// for nodes.
    pub(crate) fn of(
        change: impl FnOnce(Front) -> Front,
        begin: impl FnOnce(&Path, &Path, &Runtime, SocketAddr) -> Vec<AbortHandle>,
    ) -> Self {
        Self::configured(|_| (), change, begin)
    }

    /// The same, with options of the front end changed.
    pub(crate) fn configured(
        options: impl FnOnce(&mut Options),
        change: impl FnOnce(Front) -> Front,
        begin: impl FnOnce(&Path, &Path, &Runtime, SocketAddr) -> Vec<AbortHandle>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        gridftp_cluster::init(folder.path().join("front"), "front").unwrap();
        let member = Member::load(folder.path().join("front")).unwrap();
        let nodes = Arc::new(Nodes::new(member, "test").unwrap());
        let mut members = Vec::new();
        let server = TestServer::configured(options, |config, runtime, root| {
            let listener = Listener::bind("127.0.0.1:0").unwrap();
            listener.set_nonblocking(true).unwrap();
            let address = listener.local_addr().unwrap();
            let listening = Arc::clone(&nodes);
            runtime.spawn(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                listening.listen(listener).await;
            });
            members = begin(folder.path(), root, runtime, address);
            runtime.block_on(registered(&nodes, members.len()));
            config.set_front(change(Front::new(Arc::clone(&nodes), 16)));
        });
        Self {
            server,
            nodes,
            members,
            _folder: folder,
        }
    }

    /// An anonymous session in MODE E.
    pub(crate) fn extended(&self) -> Ftp {
        let mut ftp = self.server.login();
        ftp.ok("MODE E", 200);
        ftp
    }
}

/// Waits until that many nodes are registered.
async fn registered(nodes: &Nodes, wanted: usize) {
    let mut changes = nodes.changes();
    let all = async {
        while nodes.list().len() != wanted {
            changes.changed().await.unwrap();
        }
    };
    tokio::time::timeout(PATIENCE, all).await.unwrap();
}

/// A node over the tree with the address 127.0.0.(10 + n).
pub(crate) fn honest(root: &Path, n: u8) -> DataNode<Posix> {
    honest_with(root, n, |_| ())
}

/// The same, with options changed.
pub(crate) fn honest_with(
    root: &Path,
    n: u8,
    change: impl FnOnce(&mut Options),
) -> DataNode<Posix> {
    let mut options = Options::default();
    options.bind = Some(IpAddr::from([127, 0, 0, 10 + n]));
    options.root = Some(root.into());
    change(&mut options);
    let config = Config::check(&options).unwrap();
    DataNode::new(config, Posix::open(root).unwrap(), 64)
}

/// Has a node join the cluster and serve.
pub(crate) fn join<S: Serve>(
    folder: &Path,
    name: &str,
    serve: Arc<S>,
    runtime: &Runtime,
    front: SocketAddr,
) -> AbortHandle {
    let own = folder.join(name);
    let hour = Duration::from_secs(3600);
    let token = create_token(
        folder.join("front"),
        &front.to_string(),
        Role::Node,
        None,
        hour,
    );
    let joining = async {
        gridftp_cluster::join(&own, &token.unwrap(), name)
            .await
            .unwrap()
    };
    runtime.block_on(joining);
    let node = Node::new(Member::load(own).unwrap(), serve, "test").unwrap();
    let address = front.to_string();
    runtime
        .spawn(async move { node.dial(&address).await })
        .abort_handle()
}

/// Sends SPAS; returns the addresses.
#[track_caller]
pub(crate) fn spas(ftp: &mut Ftp) -> Vec<SocketAddr> {
    let reply = ftp.ok("SPAS 1", 229);
    let lines = reply.lines.iter().filter_map(|line| {
        let item = line.trim().strip_prefix("|1|")?.strip_suffix('|')?;
        let (ip, port) = item.split_once('|')?;
        Some(SocketAddr::new(ip.parse().ok()?, port.parse().ok()?))
    });
    lines.collect()
}

/// Reads the last reply of a transfer.
pub(crate) fn last(ftp: &mut Ftp) -> Reply {
    let mut reply = ftp.reply();
    while reply.code < 200 {
        reply = ftp.reply();
    }
    reply
}

/// Sends blocks of a file over connections in turn, without their ends.
pub(crate) fn deal(content: &[u8], conns: &mut [Data]) {
    let count = conns.len();
    for (n, block) in content.chunks(BLOCK).enumerate() {
        conns[n % count].block(0, (n * BLOCK) as u64, block);
    }
}

/// Fetches a file in MODE E over two stripes, and checks that each has its blocks.
pub(crate) fn fetch_blocks(ftp: &mut Ftp, name: &str, size: usize) -> Vec<u8> {
    ftp.ok(
        &format!("OPTS RETR StripeLayout=Blocked;BlockSize={BLOCK};"),
        200,
    );
    let ports = [0, 1].map(|_| Listener::bind("127.0.0.1:0").unwrap());
    let named = ports
        .each_ref()
        .map(|port| host_port(port.local_addr().unwrap()));
    ftp.ok(&format!("SPOR {}", named.join(" ")), 200);
    ftp.send(&format!("RETR {name}"));
    let mut found = vec![0; size];
    for (index, port) in ports.iter().enumerate() {
        let mut conn = Data::accept(port);
        loop {
            let (flags, offset, payload) = conn.read_block();
            if flags & 0x40 != 0 {
                break;
            }
            let at = offset as usize;
            assert_eq!(at / BLOCK % 2, index, "offset {at} on stripe {index}");
            found[at..at + payload.len()].copy_from_slice(&payload);
        }
    }
    assert_eq!(last(ftp).code, 226);
    found
}

#[test]
fn the_stripes_of_an_upload_become_one_file() {
    let farm = Farm::new(3);
    let content = bytes(BLOCK * 20 + 7);
    let mut ftp = farm.extended();
    let to = spas(&mut ftp);
    let mut hosts: Vec<_> = to.iter().map(SocketAddr::ip).collect();
    hosts.sort_unstable();
    hosts.dedup();
    assert_eq!(hosts.len(), 3, "{to:?}");
    ftp.send("STOR f");
    let mut conns: Vec<_> = to.into_iter().map(Data::connect).collect();
    assert_eq!(ftp.reply().code, 150);
    deal(&content, &mut conns);
    for mut conn in conns {
        assert!(!farm.server.has("f"), "published before its end");
        conn.end(1);
    }
    let mut stripes = Vec::new();
    let last = loop {
        let reply = ftp.reply();
        match reply.code {
            112 => stripes.push(reply.text()),
            111 => {}
            _ => break reply,
        }
    };
    assert_eq!(last.code, 226, "{last:?}");
    assert!(farm.server.get("f") == content);
    for n in 0..3 {
        let of = |text: &&String| text.contains(&format!("Stripe Index: {n}"));
        let last = stripes.iter().rev().find(of).unwrap();
        assert!(last.contains("Total Stripe Count: 3"), "{last}");
        assert!(!last.contains("Transferred: 0"), "{last}");
    }
}

#[test]
fn each_stripe_of_a_download_has_its_blocks() {
    let farm = Farm::new(2);
    let content = bytes(BLOCK * 9 + 5);
    farm.server.put("f", &content);
    let mut ftp = farm.extended();
    assert!(fetch_blocks(&mut ftp, "f", content.len()) == content);
}

#[test]
fn a_client_of_one_address_is_served_by_one_node() {
    let farm = Farm::new(2);
    let content = bytes(300_000);
    let mut ftp = farm.server.login();
    // Its reply would name a port of the front end.
    ftp.ok("EPSV", 502);
    let mut conn = ftp.data();
    let host = conn.0.peer_addr().unwrap().ip();
    assert!(host.to_string().starts_with("127.0.0.1") && host != IpAddr::from([127, 0, 0, 1]));
    ftp.send("STOR f");
    conn.write(&content);
    conn.finish();
    assert_eq!(last(&mut ftp).code, 226);
    assert!(farm.server.get("f") == content);
    assert!(ftp.fetch("f") == content);
    let listed = ftp.get("MLSD");
    assert!(String::from_utf8_lossy(&listed).contains(" f\r\n"));
    // The client listens.
    let port = ftp.port();
    ftp.send("RETR f");
    let conn = Data::accept(&port);
    assert!(conn.read() == content);
    assert_eq!(last(&mut ftp).code, 226);
}

#[test]
fn delayed_passive_gives_the_address_of_a_node_with_the_transfer() {
    let farm = Farm::new(1);
    farm.server.put("f", "late");
    let mut ftp = farm.server.login();
    ftp.ok("OPTS PASV AllowDelayed=1;", 200);
    ftp.ok("PASV", 200);
    ftp.send("RETR f");
    let told = ftp.reply();
    assert_eq!(told.code, 127);
    let to = pasv_address(&told);
    assert_eq!(to.ip(), IpAddr::from([127, 0, 0, 11]));
    let data = Data::connect(to);
    assert_eq!(ftp.reply().code, 150);
    assert_eq!(data.read(), b"late");
    assert_eq!(last(&mut ftp).code, 226);
}

/// As a monitor has one worker for each person.
#[test]
fn a_session_on_a_stream_that_is_handed_over_uses_the_nodes() {
    let farm = Farm::new(2);
    let mut options = Options::default();
    options.root = Some(farm.server.root.clone());
    let mut config = Config::check(&options).unwrap();
    config.set_front(Front::new(Arc::clone(&farm.nodes), 16));
    let storage = Posix::open(&farm.server.root).unwrap();
    let port = Listener::bind("127.0.0.1:0").unwrap();
    let ftp = {
        let address = port.local_addr().unwrap();
        thread::spawn(move || Ftp::connect(address))
    };
    let stream = port.accept().unwrap().0;
    stream.set_nonblocking(true).unwrap();
    let serving = thread::spawn(move || {
        let runtime = Runtime::new().unwrap();
        runtime.block_on(async {
            let stream = TcpHandle::from(TcpStream::from_std(stream).unwrap());
            let here = IpAddr::from([127, 0, 0, 1]);
            let never = std::future::pending;
            serve_stream(config, storage, (stream, here, here), never(), never()).await
        })
    });
    let mut ftp = ftp.join().unwrap();
    ftp.login("whoever", "whatever");
    ftp.ok("TYPE I", 200);
    ftp.ok("MODE E", 200);
    let content = bytes(BLOCK * 4);
    let to = spas(&mut ftp);
    assert_eq!(to.len(), 2, "{to:?}");
    ftp.send("STOR f");
    let mut conns: Vec<_> = to.into_iter().map(Data::connect).collect();
    deal(&content, &mut conns);
    for mut conn in conns {
        conn.end(1);
    }
    assert_eq!(last(&mut ftp).code, 226);
    assert!(farm.server.get("f") == content);
    ftp.ok("QUIT", 221);
    serving.join().unwrap().unwrap();
}

#[test]
fn sessions_are_spread_over_the_nodes() {
    let farm = Farm::new(4);
    let mut sessions: Vec<_> = (0..8).map(|_| farm.server.login()).collect();
    let mut hosts: Vec<_> = sessions.iter_mut().map(|ftp| ftp.pasv().ip()).collect();
    hosts.sort_unstable();
    let each: Vec<_> = hosts.chunk_by(|a, b| a == b).map(<[_]>::len).collect();
    assert_eq!(each, [2; 4], "{hosts:?}");
}

#[test]
fn a_hybrid_front_end_serves_plain_clients_itself() {
    let farm = Farm::with(2, Front::hybrid);
    let content = bytes(10_000);
    farm.server.put("f", &content);
    let mut ftp = farm.server.login();
    assert_eq!(ftp.pasv().ip(), IpAddr::from([127, 0, 0, 1]));
    assert!(ftp.fetch("f") == content);
    ftp.ok("MODE E", 200);
    assert!(
        spas(&mut ftp)
            .iter()
            .all(|to| to.ip() != IpAddr::from([127, 0, 0, 1]))
    );
    ftp.ok("MODE S", 200);
    assert!(ftp.fetch("f") == content);
}

#[test]
fn without_a_node_the_reply_says_so() {
    let farm = Farm::new(0);
    let mut ftp = farm.server.login();
    let reply = ftp.cmd("PASV");
    assert_eq!(reply.code, 425);
    assert!(reply.text().contains("none is connected"), "{reply:?}");
    ftp.ok("NOOP", 200);
}

#[test]
fn a_draining_node_gets_no_new_session() {
    let farm = Farm::new(2);
    let nodes = Arc::clone(&farm.nodes);
    let draining = async move {
        nodes.drain("n1", true).await.unwrap();
        let mut changes = nodes.changes();
        while !nodes.list().iter().any(|node| node.report.draining) {
            changes.changed().await.unwrap();
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(draining);
    for _ in 0..4 {
        let mut ftp = farm.server.login();
        assert_eq!(ftp.pasv().ip(), IpAddr::from([127, 0, 0, 12]));
    }
}

/// Row 39 of the hostile input.
#[test]
fn the_loss_of_a_node_leaves_an_upload_to_be_continued() {
    let farm = Farm::new(2);
    let content = bytes(BLOCK * 20);
    let mut ftp = farm.extended();
    let to = spas(&mut ftp);
    let lost = if to[0].ip() == IpAddr::from([127, 0, 0, 11]) {
        0
    } else {
        1
    };
    ftp.send("STOR f");
    let mut conns: Vec<_> = to.into_iter().map(Data::connect).collect();
    deal(&content[..BLOCK * 10], &mut conns);
    // Everything so far is durable once a marker names it.
    let mut ranges = String::new();
    while ranges != format!("0-{}", BLOCK * 10) {
        let reply = ftp.reply();
        if reply.code == 111 {
            ranges = union(&ranges, &reply.text());
        }
    }
    let cut = Instant::now();
    farm.members[lost].abort();
    let failed = last(&mut ftp);
    assert_eq!(failed.code, 426, "{failed:?}");
    assert!(failed.text().contains("data node n1"), "{failed:?}");
    assert!(cut.elapsed() < Duration::from_secs(5));
    assert!(!farm.server.has("f"));
    drop(conns);
    // The rest goes through the node that is left.
    let to = spas(&mut ftp);
    assert_eq!(to.len(), 1, "{to:?}");
    ftp.ok(&format!("REST {ranges}"), 350);
    ftp.send("STOR f");
    let mut conn = Data::connect(to[0]);
    for (n, block) in content[BLOCK * 10..].chunks(BLOCK).enumerate() {
        conn.block(0, ((10 + n) * BLOCK) as u64, block);
    }
    conn.end(1);
    assert_eq!(last(&mut ftp).code, 226);
    assert!(farm.server.get("f") == content);
    assert!(hidden(&farm.server.root).is_empty());
}

/// The union of the ranges of markers.
pub(crate) fn union(ranges: &str, marker: &str) -> String {
    let mut all: RangeSet = ranges.parse().unwrap_or_default();
    let new = marker.rsplit(' ').next().unwrap_or_default();
    all.extend(&new.trim().parse::<RangeSet>().unwrap());
    all.to_string()
}

/// Changes of a session in the middle of a set-up lose no data in silence.
#[test]
fn a_transfer_without_its_nodes_is_refused() {
    let farm = Farm::new(2);
    farm.server.put("f", bytes(1000));
    let mut ftp = farm.server.login();
    ftp.pasv();
    ftp.ok("SITE RESTRICT /", 250);
    ftp.send("STOR f");
    let refused = last(&mut ftp);
    assert_eq!(refused.code, 425, "{refused:?}");
    assert!(
        farm.server.get("f") == bytes(1000),
        "an empty file was published"
    );
    // The name of a task changes nothing.
    let mut ftp = farm.server.login();
    let to = ftp.pasv();
    ftp.ok("SITE TASKID a\tb", 250);
    ftp.send("STOR f");
    let mut conn = Data::connect(to);
    conn.write(b"new");
    conn.finish();
    assert_eq!(last(&mut ftp).code, 226);
    assert!(farm.server.get("f") == b"new");
}

/// The ranges of one node never join: the other nodes have the blocks between them.
#[test]
fn an_upload_of_many_blocks_over_two_nodes_is_taken() {
    const MANY: usize = 10_000;
    const SMALL: usize = 512;
    let farm = Farm::new(2);
    let content = bytes(MANY * SMALL);
    let mut ftp = farm.extended();
    let to = spas(&mut ftp);
    ftp.send("STOR f");
    let mut conns: Vec<_> = to.into_iter().map(Data::connect).collect();
    for (n, block) in content.chunks(SMALL).enumerate() {
        conns[n % 2].block(0, (n * SMALL) as u64, block);
    }
    for mut conn in conns {
        conn.end(1);
    }
    assert_eq!(last(&mut ftp).code, 226);
    assert!(farm.server.get("f") == content);
}
