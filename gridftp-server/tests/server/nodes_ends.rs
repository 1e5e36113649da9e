//! Front ends and nodes that fail or lie: the choice of another node, the ends of transfers, told as
//! they are; the rules of storing; modules.

use std::fs;
use std::net::TcpListener as Listener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use byte_ranges::RangeSet;
use ftp_wire::command::Type;
use gridftp_cluster::{
    Failed, Fault, FromNode, Open, Replies, Report, Requests, Serve, StoreRules, ToNode, Transfer,
    TransferKind, Transferred,
};
use gridftp_dsi_posix::Posix;
use gridftp_server::DataNode;
use gridftp_server::config::{Options, StorageOption, StorageSection};
use tempfile::TempDir;

use crate::nodes::{BLOCK, Farm, deal, honest, honest_with, join, last, spas, union};
use crate::support::{Data, Ftp, PATIENCE, bytes, hidden};

/// The conduct of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conduct {
    /// Answers no request, and lives.
    Silent,
    /// Refuses to listen, for reasons of its own.
    Refuses,
    /// Has begun to publish when it is told to abort.
    Publishes,
    /// The data ends when the client has gone.
    ArrivesLate,
    /// Opens the file late.
    Waits,
    /// Reports bytes that it has neither received nor sent.
    Lies(u64),
    /// Reports ten bytes with a digest by this algorithm.
    Digests(&'static str),
    /// The same by MD5, and the file has grown meanwhile.
    Appends,
    /// Never ends, not when it is told to either.
    Stays,
    /// Reports a block, and fails.
    Fails,
}

/// The rules of the uploads of a node, and the requests after each.
pub(crate) type Seen = Arc<Mutex<(Vec<StoreRules>, Vec<ToNode>)>>;

/// A node that plays its transfers.
pub(crate) struct Played {
    conduct: Conduct,
    /// Held open.
    ports: Mutex<Vec<Listener>>,
    /// The tree.
    root: PathBuf,
    seen: Seen,
}

impl Played {
    pub(crate) fn new(conduct: Conduct, root: &Path, seen: &Seen) -> Arc<Self> {
        Arc::new(Self {
            conduct,
            ports: Mutex::default(),
            root: root.into(),
            seen: Arc::clone(seen),
        })
    }

    /// A farm with this node alone.
    fn farm(conduct: Conduct) -> (Farm, Seen) {
        Self::farm_with(conduct, true)
    }

    /// The same, with this choice of synced writes at the front end.
    fn farm_with(conduct: Conduct, sync: bool) -> (Farm, Seen) {
        Self::configured(conduct, |options| options.sync_writes = Some(sync))
    }

    /// The same, with options of the front end changed.
    fn configured(conduct: Conduct, options: impl FnOnce(&mut Options)) -> (Farm, Seen) {
        let seen = Seen::default();
        let farm = Farm::configured(
            options,
            |front| front,
            |folder, root, runtime, address| {
                let node = Self::new(conduct, root, &seen);
                vec![join(folder, "played", node, runtime, address)]
            },
        );
        (farm, seen)
    }

