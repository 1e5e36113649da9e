//! Memory of the process: bounded in every state of a session, and given back when the load is
//! over.
//!
//! `GRIDFTP_TEST_SESSIONS=4000` and `GRIDFTP_TEST_ENTRIES=1000000` run the loads at full size; a
//! debug build of the server ends the small ones in seconds.

use std::fs;
use std::io::{BufRead as _, BufReader, ErrorKind, Read, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Instant;

use crate::process::Daemon;
use crate::support::{Data, EOD, Ftp, PATIENCE, bytes, header, most_resident, resident};

const MIB: usize = 1 << 20;

/// Bound on the memory of a session beside the shared blocks.
const SESSION: usize = 64 << 10;

/// Bound on the memory left after a load.
const LEFT: usize = 16 * MIB;

/// Sessions of a load.
fn sessions() -> usize {
    let asked = std::env::var("GRIDFTP_TEST_SESSIONS").ok();
    let asked = asked.map_or(150, |asked| asked.parse().unwrap());
    // The clients have up to four each.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    asked.min(limit.map_or(asked, |limit| usize::try_from(limit / 4).unwrap()))
}

fn tree(root: &Path) {
    for i in 0..200 {
        let dir = root.join(format!("d{i:0200}"));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("file"), "x").unwrap();
    }
}

/// Waits until the process is as small as before, and a little.
fn returns(daemon: &Daemon, before: usize) {
    let start = Instant::now();
    while resident(daemon.pid()) > before + LEFT {
        assert!(
            start.elapsed() < PATIENCE,
            "{} MiB before, {} MiB after",
            before / MIB,
            resident(daemon.pid()) / MIB
        );
        thread::yield_now();
    }
}

/// Checks the peak memory of the process since `before`.
#[track_caller]
fn at_most(daemon: &Daemon, before: usize, more: usize) {
    let most = most_resident(daemon.pid()).saturating_sub(before);
    assert!(
        most <= more,
        "{} KiB more than before, {} KiB allowed",
        most >> 10,
        more >> 10
    );
}

fn descriptors(daemon: &Daemon) -> usize {
    fs::read_dir(format!("/proc/{}/fd", daemon.pid()))
        .unwrap()
        .count()
}

fn sockets(daemon: &Daemon) -> usize {
    let open = fs::read_dir(format!("/proc/{}/fd", daemon.pid())).unwrap();
    let files = open.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    files
        .filter(|file| file.to_string_lossy().starts_with("socket:"))
        .count()
}

/// Waits until the connections of ended sessions are closed.
fn closed(daemon: &Daemon, idle: usize) {
    let start = Instant::now();
    while sockets(daemon) != idle {
        let left = sockets(daemon);
        assert!(
            start.elapsed() < PATIENCE,
            "{idle} sockets before, now {left}"
        );
        thread::yield_now();
    }
}

/// A server with blocks of this size, and its memory after a first session.
fn start(root: &Path, blocks: &str) -> (Daemon, usize) {
    let most = (sessions() + 100).to_string();
    let flags = [
        "--anonymous",
        "rw",
        "--block-size",
        blocks,
        "--max-sessions",
        &most,
        "--max-unauthenticated",
        &most,
    ];
    let daemon = Daemon::start_logging_to(Stdio::null(), root, &flags);
    let idle = sockets(&daemon);
    // The first session's set-up stays.
    let mut ftp = daemon.login();
    ftp.get("LIST");
    assert_eq!(ftp.store("STOR warm", &bytes(100_000)).code, 226);
    drop(ftp);
    closed(&daemon, idle);
    let before = resident(daemon.pid());
    (daemon, before)
}

#[test]
fn sessions_cost_little_and_nothing_once_they_are_gone() {
    let root = tempfile::tempdir().unwrap();
    let (daemon, before) = start(root.path(), "64K");
    let mut all = Vec::new();
    for i in 0..sessions() {
        let mut ftp = daemon.login();
        if i % 4 == 0 {
            assert_eq!(ftp.fetch("warm").len(), 100_000);
        }
        all.push(ftp);
    }
    at_most(&daemon, before, sessions() * SESSION + 4 * MIB);
    for ftp in &mut all {
        ftp.ok("NOOP", 200);
    }
    let during = resident(daemon.pid());
    drop(all);
    returns(&daemon, before);
    let after = resident(daemon.pid());
    let [before, during, after] = [before, during, after].map(|bytes| bytes >> 10);
    eprintln!("{} sessions: {before}, {during}, {after} KiB", sessions());
}

