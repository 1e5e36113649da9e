//! What of GridFTP is there without a security mechanism, and what nobody has.

use crate::support::TestServer;
use crate::{fresh, inner, table};

/// Without GSSAPI data connections are not authenticated: DCAU N is what is so and is taken, A and S are refused with
/// 504, which the Globus server has for modes that it does not know.
#[test]
fn data_channel_authentication_is_refused_without_a_mechanism() {
    let server = TestServer::new();
    server.put("f", "x");
    let mut ftp = fresh(&server);
    table(
        &mut ftp,
        "
        200  DCAU N  dcau n
        504  DCAU A  DCAU S /CN=somebody
        501  DCAU
        504  DCAU X
        502  DCSC D
        ",
    );
    assert_eq!(
        ftp.fetch("f"),
        b"x",
        "a refused DCAU leaves data in the clear"
    );
    assert!(
        !inner(&ftp.ok("FEAT", 211))
            .iter()
            .any(|line| line.starts_with("DC"))
    );
}

/// What the specifications name and neither server has is 502, and not in FEAT: ABUF of GFD.20, GET and PUT of GFD.47.
#[test]
fn what_nobody_has_is_not_offered() {
    let server = TestServer::new();
    let mut ftp = fresh(&server);
    table(
        &mut ftp,
        "502  ABUF 1  GET path=/f;pasv;  PUT path=/f;pasv;",
    );
    let features = inner(&ftp.ok("FEAT", 211));
    for label in ["ABUF", "GETPUT"] {
        assert!(
            !features.iter().any(|line| line.starts_with(label)),
            "{features:?}"
        );
    }
    for label in ["PARALLEL", "SPAS", "SPOR", "ERET", "ESTO", "SBUF", "CKSM "] {
        assert!(
            features.iter().any(|line| line.starts_with(label)),
            "{label}: {features:?}"
        );
    }
}
