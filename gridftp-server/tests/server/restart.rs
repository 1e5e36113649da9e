//! Broken transfers, their partial files and their continuation.

use gridftp_dsi::WriteModel;

use crate::support::{Data, Ftp, TestServer, bytes, hidden, lacks};

/// Begins an upload of `announced` bytes to `name` and breaks it off behind `part`.
pub(crate) fn break_off(ftp: &mut Ftp, name: &str, announced: usize, part: &[u8]) {
    ftp.ok(&format!("ALLO {announced}"), 200);
    let mut data = ftp.data();
    ftp.ok(&format!("STOR {name}"), 150);
    data.write(part);
    data.finish();
    let reply = ftp.outcome();
    assert_eq!(reply.code, 426, "{reply:?}");
}

#[test]
fn retr_begins_at_the_restart_point() {
    let server = TestServer::new();
    server.put("f", "0123456789");
    let mut ftp = server.login();
    ftp.ok("REST 4", 350);
    assert_eq!(ftp.fetch("f"), b"456789");
    assert_eq!(ftp.fetch("f"), b"0123456789", "REST holds for one transfer");
    ftp.ok("REST 10", 350);
    assert_eq!(ftp.fetch("f"), b"");
}

#[test]
fn rest_beyond_the_end_is_refused_and_nothing_is_lost() {
    let server = TestServer::new();
    server.put("f", "0123456789");
    let mut ftp = server.login();
    ftp.ok("REST 11", 350);
    ftp.pasv();
    ftp.ok("RETR f", 554);
    ftp.ok("REST 11", 350);
    ftp.pasv();
    let reply = ftp.cmd("STOR f");
    assert_eq!(reply.code, 554, "{reply:?}");
    assert_eq!(server.get("f"), b"0123456789");
    ftp.ok("REST 5", 350);
    ftp.pasv();
    ftp.ok("STOR new", 554);
    assert!(!server.has("new"));
}

#[test]
fn retr_in_mode_e_sends_the_missing_ranges() {
    let server = TestServer::new();
    server.put("f", "0123456789");
    let mut ftp = server.login();
    ftp.ok("MODE E", 200);
    ftp.ok("REST 0-2,5-7", 350);
    let listener = ftp.port();
    ftp.send("RETR f");
    let mut data = Data::accept(&listener);
    let mut got = Vec::new();
    loop {
        let (flags, offset, payload) = data.read_block();
        if !payload.is_empty() {
            got.push((offset, payload));
        }
        if flags & crate::support::EOD != 0 {
            break;
        }
    }
    got.sort();
    assert_eq!(got, [(2, b"234".to_vec()), (7, b"789".to_vec())]);
}

#[test]
fn a_broken_upload_never_shows_and_is_continued_by_rest() {
    if lacks(|can| can.writes == WriteModel::Random) {
        return;
    }
    let server = TestServer::new();
    let file = bytes(200_000);
    server.put("f", "the old file");
    let mut ftp = server.login();
    break_off(&mut ftp, "f", 200_000, &file[..120_000]);
    assert_eq!(server.get("f"), b"the old file");
    assert_eq!(
        hidden(&server.root).len(),
        2,
        "the part and what is known of it: {:?}",
        hidden(&server.root)
    );
    assert!(
        !String::from_utf8(ftp.get("NLST /"))
            .unwrap()
            .contains("gridftp")
    );
    // A session that knows nothing of the first learns how much is here.
    assert!(
        ftp.ok("FEAT", 211)
            .lines
            .iter()
            .any(|line| line.trim() == "HELD")
    );
    let reply = server.login().ok("SITE HELD f", 213);
    assert_eq!(reply.lines, ["213 Range Marker 0-120000"]);
    ftp.ok("REST 120000", 350);
    let mut data = ftp.data();
    ftp.ok("STOR f", 150);
    data.write(&file[120_000..]);
    data.finish();
    assert_eq!(ftp.outcome().code, 226);
    assert!(server.get("f") == file);
    assert_eq!(hidden(&server.root), Vec::<String>::new());
    assert_eq!(ftp.ok("SITE HELD f", 213).lines, ["213 Range Marker"]);
}

#[test]
fn an_upload_after_a_reset_is_not_published() {
    let server = TestServer::new();
    let mut ftp = server.login();
    let mut data = ftp.data();
    ftp.ok("STOR f", 150);
    data.write(&bytes(300_000));
    data.reset();
    let reply = ftp.outcome();
    assert_eq!(reply.code, 426, "{reply:?}");
    assert!(!server.has("f"));
}

