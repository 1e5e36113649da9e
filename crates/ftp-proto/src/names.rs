//! `Names`: the work on names and metadata that a session has its caller do.

use std::time::Duration;

use ftp_wire::attribute::Attribute;
use ftp_wire::facts::TimeVal;
use ftp_wire::path::FtpPath;

use crate::types::ListForm;
#[cfg(doc)]
use crate::types::{Event, Outcome};

/// Work on names and metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Names {
    /// One object's facts. Answered by [`Outcome::Stat`].
    Stat(FtpPath),
    /// Lines of a listing for the control channel (`STAT path`, `MLSC`). Answered by
    /// [`Outcome::Lines`].
    Lines(FtpPath, ListForm),
    /// Make a directory. [`Outcome::Done`], as all below unless stated otherwise.
    MakeDir(FtpPath),
    /// Remove an empty directory.
    RemoveDir(FtpPath),
    /// Remove a file.
    Delete(FtpPath),
    /// Remove a tree without following links.
    RemoveTree(FtpPath),
    /// Rename, replacing an existing target.
    Rename(FtpPath, FtpPath),
    /// Set permission bits.
    SetMode(FtpPath, u32),
    /// Set the group by name or number.
    SetGroup(FtpPath, String),
    /// Set the modification time.
    SetModified(FtpPath, TimeVal),
    /// Make a symbolic link: target text, then the link.
    Symlink(FtpPath, FtpPath),
    /// The free space where an object is. Answered by [`Outcome::Free`].
    Free(FtpPath),
    /// Retrieve a file from an archive, and wait so long for it. Answered by [`Outcome::Staged`].
    Stage(FtpPath, Duration),
    /// The ranges kept of a broken upload, or the partial files of a directory. Answered by
    /// [`Outcome::Held`] or [`Outcome::Partials`].
    Held(FtpPath),
    /// Remove the partial file of a broken upload.
    DropHeld(FtpPath),
    /// The extended attributes of a file or a directory. Answered by [`Outcome::Attributes`].
    Attributes(FtpPath),
    /// Set an extended attribute of a file.
    SetAttribute(FtpPath, Attribute),
    /// Cut a file to a length that is not above its present one.
    Truncate(FtpPath, u64),
    /// Hash a region. Answered by [`Outcome::Checksum`]; [`Event::Hashed`] on the way.
    Checksum {
        /// The file.
        path: FtpPath,
        /// One of the backend's names, upper case.
        algorithm: String,
        /// First byte.
        offset: u64,
        /// Number of bytes; `None` to the end.
        length: Option<u64>,
        /// Interval of progress reports; `None` for none.
        markers: Option<Duration>,
    },
}

impl Names {
    /// Says whether it changes nothing: an account without write access may have it done.
    pub const fn is_read(&self) -> bool {
        match self {
            Self::Stat(_)
            | Self::Lines(..)
            | Self::Checksum { .. }
            | Self::Stage(..)
            | Self::Free(_)
            | Self::Attributes(_) => true,
            Self::MakeDir(_)
            | Self::RemoveDir(_)
            | Self::Delete(_)
            | Self::RemoveTree(_)
            | Self::Rename(..)
            | Self::SetMode(..)
            | Self::SetGroup(..)
            | Self::SetModified(..)
            | Self::Symlink(..)
            | Self::Held(_)
            | Self::DropHeld(_)
            | Self::SetAttribute(..)
            | Self::Truncate(..) => false,
        }
    }
}
