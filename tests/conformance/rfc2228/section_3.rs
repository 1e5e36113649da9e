//! RFC 2228 §3, §5: what is answered where no mechanism is there.

use crate::support::TestServer;
use crate::table;

/// AUTH of a mechanism that is not known is 504, ADAT without AUTH 503, and protected commands are not known (§3).
///
/// For PBSZ and PROT the RFC has 503 until AUTH and PBSZ were there. The Globus server takes them on a clear channel,
/// and so do we, as far as they ask for nothing: its clients send them for `DCAU N`. A level that nobody has is 536 with
/// both, where §3 has 504.
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

/// A refused mechanism leaves the session as it was: who may log in without one still does.
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

/// §3: a mechanism between USER and PASS does not make the password one for somebody else.
#[test]
fn a_refused_mechanism_does_not_let_anybody_in() {
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
