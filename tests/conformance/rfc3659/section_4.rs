//! RFC 3659 §4: SIZE.

use crate::support::TestServer;
use crate::{fresh, table};

/// §4.1: SIZE is the number of bytes that RETR would send, in digits, also beyond 32 bits.
///
/// In TYPE A that would be the size with CRLF, for which the file must be read. The Globus server
/// sends the size of the file in every TYPE, and of directories too, and so do we: its clients do
/// not send TYPE I before SIZE.
#[test]
fn sizes_are_plain_numbers() {
    let server = TestServer::new();
    server.put("t", "a\nb\n");
    server.put("empty", "");
    std::fs::create_dir(server.root.join("d")).unwrap();
    let big = std::fs::File::create(server.root.join("big")).unwrap();
    big.set_len((5 << 30) + 7).unwrap();
    let mut ftp = server.login();
    for (name, size) in [("t", "4"), ("empty", "0"), ("big", "5368709127")] {
        for ty in ["TYPE I", "TYPE A"] {
            ftp.ok(ty, 200);
            assert_eq!(
                ftp.ok(&format!("SIZE {name}"), 213).text(),
                format!("213 {size}")
            );
        }
    }
    ftp.ok("SIZE d", 213);
}

/// §4.2: 550 for a missing file, 501 for a missing name.
#[test]
fn a_missing_file_has_no_size() {
    let server = TestServer::new();
    table(&mut fresh(&server), "550  SIZE none\n501  SIZE");
}
