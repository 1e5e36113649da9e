//! Strangers and logins by the hundred, with the memory that they cost; `GRIDFTP_LOAD=10` makes
//! them ten times as many.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::login::YESCRYPT;
use crate::process::{Daemon, program};
use crate::support::{Ftp, most_resident, resident};

const MIB: usize = 1 << 20;

/// This number, times the factor of the environment.
fn times(many: usize) -> usize {
    let factor = std::env::var("GRIDFTP_LOAD").map_or(1, |factor| factor.parse().unwrap());
    many * factor
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A users file with the account `ann`, password `secret`, hashed as `passwd` does.
fn users(dir: &tempfile::TempDir) -> PathBuf {
    let path = dir.path().join("users");
    let mut child = program()
        .args(["passwd", "ann", "--users"])
        .arg(&path)
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"secret\n").unwrap();
    assert!(child.wait().unwrap().success());
    path
}

/// Waits until the process has returned all but 16 MiB.
#[track_caller]
fn wait_for_memory(pid: u32, before: usize) {
    let start = Instant::now();
    while resident(pid) > before + 16 * MIB {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{} MiB before, {} MiB after",
            before / MIB,
            resident(pid) / MIB
        );
        std::thread::yield_now();
    }
}

/// A hash takes 19 MiB, and there is one a core at a time.
#[track_caller]
fn assert_hashes_one_a_core(pid: u32, before: usize) {
    let most = most_resident(pid);
    assert!(
        most < before + cores() * 20 * MIB + 16 * MIB,
        "{} MiB before, {} MiB during the logins",
        before / MIB,
        most / MIB
    );
}

#[test]
fn slow_unauthenticated_connections_keep_no_user_out() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--anonymous", "ro", "--max-sessions", "50"];
    let daemon = Daemon::start(dir.path(), &flags);
    let pid = daemon.pid();
    let before = resident(pid);
    // Each sends the beginning of a line, and nothing more.
    let idle: Vec<TcpStream> = (0..times(300))
        .map(|_| {
            let stream = TcpStream::connect(daemon.address).unwrap();
            // It may have been evicted already.
            drop((&stream).write_all(b"USER"));
            stream
        })
        .collect();
    let users: Vec<Ftp> = (0..50).map(|_| daemon.login()).collect();
    drop(idle);
    for mut user in users {
        user.ok("NOOP", 200);
    }
    let most = most_resident(pid);
    assert!(most < before + 32 * MIB, "{} MiB", most / MIB);
    wait_for_memory(pid, before);
}

/// All that reads its replies and is turned away knows why.
#[test]
fn an_evicted_connection_is_answered_421() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--anonymous", "ro", "--max-unauthenticated", "4"];
    let daemon = Daemon::start(dir.path(), &flags);
    let crowd: Vec<Ftp> = (0..40).map(|_| Ftp::connect(daemon.address)).collect();
    let (mut told, mut stay) = (0, 0);
    for mut ftp in crowd {
        ftp.stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        // The remaining sessions answer, the others were sent 421.
        drop(ftp.stream.write_all(b"NOOP\r\n"));
        match ftp.try_reply().map(|reply| reply.code) {
            Some(421) => told += 1,
            Some(200) => stay += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((told, stay), (36, 4));
}

#[test]
fn one_address_does_not_crowd_out_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ["--anonymous", "ro", "--max-per-address", "4"];
    let daemon = Daemon::start(dir.path(), &flags);
    let other = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    other
        .bind(&std::net::SocketAddr::from(([127, 0, 0, 2], 0)).into())
        .unwrap();
    other.connect(&daemon.address.into()).unwrap();
    let mut other = Ftp::silent(other.into());
    assert_eq!(other.reply().code, 220);
    let mut crowd: Vec<Ftp> = (0..40).map(|_| Ftp::connect(daemon.address)).collect();
    let mut told = 0;
    for ftp in &mut crowd {
        drop(ftp.stream.write_all(b"NOOP\r\n"));
        told += usize::from(ftp.reply().code == 421);
    }
    assert_eq!(told, 36);
    other.login("anonymous", "x");
}

/// More connections than the limit: none of them is evicted while its password is looked
/// at.
#[test]
fn password_logins_all_at_once_all_succeed_in_bounded_memory() {
    let dir = tempfile::tempdir().unwrap();
    let users = users(&dir);
    let flags = [
        "--users",
        users.to_str().unwrap(),
        "--max-unauthenticated",
        "10",
    ];
    let daemon = Daemon::start(dir.path(), &flags);
    let pid = daemon.pid();
    let before = resident(pid);
    let mut sessions: Vec<Ftp> = (0..times(60))
        .map(|_| {
            let mut ftp = Ftp::connect(daemon.address);
            ftp.ok("USER ann", 331);
            ftp.send("PASS secret");
            ftp
        })
        .collect();
    for ftp in &mut sessions {
        let reply = ftp.reply();
        assert_eq!(reply.code, 230, "{reply:?}");
    }
    assert_hashes_one_a_core(pid, before);
    drop(sessions);
    wait_for_memory(pid, before);
}

