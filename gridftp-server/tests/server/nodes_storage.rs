//! A front end without a storage of its own, over processes that have one.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use tempfile::TempDir;

use crate::nodes::{BLOCK, deal, fetch_blocks, spas};
use crate::process::program;
use crate::staged::archive_storage;
use crate::support::{Data, Ftp, PATIENCE, bytes};

/// A member of the cluster as a process, killed when dropped.
struct Member(Child);

impl Member {
    /// Starts it, and returns the rest of the line that begins in each of these ways.
    fn start(command: &mut Command, lines: &[&str]) -> (Self, Vec<String>) {
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut member = Self(child);
        let mut output = BufReader::new(member.0.stdout.take().unwrap()).lines();
        let mut next = |wanted: &&str| loop {
            let line = output.next().expect("it ends").unwrap();
            if let Some(rest) = line.strip_prefix(wanted) {
                return rest.to_owned();
            }
        };
        let found = lines.iter().map(&mut next).collect();
        (member, found)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn signal(member: &Member, name: &str) {
    let mut kill = Command::new("kill");
    let sent = kill.args([&format!("-{name}"), &member.0.id().to_string()]);
    assert!(sent.status().unwrap().success());
}

/// A front end without a root, and the nodes over one tree.
struct Cluster {
    folder: TempDir,
    _front: Member,
    nodes: Vec<Member>,
    address: SocketAddr,
    /// Of the front end, for nodes.
    inner: String,
}

impl Cluster {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("tree")).unwrap();
        run(&mut cluster(folder.path(), "init", "front"));
        let mut front = program();
        front.args(["front", "--storage", "nodes", "--anonymous", "rw"]);
        front.args(["--bind", "127.0.0.1", "--port", "0"]);
        front.args(["--cluster-listen", "127.0.0.1:0", "--cluster"]);
        front.arg(folder.path().join("front"));
        let lines = ["listening for data nodes on ", "listening on "];
        let (front, found) = Member::start(&mut front, &lines);
        Self {
            address: found[1].parse().unwrap(),
            inner: found[0].clone(),
            folder,
            _front: front,
            nodes: Vec::new(),
        }
    }

    fn add_node(&mut self) {
        let tree = self.folder.path().join("tree").display().to_string();
        self.add_node_over(&["--root", &tree]);
    }

    fn add_node_over(&mut self, storage: &[&str]) {
        let (folder, name) = (self.folder.path(), format!("node{}", self.nodes.len() + 1));
        let mut token = program();
        token.args(["cluster", "token", "--cluster"]);
        token
            .arg(folder.join("front"))
            .args(["--address", &self.inner]);
        let token = run(&mut token);
        let mut join = cluster(folder, "join", &name);
        run(join.arg(token.trim()));
        let mut node = program();
        node.args(["node", "--bind", "127.0.0.1", "--front", &self.inner]);
        node.arg("--cluster").arg(folder.join(&name));
        node.args(storage);
        let (node, _) = Member::start(&mut node, &["serving as a data node"]);
        self.nodes.push(node);
        self.wait_for(self.nodes.len());
    }

    /// Waits until so many nodes are connected.
    fn wait_for(&self, wanted: usize) {
        wait_until(|| self.listed().lines().count() == wanted);
    }

    /// The list of the nodes.
    fn listed(&self) -> String {
        let mut list = program();
        list.args(["nodes", "--front", &self.inner, "--cluster"]);
        run(list.arg(self.folder.path().join("front")))
    }

    fn login(&self) -> Ftp {
        let mut ftp = Ftp::connect(self.address);
        ftp.login("anonymous", "x");
        ftp.ok("TYPE I", 200);
        ftp
    }

    fn get(&self, name: &str) -> Vec<u8> {
        fs::read(self.folder.path().join("tree").join(name)).unwrap()
    }
}

/// A command about a cluster, for this member.
fn cluster(folder: &Path, command: &str, name: &str) -> Command {
    let mut program = program();
    program.args(["cluster", command, "--name", name, "--cluster"]);
    program.arg(folder.join(name));
    program
}

