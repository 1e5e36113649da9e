//! RFC 959 §5.1: the minimum implementation.

use crate::support::{Data, TestServer};
use crate::{fresh, retrieve_to, table};

/// §5.1: USER, QUIT, PORT, TYPE, MODE, STRU for the default values, RETR, STOR and NOOP. `STRU R`
/// is required only of hosts whose files have records (RFC 1123 §4.1.2.13).
#[test]
fn the_minimum_implementation_moves_a_file() {
    let server = TestServer::new();
    let mut ftp = fresh(&server);
    table(
        &mut ftp,
        "
        200  TYPE A  TYPE A N  MODE S  STRU F
        501  STRU R
        200  NOOP
        ",
    );
    let listener = ftp.port();
    ftp.send("STOR f");
    let mut data = Data::accept(&listener);
    assert_eq!(ftp.reply().code, 150);
    data.write(b"one\r\ntwo\r\n");
    data.finish();
    assert_eq!(ftp.reply().code, 226);
    let listener = ftp.port();
    assert_eq!(retrieve_to(&mut ftp, &listener, "f").0, b"one\r\ntwo\r\n");
    ftp.send("QUIT");
    assert_eq!(ftp.rest().len(), 1);
}
