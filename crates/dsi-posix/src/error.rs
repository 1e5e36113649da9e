//! Maps errors of the kernel to kinds an operator recognises.

use std::fmt;
use std::io;

use gridftp_dsi::{Error, ErrorKind};
use rustix::io::Errno;

/// The kind of `error`.
pub fn kind_of(error: &io::Error) -> ErrorKind {
    let Some(errno) = Errno::from_io_error(error) else {
        return match error.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::PermissionDenied => ErrorKind::Denied,
            io::ErrorKind::AlreadyExists => ErrorKind::Exists,
            io::ErrorKind::Unsupported => ErrorKind::Unsupported,
            _ => ErrorKind::Io,
        };
    };
    match errno {
        Errno::NOENT => ErrorKind::NotFound,
        Errno::ACCESS | Errno::PERM => ErrorKind::Denied,
        // `openat2` returns these for a path that would leave the tree, and for magic links.
        Errno::XDEV | Errno::LOOP => ErrorKind::Outside,
        Errno::EXIST => ErrorKind::Exists,
        Errno::NOTDIR => ErrorKind::NotDirectory,
        Errno::ISDIR => ErrorKind::IsDirectory,
        Errno::NOTEMPTY => ErrorKind::NotEmpty,
        Errno::NXIO | Errno::NODEV | Errno::SPIPE => ErrorKind::NotRegular,
        Errno::NOSPC => ErrorKind::NoSpace,
        Errno::DQUOT => ErrorKind::Quota,
        Errno::FBIG | Errno::OVERFLOW => ErrorKind::TooLarge,
        Errno::NAMETOOLONG | Errno::ILSEQ => ErrorKind::BadName,
        Errno::ROFS => ErrorKind::ReadOnly,
        Errno::BUSY | Errno::TXTBSY | Errno::AGAIN => ErrorKind::Busy,
        Errno::STALE => ErrorKind::Changed,
        Errno::OPNOTSUPP | Errno::NOSYS => ErrorKind::Unsupported,
        _ => ErrorKind::Io,
    }
}

/// The storage error for `error` in the operation `op`.
pub fn from_io(op: &'static str, error: io::Error) -> Error {
    Error::new(kind_of(&error), op).because(error)
}

/// An error without its operation and path.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The kernel refused.
    Os(Errno),
    /// A rule of this crate refused, for this reason.
    Rule(ErrorKind, &'static str),
}

impl Fault {
    /// Adds the operation and the path.
    pub(crate) fn of(self, op: &'static str, path: impl fmt::Display) -> Error {
        match self {
            Self::Os(errno) => from_io(op, errno.into()).at(path),
            Self::Rule(kind, why) => Error::new(kind, op).at(path).because(why),
        }
    }
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        Self::Os(errno)
    }
}

/// The result of the blocking functions of this crate.
pub(crate) type Outcome<T> = Result<T, Fault>;

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn kinds_follow_the_cause() {
        let kind = |errno: Errno| kind_of(&errno.into());
        assert_eq!(kind(Errno::NOSPC), ErrorKind::NoSpace);
        assert_eq!(kind(Errno::DQUOT), ErrorKind::Quota);
        assert_eq!(kind(Errno::XDEV), ErrorKind::Outside);
        assert_eq!(kind(Errno::IO), ErrorKind::Io);
        assert_eq!(kind_of(&io::Error::other("x")), ErrorKind::Io);
        let error = Fault::Os(Errno::NOENT).of("open", "/a");
        assert_eq!(
            error.to_string(),
            "storage: open /a: no such file or directory"
        );
        assert!(error.source().unwrap().to_string().contains("os error 2"));
    }
}
