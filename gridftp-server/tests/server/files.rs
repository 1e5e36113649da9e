//! Many small files by one command: `ERET files=` and `ESTO files=`.

use std::fs;
use std::io::Write as _;
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt as _;

use bytes::{Bytes, BytesMut};
use gridftp_data::pack::{MOST_BYTES, Record, Unpacker};

use gridftp_server::config::Access;

use crate::support::{Data, EOD, EOF, Ftp, Reply, TestServer, bytes, header, hidden, lacks};

/// A block with the tag of a transfer.
const TAG: u8 = 0x01;

fn file(name: &str, content: impl Into<Bytes>) -> Record {
    Record::new(
        Bytes::copy_from_slice(name.as_bytes()),
        Some(content.into()),
    )
}

fn wire(records: &[Record]) -> Vec<u8> {
    let mut wire = BytesMut::new();
    for record in records {
        record.write(&mut wire);
    }
    wire.to_vec()
}

/// The name and the bytes of each record, none of one that is left out.
fn unpack(wire: &[u8]) -> Vec<(String, Option<Vec<u8>>)> {
    let mut unpacker = Unpacker::default();
    unpacker.push(wire);
    let mut all = Vec::new();
    while let Some(arrived) = unpacker.take().unwrap() {
        assert!(arrived.record.content.is_none() || arrived.prove().is_ok());
        let Record { name, content, .. } = arrived.record;
        let name = String::from_utf8(name.to_vec()).unwrap();
        all.push((name, content.map(|bytes| bytes.to_vec())));
    }
    assert!(unpacker.is_empty());
    all
}

fn server() -> TestServer {
    let server = TestServer::new();
    fs::create_dir_all(server.root.join("dir/sub")).unwrap();
    server
}

/// Stores data that may be no sequence of records: the server may reset the connection before its end.
fn store_any(ftp: &mut Ftp, command: &str, wire: &[u8]) -> Reply {
    let mut data = ftp.data();
    ftp.ok(command, 150);
    let written = data.0.write_all(wire);
    let _is_reset = written.and_then(|()| data.0.shutdown(Shutdown::Write));
    ftp.outcome()
}

/// Whether each file is stored, by the last reply to `ESTO files=`.
fn stored(ftp: &mut Ftp, command: &str, wire: &[u8]) -> Vec<bool> {
    let reply = ftp.store(command, wire);
    assert_eq!(reply.code, 226, "{reply:?}");
    let text = reply.text();
    let list = text.split("Stored=").nth(1).unwrap().trim_end_matches(';');
    list.split(',').map(|file| file != "-").collect()
}

#[test]
fn small_files_are_sent_in_order_and_all_others_are_left_out() {
    let server = server();
    let large = bytes(MOST_BYTES + 1);
    server.put("dir/a b", "1");
    server.put("dir/empty", "");
    server.put("dir/most", &large[1..]);
    server.put("dir/large", &large);
    server.put("secret", "outside");
    let mut ftp = server.login();
    let feat = ftp.ok("FEAT", 211).text();
    assert!(
        feat.contains("\n ERET P,checksum,tar,memory,files"),
        "{feat}"
    );
    assert!(feat.contains("\n ESTO A,checksum,memory,files"), "{feat}");
    let expected = [
        ("empty", Some(&large[..0])),
        ("large", None),
        ("a b", Some(b"1".as_slice())),
        ("none", None),
        ("sub", None),
        ("most", Some(&large[1..])),
    ];
    let expected: Vec<_> = (expected.into_iter())
        .map(|(name, content)| (name.to_owned(), content.map(<[u8]>::to_vec)))
        .collect();
    let names = "empty/large/a b/none/sub/most";
    let got = ftp.get(&format!("ERET files=\"1 6\" dir/{names}"));
    assert!(unpack(&got) == expected);
    ftp.ok("CWD dir", 250);
    let got = ftp.get(&format!("ERET files=\"1 6\" {names}"));
    assert!(unpack(&got) == expected);
    ftp.ok("MODE E", 200);
    let listener = ftp.port();
    ftp.ok("ERET files=\"7 1\" /dir/a b", 150);
    let mut data = Data::accept(&listener);
    // The tag precedes the data.
    let (_, tag, _) = data.read_block();
    assert_eq!(tag, 7);
    let (_, _, got) = data.read_block();
    assert_eq!(unpack(&got), [("a b".to_owned(), Some(b"1".to_vec()))]);
    assert_eq!(ftp.reply().code, 226);
}

#[test]
fn names_that_are_no_names_are_refused_before_the_data() {
    let server = server();
    server.put("secret", "outside");
    let mut ftp = server.login();
    ftp.ok("PASV", 227);
    for path in ["/dir/../secret", "/dir/./secret", "/dir//secret", "secret"] {
        ftp.ok(&format!("ERET files=\"1 2\" {path}"), 501);
    }
    for arguments in ["", "1", "1 0", "1 513", "1 -1", "-1 1", "1 2 3"] {
        ftp.ok(&format!("ERET files=\"{arguments}\" /dir/a/b"), 501);
        ftp.ok(&format!("ESTO files=\"{arguments}\" /dir"), 501);
    }
    ftp.ok("REST 5", 350);
    ftp.ok("ERET files=\"1 1\" /secret", 504);
    ftp.ok("SITE RESTRICT R/dir,N/dir/sub", 250);
    ftp.ok("ERET files=\"1 1\" /dir/a", 550);
    ftp.ok("ERET files=\"1 1\" /secret", 550);
    ftp.ok("ESTO files=\"1 1\" /dir", 550);
}