#[test]
fn an_upload_whose_client_is_gone_is_not_published() {
    let server = TestServer::new();
    // An announced length proves nothing where the received one differs: a hint too low, or lengths
    // of text.
    for before in ["NOOP", "ALLO 0", "ALLO 20000 R 1", "TYPE A"].repeat(8) {
        let mut ftp = server.login();
        ftp.ok(before, 200);
        if before == "TYPE A" {
            ftp.ok("ALLO 9999", 200);
        }
        let mut data = ftp.data();
        ftp.ok("STOR f", 150);
        data.write(&bytes(10_000));
        // As at the end of a process: its connections close in order, the control connection first.
        drop(ftp);
        drop(data);
        server.wait_for_sessions(0);
        assert!(!server.has("f"), "{before}");
    }
}

#[test]
fn a_completed_prefix_is_continued_without_a_partial_file() {
    if lacks(|can| can.updates) {
        return;
    }
    let server = TestServer::new();
    server.put("f", "01234");
    let mut ftp = server.login();
    ftp.ok("REST 5", 350);
    assert_eq!(ftp.store("STOR f", b"56789").code, 226);
    assert_eq!(server.get("f"), b"0123456789");
}

/// RFC 959 §4.1.3: a restart point is the offset of the data, and does not touch the bytes behind
/// it.
#[test]
fn a_restart_in_a_file_keeps_what_it_does_not_write() {
    if lacks(|can| can.updates) {
        return;
    }
    for in_place in [false, true] {
        let server = TestServer::with(|o| o.in_place = Some(in_place));
        let old = bytes(100);
        server.put("f", &old);
        let mut ftp = server.login();
        for (at, new) in [
            (10, &b"new"[..]),
            (0, b"REST 0"),
            (97, b"longer"),
            (20, b""),
        ] {
            let before = server.get("f");
            ftp.ok(&format!("REST {at}"), 350);
            assert_eq!(ftp.store("STOR f", new).code, 226);
            let mut expected = before;
            if at == 0 {
                expected.clear();
            }
            expected.resize(expected.len().max(at + new.len()), 0);
            expected[at..at + new.len()].copy_from_slice(new);
            assert_eq!(server.get("f"), expected, "in place: {in_place}, REST {at}");
            server.put("f", &old);
        }
        ftp.ok("MODE E", 200);
        ftp.ok("REST 0-10,12-50", 350);
        let mut data = ftp.data();
        if !in_place {
            // Such ranges come from markers of data that is not here.
            ftp.ok("STOR f", 554);
            assert_eq!(server.get("f"), old);
            continue;
        }
        ftp.ok("STOR f", 150);
        data.block(0, 50, b"end");
        data.block(0, 10, b"xy");
        data.end(1);
        let reply = ftp.outcome();
        assert_eq!(reply.code, 226, "{reply:?}");
        let mut expected = old;
        expected[50..53].copy_from_slice(b"end");
        expected[10..12].copy_from_slice(b"xy");
        assert_eq!(server.get("f"), expected, "in place: {in_place}");
    }
}

#[test]
fn a_broken_change_of_a_file_leaves_it_and_is_continued() {
    if lacks(|can| can.updates) {
        return;
    }
    let server = TestServer::new();
    let old = bytes(400_000);
    server.put("f", &old);
    let mut ftp = server.login();
    ftp.ok("ALLO 300000", 200);
    ftp.ok("REST 100", 350);
    let mut data = ftp.data();
    ftp.ok("STOR f", 150);
    data.write(&[1; 200_000]);
    data.finish();
    assert_eq!(ftp.outcome().code, 426);
    assert!(server.get("f") == old);
    let reply = ftp.ok("SITE HELD f", 213);
    assert_eq!(reply.lines, ["213 Range Marker 0-200100"]);
    // Another part of the file can be changed meanwhile, and the same one again.
    ftp.ok("REST 399999", 350);
    assert_eq!(ftp.store("STOR f", b"!").code, 226);
    assert!(server.get("f")[..399_999] == old[..399_999]);
    assert_eq!(server.get("f").last(), Some(&b'!'));
    assert_eq!(ftp.ok("SITE HELD f", 213).lines, ["213 Range Marker"]);
}

