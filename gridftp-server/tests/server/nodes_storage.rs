//! Front ends and nodes as processes: without a storage of its own, by options and stopped.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::nodes::{BLOCK, deal, fetch_blocks, spas};
use crate::process::program;
use crate::staged::archive_storage;
use crate::support::{Data, Ftp, PATIENCE, bytes};

/// A member of the cluster as a process, killed when dropped.
pub(crate) struct Member(Child);

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

/// A front end, and the nodes over one tree.
pub(crate) struct Cluster {
    pub(crate) folder: TempDir,
    front: Member,
    pub(crate) nodes: Vec<Member>,
    address: SocketAddr,
    /// Of the front end, for nodes.
    pub(crate) inner: String,
}

impl Cluster {
    /// The front end uses the storage of the nodes.
    pub(crate) fn start() -> Self {
        Self::with(&["--storage", "nodes"])
    }

    /// The front end has these options, and the tree if they name no storage.
    pub(crate) fn with(options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("tree")).unwrap();
        run(&mut cluster(folder.path(), "init", "front"));
        let (front, inner, address) = Self::front(folder.path(), options);
        Self {
            folder,
            front,
            nodes: Vec::new(),
            address,
            inner,
        }
    }

    /// A front end; returns its addresses for nodes and for clients.
    fn front(folder: &Path, options: &[&str]) -> (Member, String, SocketAddr) {
        let mut front = program();
        front.args(["front", "--anonymous", "rw", "--bind", "127.0.0.1"]);
        front.args(["--port", "0", "--cluster-listen", "127.0.0.1:0"]);
        front.arg("--cluster").arg(folder.join("front"));
        if !options.contains(&"--storage") {
            front.arg("--root").arg(folder.join("tree"));
        }
        let lines = ["listening for data nodes on ", "listening on "];
        let (front, found) = Member::start(front.args(options), &lines);
        (front, found[0].clone(), found[1].parse().unwrap())
    }

    /// Adds a node over the tree, at 127.0.0.11 and so on.
    pub(crate) fn add_node(&mut self) {
        let tree = self.folder.path().join("tree").display().to_string();
        self.add_node_over(&["--root", &tree]);
    }

    /// Adds a node over this storage.
    pub(crate) fn add_node_over(&mut self, storage: &[&str]) {
        let name = self.join();
        let mut node = self.node(&name);
        node.args(["--front", &self.inner]).args(storage);
        let (node, _) = Member::start(&mut node, &["serving as a data node"]);
        self.nodes.push(node);
        self.wait_for(self.nodes.len());
    }

    /// Makes the folder of the next node; returns its name.
    fn join(&self) -> String {
        let (folder, name) = (self.folder.path(), format!("node{}", self.nodes.len() + 1));
        let mut token = program();
        token.args(["cluster", "token", "--cluster"]);
        token
            .arg(folder.join("front"))
            .args(["--address", &self.inner]);
        let token = run(&mut token);
        let mut join = cluster(folder, "join", &name);
        run(join.arg(token.trim()));
        name
    }

    /// The next node, with this name.
    fn node(&self, name: &str) -> Command {
        let mut node = program();
        let ip = format!("127.0.0.{}", 11 + self.nodes.len());
        node.args(["node", "--bind", &ip, "--cluster"]);
        node.arg(self.folder.path().join(name));
        node
    }

    /// Waits until so many nodes are connected.
    pub(crate) fn wait_for(&self, wanted: usize) {
        wait_until(|| self.listed().lines().count() == wanted);
    }

    /// The list of the nodes.
    fn listed(&self) -> String {
        let mut list = program();
        list.args(["nodes", "--front", &self.inner, "--cluster"]);
        run(list.arg(self.folder.path().join("front")))
    }

    /// The report of the only node.
    fn report(&self) -> Value {
        let mut list = program();
        list.args(["nodes", "--json", "--front", &self.inner, "--cluster"]);
        let listed = run(list.arg(self.folder.path().join("front")));
        serde_json::from_str(listed.trim()).unwrap()
    }

    pub(crate) fn freeze(&self, node: usize) {
        signal(&self.nodes[node], "STOP");
    }

    pub(crate) fn login(&self) -> Ftp {
        let mut ftp = Ftp::connect(self.address);
        ftp.login("anonymous", "x");
        ftp.ok("TYPE I", 200);
        ftp
    }

    pub(crate) fn get(&self, name: &str) -> Vec<u8> {
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

pub(crate) fn wait_until(mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "it does not come");
        // Each try may start a program.
        std::thread::sleep(Duration::from_millis(50));
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

/// As under a program that reads one line of its output.
#[test]
fn a_node_serves_without_standard_output() {
    let mut cluster = Cluster::with(&[]);
    let mut node = cluster.node(&cluster.join());
    node.arg("--root").arg(cluster.folder.path().join("tree"));
    node.args(["--front", &cluster.inner, "--cluster-listen", "127.0.0.1:0"]);
    let (reads, writes) = std::io::pipe().unwrap();
    drop(reads);
    let node = node.stdout(writes).stderr(Stdio::null()).spawn().unwrap();
    cluster.nodes.push(Member(node));
    cluster.wait_for(1);
    assert_eq!(cluster.login().store("STOR f", b"content").code, 226);
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
fn a_node_that_is_stopped_ends_its_transfers_first() {
    // The front end has the tree: the node serves no storage calls.
    let mut cluster = Cluster::with(&[]);
    cluster.add_node();
    let mut ftp = cluster.login();
    let content = bytes(4 * BLOCK);
    let mut data = ftp.data();
    ftp.ok("STOR f", 150);
    data.write(&content[..BLOCK]);
    signal(&cluster.nodes[0], "TERM");
    wait_until(|| cluster.listed().contains("draining"));
    data.write(&content[BLOCK..]);
    data.finish();
    let reply = ftp.outcome();
    assert_eq!(reply.code, 226, "{reply:?}");
    assert_eq!(cluster.get("f"), content);
    drop(ftp);
    assert!(cluster.nodes[0].0.wait().unwrap().success());
}

#[test]
fn the_stripes_of_a_front_end_are_bounded() {
    let mut cluster = Cluster::with(&["--stripes", "2"]);
    for _ in 0..3 {
        cluster.add_node();
    }
    let mut ftp = cluster.login();
    ftp.ok("MODE E", 200);
    let to = spas(&mut ftp);
    assert_eq!(to.len(), 2, "{to:?}");
    assert_ne!(to[0].ip(), to[1].ip());
}

#[test]
fn a_front_end_dials_the_nodes_of_its_list() {
    let mut cluster = Cluster::with(&[]);
    let mut node = cluster.node(&cluster.join());
    node.arg("--root").arg(cluster.folder.path().join("tree"));
    node.args(["--cluster-listen", "127.0.0.1:0"]);
    let lines = ["listening for front ends on ", "serving as a data node"];
    let (node, found) = Member::start(&mut node, &lines);
    cluster.nodes.push(node);
    // The first front end signed the certificate, and does not know the node.
    assert_eq!(cluster.listed(), "");
    let options = ["--node", &found[0]];
    (cluster.front, cluster.inner, cluster.address) =
        Cluster::front(cluster.folder.path(), &options);
    cluster.wait_for(1);
    let mut ftp = cluster.login();
    assert_eq!(ftp.store("STOR f", b"content").code, 226);
    assert_eq!(ftp.pasv().ip().to_string(), "127.0.0.11");
    assert_eq!(cluster.get("f"), b"content");
}

#[test]
fn nodes_report_their_load_and_free_space() {
    let mut cluster = Cluster::with(&[]);
    cluster.add_node();
    wait_until(|| {
        cluster.report()["free"]
            .as_u64()
            .is_some_and(|free| free > 0)
    });
    // The file changes every five seconds, the report every second.
    wait_until(|| {
        let file = fs::read_to_string("/proc/loadavg").unwrap();
        let now: Option<f64> = file.split(' ').next().and_then(|load| load.parse().ok());
        now == cluster.report()["load"].as_f64()
    });
    let mut cluster = Cluster::start();
    cluster.add_node_over(&["--storage", "memory"]);
    assert_eq!(cluster.report()["free"], Value::Null);
    assert!(cluster.listed().contains("free unknown"));
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
    // Those that send are listed where the client asks for them, and are no place for an upload.
    ftp.ok("OPTS SPAS Command=RETR;", 200);
    assert_eq!(spas(&mut ftp).len(), 2);
    let reply = ftp.cmd("STOR g");
    assert!(reply.text().contains("from one node only"), "{reply:?}");
    ftp.ok("OPTS SPAS Command=STOR;", 200);
    assert_eq!(spas(&mut ftp).len(), 1);
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
