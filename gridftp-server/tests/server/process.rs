//! The daemon as a process: its flags, its files, its signals, and its state after it is killed.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use gridftp_server::storage::{KINDS, LAYERS};

use crate::support::{Ftp, PATIENCE, bytes, hidden};

pub(crate) fn program() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_gridftp-server"));
    program.env("TZ", "America/New_York");
    program
}

/// A running daemon, killed when dropped.
pub(crate) struct Daemon {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Daemon {
    pub(crate) fn start(root: &Path, flags: &[&str]) -> Self {
        Self::start_logging_to(Stdio::piped(), root, flags)
    }

    pub(crate) fn start_logging_to(log: impl Into<Stdio>, root: &Path, flags: &[&str]) -> Self {
        Self::spawn(program(), log, root, flags)
    }

    /// A daemon under a limit of the shell, `-n 64` for one.
    pub(crate) fn limited(limit: &str, root: &Path, flags: &[&str]) -> Self {
        let mut command = Command::new("sh");
        let script = format!("ulimit {limit} && exec \"$0\" \"$@\"");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_gridftp-server")]);
        Self::spawn(command, Stdio::null(), root, flags)
    }

    fn spawn(mut command: Command, log: impl Into<Stdio>, root: &Path, flags: &[&str]) -> Self {
        let mut child = command
            .args(["--bind", "127.0.0.1", "--port", "0", "--root"])
            .arg(root)
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line
            .trim_end()
            .strip_prefix("listening on ")
            .expect(&line)
            .parse()
            .unwrap();
        Self { child, address }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn login(&self) -> Ftp {
        let mut ftp = Ftp::connect(self.address);
        ftp.login("anonymous", "x");
        ftp.ok("TYPE I", 200);
        ftp
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([&format!("-{name}"), &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// Waits for the end; the exit status and the log.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < PATIENCE, "it does not end");
            std::thread::yield_now();
        };
        let mut log = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            stderr.read_to_string(&mut log).unwrap();
        }
        (status.code(), log)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub(crate) fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn sigterm_lets_a_transfer_end_and_then_stops() {
    let root = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(root.path(), &["--anonymous", "rw"]);
    let mut idle = daemon.login();
    let mut ftp = daemon.login();
    let mut data = ftp.data();
    ftp.ok("STOR f", 150);
    data.write(b"before ");
    daemon.signal("TERM");
    assert_eq!(idle.reply().code, 421, "an idle session is sent away");
    assert!(std::net::TcpStream::connect(daemon.address).is_err() || idle.try_reply().is_none());
    data.write(b"and after");
    data.finish();
    assert_eq!(ftp.outcome().code, 226);
    let (status, log) = daemon.end();
    assert_eq!(status, Some(0), "{log}");
    assert_eq!(
        fs::read(root.path().join("f")).unwrap(),
        b"before and after"
    );
}

/// RFC 3659 §2.3: times on the wire are UTC, where the server is and whatever the season there.
#[test]
fn times_are_those_of_no_zone() {
    let root = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(root.path(), &["--anonymous", "rw"]);
    let mut ftp = daemon.login();
    assert_eq!(ftp.store("STOR f", b"x").code, 226);
    for time in ["20260101120000", "20260701120000"] {
        ftp.send(&format!("MFMT {time} f"));
        assert_eq!(ftp.reply().code / 100, 2);
        assert_eq!(ftp.ok("MDTM f", 213).lines, [format!("213 {time}")]);
        let modified = fs::metadata(root.path().join("f")).unwrap().modified();
        let since = modified.unwrap().duration_since(std::time::UNIX_EPOCH);
        assert_eq!(
            since.unwrap().as_secs() % 86_400,
            43_200,
            "not at noon of UTC"
        );
    }
}

#[test]
fn sigterm_under_load_ends_every_transfer_in_good_order() {
    let root = tempfile::tempdir().unwrap();
    let file = bytes(3_000_000);
    fs::write(root.path().join("source"), &file).unwrap();
    let daemon = Daemon::start(root.path(), &["--anonymous", "rw"]);
    let mut up = Vec::new();
    let mut down = Vec::new();
    for i in 0..20 {
        let mut ftp = daemon.login();
        if i % 2 == 0 {
            let data = ftp.data();
            ftp.ok("RETR source", 150);
            down.push((ftp, data));
            continue;
        }
        ftp.ok("MODE E", 200);
        ftp.ok("TREV RESTART 1", 200);
        let mut data = ftp.data();
        ftp.ok(&format!("STOR f{i}"), 150);
        data.block(0, 0, &file[..1_000_000]);
        up.push((ftp, data, i));
    }
    let mut idle = daemon.login();
    daemon.signal("TERM");
    assert_eq!(idle.reply().code, 421);
    assert!(std::net::TcpStream::connect(daemon.address).is_err());
    for (ftp, data, i) in &mut up {
        data.block(0, 1_000_000, &file[1_000_000..]);
        data.end(1);
        let marked = std::iter::from_fn(|| Some(ftp.reply())).find(|reply| reply.code >= 200);
        assert_eq!(marked.unwrap().code, 226);
        assert!(fs::read(root.path().join(format!("f{i}"))).unwrap() == file);
    }
    for (mut ftp, data) in down {
        assert!(data.read() == file);
        assert_eq!(ftp.outcome().code, 226);
    }
    for (mut ftp, ..) in up {
        assert_eq!(ftp.reply().code, 421);
    }
    assert_eq!(daemon.end().0, Some(0));
    assert_eq!(hidden(root.path()), Vec::<String>::new());
}

#[test]
fn a_second_sigterm_does_not_wait_for_transfers() {
    let root = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(
        root.path(),
        &["--anonymous", "rw", "--drain-timeout", "3600"],
    );
    let mut idle = daemon.login();
    let mut ftp = daemon.login();
    let mut data = ftp.data();
    ftp.ok("STOR f", 150);
    data.write(b"never ends");
    daemon.signal("TERM");
    assert_eq!(idle.reply().code, 421);
    daemon.signal("TERM");
    assert_eq!(ftp.outcome().code, 426);
    assert_eq!(ftp.reply().code, 421);
    let (status, log) = daemon.end();
    assert_eq!(status, Some(0), "{log}");
    assert!(!root.path().join("f").exists());
}

#[test]
fn sigterm_ends_a_transfer_that_takes_too_long() {
    let root = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(root.path(), &["--anonymous", "rw", "--drain-timeout", "1"]);
    let mut ftp = daemon.login();
    let mut data = ftp.data();
    ftp.ok("STOR f", 150);
    data.write(b"never ends");
    daemon.signal("TERM");
    assert_eq!(ftp.outcome().code, 426);
    assert_eq!(ftp.reply().code, 421);
    let (status, log) = daemon.end();
    assert_eq!(status, Some(0), "{log}");
    assert!(
        log.contains("the server is stopping") && !log.contains("by the client"),
        "{log}"
    );
    assert!(!root.path().join("f").exists());
    // The received data is kept.
    let daemon = Daemon::start(root.path(), &["--anonymous", "rw"]);
    let mut ftp = daemon.login();
    ftp.ok("REST 6", 350);
    assert_eq!(ftp.store("STOR f", b"ended").code, 226);
    assert_eq!(fs::read(root.path().join("f")).unwrap(), b"never ended");
}

/// A file to be read by the server, made one that is never at an end: the thread that reads it
/// cannot be stopped.
#[test]
fn sigterm_waits_for_no_thread_that_storage_keeps() {
    let root = tempfile::tempdir().unwrap();
    let config = root.path().join("gridftp.toml");
    fs::write(&config, "anonymous = \"ro\"\n").unwrap();
    let flags = ["--config", config.to_str().unwrap(), "--drain-timeout", "0"];
    let daemon = Daemon::start(root.path(), &flags);
    fs::remove_file(&config).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &config,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    daemon.signal("HUP");
    // Opening it for reading waits for a writer, which learns that there is a reader.
    let mut writer = fs::File::options().write(true).open(&config).unwrap();
    let start = Instant::now();
    daemon.signal("TERM");
    let (status, log) = daemon.end();
    assert_eq!(status, Some(0), "{log}");
    assert!(start.elapsed() < Duration::from_secs(5), "{log}");
    drop(writer.write_all(b"too late"));
}

/// Hashing the partial file of an upload with a digest, without an end in sight.
#[test]
fn sigterm_waits_for_no_digest_of_an_upload() {
    let root = tempfile::tempdir().unwrap();
    let endless: u64 = 1 << 43;
    let file = fs::File::create(root.path().join("f")).unwrap();
    file.set_len(endless).unwrap();
    let daemon = Daemon::start(
        root.path(),
        &["--anonymous", "rw", "--in-place", "--drain-timeout", "1"],
    );
    let mut hashing = daemon.login();
    hashing.send("CKSM MD5 0 -1 f");
    let mut ftp = daemon.login();
    ftp.ok("SCKS MD5 25f9e794323b453885f5181f1b624d0b", 200);
    ftp.ok(&format!("REST {endless}"), 350);
    let data = ftp.data();
    ftp.ok("STOR f", 150);
    data.finish();
    let start = Instant::now();
    daemon.signal("TERM");
    let (status, log) = daemon.end();
    assert_eq!(status, Some(0), "{log}");
    assert!(start.elapsed() < Duration::from_secs(6), "{log}");
}

#[test]
fn sigkill_in_mid_upload_leaves_no_final_name_and_rest_continues() {
    let root = tempfile::tempdir().unwrap();
    let file = bytes(2_000_000);
    let daemon = Daemon::start(root.path(), &["--anonymous", "rw"]);
    let mut ftp = daemon.login();
    ftp.ok("MODE E", 200);
    ftp.ok("TREV RESTART 1", 200);
    let mut data = ftp.data();
    ftp.ok("STOR f", 150);
    data.block(0, 0, &file[..500_000]);
    data.block(0, 700_000, &file[700_000..900_000]);
    // The client relies on the ranges of the marker alone.
    let marker = loop {
        let reply = ftp.reply();
        if reply.code == 111 {
            break reply;
        }
    };
    daemon.signal("KILL");
    let (status, _) = daemon.end();
    assert_eq!(status, None);
    assert!(!root.path().join("f").exists());

    let daemon = Daemon::start(root.path(), &["--anonymous", "rw"]);
    let mut ftp = daemon.login();
    ftp.ok("MODE E", 200);
    let held = marker.text().replace("111 Range Marker ", "");
    ftp.ok(&format!("REST {held}"), 350);
    let mut data = ftp.data();
    ftp.ok("STOR f", 150);
    // The marked range is not sent again on its own, but may be part of a larger piece.
    let spans: Vec<(usize, usize)> = held
        .split(',')
        .map(|span| {
            span.split_once('-')
                .map(|(a, b)| (a.parse().unwrap(), b.parse().unwrap()))
                .unwrap()
        })
        .collect();
    let mut at = 0;
    for (start, end) in spans.into_iter().chain([(file.len(), file.len())]) {
        if start > at {
            data.block(0, at as u64, &file[at..start]);
        }
        at = end;
    }
    data.end(1);
    let reply = ftp.outcome();
    assert_eq!(reply.code, 226, "{reply:?}");
    assert!(fs::read(root.path().join("f")).unwrap() == file);
    assert_eq!(hidden(root.path()), Vec::<String>::new());
}

#[test]
fn sighup_reads_accounts_again_and_a_broken_file_changes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let config = root.path().join("gridftp.toml");
    fs::write(&config, "anonymous = \"ro\"\n").unwrap();
    let log = root.path().join("log");
    let daemon = Daemon::start_logging_to(
        fs::File::create(&log).unwrap(),
        root.path(),
        &["--config", config.to_str().unwrap(), "--login-delay", "0"],
    );
    daemon.login();
    let until = |wanted: u16| {
        let start = Instant::now();
        loop {
            let mut ftp = Ftp::connect(daemon.address);
            ftp.ok("USER anonymous", 331);
            if ftp.cmd("PASS x").code == wanted {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "no {wanted} after the reload");
        }
    };
    fs::write(&config, "max-sessions = 5\n").unwrap();
    daemon.signal("HUP");
    until(530);
    fs::write(&config, "anonymous = \"rw\"\n").unwrap();
    daemon.signal("HUP");
    until(230);
    let logged = |wanted: &str| {
        let start = Instant::now();
        loop {
            let log = fs::read_to_string(&log).unwrap();
            if log.contains(wanted) {
                return log;
            }
            assert!(start.elapsed() < PATIENCE, "no {wanted} in {log}");
            std::thread::yield_now();
        }
    };
    assert!(!logged("read again").contains("until a restart"));
    fs::write(&config, "anonymous = \"rw\"\ndata-ports = \"50000\"\n").unwrap();
    daemon.signal("HUP");
    assert!(logged("until a restart").contains("options=\"data-ports\""));
    fs::write(&config, "anonymos = \"ro\"\n").unwrap();
    daemon.signal("HUP");
    let log = logged("kept as it was");
    assert!(log.contains("line 1, column 1"), "{log}");
    daemon.login();
    let users = root.path().join("users");
    fs::write(&users, "# staff\nann:no hash\n").unwrap();
    fs::write(&config, format!("anonymous = \"ro\"\nusers = {users:?}\n")).unwrap();
    daemon.signal("HUP");
    logged("line 2: password hash of an unknown kind");
    daemon.login();
    daemon.signal("TERM");
    assert_eq!(daemon.end().0, Some(0));
}

#[test]
fn every_transfer_leaves_a_line_failed_ones_too() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("f"), "12345").unwrap();
    let daemon = Daemon::start(root.path(), &["--anonymous", "ro", "--log-format", "json"]);
    let mut ftp = daemon.login();
    ftp.ok("SITE TASKID job-7", 250);
    assert_eq!(ftp.fetch("f"), b"12345");
    ftp.pasv();
    ftp.ok("RETR nothing", 550);
    drop(ftp);
    daemon.signal("TERM");
    let (_, log) = daemon.end();
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("\"message\":\"transfer\""))
        .collect();
    assert_eq!(lines.len(), 2, "{log}");
    for wanted in [
        "\"user\":\"anonymous\"",
        "\"path\":\"/f\"",
        "\"bytes\":5",
        "\"streams\":1",
        "\"task\":\"job-7\"",
        "\"result\":\"ok\"",
        "\"seconds\":",
    ] {
        assert!(
            lines[0].contains(wanted),
            "{wanted} is missing in {}",
            lines[0]
        );
    }
    assert!(
        lines[1].contains("/nothing") && !lines[1].contains("\"ok\""),
        "{}",
        lines[1]
    );
}

