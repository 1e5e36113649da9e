//! RFC 2428 §3: EPSV.

use std::net::{Ipv6Addr, SocketAddr, TcpListener};

use crate::support::{Reply, TestServer};
use crate::{fresh, retrieve_from};

/// Returns the port in `(|||port|)`, the only allowed form: the address is that of the control
/// connection.
#[track_caller]
pub(crate) fn port(reply: &Reply) -> u16 {
    let text = reply.text();
    let inner = text
        .split_once("(|||")
        .and_then(|(_, text)| text.split_once("|)"));
    let digits = inner.unwrap_or_else(|| panic!("{text}")).0;
    digits.parse().unwrap()
}

/// §3: without an argument, or with the family of the control connection, EPSV sends a port.
#[test]
fn epsv_sends_a_port_and_no_address() {
    let server = TestServer::new();
    server.put("f", "x");
    let mut ftp = fresh(&server);
    for line in ["EPSV", "epsv", "EPSV 1"] {
        let at = SocketAddr::new(server.address.ip(), port(&ftp.ok(line, 229)));
        assert_eq!(retrieve_from(&mut ftp, at, "f"), b"x");
    }
}

/// §3, §2: another family gets 522 and the list of supported ones. The Globus server sends 501
/// for `EPSV 3`, and accepts `EPSV 2` without supporting it.
#[test]
fn another_family_gets_the_supported_ones() {
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
    // A 227 cannot carry an IPv6 address.
    for line in ["EPSV 1", "PASV"] {
        let text = ftp.ok(line, 522).text();
        assert!(text.contains("(2)"), "{line}: {text}");
    }
    port(&ftp.ok("EPSV 2", 229));
}
