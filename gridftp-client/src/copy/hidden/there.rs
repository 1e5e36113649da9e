//! The object under the name that an upload is to take.

use ftp_proto::client::FailureKind;
use ftp_wire::facts::{EntryKind, Fact};
use ftp_wire::path::FtpPath;

use crate::client::parse_mlst;
use crate::control::Replies;
use crate::error::ControlError;
use crate::names;

/// The question for the object under a name.
pub(super) enum There {
    /// Nothing but a file of this copy.
    Nothing,
    Facts(Replies),
    /// As `LIST` shows it.
    Line(Replies),
}

/// The object under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Old {
    Nothing,
    File,
    /// The server has no command to tell.
    Unknown,
    /// Something that a rename must not replace, or of a kind that the server does not tell.
    Other,
}

impl There {
    /// The object under the name `to`.
    pub(super) async fn old(self, to: &FtpPath) -> Result<Old, ControlError> {
        let (mut replies, is_facts) = match self {
            Self::Nothing => return Ok(Old::Nothing),
            Self::Facts(replies) => (replies, true),
            Self::Line(replies) => (replies, false),
        };
        match replies.finish().await {
            Ok(told) if is_facts => Ok(match parse_mlst(&told) {
                Some((entry, known))
                    if entry.kind == EntryKind::File && !known.contains(Fact::UnixSlink) =>
                {
                    Old::File
                }
                _ => Old::Other,
            }),
            Ok(told) => Ok(by_lines(told.inner(), names::last(to.as_bytes()))),
            Err(error) if error.kind() == Some(FailureKind::Unsupported) => Ok(Old::Unknown),
            Err(ControlError::Refused { .. }) => Ok(Old::Nothing),
            Err(error) => Err(error),
        }
    }
}

/// Reads the lines of `STAT` for a name. Of a directory, also of one behind a symbolic link, they
/// are the entries.
pub(super) fn by_lines(lines: &[Vec<u8>], name: &[u8]) -> Old {
    let mut lines = lines
        .iter()
        .map(|line| line.trim_ascii_start())
        .filter(|line| !line.is_empty());
    // Blanks at the end may be those of the name.
    let is_named = |line: &[u8]| line.ends_with(name) || line.trim_ascii_end().ends_with(name);
    match (lines.next(), lines.next()) {
        (None, _) => Old::Nothing,
        (Some(line), None) if is_file(line) && is_named(line) => Old::File,
        _ => Old::Other,
    }
}

/// Whether a line of a listing is that of a regular file.
fn is_file(line: &[u8]) -> bool {
    let access = line.get(1..10).unwrap_or_default();
    line.starts_with(b"-")
        && access.len() == 9
        && access.iter().all(|bit| b"rwxsStT-".contains(bit))
}
