//! MODE E: several connections, caching, markers, and malformed blocks.

use std::io::Read as _;
use std::net::TcpListener;

use gridftp_dsi::WriteModel;

use crate::support::{
    CLOSE, Data, EOD, EOF, Ftp, TestServer, bytes, header, hidden, host_port, lacks,
};

/// A session in MODE E.
fn session(server: &TestServer) -> Ftp {
    let mut ftp = server.login();
    ftp.ok("MODE E", 200);
    ftp
}

/// Receives the server's data over the `streams` connections that it opens, in order of offset.
pub(crate) fn receive(listener: &TcpListener, streams: u64, len: usize) -> (Vec<u8>, Vec<Data>) {
    let mut file = vec![0; len];
    let (mut conns, mut eods, mut wanted) = (Vec::new(), 0, None);
    for _ in 0..streams {
        conns.push(Data::accept(listener));
    }
    for conn in &mut conns {
        loop {
            let (flags, offset, payload) = conn.read_block();
            if flags & EOF != 0 {
                assert!(wanted.replace(offset).is_none(), "one EOF");
            } else {
                let at = usize::try_from(offset).unwrap();
                file[at..at + payload.len()].copy_from_slice(&payload);
            }
            if flags & EOD != 0 {
                eods += 1;
                break;
            }
        }
    }
    assert_eq!((eods, wanted), (streams, Some(streams)));
    (file, conns)
}

#[test]
fn a_file_is_sent_over_four_connections_and_they_serve_again() {
    let server = TestServer::new();
    let file = bytes(3_000_001);
    server.put("f", &file);
    server.put("empty", "");
    let mut ftp = session(&server);
    ftp.ok("OPTS RETR Parallelism=4,4,4;", 200);
    let listener = ftp.port();
    ftp.send("RETR f");
    let (got, mut conns) = receive(&listener, 4, file.len());
    assert_eq!(ftp.reply().code, 150);
    assert_eq!(ftp.reply().code, 226);
    assert!(got == file);

    ftp.send("RETR empty");
    assert_eq!(ftp.reply().code, 125, "the connections are kept");
    let mut eods = 0;
    for conn in &mut conns {
        let (flags, _, payload) = conn.read_block();
        assert!(payload.is_empty() && flags & EOD != 0);
        eods += 1;
    }
    assert_eq!(eods, 4);
    assert_eq!(ftp.reply().code, 226);
}

#[test]
fn a_file_arrives_over_many_connections_in_any_order() {
    let server = TestServer::new();
    let file = bytes(1_000_000);
    let mut ftp = session(&server);
    let address = ftp.pasv();
    let mut conns: Vec<Data> = (0..4).map(|_| Data::connect(address)).collect();
    ftp.ok("STOR f", 150);
    let parts: Vec<_> = file.chunks(10_000).enumerate().collect();
    for (i, part) in parts.into_iter().rev() {
        conns[i % 4].block(0, i as u64 * 10_000, part);
    }
    for conn in &mut conns[1..] {
        conn.block(EOD, 0, b"");
    }
    conns[0].end(4);
    let mut markers = Vec::new();
    let last = loop {
        let reply = ftp.reply();
        match reply.code {
            111 | 112 => markers.push(reply),
            _ => break reply,
        }
    };
    assert_eq!(last.code, 226);
    assert!(server.get("f") == file);
    let first = &markers[0];
    assert_eq!(first.code, 112);
    assert!(
        first.text().contains("\n Stripe Bytes Transferred: 0\n"),
        "{first:?}"
    );
    let range = markers.last().unwrap();
    assert_eq!(range.text(), "111 Range Marker 0-1000000");

    // The same connections carry the next file.
    ftp.send("STOR g");
    conns[2].block(0, 0, b"next");
    for conn in &mut conns[1..] {
        conn.block(EOD, 0, b"");
    }
    conns[0].end(4);
    assert_eq!(ftp.reply().code, 125);
    assert_eq!(ftp.outcome().code, 226);
    assert_eq!(server.get("g"), b"next");
}

#[test]
fn a_last_block_may_carry_data_and_the_end_mark() {
    let server = TestServer::new();
    let mut ftp = session(&server);
    let mut data = ftp.data();
    ftp.ok("STOR f", 150);
    data.write(&header(EOF, 0, 1));
    data.block(EOD, 0, b"data and end");
    assert_eq!(ftp.outcome().code, 226);
    assert_eq!(server.get("f"), b"data and end");
}

