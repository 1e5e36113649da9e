//! Ways to open a `FileSink`.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use byte_ranges::RangeSet;
use gridftp_dsi::{Create, ErrorKind, Result};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{FileSink, Inner, Way};
use crate::blocking::{Work, run, run_until_dropped};
use crate::error::{Fault, Outcome};
use crate::first::FirstBlock;
use crate::in_place::InPlace;
use crate::journal::Origin;
use crate::partial::Begin;
use crate::root::{Target, is_regular, local_target};
use crate::shared::{Joined, Token};
use crate::whole::Whole;

impl FileSink {
    /// Opens the file of this machine at `path` for writing.
    ///
    /// An existing object that is no regular file (`/dev/null`, a FIFO) is written directly, for
    /// any `how`. With `sync`, `finish` returns once the file and its name are on the medium.
    ///
    /// # Errors
    /// Errors of the kernel; [`ErrorKind::Busy`] while another upload continues the partial file.
    pub async fn create(path: &Path, how: Create, sync: bool) -> Result<Self> {
        Self::create_from(path, how, None, sync).await
    }

    /// As [`create`](Self::create) of a whole file that is a copy of `origin`: continues the partial
    /// file of an earlier attempt, of which [`held`](gridftp_dsi::Sink::held) tells the bytes. One of
    /// another origin is removed, which [`is_other_removed`](Self::is_other_removed) tells.
    ///
    /// # Errors
    /// Those of `create`.
    pub async fn resume(path: &Path, origin: Origin, sync: bool) -> Result<Self> {
        let size = Some(origin.size());
        Self::create_from(path, Create::Resume { size }, Some(origin), sync).await
    }

    async fn create_from(
        path: &Path,
        how: Create,
        origin: Option<Origin>,
        sync: bool,
    ) -> Result<Self> {
        let shown = path.display().to_string();
        let (path, name) = (path.to_path_buf(), shown.clone());
        let opened = run(Work::Brief, "create", move || {
            let fail = |fault: Fault| fault.of("create", &name);
            let mut target = local_target(&path).map_err(fail)?;
            target.origin = origin.map(Box::new);
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

    /// Opens the upload to `target` that the token was made for.
    pub(crate) fn join(target: Target, token: Token, path: String) -> Outcome<Self> {
        let way = Way::Joined(Joined::open(&target, token)?);
        Ok(Self::new(way, target.name, path, false, RangeSet::new()))
    }

    /// Binds the tokens of the upload to the user called `name`.
    pub(crate) fn of_user(mut self, name: String) -> Self {
        self.user = name;
        self
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
                recording: Mutex::new(0),
                records: AtomicU64::new(0),
                mark: OnceLock::new(),
                holes: OnceLock::new(),
                beside: OnceLock::new(),
                expected: OnceLock::new(),
            }),
            held,
            checks: AtomicBool::new(false),
            user: String::new(),
        }
    }
}

/// The range of all bytes of the file.
fn size_of(file: BorrowedFd<'_>) -> Outcome<RangeSet> {
    let size = rustix::fs::fstat(file)?.st_size;
    Ok(RangeSet::up_to(u64::try_from(size).unwrap_or(0)))
}
