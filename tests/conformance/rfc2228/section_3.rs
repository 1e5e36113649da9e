//! RFC 2228 §3, §5: replies without a security mechanism.

use crate::support::TestServer;
use crate::table;

/// AUTH with an unknown mechanism gets 504, ADAT without AUTH 503, and protected commands 502
/// (§3).
///
/// For PBSZ and PROT the RFC has 503 before AUTH and PBSZ. The Globus server accepts them on a
/// clear channel, and so do we where they request no protection: its clients send them for `DCAU
/// N`. An unknown level gets 536 from both servers, where §3 has 504.
const ROWS: &str = "
    504  AUTH GSSAPI  AUTH KERBEROS_V4
    503  ADAT AAAA
    502  MIC AAAA  CONF AAAA  ENC AAAA  CCC
    501  AUTH  ADAT
";

const LOGGED_IN: &str = "
    200  PBSZ 65536  PBSZ 4294967295  PROT C
    501  PBSZ 4294967296  PBSZ x  PROT
    536  PROT S  PROT E  PROT P  PROT Z
";

/// A refused mechanism leaves the session as it was, and a login without one is possible.
#[test]
fn refused_security_leaves_a_clear_session() {
    let server = TestServer::new();
    server.put("f", "x");
    let mut ftp = server.connect();
    table(&mut ftp, ROWS);
    table(&mut ftp, "530  PBSZ 0  PROT C");
    ftp.login("anonymous", "test@");
    table(&mut ftp, ROWS);
    table(&mut ftp, LOGGED_IN);
    assert_eq!(ftp.fetch("f"), b"x");
}

/// §3: a refused mechanism between USER and PASS does not change the login.
#[test]
fn a_refused_mechanism_is_no_login() {
    let server = TestServer::with(|o| o.anonymous = None);
    let mut ftp = server.connect();
    table(
        &mut ftp,
        "
        331  USER :globus-mapping:
        504  AUTH GSSAPI
        530  PASS dummy  PWD
        ",
    );
}
