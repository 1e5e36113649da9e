//! The daemon where the system runs out of something: descriptors, room for a file, a reader of its
//! log, time.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::FileExt as _;
use std::time::Instant;

use gridftp_server::auth::Hashed;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use crate::process::Daemon;
use crate::support::{Data, EOD, EOF, Ftp, PATIENCE, Reply, bytes, header, pasv_address};

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
    for (limit, wanted) in [("-n 64", 8), ("-n 256", 56)] {
        let daemon = Daemon::limited(limit, root.path(), &["--anonymous", "ro"]);
        // Strangers give way to each other, and take no place of a user.
        let _others: Vec<TcpStream> = (0..100)
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

/// A store over four connections, as far as it has come.
fn begin(ftp: &mut Ftp, name: &str) -> Result<Vec<Data>, Reply> {
    ftp.ok("MODE E", 200);
    let reply = ftp.cmd("PASV");
    if reply.code != 227 {
        return Err(reply);
    }
    let address = pasv_address(&reply);
    ftp.send(&format!("STOR {name}"));
    let data = (0..4).map(|_| Data::connect(address)).collect();
    let reply = ftp.reply();
    match reply.code {
        150 => Ok(data),
        _ => Err(reply),
    }
}

/// Sends a block over each connection and ends the store.
fn end(ftp: &mut Ftp, data: Vec<Data>, block: &[u8]) -> Reply {
    for (i, mut data) in data.into_iter().enumerate() {
        let last = match i {
            0 => header(EOF | EOD, 0, 4),
            _ => header(EOD, 0, 0),
        };
        let head = header(0, block.len() as u64, (i * block.len()) as u64);
        // The server may have turned it away.
        drop(data.0.write_all(&[&head, block, &last].concat()));
    }
    ftp.outcome()
}

/// Large blocks go through pipes, which are descriptors as well.
#[test]
fn transfers_beyond_the_descriptors_are_refused_and_take_none_of_others() {
    let root = tempfile::tempdir().unwrap();
    let daemon = Daemon::limited("-n 128", root.path(), &["--anonymous", "rw"]);
    let mut sessions: Vec<Ftp> = (0..20).map(|_| daemon.login()).collect();
    let begun: Vec<_> = sessions
        .iter_mut()
        .enumerate()
        .map(|(i, ftp)| begin(ftp, &format!("f{i}")))
        .collect();
    // Logins, and calls of the storage.
    daemon.login().ok("MKD made", 257);
    let block = bytes(300_000);
    let (mut whole, mut refused) = (0, 0);
    for ((i, ftp), begun) in sessions.iter_mut().enumerate().zip(begun) {
        let reply = match begun {
            Ok(data) => end(ftp, data, &block),
            Err(reply) => reply,
        };
        match reply.code {
            226 => whole += 1,
            425 | 450 if reply.text().contains("descriptors") => refused += 1,
            _ => panic!("{reply:?}"),
        }
        assert_eq!(
            root.path().join(format!("f{i}")).exists(),
            reply.code == 226
        );
    }
    assert!(whole > 2 && refused > 2, "{whole} whole, {refused} refused");
    for ftp in &mut sessions {
        let data = begin(ftp, "again").unwrap();
        assert_eq!(end(ftp, data, &block).code, 226);
        // Connections that wait for the next file are descriptors.
        ftp.ok("MODE S", 200);
        ftp.pasv();
    }
}

#[test]
fn a_session_takes_no_more_than_its_share_of_the_descriptors() {
    let root = tempfile::tempdir().unwrap();
    let daemon = Daemon::limited("-n 256", root.path(), &["--anonymous", "rw"]);
    let (mut greedy, mut other) = (daemon.login(), daemon.login());
    greedy.ok("MODE E", 200);
    let address = greedy.pasv();
    let _data: Vec<TcpStream> = (0..30)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    greedy.ok("STOR f", 150);
    let reply = greedy.outcome();
    assert_eq!(reply.code, 425, "{reply:?}");
    assert!(reply.text().contains("fewer data connections"), "{reply:?}");
    let block = bytes(300_000);
    for ftp in [&mut other, &mut greedy] {
        let data = begin(ftp, "f").unwrap();
        assert_eq!(end(ftp, data, &block).code, 226);
    }
}

/// A client may open any number of connections to one port.
#[test]
fn connections_of_a_transfer_take_no_descriptor_of_a_login() {
    let root = tempfile::tempdir().unwrap();
    let daemon = Daemon::limited("-n 96", root.path(), &["--anonymous", "rw"]);
    let mut ftp = daemon.login();
    ftp.ok("MODE E", 200);
    let address = ftp.pasv();
    let data: Vec<TcpStream> = (0..100)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    ftp.ok("STOR f", 150);
    let reply = ftp.outcome();
    assert_eq!(reply.code, 425, "{reply:?}");
    assert!(reply.text().contains("descriptors"), "{reply:?}");
    drop(data);
    let mut sessions = Vec::new();
    until_refused(&daemon, &mut sessions, true);
    assert_eq!(sessions.len(), 15);
    ftp.ok("MODE S", 200);
    assert_eq!(ftp.store("STOR f", b"data").code, 226);
}

/// Others of the process may take them all the same.
#[test]
fn without_descriptors_a_connection_is_told_so() {
    let root = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(root.path(), &["--anonymous", "rw"]);
    let _first = daemon.login();
    let open = fs::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap();
    let open: Vec<_> = open.map(|entry| entry.unwrap().file_name()).collect();
    let is_free = |number: &u64| !open.contains(&number.to_string().into());
    let limit = Rlimit {
        current: (0..).find(is_free),
        maximum: getrlimit(Resource::Nofile).maximum,
    };
    let pid = Pid::from_raw(daemon.pid().cast_signed());
    let before = prlimit(pid, Resource::Nofile, limit).unwrap();
    let mut sessions = Vec::new();
    assert_eq!(until_refused(&daemon, &mut sessions, false), 421);
    prlimit(pid, Resource::Nofile, before).unwrap();
    // It may just be waiting for one more connection to tell.
    let start = Instant::now();
    while Ftp::silent(TcpStream::connect(daemon.address).unwrap())
        .reply()
        .code
        != 220
    {
        assert!(start.elapsed() < PATIENCE, "it does not recover");
    }
}

/// The limit of a file's size raises a signal with the default action to end the process.
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

/// Fills the pipe of the log and the queue before it.
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
