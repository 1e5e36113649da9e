//! RFC 3659 §5: REST in MODE S.

use crate::support::TestServer;
use crate::table;

/// §5.3: the marker is a decimal number of bytes of any size; it is checked at the transfer only.
#[test]
fn restart_points_are_numbers_of_any_size() {
    let server = TestServer::new();
    let big = std::fs::File::create(server.root.join("big")).unwrap();
    big.set_len((5 << 30) + 3).unwrap();
    let mut ftp = server.login();
    ftp.ok("REST 5368709120", 350);
    assert_eq!(ftp.fetch("big"), [0; 3]);
    table(
        &mut ftp,
        "
        350  REST 18446744073709551615
        501  REST 18446744073709551616  REST -1  REST +1  REST 0x10  REST
        350  REST 0
        ",
    );
}

/// §5.1: STOR writes from the restart point, and earlier bytes stay. The Globus server keeps later
/// bytes too.
#[test]
fn stor_continues_at_the_restart_point() {
    let server = TestServer::new();
    let mut ftp = server.login();
    for (rest, sent, file) in [
        (10, "abc", "0123456789abc"),
        (5, "abcde", "01234abcde"),
        (5, "abcdefgh", "01234abcdefgh"),
        (0, "abc", "abc"),
    ] {
        server.put("f", "0123456789");
        ftp.ok(&format!("REST {rest}"), 350);
        assert_eq!(ftp.store("STOR f", sent.as_bytes()).code, 226, "{rest}");
        assert_eq!(String::from_utf8(server.get("f")).unwrap(), file, "{rest}");
    }
}
