//! An object store, here a directory of this machine, behind the server.

use std::fs;
use std::time::Instant;

use crate::process::Daemon;
use crate::support::{Ftp, PATIENCE, bytes};

const PART: usize = 256 << 10;

/// Flags of a server over the store in `root`, which has parts of [`PART`] bytes and room for two.
fn flags(root: &std::path::Path) -> Vec<String> {
    let (store, index) = (root.join("store"), root.join("index"));
    fs::create_dir_all(&store).unwrap();
    let storage = format!(
        "object:url=file://{};index={};part=256K",
        store.display(),
        index.display()
    );
    [
        "--anonymous",
        "rw",
        "--storage",
        &storage,
        "--part-memory",
        "512K",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn start(root: &std::path::Path) -> Daemon {
    let flags = flags(root);
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    Daemon::start(root, &flags)
}

/// Number of bytes of `f` that the server holds from its start.
fn held(ftp: &mut Ftp) -> usize {
    let reply = ftp.ok("SITE HELD f", 213);
    match reply.lines[0].strip_prefix("213 Range Marker 0-") {
        Some(end) => end.parse().unwrap(),
        None => 0,
    }
}

fn is_empty(dir: &std::path::Path) -> bool {
    fs::read_dir(dir).unwrap().next().is_none()
}

#[test]
fn a_killed_server_goes_on_with_the_recorded_parts() {
    let file = bytes(5 * PART + 1234);
    for mode in ["S", "E"] {
        let root = tempfile::tempdir().unwrap();
        let daemon = start(root.path());
        let (mut ftp, mut watcher) = (daemon.login(), daemon.login());
        ftp.ok(&format!("ALLO {}", file.len()), 200);
        ftp.ok(&format!("MODE {mode}"), 200);
        let mut data = ftp.data();
        ftp.ok("STOR f", 150);
        // Two parts and a half.
        let sent = 2 * PART + PART / 2;
        match mode {
            "S" => data.write(&file[..sent]),
            _ => data.block(0, 0, &file[..sent]),
        }
        let begun = Instant::now();
        while held(&mut watcher) < 2 * PART {
            assert!(begun.elapsed() < PATIENCE, "it is not recorded");
            std::thread::yield_now();
        }
        drop(daemon);
        let store = root.path().join("store");
        assert!(!store.join("f").exists());
        let daemon = start(root.path());
        let mut ftp = daemon.login();
        assert_eq!(held(&mut ftp), 2 * PART);
        ftp.ok(&format!("ALLO {}", file.len()), 200);
        ftp.ok(&format!("REST {}", 2 * PART), 350);
        assert_eq!(ftp.store("STOR f", &file[2 * PART..]).code, 226);
        assert!(fs::read(store.join("f")).unwrap() == file);
        assert_eq!(fs::read_dir(&store).unwrap().count(), 1, "parts are left");
        assert!(is_empty(&root.path().join("index")), "a journal is left");
    }
}

#[test]
fn changes_of_a_part_of_a_file_are_refused_with_the_reason() {
    let root = tempfile::tempdir().unwrap();
    let daemon = start(root.path());
    let mut ftp = daemon.login();
    assert_eq!(ftp.store("STOR f", b"content").code, 226);
    for command in ["APPE f", "ESTO A 3 f"] {
        let _data = ftp.data();
        let reply = ftp.ok(command, 504);
        let text = reply.lines.join("\n");
        assert!(text.contains("changes no part"), "{command}: {text}");
    }
    let features = ftp.ok("FEAT", 211).lines;
    assert!(!features.iter().any(|line| line.contains("MFMT")));
    let reply = ftp.ok("MFMT 20200101000000 f", 504);
    assert!(reply.lines.join("\n").contains("own times"), "{reply:?}");
    assert_eq!(fs::read(root.path().join("store/f")).unwrap(), b"content");
}

#[test]
fn layers_over_a_file_write_whole_parts() {
    let root = tempfile::tempdir().unwrap();
    let flags = flags(root.path());
    let mut flags: Vec<_> = flags.iter().map(String::as_str).collect();
    flags.extend(["--disk-stacks", "file,count"]);
    let daemon = Daemon::start(root.path(), &flags);
    let mut ftp = daemon.login();
    ftp.ok("SITE SETDISKSTACK file,count", 250);
    for len in [0, 100, PART, 2 * PART + 100] {
        let file = bytes(len);
        assert_eq!(ftp.store("STOR f", &file).code, 226);
        assert!(
            fs::read(root.path().join("store/f")).unwrap() == file,
            "{len}"
        );
        assert!(ftp.fetch("f") == file, "{len}");
    }
}
