//! `FileSink`: a file open for writing by position, published whole or written in place.

mod attributes;
mod expected;
mod from_file;
mod holes;
mod kept;
mod open;

pub use self::from_file::TakeError;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use byte_ranges::RangeSet;
use bytes::Bytes;
use gridftp_dsi::{
    ChecksumAlgorithm, Error, ErrorKind, Finish, GroupValue, Progress, Result, Sink, Stat,
    WriteModel,
};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::Advice;
use rustix::io::Errno;

use crate::blocking::{Work, run};
use crate::checksum::in_turns;
use crate::complete::{MISMATCH, settle_size};
use crate::copy::{read_some, splice_all, write_all, write_on};
use crate::error::{Fault, Outcome};
use crate::file::extents;
use crate::first::FirstBlock;
use crate::in_place::InPlace;
use crate::late;
use crate::partial::Flush;
use crate::root::is_regular;
use crate::shared::{Joined, Mark, Place, Token};
use crate::stat::stat_of;
use crate::whole::{SMALL, Whole};
use expected::Expected;
use holes::Holes;

/// Largest file, in bytes, that the file system frees quickly.
const LARGE: u64 = 64 << 20;

/// A file open for writing.
#[derive(Debug)]
pub struct FileSink {
    inner: Arc<Inner>,
    held: RangeSet,
    /// Whether a digest of the whole file was announced.
    checks: AtomicBool,
    /// The user to whom the tokens of the upload belong.
    user: String,
}

#[derive(Debug)]
struct Inner {
    way: Way,
    name: Vec<u8>,
    path: String,
    sync: bool,
    /// Locked shared by writers and exclusively by `finish`; true once writes are over.
    closed: RwLock<bool>,
    /// Whether the medium lost bytes: the kernel reports that once, and the next sync succeeds.
    lost: AtomicBool,
    first: FirstBlock,
    /// Locked while a record is written; the number of the last one.
    recording: Mutex<u64>,
    /// Number of the records that were asked for.
    records: AtomicU64,
    /// Set once the upload is shared.
    mark: OnceLock<Mark>,
    /// Set where zeros are left out.
    holes: OnceLock<Holes>,
    /// Set where syncs follow the records.
    beside: OnceLock<Flush>,
    /// Set where bytes of an earlier attempt come again.
    expected: OnceLock<Expected>,
}

#[derive(Debug)]
enum Way {
    /// Published once it is complete.
    Whole(Whole),
    /// The file itself.
    InPlace(InPlace),
    /// A file that takes bytes only in order (a FIFO, a terminal), and the number of bytes written.
    InOrder(OwnedFd, Mutex<u64>),
    /// The upload of another sink.
    Joined(Joined),
}

const IN_ORDER: Fault = Fault::Rule(ErrorKind::Unsupported, "it takes bytes only in order");

impl Inner {
    /// A FIFO or a terminal may wait for its other end; files and devices with offsets have none.
    fn work_of_write(&self) -> Work {
        match self.way {
            Way::Whole(_) | Way::InPlace(_) | Way::Joined(_) => Work::Brief,
            Way::InOrder(..) => Work::Long,
        }
    }

    /// Publishing a withheld file is brief; checking or syncing one may take long, and so may
    /// freeing a large file that it replaces.
    fn work_of_finish(&self, done: &Finish) -> Work {
        let frees = match &self.way {
            Way::Whole(whole) => whole.replaces(),
            Way::InPlace(_) | Way::InOrder(..) | Way::Joined(_) => 0,
        };
        if self.first.waits() && !self.sync && done.checksum.is_none() && frees <= LARGE {
            Work::Brief
        } else {
            Work::Long
        }
    }

    /// Size of the published file that this is an update of; its unwritten bytes stay.
    fn updates(&self) -> Option<u64> {
        match &self.way {
            Way::Whole(whole) => whole.updates(),
            Way::InPlace(_) | Way::InOrder(..) | Way::Joined(_) => None,
        }
    }

