//! RFC 2428 §3: EPSV.

use std::net::{Ipv6Addr, SocketAddr, TcpListener};

use crate::support::{Reply, TestServer};
use crate::{fresh, retrieve_from};

/// The port in `(|||port|)`, which must be of exactly this form: no address, since it is that of the control connection.
#[track_caller]
pub(crate) fn port(reply: &Reply) -> u16 {
    let text = reply.text();
    let inner = text
        .split_once("(|||")
        .and_then(|(_, text)| text.split_once("|)"));
    let digits = inner.unwrap_or_else(|| panic!("{text}")).0;
    digits.parse().unwrap()
}

/// §3: without an argument, or with the family of the control connection, EPSV says a port, and that serves.
#[test]
fn epsv_says_a_port_and_no_address() {
    let server = TestServer::new();
    server.put("f", "x");
    let mut ftp = fresh(&server);
    for line in ["EPSV", "epsv", "EPSV 1"] {
        let at = SocketAddr::new(server.address.ip(), port(&ftp.ok(line, 229)));
        assert_eq!(retrieve_from(&mut ftp, at, "f"), b"x");
    }
}

/// §3, §2: a family that is not there is refused with 522 and the list of those that are. The Globus server answers 501
/// to `EPSV 3` and takes `EPSV 2` without having it.
#[test]
fn another_family_is_refused_with_those_there_are() {
    let server = TestServer::new();
    let mut ftp = fresh(&server);
    for (line, list) in [("EPSV 2", "(1)"), ("EPSV 3", "(1,2)"), ("EPSV 0", "(1,2)")] {
        let text = ftp.ok(line, 522).text();
        assert!(text.contains(list), "{line}: {text}");
    }
    ftp.ok("EPSV x", 501);
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        eprintln!("SKIPPED: this machine has no IPv6 loopback");
        return;
    }
    let server = TestServer::with(|o| o.bind = Some(Ipv6Addr::LOCALHOST.into()));
    let mut ftp = fresh(&server);
    // There is no way to say an IPv6 address in a 227.
    for line in ["EPSV 1", "PASV"] {
        let text = ftp.ok(line, 522).text();
        assert!(text.contains("(2)"), "{line}: {text}");
    }
    port(&ftp.ok("EPSV 2", 229));
}
