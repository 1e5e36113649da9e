//! A session cannot reach paths outside its SITE CHROOT or SITE RESTRICT, links and trees included.

use std::fs;
use std::os::unix::fs::symlink;

use crate::support::{Ftp, TestServer};

/// A tree with `jail` to stay in and `secret` beside it, and links in the jail that lead to it.
fn tree() -> TestServer {
    let server = TestServer::new();
    for dir in ["jail", "jail/deep", "secret"] {
        fs::create_dir(server.root.join(dir)).unwrap();
    }
    server.put("secret/file", "secret");
    server.put("jail/deep/file", "known");
    symlink("../secret", server.root.join("jail/dir")).unwrap();
    symlink("../secret/file", server.root.join("jail/link")).unwrap();
    server
}

/// Tries to reach `secret` from `jail`, which the client knows as `at`.
fn stays_inside(server: &TestServer, ftp: &mut Ftp, at: &str) {
    ftp.ok(&format!("CWD {at}/dir"), 550);
    for path in ["dir/file", "link"] {
        ftp.ok("PASV", 227);
        ftp.ok(&format!("RETR {at}/{path}"), 550);
        ftp.ok(&format!("STOR {at}/{path}"), 550);
        ftp.ok(&format!("APPE {at}/{path}"), 550);
        ftp.ok(&format!("CKSM MD5 0 -1 {at}/{path}"), 550);
        ftp.ok(&format!("SITE TRNC 0 {at}/{path}"), 550);
        ftp.ok(&format!("SITE CHMOD 777 {at}/{path}"), 550);
    }
    ftp.ok(&format!("DELE {at}/dir/file"), 550);
    // The link is visible, its target is not.
    let listing = ftp.ok(&format!("MLSC {at}/dir"), 250).text();
    assert!(
        listing.contains("Type=slink;") && !listing.contains("; file"),
        "{listing}"
    );
    // A target that is allowed where it is named would lead elsewhere from where the link stands.
    ftp.ok(&format!("CWD {at}/deep"), 250);
    for target in ["../secret", "/secret", "/"] {
        let from = ftp.cmd(&format!("SITE SYMLINKFROM {target}")).code;
        assert_eq!(from, 550, "{target}");
        ftp.ok(&format!("SITE SYMLINK {target} {at}/made"), 550);
    }
    assert!(fs::symlink_metadata(server.root.join("jail/made")).is_err());
    assert_eq!(server.get("secret/file"), b"secret");
    assert_eq!(ftp.fetch(&format!("{at}/deep/file")), b"known");
}

#[test]
fn a_virtual_root_is_not_left() {
    let server = tree();
    let mut ftp = server.login();
    ftp.ok("SITE CHROOT /jail", 250);
    ftp.ok("CWD /../secret", 550);
    stays_inside(&server, &mut ftp, "");
    ftp.ok("SITE CHROOT /", 500);
}

#[test]
fn a_restricted_session_stays_where_it_may_be() {
    let server = tree();
    let mut ftp = server.login();
    ftp.ok("SITE RESTRICT RW/jail", 250);
    ftp.ok("CWD /secret", 550);
    stays_inside(&server, &mut ftp, "/jail");
    ftp.ok("SITE RESTRICT /", 500);
}

#[test]
fn work_on_a_tree_minds_the_rules_beneath_it() {
    let server = tree();
    server.put("jail/deep/other", "x");
    let mut ftp = server.login();
    ftp.ok("SITE RESTRICT RW/,N/jail/deep/file", 250);
    ftp.ok("SITE RDEL /jail/deep", 550);
    ftp.ok("RNFR /jail", 550);
    ftp.ok("PASV", 227);
    ftp.ok("MLSR /jail", 550);
    ftp.ok("DELE /jail/deep/other", 250);
    ftp.ok("SITE RDEL /secret", 250);
    assert_eq!(server.get("jail/deep/file"), b"known");
}
