//! RFC 3659 §6: the trivial virtual file store.

use crate::fresh;
use crate::support::TestServer;

/// §6.1, §6.2: `/` separates names and alone is the root; `.` and `..` have their usual meaning;
/// other characters of a name have none.
#[test]
fn one_file_has_many_paths() {
    let server = TestServer::new();
    std::fs::create_dir_all(server.root.join("a/b")).unwrap();
    server.put("a/b/f", "12345");
    server.put("a/b/F", "1");
    server.put("a/b/f.", "12");
    server.put("a/b/*", "123");
    let mut ftp = fresh(&server);
    for (cwd, paths) in [
        (
            "/",
            &[
                "/a/b/f",
                "a/b/f",
                "a//b/f",
                "./a/./b/f",
                "a/../a/b/f",
                "//a/b/f",
            ][..],
        ),
        ("/a", &["b/f", "./b/f", "../a/b/f", "/a/b/f", "../../a/b/f"]),
        ("/a/b", &["f", "./f", "../b/f", "~/a/b/f"]),
    ] {
        ftp.ok(&format!("CWD {cwd}"), 250);
        for path in paths {
            assert_eq!(
                ftp.ok(&format!("SIZE {path}"), 213).text(),
                "213 5",
                "{cwd} {path}"
            );
        }
    }
    for (name, size) in [("F", 1), ("f.", 2), ("*", 3)] {
        assert_eq!(
            ftp.ok(&format!("SIZE {name}"), 213).text(),
            format!("213 {size}")
        );
    }
    ftp.ok("SIZE \\a\\b\\f", 550);
    ftp.ok("SIZE f/", 213);
}