/// A name is one value of one line, whatever it holds.
#[test]
fn a_name_makes_up_no_field_of_the_log() {
    let root = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(root.path(), &["--anonymous", "rw"]);
    let mut ftp = daemon.login();
    for name in [" x bytes=7 user=root", "x\x1b[2J\" result=\"ok", "plain"] {
        ftp.pasv();
        ftp.ok(&format!("RETR {name}"), 550);
    }
    ftp.ok("SITE TASKID a b=c", 250);
    ftp.pasv();
    ftp.ok("RETR plain", 550);
    daemon.signal("TERM");
    let (_, log) = daemon.end();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(" verb=")).collect();
    assert_eq!(lines.len(), 4, "{log}");
    for (line, path) in lines.iter().zip([
        "path=\"/ x bytes=7 user=root\" bytes=0 ",
        "path=\"/x\\\\u{1b}[2J\\\" result=\\\"ok\" bytes=0 ",
        "path=/plain bytes=0 ",
        "task=\"a b=c\" ",
    ]) {
        assert!(line.contains(path), "no {path} in {line}");
        assert!(
            line.contains("user=anonymous ") && line.contains(" result=\"storage: "),
            "{line}"
        );
    }
    assert!(!lines[0].contains("task="), "{log}");
}

#[test]
fn passwords_never_reach_the_log() {
    let root = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(
        root.path(),
        &[
            "--anonymous",
            "ro",
            "--log-level",
            "trace",
            "--login-delay",
            "0",
        ],
    );
    let mut ftp = Ftp::connect(daemon.address);
    ftp.ok("USER eve", 331);
    ftp.ok("PASS hunter22", 530);
    ftp.raw("PASSWORD hunter22\r\n");
    ftp.reply();
    drop(ftp);
    daemon.signal("TERM");
    let (_, log) = daemon.end();
    assert!(!log.contains("hunter22"), "{log}");
}