#[test]
fn listings_travel_in_mode_e() {
    let server = TestServer::new();
    server.put("f", "abc");
    let mut ftp = session(&server);
    let listener = ftp.port();
    ftp.send("MLSD /");
    let mut data = Data::accept(&listener);
    let mut listing = Vec::new();
    loop {
        let (flags, offset, payload) = data.read_block();
        if flags & EOF == 0 {
            assert_eq!(offset, listing.len() as u64);
            listing.extend(payload);
        }
        if flags & EOD != 0 {
            break;
        }
    }
    assert_eq!(ftp.reply().code, 150);
    assert_eq!(ftp.reply().code, 226);
    assert!(String::from_utf8(listing).unwrap().contains("; f\r\n"));
}

#[test]
fn the_wrong_side_connecting_is_refused() {
    let server = TestServer::new();
    server.put("f", "x");
    let mut ftp = session(&server);
    ftp.pasv();
    let reply = ftp.cmd("RETR f");
    assert!(reply.code >= 400, "{reply:?}");
    ftp.port();
    let reply = ftp.cmd("STOR g");
    assert!(reply.code >= 400, "{reply:?}");
    ftp.ok("NOOP", 200);
}

#[test]
fn spas_and_spor_work_with_one_host() {
    let server = TestServer::new();
    let mut ftp = session(&server);
    let reply = ftp.ok("SPAS", 229);
    assert_eq!(reply.lines.len(), 3, "{reply:?}");
    let line = reply.lines[1].trim().replace(' ', "");
    let n: Vec<u16> = line.split(',').map(|n| n.parse().unwrap()).collect();
    let mut data = Data::connect(([127, 0, 0, 1], n[4] * 256 + n[5]).into());
    ftp.ok("STOR f", 150);
    data.block(0, 0, b"striped");
    data.end(1);
    assert_eq!(ftp.outcome().code, 226);
    assert_eq!(server.get("f"), b"striped");

    // Two addresses: all data to the first, end marks to both.
    let (one, two) = (
        TcpListener::bind("127.0.0.1:0").unwrap(),
        TcpListener::bind("127.0.0.1:0").unwrap(),
    );
    let address = |listener: &TcpListener| host_port(listener.local_addr().unwrap());
    ftp.ok(&format!("SPOR {} {}", address(&one), address(&two)), 200);
    ftp.send("RETR f");
    let (got, _one) = receive(&one, 1, 7);
    let (nothing, _two) = receive(&two, 1, 0);
    assert_eq!((got.as_slice(), nothing.len()), (&b"striped"[..], 0));
    assert_eq!(ftp.reply().code, 150);
    assert_eq!(ftp.reply().code, 226);
}

/// Sends `attack` as a STOR's data; the transfer must fail, the session live, and no file appear.
#[track_caller]
fn refused(attack: impl FnOnce(&mut Data)) {
    let server = TestServer::with(|o| {
        o.stall_timeout = Some(1);
        o.connect_timeout = Some(1);
    });
    let mut ftp = session(&server);
    let mut data = ftp.data();
    ftp.ok("STOR f", 150);
    attack(&mut data);
    let reply = ftp.outcome();
    assert!((400..600).contains(&reply.code), "{reply:?}");
    assert!(!server.has("f"), "{:?}", hidden(&server.root));
    ftp.ok("NOOP", 200);
    ftp.ok("MODE S", 200);
    assert_eq!(ftp.store("STOR g", b"alive").code, 226);
}

#[test]
fn a_block_of_two_to_the_63_bytes_is_refused() {
    refused(|data| data.write(&header(0, 1 << 63, 0)));
    refused(|data| data.write(&header(0, u64::MAX, 0)));
}

#[test]
fn an_offset_that_overflows_is_refused() {
    refused(|data| data.write(&header(0, 100, u64::MAX - 50)));
}

#[test]
fn a_connection_reset_in_mid_block_is_reported() {
    let server = TestServer::new();
    let mut ftp = session(&server);
    let mut data = ftp.data();
    ftp.ok("STOR f", 150);
    data.write(&header(0, 1000, 0));
    data.write(&[7; 500]);
    data.reset();
    let reply = ftp.outcome();
    assert_eq!(reply.code, 426, "{reply:?}");
    assert!(!server.has("f"));
    ftp.ok("NOOP", 200);
}

