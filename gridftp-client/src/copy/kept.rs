//! The bytes that a server kept of a broken upload, and the proof that they are the source's.
//!
//! MODE E has markers, and in MODE S the server is asked, as ours is in both, which records more often
//! than it sends markers; but by now its bytes may be older, another client's, or hold holes. Two
//! kinds of servers can be believed:
//!
//! - One that keeps such bytes apart (`SITE HELD`, ours) publishes the file only if it has the
//!   digest of the source: the announced one (`SITE STORATTR`), or that of a tagged transfer by a
//!   sender that knows the values of those bytes.
//! - One that leaves them under the name that is written tells their digests (`CKSM`), which have to
//!   be those of the same ranges of the source: in MODE E of those that markers named, in MODE S of as
//!   many bytes as there are (`SIZE`). Once all is there, it tells the digest of all.
//!
//! Of one without digests, which has the bytes under the hidden name of an upload, the last are read
//! back (`read_back.rs`).

use std::cmp::Reverse;
use std::path::Path;
use std::time::Duration;

use byte_ranges::{Range64, RangeSet};
use ftp_proto::client::FailureKind;
use ftp_wire::command::{Command, Mode, Restart, SiteCommand, StorAttr};
use ftp_wire::marker::Marker;
use ftp_wire::path::FtpPath;
use ftp_wire::reply::{Code, Reply};
use gridftp_dsi::types::ChecksumAlgorithm;

use crate::abilities::Abilities;
use crate::control::{Control, Replies};
use crate::copy::job::{Agreement, FileJob, ReadBack};
use crate::copy::pull::resumable;
use crate::copy::queue::Taken;
use crate::copy::state::CopyState;
use crate::error::{ControlError, TransferError};
use crate::options::CopyOptions;
use crate::progress::Hashing;
use crate::verify;

/// Time between two signs of life to a server that waits while the other end hashes.
const AWAKE: Duration = Duration::from_secs(60);

/// Largest file, in bytes, of which the bytes behind the last marker are not worth a question.
const SMALL: u64 = 64 << 20;

/// Most ranges of an earlier run that a server hashes, each at a command: the longest. A fast upload
/// may leave hundreds of single blocks.
const MOST_HASHED: usize = 64;

/// Most attempts to go on with bytes of the server that are in use.
const BUSY: u32 = 4;

/// An algorithm and the digest it gave.
pub(crate) type Digest = (ChecksumAlgorithm, String);

/// Bytes that need not be sent again.
#[derive(Debug)]
pub(crate) struct Kept {
    /// Their ranges, counted from the start of the copied part.
    pub(crate) held: RangeSet,
    /// Digest that is to be announced, where it stands for those bytes.
    pub(crate) announce: Option<Digest>,
    /// Algorithm to compare the whole copy with afterwards, where nothing is announced.
    pub(crate) after: Option<ChecksumAlgorithm>,
    /// Whether the server has no bytes behind them, so that it may add to the end.
    pub(crate) ends: bool,
}

impl Kept {
    /// Takes bytes that the digest of the transfer proves; `None` for none.
    pub(crate) fn of_proven(held: &RangeSet) -> Option<Self> {
        (!held.is_empty()).then(|| Self {
            held: held.clone(),
            announce: None,
            after: None,
            ends: true,
        })
    }
}

/// The place of the source.
pub(crate) enum Original<'a> {
    /// A file of this machine.
    Here(&'a Path),
    /// A file of another server.
    There(&'a Control, &'a Abilities, &'a FtpPath),
}

/// The destination of an upload.
pub(crate) struct Copy<'a> {
    pub(crate) control: &'a Control,
    pub(crate) abilities: &'a Abilities,
    pub(crate) path: &'a FtpPath,
    /// Offset and length of the copied part.
    pub(crate) part: (u64, u64),
    /// Whether it is the whole file.
    pub(crate) whole: bool,
    /// Whether an earlier attempt began, of the same source, which the server did not refuse to go on
    /// with.
    pub(crate) goes_on: bool,
    /// Whether the held bytes are those of an earlier run.
    pub(crate) recalled: bool,
    /// The state of the run, with the servers that have no digests.
    pub(crate) shared: &'a CopyState,
}

