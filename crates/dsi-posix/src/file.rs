//! `FileSource`: a file open for reading by position, with its descriptor for zero-copy.

use std::fs::File;
use std::io::IoSliceMut;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use byte_ranges::{Range64, RangeSet};
use bytes::BytesMut;
use gridftp_dsi::types::Attribute;
use gridftp_dsi::{Error, ErrorKind, Result, Source, Version};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, SeekFrom, Stat};
use rustix::io::{Errno, ReadWriteFlags};

use crate::attributes;
use crate::blocking::{Work, run};
use crate::error::Fault;
use crate::late;
use crate::root::must_be_file;
use crate::stat::{changed, modified};

/// Bytes read by one system call: small enough that clearing them warms the cache for the copy.
const PIECE: usize = 128 * 1024;

/// Seconds since the last change of a file from which on its times tell a further one: pages that a
/// program has mapped are on the medium by then, and clocks of file servers may differ.
const SETTLED: i64 = 60;

/// Most ranges of [`Source::data`]; everything behind them counts as data.
const MAX_RANGES: usize = 65_536;

/// A regular file open for reading.
#[derive(Debug)]
pub struct FileSource(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    file: OwnedFd,
    size: u64,
    modified: (i64, u32),
    changed: (i64, u32),
    mode: u32,
    version: Option<Version>,
    /// Whether the file system supports reads without waiting (`RWF_NOWAIT`).
    at_once: AtomicBool,
    path: String,
}

impl FileSource {
    /// Wraps an open regular file.
    ///
    /// # Errors
    /// [`ErrorKind::NotRegular`] or [`ErrorKind::IsDirectory`] for anything else.
    pub fn new(file: File) -> Result<Self> {
        let file = must_be_file(file.into()).map_err(|fault| fault.of("open", ""))?;
        Ok(Self::over(file, String::new()))
    }

    /// Opens the file of this machine at `path`.
    ///
    /// # Errors
    /// Errors of the kernel, and [`ErrorKind::NotRegular`] or [`ErrorKind::IsDirectory`].
    pub async fn open(path: &Path) -> Result<Self> {
        let path = path.to_path_buf();
        run(Work::Brief, "open", move || {
            let name = path.display().to_string();
            let flags = OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
            rustix::fs::open(&path, flags, Mode::empty())
                .map_err(Fault::from)
                .and_then(must_be_file)
                .map(|file| Self::over(file, name.clone()))
                .map_err(|fault| fault.of("open", name))
        })
        .await
    }

    /// Wraps an open regular file with its facts; `path` is the user's name for it.
    pub(crate) fn over((file, stat): (OwnedFd, Stat), path: String) -> Self {
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let at_once = AtomicBool::new(true);
        Self(Arc::new(Inner {
            file,
            size,
            modified: modified(&stat),
            changed: changed(&stat),
            mode: stat.st_mode & 0o7777,
            version: version(&stat),
            at_once,
            path,
        }))
    }

    /// Modification time at opening: seconds since 1970 and nanoseconds.
    pub fn modified(&self) -> (i64, u32) {
        self.0.modified
    }

    /// Time of the last change to the file or its facts before opening, as that of modification; no
    /// program sets it.
    pub fn changed(&self) -> (i64, u32) {
        self.0.changed
    }

    /// Permission bits at opening, the lowest twelve.
    pub fn mode(&self) -> u32 {
        self.0.mode
    }

    /// Extended attributes of the file, those named `user.*`; none on a file system that keeps none.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] for too many of them, or a value that is too long; errors of the kernel.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn attributes(&self) -> Result<Vec<Attribute>> {
        let inner = Arc::clone(&self.0);
        run(Work::Brief, "read attributes", move || {
            let all = attributes::all(&inner.file);
            all.map_err(|fault| fault.of("read attributes", &inner.path))
        })
        .await
    }

    /// The open file, which may outlive this value.
    pub(crate) fn file(&self) -> Arc<dyn AsFd + Send + Sync> {
        Arc::clone(&self.0) as Arc<_>
    }

    pub(crate) fn error(&self, op: &'static str, errno: Errno) -> Error {
        Fault::from(errno).of(op, &self.0.path)
    }
}