/// One client's part of a mixed load.
fn mixed(daemon: &Daemon, id: usize, rounds: usize) {
    let file = bytes(300_000 + id);
    let mut ftp = daemon.login();
    for round in 0..rounds {
        let name = format!("f{id}-{round}");
        assert_eq!(ftp.store(&format!("STOR {name}"), &file).code, 226);
        assert!(ftp.fetch(&name) == file);
        ftp.ok("MODE E", 200);
        ftp.ok("TYPE A", 200);
        let mut data = ftp.data();
        ftp.ok(&format!("STOR {name}"), 150);
        data.block(0, 0, &file);
        data.end(1);
        assert_eq!(ftp.outcome().code, 226);
        ftp.ok("MODE S", 200);
        assert!(ftp.get(&format!("RETR {name}")).len() >= file.len());
        ftp.ok("TYPE I", 200);
        ftp.ok(&format!("CKSM MD5 0 -1 {name}"), 213);
        assert!(!ftp.get("MLSR .").is_empty());
        ftp.ok("STAT .", 213);
        ftp.ok(&format!("DELE {name}"), 250);
    }
    ftp.ok("QUIT", 221);
}

#[test]
fn a_mixed_load_leaves_nothing_behind() {
    let root = tempfile::tempdir().unwrap();
    tree(root.path());
    let (daemon, before) = start(root.path(), "64K");
    let clients = sessions().div_ceil(10);
    thread::scope(|scope| {
        for id in 0..clients {
            let daemon = &daemon;
            scope.spawn(move || mixed(daemon, id, 2));
        }
    });
    // The blocks, and the memory of the sessions beside them.
    at_most(&daemon, before, 64 * MIB + clients * SESSION + 8 * MIB);
    returns(&daemon, before);
}

/// A short form of a day under load.
#[test]
fn rounds_of_work_make_the_process_no_larger() {
    let root = tempfile::tempdir().unwrap();
    tree(root.path());
    let (daemon, _) = start(root.path(), "64K");
    let round = || {
        thread::scope(|scope| {
            for id in 0..4 {
                let daemon = &daemon;
                scope.spawn(move || mixed(daemon, id, 1));
            }
        });
    };
    for _ in 0..3 {
        round();
    }
    let (memory, open) = (resident(daemon.pid()), descriptors(&daemon));
    for _ in 0..sessions() / 15 {
        round();
    }
    let start = Instant::now();
    while descriptors(&daemon) > open {
        assert!(
            start.elapsed() < PATIENCE,
            "{} descriptors, not {open}",
            descriptors(&daemon)
        );
        thread::yield_now();
    }
    let after = resident(daemon.pid());
    assert!(after < memory + 8 * MIB, "{memory} bytes became {after}");
}

/// Says whether all threads of the server sleep, so that it has handled all its input.
fn is_asleep(daemon: &Daemon) -> bool {
    let tasks = fs::read_dir(format!("/proc/{}/task", daemon.pid())).unwrap();
    tasks.into_iter().all(|task| {
        // One that ends meanwhile does nothing either.
        let stat = fs::read_to_string(task.unwrap().path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_none_or(|(_, rest)| rest.starts_with('S'))
    })
}

/// Sends as much of `bytes` as the server takes without being read from.
fn stuff(daemon: &Daemon, stream: &mut TcpStream, bytes: &[u8]) -> usize {
    stream.set_nonblocking(true).unwrap();
    let (mut sent, mut last, mut asleep) = (0, Instant::now(), false);
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(n) => (sent, last, asleep) = (sent + n, Instant::now(), false),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                // Still full although the server slept before: it is not going to take more.
                if asleep {
                    break;
                }
                assert!(last.elapsed() < PATIENCE, "the server is always busy");
                asleep = is_asleep(daemon);
                thread::yield_now();
            }
            Err(error) => panic!("{error}"),
        }
    }
    stream.set_nonblocking(false).unwrap();
    sent
}