    async fn play(
        &self,
        transfer: Transfer,
        requests: &mut Requests,
        replies: &Replies,
    ) -> FromNode {
        let rules = match transfer.kind {
            TransferKind::Whole(whole) => Some(whole.rules),
            TransferKind::Store { rules, .. } => Some(rules),
            _ => None,
        };
        self.seen.lock().unwrap().0.extend(rules);
        if self.conduct == Conduct::Waits {
            replies.send(FromNode::Waiting).await;
        }
        replies.send(FromNode::Opened { reused: false }).await;
        let has_ranges = transfer.channel.ty != Type::Ascii;
        let failed = || failed(Fault::Aborted);
        let done = FromNode::Transferred(Box::default());
        match self.conduct {
            Conduct::Waits | Conduct::Silent | Conduct::Refuses => done,
            Conduct::Lies(bytes) => FromNode::Transferred(Box::new(Transferred {
                bytes,
                ranges: RangeSet::up_to(if has_ranges { bytes } else { 0 }),
                end: bytes,
                ..Transferred::default()
            })),
            Conduct::Digests(algorithm) => digested(algorithm),
            Conduct::Appends => {
                fs::write(self.root.join("f"), bytes(11)).unwrap();
                digested("MD5")
            }
            Conduct::Stays => {
                while self.next(requests).await.is_some() {}
                failed()
            }
            Conduct::Fails => {
                replies
                    .send(FromNode::Received(RangeSet::up_to(BLOCK as u64)))
                    .await;
                failed()
            }
            Conduct::Publishes => {
                let _ = self.next(requests).await;
                fs::write(self.root.join("f"), "").unwrap();
                done
            }
            Conduct::ArrivesLate => {
                let _ = self.next(requests).await;
                replies.send(FromNode::Arrived).await;
                failed()
            }
        }
    }

    async fn next(&self, requests: &mut Requests) -> Option<ToNode> {
        let next = requests.recv().await;
        self.seen.lock().unwrap().1.extend(next.clone());
        next
    }
}

/// Ten bytes and their digest.
fn digested(algorithm: &str) -> FromNode {
    FromNode::Transferred(Box::new(Transferred {
        bytes: 10,
        digest: Some((algorithm.to_owned(), "0".repeat(32))),
        ..Transferred::default()
    }))
}

/// The failure of a request.
fn failed(fault: Fault) -> FromNode {
    let code = ftp_wire::reply::Code::of::<426>();
    let reply = ftp_wire::reply::Reply::coded(code, ["aborted"]);
    FromNode::Failed(Box::new(Failed { reply, fault }))
}

impl Serve for Played {
    async fn session(&self, _: Open, mut requests: Requests, replies: Replies) {
        while let Some(request) = requests.recv().await {
            let reply = match request {
                _ if self.conduct == Conduct::Silent => continue,
                ToNode::Listen(_) if self.conduct == Conduct::Refuses => failed(Fault::Node),
                ToNode::Listen(_) => {
                    let port = Listener::bind("127.0.0.1:0").unwrap();
                    let address = port.local_addr().unwrap();
                    self.ports.lock().unwrap().push(port);
                    FromNode::Listening(address)
                }
                ToNode::Transfer(transfer) => self.play(*transfer, &mut requests, &replies).await,
                ToNode::Connect(_) | ToNode::Stack(..) => FromNode::Done,
                ToNode::Publish => {
                    self.seen.lock().unwrap().1.push(request);
                    continue;
                }
                ToNode::Abort | ToNode::DropData | ToNode::EndData(_) | ToNode::Rate(_) => continue,
            };
            replies.send(reply).await;
        }
    }

    fn report(&self) -> Report {
        Report {
            capacity: 1,
            ..Report::default()
        }
    }

    fn drain(&self, _: bool) {}
}

/// The choice among idle nodes is by load, which these do not have, then by name.
#[test]
fn a_healthy_node_is_tried_after_others_that_fail() {
    for (conduct, others) in [(Conduct::Silent, 1), (Conduct::Refuses, 4)] {
        let farm = Farm::configured(
            |options| options.net_stacks = tcp(),
            |front| front,
            |folder, root, runtime, address| {
                let mut nodes: Vec<_> = (0..others)
                    .map(|n| {
                        let node = Played::new(conduct, root, &Seen::default());
                        join(folder, &format!("a{n}"), node, runtime, address)
                    })
                    .collect();
                let healthy = honest_with(root, 1, |options| options.net_stacks = tcp());
                nodes.push(join(folder, "z", Arc::new(healthy), runtime, address));
                nodes
            },
        );
        let mut ftp = farm.server.login();
        // The nodes are told of it when their sessions begin.
        ftp.ok("SITE SETNETSTACK tcp", 250);
        assert_eq!(ftp.pasv().ip().to_string(), "127.0.0.11", "{conduct:?}");
    }
}

