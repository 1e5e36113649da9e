//! The daemon where the system runs out of something: descriptors, room for a file, a reader of its log, time.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::FileExt as _;
use std::time::Instant;

use gridftp_server::auth::Hashed;

use crate::process::Daemon;
use crate::support::{Data, EOD, Ftp, PATIENCE, bytes, header};

/// Opens connections until one is refused, and says with which reply.
fn until_refused(daemon: &Daemon, sessions: &mut Vec<Ftp>, login: bool) -> u16 {
    loop {
        let mut ftp = Ftp::silent(TcpStream::connect(daemon.address).unwrap());
        match ftp.reply().code {
            220 => {}
            code => return code,
        }
        if login {
            ftp.login("anonymous", "x");
        }
        sessions.push(ftp);
        assert!(sessions.len() < 256);
    }
}

#[test]
fn with_few_descriptors_sessions_are_refused_and_none_fails() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("f"), "x").unwrap();
    for (limit, wanted) in [("-n 64", 1), ("-n 256", 9)] {
        let daemon = Daemon::limited(limit, root.path(), &["--anonymous", "ro"]);
        // Strangers give way to each other, and take no place of a user.
        let _strangers: Vec<TcpStream> = (0..100)
            .map(|_| TcpStream::connect(daemon.address).unwrap())
            .collect();
        let mut sessions = Vec::new();
        assert_eq!(until_refused(&daemon, &mut sessions, true), 421, "{limit}");
        assert_eq!(sessions.len(), wanted, "{limit}");
        for ftp in &mut sessions {
            assert_eq!(ftp.fetch("f"), b"x");
        }
    }
}

/// Clients open four data connections unless told otherwise, and large blocks go through pipes.
#[test]
fn with_few_descriptors_every_session_let_in_has_room_for_parallel_data() {
    let root = tempfile::tempdir().unwrap();
    let daemon = Daemon::limited("-n 128", root.path(), &["--anonymous", "rw"]);
    let mut sessions = Vec::new();
    loop {
        let mut ftp = Ftp::silent(TcpStream::connect(daemon.address).unwrap());
        if ftp.reply().code != 220 {
            break;
        }
        ftp.login("anonymous", "x");
        ftp.ok("MODE E", 200);
        let address = ftp.pasv();
        ftp.send(&format!("STOR f{}", sessions.len()));
        let data: Vec<_> = (0..4).map(|_| Data::connect(address)).collect();
        sessions.push((ftp, data));
    }
    assert!(sessions.len() > 2, "{}", sessions.len());
    let block = bytes(300_000);
    for (ftp, data) in &mut sessions {
        assert_eq!(ftp.reply().code, 150);
        for (data, at) in data.iter_mut().zip([0, 300_000, 600_000, 900_000]) {
            data.block(0, at, &block);
        }
    }
    for (mut ftp, data) in sessions {
        let mut data = data.into_iter();
        data.next().unwrap().end(4);
        for mut data in data {
            data.write(&header(EOD, 0, 0));
        }
        assert_eq!(ftp.outcome().code, 226);
    }
}

/// Data connections take the descriptors that were left for others.
#[test]
fn without_descriptors_a_connection_is_told_so() {
    let root = tempfile::tempdir().unwrap();
    let flags = ["--anonymous", "rw", "--connect-timeout", "1"];
    let daemon = Daemon::limited("-n 96", root.path(), &flags);
    let mut ftp = daemon.login();
    ftp.ok("MODE E", 200);
    let address = ftp.pasv();
    let data: Vec<TcpStream> = (0..100)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    ftp.ok("STOR f", 150);
    // As soon as it has taken them.
    let start = Instant::now();
    while Ftp::silent(TcpStream::connect(daemon.address).unwrap())
        .reply()
        .code
        != 421
    {
        assert!(start.elapsed() < PATIENCE, "it has descriptors for all");
    }
    drop(data);
    let reply = ftp.outcome();
    assert!(matches!(reply.code, 425 | 426), "{reply:?}");
    let mut sessions = Vec::new();
    until_refused(&daemon, &mut sessions, true);
    assert!(!sessions.is_empty());
}

/// The limit of a file's size comes with a signal whose default action is the end of the process.
#[test]
fn an_upload_over_the_size_limit_ends_with_552_and_nothing_else_does() {
    let root = tempfile::tempdir().unwrap();
    let daemon = Daemon::limited("-f 2000", root.path(), &["--anonymous", "rw"]);
    let mut other = daemon.login();
    let mut others = other.data();
    other.ok("STOR other", 150);
    let mut ftp = daemon.login();
    let data = ftp.data();
    ftp.ok("STOR f", 150);
    // The server may close it before all of it is sent.
    drop((&data.0).write_all(&vec![0; 4 << 20]));
    drop(data);
    let reply = ftp.outcome();
    assert_eq!(reply.code, 552, "{reply:?}");
    ftp.ok("NOOP", 200);
    assert!(!root.path().join("f").exists());
    others.write(b"whole");
    others.finish();
    assert_eq!(other.outcome().code, 226);
}

