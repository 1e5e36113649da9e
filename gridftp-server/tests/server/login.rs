//! Logins, refusals, lockouts and floods.

use std::fs;
use std::io::Write as _;

use gridftp_server::config::{Access, Options};

use crate::support::{Ftp, TestServer};

/// A cheap hash of `open sesame`.
pub(crate) const OPEN_SESAME: &str = "$6$rounds=1000$salt$c/rx876elUtSjHtqzbR4t4bBD/c0LZyMkaP8WcR76l0qH4uuR/u2OObFJW77Apnmy6G3yYLi4kU2yXpy3CXj60";

/// Made by crypt(3) of the system from `Hello world!`.
pub(crate) const YESCRYPT: &str =
    "$y$j9T$F5Jx5fExrKuPp53xLKQ..1$42RgPIrXdXSEEs77lDi/4IqKVqFBAVaHJkzw5uD1r57";

/// Options with the account `ann`, password `open sesame`, and `bob`, with read-only access, and
/// the home in /pub.
fn accounts(options: &mut Options, dir: &tempfile::TempDir) {
    let path = dir.path().join("users");
    let hash = OPEN_SESAME;
    fs::write(&path, format!("ann:{hash}\nbob:{hash}:ro:/pub\n")).unwrap();
    options.users = Some(path);
    options.anonymous = None;
}

#[test]
fn nobody_gets_in_without_anonymous_or_users() {
    let server = TestServer::with(|o| o.anonymous = None);
    let mut ftp = server.connect();
    ftp.ok("USER anonymous", 331);
    ftp.ok("PASS x", 530);
    ftp.ok("RETR /f", 530);
}

#[test]
fn an_account_logs_in_and_starts_at_home() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::with(|o| accounts(o, &dir));
    fs::create_dir(server.root.join("pub")).unwrap();
    let mut ftp = server.connect();
    ftp.login("bob", "open sesame");
    assert!(ftp.ok("PWD", 257).text().contains("\"/pub\""));
    assert!(ftp.ok("SITE WHOAMI", 200).text().contains("bob"));
    let mut ftp = server.connect();
    ftp.login("ann", "open sesame");
    ftp.ok("MKD made", 257);
    assert!(server.has("made"));
}

#[test]
fn a_wrong_password_is_refused_like_an_unknown_name() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::with(|o| accounts(o, &dir));
    let mut ftp = server.connect();
    ftp.ok("USER ann", 331);
    let wrong = ftp.ok("PASS open sesam", 530);
    ftp.ok("USER nobody", 331);
    assert_eq!(ftp.ok("PASS open sesame", 530), wrong);
}

#[test]
fn after_too_many_refusals_a_user_is_locked_out() {
    let dir = tempfile::tempdir().unwrap();
    let server = TestServer::with(|o| {
        accounts(o, &dir);
        o.login_attempts = Some(2);
    });
    let mut ftp = server.connect();
    for _ in 0..2 {
        ftp.ok("USER ann", 331);
        ftp.ok("PASS wrong", 530);
    }
    let mut ftp = server.connect();
    ftp.ok("USER ann", 331);
    ftp.ok("PASS open sesame", 530);
    let mut ftp = server.connect();
    ftp.login("bob", "open sesame");
}

#[test]
fn a_session_of_refused_logins_ends() {
    let server = TestServer::with(|o| o.anonymous = None);
    let mut ftp = server.connect();
    for _ in 0..3 {
        ftp.ok("USER eve", 331);
        ftp.ok("PASS x", 530);
    }
    ftp.ok("USER eve", 331);
    ftp.send("PASS x");
    let last = ftp.rest();
    assert_eq!(last.last().unwrap().code, 421, "{last:?}");
}

