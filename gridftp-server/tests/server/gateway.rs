//! Another server as storage: the conformance suite over our own, a dead one, a loop.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use gridftp_dsi::{Create, Dsi, DsiPath, DynDsi, ErrorKind, Finish, Sink, Source, User};
use gridftp_dsi_gridftp::options::Security;
use gridftp_dsi_gridftp::{Config as Upstream, Gateway, words};
use gridftp_dsi_posix::Posix;
use gridftp_server::config::{Access, Config, Options};
use gridftp_server::{Control, Server};
use xio_testkit::dsi_suite;
use xio_testkit::ftp::{Reaction, ScriptedServer};

use crate::process::Daemon;
use crate::support::{PATIENCE, bytes};

/// A server over a directory, in this runtime.
///
/// As in the program, the storage is behind a pointer, which keeps its futures off the stack.
pub(crate) fn serve(storage: impl Dsi) -> (std::net::SocketAddr, Control<Arc<dyn DynDsi>>) {
    let storage: Arc<dyn DynDsi> = Arc::new(storage);
    let mut options = Options::default();
    options.bind = Some([127, 0, 0, 1].into());
    options.port = Some(0);
    options.anonymous = Some(Access::Rw);
    options.login_delay = Some(0);
    let server = Server::bind(Config::check(&options).unwrap(), storage).unwrap();
    let (address, control) = (server.local_addr(), server.control());
    tokio::spawn(server.run(std::future::pending(), std::future::pending()));
    (address, control)
}

pub(crate) fn upstream(address: impl std::fmt::Display) -> Upstream {
    Upstream::new(format!("ftp://{address}/"))
}

pub(crate) fn user() -> User {
    User::new("ann", DsiPath::root(), true)
}

pub(crate) fn path(text: &str) -> DsiPath {
    DsiPath::new(text.as_bytes()).unwrap()
}

/// The error and its cause.
pub(crate) fn told(error: &gridftp_dsi::Error) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    format!("{error}: {}", cause.unwrap_or_default())
}