/// Also before the login.
#[test]
fn a_client_that_reads_nothing_costs_bounded_memory_and_loses_no_reply() {
    let root = tempfile::tempdir().unwrap();
    let (daemon, before) = start(root.path(), "64K");
    let lines = b"FEAT\r\n".repeat(30_000);
    let mut clients = Vec::new();
    for i in 0..8 {
        let mut ftp = match i % 2 {
            0 => daemon.login(),
            _ => Ftp::connect(daemon.address),
        };
        let sent = stuff(&daemon, &mut ftp.stream, &lines);
        clients.push((ftp, sent));
    }
    at_most(&daemon, before, 8 * SESSION + 4 * MIB);
    let (ftp, sent) = &mut clients[0];
    for i in 0..*sent / 6 {
        assert_eq!(ftp.reply().code, 211, "reply {i}");
    }
    at_most(&daemon, before, 8 * SESSION + 4 * MIB);
}

#[test]
fn listings_on_the_control_channel_wait_in_little_memory() {
    let root = tempfile::tempdir().unwrap();
    let wide = root.path().join("wide");
    fs::create_dir(&wide).unwrap();
    for i in 0..10_000 {
        fs::File::create(wide.join(format!("{i:0100}"))).unwrap();
    }
    let (daemon, before) = start(root.path(), "64K");
    let mut clients: Vec<Ftp> = (0..6).map(|_| daemon.login()).collect();
    for (i, ftp) in clients.iter_mut().enumerate() {
        ftp.send(["MLSC wide", "STAT wide"][i % 2]);
    }
    for (i, ftp) in clients.iter_mut().enumerate() {
        let (code, more) = [(250, 2), (213, 0)][i % 2];
        let reply = ftp.reply();
        assert_eq!((reply.code, reply.lines.len()), (code, 10_000 + 2 + more));
    }
    at_most(&daemon, before, 6 * SESSION + 4 * MIB);
}

/// Each client reads until the server knows nearly all directories.
#[test]
fn a_tree_read_slowly_waits_in_little_memory() {
    let root = tempfile::tempdir().unwrap();
    for i in 0..3000 {
        fs::create_dir(root.path().join(format!("{i:0200}"))).unwrap();
    }
    let (daemon, before) = start(root.path(), "64K");
    let mut clients = Vec::new();
    for _ in 0..6 {
        let mut ftp = daemon.login();
        let data = ftp.narrow("MLSR /", 64 << 10);
        clients.push((ftp, BufReader::new(data.0)));
    }
    for (_, data) in &mut clients {
        let mut line = Vec::new();
        for _ in 0..2400 {
            line.clear();
            data.read_until(b'\n', &mut line).unwrap();
        }
    }
    at_most(&daemon, before, 6 * SESSION + 4 * MIB);
    let (ftp, data) = &mut clients[0];
    let mut rest = Vec::new();
    data.read_to_end(&mut rest).unwrap();
    assert_eq!(ftp.reply().code, 226);
}

#[test]
fn listings_that_nobody_reads_wait_in_little_memory() {
    let root = tempfile::tempdir().unwrap();
    // A path of a kilobyte before each name, and names that are long as well.
    let above = format!("{:0250}", 0);
    let mut dir = root.path().join("top");
    for _ in 0..4 {
        dir = dir.join(&above);
    }
    fs::create_dir_all(&dir).unwrap();
    for i in 0..2000 {
        fs::create_dir(dir.join(format!("{i:0200}"))).unwrap();
    }
    let wide = dir.strip_prefix(root.path()).unwrap().to_str().unwrap();
    for (command, mode) in [
        (format!("MLSD {wide}"), "S"),
        ("MLSR top".to_owned(), "S"),
        ("MLSR top".to_owned(), "E"),
    ] {
        let (daemon, before) = start(root.path(), "64K");
        let mut clients = Vec::new();
        for _ in 0..sessions() {
            let mut ftp = daemon.login();
            ftp.ok(&format!("MODE {mode}"), 200);
            let data = ftp.narrow(&command, 4096);
            clients.push((ftp, data));
        }
        at_most(&daemon, before, sessions() * SESSION + 4 * MIB);
        drop(clients);
        returns(&daemon, before);
    }
}