#[test]
fn small_files_are_stored_and_all_others_are_told() {
    if lacks(|can| can.times) {
        return;
    }
    let server = server();
    server.put("dir/old", "the old file");
    let mut ftp = server.login();
    let time = Some((1_000_000_000, 5_000_000));
    let mut bad = wire(&[file("bad", "content")]);
    *bad.last_mut().unwrap() ^= 1;
    let records = [
        file("old", "the new file"),
        Record {
            modified: time,
            ..file("timed", "")
        },
        file("../escaped", "x"),
        file("sub/deeper", "x"),
        file("sub", "x"),
        file("..", "x"),
        file("line\nend", "x"),
        file("most", bytes(MOST_BYTES)),
        Record::new("none", None),
    ];
    let wire = [wire(&records), bad].concat();
    let done = stored(&mut ftp, "ESTO files=\"1 10\" dir", &wire);
    let [yes, no] = [true, false];
    assert_eq!(done, [yes, yes, no, no, no, no, no, yes, no, no]);
    assert_eq!(server.get("dir/old"), b"the new file");
    assert!(server.get("dir/most") == bytes(MOST_BYTES));
    for name in ["escaped", "dir/sub/deeper", "dir/none", "dir/bad"] {
        assert!(!server.has(name), "{name}");
    }
    let told = ftp.ok("MDTM dir/timed", 213).text();
    assert!(told.starts_with("213 20010909014640"), "{told}");
    assert_eq!(hidden(&server.root.join("dir")), Vec::<String>::new());
}

#[test]
fn a_new_file_replaces_nothing() {
    if lacks(|can| can.exclusive) {
        return;
    }
    let server = server();
    server.put("dir/old", "the old file");
    let mut ftp = server.login();
    let new = |name| Record {
        is_new: true,
        ..file(name, "the new file")
    };
    let wire = wire(&[new("old"), new("new")]);
    let done = stored(&mut ftp, "ESTO files=\"1 2\" dir", &wire);
    assert_eq!(done, [false, true]);
    assert_eq!(server.get("dir/old"), b"the old file");
    assert_eq!(server.get("dir/new"), b"the new file");
}

#[test]
fn data_without_a_record_of_each_file_ends_the_transfer_and_not_the_session() {
    let server = server();
    let mut ftp = server.login();
    let two = wire(&[file("a", "1"), file("b", "2")]);
    for (count, wire) in [
        (2, &two[..two.len() - 1]),
        (3, &two),
        (1, &two),
        (1, b"\xff and no record at all"),
    ] {
        let reply = store_any(&mut ftp, &format!("ESTO files=\"1 {count}\" dir"), wire);
        assert!((400..600).contains(&reply.code), "{count} {reply:?}");
    }
    let done = stored(&mut ftp, "ESTO files=\"1 2\" dir", &two);
    assert_eq!(done, [true, true]);
}

#[test]
fn who_may_not_write_stores_none() {
    let server = TestServer::with(|options| options.anonymous = Some(Access::Ro));
    server.put("a", "1");
    let mut ftp = server.connect();
    ftp.login("anonymous", "x");
    ftp.ok("TYPE I", 200);
    let _data = ftp.data();
    ftp.ok("ESTO files=\"1 1\" /", 550);
    assert_eq!(unpack(&ftp.get("ERET files=\"1 1\" /a")).len(), 1);
}

#[test]
fn facts_come_and_go_with_the_bytes() {
    if lacks(|can| can.modes && can.times) {
        return;
    }
    let server = server();
    let mut ftp = server.login();
    let sent = [
        Record {
            modified: Some((1_000_000_000, 123_000_000)),
            mode: Some(0o640),
            ..file("a", "1")
        },
        Record::new("sub", None),
    ];
    let done = stored(&mut ftp, "ESTO files=\"1 1\" dir", &wire(&sent[..1]));
    assert_eq!(done, [true]);
    let mode = fs::metadata(server.root.join("dir/a"));
    assert_eq!(mode.unwrap().permissions().mode() & 0o7777, 0o640);
    let got = ftp.get("ERET files=\"1 2 facts\" dir/a/sub");
    assert_eq!(got, wire(&sent));
    let got = ftp.get("ERET files=\"1 1\" dir/a");
    assert_eq!(got, wire(&[file("a", "1")]));
}

#[test]
fn no_flipped_bit_stores_a_file_under_another_name() {
    let server = server();
    let mut ftp = server.login();
    let sound = wire(&[file("a", "1")]);
    for at in 0..sound.len() {
        let mut flipped = sound.clone();
        flipped[at] ^= 1;
        let reply = store_any(&mut ftp, "ESTO files=\"1 1\" dir", &flipped);
        let is_left_out = reply.text().contains("Stored=-;");
        assert!(reply.code >= 400 || is_left_out, "{at} {reply:?}");
    }
    let left = fs::read_dir(server.root.join("dir")).unwrap().count();
    assert_eq!(left, 1, "the directory `sub` alone");
}

/// The data of a transfer that fails in MODE E is skipped by its tag.
#[test]
fn a_transfer_that_fails_in_mode_e_leaves_its_connections_to_the_next() {
    let server = server();
    let mut ftp = server.login();
    ftp.ok("MODE E", 200);
    let mut data = ftp.data();
    let sound = wire(&[file("a", "1")]);
    for (tag, wire, code) in [(1, &b"no record\xff"[..], 5), (2, &sound, 2)] {
        ftp.send(&format!("ESTO files=\"{tag} 1\" dir"));
        data.write(&header(TAG, 0, tag));
        data.block(0, 0, wire);
        data.write(&header(EOF | EOD, 0, 1));
        let reply = loop {
            let reply = ftp.reply();
            if reply.code >= 200 {
                break reply;
            }
        };
        assert_eq!(reply.code / 100, code, "{reply:?}");
    }
    assert_eq!(server.get("dir/a"), b"1");
}
