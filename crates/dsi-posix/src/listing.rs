//! A directory being listed, in batches, each entry looked at relative to the directory itself.

use std::sync::{Arc, Mutex, PoisonError};

use gridftp_dsi::{DsiPath, Kind, Listing, Result, Stat};
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;

use crate::error::Outcome;
use crate::hop::{Pace, hop};
use crate::names;
use crate::root::Root;
use crate::stat::{stat_of, through};

/// Entries in one batch.
const BATCH: usize = 256;

/// A directory being listed. Uploads in progress are not among its entries.
#[derive(Debug)]
pub struct DirListing {
    /// What was read with the opening.
    ready: Vec<Stat>,
    open: Option<Arc<Mutex<Open>>>,
}

#[derive(Debug)]
struct Open {
    root: Arc<Root>,
    path: DsiPath,
    dir: Dir,
}

impl DirListing {
    /// Opens the directory and reads its first batch, which for most directories is all.
    pub(crate) fn begin(root: &Arc<Root>, path: &DsiPath) -> Outcome<Self> {
        let fd = root.get(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        let mut open = Open {
            root: Arc::clone(root),
            path: path.clone(),
            dir: Dir::new(fd)?,
        };
        let (ready, more) = open.batch()?;
        Ok(Self {
            ready,
            open: more.then(|| Arc::new(Mutex::new(open))),
        })
    }
}

impl Open {
    /// The next entries, and whether there may be more.
    fn batch(&mut self) -> Outcome<(Vec<Stat>, bool)> {
        let mut batch = Vec::new();
        while batch.len() < BATCH {
            let Some(entry) = self.dir.read() else {
                return Ok((batch, false));
            };
            let entry = entry?;
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
        Ok((batch, true))
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

impl Listing for DirListing {
    /// Reads the next batch.
    ///
    /// # Cancel safety
    /// Dropping the future may lose the batch that it was about to give.
    async fn next(&mut self) -> Result<Vec<Stat>> {
        if !self.ready.is_empty() {
            return Ok(std::mem::take(&mut self.ready));
        }
        let Some(open) = self.open.as_ref().map(Arc::clone) else {
            return Ok(Vec::new());
        };
        let (batch, more) = hop(Pace::Brief, "list", move || {
            let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
            open.batch().map_err(|fault| fault.of("list", &open.path))
        })
        .await?;
        if !more {
            self.open = None;
        }
        Ok(batch)
    }
}
