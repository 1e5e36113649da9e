//! Progress: events a caller may show, and totals it may read at any time.

mod hashing;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ftp_proto::security::Level;

use crate::error::TransferError;
use crate::explain::{Cause, Explanation, LOOK, Samples, Tuned};
use crate::running::{RunningFile, RunningFiles, Unfinished};

pub(crate) use hashing::{Hashing, HashingHere};

/// The reason of [`Event::Skipped`] for a file that was not tried, since another one failed.
pub const UNTRIED: &str = "another file failed, and --fail-fast is set";

/// Something that happened during a copy.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A server was reached and let us in.
    Connected {
        /// `host:port`.
        site: &'a str,
        /// Round-trip time of the connection.
        round_trip: Duration,
        /// Protection of the control connection; `None` for clear text.
        control: Option<&'a str>,
        /// Protection of data connections.
        data: Level,
        /// The identity of both ends of data connections: `self`, `session`, `none` or a subject;
        /// `None` without Grid security.
        data_peer: Option<&'a str>,
    },
    /// Something a curious user wants to know: a fallback, a pause.
    Note(&'a str),
    /// Something a user should mend, although it works.
    Warning(&'a str),
    /// New data connections have another stack than those before.
    Stack {
        /// Its drivers, bottom first.
        stack: &'a str,
    },
    /// A directory below a source is copied; its contents follow.
    Directory {
        /// Where from.
        source: &'a str,
        /// The destination.
        destination: &'a str,
    },
    /// A file is copied, from now on.
    Started {
        /// Where from.
        source: &'a str,
        /// The destination.
        destination: &'a str,
        /// Its size in bytes, when known.
        size: Option<u64>,
    },
    /// A file goes on with the bytes that an earlier run stored.
    Continuing {
        /// Where from.
        source: &'a str,
        /// The destination.
        destination: &'a str,
        /// Number of stored bytes.
        held: u64,
        /// Size of the file, in bytes.
        size: u64,
    },
    /// Bytes of a file that failed are kept for the next run.
    Kept {
        /// Where from.
        source: &'a str,
        /// The destination.
        destination: &'a str,
        /// Number of stored bytes.
        held: u64,
        /// Size of the file, in bytes.
        size: u64,
    },
    /// A part of an upload that failed for good, or that a stop of the copy breaks off, may be at the
    /// destination under its own name.
    Incomplete {
        /// Where from.
        source: &'a str,
        /// The destination.
        destination: &'a str,
        /// Bytes that were sent of it.
        sent: u64,
        /// Its size in bytes, when known.
        size: Option<u64>,
    },
    /// A file was copied, and checked as far as was asked.
    Finished {
        /// Where from.
        source: &'a str,
        /// The destination.
        destination: &'a str,
        /// Bytes of the file, or of the part of it.
        bytes: u64,
        /// Bytes that each stripe moved, as the server tells; empty unless there were several.
        stripes: &'a [u64],
        /// Time since its start.
        took: Duration,
        /// Attempts that failed before.
        retries: u32,
        /// The proof of the copy.
        verification: Verification,
        /// Algorithm and digest on which both ends agree, where digests were compared.
        verified: Option<(&'a str, &'a str)>,
        /// Whether its bytes went from server to server through this machine.
        relayed: bool,
    },
    /// A file would be copied, were this not a dry run.
    Planned {
        /// Where from.
        source: &'a str,
        /// The destination.
        destination: &'a str,
        /// Its size in bytes, when known.
        size: Option<u64>,
    },
    /// A directory would be made, were this not a dry run.
    PlannedDir {
        /// Its place.
        path: &'a str,
    },
    /// An object of the destination would move to the directory for those that are replaced or
    /// removed, were this not a dry run.
    PlannedMove {
        /// Its place.
        source: &'a str,
        /// Its place behind the move.
        destination: &'a str,
    },
    /// A name of the destination that no source has was removed.
    Removed {
        /// Its place.
        path: &'a str,
    },
    /// A name of the destination would be removed, were this not a dry run.
    PlannedRemoval {
        /// Its place.
        path: &'a str,
    },
    /// A symbolic link was made at the destination.
    Linked {
        /// Where from.
        source: &'a str,
        /// The destination.
        destination: &'a str,
        /// The text of the link.
        target: &'a str,
    },
    /// A symbolic link would be made, were this not a dry run.
    PlannedLink {
        /// Where from.
        source: &'a str,
        /// The destination.
        destination: &'a str,
        /// The text of the link.
        target: &'a str,
    },
    /// A file was left out on purpose.
    Skipped {
        /// Where from.
        source: &'a str,
        /// The destination; `None` where a choice left it out before it had one.
        destination: Option<&'a str>,
        /// Why.
        why: &'a str,
    },
    /// A file will be tried again.
    Retrying {
        /// Where from.
        source: &'a str,
        /// The failure.
        error: &'a TransferError,
        /// Which retry this is, from 1.
        attempt: u32,
    },
    /// A server, or the connection to it, is gone, and is tried again: told at once, and twice a minute
    /// until it is back.
    Gone {
        /// The failure.
        error: &'a TransferError,
        /// For how long it is still tried.
        within: Duration,
    },
    /// A file was not copied.
    Failed {
        /// Where from.
        source: &'a str,
        /// The destination; `None` where it failed before it was work, or is neither a file nor a link.
        destination: Option<&'a str>,
        /// Its name below the destination; empty where the failure is of no one name.
        name: &'a [u8],
        /// The failure.
        error: &'a TransferError,
    },
    /// A line of a control conversation, secrets masked.
    Control {
        /// `host:port`.
        site: &'a str,
        /// Whether we sent it.
        sent: bool,
        /// The line.
        line: &'a str,
    },
}

/// Takes events; called from many tasks, so it must be quick.
pub trait Observer: Send + Sync + 'static {
    /// Takes one event.
    fn event(&self, event: &Event<'_>);

    /// Says whether [`Event::Control`] is wanted; it costs time.
    fn wants_control(&self) -> bool {
        false
    }
}

/// Ignores every event.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Silent;

impl Observer for Silent {
    fn event(&self, _: &Event<'_>) {}
}

/// Counts of a copy, raised as it goes on.
#[derive(Debug, Default)]
pub struct Totals {
    found: AtomicU64,
    bytes_found: AtomicU64,
    listed: AtomicU64,
    done: AtomicU64,
    skipped: AtomicU64,
    planned: AtomicU64,
    same: AtomicU64,
    deleted: AtomicU64,
    linked: AtomicU64,
    failed: AtomicU64,
    bytes: Arc<AtomicU64>,
    held: AtomicU64,
    /// Of the ended files, the bytes that were found, and those that moved or were held.
    ended: [AtomicU64; 2],
    hashed: AtomicU64,
    hashing: AtomicU64,
    /// Progress markers of servers that hash, since they were last taken.
    hash_markers: AtomicU64,
    /// Files that this end hashes now, before their data.
    hashing_here: AtomicU64,
    pub(crate) running: RunningFiles,
    pub(crate) samples: Samples,
    pub(crate) tuned: Mutex<Option<Tuned>>,
}

/// The proof of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verification {
    /// Both ends have the same digest of all its bytes.
    Digest,
    /// Both ends have the same number of bytes.
    Size,
    /// None: no end could tell of the other's file.
    None,
}

impl Verification {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Digest => "digest",
            Self::Size => "size",
            Self::None => "none",
        }
    }
}

