//! Peers and storage that stop in the middle of a listing: the stall deadline ends it, and the
//! session goes on.

use crate::support::{TestServer, bytes};

/// A name as long as most file systems allow, so that few of them make a long listing.
fn long(n: usize) -> String {
    format!("{n:0>200}")
}

#[test]
fn a_listing_that_nobody_reads_ends() {
    let server = TestServer::with(|o| o.stall_timeout = Some(1));
    for n in 0..6000 {
        server.put(&long(n), "");
    }
    for mode in ["MODE S", "MODE E"] {
        let mut ftp = server.login();
        ftp.ok(mode, 200);
        // A small buffer, or the kernel would take it all.
        ftp.ok("SBUF 8192", 200);
        let listener = ftp.port();
        ftp.send("MLSD");
        let data = listener.accept().unwrap();
        assert_eq!(ftp.outcome().code, 150, "{mode}");
        let reply = ftp.outcome();
        assert_eq!(reply.code, 426, "{mode}: {reply:?}");
        drop(data);
        ftp.ok("MODE S", 200);
        assert_eq!(ftp.store("STOR after", &bytes(10)).code, 226);
    }
}
