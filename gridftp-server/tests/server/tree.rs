//! Names, listings and checksums, and paths that try to leave the tree.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::support::{TestServer, bytes, hidden, lacks};

#[test]
fn paths_cannot_leave_the_tree() {
    if lacks(|can| can.symlinks) {
        return;
    }
    let server = TestServer::new();
    fs::write(server.root.parent().unwrap().join("outside"), "secret").unwrap();
    symlink("../outside", server.root.join("up")).unwrap();
    symlink("/proc/self/root/etc/passwd", server.root.join("magic")).unwrap();
    symlink("/etc", server.root.join("etc")).unwrap();
    let mut ftp = server.login();
    for path in [
        "../outside",
        "/../outside",
        "/../../../etc/passwd",
        "up",
        "magic",
        "etc/passwd",
        "./../../outside",
        "..%2foutside",
        "~root/x",
        "..\\outside",
    ] {
        ftp.pasv();
        ftp.ok(&format!("RETR {path}"), 550);
        ftp.pasv();
        let reply = ftp.cmd(&format!("STOR {path}/x"));
        assert!(reply.code >= 500, "{path}: {reply:?}");
    }
    assert_eq!(
        fs::read(server.root.parent().unwrap().join("outside")).unwrap(),
        b"secret"
    );
}

/// Names that other systems change are ordinary names here; names that no system accepts are
/// refused.
#[test]
fn odd_paths_stay_beneath_the_root() {
    let server = TestServer::new();
    server.put("f", "root");
    let mut ftp = server.login();
    let long = "n".repeat(5000);
    for (path, code) in [
        ("//f", 213),
        ("/./f", 213),
        ("/.//./f", 213),
        ("/../f", 213),
        ("f/", 213),
        ("%2e%2e/f", 550),
        ("..\\f", 550),
        ("f.", 550),
        ("f ", 550),
        ("CON", 550),
        ("~root", 550),
        ("f/f", 550),
        (&long, 550),
        (&format!("{long}/f"), 550),
        (&"d/".repeat(3000), 550),
    ] {
        let reply = ftp.cmd(&format!("SIZE {path}"));
        assert!(
            reply.code == code || code == 550 && reply.code == 553,
            "{path}: {reply:?}"
        );
    }
    for name in ["f.", "f ", "CON", "..\\f", "~root"] {
        assert_eq!(ftp.store(&format!("STOR {name}"), b"x").code, 226, "{name}");
        assert_eq!(server.get(name), b"x");
    }
    assert_eq!(server.get("f"), b"root");
}

#[test]
fn fifos_are_refused_without_waiting() {
    if lacks(|can| can.modes) {
        return;
    }
    let server = TestServer::new();
    let fifo = server.root.join("fifo");
    let made = std::process::Command::new("mkfifo")
        .arg(&fifo)
        .status()
        .unwrap();
    assert!(made.success());
    let mut ftp = server.login();
    ftp.pasv();
    ftp.ok("RETR fifo", 550);
    ftp.ok("CKSM MD5 0 -1 fifo", 550);
}

#[test]
fn directories_and_names_change_as_asked() {
    let server = TestServer::new();
    let mut ftp = server.login();
    ftp.ok("MKD d", 257);
    ftp.ok("MKD d", 550);
    ftp.ok("CWD d", 250);
    assert_eq!(ftp.store("STOR f", b"hello").code, 226);
    ftp.ok("SIZE f", 213);
    ftp.ok("CDUP", 250);
    ftp.ok("RMD d", 550);
    ftp.ok("RNFR d/f", 350);
    ftp.ok("RNTO g", 250);
    ftp.ok("RMD d", 250);
    ftp.ok("DELE g", 250);
    ftp.ok("DELE g", 550);
    ftp.ok("RNFR nothing", 550);
    assert!(ftp.get("NLST").is_empty());
    assert_eq!(hidden(&server.root), Vec::<String>::new());
}

