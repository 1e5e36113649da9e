//! `FileSink`: a file open for writing by position, published whole or written in place.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use byte_ranges::RangeSet;
use bytes::Bytes;
use gridftp_dsi::{Create, Error, ErrorKind, Finish, Progress, Result, Sink, Stat, WriteModel};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::blocking::{Work, run, run_until_dropped};
use crate::checksum::in_turns;
use crate::complete::{MISMATCH, settle_size};
use crate::copy::{read_some, splice_all, write_all, write_on};
use crate::error::{Fault, Outcome};
use crate::first::FirstBlock;
use crate::in_place::InPlace;
use crate::partial::Begin;
use crate::root::{Target, is_regular, local_target};
use crate::stat::stat_of;
use crate::whole::{SMALL, Whole};

/// Largest file, in bytes, that the file system frees quickly.
const LARGE: u64 = 64 << 20;

/// A file open for writing.
#[derive(Debug)]
pub struct FileSink {
    inner: Arc<Inner>,
    held: RangeSet,
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
    /// Locked while a record is written.
    recording: Mutex<()>,
}

#[derive(Debug)]
enum Way {
    /// Published once it is complete.
    Whole(Whole),
    /// The file itself.
    InPlace(InPlace),
    /// A file that takes bytes only in order (a FIFO, a terminal), and the number of bytes written.
    InOrder(OwnedFd, Mutex<u64>),
}

impl FileSink {
    /// Opens the file of this machine at `path` for writing.
    ///
    /// An existing object that is no regular file (`/dev/null`, a FIFO) is written directly, for
    /// any `how`. With `sync`, `finish` returns once the file and its name are on the medium.
    ///
    /// # Errors
    /// Errors of the kernel; [`ErrorKind::Busy`] while another upload continues the partial file.
    pub async fn create(path: &Path, how: Create, sync: bool) -> Result<Self> {
        let shown = path.display().to_string();
        let (path, name) = (path.to_path_buf(), shown.clone());
        let opened = run(Work::Brief, "create", move || {
            let fail = |fault: Fault| fault.of("create", &name);
            let target = local_target(&path).map_err(fail)?;
            let special = target.old.as_ref().is_some_and(|old| !is_regular(old));
            match how {
                Create::Whole { .. } if !special => {
                    let sink =
                        Self::begin(target, how, name.clone(), sync, &AtomicBool::new(false));
                    sink.map(Ok).map_err(fail)
                }
                _ => Ok(Err((target, special))),
            }
        })
        .await?;
        let (target, special) = match opened {
            Ok(sink) => return Ok(sink),
            Err(rest) => rest,
        };
        // A FIFO may wait for its other end.
        run_until_dropped(Work::Long, "create", move |stop| {
            let sink = match special {
                true => Self::special(target, shown.clone(), sync),
                false => Self::begin(target, how, shown.clone(), sync, stop),
            };
            sink.map_err(|fault| fault.of("create", shown))
        })
        .await
    }

    /// Wraps an open file of any kind, which is written directly.
    ///
    /// # Errors
    /// Errors of the kernel when it is described.
    pub fn direct(file: File) -> Result<Self> {
        Self::over(file.into(), Vec::new(), String::new(), false)
            .map_err(|fault| fault.of("create", ""))
    }

    /// Opens the object at `target`, which is no regular file.
    fn special(target: Target, path: String, sync: bool) -> Outcome<Self> {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&target.dir, target.name.as_slice(), flags, Mode::empty())?;
        Self::over(file, target.name, path, sync)
    }

    /// Opens the regular file at `target`, or a new one; a copy that this needs ends once `stop` is
    /// set.
    pub(crate) fn begin(
        target: Target,
        how: Create,
        path: String,
        sync: bool,
        stop: &AtomicBool,
    ) -> Outcome<Self> {
        let name = target.name.clone();
        let (begin, size) = match how {
            Create::Whole { size } => (Begin::Anew, size),
            Create::Resume { size } => (Begin::Resume, size),
            Create::Update { size } => (Begin::Update, size),
            Create::InPlace { .. } | Create::Append => {
                let truncate = how == Create::InPlace { truncate: true };
                let file = InPlace::open(target, truncate || how == Create::Append)?;
                if truncate {
                    crate::uninterrupted::ftruncate(file.file(), 0)?;
                }
                let held = size_of(file.file())?;
                return Ok(Self::new(Way::InPlace(file), name, path, sync, held));
            }
            _ => {
                return Err(Fault::Rule(
                    ErrorKind::Unsupported,
                    "this way of writing is not supported",
                ));
            }
        };
        let (whole, held) = Whole::begin(target, begin, size, stop)?;
        Ok(Self::new(Way::Whole(whole), name, path, sync, held))
    }

    /// Writes to an open file of any kind.
    fn over(file: OwnedFd, name: Vec<u8>, path: String, sync: bool) -> Outcome<Self> {
        let held = size_of(file.as_fd())?;
        // A file without a position takes bytes in order; `/dev/null` takes them at any offset.
        let way = match rustix::fs::tell(&file) {
            Ok(_) => Way::InPlace(InPlace::given(file)),
            Err(Errno::SPIPE) => Way::InOrder(file, Mutex::new(0)),
            Err(errno) => return Err(errno.into()),
        };
        Ok(Self::new(way, name, path, sync, held))
    }

    fn new(way: Way, name: Vec<u8>, path: String, sync: bool, held: RangeSet) -> Self {
        let (closed, lost) = (RwLock::new(false), AtomicBool::new(false));
        Self {
            inner: Arc::new(Inner {
                way,
                name,
                path,
                sync,
                closed,
                lost,
                first: FirstBlock::default(),
                recording: Mutex::new(()),
            }),
            held,
        }
    }
}