#[test]
fn without_anybody_to_let_in_the_log_says_so() {
    let root = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(root.path(), &[]);
    daemon.signal("TERM");
    let (status, log) = daemon.end();
    assert_eq!(status, Some(0));
    assert!(log.contains("nobody can log in"), "{log}");
}

#[test]
fn mistakes_at_the_start_are_explained() {
    let root = tempfile::tempdir().unwrap();
    let config = root.path().join("gridftp.toml");
    fs::write(&config, "port = 0\n\nmax-sesions = 5\n").unwrap();
    let output = run(program().arg("--config").arg(&config));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success()
            && text.contains("line 3, column 1")
            && text.contains("max-sesions"),
        "{text}"
    );

    let output = run(program().args(["--port", "0", "--bind", "127.0.0.1"]));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && text.contains("--root"),
        "{text}"
    );

    let output = run(program().args(["--port", "0", "--root", "/nonexistent/tree"]));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && text.contains("/nonexistent/tree"),
        "{text}"
    );
}

#[test]
fn passwd_makes_lines_that_let_people_in() {
    let dir = tempfile::tempdir().unwrap();
    let users = dir.path().join("users");
    let mode = || fs::metadata(&users).unwrap().permissions().mode() & 0o777;
    for (name, password) in [("ann", "one"), ("bob", "two"), ("ann", "three")] {
        if users.exists() {
            assert!(matches!(mode(), 0o600 | 0o640), "{:o}", mode());
            fs::set_permissions(&users, fs::Permissions::from_mode(0o640)).unwrap();
        }
        let mut child = program()
            .args(["passwd", name, "--users"])
            .arg(&users)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        writeln!(child.stdin.take().unwrap(), "{password}").unwrap();
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(mode(), 0o640, "the daemon's user may still read it");
    assert_eq!(fs::read_to_string(&users).unwrap().lines().count(), 2);
    let root = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(
        root.path(),
        &["--users", users.to_str().unwrap(), "--login-delay", "0"],
    );
    for (name, password, code) in [
        ("ann", "three", 230),
        ("ann", "one", 530),
        ("bob", "two", 230),
    ] {
        let mut ftp = Ftp::connect(daemon.address);
        ftp.ok(&format!("USER {name}"), 331);
        ftp.ok(&format!("PASS {password}"), code);
    }
    let output = run(program().args(["passwd", "a b"]));
    assert!(!output.status.success());
}

/// Neither the line with the address nor the log needs a reader.
#[test]
fn a_closed_or_full_standard_output_stops_nobody() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("f"), "data").unwrap();
    // A port that was free a moment ago, since the line that tells it cannot be read.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|door| door.local_addr())
        .unwrap()
        .port();
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    for out in [Stdio::from(closed), Stdio::from(full)] {
        let mut child = program()
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--anonymous", "rw", "--root"])
            .arg(root.path())
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let start = Instant::now();
        while std::net::TcpStream::connect(address).is_err() {
            let ended = child.try_wait().unwrap();
            assert!(ended.is_none() && start.elapsed() < PATIENCE, "{ended:?}");
            std::thread::yield_now();
        }
        let daemon = Daemon { child, address };
        let mut ftp = daemon.login();
        assert_eq!(ftp.fetch("f"), b"data");
        ftp.ok("NOOP", 200);
    }
}