/// The counts at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Files found so far.
    pub files_found: u64,
    /// Bytes in them, as far as their sizes are known.
    pub bytes_found: u64,
    /// Whether all files have been found.
    pub complete: bool,
    /// Files copied.
    pub files_done: u64,
    /// Files left out on purpose.
    pub files_skipped: u64,
    /// Files and links that would be copied, were this not a dry run.
    pub files_planned: u64,
    /// Files that were at their destination already, and are the same.
    pub files_same: u64,
    /// Names that were removed at the destination, since no source has them.
    pub deleted: u64,
    /// Symbolic links that were made; those left out, the same and failed count as files.
    pub links: u64,
    /// Files that failed for good.
    pub files_failed: u64,
    /// Bytes moved, those of failed attempts included.
    pub bytes_moved: u64,
    /// Bytes that earlier runs stored, which are not moved again.
    pub bytes_held: u64,
    /// Total bytes of the files that servers hash now with progress markers.
    pub bytes_hashing: u64,
    /// Bytes of those files that are hashed.
    pub bytes_hashed: u64,
    /// Where most of the time went, as [`Totals::explanation`] tells.
    pub mostly: Option<Cause>,
}

impl Totals {
    /// Reads all counts.
    pub fn counts(&self) -> Counts {
        Counts {
            files_found: self.found.load(Ordering::Relaxed),
            bytes_found: self.bytes_found.load(Ordering::Relaxed),
            complete: self.listed.load(Ordering::Relaxed) > 0,
            files_done: self.done.load(Ordering::Relaxed),
            files_skipped: self.skipped.load(Ordering::Relaxed),
            files_planned: self.planned.load(Ordering::Relaxed),
            files_same: self.same.load(Ordering::Relaxed),
            deleted: self.deleted.load(Ordering::Relaxed),
            links: self.linked.load(Ordering::Relaxed),
            files_failed: self.failed.load(Ordering::Relaxed),
            bytes_moved: self.bytes.load(Ordering::Relaxed),
            bytes_held: self.held.load(Ordering::Relaxed),
            bytes_hashing: self.hashing.load(Ordering::Relaxed),
            bytes_hashed: self.hashed.load(Ordering::Relaxed),
            mostly: self.explanation().and_then(|so_far| so_far.first()),
        }
    }

