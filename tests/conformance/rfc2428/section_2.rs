//! RFC 2428 §2: EPRT.

use std::net::TcpListener;

use crate::support::TestServer;
use crate::{fresh, retrieve_to, table};

/// §2: the first character after the blank is the delimiter.
#[test]
fn any_delimiter_separates_the_fields() {
    let server = TestServer::new();
    server.put("f", "x");
    let mut ftp = fresh(&server);
    for delimiter in ['|', '!', '~', '#'] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let line = format!("EPRT |1|127.0.0.1|{port}|").replace('|', &delimiter.to_string());
        ftp.ok(&line, 200);
        assert_eq!(retrieve_to(&mut ftp, &listener, "f").0, b"x");
    }
}

/// §2: 522 lists the supported families in parentheses; other invalid arguments get 501.
#[test]
fn an_unknown_family_gets_the_supported_ones() {
    let server = TestServer::new();
    let mut ftp = fresh(&server);
    for line in [
        "EPRT |3|127.0.0.1|6446|",
        "EPRT |4|x|6446|",
        "EPRT |99|::1|6446|",
    ] {
        let text = ftp.ok(line, 522).text();
        assert!(text.ends_with("(1,2)."), "{text}");
    }
    table(
        &mut ftp,
        "
        501  EPRT  EPRT |1|127.0.0.1|  EPRT |1|127.0.0.1||  EPRT |1|127.0.0.1|65536|
        501  EPRT |1|127.0.0.1|x|  EPRT |1|127.0.0|6446|  EPRT |1|::1|6446|  EPRT |2|127.0.0.1|6446|
        501  EPRT |1|localhost|6446|  EPRT |1|127.0.0.1|6446  EPRT 1|127.0.0.1|6446
        ",
    );
}