#[test]
fn text_that_nobody_takes_waits_in_little_memory() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("text"), b"line\n".repeat(400_000)).unwrap();
    let (daemon, before) = start(root.path(), "256K");
    let mut clients = Vec::new();
    for i in 0..64 {
        let mut ftp = daemon.login();
        ftp.ok("TYPE A", 200);
        ftp.ok(["MODE S", "MODE E"][i % 2], 200);
        let data = ftp.narrow("RETR text", 4096);
        clients.push((ftp, data));
    }
    at_most(&daemon, before, 64 * SESSION + 4 * MIB);
    let (mut ftp, mut data) = clients.swap_remove(0);
    let got = std::io::copy(&mut data.0, &mut std::io::sink()).unwrap();
    assert_eq!(got, 400_000 * 6);
    assert_eq!(ftp.outcome().code, 226);
}

/// Text is written in order: early data stays with the client.
#[test]
fn text_that_comes_before_its_turn_waits_at_the_client() {
    const PART: usize = 12 * MIB;
    const CLIENTS: usize = 6;
    let root = tempfile::tempdir().unwrap();
    let (daemon, before) = start(root.path(), "64K");
    let text = b"a line\r\n".repeat(PART / 8);
    let early = [&header(EOD, PART as u64, PART as u64)[..], &text].concat();
    thread::scope(|scope| {
        for id in 0..CLIENTS {
            let (daemon, text, early) = (&daemon, &text, &early);
            scope.spawn(move || {
                let mut ftp = daemon.login();
                ftp.ok("TYPE A", 200);
                ftp.ok("MODE E", 200);
                let at = ftp.pasv();
                let (mut first, mut second) = (Data::connect(at), Data::connect(at));
                ftp.ok(&format!("STOR t{id}"), 150);
                let sent = stuff(daemon, &mut second.0, early);
                let rest = scope.spawn(move || {
                    second.write(&early[sent..]);
                    second
                });
                first.block(0, 0, text);
                first.end(2);
                assert_eq!(ftp.outcome().code, 226);
                drop(rest.join().unwrap());
            });
        }
    });
    at_most(&daemon, before, CLIENTS * SESSION + 16 * MIB);
    let expected = b"a line\n".repeat(PART / 4);
    assert!(fs::read(root.path().join("t0")).unwrap() == expected);
}

/// Gives the lines of a listing without holding it.
fn count_lines(data: impl Read) -> usize {
    BufReader::new(data)
        .split(b'\n')
        .map(Result::unwrap)
        .count()
}

#[test]
fn a_huge_directory_is_listed_in_little_memory() {
    let entries = std::env::var("GRIDFTP_TEST_ENTRIES").ok();
    let entries = entries.map_or(100_000, |entries| entries.parse().unwrap());
    let root = tempfile::tempdir().unwrap();
    let wide = root.path().join("wide");
    fs::create_dir(&wide).unwrap();
    fs::write(wide.join("0"), "").unwrap();
    for i in 1..entries {
        // Links to few files cost less than as many files.
        let first = wide.join((i / 10_000 * 10_000).to_string());
        let name = wide.join(i.to_string());
        match i % 10_000 {
            0 => fs::write(name, "").unwrap(),
            _ => fs::hard_link(first, name).unwrap(),
        }
    }
    let (daemon, before) = start(root.path(), "64K");
    let mut ftp = daemon.login();
    for (command, more) in [("MLSD wide", 2), ("NLST wide", 0), ("LIST wide", 0)] {
        let data = ftp.data();
        ftp.ok(command, 150);
        assert_eq!(count_lines(data.0), entries + more, "{command}");
        assert_eq!(ftp.outcome().code, 226, "{command}");
    }
    ftp.send("STAT wide");
    let (mut lines, mut line) = (0, String::new());
    while !line.starts_with("213 ") {
        line.clear();
        assert!(ftp.reader.read_line(&mut line).unwrap() > 0);
        lines += 1;
    }
    assert_eq!(lines, entries + 2);
    at_most(&daemon, before, SESSION + 4 * MIB);
    returns(&daemon, before);
}

#[test]
fn ten_thousand_pasvs_leave_one_port() {
    let root = tempfile::tempdir().unwrap();
    let (daemon, before) = start(root.path(), "64K");
    let mut ftp = daemon.login();
    ftp.pasv();
    let open = descriptors(&daemon);
    for _ in 0..20 {
        ftp.raw("PASV\r\n".repeat(500));
        for _ in 0..500 {
            assert_eq!(ftp.reply().code, 227);
        }
        assert_eq!(descriptors(&daemon), open);
    }
    at_most(&daemon, before, SESSION + 4 * MIB);
    assert_eq!(ftp.fetch("warm").len(), 100_000);
}