impl Copy<'_> {
    /// The algorithm that proves a copy of `original`, if both ends know one.
    pub(crate) fn algorithm(&self, original: &Original<'_>) -> Option<ChecksumAlgorithm> {
        let mut proofs = verify::PROOFS
            .into_iter()
            .filter(|_| !self.shared.is_undigested(self.control));
        proofs.find(|proof| self.abilities.knows(*proof) && original.knows(*proof))
    }

    /// Takes the bytes of `original` that markers reported; `None` for none.
    pub(crate) async fn told(&self, held: &RangeSet, original: &Original<'_>) -> Option<Kept> {
        if held.is_empty() {
            return None;
        }
        let algorithm = self.algorithm(original);
        if self.recalled && !self.abilities.held {
            return self.proven(held, original).await;
        }
        let announce = match algorithm {
            Some(algorithm) if self.abilities.held && self.whole => {
                // A source that cannot be read for that gives nothing to go on with.
                let digest = awake(self.control, self.digest(original, algorithm, 0, None)).await?;
                Some((algorithm, digest))
            }
            _ => None,
        };
        if self.recalled && announce.is_none() {
            return None;
        }
        Some(Kept {
            held: held.clone(),
            after: algorithm.filter(|_| announce.is_none()),
            announce,
            ends: true,
        })
    }

    /// Takes the bytes that were read back, if they are still there: the server may have removed the
    /// file at the end of an older session, and a store that goes on would leave a hole.
    pub(crate) async fn compared(&self, job: &mut FileJob, mode: Mode, ends: bool) -> Option<Kept> {
        job.read_back = ReadBack::Unasked;
        let kept = self.still_there(&job.held, mode, ends).await;
        if kept.is_none() {
            // The store begins at the start, and leaves none of them.
            job.forget();
        }
        kept
    }

    async fn still_there(&self, held: &RangeSet, mode: Mode, ends: bool) -> Option<Kept> {
        let held = match mode {
            Mode::Extended => held.clone(),
            Mode::Stream => RangeSet::up_to(held.first_hole()),
        };
        let (kept, end) = (Kept::of_proven(&held)?, held.end());
        let mut asked = self.control.send(Command::Size(self.path.clone()));
        let size = asked.size().await.ok()??;
        let ends = ends && size == end;
        (size >= end).then_some(Kept { ends, ..kept })
    }

    /// Says whether the server's bytes, which it gives no digests of, are worth reading back.
    pub(crate) fn is_readable(&self, job: &FileJob, mode: Mode, original: &Original<'_>) -> bool {
        // A file under its own name may have been there before.
        let is_own = job.hidden.as_ref() == Some(self.path);
        // Within a run the markers have told.
        let is_open = mode != Mode::Extended || (job.recalled && !job.held.is_empty());
        let is_unasked = job.read_back == ReadBack::Unasked;
        // One that offers no `CKSM` may refuse it as any command that it does not allow.
        let is_undigested = !self.abilities.cksm || self.algorithm(original).is_none();
        is_own && is_open && is_unasked && is_undigested
    }

    /// Takes those of the ranges that an earlier run wrote in which the server has the source's bytes.
    async fn proven(&self, held: &RangeSet, original: &Original<'_>) -> Option<Kept> {
        let algorithm = self.algorithm(original)?;
        let (offset, length) = self.part;
        let held = longest(&held.clip(Range64::new(0, length)?)).shift_up(offset)?;
        // The server hashes the next while a range of the source is read.
        let ask = |range: Range64| {
            let (at, length) = (range.start(), Some(range.len()));
            let replies = verify::ask(self.control, algorithm, at, length, self.path.clone());
            (range, replies)
        };
        let asked: Vec<_> = held.iter().map(ask).collect();
        let mut hashing = Hashing::new(&self.shared.totals, Some(held.total()));
        let proving = async {
            let (mut proven, mut before) = (RangeSet::new(), 0_u64);
            for (range, mut replies) in asked {
                let there = async {
                    let told = replies
                        .digest(|bytes| hashing.note(before.saturating_add(bytes)))
                        .await;
                    told.map_err(|error| self.shared.does_without(&error)).ok()
                };
                let (start, length) = (range.start(), Some(range.len()));
                let here = self.digest(original, algorithm, start, length);
                let (there, here) = match self.abilities.cksm {
                    true => tokio::join!(there, here),
                    // One that does not offer it refuses at once, and this end need not hash.
                    false => match there.await {
                        None => (None, None),
                        there => (there, here.await),
                    },
                };
                if there.is_some() && there == here {
                    proven.insert(range);
                }
                before += range.len();
                hashing.note(before);
            }
            proven
        };
        // A server that is faster than this end waits.
        let proven = awake(self.control, proving).await;
        (!proven.is_empty()).then(|| Kept {
            held: proven.shift_down(offset),
            announce: None,
            after: Some(algorithm),
            ends: true,
        })
    }

    /// The digest of a part of the source, to its end when `length` is `None`; `None` when it cannot
    /// be had.
    async fn digest(
        &self,
        original: &Original<'_>,
        algorithm: ChecksumAlgorithm,
        offset: u64,
        length: Option<u64>,
    ) -> Option<String> {
        let totals = &self.shared.totals;
        match original {
            Original::Here(path) => {
                let _hashing = totals.hash_here();
                verify::local(path, algorithm, offset, length).await.ok()
            }
            Original::There(control, _, path) => {
                let path = FtpPath::clone(path);
                let mut asked = verify::ask(control, algorithm, offset, length, path);
                let mut hashing = Hashing::new(totals, None);
                asked.digest(|bytes| hashing.note(bytes)).await.ok()
            }
        }
    }

    /// Has the job go on with the ranges that the server has recorded: more than those of the last
    /// marker, or of a copy that differed those on which both ends agree. They may be another upload's,
    /// so they have to be proven, as those of an earlier run.
    pub(crate) async fn take_recorded(
        &mut self,
        job: &mut FileJob,
        original: &Original<'_>,
        mode: Mode,
    ) {
        // No marker tells of bytes in MODE S.
        let small = match mode {
            Mode::Extended => SMALL,
            Mode::Stream => 0,
        };
        self.ask_recorded(job, original, small).await;
        job.hold_nameable();
    }

    /// Asks for the ranges of a file of more than `small` bytes.
    async fn ask_recorded(&mut self, job: &mut FileJob, original: &Original<'_>, small: u64) {
        let (_, length) = self.part;
        let differed = std::mem::take(&mut job.agreement) == Agreement::AtServer;
        let is_asked =
            differed || (self.goes_on && length > small && self.algorithm(original).is_some());
        if !is_asked || !self.abilities.held || !self.whole {
            return;
        }
        let held = match held(self.ask_held()).await {
            Some(held) => held,
            None if differed => RangeSet::new(),
            // The markers have told some.
            None => return,
        };
        job.held = resumable(held, length);
        job.recalled = !job.held.is_empty();
        self.recalled = job.recalled;
    }

    fn ask_held(&self) -> Replies {
        let path = self.path.clone();
        self.control.send(Command::Site(SiteCommand::Held(path)))
    }

    /// Asks how much of `original` is there; `None` when nothing can be relied on.
    pub(crate) async fn kept(&self, original: &Original<'_>) -> Option<Kept> {
        let (offset, length) = self.part;
        if self.abilities.held && self.whole {
            let asked = self.ask_held();
            let algorithm = self.algorithm(original)?;
            let bytes = held(asked).await?.first_hole().min(length);
            if bytes == 0 {
                return None;
            }
            let announce = awake(self.control, self.digest(original, algorithm, 0, None)).await?;
            return Some(Kept {
                held: RangeSet::up_to(bytes),
                announce: Some((algorithm, announce)),
                after: None,
                ends: true,
            });
        }
        let mut size = self.control.send(Command::Size(self.path.clone()));
        let size = size.size().await.ok()??;
        let bytes = size.saturating_sub(offset);
        // A longer file is not cut by a store that goes on with it.
        if bytes == 0 || (self.whole && bytes > length) {
            return None;
        }
        self.proven(&RangeSet::up_to(bytes), original).await
    }
}

