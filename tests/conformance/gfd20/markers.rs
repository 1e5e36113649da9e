//! Performance markers (112) and restart markers (111).

use crate::support::{Data, Ftp, Reply, TestServer};

/// Returns the number behind a label.
#[track_caller]
fn number(line: &str, label: &str) -> u64 {
    let digits = line
        .strip_prefix(label)
        .unwrap_or_else(|| panic!("{line:?} is no {label:?}"));
    digits.parse().unwrap_or_else(|_| panic!("{line:?}"))
}

/// Returns the number of bytes in a 112 reply, whose form must be the one that clients of the Grid
/// Community Toolkit parse.
#[track_caller]
fn bytes_of(marker: &Reply) -> u64 {
    let lines: Vec<&str> = marker.lines.iter().map(String::as_str).collect();
    let [first, timestamp, index, bytes, count, last] = lines[..] else {
        panic!("{marker:?}")
    };
    assert_eq!((first, last), ("112-Perf Marker", "112 End."));
    let time = timestamp.strip_prefix(" Timestamp:").unwrap().trim_start();
    let (seconds, tenth) = time.split_once('.').unwrap();
    assert!(
        seconds.parse::<u64>().is_ok() && tenth.len() == 1,
        "{timestamp}"
    );
    assert_eq!(number(index, " Stripe Index: "), 0);
    assert_eq!(number(count, " Total Stripe Count: "), 1);
    number(bytes, " Stripe Bytes Transferred: ")
}

/// Returns the replies to a STOR before the final one.
fn markers(ftp: &mut Ftp) -> Vec<Reply> {
    let mut markers = Vec::new();
    loop {
        let reply = ftp.reply();
        match reply.code {
            111 | 112 => markers.push(reply),
            code => {
                assert_eq!(code, 226, "{reply:?}");
                return markers;
            }
        }
    }
}

fn extended(server: &TestServer) -> Ftp {
    let mut ftp = server.login();
    ftp.ok("MODE E", 200);
    ftp
}

/// Stores two pieces, then the piece between them.
fn store(ftp: &mut Ftp, command: &str) -> Data {
    let mut data = ftp.data();
    ftp.ok(command, 150);
    data.block(0, 0, b"01234");
    data.block(0, 8, b"89");
    data.block(0, 5, b"567");
    data.end(1);
    data
}

/// A STOR in MODE E starts with a 112 of zero bytes and ends with one of all bytes, then the last
/// 111, then 226. The ranges of all 111 together cover each stored byte once.
#[test]
fn markers_cover_a_stor_from_start_to_end() {
    let server = TestServer::new();
    let mut ftp = extended(&server);
    let _data = store(&mut ftp, "STOR f");
    let markers = markers(&mut ftp);
    let perf: Vec<u64> = markers
        .iter()
        .filter(|m| m.code == 112)
        .map(bytes_of)
        .collect();
    assert_eq!(
        (perf.first(), perf.last()),
        (Some(&0), Some(&10)),
        "{markers:?}"
    );
    assert!(perf.is_sorted(), "{markers:?}");
    assert_eq!(markers[0].code, 112);
    assert_eq!(markers.last().unwrap().code, 111);
    let mut told = Vec::new();
    for marker in markers.iter().filter(|m| m.code == 111) {
        assert_eq!(marker.lines.len(), 1);
        let ranges = marker.lines[0].strip_prefix("111 Range Marker ").unwrap();
        for range in ranges.split(',') {
            let (start, end) = range.split_once('-').unwrap();
            told.extend(start.parse::<u64>().unwrap()..end.parse::<u64>().unwrap());
        }
    }
    told.sort_unstable();
    assert_eq!(told, (0..10).collect::<Vec<u64>>(), "{markers:?}");
}

/// Ranges of ESTO are those of its blocks, without the offset of the command.
#[test]
fn ranges_of_esto_are_those_on_the_wire() {
    let server = TestServer::new();
    server.put("f", [b'.'; 100]);
    let mut ftp = extended(&server);
    let _data = store(&mut ftp, "ESTO A 100 f");
    let last = markers(&mut ftp).pop().unwrap();
    assert_eq!(last.text(), "111 Range Marker 0-10");
}

/// TREV with 0 disables one kind of marker.
#[test]
fn trev_0_disables_a_marker() {
    let server = TestServer::new();
    let mut ftp = extended(&server);
    ftp.ok("TREV PERF 0", 200);
    let _data = store(&mut ftp, "STOR f");
    assert!(markers(&mut ftp).iter().all(|marker| marker.code == 111));
    ftp.ok("TREV RESTART 0", 200);
    let _data = store(&mut ftp, "STOR f");
    assert_eq!(markers(&mut ftp), []);
}

/// Clients do not expect markers there.
#[test]
fn there_are_no_markers_in_mode_s_or_on_sends() {
    let server = TestServer::new();
    let mut ftp = server.login();
    let mut data = ftp.data();
    ftp.ok("STOR f", 150);
    data.write(b"x");
    data.finish();
    assert_eq!(markers(&mut ftp), []);
    ftp.ok("MODE E", 200);
    let listener = ftp.port();
    ftp.send("RETR f");
    let mut data = Data::accept(&listener);
    while data.read_block().0 & crate::support::EOD == 0 {}
    assert_eq!(ftp.reply().code, 150);
    assert_eq!(markers(&mut ftp), []);
}
