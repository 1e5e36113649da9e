//! What a broken transfer leaves, and how it is continued.

use crate::support::{Data, TestServer, bytes, hidden};

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
fn retr_in_mode_e_sends_what_is_missing() {
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
    let server = TestServer::new();
    let file = bytes(200_000);
    server.put("f", "the old file");
    let mut ftp = server.login();
    ftp.ok("ALLO 200000", 200);
    let mut data = ftp.data();
    ftp.ok("STOR f", 150);
    data.write(&file[..120_000]);
    data.finish();
    let reply = ftp.outcome();
    assert_eq!(reply.code, 426, "{reply:?}");
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
    // What was announced proves nothing unless it is what came: a hint too low, or lengths of text.
    for before in ["NOOP", "ALLO 0", "ALLO 20000 R 1", "TYPE A"].repeat(8) {
        let mut ftp = server.login();
        ftp.ok(before, 200);
        if before == "TYPE A" {
            ftp.ok("ALLO 9999", 200);
        }
        let mut data = ftp.data();
        ftp.ok("STOR f", 150);
        data.write(&bytes(10_000));
        // What the end of a process does: its connections close in order, the control connection first.
        drop(ftp);
        drop(data);
        server.wait_for_sessions(0);
        assert!(!server.has("f"), "{before}");
    }
}

#[test]
fn a_completed_prefix_is_continued_without_a_partial_file() {
    let server = TestServer::new();
    server.put("f", "01234");
    let mut ftp = server.login();
    ftp.ok("REST 5", 350);
    assert_eq!(ftp.store("STOR f", b"56789").code, 226);
    assert_eq!(server.get("f"), b"0123456789");
}

#[test]
fn appe_adds_to_the_end() {
    let server = TestServer::new();
    let mut ftp = server.login();
    assert_eq!(ftp.store("APPE f", b"one").code, 226);
    assert_eq!(ftp.store("APPE f", b" two").code, 226);
    assert_eq!(server.get("f"), b"one two");
}

#[test]
fn uploads_in_place_show_at_once() {
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

#[test]
fn a_full_disk_is_reported_and_nothing_shows() {
    let dir = tempfile::tempdir().unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
        .arg(dir.path())
        .output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: a full disk needs the right to mount a small tmpfs");
        return;
    }
    let server = TestServer::with(|o| o.root = Some(dir.path().into()));
    let mut ftp = server.login();
    let mut data = ftp.data();
    ftp.send("STOR f");
    assert_eq!(ftp.reply().code, 150);
    // The server may reset the connection before all of it is taken.
    let _ = std::io::Write::write_all(&mut data.0, &bytes(4 << 20));
    drop(data);
    let reply = ftp.outcome();
    let shown = server.has("f");
    drop(server);
    let unmounted = std::process::Command::new("umount")
        .arg("-l")
        .arg(dir.path())
        .status()
        .unwrap();
    assert!(unmounted.success());
    assert_eq!(reply.code, 552, "{reply:?}");
    assert!(!shown);
}
