//! MODE E: blocks of a sender and a receiver, and the reuse of data connections.

use std::io::Read as _;

use crate::support::{CLOSE, Data, EOD, EOF, Ftp, TestServer, header};

/// Descriptor bits that no sender sets; the Globus server ignores them.
const EOR: u8 = 0x80;
const SUSPECT: u8 = 0x20;

fn extended(server: &TestServer) -> Ftp {
    let mut ftp = server.login();
    ftp.ok("MODE E", 200);
    ftp
}

/// Checks that a data connection is closed.
#[track_caller]
fn assert_closed(mut data: Data) {
    let mut byte = [0];
    let read = data.0.read(&mut byte);
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
}

/// The sender opens the requested number of connections, even for an empty file. Each ends with one
/// EOD block. Exactly one of these carries EOF, without payload and with the number of connections
/// in place of the offset.
#[test]
fn every_connection_ends_with_one_eod() {
    let server = TestServer::new();
    server.put("empty", "");
    server.put("one", "1");
    for (file, streams) in [("empty", 1), ("empty", 3), ("one", 3)] {
        let mut ftp = extended(&server);
        ftp.ok(&format!("OPTS RETR Parallelism={streams};"), 200);
        let listener = ftp.port();
        ftp.send(&format!("RETR {file}"));
        let mut conns: Vec<Data> = (0..streams).map(|_| Data::accept(&listener)).collect();
        let (mut ends, mut stored) = (Vec::new(), Vec::new());
        for conn in &mut conns {
            loop {
                let (flags, offset, payload) = conn.read_block();
                assert_eq!(flags & !(EOF | EOD), 0);
                stored.extend(payload.iter().map(|_| offset));
                if flags & EOD != 0 {
                    assert!(payload.is_empty());
                    ends.push((flags, offset));
                    break;
                }
            }
        }
        ends.sort_unstable();
        let mut wanted = vec![(EOD, 0); streams - 1];
        wanted.push((EOF | EOD, streams as u64));
        assert_eq!(ends, wanted, "{file} over {streams}");
        assert_eq!(stored.len(), usize::from(file == "one"));
        assert_eq!((ftp.reply().code, ftp.reply().code), (150, 226));
    }
}

/// A receiver accepts blocks of any size, including zero, and ignores the descriptor bits above.
#[test]
fn unusual_blocks_are_stored() {
    let server = TestServer::new();
    let mut ftp = extended(&server);
    let mut data = ftp.data();
    ftp.ok("STOR f", 150);
    data.block(0, 0, b"");
    data.block(EOR, 0, b"0");
    data.block(SUSPECT, 1, b"1");
    data.block(0, 1 << 40, b"");
    data.block(0, 2, &[b'2'; 300_000]);
    data.end(1);
    assert_eq!(ftp.outcome().code, 226);
    let file = server.get("f");
    assert_eq!((&file[..3], file.len()), (&b"012"[..], 300_002));
}

/// The EOF may precede data of other connections, and even their opening.
#[test]
fn the_eof_may_come_first() {
    let server = TestServer::new();
    let mut ftp = extended(&server);
    let address = ftp.pasv();
    let mut first = Data::connect(address);
    ftp.ok("STOR f", 150);
    first.end(3);
    let mut second = Data::connect(address);
    second.block(EOD, 3, b"def");
    let mut third = Data::connect(address);
    third.block(0, 0, b"abc");
    third.block(EOD, 0, b"");
    assert_eq!(ftp.outcome().code, 226);
    assert_eq!(server.get("f"), b"abcdef");
}

/// A sender that closes a connection sends CLOSE with its EOD; the next transfer does not wait for
/// it.
#[test]
fn a_connection_closed_after_its_eod_is_not_awaited() {
    let server = TestServer::new();
    let mut ftp = extended(&server);
    let address = ftp.pasv();
    let (mut one, mut two) = (Data::connect(address), Data::connect(address));
    ftp.ok("STOR f", 150);
    one.block(0, 0, b"abc");
    two.write(&header(CLOSE | EOD, 0, 0));
    one.end(2);
    assert_eq!(ftp.outcome().code, 226);
    drop(two);
    ftp.send("STOR g");
    one.block(0, 0, b"next");
    one.end(1);
    assert_eq!(ftp.reply().code, 125);
    assert_eq!(ftp.outcome().code, 226);
    assert_eq!(server.get("g"), b"next");
}

/// Connections are reused, with reply 125, until PASV, PORT or a similar command closes them.
#[test]
fn a_new_data_port_closes_cached_connections() {
    let server = TestServer::new();
    for line in [
        "PASV",
        "EPSV",
        "SPAS",
        "PORT 127,0,0,1,200,1",
        "SPOR 127,0,0,1,200,1",
    ] {
        let mut ftp = extended(&server);
        let mut data = ftp.data();
        ftp.ok("STOR f", 150);
        data.block(0, 0, b"abc");
        data.end(1);
        assert_eq!(ftp.outcome().code, 226);
        for other in [
            "TYPE I",
            "MODE E",
            "NOOP",
            "OPTS RETR Parallelism=2;",
            "SBUF 65536",
        ] {
            ftp.ok(other, 200);
        }
        ftp.send("STOR f");
        data.end(1);
        assert_eq!(ftp.reply().code, 125, "{line}");
        assert_eq!(ftp.outcome().code, 226);
        ftp.send(line);
        assert!((200..300).contains(&ftp.reply().code));
        assert_closed(data);
    }
}
