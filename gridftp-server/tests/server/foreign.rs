//! Data connections from other hosts than the client's: the reply to a transfer that fails beside
//! them names these hosts and the option that admits them.

use std::io::Read as _;
use std::net::SocketAddr;

use crate::data::other_host;
use crate::support::{Data, PATIENCE, Reply, TestServer, header};

/// Connects from another host, and waits until the server has refused that.
fn refused(port: SocketAddr) {
    // It may be refused at once.
    let Ok(mut stream) = other_host(port) else {
        return;
    };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    match stream.read(&mut [0]) {
        Ok(read) => assert_eq!(read, 0),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
    }
}

#[track_caller]
fn names_the_host(reply: &Reply, code: u16) {
    assert_eq!(reply.code, code, "{reply:?}");
    let text = reply.text();
    let fact = "data connections from 127.0.0.2 were refused: hosts other than the client's";
    assert!(
        text.contains(fact) && text.contains("need --third-party at this server"),
        "{reply:?}"
    );
}

#[test]
fn the_reply_at_the_deadline_names_the_refused_host() {
    let server = TestServer::with(|o| o.connect_timeout = Some(1));
    let mut ftp = server.login();
    let port = ftp.pasv();
    ftp.send("STOR f");
    refused(port);
    names_the_host(&ftp.reply(), 425);
    ftp.ok("NOOP", 200);
}

#[test]
fn the_reply_to_an_abort_names_the_refused_host() {
    let server = TestServer::new();
    for mode in ["MODE S", "MODE E"] {
        let mut ftp = server.login();
        ftp.ok(mode, 200);
        let port = ftp.pasv();
        ftp.send("STOR f");
        refused(port);
        ftp.send("ABOR");
        names_the_host(&ftp.reply(), 426);
        assert_eq!(ftp.reply().code, 226);
    }
}

#[test]
fn the_reply_to_a_cut_upload_names_the_refused_host() {
    let server = TestServer::new();
    let mut ftp = server.login();
    let port = ftp.pasv();
    ftp.send("STOR f");
    refused(port);
    let mut data = Data::connect(port);
    assert_eq!(ftp.reply().code, 150);
    data.write(b"half");
    data.reset();
    names_the_host(&ftp.outcome(), 426);
    assert!(!server.has("f"));
}

/// The peer of the first transfer was another.
#[test]
fn a_refused_host_is_no_cause_of_a_later_failure() {
    let server = TestServer::new();
    let mut ftp = server.login();
    ftp.ok("MODE E", 200);
    let port = ftp.pasv();
    ftp.send("STOR f");
    refused(port);
    let mut data = Data::connect(port);
    assert_eq!(ftp.reply().code, 150);
    data.end(1);
    assert_eq!(ftp.outcome().code, 226);
    ftp.ok("STOR g", 125);
    data.write(&header(0, 10, 0));
    data.write(b"half");
    data.finish();
    let reply = ftp.outcome();
    assert_eq!(reply.code, 426, "{reply:?}");
    assert!(!reply.text().contains("--third-party"), "{reply:?}");
}