/// `/dev/full` is a disk without room.
#[test]
fn a_log_that_cannot_be_written_stops_nobody() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("f"), "data").unwrap();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let daemon = Daemon::start_logging_to(full, root.path(), &["--anonymous", "rw"]);
    let mut ftp = daemon.login();
    assert_eq!(ftp.fetch("f"), b"data");
    ftp.ok("NOOP", 200);
}

/// Fills the pipe of the log and what may wait before it.
fn fill_the_log(daemon: &Daemon) {
    let mut ftp = daemon.login();
    // Each command leaves some kilobytes in the log of the least level.
    let command = format!("SITE TASKID {}\r\n", "x".repeat(8000)).repeat(20);
    for _ in 0..20 {
        ftp.raw(&command);
        for _ in 0..20 {
            assert_eq!(ftp.reply().code, 250);
        }
    }
}

#[test]
fn a_log_that_nobody_reads_stops_nobody_and_its_losses_are_counted() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("f"), "data").unwrap();
    let flags = ["--anonymous", "rw", "--log-level", "trace"];
    let (reader, log) = std::io::pipe().unwrap();
    let daemon = Daemon::start_logging_to(log, root.path(), &flags);
    fill_the_log(&daemon);
    let mut ftp = daemon.login();
    assert_eq!(ftp.fetch("f"), b"data");
    // Somebody reads it at last.
    let told = BufReader::new(reader)
        .lines()
        .map(Result::unwrap)
        .find(|line| line.contains("log lines were dropped"))
        .unwrap();
    let lines = told.split_once("lines=").unwrap().1;
    assert!(lines.trim().parse::<u64>().unwrap() > 0, "{told}");
}

#[test]
fn sigterm_ends_the_process_although_nobody_reads_the_log() {
    let root = tempfile::tempdir().unwrap();
    let flags = ["--anonymous", "rw", "--log-level", "trace"];
    let (_reader, log) = std::io::pipe().unwrap();
    let daemon = Daemon::start_logging_to(log, root.path(), &flags);
    fill_the_log(&daemon);
    daemon.signal("TERM");
    assert_eq!(daemon.end().0, Some(0));
}

/// Reads the writable memory of a process as far as it can be read.
fn memory(pid: u32) -> Vec<u8> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let file = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut all = Vec::new();
    for map in maps.lines().filter(|map| map.contains(" rw")) {
        let (from, to) = map.split(' ').next().unwrap().split_once('-').unwrap();
        let [from, to] = [from, to].map(|at| u64::from_str_radix(at, 16).unwrap());
        let mut part = vec![0; usize::try_from(to - from).unwrap()];
        if let Ok(n) = file.read_at(&mut part, from) {
            all.extend_from_slice(&part[..n]);
        }
    }
    all
}

#[test]
fn a_password_leaves_nothing_in_the_memory_of_the_server() {
    const PASSWORD: &str = "correct-horse-battery-staple";
    let root = tempfile::tempdir().unwrap();
    let users = root.path().join("users");
    // Of every kind, and all wrong.
    let text = format!(
        "ann:{}\nbob:{}\ncid:{}\n",
        Hashed::new("x").unwrap().as_str(),
        crate::login::OPEN_SESAME,
        crate::login::YESCRYPT,
    );
    fs::write(&users, text).unwrap();
    let flags = ["--users", users.to_str().unwrap(), "--login-delay", "0"];
    let daemon = Daemon::start(root.path(), &flags);
    for user in ["ann", "bob", "cid"] {
        let mut ftp = Ftp::connect(daemon.address);
        // Alone, in pieces, and behind others.
        for pieces in [
            &[format!("PASS {PASSWORD}\r\n")][..],
            &[format!("PASS {PASSWORD}"), "\r\n".to_owned()],
            &[format!("NOOP\r\nPASS {PASSWORD}\r\n")],
        ] {
            ftp.ok(&format!("USER {user}"), 331);
            for piece in pieces {
                ftp.raw(piece);
            }
            while ftp.reply().code != 530 {}
        }
        let memory = memory(daemon.pid());
        assert!(memory.len() > 1 << 20, "{} bytes were read", memory.len());
        let found = memory
            .windows(PASSWORD.len())
            .filter(|window| *window == PASSWORD.as_bytes());
        assert_eq!(found.count(), 0, "{user}");
    }
}
