//! `SITE HELD` of a directory: the list of the broken uploads below it.

use crate::restart::break_off;
use crate::support::{Ftp, TestServer, bytes};

#[test]
fn a_directory_lists_the_broken_uploads_below_it() {
    let server = TestServer::new();
    let mut ftp = server.login();
    ftp.ok("MKD d", 257);
    ftp.ok("MKD d/e", 257);
    for name in ["d/a b", "d/e/f", "other"] {
        break_off(&mut ftp, name, 200_000, &bytes(120_000));
    }
    let list = |ftp: &mut Ftp, dir: &str| -> Vec<String> {
        let lines = ftp.ok(&format!("SITE HELD {dir}"), 213).lines;
        let inner = lines.iter().filter(|line| line.contains("Held="));
        inner.map(|line| line.trim().to_owned()).collect()
    };
    let found = list(&mut server.login(), "d");
    for (line, name) in found.iter().zip(["; a b", "; e/f"]) {
        assert!(
            line.starts_with("Held=120000;Size=200000;Modify=20"),
            "{line}"
        );
        assert!(line.ends_with(name), "{line}");
    }
    ftp.ok("SITE DELHELD d/e/f", 250);
    assert_eq!((found.len(), list(&mut ftp, "/").len()), (2, 2));
}
