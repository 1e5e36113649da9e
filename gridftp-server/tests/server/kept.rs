//! `SITE HELD` of a directory: the list of the broken uploads below it.

use crate::nodes_storage::Cluster;
use crate::restart::break_off;
use crate::support::{Ftp, TestServer, bytes};

/// The lines of the list of `dir`.
fn list(ftp: &mut Ftp, dir: &str) -> Vec<String> {
    let lines = ftp.ok(&format!("SITE HELD {dir}"), 213).lines;
    let inner = lines.iter().filter(|line| line.contains("Held="));
    inner.map(|line| line.trim().to_owned()).collect()
}

#[test]
fn a_directory_lists_the_broken_uploads_below_it() {
    let server = TestServer::new();
    let mut ftp = server.login();
    ftp.ok("MKD d", 257);
    ftp.ok("MKD d/e", 257);
    for name in ["d/a b", "d/e/f", "other"] {
        break_off(&mut ftp, name, 200_000, &bytes(120_000));
    }
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

/// Each node knows the uploads that it opened, as with an index on its own disk.
#[test]
fn a_front_end_lists_the_broken_uploads_of_all_nodes() {
    let mut cluster = Cluster::start();
    let folder = cluster.folder.path().to_owned();
    let place = |name: &str| folder.join(name).display().to_string();
    for n in 0..2 {
        let (tree, index) = (place("tree"), place(&format!("index{n}")));
        cluster.add_node_over(&["--root", &tree, "--partial-index", &index]);
    }
    let mut ftp = cluster.login();
    ftp.ok("MKD d", 257);
    for n in 0..8 {
        break_off(&mut ftp, &format!("d/{n}"), 200_000, &bytes(120_000));
    }
    let found = list(&mut cluster.login(), "/");
    assert_eq!(found.len(), 8, "{found:?}");
    for (n, line) in found.iter().enumerate() {
        assert!(line.starts_with("Held=120000;Size=200000;"), "{line}");
        assert!(line.ends_with(&format!("; d/{n}")), "{line}");
    }
    for n in 0..8 {
        ftp.ok(&format!("SITE DELHELD d/{n}"), 250);
    }
    assert_eq!(list(&mut ftp, "/"), Vec::<String>::new());
}