fn wait_until(mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "it does not come");
        std::thread::yield_now();
    }
}

fn run(command: &mut Command) -> String {
    let done = command.output().unwrap();
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {text}");
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn a_front_end_needs_no_storage_of_its_own() {
    let mut cluster = Cluster::start();
    let mut early = cluster.login();
    let reply = early.ok("MLST /", 450);
    assert!(reply.text().contains("no data node"), "{reply:?}");
    early.ok("MKD d", 450);
    cluster.add_node();
    cluster.add_node();
    // The capabilities are those of the nodes.
    let mut ftp = cluster.login();
    let features = ftp.ok("FEAT", 211).text();
    assert!(features.contains("SHA256"), "{features}");
    let content = bytes(300_000);
    for n in 0..4 {
        ftp.ok(&format!("MKD d{n}"), 257);
        let reply = ftp.store(&format!("STOR d{n}/file"), &content);
        assert_eq!(reply.code, 226, "{reply:?}");
        assert_eq!(cluster.get(&format!("d{n}/file")), content);
        assert_eq!(ftp.fetch(&format!("d{n}/file")), content);
    }
    let listing = String::from_utf8(ftp.get("MLSD d1")).unwrap();
    assert!(listing.to_lowercase().contains("size=300000;"), "{listing}");
    let sums: Vec<_> = (0..4)
        .map(|n| ftp.ok(&format!("CKSM MD5 0 -1 /d{n}/file"), 213))
        .collect();
    assert!(sums.iter().all(|sum| sum == &sums[0]), "{sums:?}");
    ftp.ok("RNFR d1/file", 350);
    ftp.ok("RNTO d1/other", 250);
    ftp.ok("DELE d2/file", 250);
    ftp.ok("SIZE d1/file", 550);
    ftp.ok("MFMT 20200102030405 d1/other", 213);
    assert!(
        ftp.ok("MLST d1/other", 250)
            .text()
            .contains("20200102030405")
    );
    // The other node goes on.
    drop(cluster.nodes.remove(0));
    cluster.wait_for(1);
    for n in [0, 1, 3] {
        ftp.ok(&format!("MLST d{n}"), 250);
        ftp.ok(&format!("MKD d{n}/new"), 257);
        let reply = ftp.store(&format!("STOR d{n}/again"), &content);
        assert_eq!(reply.code, 226, "{reply:?}");
        assert_eq!(ftp.fetch(&format!("d{n}/again")), content);
    }
    assert_eq!(ftp.ok("CKSM MD5 0 -1 /d0/file", 213), sums[0]);
    drop(cluster.nodes.remove(0));
    cluster.wait_for(0);
    ftp.ok("SIZE d0/file", 450);
}

#[test]
fn a_node_that_is_stopped_ends_its_storage_calls_first() {
    let mut cluster = Cluster::start();
    let folder = cluster.folder.path().to_owned();
    cluster.add_node_over(&["--storage", &archive_storage(&folder)]);
    let mut ftp = cluster.login();
    ftp.send("SITE STAGE 60 f");
    wait_until(|| folder.join("calls").exists());
    signal(&cluster.nodes[0], "TERM");
    wait_until(|| cluster.listed().contains("draining"));
    fs::write(folder.join("tape"), "").unwrap();
    let reply = ftp.outcome();
    assert_eq!(reply.code, 250, "{reply:?}");
    assert!(cluster.nodes[0].0.wait().unwrap().success());
}

#[test]
fn stripes_and_a_frozen_node() {
    let mut cluster = Cluster::start();
    cluster.add_node();
    cluster.add_node();
    let mut ftp = cluster.login();
    ftp.ok("MODE E", 200);
    let to = spas(&mut ftp);
    assert_eq!(to.len(), 2);
    let content = bytes(2 * BLOCK);
    ftp.send("STOR striped");
    let conns = to.into_iter().map(Data::connect).collect::<Vec<_>>();
    assert_eq!(ftp.reply().code, 150);
    for ((mut conn, block), at) in conns.into_iter().zip(content.chunks(BLOCK)).zip([0, BLOCK]) {
        conn.block(0, at as u64, block);
        conn.end(1);
    }
    let reply = ftp.outcome();
    assert_eq!(reply.code, 226, "{reply:?}");
    assert_eq!(cluster.get("striped"), content);
    for n in 0..8 {
        ftp.ok(&format!("MKD d{n}"), 257);
    }
    signal(&cluster.nodes[0], "STOP");
    // What may be done twice is repeated at the other node; within seconds all calls go there.
    for n in 0..8 {
        ftp.ok(&format!("MLST d{n}"), 250);
    }
    cluster.wait_for(1);
    for n in 0..8 {
        ftp.ok(&format!("RMD d{n}"), 250);
    }
}

#[test]
fn an_object_is_stored_by_one_node_and_read_by_all() {
    let mut cluster = Cluster::start();
    let folder = cluster.folder.path().to_owned();
    let store = folder.join("store");
    fs::create_dir(&store).unwrap();
    for n in 0..2 {
        let (store, index) = (store.display(), folder.join(format!("index{n}")));
        let storage = format!(
            "object:url=file://{store};index={};part=256K",
            index.display()
        );
        cluster.add_node_over(&["--storage", &storage, "--part-memory", "512K"]);
    }
    let mut ftp = cluster.login();
    ftp.ok("MODE E", 200);
    let to = spas(&mut ftp);
    assert_eq!(to.len(), 1, "{to:?}");
    let content = bytes(20 * BLOCK + 7);
    ftp.send("STOR f");
    let mut conns = [to[0]; 3].map(Data::connect);
    assert_eq!(ftp.reply().code, 150);
    deal(&content, &mut conns);
    assert!(!store.join("f").exists(), "published before its end");
    for mut conn in conns {
        conn.end(3);
    }
    let reply = ftp.outcome();
    assert_eq!(reply.code, 226, "{reply:?}");
    assert!(fs::read(store.join("f")).unwrap() == content);
    assert!(fetch_blocks(&mut ftp, "f", content.len()) == content);
}

#[test]
fn an_interrupted_upload_is_continued_through_the_nodes() {
    let mut cluster = Cluster::start();
    cluster.add_node();
    let mut ftp = cluster.login();
    let content = bytes(400_000);
    ftp.ok("MODE E", 200);
    let mut data = ftp.data();
    ftp.ok("STOR part", 150);
    data.block(0, 0, &content[..200_000]);
    // A marker says what is held, then the client goes.
    loop {
        let reply = ftp.reply();
        if reply.code == 111 && reply.text().contains("0-200000") {
            break;
        }
    }
    drop((data, ftp));
    let mut ftp = cluster.login();
    ftp.ok("MODE E", 200);
    let begun = Instant::now();
    let mut data = loop {
        let data = ftp.data();
        ftp.ok("REST 0-200000", 350);
        let reply = ftp.cmd("STOR part");
        if reply.code == 150 {
            break data;
        }
        // A node may still be about to end the first upload.
        let waits = reply.code == 450 && begun.elapsed() < PATIENCE;
        assert!(waits, "{reply:?}");
    };
    data.block(0, 200_000, &content[200_000..]);
    data.end(1);
    let reply = ftp.outcome();
    assert_eq!(reply.code, 226, "{reply:?}");
    assert_eq!(cluster.get("part"), content);
}

#[test]
fn the_storage_of_nodes_stands_alone_at_a_front_end() {
    let refused = |args: &[&str], why: &str| {
        let done = program().args(args).output().unwrap();
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(
            !done.status.success() && text.contains(why),
            "{args:?}: {text}"
        );
    };
    refused(&["--storage", "nodes"], "gridftp-server front");
    refused(&["front", "--storage", "nodes", "--hybrid"], "--hybrid");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("server.toml");
    let mounted = "[[storage]]\nat = \"/a\"\nstorage = \"nodes\"\n";
    fs::write(&file, mounted).unwrap();
    refused(&["front", "-c", file.to_str().unwrap()], "stands alone");
}
