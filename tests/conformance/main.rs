//! Asks the server, over real sockets, for what the specifications demand of it, section by section.
//!
//! Each test cites what it asks for. Where the server answers otherwise the test says so and why; where the paper and the
//! servers of the Grid Community Toolkit differ, what these send is right, for their clients are whom we serve.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::print_stderr,
    reason = "a test's helpers fail like the test itself, and a skipped test says so"
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

/// Sends what a table says and compares the codes of the answers; tells of all that differ.
///
/// A row is a code and then lines that are to be answered with it, each behind two blanks. `#` begins a remark.
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

/// A session that said nothing but its name.
fn fresh(server: &TestServer) -> Ftp {
    let mut ftp = server.connect();
    ftp.login("anonymous", "test@");
    ftp
}

/// Runs RETR in MODE S over a data port that was told already.
#[track_caller]
fn retrieve_from(ftp: &mut Ftp, at: SocketAddr, path: &str) -> Vec<u8> {
    let data = Data::connect(at);
    ftp.ok(&format!("RETR {path}"), 150);
    let bytes = data.read();
    assert_eq!(ftp.reply().code, 226);
    bytes
}

/// Runs RETR in MODE S towards a listener that the server was told of; gives where the data came from as well.
#[track_caller]
fn retrieve_to(ftp: &mut Ftp, listener: &TcpListener, path: &str) -> (Vec<u8>, SocketAddr) {
    ftp.send(&format!("RETR {path}"));
    let data = Data::accept(listener);
    let from = data.0.peer_addr().unwrap();
    let bytes = data.read();
    assert_eq!((ftp.reply().code, ftp.reply().code), (150, 226));
    (bytes, from)
}

/// What stands between the first and the last line, each line's one blank taken off.
#[track_caller]
fn inner(reply: &Reply) -> Vec<String> {
    let lines = &reply.lines[1..reply.lines.len() - 1];
    let unindented = |line: &String| {
        let text = line.strip_prefix(' ').filter(|text| !text.is_empty());
        text.unwrap_or_else(|| panic!("{line:?}")).to_owned()
    };
    lines.iter().map(unindented).collect()
}

/// Lines of a listing, each of which must end in CRLF.
#[track_caller]
fn lines(bytes: Vec<u8>) -> Vec<String> {
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.is_empty() || text.ends_with("\r\n"), "{text:?}");
    assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
    let mut lines: Vec<String> = text.split_terminator("\r\n").map(str::to_owned).collect();
    lines.sort();
    lines
}
