//! `GridMapFile`: a grid-mapfile that is read again when it changes.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use gsi::gridmap::{GridMap, Mapping, Unmapped};
use gsi::name::Name;
use gsi::verify::Peer;
use tracing::{info, warn};

use crate::file::{self, FileError};
use crate::pool;
use crate::trust::INTERVAL;

/// Bound of the file, in bytes.
const MAX_FILE: u64 = 64 * 1024 * 1024;

/// A grid-mapfile, as the [`Mapping`] of peers to local names.
///
/// Mappings are those of the file at the last look; [`refreshed`](Self::refreshed) looks again after
/// some seconds. A file that is gone or cannot be read maps nobody.
#[derive(Debug)]
pub struct GridMapFile {
    path: PathBuf,
    /// The directory with the leases of pool accounts.
    leases: Option<PathBuf>,
    map: RwLock<Arc<GridMap>>,
    looked: Mutex<Looked>,
}

#[derive(Debug)]
struct Looked {
    at: Instant,
    /// `None` where the file could not be read.
    stamp: Option<Stamp>,
}

/// Device, inode, time of modification and size.
type Stamp = (u64, u64, i64, i64, u64);

impl GridMapFile {
    /// Reads a file. Lines that are no entries are logged.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, FileError> {
        let path = path.into();
        let (map, stamp) = read(&path)?;
        Ok(Self {
            path,
            leases: None,
            map: RwLock::new(Arc::new(map)),
            looked: Mutex::new(Looked {
                at: Instant::now(),
                stamp: Some(stamp),
            }),
        })
    }

    /// Leases accounts of pools in this directory, `GRIDMAPDIR`; without one nobody gets any.
    #[must_use]
    pub fn leases(self, directory: Option<PathBuf>) -> Self {
        Self {
            leases: directory,
            ..self
        }
    }

    /// The local name of an identity: the requested one if it is listed, or else the first. Of a pool
    /// the identity leases an account, if it has none.
    ///
    /// # Errors
    /// The identity has no local name, or not the requested one.
    ///
    /// # Cancel safety
    /// A lease may be made when the future is dropped.
    pub async fn local_name(
        self: &Arc<Self>,
        identity: &Name,
        requested: Option<&str>,
    ) -> Result<String, Unmapped> {
        self.refreshed().await;
        let mapped = self.map().local_name(identity, requested);
        let (Err(Unmapped::Pool { identity, pool }), Some(directory)) = (&mapped, &self.leases)
        else {
            return mapped;
        };
        let (directory, name, line) = (directory.clone(), pool.clone(), identity.to_string());
        let leasing = tokio::task::spawn_blocking(move || {
            pool::lease(&directory, &name, &line)
                .inspect_err(|error| warn!(directory = %directory.display(), %error, "no lease"))
        });
        let reason = match leasing.await {
            Ok(Ok(Some(account))) => return Ok(account),
            Ok(Ok(None)) => {
                return Err(Unmapped::Exhausted {
                    identity: identity.clone(),
                    pool: pool.clone(),
                });
            }
            Ok(Err(error)) => {
                format!("no account of the pool {pool}: {error}; see the server's GRIDMAPDIR")
            }
            Err(error) => error.to_string(),
        };
        Err(Unmapped::Refused {
            identity: identity.clone(),
            reason,
        })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The entries as of the last look.
    #[must_use]
    pub fn map(&self) -> Arc<GridMap> {
        Arc::clone(&self.map.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks for a change, if the last look was some seconds before `now`. It reads the file.
    pub fn refresh(&self, now: Instant) {
        let Ok(mut looked) = self.looked.try_lock() else {
            // Somebody else looks.
            return;
        };
        if now.saturating_duration_since(looked.at) < INTERVAL {
            return;
        }
        looked.at = now;
        let stamp = file::open(&self.path).and_then(|file| stamp(&self.path, &file));
        let unchanged = match (&stamp, looked.stamp) {
            (Ok(now), Some(before)) => *now == before,
            (Err(_), None) => true,
            _ => false,
        };
        if unchanged {
            return;
        }
        let map = match read(&self.path) {
            Ok((map, stamp)) => {
                info!(file = %self.path.display(), entries = map.len(), "grid-mapfile read again");
                looked.stamp = Some(stamp);
                map
            }
            Err(error) => {
                warn!("grid-mapfile {error}; it maps nobody until it can be read");
                looked.stamp = None;
                GridMap::default()
            }
        };
        *self.map.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(map);
    }

    /// Looks for a change on another thread, if the last look was some seconds ago.
    ///
    /// # Cancel safety
    /// The look goes on when the future is dropped.
    pub async fn refreshed(self: &Arc<Self>) {
        let now = Instant::now();
        let file = Arc::clone(self);
        // A panic there leaves the mappings as they were.
        let _ = tokio::task::spawn_blocking(move || file.refresh(now)).await;
    }
}

impl Mapping for GridMapFile {
    fn map(&self, peer: &Peer, requested: Option<&str>) -> Result<String, Unmapped> {
        Mapping::map(&*self.map(), peer, requested)
    }
}

fn read(path: &Path) -> Result<(GridMap, Stamp), FileError> {
    let file = file::open(path)?;
    let stamp = stamp(path, &file)?;
    let map = GridMap::parse(&file::contents(path, &file, MAX_FILE)?);
    for fault in map.faults() {
        warn!(file = %path.display(), "{fault}; the line is passed over");
    }
    Ok((map, stamp))
}

fn stamp(path: &Path, file: &std::fs::File) -> Result<Stamp, FileError> {
    let metadata = file
        .metadata()
        .map_err(|error| FileError::io(path, error))?;
    Ok((
        metadata.dev(),
        metadata.ino(),
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.len(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_changed_file_is_read_again_and_a_missing_one_maps_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("grid-mapfile");
        fs::write(&path, "\"/O=Grid/CN=Alice Lab\" alice\n").unwrap();
        let file = GridMapFile::open(&path).unwrap();
        assert_eq!(file.map().len(), 1);

        let start = Instant::now();
        fs::write(&path, "\"/O=Grid/CN=Alice Lab\" alice\n\"/CN=b\" bob\n").unwrap();
        file.refresh(start);
        assert_eq!(file.map().len(), 1, "too early to look");
        file.refresh(start + INTERVAL);
        assert_eq!(file.map().len(), 2);
        let held = file.map();
        file.refresh(start + 2 * INTERVAL);
        assert!(Arc::ptr_eq(&held, &file.map()), "nothing changed");

        fs::remove_file(&path).unwrap();
        file.refresh(start + 3 * INTERVAL);
        assert!(file.map().is_empty());
        fs::write(&path, "\"/CN=b\" bob\n").unwrap();
        file.refresh(start + 4 * INTERVAL);
        assert_eq!(file.map().len(), 1);
        let error = GridMapFile::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("no regular file"), "{error}");
    }
}
