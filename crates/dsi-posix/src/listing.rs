//! `DirListing`: a directory being listed in batches, with each entry's facts read relative to it.

use std::sync::{Arc, Mutex, PoisonError};

use gridftp_dsi::{DsiPath, Kind, Listing, Result, Stat};
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use crate::blocking::{Work, run};
use crate::error::Outcome;
use crate::names;
use crate::root::Root;
use crate::stat::{stat_of, through};

/// Entries in one batch: few, so that their lines take little memory while a reader is slow.
const BATCH: usize = 32;

/// A directory being listed. Uploads in progress are not among its entries.
#[derive(Debug)]
pub struct DirListing {
    /// The batch read at opening.
    ready: Vec<Stat>,
    /// The kernel's position behind the last returned entry.
    at: i64,
    /// The same, once `ready` is returned.
    next: i64,
    open: Option<Arc<Mutex<Open>>>,
}

/// Entries, the kernel's position behind them, and whether there may be more.
type Batch = (Vec<Stat>, i64, bool);

#[derive(Debug)]
struct Open {
    root: Arc<Root>,
    path: DsiPath,
    dir: Dir,
    /// The kernel's position behind the last entry read.
    at: i64,
}

impl DirListing {
    /// Opens the directory and reads its first batch, which for most directories is the only one.
    pub(crate) fn begin(root: &Arc<Root>, path: &DsiPath) -> Outcome<Self> {
        let fd = root.get(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        let mut open = Open {
            root: Arc::clone(root),
            path: path.clone(),
            dir: Dir::new(fd)?,
            at: 0,
        };
        let (ready, next, more) = open.batch()?;
        Ok(Self {
            ready,
            at: 0,
            next,
            open: more.then(|| Arc::new(Mutex::new(open))),
        })
    }
}

impl Open {
    /// The next entries.
    fn batch(&mut self) -> Outcome<Batch> {
        let mut batch = Vec::new();
        while batch.len() < BATCH {
            let Some(entry) = self.dir.read() else {
                return Ok((batch, self.at, false));
            };
            let entry = entry?;
            self.at = entry.offset();
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") || names::is_reserved(name.to_bytes()) {
                continue;
            }
            let raw = match rustix::fs::statat(self.dir.fd()?, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(raw) => raw,
                // Removed since its name was read.
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let stat = stat_of(name.to_bytes(), &raw);
            batch.push(if stat.kind == Kind::Link {
                self.follow(name, stat)
            } else {
                stat
            });
        }
        Ok((batch, self.at, true))
    }

    fn follow(&self, name: &std::ffi::CStr, link: Stat) -> Stat {
        let target = self
            .dir
            .fd()
            .and_then(|dir| rustix::fs::readlinkat(dir, name, Vec::new()));
        let Ok(target) = target else { return link };
        match self.path.child(name.to_bytes()) {
            Some(path) => through(&self.root, &path, link, target.into_bytes()),
            None => link,
        }
    }
}

impl DirListing {
    /// Reads a batch on a thread that may block, from the position `from` or behind the last batch.
    async fn read(&mut self, open: &Arc<Mutex<Open>>, from: Option<i64>) -> Result<Vec<Stat>> {
        let open = Arc::clone(open);
        let (batch, next, more) = run(Work::Brief, "list", move || {
            let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
            let sought = from.map_or(Ok(()), |from| open.dir.seek(from));
            let batch = sought.map_err(Into::into).and_then(|()| open.batch());
            batch.map_err(|fault| fault.of("list", &open.path))
        })
        .await?;
        self.next = next;
        if !more {
            self.open = None;
        }
        Ok(batch)
    }
}

impl Listing for DirListing {
    /// Reads the next batch.
    ///
    /// # Cancel safety
    /// Dropping the future may lose a batch.
    async fn next(&mut self) -> Result<Vec<Stat>> {
        let mut batch = std::mem::take(&mut self.ready);
        if batch.is_empty()
            && let Some(open) = self.open.clone()
        {
            batch = self.read(&open, None).await?;
        }
        self.at = self.next;
        Ok(batch)
    }

    fn position(&self) -> Option<u64> {
        Some(self.at.cast_unsigned())
    }

    /// Reads the batch at `position`.
    ///
    /// # Cancel safety
    /// As [`next`](Self::next).
    async fn seek(&mut self, position: u64) -> Result<()> {
        if position == self.at.cast_unsigned() {
            return Ok(());
        }
        self.ready = Vec::new();
        self.at = position.cast_signed();
        self.next = self.at;
        if let Some(open) = self.open.clone() {
            self.ready = self.read(&open, Some(self.at)).await?;
        }
        Ok(())
    }
}
