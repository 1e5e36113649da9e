//! A server that is killed in the midst of an upload: the next one goes on with it.

use std::fs;
use std::time::Instant;

use crate::process::Daemon;
use crate::support::{Data, Ftp, PATIENCE, bytes, header, hidden};

/// Returns the number of bytes of `f` that the server holds from its start.
fn held(ftp: &mut Ftp) -> usize {
    let reply = ftp.ok("SITE HELD f", 213);
    match reply.lines[0].strip_prefix("213 Range Marker 0-") {
        Some(end) => end.parse().unwrap(),
        None => 0,
    }
}

fn write(data: &mut Data, mode: &str, file: &[u8], from: usize, to: usize) {
    match mode {
        "S" => data.write(&file[from..to]),
        _ => data.block(0, from as u64, &file[from..to]),
    }
}

#[test]
fn a_killed_server_loses_only_the_data_since_the_last_record() {
    const STEP: usize = 1_000_000;
    let file = bytes(4 * STEP);
    for mode in ["S", "E"] {
        let root = tempfile::tempdir().unwrap();
        let mut known = 0;
        // Killed after each step, always with something in flight that was not recorded.
        for step in 1..4 {
            let daemon = Daemon::start(root.path(), &["--anonymous", "rw"]);
            let (mut ftp, mut watcher) = (daemon.login(), daemon.login());
            let there = held(&mut watcher);
            assert!(there >= known, "{there} of {known} bytes are left");
            ftp.ok(&format!("ALLO {}", file.len()), 200);
            ftp.ok(&format!("MODE {mode}"), 200);
            if mode == "E" {
                ftp.ok("TREV RESTART 1", 200);
                ftp.ok(&format!("REST 0-{there}"), 350);
            } else {
                ftp.ok(&format!("REST {there}"), 350);
            }
            let mut data = ftp.data();
            ftp.ok("STOR f", 150);
            write(&mut data, mode, &file, there, step * STEP);
            let start = Instant::now();
            while held(&mut watcher) < step * STEP {
                assert!(start.elapsed() < PATIENCE, "it is not recorded");
                std::thread::yield_now();
            }
            known = step * STEP;
            write(&mut data, mode, &file, known, known + STEP / 2);
            drop(daemon);
            assert!(!root.path().join("f").exists());
        }
        let daemon = Daemon::start(root.path(), &["--anonymous", "rw"]);
        let mut ftp = daemon.login();
        let there = held(&mut ftp);
        assert!(there >= known, "{there} of {known} bytes are left");
        ftp.ok(&format!("REST {there}"), 350);
        assert_eq!(ftp.store("STOR f", &file[there..]).code, 226);
        assert!(fs::read(root.path().join("f")).unwrap() == file);
        assert_eq!(hidden(root.path()), Vec::<String>::new());
        let index = fs::read_dir(root.path().join(".gridftp-index")).unwrap();
        assert_eq!(index.count(), 0);
    }
}

/// The server's own interval: a marker would come in an hour.
#[test]
fn a_killed_server_has_recorded_what_no_marker_told() {
    const PIECE: usize = 1_000_003;
    /// Most bytes that wait for a marker.
    const STEP: usize = 32 << 20;
    let file = bytes(PIECE).repeat(81);
    let sent = 80 * PIECE;
    let root = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(root.path(), &["--anonymous", "rw"]);
    let (mut ftp, mut watcher) = (daemon.login(), daemon.login());
    ftp.ok(&format!("ALLO {}", file.len()), 200);
    ftp.ok("MODE E", 200);
    ftp.ok("TREV RESTART 3600", 200);
    let mut data = ftp.data();
    ftp.ok("STOR f", 150);
    for from in (0..sent).step_by(PIECE) {
        data.block(0, from as u64, &file[from..from + PIECE]);
    }
    let start = Instant::now();
    while held(&mut watcher) + STEP < sent {
        assert!(start.elapsed() < PATIENCE, "it is not recorded");
        std::thread::yield_now();
    }
    drop(daemon);
    assert!(!root.path().join("f").exists());
    let daemon = Daemon::start(root.path(), &["--anonymous", "rw"]);
    let mut ftp = daemon.login();
    let there = held(&mut ftp);
    assert!(there + STEP >= sent, "{there} of {sent} bytes are left");
    ftp.ok(&format!("REST {there}"), 350);
    assert_eq!(ftp.store("STOR f", &file[there..]).code, 226);
    assert!(fs::read(root.path().join("f")).unwrap() == file);
    assert_eq!(hidden(root.path()), Vec::<String>::new());
}

/// Bytes of an upload that a power cut ended, and the digest of all of them.
struct CutOff {
    root: tempfile::TempDir,
    daemon: Daemon,
    file: Vec<u8>,
    digest: String,
    /// Bytes that are left.
    there: usize,
}