    fn file(&self) -> Outcome<BorrowedFd<'_>> {
        Ok(match &self.way {
            Way::Whole(whole) => whole.partial()?.file(),
            Way::InPlace(in_place) => in_place.file(),
            Way::InOrder(file, _) => file.as_fd(),
            Way::Joined(joined) => joined.file(),
        })
    }

    /// Withholds a small first block; `false` if it must be written now.
    fn keep_back(&self, offset: u64, data: &Bytes) -> bool {
        matches!(self.way, Way::Whole(_)) && !self.expects() && self.first.keep(offset, data)
    }

    /// Writes the withheld block.
    fn catch_up(&self) -> Outcome<()> {
        self.first.catch_up(|offset, data| {
            self.changes(offset, data.len())?;
            Ok(write_all(self.file()?, data, offset)?)
        })
    }

    /// Locks out `finish` during an operation; fails once the sink is closed.
    fn enter(&self) -> Outcome<RwLockReadGuard<'_, bool>> {
        self.must_be_sound()?;
        let closed = self.closed.read().unwrap_or_else(PoisonError::into_inner);
        if *closed {
            return Err(Fault::Rule(
                ErrorKind::Changed,
                "the sink was used after it was finished",
            ));
        }
        if let Way::Joined(joined) = &self.way {
            joined.must_be_owned()?;
        }
        Ok(closed)
    }

    fn stat(&self) -> Outcome<Stat> {
        let stat = rustix::fs::fstat(self.file()?)?;
        Ok(stat_of(self.name.as_slice(), &stat))
    }

    /// Runs `work`; if the medium has no space, marks the partial file for removal.
    fn with_room<T>(&self, op: &'static str, work: impl FnOnce() -> Outcome<T>) -> Result<T> {
        work().map_err(|fault| {
            if let (Fault::Os(Errno::NOSPC | Errno::DQUOT | Errno::FBIG), Way::Whole(whole)) =
                (&fault, &self.way)
            {
                whole.give_up();
            }
            fault.of(op, &self.path)
        })
    }

    fn must_be_sound(&self) -> Outcome<()> {
        let lost_by = match &self.way {
            Way::Whole(whole) => whole.lost_by(),
            Way::InPlace(_) | Way::InOrder(..) | Way::Joined(_) => None,
        };
        if let Some(errno @ (Errno::NOSPC | Errno::DQUOT)) = lost_by {
            return Err(errno.into());
        }
        if self.lost.load(Ordering::Relaxed) || lost_by.is_some() {
            return Err(Fault::Rule(
                ErrorKind::Io,
                "the medium lost some of the written bytes",
            ));
        }
        Ok(())
    }

    /// Refuses a range beyond the largest file size.
    fn must_end_in_range(&self, offset: u64, len: usize) -> Result<()> {
        let end = u64::try_from(len)
            .ok()
            .and_then(|len| offset.checked_add(len));
        if end.is_none_or(|end| i64::try_from(end).is_err()) {
            return Err(Error::new(ErrorKind::TooLarge, "write").at(&self.path));
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Outcome<()> {
        let _open = self.enter()?;
        if let Way::InOrder(file, taken) = &self.way {
            let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
            if *taken != offset {
                return Err(IN_ORDER);
            }
            write_on(file.as_fd(), data)?;
            *taken += u64::try_from(data.len()).unwrap_or(0);
            return Ok(());
        }
        self.catch_up()?;
        self.must_be_expected(offset, data)?;
        self.changes(offset, data.len())?;
        match self.leaves_holes() {
            Some(holes) => Ok(holes.write(self.file()?, data, offset)?),
            None => Ok(write_all(self.file()?, data, offset)?),
        }
    }

    fn take_pipe(&self, pipe: BorrowedFd<'_>, offset: u64, len: usize) -> Outcome<()> {
        let _open = self.enter()?;
        let to = self.at_any_offset(offset, len)?;
        Ok(splice_all(pipe, to, offset, len)?)
    }

    /// The ranges that are not holes. Network file systems, those that store zeros as holes, and
    /// files without their zeros tell only the end.
    fn data(&self) -> Outcome<Option<RangeSet>> {
        self.settle_holes()?;
        let _open = self.enter()?;
        if let Way::InOrder(..) = self.way {
            return Ok(None);
        }
        self.catch_up()?;
        let file = self.file()?;
        if let Some(mark) = self.mark.get() {
            mark.renew(file)?;
        }
        let size = u64::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0);
        if self.holes.get().is_some_and(Holes::exist) || !late::tells_holes(file) {
            return Ok(Some(RangeSet::up_to(size)));
        }
        Ok(Some(extents(file, size)?))
    }

    /// Makes a token of the upload.
    fn share(&self, user: &str, kept: Option<&RangeSet>) -> Outcome<Vec<u8>> {
        let _open = self.enter()?;
        let place = match &self.way {
            Way::Whole(whole) => {
                let partial = whole.partial()?;
                partial.share(kept)?;
                partial.place()
            }
            Way::InPlace(file) if file.has_name() => Place::Itself,
            Way::InPlace(_) | Way::InOrder(..) | Way::Joined(_) => {
                return Err(Fault::Rule(
                    ErrorKind::Unsupported,
                    "it has no partial file of its own",
                ));
            }
        };
        let file = self.file()?;
        let _turn = self.recording.lock();
        let mark = match self.mark.get() {
            Some(mark) => *mark,
            None => {
                let mark = Mark::set(file)?;
                *self.mark.get_or_init(|| mark)
            }
        };
        Ok(Token::of(place, file, mark, user)?.to_bytes())
    }

    /// Waits for writes in flight, also those with dropped futures, and refuses later ones.
    fn close(&self) -> Outcome<()> {
        *self.closed.write().unwrap_or_else(PoisonError::into_inner) = true;
        self.settle_holes()?;
        if let Way::Joined(_) = self.way {
            return Err(Fault::Rule(
                ErrorKind::Denied,
                "an upload is finished by the process that shared it",
            ));
        }
        if let Some(mark) = self.mark.get() {
            mark.renew(self.file()?)?;
        }
        self.must_be_sound()
    }

    /// The complete file, to be hashed, with the bytes of the medium where they are synced to it;
    /// `None` for a file that cannot be read back.
    fn settle(&self, done: &Finish) -> Outcome<Option<OwnedFd>> {
        self.close()?;
        self.catch_up()?;
        let file = self.file()?;
        if !is_regular(&rustix::fs::fstat(file)?) {
            return Ok(None);
        }
        settle_size(file, done)?;
        if self.sync {
            if let Err(errno) = late::settle(file, true) {
                // It is unknown which of the bytes are lost.
                self.discard();
                return Err(errno.into());
            }
            // Best effort: the kernel may keep pages, which then serve the reads.
            let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
        }
        Ok(Some(rustix::io::dup(file)?))
    }

    /// Keeps nothing of a file that has no name yet.
    fn discard(&self) {
        if let Way::Whole(whole) = &self.way {
            whole.give_up();
        }
    }

    /// The error of wrong bytes, which are not kept.
    fn mismatch(&self) -> Error {
        self.discard();
        MISMATCH.of("finish", &self.path)
    }

    fn finish(&self, done: &Finish) -> Outcome<Stat> {
        self.close()?;
        if done.exclusive && (self.updates().is_some() || !matches!(self.way, Way::Whole(_))) {
            return Err(Fault::Rule(
                ErrorKind::Unsupported,
                "a file that is changed exists already",
            ));
        }
        if let Way::Whole(whole) = &self.way
            // A file of at most the withheld block, which has no name yet.
            && let Some(stat) = self.first.publish(|offset, data| {
                whole.publish_at_once(offset, data, done, self.sync)
            })?
        {
            return Ok(stat);
        }
        self.catch_up()?;
        match &self.way {
            Way::Whole(whole) => whole.partial()?.publish(done, self.sync),
            Way::InPlace(in_place) => {
                in_place.finish(done, self.sync)?;
                self.stat()
            }
            Way::InOrder(..) | Way::Joined(_) => self.stat(),
        }
    }
}

