//! Commands and replies per second, without a socket.
#![forbid(unsafe_code)]
#![allow(
    clippy::print_stdout,
    reason = "a bench talks to the person who runs it"
)]

use ftp_wire::command::Command;
use ftp_wire::line::LineSplitter;
use ftp_wire::reply::{Code, Reply};
use workspace_benches::timing::nanoseconds;

const LINES: &[&str] = &[
    "TYPE I",
    "PASV",
    "OPTS RETR Parallelism=4,4,4;",
    "REST 0-1048576,2097152-3145728",
    "ERET P 1000 5000 /some/path with blanks",
    "STOR /a/rather/long/path/such/as/they/are/in/practice/file-000123.dat",
    "SITE CLIENTINFO scheme=ftp;appname=\"x\";appver=\"1\";",
];

fn main() {
    for line in LINES {
        let ns = nanoseconds(|| Command::parse(line.as_bytes()));
        println!("parse {line:<80} {ns:>8.0} ns");
    }
    let many = "STOR /folder/file\r\n".repeat(1000);
    let split = nanoseconds(|| {
        let mut splitter = LineSplitter::new();
        splitter.push(many.as_bytes());
        let mut count = 0;
        while let Some(line) = splitter.next_line() {
            count += usize::from(line.is_ok());
        }
        count
    });
    println!("split a line of 1,000 that wait: {:.0} ns", split / 1000.0);
    let reply = Reply::coded(
        Code::of::<550>(),
        ["GlobusError: v=1 c=PATH_NOT_FOUND", "End."],
    );
    let write = nanoseconds(|| {
        let mut out = Vec::with_capacity(256);
        reply.write_to(&mut out);
        out
    });
    println!("write a reply of two lines: {write:.0} ns");
}