impl CutOff {
    /// A power cut may leave the ordinary record, which is not synced, without its bytes.
    fn new() -> Self {
        const PIECE: usize = 1_000_003;
        /// Fewest bytes that are synced.
        const LEAST: usize = 64 << 20;
        let file = bytes(PIECE).repeat(81);
        let root = tempfile::tempdir().unwrap();
        let daemon = Daemon::start(root.path(), &["--anonymous", "rw"]);
        let mut ftp = daemon.login();
        ftp.ok(&format!("ALLO {}", file.len()), 200);
        ftp.ok("MODE E", 200);
        let mut data = ftp.data();
        ftp.ok("STOR f", 150);
        for from in (0..80 * PIECE).step_by(PIECE) {
            data.block(0, from as u64, &file[from..from + PIECE]);
        }
        let synced = || {
            let record = fs::read_to_string(root.path().join(".f.gridftp-sync")).ok()?;
            let (_, held) = record.split_once("\nheld 0-")?;
            held.lines().next()?.parse::<usize>().ok()
        };
        let start = Instant::now();
        let synced = loop {
            if let Some(synced) = synced() {
                break synced;
            }
            assert!(start.elapsed() < PATIENCE, "it is not synced");
            std::thread::yield_now();
        };
        assert!(synced >= LEAST, "{synced}");
        drop(daemon);
        let held_record = root.path().join(".f.gridftp-held");
        let record = fs::read_to_string(&held_record).unwrap();
        assert!(!record.contains("lifetime durable"), "{record}");
        fs::write(&held_record, "").unwrap();
        let daemon = Daemon::start(root.path(), &["--anonymous", "rw"]);
        let mut ftp = daemon.login();
        let there = held(&mut ftp);
        assert!(there >= synced, "{there} of {synced} bytes are left");
        let copy = root.path().join("copy");
        fs::write(&copy, &file).unwrap();
        let digest = ftp.ok("CKSM BLAKE3 0 -1 copy", 213).lines[0][4..].to_owned();
        fs::remove_file(copy).unwrap();
        Self {
            root,
            daemon,
            file,
            digest,
            there,
        }
    }

    fn rest(&self) -> &[u8] {
        &self.file[self.there..]
    }

    fn assert_published(&self) {
        assert!(fs::read(self.root.path().join("f")).unwrap() == self.file);
        assert_eq!(hidden(self.root.path()), Vec::<String>::new());
    }
}

#[test]
fn an_upload_with_a_digest_goes_on_with_what_was_synced_before_a_power_cut() {
    let cut = CutOff::new();
    let (mut ftp, there) = (cut.daemon.login(), cut.there);
    for (mode, rest) in [("S", there.to_string()), ("E", format!("0-{there}"))] {
        ftp.ok(&format!("MODE {mode}"), 200);
        ftp.ok(&format!("REST {rest}"), 350);
        let _data = ftp.data();
        assert_eq!(ftp.cmd("STOR f").code, 554, "it has no digest");
    }
    ftp.ok("MODE S", 200);
    assert_eq!(held(&mut ftp), there);
    let digest = &cut.digest;
    ftp.ok(&format!("SITE STORATTR x.checksum.blake3={digest};"), 250);
    ftp.ok(&format!("REST {there}"), 350);
    assert_eq!(ftp.store("STOR f", cut.rest()).code, 226);
    cut.assert_published();
}

#[test]
fn a_tagged_upload_goes_on_with_what_was_synced_before_a_power_cut() {
    const TAG: u8 = 0x01;
    const DIGEST: u8 = 0x02;
    let cut = CutOff::new();
    let mut ftp = cut.daemon.login();
    ftp.ok("MODE E", 200);
    let mut data = ftp.data();
    let halves = (0..64).step_by(16).map(|at| &cut.digest[at..at + 16]);
    let halves: Vec<_> = halves
        .map(|half| u64::from_str_radix(half, 16).unwrap())
        .collect();
    for (tag, is_told, code) in [(1, false, 550), (2, true, 226)] {
        ftp.ok(&format!("REST 0-{}", cut.there), 350);
        ftp.send(&format!("ESTO digest={tag} f"));
        data.write(&header(TAG, 0, tag));
        data.block(0, cut.there as u64, cut.rest());
        for half in halves.chunks(2).filter(|_| is_told) {
            data.write(&header(DIGEST, half[0], half[1]));
        }
        data.end(1);
        let mut reply = ftp.outcome();
        while reply.code < 200 {
            reply = ftp.outcome();
        }
        assert_eq!(reply.code, code, "{reply:?}");
        assert_eq!(cut.root.path().join("f").exists(), is_told);
    }
    cut.assert_published();
}

#[test]
fn partial_files_of_a_killed_server_expire() {
    let root = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let index = elsewhere.path().to_str().unwrap();
    for flags in [
        &["--anonymous", "rw"][..],
        &["--anonymous", "rw", "--partial-index", index],
    ] {
        let daemon = Daemon::start(root.path(), flags);
        let mut ftp = daemon.login();
        let mut data = ftp.data();
        ftp.ok("STOR f", 150);
        data.write(&bytes(100_000));
        let part = root.path().join(".f.gridftp-part");
        let start = Instant::now();
        while !fs::metadata(&part).is_ok_and(|part| part.len() > 0) {
            assert!(start.elapsed() < PATIENCE, "nothing is written");
            std::thread::yield_now();
        }
        drop(daemon);
        let file = fs::File::options().write(true).open(&part).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        let _daemon = Daemon::start(root.path(), flags);
        let entries = || fs::read_dir(elsewhere.path()).unwrap().count();
        while part.exists() || entries() > 0 {
            assert!(start.elapsed() < PATIENCE, "it is still there");
            std::thread::yield_now();
        }
    }
}