impl Sink for FileSink {
    async fn write_at(&self, offset: u64, data: Bytes) -> Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        self.inner.must_end_in_range(offset, data.len())?;
        if self.inner.keep_back(offset, &data) {
            return Ok(());
        }
        let inner = Arc::clone(&self.inner);
        run(self.inner.work_of_write(), "write", move || {
            inner.with_room("write", || inner.write(offset, &data))
        })
        .await
    }

    async fn checkpoint(&self, held: &RangeSet, durable: bool) -> Result<()> {
        let (inner, held) = (Arc::clone(&self.inner), held.clone());
        let number = inner.records.fetch_add(1, Ordering::Relaxed);
        run(Work::Long, "record", move || {
            inner.with_room("record", || inner.checkpoint(number, &held, durable))
        })
        .await
    }

    fn held(&self) -> RangeSet {
        match self.inner.is_unproven() && !self.checks.load(Ordering::Relaxed) {
            true => RangeSet::new(),
            false => self.held.clone(),
        }
    }

    fn will_check(&self, _: ChecksumAlgorithm) {
        self.checks.store(true, Ordering::Relaxed);
    }

    fn order(&self) -> WriteModel {
        match self.inner.way {
            Way::InOrder(..) => WriteModel::Sequential,
            Way::Whole(_) | Way::InPlace(_) | Way::Joined(_) => WriteModel::Random,
        }
    }

    async fn groups(&self, held: &RangeSet) -> Result<Option<Vec<GroupValue>>> {
        // Those of a file that has to be read again are not of use.
        if !matches!(self.inner.way, Way::Whole(_)) || self.inner.is_unproven() {
            return Ok(None);
        }
        if held.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let (inner, held) = (Arc::clone(&self.inner), held.clone());
        run(Work::Brief, "read back", move || {
            inner.with_room("read back", || inner.groups(&held))
        })
        .await
    }

    fn note_groups(&self, values: Vec<GroupValue>) {
        self.inner.note_groups(values);
    }

    async fn finish(self, mut done: Finish) -> Result<Stat> {
        let inner = self.inner;
        inner.must_be_proven(&done)?;
        if let Some(size) = inner.updates() {
            done = done.keeping(size);
        }
        // The digest of a small file is computed on publishing, where it need not be on the medium.
        let small = !inner.sync && done.size.is_some_and(|size| size <= SMALL as u64);
        if let Some((algorithm, expected)) = done.checksum.take_if(|_| !small) {
            let (settled, whole) = (Arc::clone(&inner), done.clone());
            let file = run(Work::Long, "finish", move || {
                settled.with_room("finish", || settled.settle(&whole))
            });
            if let Some(file) = file.await? {
                let named = ("finish", inner.path.clone());
                let found = in_turns(file, algorithm, (0, None), &Progress::new(), named).await?;
                if !found.eq_ignore_ascii_case(&expected) {
                    return Err(inner.mismatch());
                }
            }
        }
        let kind = inner.work_of_finish(&done);
        run(kind, "finish", move || {
            inner.with_room("finish", || inner.finish(&done))
        })
        .await
    }

    async fn read_back(&self, offset: u64, len: usize) -> Result<Bytes> {
        let inner = Arc::clone(&self.inner);
        run(self.inner.work_of_write(), "read back", move || {
            inner.with_room("read back", || {
                inner.settle_holes()?;
                inner.catch_up()?;
                Ok(read_some(inner.file()?, offset, len)?)
            })
        })
        .await
    }

    async fn data(&self) -> Result<Option<RangeSet>> {
        let inner = Arc::clone(&self.inner);
        run(Work::Long, "find data", move || {
            inner.with_room("find data", || inner.data())
        })
        .await
    }

    async fn share(&self, kept: Option<&RangeSet>) -> Result<Vec<u8>> {
        let (inner, user, kept) = (self.inner.clone(), self.user.clone(), kept.cloned());
        run(Work::Brief, "share", move || {
            inner.with_room("share", || inner.share(&user, kept.as_ref()))
        })
        .await
    }

    fn takes_pipes(&self) -> bool {
        let passes_all = self.inner.leaves_holes().is_none() && !self.inner.expects();
        !matches!(self.inner.way, Way::InOrder(..)) && passes_all
    }

    async fn take_pipe(&self, pipe: Arc<OwnedFd>, offset: u64, len: usize) -> Result<()> {
        self.inner.must_end_in_range(offset, len)?;
        let inner = Arc::clone(&self.inner);
        run(self.inner.work_of_write(), "write", move || {
            inner.with_room("write", || inner.take_pipe(pipe.as_fd(), offset, len))
        })
        .await
    }
}

#[cfg(test)]
mod synced_tests;
#[cfg(test)]
mod tests;