/// The range of all bytes of the file.
fn size_of(file: BorrowedFd<'_>) -> Outcome<RangeSet> {
    let size = rustix::fs::fstat(file)?.st_size;
    Ok(RangeSet::up_to(u64::try_from(size).unwrap_or(0)))
}

impl Inner {
    /// A FIFO or a terminal may wait for its other end; files and devices with offsets have none.
    fn work_of_write(&self) -> Work {
        match self.way {
            Way::Whole(_) | Way::InPlace(_) => Work::Brief,
            Way::InOrder(..) => Work::Long,
        }
    }

    /// Publishing a withheld file is brief; checking or syncing one may take long, and so may
    /// freeing a large file that it replaces.
    fn work_of_finish(&self, done: &Finish) -> Work {
        let frees = match &self.way {
            Way::Whole(whole) => whole.replaces(),
            Way::InPlace(_) | Way::InOrder(..) => 0,
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
            Way::InPlace(_) | Way::InOrder(..) => None,
        }
    }

    fn file(&self) -> Outcome<BorrowedFd<'_>> {
        Ok(match &self.way {
            Way::Whole(whole) => whole.partial()?.file(),
            Way::InPlace(in_place) => in_place.file(),
            Way::InOrder(file, _) => file.as_fd(),
        })
    }

    /// Withholds a small first block; `false` if it must be written now.
    fn keep_back(&self, offset: u64, data: &Bytes) -> bool {
        matches!(self.way, Way::Whole(_)) && self.first.keep(offset, data)
    }

    /// Writes the withheld block.
    fn catch_up(&self) -> Outcome<()> {
        self.first
            .catch_up(|offset, data| Ok(write_all(self.file()?, data, offset)?))
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
        if self.lost.load(Ordering::Relaxed) {
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
                return Err(Fault::Rule(
                    ErrorKind::Unsupported,
                    "it takes bytes only in order",
                ));
            }
            write_on(file.as_fd(), data)?;
            *taken += u64::try_from(data.len()).unwrap_or(0);
            return Ok(());
        }
        self.catch_up()?;
        Ok(write_all(self.file()?, data, offset)?)
    }

    fn take_pipe(&self, pipe: BorrowedFd<'_>, offset: u64, len: usize) -> Outcome<()> {
        let _open = self.enter()?;
        if matches!(self.way, Way::InOrder(..)) {
            return Err(Fault::Rule(
                ErrorKind::Unsupported,
                "it takes bytes only in order",
            ));
        }
        self.catch_up()?;
        Ok(splice_all(pipe, self.file()?, offset, len)?)
    }

    fn checkpoint(&self, held: &RangeSet, durable: bool) -> Outcome<()> {
        let _open = self.enter()?;
        // A checkpoint with a dropped future may still run, and both would write the same record.
        let _turn = self.recording.lock();
        self.catch_up()?;
        if durable
            && !matches!(self.way, Way::InOrder(..))
            && let Err(errno) = crate::uninterrupted::fdatasync(self.file()?)
        {
            self.lost.store(true, Ordering::Relaxed);
            return Err(errno.into());
        }
        match &self.way {
            Way::Whole(whole) => whole.partial()?.checkpoint(held, durable),
            Way::InPlace(_) | Way::InOrder(..) => Ok(()),
        }
    }

    /// Waits for writes in flight, also those with dropped futures, and refuses later ones.
    fn close(&self) -> Outcome<()> {
        *self.closed.write().unwrap_or_else(PoisonError::into_inner) = true;
        self.must_be_sound()
    }

    /// The complete file, to be hashed; `None` for a file that cannot be read back.
    fn settle(&self, done: &Finish) -> Outcome<Option<OwnedFd>> {
        self.close()?;
        self.catch_up()?;
        let file = self.file()?;
        if !is_regular(&rustix::fs::fstat(file)?) {
            return Ok(None);
        }
        settle_size(file, done)?;
        Ok(Some(rustix::io::dup(file)?))
    }

    /// The error of wrong bytes, which are not kept.
    fn mismatch(&self) -> Error {
        if let Way::Whole(whole) = &self.way {
            whole.give_up();
        }
        MISMATCH.of("finish", &self.path)
    }

    fn finish(&self, done: &Finish) -> Outcome<Stat> {
        self.close()?;
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
            Way::InOrder(..) => self.stat(),
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
        run(Work::Long, "record", move || {
            inner.with_room("record", || inner.checkpoint(&held, durable))
        })
        .await
    }

    fn held(&self) -> RangeSet {
        self.held.clone()
    }

    fn order(&self) -> WriteModel {
        match self.inner.way {
            Way::InOrder(..) => WriteModel::Sequential,
            Way::Whole(_) | Way::InPlace(_) => WriteModel::Random,
        }
    }

    async fn finish(self, mut done: Finish) -> Result<Stat> {
        let inner = self.inner;
        if let Some(size) = inner.updates() {
            done = done.keeping(size);
        }
        // The digest of a small file is computed on publishing.
        let small = done.size.is_some_and(|size| size <= SMALL as u64);
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
                inner.catch_up()?;
                Ok(read_some(inner.file()?, offset, len)?)
            })
        })
        .await
    }

    fn takes_pipes(&self) -> bool {
        !matches!(self.inner.way, Way::InOrder(..))
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
#[path = "sink_tests.rs"]
mod tests;