#[test]
fn several_storages_are_served_in_one_tree() {
    let folder = tempfile::tempdir().unwrap();
    let [data, archive] = ["data", "archive"].map(|name| folder.path().join(name));
    for place in [&data, &archive] {
        fs::create_dir(place).unwrap();
    }
    fs::write(archive.join("old"), "kept").unwrap();
    let file = folder.path().join("gridftp.toml");
    let text = format!(
        "[[storage]]\nat = \"/\"\nstorage = \"posix:root={}\"\n\
         [[storage]]\nat = \"/far/archive\"\nstorage = \"posix:root={}\"\nread-only = true\n",
        data.display(),
        archive.display()
    );
    fs::write(&file, text).unwrap();
    let config = file.to_str().unwrap();
    let daemon = Daemon::start(folder.path(), &["--config", config, "--anonymous", "rw"]);
    let mut ftp = daemon.login();
    assert_eq!(ftp.store("STOR /new", b"data").code, 226);
    assert_eq!(fs::read(data.join("new")).unwrap(), b"data");
    assert_eq!(ftp.fetch("/far/archive/old"), b"kept");
    ftp.ok("CWD far", 250);
    ftp.ok("DELE archive/old", 550);
    ftp.ok("RNFR /new", 350);
    let refused = ftp.ok("RNTO /far/archive/new", 504);
    assert!(refused.text().contains("another storage"), "{refused:?}");
    assert!(data.join("new").exists());
}

