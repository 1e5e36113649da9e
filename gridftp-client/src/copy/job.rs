//! Jobs: one file or one directory to copy, with its facts and its received bytes.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::hash::RandomState;
use std::sync::Arc;
use std::time::Instant;

use byte_ranges::RangeSet;
use ftp_wire::facts::{Entry, FactSet, TimeVal};
use ftp_wire::path::FtpPath;
use gridftp_dsi::Source as _;
use gridftp_dsi::types::ChecksumAlgorithm;
use gridftp_dsi_posix::{FileSink, FileSource};

use super::kept::Digest;
use super::outlive::Noted;
use super::pull::Arrived;
use super::same::Unique;
use super::spool::SpoolReader;
use crate::error::ControlError;
use crate::local::Item as LocalItem;
use crate::ls::Form;
use crate::running::RunningFile;
use crate::stripes::StripeBytes;

/// Deepest nesting of directories that is followed.
const DEEPEST: usize = 512;

/// Pieces of a file that a restart may leave out.
const MOST_RANGES: usize = 65_536;

/// Longest text of the ranges of a `REST`, in bytes: our server ends the session at a line of more
/// than 8 KiB.
const LONGEST_REST: usize = 8000;

/// One piece of work.
#[derive(Debug)]
pub(crate) enum Item {
    /// A directory: to list at the source, and to make at the destination.
    Dir(Box<DirJob>),
    /// A file.
    File(Box<FileJob>),
}

/// A file to copy. Thousands wait at once, so fields that few files need are boxed.
#[derive(Debug, Default)]
pub(crate) struct FileJob {
    /// Path at the source.
    pub(crate) from: Vec<u8>,
    /// Path at the destination.
    pub(crate) to: Vec<u8>,
    /// Facts of the source.
    pub(crate) facts: Facts,
    /// Time of the last change to a source on this machine before it was opened.
    pub(crate) source_changed: Option<(i64, u32)>,
    /// The value of `If-Range` for that version of the source, on the web.
    pub(crate) validator: Option<String>,
    /// Failed attempts since the last that brought more than all before it.
    pub(crate) failures: u32,
    /// Failed attempts of this run.
    pub(crate) retries: u32,
    /// Time of the first failure.
    pub(crate) failed_first: Option<Instant>,
    /// Bytes that any attempt had brought over at its end.
    most: u64,
    /// Ranges that an earlier attempt brought over.
    pub(crate) held: RangeSet,
    /// Whether an earlier attempt may have begun to write the destination: the bytes there may be
    /// its work.
    pub(crate) begun: bool,
    /// Whether the last store was told to replace nothing.
    pub(crate) exclusive: bool,
    /// Whether a store may have given the destination the file, which those behind it replace.
    pub(crate) placed: bool,
    /// Whether the next attempt begins at the start: the destination refused to go on with its
    /// bytes, or those of an earlier download are others.
    pub(crate) anew: bool,
    /// The bytes on which both ends agree, of a copy that differed.
    pub(crate) agreement: Agreement,
    /// The hidden name of an upload until it is whole, once it has begun there.
    pub(crate) hidden: Option<FtpPath>,
    /// Whether the held bytes are those of an earlier run, so that a digest has to prove them.
    pub(crate) recalled: bool,
    /// The reading back of an upload's bytes at a server without digests.
    pub(crate) read_back: ReadBack,
    /// Versions of the source that uploads of this run have left under other hidden names.
    pub(crate) versions: u32,
    /// The note of an upload for a later run.
    pub(crate) note: Option<Box<Noted>>,
    /// Whether the destination keeps the bytes of an upload apart until it is whole.
    pub(crate) kept_apart: bool,
    /// Whether its bytes pass this machine between two servers.
    pub(crate) relayed: bool,
    /// Whether an upload is written under its own name at once.
    pub(crate) straight: bool,
    /// The file they are in, for a download.
    pub(crate) sink: Option<FileSink>,
    /// The state of a download of which all bytes are in that file, and the last words are missing.
    pub(crate) arrived: Option<Box<Arrived>>,
    /// Whether the object at its destination has been looked at, and is replaced.
    pub(crate) judged: bool,
    /// Whether a dry run has found a file or a link at its destination.
    pub(crate) replaces: bool,
    /// The words of both servers on the whole file, of a copy between them that is to be checked.
    pub(crate) words: Option<Words>,
    /// Whether the source is seen to have changed since they came.
    pub(crate) changed: bool,
    /// The bytes of each stripe.
    pub(crate) stripes: StripeBytes,
    /// Its entry among the running files, once bytes have moved.
    pub(crate) running: Option<Arc<RunningFile>>,
    /// Time of the first attempt.
    pub(crate) started: Option<Instant>,
    /// Whether it is moved by a command of its own, since one for many files has left it out.
    pub(crate) alone: bool,
    /// Whether an attempt ended without a failure, for a session with another stack.
    pub(crate) left: bool,
    /// Its bytes in the total of the found ones.
    pub(crate) found: u64,
    /// Its bytes in the totals of those that moved or were held.
    pub(crate) counted: u64,
}

