//! `SITE RATE`: the bytes a second of the data connections of a session.

use std::fs::File;
use std::io::Read as _;
use std::iter;
use std::time::{Duration, Instant};

use crate::mode_e::receive;
use crate::nodes::{BLOCK, Farm, deal, fetch_blocks, last, spas};
use crate::support::{Data, PATIENCE, TestServer, bytes};

/// Bytes a second, bytes of a file, and the least time for them: those of a twentieth of a second may
/// pass at once.
const RATE: &str = "SITE RATE 1000000";
const SIZE: usize = 600_000;
const LEAST: Duration = Duration::from_millis(500);

#[test]
fn files_keep_to_the_rate_of_the_session_both_ways() {
    let server = TestServer::new();
    server.put("f", bytes(SIZE));
    let mut ftp = server.login();
    assert!(ftp.ok("FEAT", 211).text().contains("RATE"));
    ftp.ok(RATE, 250);
    let begun = Instant::now();
    assert_eq!(ftp.fetch("f"), bytes(SIZE));
    assert!(begun.elapsed() > LEAST, "{:?}", begun.elapsed());
    let begun = Instant::now();
    assert_eq!(ftp.store("STOR g", &bytes(SIZE)).code, 226);
    assert!(begun.elapsed() > LEAST, "{:?}", begun.elapsed());
    assert_eq!(server.get("g"), bytes(SIZE));
}

#[test]
fn the_connections_of_a_file_share_the_rate() {
    let server = TestServer::new();
    server.put("f", bytes(SIZE));
    let mut ftp = server.login();
    ftp.ok("MODE E", 200);
    ftp.ok("OPTS RETR Parallelism=4,4,4;", 200);
    ftp.ok(RATE, 250);
    let listener = ftp.port();
    let begun = Instant::now();
    ftp.send("RETR f");
    let (file, _conns) = receive(&listener, 4, SIZE);
    assert!(begun.elapsed() > LEAST, "{:?}", begun.elapsed());
    assert!(file == bytes(SIZE));
}

/// At the first rate it would take hours.
#[test]
fn a_running_transfer_takes_another_rate_at_once() {
    let server = TestServer::new();
    server.put("f", bytes(20_000_000));
    let mut ftp = server.login();
    ftp.ok("SITE RATE 1000", 250);
    let data = ftp.data();
    ftp.ok("RETR f", 150);
    for line in ["NOOP", "SITE RATE off", "PWD"] {
        ftp.send(line);
    }
    assert_eq!(data.read().len(), 20_000_000);
    let codes: Vec<_> = (0..4).map(|_| ftp.outcome().code).collect();
    assert_eq!(codes, [226, 200, 250, 257]);
}

#[test]
fn a_transfer_without_a_rate_can_be_given_one() {
    let server = TestServer::new();
    let endless = File::create(server.root.join("f")).unwrap();
    endless.set_len(1 << 43).unwrap();
    let mut ftp = server.login();
    ftp.ok("SITE RATE off", 250);
    let mut data = ftp.narrow("RETR f", 16 << 10);
    ftp.send(RATE);
    // The server reads the line while data pass at the rate of the machine.
    let sent = Instant::now();
    let mut part = vec![0; SIZE];
    let is_slow = iter::from_fn(|| (sent.elapsed() < PATIENCE).then(Instant::now)).any(|begun| {
        data.0.read_exact(&mut part).unwrap();
        begun.elapsed() > LEAST
    });
    assert!(is_slow);
    data.reset();
    assert_eq!(ftp.outcome().code, 426);
    assert_eq!(ftp.reply().code, 250);
}

#[test]
fn the_nodes_of_a_file_share_the_rate_both_ways() {
    let farm = Farm::new(2);
    let content = bytes(BLOCK * 16 + 7);
    let mut ftp = farm.extended();
    assert!(ftp.ok("FEAT", 211).text().contains("RATE"));
    ftp.ok(RATE, 250);
    let mut conns: Vec<_> = spas(&mut ftp).into_iter().map(Data::connect).collect();
    assert_eq!(conns.len(), 2);
    let begun = Instant::now();
    ftp.send("STOR f");
    deal(&content, &mut conns);
    conns.iter_mut().for_each(|conn| conn.end(1));
    assert_eq!(last(&mut ftp).code, 226);
    assert!(begun.elapsed() > LEAST, "{:?}", begun.elapsed());
    assert!(farm.server.get("f") == content);
    let begun = Instant::now();
    assert!(fetch_blocks(&mut ftp, "f", content.len()) == content);
    assert!(begun.elapsed() > LEAST, "{:?}", begun.elapsed());
    // One node keeps to it alone.
    ftp.ok("MODE S", 200);
    let begun = Instant::now();
    assert!(ftp.fetch("f") == content);
    assert!(begun.elapsed() > LEAST, "{:?}", begun.elapsed());
}

/// At the first rate it would take hours.
#[test]
fn nodes_take_another_rate_at_once() {
    let farm = Farm::new(2);
    let content = bytes(BLOCK * 16 + 7);
    for (line, least) in [("SITE RATE off", Duration::ZERO), (RATE, LEAST)] {
        let mut ftp = farm.extended();
        ftp.ok("SITE RATE 1000", 250);
        let mut conns: Vec<_> = spas(&mut ftp).into_iter().map(Data::connect).collect();
        let begun = Instant::now();
        ftp.send("STOR f");
        assert_eq!(ftp.reply().code, 150);
        ftp.send(line);
        deal(&content, &mut conns);
        conns.iter_mut().for_each(|conn| conn.end(1));
        assert_eq!(last(&mut ftp).code, 226, "{line}");
        assert!(begun.elapsed() > least, "{line}: {:?}", begun.elapsed());
        assert_eq!(ftp.reply().code, 250);
        assert!(farm.server.get("f") == content);
    }
}
