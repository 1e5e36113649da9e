//! Commands of GridFTP without a security mechanism, and commands without any implementation.

use crate::support::TestServer;
use crate::{fresh, inner, table};

/// Without GSSAPI data connections are not authenticated, so DCAU N is accepted. A and S get 504,
/// which the Globus server sends for unknown modes.
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

/// Commands that neither server implements get 502 and are not in FEAT: ABUF of GFD.20, GET and PUT
/// of GFD.47.
#[test]
fn unimplemented_commands_are_not_offered() {
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
