//! Modules of ERET and ESTO: archives of directories, and regions with a digest.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{TestServer, bytes, hidden, lacks};

/// MD5 of `23456` and of nothing.
const MD5: &str = "adcaec3805aa912c0d0b14a81bedb6ff";
const MD5_OF_NOTHING: &str = "d41d8cd98f00b204e9800998ecf8427e";

/// Unpacks an archive with the system's `tar`.
fn unpack(archive: &[u8], into: &Path) {
    use std::io::Write as _;
    let mut tar = Command::new("tar");
    tar.args(["-x", "-p", "-f", "-", "-C"]).arg(into);
    let mut tar = tar.stdin(Stdio::piped()).spawn().unwrap();
    tar.stdin.take().unwrap().write_all(archive).unwrap();
    assert!(tar.wait().unwrap().success());
}

#[test]
fn a_directory_is_sent_as_a_tar_archive() {
    if lacks(|can| can.modes) {
        return;
    }
    let server = TestServer::new();
    let top = server.root.join("top");
    let deep = top.join("d").join("x".repeat(120)).join("y".repeat(150));
    fs::create_dir_all(&deep).unwrap();
    let long = "\u{e9}".repeat(120);
    let files = [
        top.join("a"),
        top.join("b.bin"),
        top.join(&long),
        deep.join("inner"),
    ];
    for (file, size) in files.iter().zip([0, 1_500_000, 512, 700]) {
        fs::write(file, bytes(size)).unwrap();
    }
    fs::set_permissions(&files[1], fs::Permissions::from_mode(0o640)).unwrap();
    fs::set_permissions(&deep, fs::Permissions::from_mode(0o750)).unwrap();
    fs::write(server.root.join("secret"), "outside").unwrap();
    symlink("../secret", top.join("link")).unwrap();
    symlink("nowhere/".repeat(20), top.join("dangling")).unwrap();
    symlink("..", top.join("up")).unwrap();

    let mut ftp = server.login();
    for command in ["ERET tar=\"\" top", "ERET tar= top"] {
        let archive = ftp.get(command);
        assert_eq!(archive.len() % 512, 0);
        let out = tempfile::tempdir().unwrap();
        unpack(&archive, out.path());
        let out = out.path().join("top");
        for file in &files {
            let copy = out.join(file.strip_prefix(&top).unwrap());
            assert_eq!(
                fs::read(&copy).unwrap(),
                fs::read(file).unwrap(),
                "{file:?}"
            );
            let (one, other) = (copy.metadata().unwrap(), file.metadata().unwrap());
            assert_eq!(one.permissions(), other.permissions());
            assert_eq!(one.modified().unwrap(), other.modified().unwrap());
        }
        let mode = out.join(deep.strip_prefix(&top).unwrap()).metadata();
        assert_eq!(mode.unwrap().permissions().mode() & 0o7777, 0o750);
        // A link stays a link, and nothing beyond it is in the archive.
        for name in ["link", "dangling", "up"] {
            let (copy, own) = (fs::read_link(out.join(name)), fs::read_link(top.join(name)));
            assert_eq!(copy.unwrap(), own.unwrap());
        }
    }
    let one = ftp.get("ERET tar=\"\" top/b.bin");
    let out = tempfile::tempdir().unwrap();
    unpack(&one, out.path());
    assert_eq!(
        fs::read(out.path().join("b.bin")).unwrap(),
        bytes(1_500_000)
    );
    ftp.ok("PASV", 227);
    ftp.ok("ERET tar=\"\" nothing", 550);
}

#[test]
fn a_region_is_sent_with_its_digest() {
    let server = TestServer::new();
    server.put("f", "0123456789");
    let mut ftp = server.login();
    for (command, sent, told) in [
        ("ERET checksum=\"MD5 2 5\" f", "23456", MD5),
        ("ERET checksum=\"MD5 10 5\" f", "", MD5_OF_NOTHING),
        ("ERET checksum=\"MD5 99 -1\" f", "", MD5_OF_NOTHING),
    ] {
        let data = ftp.data();
        ftp.ok(command, 150);
        assert_eq!(data.read(), sent.as_bytes());
        let reply = ftp.reply();
        assert_eq!(reply.code, 226);
        let expected = format!("Bytes={};MD5={told};", sent.len());
        assert!(reply.text().contains(&expected), "{reply:?}");
    }
    let large = bytes(3_000_000);
    server.put("large", &large);
    let data = ftp.data();
    ftp.ok("ERET checksum=\"CRC32C 1 -1\" large", 150);
    assert_eq!(data.read(), &large[1..]);
    let told = ftp.reply().text();
    let expected = ftp.ok("CKSM CRC32C 1 -1 large", 213).text();
    let digest = expected.split_whitespace().last().unwrap();
    assert!(
        told.contains(&format!("CRC32C={digest};")),
        "{told} {expected}"
    );
}

#[test]
fn a_region_is_published_only_with_its_digest() {
    if lacks(|can| can.updates) {
        return;
    }
    let server = TestServer::new();
    server.put("f", "0123456789");
    let mut ftp = server.login();
    let store = format!("ESTO checksum=\"MD5 {MD5} 3\" f");
    let refused = ftp.store(&store, b"xxxxx");
    assert_eq!(refused.code, 550);
    assert!(refused.text().contains("INCORRECT_CHECKSUM"), "{refused:?}");
    assert_eq!(server.get("f"), b"0123456789");
    // Nothing is kept of it, which a later store would continue.
    ftp.ok("SITE DELHELD f", 550);
    assert_eq!(hidden(&server.root), [".gridftp-index"; 0]);
    assert_eq!(ftp.store(&store, b"23456").code, 226);
    assert_eq!(server.get("f"), b"0122345689");
    let store = format!("ESTO checksum=\"MD5 {MD5} 0\" new");
    assert_eq!(ftp.store(&store, b"23456").code, 226);
    assert_eq!(server.get("new"), b"23456");
    ftp.ok("MODE E", 200);
    let mut data = ftp.data();
    ftp.ok(&format!("ESTO checksum=\"MD5 {MD5} 8\" f"), 150);
    data.block(0, 3, b"56");
    data.block(0, 0, b"234");
    data.end(1);
    assert_eq!(ftp.outcome().code, 226);
    assert_eq!(server.get("f")[8..], *b"23456");
}
