//! RFC 2389 §4: OPTS.

use crate::support::TestServer;
use crate::{fresh, table};

/// §4: 200 for valid options. For others the RFC has 501 and the Globus server 500; we send 500,
/// since its clients use the first digit only. A refused OPTS changes nothing.
#[test]
fn opts_is_applied_or_refused_as_a_whole() {
    let server = TestServer::new();
    let mut ftp = fresh(&server);
    table(
        &mut ftp,
        "
        200  OPTS MLST Type;  opts mlst type;size;  OPTS UTF8 ON  OPTS UTF8
        500  OPTS UTF8 OFF
        200  OPTS RETR Parallelism=2;  OPTS RETR Parallelism=2,2,2;
        200  OPTS RETR StripeLayout=Blocked;BlockSize=65536;
        200  OPTS RETR StripeLayout=Partitioned;Parallelism=4,4,4;
        500  OPTS RETR Parallelism=x;
        501  OPTS RETR
        500  OPTS RETR NoSuch=1;  OPTS NOSUCH  OPTS FEAT  OPTS OPTS  OPTS NOOP x
        501  OPTS
        # An invalid item refuses the valid one too: PASV is not delayed.
        500  OPTS PASV AllowDelayed=1;NoSuch=1;
        227  PASV
        ",
    );
}
