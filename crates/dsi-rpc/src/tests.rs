//! Tests of both ends over connections in memory.

mod groups;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use byte_ranges::RangeSet;
use bytes::Bytes;
use gridftp_dsi::{
    Capabilities, Create, Dsi, DsiPath, DynDsi, ErrorKind, Finish, Listing, Memory, Partial, Sink,
    Source, User,
};
use gridftp_dsi_posix::Posix;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use tokio::io::DuplexStream;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tonic::Request;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;

use crate::convert::place;
use crate::handle::{GRACE, SHORT};
use crate::proto::Description;
use crate::proto::storage_server::StorageServer;
use crate::{Caller, Choice, MAX_HANDLES, Peer, Peers, Remote, Served};

/// Peers in this process, all over one storage.
#[derive(Debug)]
struct Local {
    can: Capabilities,
    peers: Mutex<Vec<(Peer, JoinHandle<()>)>>,
}

/// Serves `dsi` over a connection of its own.
async fn connect(name: &str, served: Served) -> (Peer, JoinHandle<()>) {
    let (here, there) = tokio::io::duplex(1 << 16);
    let service = TowerToHyperService::new(StorageServer::new(served));
    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(there), service);
    let serving = tokio::spawn(async move { drop(server.await) });
    (Peer::new(name, caller(here).await), serving)
}

async fn caller(stream: DuplexStream) -> Caller {
    let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    Caller::new(sender)
}

impl Local {
    async fn new(dsi: &Arc<dyn DynDsi>, count: usize) -> Self {
        let mut peers = Vec::new();
        for number in 0..count {
            let served = Served::new(Arc::clone(dsi));
            peers.push(connect(&number.to_string(), served).await);
        }
        let described = Description::from(&dsi.capabilities());
        Self {
            can: described.capabilities("remote"),
            peers: Mutex::new(peers),
        }
    }

    fn kill(&self, name: &str) {
        for (peer, serving) in &*self.peers.lock().unwrap() {
            if peer.name() == name {
                serving.abort();
            }
        }
    }
}

impl Peers for Arc<Local> {
    fn capabilities(&self) -> Capabilities {
        self.can.clone()
    }

    async fn peer(&self, _: Choice<'_>, tried: &[Peer]) -> io::Result<Peer> {
        let peers = self.peers.lock().unwrap();
        let mut rest = peers.iter().map(|(peer, _)| peer);
        let next = rest.find(|peer| tried.iter().all(|tried| tried.name() != peer.name()));
        next.cloned()
            .ok_or_else(|| io::Error::other("no peer is left"))
    }

    async fn descriptor(&self, _: u64) -> io::Result<OwnedFd> {
        unreachable!("bytes move by calls")
    }
}

async fn remote(dsi: impl Dsi, count: usize) -> (Remote<Arc<Local>>, Arc<Local>) {
    let dsi: Arc<dyn DynDsi> = Arc::new(dsi);
    let local = Arc::new(Local::new(&dsi, count).await);
    (Remote::new(Arc::clone(&local)), local)
}

fn ann() -> User {
    User::new("ann", DsiPath::root(), true)
}