fn tcp() -> Option<Vec<String>> {
    Some(vec!["tcp".to_owned()])
}

/// Row 40 of the hostile input.
#[test]
fn false_reports_of_a_node_are_found() {
    let (farm, _) = Played::farm(Conduct::Lies(100_000));
    farm.server.put("there", bytes(200_000));
    let mut ftp = farm.extended();
    ftp.pasv();
    ftp.send("STOR f");
    let refused = last(&mut ftp);
    assert_eq!(refused.code, 451, "{refused:?}");
    assert!(
        refused.text().contains("byte 0 was reported as stored"),
        "{refused:?}"
    );
    assert!(!farm.server.has("f"));
    let mut text = farm.server.login();
    text.ok("TYPE A", 200);
    text.pasv();
    text.send("STOR f");
    let refused = last(&mut text);
    assert_eq!(refused.code, 451, "{refused:?}");
    assert!(!farm.server.has("f"), "zeros were published");
    ftp.pasv();
    let port = ftp.port();
    ftp.send("RETR there");
    let refused = last(&mut ftp);
    drop(port);
    assert_eq!(refused.code, 451, "{refused:?}");
    assert!(
        refused.text().contains("100000 bytes sent, 200000 wanted"),
        "{refused:?}"
    );
    fs::remove_file(farm.server.root.join("there")).unwrap();
}

/// A tree with a place for objects, whose uploads one node stores alone.
fn unshared(folder: &TempDir) -> impl FnOnce(&mut Options) {
    let (root, store) = (folder.path().join("tree"), folder.path().join("store"));
    fs::create_dir(&store).unwrap();
    let index = folder.path().join("index");
    let objects = format!(
        "object:url=file://{};index={}",
        store.display(),
        index.display()
    );
    let place = |at: &str, storage: &str| {
        toml::from_str::<StorageSection>(&format!("at = \"{at}\"\nstorage = \"{storage}\""))
    };
    let places = [place("/", "posix"), place("/objects", &objects)].map(Result::unwrap);
    move |options| {
        options.root = Some(root);
        options.storage = Some(StorageOption::Mounted(places.into()));
    }
}

#[test]
fn false_reports_of_a_node_that_publishes_are_found() {
    let store = |ftp: &mut Ftp, command: &str| {
        ftp.pasv();
        ftp.send(command);
        last(ftp)
    };
    let lies = |ways: &str, size: usize| {
        let folder = tempfile::tempdir().unwrap();
        let (farm, _) = Played::configured(Conduct::Lies(1000), unshared(&folder));
        let mut ftp = farm.server.login();
        ftp.ok(ways, 200);
        farm.server.put("f", bytes(size));
        let wrong = store(&mut ftp, "STOR f");
        assert_eq!(wrong.code, 451, "{ways}: {wrong:?}");
        let why = format!("1000 bytes reported as stored, the file has {size}");
        assert!(wrong.text().contains(&why), "{ways}: {wrong:?}");
        farm.server.put("f", bytes(1000));
        assert_eq!(store(&mut ftp, "STOR f").code, 226, "{ways}");
        // Others may have appended behind it.
        farm.server.put("f", bytes(1001));
        assert_eq!(store(&mut ftp, "APPE f").code, 226, "{ways}");
        (folder, farm, ftp)
    };
    // Each of these takes the time for which a storage may show an older state.
    thread::scope(|scope| {
        scope.spawn(|| lies("TYPE A", 1001));
        scope.spawn(|| {
            let (_folder, farm, mut ftp) = lies("MODE E", 999);
            fs::remove_file(farm.server.root.join("f")).unwrap();
            let absent = store(&mut ftp, "STOR f");
            assert_eq!(absent.code, 451, "{absent:?}");
            assert!(
                absent.text().contains("byte 0 was reported as stored"),
                "{absent:?}"
            );
        });
        scope.spawn(|| {
            let (_folder, farm, mut ftp) = lies("TYPE I", 999);
            farm.server.put("f", bytes(1000));
            ftp.ok("ALLO 1001", 200);
            let short = store(&mut ftp, "STOR f");
            assert_eq!(short.code, 451, "{short:?}");
        });
    });
}