#[test]
fn anonymous_ro_refuses_every_change() {
    let server = TestServer::with(|o| o.anonymous = Some(Access::Ro));
    server.put("f", "old");
    let mut ftp = server.login();
    for command in [
        "MKD d",
        "DELE f",
        "RMD d",
        "SITE CHMOD 777 f",
        "SITE UTIME 20200101000000 f",
        "MFMT 20200101000000 f",
        "SITE RDEL f",
        "SITE TRNC 0 f",
        "SITE DELHELD f",
    ] {
        ftp.ok(command, 550);
    }
    for command in ["STOR f", "STOR new", "APPE f", "ESTO A 0 f"] {
        ftp.pasv();
        ftp.ok(command, 550);
    }
    ftp.ok("RNFR f", 350);
    ftp.ok("RNTO g", 550);
    assert_eq!(server.get("f"), b"old");
    assert_eq!(fs::read_dir(&server.root).unwrap().count(), 1);
    assert_eq!(ftp.fetch("f"), b"old");
}

#[test]
fn commands_before_login_are_refused() {
    let server = TestServer::new();
    let mut ftp = server.connect();
    for command in [
        "PWD",
        "CWD /",
        "LIST",
        "PASV",
        "RETR f",
        "SITE CHMOD 777 f",
        "REST 5",
        "TYPE I",
    ] {
        ftp.ok(command, 530);
    }
    ftp.ok("NOOP", 200);
    ftp.ok("FEAT", 211);
    ftp.ok("PASS x", 503);
}

#[test]
fn a_connection_that_does_not_log_in_is_closed() {
    let server = TestServer::with(|o| o.login_timeout = Some(1));
    let mut ftp = server.connect();
    // On a busy machine the time may be over before the answer to it.
    ftp.raw("USER anonymous\r\n");
    let last = ftp.rest();
    assert_eq!(last.last().unwrap().code, 421, "{last:?}");
}

#[test]
fn a_flood_of_commands_before_login_ends_the_session() {
    let server = TestServer::new();
    let mut ftp = server.connect();
    // It may be closed before all of them are sent.
    drop(ftp.stream.write_all(&b"NOOP\r\n".repeat(10_000)));
    let mut said = ftp.rest();
    let last = said.pop().unwrap();
    assert!(
        last.code == 421 && last.text().contains("without a login"),
        "{last:?}"
    );
    assert!(said.len() == 100 && said.iter().all(|reply| reply.code == 200));
}

#[test]
fn an_idle_session_is_closed() {
    let server = TestServer::with(|o| o.idle_timeout = Some(1));
    let mut ftp = server.login();
    let last = ftp.rest();
    assert_eq!(last.last().unwrap().code, 421, "{last:?}");
    server.wait_for_sessions(0);
}

#[test]
fn sessions_over_the_limit_are_told_to_come_back() {
    let server = TestServer::with(|o| o.max_sessions = Some(2));
    let first = server.login();
    let _second = server.login();
    let mut third = Ftp::silent(std::net::TcpStream::connect(server.address).unwrap());
    assert_eq!(third.reply().code, 421);
    assert!(third.try_reply().is_none());
    drop(first);
    server.wait_for_sessions(1);
    server.login().ok("NOOP", 200);
}

#[test]
fn a_flood_of_unauthenticated_connections_does_not_keep_users_out() {
    let server = TestServer::with(|o| o.max_unauthenticated = Some(8));
    let mut known = server.login();
    let crowd: Vec<_> = (0..200)
        .map(|_| std::net::TcpStream::connect(server.address).unwrap())
        .collect();
    let mut ftp = server.connect();
    ftp.login("anonymous", "x");
    known.ok("NOOP", 200);
    server.wait_for_sessions(2 + 7);
    drop(crowd);
}

#[test]
fn a_reload_changes_limits_for_new_sessions() {
    let server = TestServer::new();
    let mut before = server.login();
    let mut options = Options::default();
    options.max_sessions = Some(5);
    server.control.set_policy(
        gridftp_server::config::Policy::check(&options)
            .unwrap()
            .into(),
    );
    before.ok("NOOP", 200);
    let mut after = server.connect();
    after.ok("USER anonymous", 331);
    after.ok("PASS x", 530);
}