/// Says whether the data of a transfer leaves out all ranges that its `REST` names: in MODE E, and in
/// MODE S where it is `tagged`. The data of any other begins at the first hole.
pub(crate) fn has_gaps(mode: Mode, tagged: bool) -> bool {
    mode == Mode::Extended || tagged
}

/// The `REST` for the held ranges of an upload: all of them, or those before the first hole.
pub(crate) fn restart_of(held: &RangeSet, gaps: bool) -> Restart {
    match gaps {
        true => Restart::Ranges(held.clone()),
        false => Restart::Offset(held.first_hole()),
    }
}

impl CopyState {
    /// As [`has_gaps`], of an upload to a `server`, which has to tell the ranges of the whole file.
    pub(crate) fn has_gaps_at(&self, server: &Abilities, mode: Mode, tagged: bool) -> bool {
        has_gaps(mode, tagged && server.held && !self.is_partial())
    }
}

/// Waits for `work` as long as it takes, without the server of `control` giving up the session
/// meanwhile.
pub(crate) async fn awake<T>(control: &Control, work: impl Future<Output = T>) -> T {
    tokio::pin!(work);
    loop {
        match tokio::time::timeout(AWAKE, &mut work).await {
            Ok(done) => return done,
            Err(_) => drop(control.send(Command::Noop)),
        }
    }
}

