//! The server against its specifications, section by section, over real sockets.
//!
//! Each test cites its requirement. Where the server deviates, the test gives the reason. Where the
//! specification and the servers of the Grid Community Toolkit differ, the toolkit is right, since
//! its clients must work.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::print_stderr,
    reason = "a failed helper names its line, and a skipped test is reported"
)]

mod gfd20;
mod rfc1123;
mod rfc2228;
mod rfc2389;
mod rfc2428;
mod rfc3659;
mod rfc4217;
mod rfc959;
#[allow(dead_code, reason = "the server's own suite uses the rest of it")]
#[path = "../../gridftp-server/tests/server/support.rs"]
mod support;

use std::net::{SocketAddr, TcpListener};

use support::{Data, Ftp, Reply, TestServer};

/// The storage of a server of a test.
fn storage(root: &std::path::Path) -> std::sync::Arc<dyn gridftp_dsi::DynDsi> {
    std::sync::Arc::new(gridftp_dsi_posix::Posix::open(root).unwrap())
}

/// Sends the commands of a table, compares the reply codes, and reports all differences.
///
/// A row is a code and the commands that must get it, separated by two blanks. `#` starts a remark.
#[track_caller]
fn table(ftp: &mut Ftp, rows: &str) {
    let mut wrong = Vec::new();
    for row in rows
        .lines()
        .map(str::trim)
        .filter(|row| !row.is_empty() && !row.starts_with('#'))
    {
        let (code, lines) = row.split_once("  ").unwrap();
        let code: u16 = code.parse().unwrap();
        for line in lines.split("  ") {
            let reply = ftp.cmd(line);
            if reply.code != code {
                wrong.push(format!("{line}: {reply:?}, not {code}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Opens a session and logs in, without any further command.
fn fresh(server: &TestServer) -> Ftp {
    let mut ftp = server.connect();
    ftp.login("anonymous", "test@");
    ftp
}

/// Runs RETR in MODE S over the server's data port.
#[track_caller]
fn retrieve_from(ftp: &mut Ftp, at: SocketAddr, path: &str) -> Vec<u8> {
    let data = Data::connect(at);
    ftp.ok(&format!("RETR {path}"), 150);
    let bytes = data.read();
    assert_eq!(ftp.reply().code, 226);
    bytes
}

/// Runs RETR in MODE S with a listener set by PORT; returns the data and its source address.
#[track_caller]
fn retrieve_to(ftp: &mut Ftp, listener: &TcpListener, path: &str) -> (Vec<u8>, SocketAddr) {
    ftp.send(&format!("RETR {path}"));
    let data = Data::accept(listener);
    let from = data.0.peer_addr().unwrap();
    let bytes = data.read();
    assert_eq!((ftp.reply().code, ftp.reply().code), (150, 226));
    (bytes, from)
}

/// Returns the lines between the first and the last, each without its leading blank.
#[track_caller]
fn inner(reply: &Reply) -> Vec<String> {
    let lines = &reply.lines[1..reply.lines.len() - 1];
    let unindented = |line: &String| {
        let text = line.strip_prefix(' ').filter(|text| !text.is_empty());
        text.unwrap_or_else(|| panic!("{line:?}")).to_owned()
    };
    lines.iter().map(unindented).collect()
}

/// Returns the sorted lines of a listing, each of which must end in CRLF.
#[track_caller]
fn lines(bytes: Vec<u8>) -> Vec<String> {
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.is_empty() || text.ends_with("\r\n"), "{text:?}");
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
    let mut lines: Vec<String> = text.split_terminator("\r\n").map(str::to_owned).collect();
    lines.sort();
    lines
}
