//! `FailureKind`: the meaning of a refusal, across the replies of different servers.

use ftp_wire::reply::{Code, Reply};

/// The kind of a failure at the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// No such file or directory.
    NotFound,
    /// The user may not do this.
    Denied,
    /// A directory was needed.
    NotADirectory,
    /// A file was needed.
    IsADirectory,
    /// The name exists already.
    Exists,
    /// The disk is full, or the user's share of it.
    NoSpace,
    /// The stored file does not have the announced digest.
    ChecksumMismatch,
    /// The data connection failed or was never made.
    DataChannel,
    /// The login was refused or is missing.
    Login,
    /// The server does not implement this command or these arguments.
    Unsupported,
    /// The command is out of sequence.
    Sequence,
    /// The transfer was aborted.
    Aborted,
    /// The server cannot now, and may later.
    Busy,
    /// Anything else.
    Failed,
}

impl FailureKind {
    /// Says whether the same command may work later, unchanged.
    pub const fn is_transient(self) -> bool {
        matches!(self, Self::DataChannel | Self::Aborted | Self::Busy)
    }

    /// Reads a reply that refuses.
    ///
    /// GCT's error class counts most, then the words, then the code: GCT answers 500 where opening
    /// a missing file fails, and 550 where looking it up fails.
    pub fn of(reply: &Reply) -> Self {
        if let Some(kind) = reply
            .error_class()
            .and_then(|class| Self::from_class(&class))
        {
            return kind;
        }
        let text = reply.text().to_ascii_lowercase();
        if let Some((_, kind)) = WORDS.iter().find(|(words, _)| text.contains(words)) {
            return *kind;
        }
        Self::from_code(reply.code())
    }

    fn from_class(class: &str) -> Option<Self> {
        Some(match class {
            "PATH_NOT_FOUND" => Self::NotFound,
            "PERMISSION_DENIED" => Self::Denied,
            "NOT_A_DIRECTORY" => Self::NotADirectory,
            "IS_A_DIRECTORY" => Self::IsADirectory,
            "PATH_EXISTS" => Self::Exists,
            "NO_SPACE_LEFT" | "QUOTA_EXCEEDED" => Self::NoSpace,
            "INCORRECT_CHECKSUM" => Self::ChecksumMismatch,
            "DATA_CHANNEL_COMMUNICATION_FAILURE" => Self::DataChannel,
            // `INTERNAL_ERROR` is unspecific; the words and the code may tell more.
            _ => return None,
        })
    }

    const fn from_code(code: Code) -> Self {
        match code.number() {
            425 => Self::DataChannel,
            426 => Self::Aborted,
            452 | 552 => Self::NoSpace,
            530 | 331..=332 => Self::Login,
            500..=502 | 504 | 522 | 534 | 536 => Self::Unsupported,
            503 => Self::Sequence,
            553 => Self::Denied,
            number if number / 100 == 4 => Self::Busy,
            _ => Self::Failed,
        }
    }
}

/// Words of the servers' texts, most telling first.
const WORDS: &[(&str, FailureKind)] = &[
    ("no such file", FailureKind::NotFound),
    ("not found", FailureKind::NotFound),
    ("does not exist", FailureKind::NotFound),
    ("permission denied", FailureKind::Denied),
    ("path not allowed", FailureKind::Denied),
    ("read-only", FailureKind::Denied),
    ("not a directory", FailureKind::NotADirectory),
    ("is a directory", FailureKind::IsADirectory),
    ("file exists", FailureKind::Exists),
    ("already exists", FailureKind::Exists),
    ("no space left", FailureKind::NoSpace),
    ("quota exceeded", FailureKind::NoSpace),
    ("unable to connect", FailureKind::DataChannel),
    ("connection refused", FailureKind::DataChannel),
    ("connection reset", FailureKind::DataChannel),
    ("end-of-file was reached", FailureKind::DataChannel),
    ("an end of file occurred", FailureKind::DataChannel),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn coded<const CODE: u16>(lines: &[&str]) -> Reply {
        Reply::coded(Code::of::<CODE>(), lines.iter().copied())
    }

    #[test]
    fn the_class_counts_before_words_and_code() {
        let reply = coded::<550>(&[
            "GlobusError: v=1 c=PATH_NOT_FOUND",
            "GridFTP-Errno: 2",
            "GridFTP-Error-String: No such file or directory",
            "End.",
        ]);
        assert_eq!(FailureKind::of(&reply), FailureKind::NotFound);
        let reply = coded::<550>(&[
            "GlobusError: v=1 c=INTERNAL_ERROR",
            "GridFTP-Error-String: Read-only file system",
            "End.",
        ]);
        assert_eq!(FailureKind::of(&reply), FailureKind::Denied);
    }

    #[test]
    fn a_500_of_globus_for_a_missing_file_is_not_an_unsupported_command() {
        let reply = coded::<500>(&[
            "Command failed. : globus_l_gfs_file_open failed.",
            "globus_xio: Unable to open file /x",
            "globus_xio: System error in open: No such file or directory",
            "End.",
        ]);
        assert_eq!(FailureKind::of(&reply), FailureKind::NotFound);
    }

    #[test]
    fn codes_decide_where_words_do_not() {
        for (code, kind) in [
            (425, FailureKind::DataChannel),
            (426, FailureKind::Aborted),
            (421, FailureKind::Busy),
            (451, FailureKind::Busy),
            (500, FailureKind::Unsupported),
            (503, FailureKind::Sequence),
            (530, FailureKind::Login),
            (550, FailureKind::Failed),
            (552, FailureKind::NoSpace),
        ] {
            let reply = Reply::new(Code::new(code).unwrap(), "?");
            assert_eq!(FailureKind::of(&reply), kind, "{code}");
        }
    }
}