impl Original<'_> {
    fn knows(&self, algorithm: ChecksumAlgorithm) -> bool {
        match self {
            Self::Here(_) => true,
            Self::There(_, abilities, _) => abilities.knows(algorithm),
        }
    }
}

/// The longest ranges of a set.
pub(crate) fn longest(held: &RangeSet) -> RangeSet {
    let mut ranges: Vec<_> = held.iter().collect();
    ranges.sort_unstable_by_key(|range| Reverse(range.len()));
    ranges.into_iter().take(MOST_HASHED).collect()
}

/// The ranges that a server says it holds.
async fn held(mut asked: Replies) -> Option<RangeSet> {
    Marker::parse_held(&asked.finish().await.ok()?).ok()
}

/// A digest that was announced for the next stored file, and the server's reply to that.
#[derive(Debug)]
pub(crate) struct Announced {
    pub(crate) digest: Digest,
    told: Option<Replies>,
}

impl Announced {
    /// Sends it; the next store spends it.
    pub(crate) fn send(control: &Control, digest: Digest) -> Self {
        let mut attributes = StorAttr::default();
        attributes.checksum = Some((digest.0.name().to_ascii_lowercase(), digest.1.clone()));
        let told = control.send(Command::Site(SiteCommand::StorAttr(attributes)));
        Self {
            digest,
            told: Some(told),
        }
    }

    /// Waits until the server has said that it will look at it.
    pub(crate) async fn taken(mut self) -> Result<Self, ControlError> {
        if let Some(mut told) = self.told.take() {
            told.finish().await?;
        }
        Ok(self)
    }
}

/// The error of a store that was refused, which may be for the digest that was announced.
pub(crate) fn judge(
    error: TransferError,
    announced: Option<&Announced>,
    copy: impl FnOnce() -> String,
) -> TransferError {
    let kind = error.reply().map(FailureKind::of);
    match announced {
        Some(Announced { digest, .. }) if kind == Some(FailureKind::ChecksumMismatch) => {
            let found = "another, so that the server threw it away";
            verify::mismatch(copy(), digest.0, &digest.1, found)
        }
        _ => error,
    }
}

/// Says whether the server may go on with its bytes at a later attempt: an upload of a connection or
/// a node that was cut off keeps them for a while. The last attempt begins at the start.
pub(crate) fn is_busy(refusal: Option<&Reply>, failures: u32, options: &CopyOptions) -> bool {
    let code = refusal.map(Reply::code);
    let in_use = code.is_some_and(|code| code == Code::of::<450>() || code == Code::of::<425>());
    in_use && failures < BUSY && options.goes_on(failures + 2, Duration::ZERO, false)
}

/// The object at the destination of a file that is not to be overwritten.
pub(crate) enum Found {
    /// Nothing.
    Nothing,
    /// Something, of so many bytes where that says whether it is whole.
    File(Option<u64>),
    /// The server does not tell.
    Unknown(ControlError),
}

impl Found {
    /// Asks the server. One that keeps nothing apart may have a part of a file there.
    pub(crate) async fn at(control: &Control, abilities: &Abilities, path: &FtpPath) -> Self {
        match control.exists(path).await {
            Ok(false) => return Self::Nothing,
            Ok(true) if abilities.held => return Self::File(None),
            Ok(true) => {}
            Err(error) => return Self::Unknown(error),
        }
        let size = control.send(Command::Size(path.clone())).size().await;
        Self::File(size.ok().flatten())
    }

    /// Leaves the file out; a file with a shorter copy has failed.
    pub(crate) fn leave(self, shared: &CopyState, taken: Taken) {
        let job = taken.file();
        let size = job.facts.size.filter(|_| !shared.through_layers());
        let part = match self {
            Self::Unknown(error) => return shared.fail(taken, &error.into()),
            Self::Nothing => None,
            Self::File(there) => there.zip(size).filter(|(there, size)| there < size),
        };
        let Some((there, size)) = part.filter(|_| !shared.is_partial()) else {
            return shared.skip(taken, "it exists");
        };
        let path = shared.name_source(job);
        let what = format!(
            "its copy exists with {there} of {size} bytes, as an upload leaves it that broke off"
        );
        let error = TransferError::source(path, what, "copy it without --no-clobber");
        shared.fail(taken, &error);
    }
}

#[cfg(test)]
mod tests;