#[test]
fn a_marker_names_only_recorded_ranges() {
    if lacks(|can| can.writes == WriteModel::Random) {
        return;
    }
    let server = TestServer::with(|o| o.sync_writes = Some(true));
    let file = bytes(1_500_000);
    let mut ftp = session(&server);
    ftp.ok("TREV RESTART 1", 200);
    let mut data = ftp.data();
    ftp.ok("STOR f", 150);
    data.block(0, 0, &file[..500_000]);
    data.block(0, 700_000, &file[700_000..800_000]);
    // The last block stays in the middle.
    data.write(&header(0, 500_000, 1_000_000));
    data.write(&file[1_000_000..1_200_000]);
    let mut told = Vec::new();
    while told.iter().map(|(from, to)| to - from).sum::<usize>() < 600_000 {
        let reply = ftp.reply();
        if reply.code != 111 {
            assert_eq!(reply.code, 112, "{reply:?}");
            continue;
        }
        let ranges = reply.lines[0].strip_prefix("111 Range Marker ").unwrap();
        for range in ranges.split(',') {
            let (from, to) = range.split_once('-').unwrap();
            told.push((from.parse::<usize>().unwrap(), to.parse::<usize>().unwrap()));
        }
        let record = String::from_utf8(server.get(".f.gridftp-held")).unwrap();
        assert!(record.contains("lifetime durable\n"), "{record}");
        let part = server.get(".f.gridftp-part");
        for &(from, to) in &told {
            assert!(part[from..to] == file[from..to], "{from}-{to}");
        }
    }
    data.reset();
    assert_eq!(ftp.outcome().code, 426);
    let held = ftp.ok("SITE HELD f", 213).lines[0].clone();
    assert!(
        held.starts_with("213 Range Marker 0-500000,700000-800000"),
        "{held}"
    );
}

#[test]
fn close_without_eod_is_refused() {
    refused(|data| {
        data.block(0, 0, b"abc");
        data.write(&header(CLOSE, 0, 0));
    });
}

#[test]
fn more_ends_announced_than_come_is_given_up() {
    refused(|data| {
        data.block(0, 0, b"abc");
        data.end(3);
    });
}

#[test]
fn fewer_ends_announced_than_came_is_refused() {
    let server = TestServer::with(|o| o.stall_timeout = Some(2));
    let mut ftp = session(&server);
    let address = ftp.pasv();
    let (mut one, mut two) = (Data::connect(address), Data::connect(address));
    ftp.ok("STOR f", 150);
    one.block(EOD, 0, b"abc");
    two.block(EOD, 3, b"def");
    let mut three = Data::connect(address);
    three.end(1);
    let reply = ftp.outcome();
    assert!((400..600).contains(&reply.code), "{reply:?}");
    assert!(!server.has("f"));
    ftp.ok("NOOP", 200);
}

#[test]
fn the_end_announced_after_the_end_mark_is_given_up() {
    // A receiver does not read on after EOD, so the EOF is never seen; the wait for it has a
    // deadline.
    refused(|data| {
        data.block(EOD, 0, b"abc");
        data.write(&header(EOF, 0, 1));
    });
}

#[test]
fn a_gap_between_blocks_is_reported_and_the_data_is_kept() {
    if lacks(|can| can.writes == WriteModel::Random) {
        return;
    }
    let server = TestServer::new();
    let mut ftp = session(&server);
    let mut data = ftp.data();
    ftp.ok("STOR f", 150);
    data.block(0, 0, b"abc");
    data.block(0, 5, b"fgh");
    data.end(1);
    let reply = ftp.outcome();
    assert!((400..600).contains(&reply.code), "{reply:?}");
    assert!(!server.has("f"));
    ftp.ok("REST 0-3,5-8", 350);
    let mut data = ftp.data();
    ftp.ok("STOR f", 150);
    data.block(0, 3, b"de");
    data.end(1);
    assert_eq!(ftp.outcome().code, 226);
    assert_eq!(server.get("f"), b"abcdefgh");
}

#[test]
fn overlapping_blocks_are_stored_once() {
    let server = TestServer::new();
    let mut ftp = session(&server);
    let mut data = ftp.data();
    ftp.ok("STOR f", 150);
    data.block(0, 0, b"abcd");
    data.block(0, 2, b"cdef");
    data.end(1);
    assert_eq!(ftp.outcome().code, 226);
    assert_eq!(server.get("f"), b"abcdef");
}

#[test]
fn overlapping_blocks_that_differ_are_refused() {
    refused(|data| {
        data.block(0, 0, b"abcd");
        data.block(0, 2, b"cDef");
        data.end(1);
    });
}

