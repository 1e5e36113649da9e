//! RFC 2428 §4: EPSV ALL.

use std::net::SocketAddr;

use super::section_3::port;
use crate::support::TestServer;
use crate::{fresh, retrieve_from, table};

/// §4: after EPSV ALL every other command that sets up a data connection is refused until the
/// session ends. The Globus server refuses none.
#[test]
fn after_epsv_all_only_epsv_is_accepted() {
    let server = TestServer::new();
    server.put("f", "x");
    let mut ftp = fresh(&server);
    let refused = "
        503  PASV  PORT 127,0,0,1,200,1  EPRT |1|127.0.0.1|51201|  SPAS  SPOR 127,0,0,1,200,1
    ";
    ftp.ok("epsv all", 229);
    for _ in 0..2 {
        table(&mut ftp, refused);
        let at = SocketAddr::new(server.address.ip(), port(&ftp.ok("EPSV", 229)));
        assert_eq!(retrieve_from(&mut ftp, at, "f"), b"x");
    }
    fresh(&server).ok("PASV", 227);
}
