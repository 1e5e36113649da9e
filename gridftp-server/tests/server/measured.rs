//! Bytes from and to the server's memory: `ERET memory=` and `ESTO memory=`.

use std::fs;

use gridftp_server::config::Access;

use crate::support::{TestServer, bytes};

#[test]
fn bytes_come_from_memory_and_go_there() {
    let server = TestServer::new();
    let mut ftp = server.login();
    let features = ftp.ok("FEAT", 211).text();
    for line in ["MEMORY Bytes=1099511627776;Seconds=60;", ",memory"] {
        assert!(features.contains(line), "{features}");
    }
    assert_eq!(ftp.get("ERET memory=\"1000000 10\" /").len(), 1_000_000);
    assert!(ftp.get("ERET memory=\"1000000 0\" .").is_empty());
    let stored = ftp.store("ESTO memory=\"1000000 10\" /", &bytes(1_000_000));
    assert_eq!(stored.code, 226);
    // More than the client said.
    let mut data = ftp.data();
    ftp.ok("ESTO memory=\"1000 10\" /", 150);
    data.write(&bytes(1001));
    let refused = ftp.outcome();
    assert_eq!(refused.code, 552, "{refused:?}");
    drop(data);
    let left = fs::read_dir(&server.root).unwrap();
    let mut left = left.map(|entry| entry.unwrap().file_name());
    assert!(left.all(|name| name == ".gridftp-index"));
}

#[test]
fn blocks_of_mode_e_count_each_time_that_they_come() {
    let server = TestServer::new();
    let mut ftp = server.login();
    ftp.ok("MODE E", 200);
    let mut data = ftp.data();
    ftp.ok("ESTO memory=\"10 10\" /", 150);
    data.block(0, 1 << 40, b"12345");
    data.block(0, 7, b"12345");
    data.end(1);
    assert_eq!(ftp.outcome().code, 226);
    ftp.ok("ESTO memory=\"9 10\" /", 125);
    data.block(0, 0, b"12345");
    data.block(0, 5, b"12345");
    assert_eq!(ftp.outcome().code, 552);
}

#[test]
fn a_user_who_may_only_read_measures_both_ways() {
    let server = TestServer::with(|options| options.anonymous = Some(Access::Ro));
    let mut ftp = server.login();
    assert_eq!(ftp.get("ERET memory=\"5 10\" /").len(), 5);
    assert_eq!(ftp.store("ESTO memory=\"5 10\" /", b"12345").code, 226);
}

/// Those of users have no such limit.
#[test]
fn anonymous_users_of_one_address_have_few_at_once() {
    let server = TestServer::new();
    let begin = || {
        let mut ftp = server.login();
        let data = ftp.data();
        ftp.ok("ESTO memory=\"1000 50\" /", 150);
        (ftp, data)
    };
    let mut running: Vec<_> = (0..4).map(|_| begin()).collect();
    let mut fifth = server.login();
    for verb in ["ERET", "ESTO"] {
        fifth.pasv();
        let refused = fifth.ok(&format!("{verb} memory=\"5 10\" /"), 450).text();
        assert!(refused.contains("measurement: 4 of anonymous"), "{refused}");
    }
    // Files are no measurements.
    server.put("file", "abc");
    assert_eq!(fifth.fetch("file"), b"abc");
    let (mut first, mut data) = running.remove(0);
    data.write(b"12345");
    data.finish();
    assert_eq!(first.outcome().code, 226);
    assert_eq!(fifth.get("ERET memory=\"5 10\" /").len(), 5);
}

#[test]
fn who_may_not_look_there_is_refused() {
    let server = TestServer::new();
    fs::create_dir(server.root.join("hidden")).unwrap();
    server.put("hidden/f", "x");
    for verb in ["ERET", "ESTO"] {
        let mut stranger = server.connect();
        stranger.ok(&format!("{verb} memory=\"5 10\" /"), 530);
        let mut ftp = server.login();
        ftp.pasv();
        ftp.ok(&format!("{verb} memory=\"5 10\" /missing"), 550);
        ftp.ok("SITE RESTRICT RW/,N/hidden", 250);
        ftp.ok(&format!("{verb} memory=\"5 10\" /hidden"), 550);
    }
}

#[test]
fn the_administrator_bounds_it_or_turns_it_off() {
    let server = TestServer::with(|options| options.max_measurement = Some(7));
    let features = server.login().ok("FEAT", 211).text();
    assert!(features.contains(";Seconds=7;"), "{features}");
    let server = TestServer::with(|options| options.max_measurement = Some(0));
    let mut ftp = server.login();
    let features = ftp.ok("FEAT", 211).text();
    let is_told = features.contains("MEMORY") || features.contains(",memory");
    assert!(!is_told, "{features}");
    ftp.pasv();
    for verb in ["ERET", "ESTO"] {
        ftp.ok(&format!("{verb} memory=\"5 10\" /"), 504);
    }
}