fn path(text: &str) -> DsiPath {
    DsiPath::new(text.as_bytes()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_behind_calls_keeps_the_contract() {
    let dir = tempfile::tempdir().unwrap();
    let (remote, _) = remote(Posix::open(dir.path()).unwrap(), 1).await;
    let report = xio_testkit::dsi_suite::run(&remote).await;
    for case in [
        "bytes_may_be_written_in_any_order",
        "an_append_excludes_other_writers",
        "only_one_upload_resumes",
        "every_kind_of_upload_can_be_shared",
        "links_stay_inside_the_tree",
        "checksums_are_right",
        "attributes_are_kept",
    ] {
        assert!(report.passed.contains(&case), "{case}: {report:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_behind_calls_keeps_the_contract() {
    let (remote, _) = remote(Memory::new(), 1).await;
    let report = xio_testkit::dsi_suite::run(&remote).await;
    let case = "joined_writes_are_published_by_the_owner";
    assert!(report.passed.contains(&case), "{report:?}");
}

#[tokio::test]
async fn another_peer_gets_the_calls_of_one_that_is_gone() {
    let (remote, local) = remote(Memory::new(), 2).await;
    let (ann, whole) = (ann(), Create::Whole { size: None });
    let bound = remote.write(&ann, &path("/bound"), whole).await.unwrap();
    let source_of = |name: &'static str| {
        let (remote, ann) = (&remote, &ann);
        async move { remote.read(ann, &path(name)).await }
    };
    bound.write_at(0, Bytes::from_static(b"x")).await.unwrap();
    local.kill("0");
    // Bound to the peer that opened it.
    let failed = bound.finish(Finish::whole(1)).await.unwrap_err();
    let kinds = [ErrorKind::Unavailable, ErrorKind::Io];
    assert!(kinds.contains(&failed.kind()), "{failed}");
    remote.make_dir(&ann, &path("/made")).await.unwrap();
    let sink = remote.write(&ann, &path("/file"), whole).await.unwrap();
    sink.write_at(0, Bytes::from_static(b"new")).await.unwrap();
    sink.finish(Finish::whole(3)).await.unwrap();
    assert_eq!(source_of("/file").await.unwrap().size(), 3);
    let mut listing = remote.list(&ann, &DsiPath::root()).await.unwrap();
    assert_eq!(listing.next().await.unwrap().len(), 2);
    local.kill("1");
    let failed = source_of("/file").await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Unavailable);
}

#[tokio::test]
async fn handles_are_bounded_and_end_with_their_connection() {
    let (remote, local) = remote(Memory::new(), 2).await;
    let (ann, append) = (ann(), Create::Append);
    let full = remote.write(&ann, &path("/full"), append).await.unwrap();
    full.write_at(0, Bytes::from_static(b"x")).await.unwrap();
    full.finish(Finish::whole(1)).await.unwrap();
    let held = remote.write(&ann, &path("/busy"), append).await.unwrap();
    let mut open = Vec::new();
    for _ in 1..MAX_HANDLES {
        open.push(remote.read(&ann, &path("/busy")).await.unwrap());
    }
    let refused = remote.read(&ann, &path("/busy")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy);
    open.pop();
    // The close came first.
    open.push(remote.read(&ann, &path("/busy")).await.unwrap());
    let refused = remote.write(&ann, &path("/busy"), append).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Busy);
    // The storage was not called: the file would be empty.
    let emptied = Create::InPlace { truncate: true };
    let refused = remote.write(&ann, &path("/full"), emptied).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Busy);
    let full = remote.stat(&ann, &path("/full")).await.unwrap();
    assert_eq!(full.size, 1);
    local.kill("0");
    let begun = std::time::Instant::now();
    while let Err(error) = remote.write(&ann, &path("/busy"), append).await {
        // The end of the connection may be noticed by the call.
        let kinds = [ErrorKind::Busy, ErrorKind::Io];
        assert!(kinds.contains(&error.kind()), "{error}");
        assert!(begun.elapsed().as_secs() < 60, "the lock stays");
        tokio::task::yield_now().await;
    }
    drop((held, open));
}

#[tokio::test]
async fn bytes_do_not_cross_a_connection_for_control() {
    let dsi: Arc<dyn DynDsi> = Arc::new(Memory::new());
    let peer = connect("0", Served::new(Arc::clone(&dsi)).without_bytes()).await;
    let described = Description::from(&dsi.capabilities());
    let remote = Remote::new(Arc::new(Local {
        can: described.capabilities("remote"),
        peers: Mutex::new(vec![peer]),
    }));
    let (ann, whole) = (ann(), Create::Whole { size: None });
    let sink = remote.write(&ann, &path("/file"), whole).await.unwrap();
    let refused = sink.write_at(0, Bytes::from_static(b"x")).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
    // Another writes them; this end publishes.
    let token = sink.share(None).await.unwrap();
    let joined = dsi.join(&ann, &path("/file"), &token).await.unwrap();
    joined.write_at(0, Bytes::from_static(b"x")).await.unwrap();
    assert_eq!(sink.finish(Finish::whole(1)).await.unwrap().size, 1);
    let source = remote.read(&ann, &path("/file")).await.unwrap();
    let refused = source.read_at(0, bytes::BytesMut::with_capacity(1)).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
}

/// A peer whose connection ends with its first call, or that refuses all calls.
async fn failing(refuses: &'static str) -> (Peer, JoinHandle<()>) {
    let (here, there) = tokio::io::duplex(1 << 16);
    let end = Arc::new(Notify::new());
    let called = Arc::clone(&end);
    let served = Served::new(Arc::new(Memory::new()));
    let service = StorageServer::with_interceptor(served, move |request: Request<()>| {
        if !refuses.is_empty() {
            return Err(crate::refused(refuses));
        }
        called.notify_one();
        Ok(request)
    });
    let serving = tokio::spawn(async move {
        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(there), TowerToHyperService::new(service));
        tokio::select! {
            biased;
            () = end.notified() => {}
            served = server => drop(served),
        }
    });
    (Peer::new("failing", caller(here).await), serving)
}

/// The storage of such a peer, and of one that answers.
async fn behind(failing: (Peer, JoinHandle<()>)) -> Remote<Arc<Local>> {
    let (remote, local) = remote(Memory::new(), 1).await;
    local.peers.lock().unwrap().insert(0, failing);
    remote
}

