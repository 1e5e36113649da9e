//! RFC 1123 §4.1.3: specific issues.

use crate::support::TestServer;
use crate::{fresh, table};

/// §4.1.3.1: the experimental names of the directory commands are supported.
#[test]
fn directory_commands_have_their_old_names() {
    let server = TestServer::new();
    table(
        &mut fresh(&server),
        "
        257  XMKD d
        250  XCWD d
        257  XPWD
        250  XCUP  XRMD d
        ",
    );
}

/// §4.1.3.3: a STAT during a transfer is accepted, and may be answered after it.
#[test]
fn stat_during_a_transfer_is_deferred() {
    let server = TestServer::new();
    let mut ftp = server.login();
    let mut data = ftp.data();
    ftp.ok("STOR f", 150);
    ftp.send("STAT");
    data.write(b"x");
    data.finish();
    assert_eq!(ftp.reply().code, 226);
    assert_eq!(ftp.reply().code, 212);
}
