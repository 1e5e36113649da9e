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
    // Other control bytes pass the parser, which leaves them to the splitter.
    if let Some(Ok(line)) = lines.next_line() {
        assert_eq!(Command::parse(line).as_ref(), Ok(&command));
        assert_eq!(lines.next_line(), None);
    }
}
