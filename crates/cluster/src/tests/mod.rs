//! Tests of front ends and nodes in one process, and their shared laboratory.

mod joining;
mod membership;
mod sessions;
mod silence;
mod storage;
mod trust;

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;

use gridftp_dsi::{DsiPath, DynDsi, Memory, User};

use crate::authority::{Authority, new_key, request};
use crate::folder::Folder;
use crate::identity::Role;
use crate::link::Work;
use crate::member::Member;
use crate::message::{FromNode, Open, SessionLimits, ToNode};
use crate::node::{Node, Replies, Requests, Serve};
use crate::nodes::{NodeHandle, Nodes};
use crate::report::Report;
use crate::session::NodeSession;

/// A cluster in a folder of its own.
struct Lab {
    folder: TempDir,
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        crate::init(folder.path().join("front"), "front").unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn front(&self) -> Arc<Member> {
        Member::load(self.path("front")).unwrap()
    }

    fn authority(&self) -> Authority {
        Authority::load(&Folder::new(self.path("front")))
            .unwrap()
            .unwrap()
    }

    /// Makes a member with files of its own.
    fn member(&self, role: Role, name: &str) -> Arc<Member> {
        self.member_for(role, name, Duration::from_secs(3600))
    }

    fn member_for(&self, role: Role, name: &str, lifetime: Duration) -> Arc<Member> {
        let authority = self.authority();
        let folder = Folder::new(self.path(name));
        folder.create().unwrap();
        fs::copy(self.path("front").join("ca.pem"), folder.path("ca.pem")).unwrap();
        let key = new_key(&folder).unwrap();
        let identity = authority.member(role, name).unwrap();
        let chain = authority.issue(&request(&key).unwrap(), &identity, lifetime);
        folder
            .write("cert.pem", chain.unwrap().as_bytes(), 0o644)
            .unwrap();
        Member::load(self.path(name)).unwrap()
    }

    fn nodes(&self) -> Nodes {
        Nodes::new(self.front(), "front 1.0").unwrap()
    }

    fn node(&self, name: &str, double: &Double) -> Node<Double> {
        let member = self.member(Role::Node, name);
        Node::new(member, Arc::new(double.clone()), "node 1.0").unwrap()
    }
}

/// A node's server: it answers a stack with `Done`, a drop of data with the end of the session, and
/// everything else not at all.
#[derive(Debug, Clone)]
struct Double {
    report: Arc<Mutex<Report>>,
    /// The beginnings and ends of sessions, by task.
    events: mpsc::UnboundedSender<String>,
    storage: Arc<dyn DynDsi>,
}

impl Double {
    fn new() -> (Self, mpsc::UnboundedReceiver<String>) {
        let (events, seen) = mpsc::unbounded_channel();
        let report = Report {
            capacity: 4,
            ..Report::default()
        };
        let report = Arc::new(Mutex::new(report));
        let storage = Arc::new(Memory::new());
        let double = Self {
            report,
            events,
            storage,
        };
        (double, seen)
    }

    fn set(&self, change: impl FnOnce(&mut Report)) {
        change(&mut self.report.lock().unwrap());
    }
}

/// Tells the end of a session, dropped or returned.
struct Told(mpsc::UnboundedSender<String>, String);

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.0.send(format!("{} ended", self.1));
    }
}

impl Serve for Double {
    async fn session(&self, open: Open, mut requests: Requests, replies: Replies) {
        let _ = self
            .events
            .send(format!("{} from {}", open.task, requests.front()));
        let _told = Told(self.events.clone(), open.task);
        while let Some(request) = requests.recv().await {
            match request {
                ToNode::Stack(..) => replies.send(FromNode::Done).await,
                ToNode::DropData => return,
                _ => {}
            }
        }
    }

    fn report(&self) -> Report {
        *self.report.lock().unwrap()
    }

    fn storage(&self) -> Option<Arc<dyn DynDsi>> {
        Some(Arc::clone(&self.storage))
    }

    fn drain(&self, draining: bool) {
        self.set(|report| report.draining = draining);
    }
}

fn open(task: &str) -> Open {
    Open {
        task: task.into(),
        client: "192.0.2.1:40000".parse().unwrap(),
        user: User::new("alice", DsiPath::root(), true),
        limits: SessionLimits {
            connect_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(300),
            max_streams: 64,
        },
    }
}

/// A front end with one node, `one`, that dials it.
struct Connected {
    lab: Lab,
    nodes: Nodes,
    address: SocketAddr,
    double: Double,
    events: mpsc::UnboundedReceiver<String>,
    _front: Work,
    node: Work,
}

impl Connected {
    async fn new() -> Self {
        let lab = Lab::new();
        let nodes = lab.nodes();
        let (address, front) = serve(&nodes).await;
        let (double, events) = Double::new();
        let node = dial(&lab.node("one", &double), address);
        until(&nodes, &["one"]).await;
        Self {
            lab,
            nodes,
            address,
            double,
            events,
            _front: front,
            node,
        }
    }

    /// Opens a session on the node.
    async fn session(&self, task: &str) -> NodeSession {
        let node = self.nodes.named("one").unwrap();
        node.session(open(task)).await.unwrap()
    }
}

/// Waits for an event that comes at once on an idle machine.
async fn soon<F: Future>(event: F) -> F::Output {
    timeout(Duration::from_secs(60), event)
        .await
        .expect("an event in a minute")
}

/// The next beginning or end of a session.
async fn next(events: &mut mpsc::UnboundedReceiver<String>) -> String {
    soon(events.recv()).await.unwrap()
}

/// Listens on a free port of loopback.
async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A front end that listens.
async fn serve(nodes: &Nodes) -> (SocketAddr, Work) {
    let (listener, address) = listener().await;
    let nodes = nodes.clone();
    let work = Work::spawn(async move { nodes.listen(listener).await });
    (address, work)
}

/// A node that dials a front end.
fn dial(node: &Node<Double>, front: SocketAddr) -> Work {
    let node = node.clone();
    Work::spawn(async move { node.dial(&front.to_string()).await })
}

/// Waits until the names of the connected nodes are these.
async fn until(nodes: &Nodes, names: &[&str]) {
    let mut changes = nodes.changes();
    while nodes.list().iter().map(|node| &node.name).ne(names) {
        soon(changes.changed()).await.unwrap();
    }
}

/// Opens a session on the node `one`, the only one, and waits for its beginning.
async fn begin(
    nodes: &Nodes,
    task: &str,
    events: &mut mpsc::UnboundedReceiver<String>,
) -> NodeSession {
    let session = handle(nodes, "one").await.session(open(task)).await;
    let front = &nodes.member().identity().name;
    assert_eq!(next(events).await, format!("{task} from {front}"));
    session.unwrap()
}

/// Waits until a node of this name is connected, and chooses it.
async fn handle(nodes: &Nodes, name: &str) -> NodeHandle {
    until(nodes, &[name]).await;
    nodes.named(name).unwrap()
}