/// Its memory is none of ours: it allocates by itself.
#[test]
fn logins_with_yescrypt_give_their_memory_back() {
    let dir = tempfile::tempdir().unwrap();
    let users = dir.path().join("users");
    fs::write(&users, format!("ann:{YESCRYPT}\n")).unwrap();
    let flags = ["--users", users.to_str().unwrap()];
    let daemon = Daemon::start(dir.path(), &flags);
    let before = resident(daemon.pid());
    let mut sessions: Vec<Ftp> = (0..times(8).max(cores() * 2))
        .map(|_| {
            let mut ftp = Ftp::connect(daemon.address);
            ftp.ok("USER ann", 331);
            ftp.send("PASS Hello world!");
            ftp
        })
        .collect();
    for ftp in &mut sessions {
        assert_eq!(ftp.reply().code, 230);
    }
    assert_hashes_one_a_core(daemon.pid(), before);
    wait_for_memory(daemon.pid(), before);
}

/// A line of another protocol ends a session at once; the hash of the password before it goes on.
#[test]
fn logins_that_hang_up_cost_no_more_threads_and_memory_than_others() {
    let dir = tempfile::tempdir().unwrap();
    let users = users(&dir);
    let flags = ["--users", users.to_str().unwrap(), "--login-attempts", "0"];
    let daemon = Daemon::start(dir.path(), &flags);
    let pid = daemon.pid();
    let threads = || fs::read_dir(format!("/proc/{pid}/task")).unwrap().count();
    let (before, at_rest) = (resident(pid), threads());
    let mut most = 0;
    for n in 0..times(40).max(cores() * 4) {
        let mut ftp = Ftp::connect(daemon.address);
        ftp.ok("USER ann", 331);
        let (idle, start) = (threads(), Instant::now());
        ftp.send(&format!("PASS {n}"));
        // Until it is looked at, or waits behind others.
        while threads() <= idle && start.elapsed() < Duration::from_millis(50) {
            std::thread::yield_now();
        }
        ftp.send("SSH-2.0-x");
        assert!(ftp.try_reply().is_none(), "it is closed without an answer");
        most = threads().max(most);
    }
    // A thread that ends is there for a moment longer than its turn.
    assert!(
        most <= at_rest + 2 * cores() + 8,
        "{at_rest} threads, then {most}"
    );
    assert_hashes_one_a_core(pid, before);
    wait_for_memory(pid, before);
}

#[test]
fn logins_one_after_the_other_leave_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), &["--anonymous", "ro"]);
    let pid = daemon.pid();
    let before = resident(pid);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..times(100) {
                    daemon.login().ok("QUIT", 221);
                }
            });
        }
    });
    let most = most_resident(pid);
    assert!(most < before + 16 * MIB, "{} MiB", most / MIB);
    wait_for_memory(pid, before);
}

/// Logins that come at a rate, whether the ones before are through or not: `GRIDFTP_LOAD=10` asks
/// for 2,000 a second. Prints the times, which are meaningful for a release build on a machine that
/// does nothing else.
#[test]
fn logins_asked_for_at_a_rate_all_succeed() {
    const CLIENTS: usize = 16;
    const SECONDS: usize = 2;
    let rate = times(200);
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), &["--anonymous", "ro"]);
    let pid = daemon.pid();
    daemon.login();
    let before = resident(pid);
    let (next, start) = (AtomicUsize::new(0), Instant::now());
    let client = || {
        let mut took = Vec::new();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= rate * SECONDS {
                return took;
            }
            let due = start
                + Duration::from_secs(1) * u32::try_from(i).unwrap() / u32::try_from(rate).unwrap();
            while let Some(early) = due.checked_duration_since(Instant::now()) {
                std::thread::park_timeout(early);
            }
            let begun = Instant::now();
            let mut ftp = Ftp::connect(daemon.address);
            ftp.login("anonymous", "x");
            took.push(begun.elapsed());
        }
    };
    let mut took: Vec<Duration> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        clients
            .into_iter()
            .flat_map(|client| client.join().unwrap())
            .collect()
    });
    let all = start.elapsed();
    took.sort();
    eprintln!(
        "{} logins, {rate} a second asked: {:.0} a second, {:?} in the median, {:?} for 99 %, {} KiB at most",
        took.len(),
        took.len() as f64 / all.as_secs_f64(),
        took[took.len() / 2],
        took[took.len() * 99 / 100],
        most_resident(pid).saturating_sub(before) >> 10,
    );
    let most = most_resident(pid);
    assert!(most < before + 16 * MIB, "{} MiB", most / MIB);
    wait_for_memory(pid, before);
}