/// A client that goes on by the size that it sees would put the end of the new file behind the old
/// one.
#[test]
fn an_upload_that_broke_is_not_continued_behind_the_old_file() {
    if lacks(|can| can.writes == WriteModel::Random) {
        return;
    }
    let server = TestServer::new();
    let (old, new) = (vec![b'o'; 100_000], bytes(200_000));
    server.put("f", &old);
    let mut ftp = server.login();
    break_off(&mut ftp, "f", 200_000, &new[..50_000]);
    ftp.ok("REST 100000", 350);
    ftp.pasv();
    ftp.ok("STOR f", 554);
    assert!(server.get("f") == old);
    ftp.ok("REST 50000", 350);
    assert_eq!(ftp.store("STOR f", &new[50_000..]).code, 226);
    assert!(server.get("f") == new);
}

/// It is unknown which bytes of such a partial upload are on the disk.
#[test]
fn an_upload_whose_record_is_lost_is_not_continued() {
    if lacks(|can| can.writes == WriteModel::Random) {
        return;
    }
    let file = bytes(200_000);
    for (mode, point) in [("S", "REST 120000"), ("E", "REST 0-120000")] {
        for is_reboot in [false, true] {
            for old in [None, Some(vec![b'o'; 300_000])] {
                let server = TestServer::new();
                if let Some(old) = &old {
                    server.put("f", old);
                }
                let mut ftp = server.login();
                break_off(&mut ftp, "f", 200_000, &file[..120_000]);
                let record = server.root.join(".f.gridftp-held");
                if is_reboot {
                    let text = std::fs::read_to_string(&record).unwrap();
                    std::fs::write(&record, of_another_boot(&mut ftp, &text)).unwrap();
                } else {
                    std::fs::remove_file(&record).unwrap();
                }
                let reply = ftp.ok("SITE HELD f", 213);
                assert_eq!(reply.lines, ["213 Range Marker"]);
                ftp.ok(&format!("MODE {mode}"), 200);
                ftp.ok(point, 350);
                ftp.pasv();
                ftp.ok("STOR f", 554);
                assert_eq!(server.has("f"), old.is_some());
                assert!(old.is_none_or(|old| server.get("f") == old));
                ftp.ok("MODE S", 200);
                assert_eq!(ftp.store("STOR f", &file).code, 226);
                assert!(server.get("f") == file);
                assert_eq!(hidden(&server.root), Vec::<String>::new());
            }
        }
    }
}

/// The record as it would stand if the machine had started again since; the server computes the
/// check sum.
fn of_another_boot(ftp: &mut Ftp, record: &str) -> String {
    let (body, _) = record.split_once("crc32c ").unwrap();
    let (before, after) = body.split_once("lifetime ").unwrap();
    let (_, after) = after.split_once('\n').unwrap();
    let boot = "00000000-0000-0000-0000-000000000000";
    let body = format!("{before}lifetime {boot}\n{after}");
    assert_eq!(ftp.store("STOR record", body.as_bytes()).code, 226);
    let reply = ftp.ok("CKSM CRC32C 0 -1 record", 213).text();
    let sum = reply.strip_prefix("213 ").unwrap();
    format!("{body}crc32c {sum}\n")
}

#[test]
fn a_change_of_a_file_that_was_replaced_meanwhile_is_refused() {
    if lacks(|can| can.updates) {
        return;
    }
    let server = TestServer::new();
    server.put("f", bytes(1000));
    let mut ftp = server.login();
    ftp.ok("REST 10", 350);
    let mut data = ftp.data();
    ftp.ok("STOR f", 150);
    data.write(b"new");
    assert_eq!(server.login().store("STOR f", b"another").code, 226);
    data.finish();
    let reply = ftp.outcome();
    assert_eq!(reply.code, 451, "{reply:?}");
    assert_eq!(server.get("f"), b"another");
    assert_eq!(hidden(&server.root), Vec::<String>::new());
}