/// Stored and published by one node, which gets all bytes for the digest.
const AT_ONE_NODE: &str = "ESTO checksum=\"MD5 d41d8cd98f00b204e9800998ecf8427e 0\" f";

#[test]
fn an_abort_during_a_publication_is_answered_by_its_end() {
    let (farm, seen) = Played::farm(Conduct::Publishes);
    let mut ftp = farm.server.login();
    ftp.pasv();
    ftp.ok(AT_ONE_NODE, 150);
    ftp.send("ABOR");
    let published = last(&mut ftp);
    assert_eq!(published.code, 226, "{published:?}");
    assert_eq!(last(&mut ftp).code, 226, "of the ABOR");
    assert!(farm.server.has("f"));
    let seen = seen.lock().unwrap();
    assert_eq!(seen.1, [ToNode::Abort]);
    assert!(seen.0[0].durable, "the rule of the front end");
}

/// The end of a stream and the death of its client look the same at the node.
#[test]
fn an_upload_of_a_client_that_has_gone_is_not_published() {
    let (farm, seen) = Played::farm(Conduct::ArrivesLate);
    let mut ftp = farm.server.login();
    ftp.pasv();
    ftp.ok(AT_ONE_NODE, 150);
    drop(ftp);
    farm.server.wait_for_sessions(0);
    assert_eq!(seen.lock().unwrap().1.first(), Some(&ToNode::Abort));
    assert!(!seen.lock().unwrap().1.contains(&ToNode::Publish));
}

/// The front end does not read the file again: the digits are the word of the node.
#[test]
fn a_digest_of_other_bytes_than_the_client_asked_for_is_found() {
    for (algorithm, size, code) in [("SHA1", 10, 426), ("MD5", 9, 451), ("MD5", 10, 226)] {
        let (farm, _) = Played::farm(Conduct::Digests(algorithm));
        farm.server.put("f", bytes(size));
        let mut ftp = farm.server.login();
        ftp.pasv();
        ftp.send("ERET checksum=\"MD5 0 10\" f");
        let told = last(&mut ftp);
        assert_eq!(told.code, code, "{algorithm} of {size} bytes: {told:?}");
    }
}

#[test]
fn a_file_that_grows_while_a_node_digests_it_has_changed() {
    let (farm, _) = Played::farm(Conduct::Appends);
    farm.server.put("f", bytes(10));
    let mut ftp = farm.server.login();
    ftp.pasv();
    ftp.send("ERET checksum=\"MD5 0 -1\" f");
    let told = last(&mut ftp);
    assert_eq!(told.code, 451, "{told:?}");
    assert!(told.text().contains("changed while in use"), "{told:?}");
}

/// A restart by these ranges would be refused.
#[test]
fn a_failed_store_with_a_digest_ahead_tells_no_ranges() {
    let (farm, _) = Played::farm(Conduct::Fails);
    let mut ftp = farm.extended();
    ftp.pasv();
    ftp.send(AT_ONE_NODE);
    let failed = loop {
        let reply = ftp.reply();
        match reply.code {
            112 | 150 => {}
            _ => break reply,
        }
    };
    assert_eq!(failed.code, 426, "{failed:?}");
}

