//! Commands round-trip and fit on one line.

use ftp_wire::command::Command;
use ftp_wire::line::LineSplitter;

/// `data` is one command line.
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
    let again = Command::parse(line.unwrap_or_default()).expect("a written command parses");
    // `./` is written once before a name that starts with a blank.
    let mut second = Vec::new();
    again.write_to(&mut second);
    assert_eq!(second, wire);
    assert_eq!(lines.next_line(), None);
}