/// Those over the limit are not taken, and a transfer that needs them ends at once.
#[test]
fn of_two_uploads_to_one_name_one_wins_whole() {
    for first in [0, 1] {
        let server = TestServer::new();
        let contents = [vec![b'a'; 400_000], vec![b'b'; 300_000]];
        let mut ends = [session(&server), session(&server)].map(|mut ftp| {
            let data = ftp.data();
            ftp.ok("STOR f", 150);
            (ftp, data)
        });
        for at in (0..400_000).step_by(50_000) {
            for ((_, data), content) in ends.iter_mut().zip(&contents) {
                if let Some(piece) = content.get(at..at + 50_000) {
                    data.block(0, at as u64, piece);
                }
            }
        }
        for index in [first, 1 - first] {
            let (ftp, data) = &mut ends[index];
            data.end(1);
            assert_eq!(ftp.outcome().code, 226);
            assert!(server.get("f") == contents[index]);
        }
    }
}

#[test]
fn more_connections_than_allowed_hurt_nobody() {
    let server = TestServer::with(|o| o.max_streams = Some(4));
    let mut ftp = session(&server);
    for (name, announced, code) in [("f", 4, 226), ("g", 5, 426)] {
        let address = ftp.pasv();
        let mut conns: Vec<Data> = (0..4).map(|_| Data::connect(address)).collect();
        ftp.ok(&format!("STOR {name}"), 150);
        let extra: Vec<Data> = (0..50).map(|_| Data::connect(address)).collect();
        for conn in &mut conns[1..] {
            conn.block(EOD, 0, b"");
        }
        conns[0].block(0, 0, b"abc");
        conns[0].end(announced);
        let reply = ftp.outcome();
        assert_eq!(reply.code, code, "{name}: {reply:?}");
        // The port serves no more.
        ftp.pasv();
        for mut conn in extra {
            let n = conn.0.read(&mut [0]);
            assert!(n.as_ref().map_or(true, |n| *n == 0), "closed: {n:?}");
        }
    }
    assert_eq!(server.get("f"), b"abc");
    assert!(!server.has("g"));
    let mut data = ftp.data();
    ftp.ok("STOR g", 150);
    data.block(0, 0, b"abcd");
    data.end(1);
    assert_eq!(ftp.outcome().code, 226);
    assert_eq!(server.get("g"), b"abcd");
}

#[test]
fn eret_and_esto_move_regions() {
    if lacks(|can| can.updates) {
        return;
    }
    let server = TestServer::new();
    server.put("f", "0123456789");
    let mut ftp = session(&server);
    let listener = ftp.port();
    ftp.send("ERET P 2 5 f");
    let (got, _conns) = receive(&listener, 1, 5);
    assert_eq!(got, b"23456", "offsets on the wire begin at the region");
    assert_eq!(ftp.reply().code, 150);
    assert_eq!(ftp.reply().code, 226);
    let mut data = ftp.data();
    ftp.ok("ESTO A 8 f", 150);
    data.block(0, 0, b"ABCD");
    data.end(1);
    assert_eq!(ftp.outcome().code, 226);
    assert_eq!(server.get("f"), b"01234567ABCD");
    let mut data = ftp.data();
    ftp.ok("APPE f", 150);
    data.block(0, 0, b"!");
    data.end(1);
    assert_eq!(ftp.outcome().code, 226);
    assert_eq!(server.get("f"), b"01234567ABCD!");
    ftp.ok("MODE S", 200);
    assert_eq!(ftp.get("ERET P 8 -1 f"), b"ABCD!");
    assert_eq!(ftp.get("ERET P 100 5 f"), b"");
}

#[test]
fn many_small_files_follow_each_other_on_one_connection() {
    let server = TestServer::new();
    for i in 0..200 {
        server.put(&format!("f{i}"), format!("file {i}"));
    }
    let mut ftp = session(&server);
    let listener = ftp.port();
    ftp.raw(
        (0..200)
            .map(|i| format!("RETR f{i}\r\n"))
            .collect::<String>(),
    );
    let mut data = Data::accept(&listener);
    for i in 0..200 {
        let mut file = Vec::new();
        loop {
            let (flags, _, payload) = data.read_block();
            file.extend(payload);
            if flags & EOD != 0 {
                break;
            }
        }
        assert_eq!(file, format!("file {i}").into_bytes());
        assert_eq!(ftp.reply().code, if i == 0 { 150 } else { 125 });
        assert_eq!(ftp.reply().code, 226);
    }
}