#[test]
fn shared_uploads_are_stored_by_the_rules_of_the_front_end() {
    for sync in [false, true] {
        let (farm, seen) = Played::farm_with(Conduct::Fails, sync);
        let mut ftp = farm.server.login();
        ftp.pasv();
        ftp.send("STOR f");
        assert!(last(&mut ftp).code >= 400);
        let durable: Vec<_> = seen
            .lock()
            .unwrap()
            .0
            .iter()
            .map(|rules| rules.durable)
            .collect();
        assert_eq!(durable, [sync]);
    }
}

#[test]
fn a_node_that_waits_for_its_storage_gives_signs_of_life() {
    let (farm, _) = Played::farm(Conduct::Waits);
    farm.server.put("f", "");
    let mut ftp = farm.server.login();
    let _port = ftp.port();
    let begun = ftp.cmd("RETR f");
    assert_eq!(begun.code, 150, "{begun:?}");
    assert!(
        begun.text().contains("Waiting for the storage"),
        "{begun:?}"
    );
    assert_eq!(last(&mut ftp).code, 226);
}

/// A restart would otherwise go on behind a hole.
#[test]
fn no_range_is_kept_beside_a_false_report() {
    let seen = Seen::default();
    let farm = Farm::of(
        |front| front,
        |folder, root, runtime, address| {
            let liar = Played::new(Conduct::Lies(BLOCK as u64), root, &seen);
            vec![
                join(folder, "n1", Arc::new(honest(root, 1)), runtime, address),
                join(folder, "liar", liar, runtime, address),
            ]
        },
    );
    let mut ftp = farm.extended();
    let to = spas(&mut ftp);
    let honest = to.iter().find(|to| to.ip().to_string() == "127.0.0.11");
    ftp.ok(&format!("ALLO {}", 9 * BLOCK), 200);
    ftp.send("STOR f");
    let mut conn = Data::connect(*honest.unwrap());
    conn.block(0, 4 * BLOCK as u64, &bytes(BLOCK));
    conn.end(1);
    let refused = last(&mut ftp);
    assert_eq!(refused.code, 451, "{refused:?}");
    assert!(
        refused.text().contains("byte 0 was reported as stored"),
        "{refused:?}"
    );
    assert_eq!(ftp.ok("SITE HELD f", 213).lines, ["213 Range Marker"]);
}

/// The blocks of all nodes that the storage holds are told before the 426.
#[test]
fn an_abort_tells_the_ranges_of_all_nodes() {
    let farm = Farm::new(2);
    let content = bytes(BLOCK * 10);
    let mut ftp = farm.extended();
    let to = spas(&mut ftp);
    ftp.send("STOR f");
    let mut conns: Vec<_> = to.into_iter().map(Data::connect).collect();
    deal(&content, &mut conns);
    assert_eq!(ftp.outcome().code, 150);
    let begun = Instant::now();
    while !holds(&farm.server.root, &content) {
        assert!(begun.elapsed() < PATIENCE, "the blocks are not written");
        thread::yield_now();
    }
    ftp.send("ABOR");
    let mut ranges = String::new();
    let aborted = loop {
        let reply = ftp.reply();
        match reply.code {
            111 => ranges = union(&ranges, &reply.text()),
            112 => {}
            _ => break reply,
        }
    };
    assert_eq!(aborted.code, 426, "{aborted:?}");
    assert_eq!(ranges, format!("0-{}", content.len()));
    assert_eq!(ftp.reply().code, 226);
    let held = ftp.ok("SITE HELD f", 213);
    assert!(held.text().contains(&ranges), "{held:?}");
}

/// Says whether a partial file has this content.
fn holds(root: &Path, content: &[u8]) -> bool {
    let mut names = hidden(root).into_iter();
    names.any(|name| fs::read(root.join(name)).is_ok_and(|found| found == content))
}