#[test]
fn metadata_is_read_and_set() {
    if lacks(|can| can.modes) {
        return;
    }
    let server = TestServer::new();
    server.put("f", "12345");
    let mut ftp = server.login();
    assert_eq!(
        ftp.ok("MFMT 20200102030405 f", 213).text(),
        "213 Modify=20200102030405; f"
    );
    assert_eq!(ftp.ok("MDTM f", 213).text(), "213 20200102030405");
    ftp.ok("SITE CHMOD 0600 f", 250);
    let mode = fs::metadata(server.root.join("f"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o600);
    let facts = ftp.ok("MLST f", 250).text();
    assert!(
        facts.contains("Size=5;")
            && facts.contains("Type=file;")
            && facts.contains("UNIX.mode=0600;"),
        "{facts}"
    );
    ftp.ok("SITE TRNC 2 f", 250);
    assert_eq!(server.get("f"), b"12");
    ftp.ok("SITE UTIME 20210102030405 f", 250);
    assert_eq!(ftp.ok("MDTM f", 213).text(), "213 20210102030405");
}

/// Seconds beyond 32 bits, signed or not, and before 1970.
#[test]
fn times_of_any_century_are_kept() {
    if lacks(|can| can.times) {
        return;
    }
    let server = TestServer::new();
    server.put("f", "x");
    let mut ftp = server.login();
    for time in [
        "20380119031408",
        "21060207062816",
        "22221231235959",
        "19691231235959",
    ] {
        ftp.send(&format!("MFMT {time} f"));
        assert_eq!(ftp.reply().code / 100, 2);
        assert_eq!(ftp.ok("MDTM f", 213).lines, [format!("213 {time}")]);
        let listing = String::from_utf8(ftp.get("MLSD")).unwrap().to_lowercase();
        assert!(listing.contains(&format!("modify={time}")), "{listing}");
        assert_eq!(ftp.fetch("f"), b"x");
    }
}

/// Only the last part of a path is a pattern, so one directory is read, whatever the pattern.
#[test]
fn a_bomb_of_patterns_lists_one_directory() {
    if lacks(|can| can.modes) {
        return;
    }
    let server = TestServer::new();
    for outer in ["a", "b"] {
        for inner in ["c", "d"] {
            fs::create_dir_all(server.root.join(outer).join(inner)).unwrap();
        }
    }
    let mut ftp = server.login();
    let names = |list: Vec<u8>| String::from_utf8(list).unwrap().lines().count();
    for depth in [3, 1000] {
        let bomb = format!("NLST {}*", "*/../".repeat(depth));
        assert_eq!(names(ftp.get(&bomb)), 2);
        ftp.pasv();
        let reply = ftp.cmd(&format!("NLST {}*", "*/".repeat(depth)));
        assert_eq!(reply.code, 550, "{reply:?}");
    }
}

#[test]
fn utf8_names_work_on_a_clear_channel() {
    let server = TestServer::new();
    let mut ftp = server.login();
    ftp.ok("MKD €uro ñ", 257);
    assert!(server.has("€uro ñ"));
    assert!(
        String::from_utf8(ftp.get("NLST /"))
            .unwrap()
            .contains("€uro ñ\r\n")
    );
}

#[test]
fn listings_show_the_same_directory_in_every_form() {
    let server = TestServer::new();
    fs::create_dir_all(server.root.join("d/sub")).unwrap();
    server.put("d/a file", "abc");
    server.put("d/sub/deep", "x");
    let mut ftp = server.login();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let names = text(ftp.get("NLST d"));
    let mut names: Vec<&str> = names.lines().collect();
    names.sort_unstable();
    assert_eq!(names, ["a file", "sub"]);
    let long = text(ftp.get("LIST -la d"));
    assert!(
        long.lines()
            .any(|l| l.starts_with("-rw") && l.ends_with(" a file")),
        "{long}"
    );
    assert!(
        long.lines()
            .any(|l| l.starts_with('d') && l.ends_with(" sub")),
        "{long}"
    );
    let facts = text(ftp.get("MLSD d"));
    assert!(
        facts
            .lines()
            .any(|l| l.starts_with("Type=cdir;") && l.ends_with(" .")),
        "{facts}"
    );
    assert!(
        facts
            .lines()
            .any(|l| l.contains("Size=3;") && l.ends_with("; a file")),
        "{facts}"
    );
    let tree = text(ftp.get("MLSR d"));
    assert!(tree.lines().any(|l| l.ends_with("; sub/deep")), "{tree}");
    assert!(ftp.ok("MLSC d", 250).text().contains("; a file"));
    assert!(ftp.ok("STAT d", 213).text().contains(" a file"));
    assert!(text(ftp.get("MLSD d/sub/deep")).ends_with("; deep\r\n"));
    assert!(text(ftp.get("LIST d/sub/deep")).ends_with(" deep\r\n"));
    ftp.pasv();
    ftp.ok("MLSD nothing", 550);
}

#[test]
fn patterns_match_in_one_directory() {
    let server = TestServer::new();
    fs::create_dir(server.root.join("d")).unwrap();
    for name in ["d/a.txt", "d/b.txt", "d/c.bin", "d/[x].txt"] {
        server.put(name, name);
    }
    let mut ftp = server.login();
    let sorted = |bytes: Vec<u8>| {
        let text = String::from_utf8(bytes).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(
        sorted(ftp.get("NLST d/*.txt")),
        ["d/[x].txt", "d/a.txt", "d/b.txt"]
    );
    assert_eq!(sorted(ftp.get("NLST d/[ab].*")), ["d/a.txt", "d/b.txt"]);
    assert_eq!(
        sorted(ftp.get("NLST d/[x].txt")),
        ["[x].txt"],
        "a name that exists is no pattern"
    );
    for name in sorted(ftp.get("NLST d/*")) {
        assert_eq!(ftp.fetch(&name), name.as_bytes(), "RFC 1123 §4.1.2.7");
    }
    assert_eq!(ftp.get("LIST d/*.none"), b"");
    ftp.pasv();
    ftp.ok("NLST */*", 550);
}

#[test]
fn a_name_with_a_line_feed_cannot_forge_an_entry() {
    if lacks(|can| can.modes) {
        return;
    }
    let server = TestServer::new();
    server.put("a\r\nType=file; forged", "");
    let listing = String::from_utf8(server.login().get("MLSD /")).unwrap();
    assert!(
        !listing
            .lines()
            .any(|line| line.ends_with("; forged") && line.starts_with("Type=file; ")),
        "{listing}"
    );
    assert_eq!(listing.lines().count(), 3, "{listing}");
}

#[test]
fn a_large_directory_is_listed_whole() {
    let server = TestServer::new();
    for i in 0..12_000 {
        server.put(&format!("file number {i}"), "");
    }
    let mut ftp = server.login();
    let listing = ftp.get("MLSD /");
    assert_eq!(
        listing.windows(2).filter(|pair| pair == b"\r\n").count(),
        12_002
    );
    let lines = ftp.ok("MLSC /", 250).lines;
    assert_eq!(lines.len(), 12_002 + 2);
    assert_eq!(lines.last().map(String::as_str), Some("250 End."));
    assert_eq!(ftp.ok("STAT /", 213).lines.len(), 12_000 + 2);
}

#[test]
fn checksums_of_regions_match() {
    let server = TestServer::new();
    server.put("f", "123456789");
    let mut ftp = server.login();
    for (command, digest) in [
        ("CKSM MD5 0 -1 f", "25f9e794323b453885f5181f1b624d0b"),
        ("CKSM md5 0 9 f", "25f9e794323b453885f5181f1b624d0b"),
        ("CKSM ADLER32 0 -1 f", "091e01de"),
        ("CKSM CRC32C 0 -1 f", "e3069283"),
        (
            "CKSM SHA1 0 -1 f",
            "f7c3bc1d808e04732adf679965ccc34ca7ae3441",
        ),
        ("CKSM MD5 8 1 f", "45c48cce2e2d7fbdea1afc51c7c6ad26"),
    ] {
        assert_eq!(
            ftp.ok(command, 213).text(),
            format!("213 {digest}"),
            "{command}"
        );
    }
    let reply = ftp.cmd("CKSM MD4 0 -1 f");
    assert!(reply.code >= 500, "{reply:?}");
    ftp.ok("CKSM MD5 0 -1 nothing", 550);
}

/// Also when it said QUIT, so that it need not stay for the answer.
#[test]
fn a_digest_ends_with_its_client() {
    let server = TestServer::new();
    let endless = fs::File::create(server.root.join("f")).unwrap();
    endless.set_len(1 << 43).unwrap();
    let mut ftp = server.login();
    ftp.raw("CKSM MD5 0 -1 f\r\nCKSM MD5 0 -1 f\r\nQUIT\r\n");
    drop(ftp);
    server.wait_for_sessions(0);
}

#[test]
fn an_upload_that_must_hash_to_something_else_is_refused() {
    let server = TestServer::new();
    let mut ftp = server.login();
    ftp.ok("SCKS MD5 25f9e794323b453885f5181f1b624d0b", 200);
    assert_eq!(ftp.store("STOR f", b"123456789").code, 226);
    ftp.ok("SCKS MD5 25f9e794323b453885f5181f1b624d0b", 200);
    assert_eq!(ftp.store("STOR g", b"12345678").code, 550);
    assert!(!server.has("g"), "{:?}", hidden(&server.root));
}

#[test]
fn a_tree_is_removed_without_following_links() {
    let server = TestServer::new();
    fs::create_dir_all(server.root.join("d/e/f")).unwrap();
    server.put("d/e/f/x", bytes(10));
    server.put("kept", "kept");
    symlink("../kept", server.root.join("d/link")).unwrap();
    let mut ftp = server.login();
    ftp.ok("SITE RDEL d", 250);
    assert!(!server.has("d") && server.has("kept"));
    let reply = ftp.cmd("SITE RDEL /");
    assert!(reply.code >= 500, "{reply:?}");
    assert!(server.has("kept"));
}

#[test]
fn links_are_made_and_shown() {
    if lacks(|can| can.symlinks) {
        return;
    }
    let server = TestServer::new();
    server.put("f", "abc");
    let mut ftp = server.login();
    ftp.ok("SITE SYMLINKFROM f", 350);
    ftp.ok("SITE SYMLINKTO l", 250);
    assert_eq!(
        fs::read_link(server.root.join("l")).unwrap().as_os_str(),
        "f"
    );
    assert_eq!(ftp.fetch("l"), b"abc");
}
