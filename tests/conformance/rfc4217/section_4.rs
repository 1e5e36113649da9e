//! RFC 4217 §4, §6: replies of a server without TLS.

use crate::support::TestServer;
use crate::{fresh, table};

/// §4: after a refused AUTH the client may continue in the clear.
#[test]
fn auth_tls_is_refused_and_the_session_continues() {
    let server = TestServer::new();
    let mut ftp = server.connect();
    let refused = ["TLS", "TLS-C", "TLS-P", "SSL", "tls"].map(|name| format!("AUTH {name}"));
    for line in &refused {
        ftp.ok(line, 504);
    }
    ftp.login("anonymous", "test@");
    ftp.ok(&refused[0], 504);
}

/// §6: FEAT lists no TLS command, before and after the login.
#[test]
fn feat_offers_no_tls() {
    let server = TestServer::new();
    for mut ftp in [server.connect(), fresh(&server)] {
        for line in crate::inner(&ftp.ok("FEAT", 211)) {
            let label = line.split(' ').next().unwrap().to_owned();
            assert!(
                !["AUTH", "PBSZ", "PROT", "CCC"].contains(&label.as_str()),
                "{line}"
            );
        }
    }
}

/// A TLS handshake as the first bytes (the deprecated implicit FTPS) gets no reply bytes.
#[test]
fn implicit_tls_is_closed() {
    let server = TestServer::new();
    let mut ftp = server.connect();
    ftp.raw(b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00\n");
    assert!(ftp.rest().is_empty());
    table(
        &mut fresh(&server),
        "
        200  NOOP
        ",
    );
}