#[test]
fn a_node_stores_by_the_rules_of_the_front_end() {
    let farm = Farm::configured(
        |options| {
            options.in_place = Some(true);
            options.disk_stacks = layers();
        },
        |front| front,
        |folder, root, runtime, address| {
            let node = honest_with(root, 1, |options| options.disk_stacks = layers());
            vec![join(folder, "n1", Arc::new(node), runtime, address)]
        },
    );
    let mut ftp = farm.server.login();
    // Files behind layers are stored by one node.
    ftp.ok("SITE SETDISKSTACK file,count", 250);
    let mut conn = ftp.data();
    ftp.ok("STOR f", 150);
    conn.write(b"content");
    let begun = Instant::now();
    while !farm.server.has("f") {
        assert!(begun.elapsed() < PATIENCE, "written under another name");
        thread::yield_now();
    }
    conn.finish();
    assert_eq!(last(&mut ftp).code, 226);
    assert_eq!(farm.server.get("f"), b"content");
}

fn layers() -> Option<Vec<String>> {
    Some(["file", "count"].map(str::to_owned).into())
}

/// A node that counts its sessions.
struct Counting(DataNode<Posix>, Arc<AtomicU32>);

impl Serve for Counting {
    async fn session(&self, open: Open, requests: Requests, replies: Replies) {
        self.1.fetch_add(1, Ordering::Relaxed);
        Box::pin(self.0.session(open, requests, replies)).await;
    }

    fn report(&self) -> Report {
        self.0.report()
    }

    fn drain(&self, draining: bool) {
        self.0.drain(draining);
    }
}

#[test]
fn the_sessions_of_one_set_up_serve_the_next() {
    let counts = [const { AtomicU32::new(0) }; 2].map(Arc::new);
    let farm = Farm::of(
        |front| front,
        |folder, root, runtime, address| {
            let nodes = counts.iter().zip(1..).map(|(count, n)| {
                let node = Arc::new(Counting(honest(root, n), Arc::clone(count)));
                join(folder, &format!("n{n}"), node, runtime, address)
            });
            nodes.collect()
        },
    );
    let content = bytes(BLOCK * 4);
    let mut ftp = farm.extended();
    for name in ["a", "b", "c"] {
        let to = spas(&mut ftp);
        assert_eq!(to.len(), 2);
        ftp.send(&format!("STOR {name}"));
        let mut conns: Vec<_> = to.into_iter().map(Data::connect).collect();
        deal(&content, &mut conns);
        for mut conn in conns {
            conn.end(1);
        }
        assert_eq!(last(&mut ftp).code, 226);
        assert!(farm.server.get(name) == content);
        assert_eq!(
            counts.each_ref().map(|count| count.load(Ordering::Relaxed)),
            [1, 1]
        );
    }
}

#[test]
fn modules_run_on_a_node() {
    const MD5: &str = "adcaec3805aa912c0d0b14a81bedb6ff";
    let farm = Farm::new(2);
    fs::create_dir(farm.server.root.join("dir")).unwrap();
    farm.server.put("dir/f", "0123456789");
    let mut ftp = farm.server.login();
    let archive = ftp.get("ERET tar=\"\" dir");
    assert!(archive.windows(10).any(|bytes| bytes == b"0123456789"));
    let data = ftp.data();
    ftp.ok("ERET checksum=\"MD5 2 5\" dir/f", 150);
    assert_eq!(data.read(), b"23456");
    let told = last(&mut ftp);
    assert!(
        told.text().contains(&format!("Bytes=5;MD5={MD5};")),
        "{told:?}"
    );
    let store = format!("ESTO checksum=\"MD5 {MD5} 3\" dir/f");
    let refused = ftp.store(&store, b"xxxxx");
    assert_eq!(refused.code, 550, "{refused:?}");
    assert_eq!(farm.server.get("dir/f"), b"0123456789");
    assert_eq!(ftp.store(&store, b"23456").code, 226);
    assert_eq!(farm.server.get("dir/f"), b"0122345689");
    let nothing = "ESTO checksum=\"MD5 d41d8cd98f00b204e9800998ecf8427e 30\" dir/f";
    assert_eq!(ftp.store(nothing, b"").code, 226);
}