#[test]
fn a_partial_upload_can_be_removed() {
    if lacks(|can| can.writes == WriteModel::Random) {
        return;
    }
    let server = TestServer::new();
    let mut ftp = server.login();
    ftp.ok("SITE DELHELD f", 550);
    break_off(&mut ftp, "f", 200_000, &bytes(120_000));
    assert_eq!(hidden(&server.root).len(), 2);
    ftp.ok("REST 120000", 350);
    let going_on = ftp.data();
    ftp.ok("STOR f", 150);
    server.login().ok("SITE DELHELD f", 450);
    drop(going_on);
    ftp.outcome();
    drop(ftp);
    server.wait_for_sessions(0);
    // It was published whole, as nothing was announced; so there is one more.
    let mut ftp = server.login();
    break_off(&mut ftp, "g", 200_000, &bytes(120_000));
    ftp.ok("SITE DELHELD g", 250);
    assert_eq!(ftp.ok("SITE HELD g", 213).lines, ["213 Range Marker"]);
    assert_eq!(hidden(&server.root), Vec::<String>::new());
    let help = ftp.ok("SITE HELP", 214).text();
    assert!(help.contains("DELHELD"), "{help}");
}

#[test]
fn two_appends_do_not_overwrite_each_other() {
    if lacks(|can| can.updates) {
        return;
    }
    let server = TestServer::new();
    server.put("f", "0123");
    let (mut one, mut two) = (server.login(), server.login());
    let mut data = one.data();
    one.ok("APPE f", 150);
    for verb in ["APPE f", "ESTO A 0 f", "SITE TRNC 0 f"] {
        two.pasv();
        two.ok(verb, 450);
    }
    data.write(b"456");
    data.finish();
    assert_eq!(one.outcome().code, 226);
    assert_eq!(two.store("APPE f", b"789").code, 226);
    assert_eq!(server.get("f"), b"0123456789");
}

#[test]
fn an_upload_to_a_file_that_lost_its_name_fails() {
    if lacks(|can| can.updates) {
        return;
    }
    for verb in ["APPE f", "ESTO A 2 f", "STOR f"] {
        for by in ["DELE f", "STOR f", "RNFR f"] {
            let server = TestServer::with(|o| o.in_place = Some(verb == "STOR f"));
            server.put("f", "0123");
            let mut ftp = server.login();
            let mut data = ftp.data();
            ftp.ok(verb, 150);
            data.write(b"lost");
            let mut other = server.login();
            match by {
                "DELE f" => drop(other.ok(by, 250)),
                "RNFR f" => {
                    other.ok(by, 350);
                    other.ok("RNTO g", 250);
                }
                // In place it is refused while the other one goes on.
                _ if verb == "STOR f" => {
                    other.pasv();
                    other.ok(by, 450);
                    continue;
                }
                _ => assert_eq!(other.store(by, b"another").code, 226),
            }
            data.finish();
            let reply = ftp.outcome();
            assert_eq!(reply.code, 451, "{verb} and {by}: {reply:?}");
            let text = reply.text();
            assert!(text.contains("removed, renamed or replaced"), "{text}");
        }
    }
}

#[test]
fn appe_adds_to_the_end() {
    if lacks(|can| can.updates) {
        return;
    }
    let server = TestServer::new();
    let mut ftp = server.login();
    assert_eq!(ftp.store("APPE f", b"one").code, 226);
    assert_eq!(ftp.store("APPE f", b" two").code, 226);
    assert_eq!(server.get("f"), b"one two");
}

#[test]
fn uploads_in_place_show_at_once() {
    if lacks(|can| can.updates) {
        return;
    }
    let server = TestServer::with(|o| o.in_place = Some(true));
    server.put("f", "a much longer old file");
    let mut ftp = server.login();
    let data = ftp.data();
    ftp.ok("STOR f", 150);
    assert_eq!(server.get("f"), b"");
    let feat = server.login().ok("FEAT", 211);
    assert!(
        !feat.lines.iter().any(|line| line.trim() == "HELD"),
        "{feat:?}"
    );
    data.finish();
    assert_eq!(ftp.outcome().code, 226);
    assert_eq!(ftp.store("STOR f", b"new").code, 226);
    assert_eq!(server.get("f"), b"new");
}

#[test]
fn two_writers_of_one_name_do_not_mix() {
    let server = TestServer::new();
    let (a, b) = (vec![b'a'; 500_000], vec![b'b'; 400_000]);
    let (mut one, mut two) = (server.login(), server.login());
    let (mut to_one, mut to_two) = (one.data(), two.data());
    one.ok("STOR f", 150);
    two.ok("STOR f", 150);
    to_one.write(&a);
    to_two.write(&b);
    to_one.finish();
    to_two.finish();
    let codes = [one.outcome().code, two.outcome().code];
    assert!(codes.contains(&226), "{codes:?}");
    let got = server.get("f");
    assert!(got == a || got == b);
}