/// The words of both servers on a file that is copied between them.
#[derive(Debug, Clone)]
pub(crate) struct Words {
    /// Algorithm to compare the copy with, beyond the options.
    pub(crate) after: Option<ChecksumAlgorithm>,
    /// Whether both have told its size already.
    pub(crate) sized: bool,
    /// The digest that both computed while the bytes passed.
    pub(crate) proven: Option<Digest>,
}

/// The bytes on which both ends agree, of a copy that differs from its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Agreement {
    /// There is no such copy.
    #[default]
    None,
    /// They are the held ones.
    Held,
    /// The server that received them may know.
    AtServer,
}

/// The state of reading the bytes of an upload back, for a server without digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ReadBack {
    /// It is not asked for.
    #[default]
    Unasked,
    /// It comes before the next attempt.
    Due,
    /// The held bytes are those that are equal; `ends` tells that the server has no others.
    Done { ends: bool },
    /// The server does not send them.
    Refused,
}

/// A directory to copy.
#[derive(Debug, Default)]
pub(crate) struct DirJob {
    /// Path at the source.
    pub(crate) from: Vec<u8>,
    /// Path at the destination.
    pub(crate) to: Vec<u8>,
    /// Path relative to the root of the copy.
    pub(crate) relative: Vec<u8>,
    /// Whether it is made only where a file of it is copied.
    pub(crate) hollow: bool,
    /// Facts of the source.
    pub(crate) facts: Facts,
    /// Failed attempts so far.
    pub(crate) failures: u32,
    /// Its entry in the server's listing.
    pub(crate) form: Form,
    /// Whether its entries are known, and it is only to be made.
    pub(crate) listed: bool,
    /// Hashes of the names that a listing which broke off has brought already.
    pub(crate) seen: HashSet<u64>,
    /// Hasher of the names.
    pub(crate) hasher: RandomState,
    /// The directories it is in, against loops of symbolic links.
    pub(crate) above: Option<Arc<Above>>,
    /// A directory that is written to, and so not entered.
    pub(crate) avoid: Option<Unique>,
    /// Wildcards that names in it have to match.
    pub(crate) pattern: Option<Vec<u8>>,
    /// Names of its listing that wait.
    pub(crate) rest: Option<SpoolReader>,
}

/// A directory and those it is in.
#[derive(Debug)]
pub(crate) struct Above {
    unique: Option<(u64, u64)>,
    above: Option<Arc<Self>>,
    depth: usize,
}

/// Facts of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Facts {
    /// Size in bytes.
    pub(crate) size: Option<u64>,
    /// Modification time: seconds since 1970 and nanoseconds.
    pub(crate) modified: Option<(i64, u32)>,
    /// Permission bits.
    pub(crate) mode: Option<u32>,
}

impl FileJob {
    pub(crate) fn new(from: Vec<u8>, to: Vec<u8>) -> Self {
        Self {
            from,
            to,
            ..Self::default()
        }
    }

    pub(crate) fn with_facts(mut self, facts: Facts) -> Self {
        self.facts = facts;
        self
    }

    /// Whether it has been tried before.
    pub(crate) fn is_again(&self) -> bool {
        self.failures > 0 || self.left
    }

    /// Notes that an attempt begins; the time of the first.
    pub(crate) fn start(&mut self, now: Instant) -> Instant {
        *self.started.get_or_insert(now)
    }

    /// Notes that no attempt is under way.
    pub(crate) fn pause(&self) {
        if let Some(running) = &self.running {
            running.pause();
        }
    }

