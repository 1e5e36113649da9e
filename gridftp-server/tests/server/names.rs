//! Names of any bytes: in commands, in every form of listing, and those that no line can carry.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

use crate::support::{Ftp, Reply, TestServer, lacks};

/// Sends a command on a name of any bytes; 0xFF is doubled, as Telnet has it (RFC 854).
fn on(ftp: &mut Ftp, verb: &str, name: &[u8]) -> Reply {
    let mut line = format!("{verb} ").into_bytes();
    for &byte in name {
        line.push(byte);
        if byte == 0xff {
            line.push(byte);
        }
    }
    line.extend_from_slice(b"\r\n");
    ftp.raw(line);
    ftp.reply()
}

fn lines(listing: &[u8]) -> Vec<Vec<u8>> {
    let listing = listing.strip_suffix(b"\r\n").unwrap_or(listing);
    let text = listing.split(|b| *b == b'\n');
    text.map(|line| line.strip_suffix(b"\r").unwrap_or(line).to_vec())
        .collect()
}

/// The name behind the facts of a line.
fn named(line: &[u8]) -> Vec<u8> {
    let at = line.windows(2).position(|pair| pair == b"; ").unwrap();
    line[at + 2..].to_vec()
}

#[test]
fn a_name_of_any_bytes_is_stored_listed_and_removed() {
    if lacks(|can| can.modes) {
        return;
    }
    let server = TestServer::new();
    let all: Vec<u8> = (1..=0xff).filter(|b| !b"\r\n/".contains(b)).collect();
    let (low, high) = all.split_at(120);
    let mut names: Vec<Vec<u8>> = [
        low,
        high,
        b" x",
        b"x",
        b"x ",
        b"  ",
        b"\t",
        b"-la",
        b"a\x1b[2Jb",
        b"*",
        b"a; b",
    ]
    .map(<[u8]>::to_vec)
    .to_vec();
    names.sort();
    let mut ftp = server.login();
    for (i, name) in names.iter().enumerate() {
        let mut data = ftp.data();
        assert_eq!(on(&mut ftp, "STOR", name).code, 150, "{name:?}");
        data.write(&[i as u8]);
        data.finish();
        assert_eq!(ftp.outcome().code, 226);
        let stored = fs::read(server.root.join(OsStr::from_bytes(name))).unwrap();
        assert_eq!(stored, [i as u8], "{name:?}");
    }
    let mut listed: Vec<_> = lines(&ftp.get("MLSD")).iter().map(|l| named(l)).collect();
    listed.retain(|name| name != b"." && name != b"..");
    listed.sort();
    assert_eq!(listed, names);
    let mut listed = lines(&ftp.get("NLST"));
    listed.sort();
    assert_eq!(listed, names);
    // People read this one, on terminals.
    let long = ftp.get("LIST");
    assert!(lines(&long).iter().flatten().all(|b| !b.is_ascii_control()));
    assert_eq!(lines(&long).len(), names.len());
    for name in &names {
        assert_eq!(on(&mut ftp, "SIZE", name).code, 213, "{name:?}");
        assert_eq!(on(&mut ftp, "DELE", name).code, 250, "{name:?}");
    }
    assert_eq!(ftp.get("NLST"), b"");
}

/// Neither left out nor able to make up a line: a client can count it, and does not get another
/// file for it.
#[test]
fn a_name_with_a_line_end_is_listed_as_an_error_of_its_own() {
    if lacks(|can| can.modes) {
        return;
    }
    let server = TestServer::new();
    server.put("a\nType=file; evil", "1");
    server.put("a?Type=file; evil", "2");
    server.put("b\r", "3");
    let mut ftp = server.login();
    let listing = ftp.get("MLSD");
    let bad: Vec<_> = lines(&listing)
        .into_iter()
        .filter(|line| String::from_utf8_lossy(line).contains("Error=InvalidName;"))
        .map(|line| String::from_utf8(named(&line)).unwrap())
        .collect();
    assert_eq!(lines(&listing).len(), 5, "`.`, `..` and three files");
    assert_eq!(bad.len(), 2, "{}", String::from_utf8_lossy(&listing));
    for name in &bad {
        assert!(name.contains('\u{fffd}'), "{name:?}");
        assert_eq!(on(&mut ftp, "SIZE", name.as_bytes()).code, 550);
    }
    assert_eq!(lines(&ftp.get("NLST")).len(), 3);
    assert_eq!(lines(&ftp.get("LIST")).len(), 3);
    assert_eq!(ftp.ok("STAT .", 213).lines.len(), 5);
}

#[test]
fn a_link_that_leads_nowhere_has_no_size_and_no_time() {
    if lacks(|can| can.symlinks) {
        return;
    }
    let server = TestServer::new();
    symlink("nowhere", server.root.join("l")).unwrap();
    let mut ftp = server.login();
    ftp.ok("SIZE l", 550);
    let reply = ftp.ok("MDTM l", 550);
    assert_eq!(reply.lines[0], "550 No such file or directory");
    ftp.ok("MFMT 20200101000000 l", 550);
}

/// Many clients show the first line of a reply and no other.
#[test]
fn the_first_line_of_a_failure_has_the_reason() {
    let server = TestServer::new();
    let mut ftp = server.login();
    for is_gridftp in [false, true] {
        if is_gridftp {
            ftp.ok("MODE E", 200);
        }
        let reply = ftp.ok("SIZE none", 550);
        assert!(
            reply.lines[0].contains("no such file or directory"),
            "{reply:?}"
        );
        let class = reply.lines.get(1).map(String::as_str);
        let wanted = is_gridftp.then_some("550-GlobusError: v=1 c=PATH_NOT_FOUND");
        assert_eq!(class, wanted);
    }
}

/// After `SITE CHROOT` the directory above the root is hidden.
#[test]
fn the_parent_of_a_narrowed_root_is_the_root() {
    let server = TestServer::new();
    fs::create_dir(server.root.join("in")).unwrap();
    let mut ftp = server.login();
    ftp.ok("SITE CHROOT in", 250);
    ftp.ok("OPTS MLST Unique;Type;", 200);
    let listing = ftp.get("MLSD");
    let unique = |kind: &str| {
        let line = lines(&listing)
            .into_iter()
            .map(|line| String::from_utf8(line).unwrap())
            .find(|line| line.contains(kind))
            .unwrap();
        line.split("Unique=")
            .nth(1)
            .unwrap()
            .split(';')
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(unique("Type=cdir"), unique("Type=pdir"));
}