impl AsFd for Inner {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Inner {
    /// Fills the spare capacity of `into` from `offset`, as far as the file and `how` allow.
    fn fill(&self, mut offset: u64, into: &mut BytesMut, how: ReadWriteFlags) -> Result<(), Errno> {
        let begin = into.len();
        let full = into.capacity();
        while into.len() < full
            // The kernel refuses offsets above the largest file size.
            && let Some(rest) = i64::MAX.unsigned_abs().checked_sub(offset)
        {
            let start = into.len();
            let piece = PIECE.min(full - start);
            into.resize(start + piece.min(usize::try_from(rest).unwrap_or(piece)), 0);
            let piece = into.get_mut(start..).unwrap_or_default();
            let done = if how.is_empty() {
                rustix::io::pread(&self.file, piece, offset)
            } else {
                rustix::io::preadv2(&self.file, &mut [IoSliceMut::new(piece)], offset, how)
            };
            let read = *done.as_ref().unwrap_or(&0);
            into.truncate(start + read);
            match done {
                Ok(0) => break,
                Ok(read) => offset += u64::try_from(read).unwrap_or(0),
                Err(Errno::INTR) => {}
                // The bytes read so far are valid; the next call gets the error again.
                Err(_) if into.len() > begin => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

/// The ranges below `size` that are not holes, at most [`MAX_RANGES`] of them.
pub(crate) fn extents(file: BorrowedFd<'_>, size: u64) -> Result<RangeSet, Errno> {
    let mut data = RangeSet::new();
    let mut at = 0;
    while at < size {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(errno) => return Err(errno),
        };
        let end = if data.len() < MAX_RANGES {
            rustix::fs::seek(file, SeekFrom::Hole(start))?
        } else {
            size
        };
        data.extend(Range64::new(start, end.min(size)));
        at = end.max(start + 1);
    }
    Ok(data)
}

/// The version of a file; `None` for one that was changed just now, of which a further change may
/// have the same time.
fn version(stat: &Stat) -> Option<Version> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let age = i64::try_from(since.as_secs())
        .ok()?
        .checked_sub(stat.st_ctime)?;
    let object = (stat.st_dev, stat.st_ino);
    let size = u64::try_from(stat.st_size).ok()?;
    (age >= SETTLED).then(|| Version::new(object, size, modified(stat), changed(stat)))
}

impl Source for FileSource {
    fn size(&self) -> u64 {
        self.0.size
    }

    async fn read_at(&self, offset: u64, mut into: BytesMut) -> Result<BytesMut> {
        let mut kind = Work::Brief;
        if self.0.at_once.load(Ordering::Relaxed) {
            match self.0.fill(offset, &mut into, ReadWriteFlags::NOWAIT) {
                Ok(()) => return Ok(into),
                Err(Errno::AGAIN) => kind = Work::Long,
                // Other errors occur again, and are reported, in the blocking read.
                Err(_) => self.0.at_once.store(false, Ordering::Relaxed),
            }
        }
        let inner = Arc::clone(&self.0);
        run(kind, "read", move || {
            let done = inner.fill(offset, &mut into, ReadWriteFlags::empty());
            done.map_err(|errno| Fault::from(errno).of("read", &inner.path))?;
            Ok(into)
        })
        .await
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.file.as_fd())
    }

    async fn data(&self) -> Result<Option<RangeSet>> {
        let inner = Arc::clone(&self.0);
        let done = run(Work::Long, "find data", move || {
            let file = inner.file.as_fd();
            let told = late::tells_holes(file).then(|| extents(file, inner.size));
            Ok(told.transpose())
        })
        .await?;
        match done {
            Ok(data) => Ok(data),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(None),
            Err(errno) => Err(self.error("find data", errno)),
        }
    }

    fn version(&self) -> Option<Version> {
        self.0.version
    }

    async fn unchanged(&self) -> Result<()> {
        let inner = Arc::clone(&self.0);
        // On a network file system even this may wait for the other end.
        let now = run(Work::Brief, "stat", move || {
            rustix::fs::fstat(&inner.file)
                .map_err(|errno| Fault::from(errno).of("stat", &inner.path))
        })
        .await?;
        let inner = &self.0;
        let what = if u64::try_from(now.st_size).unwrap_or(0) != inner.size {
            "its size has changed since it was opened"
        } else if modified(&now) != inner.modified {
            "it was written to since it was opened"
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Changed, "read")
            .at(&inner.path)
            .because(what))
    }
}