async fn keeps_the_contract(choose: impl FnOnce(&mut Upstream)) {
    let dir = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let (address, _control) = serve(Posix::open(dir.path()).unwrap());
    let mut config = upstream(address);
    choose(&mut config);
    let gateway = Gateway::open(&config).unwrap();
    let report = Box::pin(dsi_suite::run(&gateway)).await;
    assert!(report.passed.len() > 30, "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_keeps_the_contract_of_storage() {
    keeps_the_contract(|_| ()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_in_mode_e_keeps_the_contract_of_storage() {
    let choose = |config: &mut Upstream| {
        (config.mode, config.streams) = (words::mode("E").unwrap(), 3);
    };
    keeps_the_contract(choose).await;
}

async fn read(source: &impl Source, offset: u64, len: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < len {
        let room = BytesMut::with_capacity((len - all.len()).min(100_000));
        let some = source
            .read_at(offset + all.len() as u64, room)
            .await
            .unwrap();
        assert!(!some.is_empty(), "it ends after {} bytes", all.len());
        all.extend_from_slice(&some);
    }
    all
}

/// Connections of one download read their blocks each in its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn distant_parts_of_a_file_are_read_at_once() {
    const PART: usize = 3 << 20;
    let dir = tempfile::tempdir().unwrap();
    let file = bytes(6 * PART);
    std::fs::write(dir.path().join("f"), &file).unwrap();
    let (address, _control) = serve(Posix::open(dir.path()).unwrap());
    let gateway = Gateway::open(&upstream(address)).unwrap();
    let source = gateway.read(&user(), &path("/f")).await.unwrap();
    let parts = [5, 0, 3, 1, 4, 2].map(|part| async move { part * PART });
    let mut all = vec![Vec::new(); 6];
    let mut tasks = tokio::task::JoinSet::new();
    let source = Arc::new(source);
    for part in parts {
        let (at, source) = (part.await, Arc::clone(&source));
        tasks.spawn(async move { (at / PART, read(&*source, at as u64, PART).await) });
    }
    while let Some(done) = tasks.join_next().await {
        let (part, read) = done.unwrap();
        all[part] = read;
    }
    assert!(all.concat() == file, "other bytes");
    source.unchanged().await.unwrap();
}

/// The recorded bytes are at the upstream, and need nothing of the gateway.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_goes_on_through_a_restarted_gateway() {
    let dir = tempfile::tempdir().unwrap();
    let (address, control) = serve(Posix::open(dir.path()).unwrap());
    let file = bytes(2_000_000);
    let half = Bytes::copy_from_slice(&file[..1_000_000]);
    let sink = {
        let gateway = Gateway::open(&upstream(address)).unwrap();
        let how = Create::Whole { size: None };
        gateway.write(&user(), &path("/f"), how).await.unwrap()
    };
    sink.write_at(0, half).await.unwrap();
    let held = byte_ranges::RangeSet::up_to(1_000_000);
    sink.checkpoint(&held, false).await.unwrap();
    drop(sink);
    let begun = Instant::now();
    while control.sessions() > 0 {
        assert!(
            begun.elapsed() < PATIENCE,
            "the session of a dropped gateway stays"
        );
        tokio::task::yield_now().await;
    }
    assert!(!dir.path().join("f").exists());
    let gateway = Gateway::open(&upstream(address)).unwrap();
    assert_eq!(gateway.held(&user(), &path("/f")).await.unwrap(), held);
    let how = Create::Resume { size: None };
    let sink = gateway.write(&user(), &path("/f"), how).await.unwrap();
    assert_eq!(sink.held(), held);
    let rest = Bytes::copy_from_slice(&file[1_000_000..]);
    sink.write_at(1_000_000, rest).await.unwrap();
    sink.finish(Finish::whole(2_000_000)).await.unwrap();
    assert!(std::fs::read(dir.path().join("f")).unwrap() == file);
    let left = std::fs::read_dir(dir.path()).unwrap();
    let names: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert!(
        names
            .iter()
            .all(|name| !name.to_string_lossy().contains("gateway")),
        "{names:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_are_bounded_and_idle_ones_are_closed() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), bytes(8 << 20)).unwrap();
    let (address, control) = serve(Posix::open(dir.path()).unwrap());
    let mut config = upstream(address);
    config.sessions = 1;
    config.idle = Duration::from_millis(300);
    config.connect_timeout = Duration::from_millis(500);
    let gateway = Gateway::open(&config).unwrap();
    let source = gateway.read(&user(), &path("/f")).await.unwrap();
    read(&source, 0, 1000).await;
    let refused = gateway.stat(&user(), &path("/f")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Busy);
    assert!(
        told(&refused).contains("all 1 sessions"),
        "{}",
        told(&refused)
    );
    drop(source);
    gateway.stat(&user(), &path("/f")).await.unwrap();
    let begun = Instant::now();
    while control.sessions() > 0 {
        assert!(begun.elapsed() < PATIENCE, "an idle session stays");
        tokio::task::yield_now().await;
    }
    gateway.stat(&user(), &path("/f")).await.unwrap();
}

/// A user can ask for the name of a probe as often as for any other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_of_other_gateways_leave_no_sessions() {
    let dir = tempfile::tempdir().unwrap();
    let (address, control) = serve(Posix::open(dir.path()).unwrap());
    let mut config = upstream(address);
    config.sessions = 1;
    let gateway = Gateway::open(&config).unwrap();
    for _ in 0..5 {
        gateway.stat(&user(), &path("/")).await.unwrap();
        let probe = path("/.gridftp-loop-1-x");
        gateway.stat(&user(), &probe).await.unwrap_err();
    }
    gateway.stat(&user(), &path("/")).await.unwrap();
    let begun = Instant::now();
    while control.sessions() > 1 {
        let left = control.sessions();
        assert!(begun.elapsed() < PATIENCE, "{left} sessions stay");
        tokio::task::yield_now().await;
    }
}

/// A plain server that replaces no file by a name, and hangs up at the third RNTO if it `breaks`.
fn replaces_nothing(breaks: bool) -> ScriptedServer {
    let script = move |server: &ScriptedServer, line: &str| match (
        line.starts_with("RNTO"),
        server.count("RNTO"),
    ) {
        (true, 1) => Reaction::say("553 the file already exists"),
        (true, 3) if breaks => Reaction::HangUp(String::new()),
        _ => Reaction::Usual,
    };
    let server = ScriptedServer::with(script).unwrap();
    server.file("/f", "old");
    server
}

async fn begin(server: &ScriptedServer) -> (Gateway, gridftp_dsi_gridftp::GatewaySink) {
    let gateway = Gateway::open(&Upstream::new(server.url(""))).unwrap();
    let how = Create::Whole { size: None };
    let sink = gateway.write(&user(), &path("/f"), how).await.unwrap();
    (gateway, sink)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_replaced_where_a_rename_does_not_replace() {
    let server = replaces_nothing(false);
    let (_gateway, sink) = begin(&server).await;
    sink.write_at(0, Bytes::from_static(b"newer"))
        .await
        .unwrap();
    sink.finish(Finish::whole(5)).await.unwrap();
    assert_eq!(server.bytes("/f").unwrap(), b"newer");
    assert_eq!(server.files(), ["/f"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replacement_that_breaks_loses_neither_file() {
    let server = replaces_nothing(true);
    let (_gateway, sink) = begin(&server).await;
    sink.write_at(0, Bytes::from_static(b"newer"))
        .await
        .unwrap();
    sink.finish(Finish::whole(5)).await.unwrap_err();
    let begun = Instant::now();
    while server.bytes("/f").is_none() {
        assert!(begun.elapsed() < PATIENCE, "{:?}", server.files());
        tokio::task::yield_now().await;
    }
    assert_eq!(server.bytes("/f").unwrap(), b"old");
    let contents: Vec<_> = server
        .files()
        .iter()
        .flat_map(|f| server.bytes(f))
        .collect();
    assert!(
        contents.contains(&b"newer".to_vec()),
        "{:?}",
        server.files()
    );
}

/// A part of a file that several connections bring may have holes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_goes_over_one_connection() {
    let raw = Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = Arc::clone(&raw);
    let script = move |server: &ScriptedServer, line: &str| {
        if let Some(file) = line.strip_prefix("MIDWAY STOR ") {
            *kept.lock().unwrap() = server.bytes(file).unwrap();
            return Reaction::HangUp(String::new());
        }
        match line.split(' ').next() {
            Some("MODE" | "OPTS") => Reaction::Execute,
            Some("STOR") => Reaction::Until(1_000_000),
            _ => Reaction::Usual,
        }
    };
    let server = ScriptedServer::with(script).unwrap();
    let mut config = Upstream::new(server.url(""));
    (config.mode, config.streams) = (words::mode("E").unwrap(), 3);
    config.end_timeout = Duration::from_secs(5);
    let gateway = Gateway::open(&config).unwrap();
    let how = Create::Whole { size: None };
    let sink = gateway.write(&user(), &path("/f"), how).await.unwrap();
    let file = bytes(1_000_000);
    sink.write_at(0, Bytes::copy_from_slice(&file))
        .await
        .unwrap();
    // The server hangs up when it has most of the blocks.
    sink.finish(Finish::whole(1_000_000)).await.unwrap_err();
    let raw = raw.lock().unwrap().clone();
    let (mut rest, mut at) = (raw.as_slice(), 0);
    while let Some((header, more)) = rest.split_first_chunk::<17>() {
        let number = |at: usize| u64::from_be_bytes(header[at..at + 8].try_into().unwrap());
        let (count, offset) = (usize::try_from(number(1)).unwrap(), number(9));
        if count > 0 {
            assert_eq!(offset, at as u64, "{:?}", server.commands());
        }
        let (payload, more) = more.split_at(count.min(more.len()));
        assert!(file[at..].starts_with(payload), "other bytes");
        (at, rest) = (at + payload.len(), more);
    }
    assert!(at > 900_000, "{at}: {:?}", server.commands());
}

/// Bytes on the way to the upstream are lost with the connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_are_recorded_once_the_upstream_confirms_them() {
    let script = |line: &str| match line.starts_with("END APPE") {
        true => Reaction::say("451 the disk fails"),
        false => Reaction::Usual,
    };
    let server = ScriptedServer::start(script).unwrap();
    let (_gateway, sink) = begin(&server).await;
    let up_to = byte_ranges::RangeSet::up_to;
    sink.write_at(0, Bytes::from_static(b"01234"))
        .await
        .unwrap();
    let refused = sink.checkpoint(&up_to(5), true).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{}", told(&refused));
    sink.checkpoint(&up_to(5), false).await.unwrap();
    let hidden = server.files().pop().unwrap();
    assert_eq!(server.bytes(&hidden).unwrap(), b"01234");
    sink.write_at(5, Bytes::from_static(b"56789"))
        .await
        .unwrap();
    let refused = sink.checkpoint(&up_to(10), false).await.unwrap_err();
    assert!(
        told(&refused).contains("the disk fails"),
        "{}",
        told(&refused)
    );
}

/// A gateway behind a gateway appends to no file, so that nothing is recorded there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_through_two_gateways_is_not_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let (address, _far) = serve(Posix::open(dir.path()).unwrap());
    let (address, _middle) = serve(Gateway::open(&upstream(address)).unwrap());
    let gateway = Gateway::open(&upstream(address)).unwrap();
    let how = Create::Whole { size: None };
    let sink = gateway.write(&user(), &path("/f"), how).await.unwrap();
    sink.write_at(0, Bytes::from_static(b"01234"))
        .await
        .unwrap();
    let held = byte_ranges::RangeSet::up_to(5);
    let refused = sink.checkpoint(&held, false).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{}", told(&refused));
    sink.write_at(5, Bytes::from_static(b"56789"))
        .await
        .unwrap();
    sink.finish(Finish::whole(10)).await.unwrap();
    assert_eq!(std::fs::read(dir.path().join("f")).unwrap(), b"0123456789");
    let mut names = std::fs::read_dir(dir.path()).unwrap().flatten();
    let is_left = |name: &std::ffi::OsStr| name.to_string_lossy().contains("gateway");
    assert!(!names.any(|entry| is_left(&entry.file_name())));
}

/// Nobody listens there: the error names the place, and the next command tries again.
#[tokio::test]
async fn an_upstream_that_is_gone_fails_the_command_with_its_name() {
    let place = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = place.local_addr().unwrap();
    drop(place);
    let gateway = Gateway::open(&upstream(address)).unwrap();
    for _ in 0..2 {
        let refused = gateway.stat(&user(), &path("/f")).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Io);
        let told = told(&refused);
        assert!(
            told.contains(&format!("upstream ftp://{address}: connect")),
            "{told}"
        );
    }
}

/// A server that accepts and says nothing.
#[tokio::test]
async fn an_upstream_that_is_silent_fails_the_command_in_time() {
    let place = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = upstream(place.local_addr().unwrap());
    config.connect_timeout = Duration::from_millis(300);
    let gateway = Gateway::open(&config).unwrap();
    let begun = Instant::now();
    let refused = gateway.stat(&user(), &path("/f")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Io);
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn the_words_of_the_upstream_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let (address, _control) = serve(Posix::open(dir.path()).unwrap());
    let gateway = Gateway::open(&upstream(address)).unwrap();
    let refused = gateway.stat(&user(), &path("/none")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    let told = told(&refused);
    assert!(
        told.contains(&format!("upstream ftp://{address}: MLST /none: 550 ")),
        "{told}"
    );
}

#[tokio::test]
async fn no_password_is_sent_without_the_demanded_tls() {
    let dir = tempfile::tempdir().unwrap();
    let accounts = dir.path().join("accounts");
    std::fs::write(&accounts, "default login ann password secret\n").unwrap();
    set_private(&accounts);
    let (address, _control) = serve(Posix::open(dir.path()).unwrap());
    let mut config = upstream(address);
    config.netrc = Some(accounts);
    // The server has no TLS; with a demand for it no password is sent, and none is believed.
    config.security = Security::Tls;
    let gateway = Gateway::open(&config).unwrap();
    let refused = gateway.stat(&user(), &path("/")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied);
    let told = told(&refused);
    assert!(
        told.contains("AUTH TLS") && !told.contains("secret"),
        "{told}"
    );
}

fn set_private(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// The gateway's server, behind a relay whose address is known before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_to_itself_refuses() {
    let relay = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = upstream(relay.local_addr().unwrap());
    config.sessions = 4;
    let gateway = Gateway::open(&config).unwrap();
    let (address, control) = serve(Gateway::open(&config).unwrap());
    let _ = control;
    tokio::spawn(async move {
        while let Ok((mut near, _)) = relay.accept().await {
            tokio::spawn(async move {
                let mut far = tokio::net::TcpStream::connect(address).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    let begun = Instant::now();
    let refused = gateway.stat(&user(), &path("/f")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied, "{}", told(&refused));
    assert!(
        told(&refused).contains("its own upstream"),
        "{}",
        told(&refused)
    );
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
}

/// The program: a client, a server in front, and one behind it.
#[test]
fn files_move_through_the_storage_gridftp() {
    let (near, far) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir(far.path().join("data")).unwrap();
    let upstream = Daemon::start(far.path(), &["--anonymous", "rw"]);
    let storage = format!("gridftp:url=ftp://{}/data", upstream.address);
    let gateway = Daemon::start(near.path(), &["--anonymous", "rw", "--storage", &storage]);
    let file = bytes(3_000_000);
    for mode in ["S", "E"] {
        let mut ftp = gateway.login();
        ftp.ok(&format!("MODE {mode}"), 200);
        let mut data = ftp.data();
        ftp.ok("STOR f", 150);
        match mode {
            "S" => data.write(&file),
            _ => {
                data.block(0, 0, &file[..10]);
                data.block(0, 10, &file[10..]);
                data.end(1);
            }
        }
        data.finish();
        assert_eq!(ftp.outcome().code, 226);
        let missing = ftp.cmd("SIZE none");
        assert_eq!(missing.code, 550, "{missing:?}");
        assert!(missing.lines[0].contains("upstream ftp://"), "{missing:?}");
    }
}

/// Its hidden file is all that the directory has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_with_an_upload_under_way_is_not_empty() {
    let server = ScriptedServer::with(|_: &ScriptedServer, _: &str| Reaction::Usual).unwrap();
    let gateway = Gateway::open(&Upstream::new(server.url(""))).unwrap();
    gateway.make_dir(&user(), &path("/d")).await.unwrap();
    let how = Create::Whole { size: None };
    let sink = gateway.write(&user(), &path("/d/f"), how).await.unwrap();
    sink.write_at(0, Bytes::from_static(b"half")).await.unwrap();
    let refused = gateway.remove_dir(&user(), &path("/d")).await.unwrap_err();
    assert_eq!(
        refused.kind(),
        ErrorKind::NotEmpty,
        "{:?}",
        server.commands()
    );
    sink.finish(Finish::whole(4)).await.unwrap();
    assert_eq!(server.bytes("/d/f").unwrap(), b"half");
}