    /// Notes whether a later run goes on with its bytes.
    pub(crate) fn note_kept(&self, is_kept: bool) {
        if let Some(running) = &self.running {
            running.note_kept(is_kept);
        }
    }

    /// Notes that its own name has the whole file, or nothing of the last attempt.
    pub(crate) fn leaves_no_part(&self) {
        if let Some(running) = &self.running {
            running.end_exposure();
        }
    }

    /// Notes the ranges that the server holds; pieces beyond a number are not noted, and are
    /// sent again.
    pub(crate) fn hold(&mut self, ranges: &RangeSet) {
        if self.held.len() < MOST_RANGES {
            self.held.extend(ranges);
            self.note_state();
        }
    }

    /// Holds no more ranges than one `REST` names, the longest ones: the others are moved again.
    pub(crate) fn hold_nameable(&mut self) {
        let mut ranges: Vec<_> = self.held.iter().collect();
        ranges.sort_unstable_by_key(|range| Reverse(range.len()));
        let mut room = LONGEST_REST;
        for range in ranges {
            let text = range.to_string().len() + 1;
            match room.checked_sub(text) {
                Some(rest) => room = rest,
                None => self.held.remove(range),
            }
        }
    }

    /// Whether the source, of which `now` is known, has become smaller since an attempt began to
    /// write: it may be the destination itself, and the rest of it is not the file.
    pub(crate) fn has_shrunk(&self, now: &Facts) -> bool {
        self.begun && now.size.is_some() && now.size < self.facts.size
    }

    /// Notes the error of a store: only the server's refusal says for sure that it has not given the
    /// destination the file.
    pub(crate) fn note_unplaced(&mut self, error: Option<&ControlError>) {
        if self.exclusive && matches!(error, Some(ControlError::Refused { .. })) {
            self.placed = false;
        }
    }

    /// Counts a failed attempt; one that brought more than any before it begins the count anew.
    pub(crate) fn note_failure(&mut self, now: Instant) {
        let held = self.held.total();
        if held > self.most || self.failed_first.is_none() {
            self.most = held;
            self.failures = 0;
            self.failed_first = Some(now);
        }
        self.failures += 1;
        self.retries += 1;
        self.stripes.begin();
    }

    /// Says whether some stripes have brought bytes since the failure before: then the rest is worth
    /// an attempt at once, without those that failed.
    pub(crate) fn resumes_at_once(&self) -> bool {
        self.failures == 1 && self.most > 0 && !self.stripes.told().is_empty()
    }

    /// Holds only the bytes on which both ends agree, of a copy that differs from its source in the
    /// ranges `differing`.
    pub(crate) fn agree(&mut self, differing: &RangeSet) {
        differing.iter().for_each(|range| self.held.remove(range));
        if !self.held.is_empty() {
            self.agreement = Agreement::Held;
        }
    }

    /// Forgets the bytes of a copy that differs, but for those on which both ends agree.
    pub(crate) fn forget_different(&mut self) {
        if std::mem::take(&mut self.agreement) != Agreement::Held {
            self.forget();
            self.agreement = Agreement::AtServer;
        }
    }

    /// Forgets the bytes of earlier attempts, of which nothing is kept.
    pub(crate) fn forget(&mut self) {
        self.held = RangeSet::new();
        self.arrived = None;
        self.agreement = Agreement::None;
        self.recalled = false;
        if self.read_back != ReadBack::Refused {
            self.read_back = ReadBack::Unasked;
        }
        self.note_kept(false);
        self.note_state();
        if let Some(sink) = self.sink.take() {
            // A large file takes a while to remove.
            sink.give_up();
            drop(tokio::task::spawn_blocking(|| drop(sink)));
        }
        self.changed = false;
    }
}

impl Item {
    /// Says whether the bytes of an upload are to be read back first.
    pub(crate) fn is_due(&self) -> bool {
        matches!(self, Self::File(job) if job.read_back == ReadBack::Due)
    }
}

impl DirJob {
    pub(crate) fn new(from: Vec<u8>, to: Vec<u8>) -> Self {
        Self {
            from,
            to,
            ..Self::default()
        }
    }

    /// Says whether it is made at the destination before anything in it is: a pattern need not match
    /// anything, and neither need a filter.
    pub(crate) fn is_made(&self) -> bool {
        self.pattern.is_none() && !self.hollow
    }