#[tokio::test]
async fn only_calls_that_change_nothing_are_repeated_after_a_loss() {
    let remote = behind(failing("").await).await;
    remote.stat(&ann(), &DsiPath::root()).await.unwrap();
    for how in [Create::Whole { size: None }, Create::Append] {
        let remote = behind(failing("").await).await;
        let lost = remote.write(&ann(), &path("/file"), how).await;
        assert_eq!(lost.unwrap_err().kind(), ErrorKind::Io, "{how:?}");
    }
    let remote = behind(failing("").await).await;
    let lost = remote.make_dir(&ann(), &path("/new")).await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Io);
}

#[tokio::test]
async fn a_call_refused_because_of_its_caller_goes_to_another_peer() {
    let remote = behind(failing("revoked").await).await;
    remote.make_dir(&ann(), &path("/new")).await.unwrap();
}

#[tokio::test]
async fn a_malformed_finish_closes_the_file() {
    let (remote, local) = remote(Memory::new(), 1).await;
    let file = path("/file");
    let mut client = local.peers.lock().unwrap()[0].0.client();
    let request = crate::proto::CreateRequest {
        place: Some(place(&ann(), &file)),
        way: crate::proto::Way::Append.into(),
        size: None,
        handle: 1,
    };
    client.create(request.clone()).await.unwrap();
    let again = client.create(request).await.unwrap_err();
    assert!(again.message().contains("in use"), "{again}");
    let request = crate::proto::FinishRequest {
        handle: 1,
        checksum: Some(crate::proto::Digest {
            algorithm: "UNKNOWN".into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    client.finish(request).await.unwrap_err();
    remote.write(&ann(), &file, Create::Append).await.unwrap();
}

/// A storage that holds back its first reply to `call`, and the notice of that.
async fn holding_back(call: &'static str) -> (Remote<Arc<Local>>, Arc<Notify>) {
    let (here, there) = tokio::io::duplex(1 << 16);
    let server = StorageServer::new(Served::new(Arc::new(Memory::new())));
    let (called, is_over) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
    let tell = Arc::clone(&called);
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        let (mut server, tell, is_over) = (server.clone(), tell.clone(), is_over.clone());
        let is_it = request.uri().path().ends_with(call);
        async move {
            let reply = server.call(request).await;
            if is_it && !is_over.swap(true, Ordering::Relaxed) {
                tell.notify_one();
                return std::future::pending().await;
            }
            reply
        }
    });
    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(there), service);
    let serving = tokio::spawn(async move { drop(server.await) });
    (
        over(vec![(Peer::new("0", caller(here).await), serving)]),
        called,
    )
}

/// A storage of these peers.
fn over(peers: Vec<(Peer, JoinHandle<()>)>) -> Remote<Arc<Local>> {
    Remote::new(Arc::new(Local {
        can: Capabilities::new("remote", gridftp_dsi::WriteModel::Random),
        peers: Mutex::new(peers),
    }))
}