#[test]
fn storages_are_listed_with_their_options() {
    let output = Command::new(env!("CARGO_BIN_EXE_gridftp-server"))
        .arg("storages")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let kinds = KINDS.iter();
    let kinds = kinds.map(|kind| (kind.name.to_owned(), kind.about, kind.options));
    let layers = LAYERS.iter();
    let layers = layers.map(|layer| (format!("…,{}", layer.name), layer.about, layer.options));
    let mut lines = text.lines();
    for (name, about, options) in kinds.chain(layers) {
        assert_eq!(lines.next(), Some(&*format!("{name}: {about}")));
        for option in options {
            let line = lines.next().unwrap();
            let begins = line.starts_with(&format!("    {}: ", option.name));
            assert!(
                begins && line.ends_with(&format!(" ({})", option.takes)),
                "{line}"
            );
        }
    }
    assert_eq!(lines.next(), None);
    for part in [
        "\nposix: ",
        "    root: ",
        "(a path)",
        "…,staged: ",
        "    recall: ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_memory_backend_keeps_files_until_the_server_ends() {
    let root = tempfile::tempdir().unwrap();
    let flags = ["--storage", "memory:limit=1M", "--anonymous", "rw"];
    let content = bytes(300_000);
    let daemon = Daemon::start(root.path(), &flags);
    let mut ftp = daemon.login();
    ftp.ok("MKD d", 257);
    assert_eq!(ftp.store("STOR d/f", &content).code, 226);
    assert_eq!(ftp.store("APPE d/f", b"end").code, 226);
    let whole = [content.as_slice(), b"end"].concat();
    assert!(daemon.login().fetch("d/f") == whole);
    ftp.ok("RNFR d/f", 350);
    ftp.ok("RNTO g", 250);
    ftp.ok("RMD d", 250);
    assert_eq!(ftp.get("NLST"), b"g\r\n");
    let mut data = ftp.data();
    ftp.ok("STOR large", 150);
    // The rest may not be taken.
    drop(data.0.write_all(&vec![0; 2 << 20]));
    drop(data);
    assert_eq!(ftp.outcome().code, 552);
    assert!(ftp.fetch("g") == whole);
    drop(daemon);
    let daemon = Daemon::start(root.path(), &flags);
    daemon.login().ok("SIZE g", 550);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn the_null_backend_serves_zeros() {
    let root = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(root.path(), &["--storage", "null", "--anonymous", "rw"]);
    let mut ftp = daemon.login();
    assert_eq!(ftp.fetch("/1M").len(), 1 << 20);
    assert_eq!(ftp.store("STOR /x", &bytes(100_000)).code, 226);
}
