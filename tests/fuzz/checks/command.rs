//! Commands: what is understood means the same when written again, and fits on one line.

use ftp_wire::command::Command;
use ftp_wire::line::LineSplitter;

/// One command line.
pub(crate) fn check(data: &[u8]) {
    let command = match Command::parse(data) {
        Ok(command) => command,
        Err(bad) => {
            assert!(bad.at() <= data.len());
            assert!(bad.code().is_failure());
            assert!(!bad.to_string().contains(char::is_control));
            return;
        }
    };
    assert!(!command.to_string().contains(char::is_control));
    let mut wire = Vec::new();
    command.write_to(&mut wire);
    let mut lines = LineSplitter::with_limit(wire.len());
    lines.push(&wire);
    let line = lines.next_line().and_then(Result::ok);
    let again = Command::parse(line.unwrap_or_default()).expect("it was a command before");
    // A name that begins with a blank is written behind `./`, and only once.
    let mut second = Vec::new();
    again.write_to(&mut second);
    assert_eq!(second, wire);
    assert_eq!(lines.next_line(), None);
}