#[tokio::test]
async fn a_file_whose_opening_has_no_reply_is_closed() {
    let (remote, called) = holding_back("/Create").await;
    let (ann, file) = (ann(), path("/file"));
    tokio::select! {
        _ = remote.write(&ann, &file, Create::Append) => panic!("there is no reply"),
        () = called.notified() => {}
    }
    // An append excludes other writers.
    remote.write(&ann, &file, Create::Append).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_close_without_a_reply_delays_calls_by_seconds() {
    let (remote, called) = holding_back("/Close").await;
    let (ann, file) = (ann(), path("/file"));
    drop(remote.write(&ann, &file, Create::Append).await.unwrap());
    called.notified().await;
    let waited = async |at: &str| {
        let begun = Instant::now();
        remote.stat(&ann, &path(at)).await.unwrap();
        begun.elapsed()
    };
    // The close of a file changes its directory as well.
    for at in ["/file", "/"] {
        let waited = waited(at).await;
        assert!((GRACE..SHORT / 10).contains(&waited), "{at}: {waited:?}");
    }
    remote.make_dir(&ann, &path("/beside")).await.unwrap();
    let waited = waited("/beside").await;
    assert!(waited < GRACE, "{waited:?}");
}

/// A peer that answers nothing.
async fn silent(name: &str) -> (Peer, JoinHandle<()>) {
    let (here, there) = tokio::io::duplex(1 << 16);
    let silent = tokio::spawn(async move {
        let _there = there;
        std::future::pending().await
    });
    (Peer::new(name, caller(here).await), silent)
}

#[tokio::test(start_paused = true)]
async fn all_attempts_of_a_call_have_one_deadline() {
    let peers = vec![silent("0").await, silent("1").await];
    let begun = Instant::now();
    let late = over(peers).stat(&ann(), &DsiPath::root()).await;
    assert_eq!(late.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(begun.elapsed() < 2 * SHORT, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_of_data_beyond_one_reply_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let (remote, _) = remote(Posix::open(dir.path()).unwrap(), 1).await;
    let (ann, file, stride) = (ann(), path("/file"), 1 << 20);
    let whole = Create::Whole { size: None };
    let sink = remote.write(&ann, &file, whole).await.unwrap();
    for n in 0..10 {
        let block = Bytes::from_static(&[1; 1 << 16]);
        sink.write_at(n * stride, block).await.unwrap();
    }
    let data = sink.data().await.unwrap().unwrap();
    assert_eq!((data.len(), data.end()), (10, 9 * stride + (1 << 16)));
}

#[tokio::test]
async fn without_a_peer_nothing_is_said_of_partial_files() {
    let (remote, file) = (over(Vec::new()), path("/file"));
    let held = remote.held(&ann(), &file).await.unwrap_err();
    assert_eq!(held.kind(), ErrorKind::Unavailable);
    let dropped = remote.drop_held(&ann(), &file).await.unwrap_err();
    assert_eq!(dropped.kind(), ErrorKind::Unavailable);
    let listed = remote.partials(&ann(), &DsiPath::root()).await.unwrap_err();
    assert_eq!(listed.kind(), ErrorKind::Unavailable);
}

/// A peer of a version without the call for partial files.
async fn older(dsi: Arc<dyn DynDsi>) -> (Peer, JoinHandle<()>) {
    let (here, there) = tokio::io::duplex(1 << 16);
    let server = StorageServer::new(Served::new(dsi));
    let service = hyper::service::service_fn(move |mut request: hyper::Request<Incoming>| {
        let mut server = server.clone();
        if request.uri().path().ends_with("/Partials") {
            *request.uri_mut() = Uri::from_static("/gridftp.storage.v1.Storage/Unknown");
        }
        async move { server.call(request).await }
    });
    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(there), service);
    let serving = tokio::spawn(async move { drop(server.await) });
    (Peer::new("older", caller(here).await), serving)
}

#[tokio::test]
async fn the_partial_files_that_any_peer_knows_are_told_and_removed() {
    let (dir, indexes) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir(dir.path().join("d")).unwrap();
    let mut peers = vec![older(Arc::new(Memory::new())).await];
    for name in ["one", "two"] {
        // One tree; each has an index of its own.
        let index = indexes.path().join(name);
        let posix = Posix::open(dir.path()).unwrap().with_index(&index);
        let resume = Create::Resume { size: Some(9) };
        let file = path(&format!("/d/{name}"));
        let sink = posix.write(&ann(), &file, resume).await.unwrap();
        sink.write_at(0, Bytes::from_static(b"partial"))
            .await
            .unwrap();
        sink.checkpoint(&RangeSet::up_to(7), false).await.unwrap();
        drop(sink);
        peers.push(connect(name, Served::new(Arc::new(posix))).await);
    }
    let remote = over(peers);
    let listed = async |dir: &str| {
        let (found, is_cut) = remote.partials(&ann(), &path(dir)).await.unwrap();
        assert!(is_cut, "the older peer may keep others");
        let fact = |one: Partial| (String::from_utf8(one.name).unwrap(), one.held, one.size);
        found.into_iter().map(fact).collect::<Vec<_>>()
    };
    let fact = |name: &str| (name.to_owned(), 7_u64, Some(9_u64));
    assert_eq!(listed("/").await, [fact("d/one"), fact("d/two")]);
    assert_eq!(listed("/d").await, [fact("one"), fact("two")]);
    let missing = remote.partials(&ann(), &path("/none")).await;
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
    let alone = over(vec![older(Arc::new(Memory::new())).await]);
    let none = alone.partials(&ann(), &DsiPath::root()).await.unwrap();
    assert_eq!(none, (Vec::new(), false));
    // The files are those of each peer that serves the tree.
    let plain = Served::new(Arc::new(Posix::open(dir.path()).unwrap()));
    let serving = over(vec![connect("plain", plain).await]);
    for name in ["/d/one", "/d/two"] {
        serving.drop_held(&ann(), &path(name)).await.unwrap();
    }
    assert!(listed("/").await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_peer_without_an_answer_tells_no_partial_files() {
    let memory = async || connect("0", Served::new(Arc::new(Memory::new()))).await;
    let answered = over(vec![memory().await]);
    let listed = answered.partials(&ann(), &DsiPath::root()).await.unwrap();
    assert_eq!(listed, (Vec::new(), false));
    let whole = memory().await;
    let begun = Instant::now();
    let remote = over(vec![silent("1").await, whole, silent("2").await]);
    let listed = remote.partials(&ann(), &DsiPath::root()).await.unwrap();
    assert_eq!(listed, (Vec::new(), true));
    let remote = over(vec![silent("1").await]);
    let late = remote.partials(&ann(), &DsiPath::root()).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Unavailable);
    assert!(begun.elapsed() < 3 * SHORT, "{:?}", begun.elapsed());
}
