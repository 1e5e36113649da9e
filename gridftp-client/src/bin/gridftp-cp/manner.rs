//! `MannerFlags`: the part of the command line on files that are at their destination already.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use clap::{Args, ValueHint};
use gridftp_client::{Compare, Manner};

/// Treatment of files that are at their destination already.
#[derive(Debug, Args)]
pub(crate) struct MannerFlags {
    /// Leave files that have the same size and time at their destination as they are; copies get the
    /// times of their sources, so that the next run leaves them
    #[arg(long)]
    sync: bool,

    /// As --sync, by size and digest instead of time: both ends read each file of the same size
    #[arg(long)]
    checksum: bool,

    /// As --sync, and leave files that are newer at their destination
    #[arg(long)]
    update: bool,

    /// As --sync, and fail for files that differ at their destination, which stay as they are
    #[arg(long)]
    immutable: bool,

    /// Move files to DIR, of the destination's end, before they are replaced or removed, with the same name as
    /// below the destination; a relative DIR is below the destination itself, and on this machine DIR
    /// has to be on the file system of the destination
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    backup_dir: Option<OsString>,

    /// Remove at the destination all that its source directories do not have, once all is copied
    /// without a failure; names that the choice of files leaves out stay, and an empty source is an
    /// error
    #[arg(long, requires = "recursive")]
    delete: bool,

    /// Remove nothing where --delete would remove more than N names
    #[arg(long, value_name = "N", requires = "delete")]
    max_delete: Option<u64>,
}

impl MannerFlags {
    /// The manner.
    pub(crate) fn manner(&self) -> Manner {
        let mut manner = Manner::default();
        manner.compare = match (self.checksum, self.sync) {
            (true, _) => Some(Compare::Digest),
            (false, true) => Some(Compare::Time),
            (false, false) => None,
        };
        manner.update = self.update;
        manner.immutable = self.immutable;
        manner.delete = self.delete;
        manner.max_delete = self.max_delete;
        let dir = self.backup_dir.as_ref();
        manner.backup_dir = dir.map(|dir| dir.as_bytes().to_vec());
        manner
    }
}