    /// The chain for the entries of this directory, which is `unique`; `None` when the directory is
    /// one of those it is in, or nested too deeply to be a real tree.
    pub(crate) fn descend(&self, unique: Option<(u64, u64)>) -> Option<Arc<Above>> {
        let depth = self.above.as_ref().map_or(0, |above| above.depth + 1);
        if depth > DEEPEST {
            return None;
        }
        let mut next = self.above.as_deref();
        while let Some(above) = next {
            if unique.is_some() && above.unique == unique {
                return None;
            }
            next = above.above.as_deref();
        }
        Some(Arc::new(Above {
            unique,
            above: self.above.clone(),
            depth,
        }))
    }
}

impl Facts {
    /// The facts that a listing tells.
    pub(crate) fn of_entry(entry: &Entry, known: FactSet) -> Self {
        use ftp_wire::facts::Fact;
        Self {
            size: known.contains(Fact::Size).then_some(entry.size),
            modified: known
                .contains(Fact::Modify)
                .then_some((entry.modified.seconds, entry.modified.nanos)),
            // A server must not make us leave a program here that runs with our rights.
            mode: known.contains(Fact::UnixMode).then_some(entry.mode & 0o777),
        }
    }

    /// The facts that the local file system tells.
    pub(crate) fn of_local(item: &LocalItem) -> Self {
        Self {
            size: Some(item.size),
            modified: Some(item.modified),
            mode: Some(item.mode & 0o777),
        }
    }

    /// The facts of a file when it was opened.
    pub(crate) fn of_source(source: &FileSource) -> Self {
        Self {
            size: Some(source.size()),
            modified: Some(source.modified()),
            mode: Some(source.mode() & 0o777),
        }
    }

    /// The modification time as the protocol has it.
    pub(crate) fn time_val(&self) -> Option<TimeVal> {
        self.modified
            .map(|(seconds, nanos)| TimeVal::new(seconds, nanos))
    }
}

#[cfg(test)]
mod tests {
    use byte_ranges::Range64;

    use super::*;

    #[test]
    fn a_directory_within_itself_is_noticed() {
        let mut dir = DirJob::new(b"/a".to_vec(), Vec::new());
        for unique in [(1, 1), (1, 2)] {
            let above = dir.descend(Some(unique)).unwrap();
            dir = DirJob::new(b"/a/x".to_vec(), Vec::new());
            dir.above = Some(above);
        }
        assert!(dir.descend(Some((1, 1))).is_none());
        assert!(dir.descend(Some((2, 1))).is_some());
    }

    #[test]
    fn a_server_cannot_make_us_note_pieces_without_number() {
        let mut job = FileJob::new(b"/a".to_vec(), Vec::new());
        for n in 0..100 {
            let pieces = (n * 4096..(n + 1) * 4096).filter_map(|at| Range64::from_len(2 * at, 1));
            job.hold(&pieces.collect());
        }
        assert!(job.held.len() < MOST_RANGES + 4096);
    }

    /// Blocks of several connections leave holes between them.
    #[test]
    fn held_ranges_that_one_line_cannot_name_are_moved_again() {
        let range = |start, len| Range64::from_len(start, len).unwrap();
        let blocks = (1 << 20..)
            .step_by(512)
            .map(|at| range(at << 20, 256 << 10));
        let mut job = FileJob::new(b"/a".to_vec(), Vec::new());
        job.held = blocks.take(5000).collect();
        job.held.insert(range(0, 1 << 39));
        job.held.insert(range(u64::MAX - 1, 1));
        job.hold_nameable();
        let text = job.held.to_string();
        assert!(text.len() <= LONGEST_REST && text.len() > LONGEST_REST - 64);
        assert_eq!(job.held.first_hole(), 1 << 39);
        assert!(!job.held.contains(u64::MAX - 1));
        let before = job.held.clone();
        job.hold_nameable();
        assert_eq!(job.held, before);
    }

    #[test]
    fn servers_without_the_fact_are_stopped_by_depth() {
        let mut dir = DirJob::new(b"/a".to_vec(), Vec::new());
        let mut levels = 0;
        while let Some(above) = dir.descend(None) {
            dir = DirJob::new(b"/a".to_vec(), Vec::new());
            dir.above = Some(above);
            levels += 1;
            assert!(levels < 10_000);
        }
    }
}