    /// Where the time went so far, with [`CopyOptions::explain`](crate::CopyOptions::explain); `None`
    /// of the first second, and without a transfer of this end.
    pub fn explanation(&self) -> Option<Explanation> {
        self.samples.explanation()
    }

    /// The files of which bytes move now, the oldest first, at most 1024. Between two servers that
    /// send no progress markers, no bytes of a file are known before its end.
    pub fn running(&self) -> Vec<Arc<RunningFile>> {
        self.running.moving()
    }

    /// The files that were under way when the copy broke off: its future was dropped, or it ended with
    /// an error.
    pub fn unfinished(&self) -> Unfinished {
        self.running.unfinished()
    }

    /// Samples the transfers until it is dropped.
    pub(crate) async fn sample(&self) {
        let mut tick = tokio::time::interval(LOOK);
        loop {
            tick.tick().await;
            let bytes = self.bytes.load(Ordering::Relaxed);
            let hashes = self.hashing.load(Ordering::Relaxed) > 0;
            self.samples.take(bytes, hashes);
        }
    }

    /// Counts in a file that this end hashes.
    pub(crate) fn hash_here(&self) -> HashingHere<'_> {
        self.hashing_here.fetch_add(1, Ordering::Relaxed);
        HashingHere(self)
    }

    /// Says whether this end hashes now, or a server has told since the last call that it goes on
    /// with that.
    pub(crate) fn take_hashing(&self) -> bool {
        let is_told = self.hash_markers.swap(0, Ordering::Relaxed) > 0;
        is_told || self.hashing_here.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn found(&self, size: Option<u64>) {
        self.found.fetch_add(1, Ordering::Relaxed);
        self.bytes_found
            .fetch_add(size.unwrap_or(0), Ordering::Relaxed);
    }

    pub(crate) fn all_found(&self) {
        self.listed.store(1, Ordering::Relaxed);
    }

    pub(crate) fn done(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn skipped(&self) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn planned(&self) {
        self.planned.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn same(&self) {
        self.same.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn deleted(&self) {
        self.deleted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn linked(&self) {
        self.linked.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn held(&self, bytes: u64) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes the end of a file, with its bytes among the found ones, and among those that moved or
    /// were held.
    pub(crate) fn ended(&self, found: u64, counted: u64) {
        for (total, bytes) in self.ended.iter().zip([found, counted]) {
            total.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Bytes that are left of the files found so far: the sizes of the files that have not ended, less
    /// their bytes that were held or have moved.
    pub(crate) fn left(&self) -> u64 {
        let [ended, counted] = &self.ended;
        let [found, ended, held, moved, counted] =
            [&self.bytes_found, ended, &self.held, &*self.bytes, counted]
                .map(|total| total.load(Ordering::Relaxed));
        let under_way = held.saturating_add(moved).saturating_sub(counted);
        found.saturating_sub(ended).saturating_sub(under_way)
    }

    pub(crate) fn moved(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
