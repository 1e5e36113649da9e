//! `Whole`: an upload that shows under its name once it is whole, under a hidden one until then if it needs any.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use byte_ranges::RangeSet;
use gridftp_dsi::{Finish, Stat};
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::complete::{dress, settle_size, verify};
use crate::copy::write_all;
use crate::error::Outcome;
use crate::journal;
use crate::late;
use crate::names::Names;
use crate::part::{Begin, Part};
use crate::root::Target;
use crate::stat::stat_of;

/// A first block of at most this many bytes waits for the next operation, so that a small file
/// is written and published in one hop.
pub(crate) const SMALL: usize = 64 * 1024;

/// Whether files without a name can be made and named here, as far as is known.
static UNNAMED: AtomicBool = AtomicBool::new(true);

/// An upload that `publish` gives its name.
///
/// A new file that is said to be small begins under no name at all: its bytes wait in memory, and
/// the kernel makes file and name in one go, so that whoever is killed leaves nothing. As soon as
/// anything else is asked of it, it becomes a [`Part`], as all others are from the start.
#[derive(Debug)]
pub(crate) struct Whole {
    part: OnceLock<Box<Part>>,
    /// Where it goes, for one that began without a name.
    target: Mutex<Option<Target>>,
}

impl Whole {
    /// Begins an upload to `target`, or goes on with what an earlier one left; says what is held.
    ///
    /// The copy for an update ends once `stop` is raised.
    pub(crate) fn begin(
        target: Target,
        how: Begin,
        size: Option<u64>,
        stop: &AtomicBool,
    ) -> Outcome<(Self, RangeSet)> {
        let small = size.is_some_and(|size| size <= SMALL as u64);
        // What an earlier upload left would otherwise be continued behind these bytes.
        if small && how == Begin::Anew && target.old.is_none() && is_new(&target) {
            let whole = Self {
                part: OnceLock::new(),
                target: Mutex::new(Some(target)),
            };
            return Ok((whole, RangeSet::new()));
        }
        let (part, held) = Part::begin(target, how, size, stop)?;
        let whole = Self {
            part: OnceLock::from(Box::new(part)),
            target: Mutex::new(None),
        };
        Ok((whole, held))
    }

    /// Size of the file that had the target's name at the beginning.
    pub(crate) fn replaces(&self) -> u64 {
        self.part.get().map_or(0, |part| part.replaces())
    }

    /// Size of the published file that this is an update of.
    pub(crate) fn updates(&self) -> Option<u64> {
        self.part.get()?.updates()
    }

    /// Has nothing of it kept.
    pub(crate) fn give_up(&self) {
        if let Some(part) = self.part.get() {
            part.give_up();
        }
    }

    /// The upload under its hidden name, which it gets now if it had none.
    pub(crate) fn part(&self) -> Outcome<&Part> {
        if let Some(part) = self.part.get() {
            return Ok(part);
        }
        let target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        if self.part.get().is_none()
            && let Some(target) = &*target
        {
            // A copy, so that a failure leaves another try.
            let target = Target {
                dir: target.dir.try_clone().map_err(|_| Errno::MFILE)?,
                name: target.name.clone(),
                old: target.old,
                index: target.index.clone(),
            };
            let (part, _) = Part::begin(target, Begin::Anew, None, &AtomicBool::new(false))?;
            let _ = self.part.set(Box::new(part));
        }
        let part = self.part.get();
        Ok(part.expect("there is a target or a part, and the one has just become the other"))
    }

    /// Makes a new file of nothing but `data` at `offset` and names it; `None` when it has to be
    /// published as a [`Part`].
    pub(crate) fn publish_at_once(
        &self,
        offset: u64,
        data: &[u8],
        done: &Finish,
        sync: bool,
    ) -> Outcome<Option<Stat>> {
        let target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Target { dir, name, .. }) = &*target else {
            return Ok(None);
        };
        if self.part.get().is_some() || !UNNAMED.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(dir, c".", flags, Mode::from_raw_mode(0o666)) {
            Ok(file) => file,
            Err(Errno::OPNOTSUPP | Errno::ISDIR) => {
                UNNAMED.store(false, Ordering::Relaxed);
                return Ok(None);
            }
            Err(_) => return Ok(None),
        };
        let fd = file.as_fd();
        write_all(fd, data, offset)?;
        settle_size(fd, done)?;
        verify(fd, done)?;
        dress(fd, done.mode, done.modified)?;
        late::settle(fd, sync)?;
        match rustix::fs::linkat(&file, c"", dir, name.as_slice(), AtFlags::EMPTY_PATH) {
            Ok(()) => {}
            // Somebody has taken the name meanwhile.
            Err(Errno::EXIST) => return Ok(None),
            // Older kernels leave this to the superuser; a part will say what else is wrong.
            Err(_) => {
                UNNAMED.store(false, Ordering::Relaxed);
                return Ok(None);
            }
        }
        if sync {
            journal::sync_dir(dir.as_fd())?;
        }
        Ok(Some(stat_of(name.as_slice(), &rustix::fs::fstat(fd)?)))
    }
}

/// Whether no earlier upload left anything.
fn is_new(target: &Target) -> bool {
    let part = Names::of(&target.name).part;
    let there = rustix::fs::statat(&target.dir, part.as_slice(), AtFlags::SYMLINK_NOFOLLOW);
    matches!(there, Err(Errno::NOENT))
}
