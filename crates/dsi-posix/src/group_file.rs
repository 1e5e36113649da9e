//! `GroupFile`: the BLAKE3 values of the groups of a file that is sent, in a file of their own.

use std::io;
use std::path::Path;
use std::sync::Arc;

use byte_ranges::RangeSet;
use gridftp_dsi::{GroupValue, Result};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::blocking::{Work, run};
use crate::error::Fault;
use crate::sums::Sums;

/// The values of one version of a file, which outlive the process. Values of another version, and
/// those that a kill left torn, do not count.
#[derive(Debug, Clone)]
pub struct GroupFile(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    dir: OwnedFd,
    name: Vec<u8>,
    version: u64,
    sums: Sums,
}

impl GroupFile {
    /// Opens the values at `path`, where there are any, of the file with this number of its version.
    /// It blocks.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn open(path: &Path, version: u64) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let inner = Inner {
            dir: rustix::fs::open(parent, flags, Mode::empty())?,
            name: name.as_encoded_bytes().to_vec(),
            version,
            sums: Sums::default(),
        };
        let all = RangeSet::up_to(u64::MAX);
        inner.sums.reopen(inner.dir.as_fd(), &inner.name, &all)?;
        Ok(Self(Arc::new(inner)))
    }

    /// Writes the values of groups.
    ///
    /// # Errors
    /// Those of the kernel.
    ///
    /// # Cancel safety
    /// They are written also where the future is dropped.
    pub async fn note(&self, values: Vec<GroupValue>) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        let inner = Arc::clone(&self.0);
        inner.sums.note(values);
        run(Work::Long, "record", move || {
            let place = (inner.dir.as_fd(), inner.name.as_slice(), inner.version);
            let all = RangeSet::up_to(u64::MAX);
            inner.told("record", inner.sums.record(place, &all, false))
        })
        .await
    }

    /// The values of the groups in the ranges `held` that are known, in order.
    ///
    /// # Errors
    /// Those of the kernel.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn values(&self, held: &RangeSet) -> Result<Vec<GroupValue>> {
        let (inner, held) = (Arc::clone(&self.0), held.clone());
        run(Work::Long, "read back", move || {
            inner.told("read back", inner.sums.values(inner.version, &held))
        })
        .await
    }
}

impl Inner {
    fn told<T>(&self, op: &'static str, done: std::result::Result<T, Errno>) -> Result<T> {
        let name = || String::from_utf8_lossy(&self.name);
        done.map_err(|errno| Fault::from(errno).of(op, name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn values_outlive_the_process_and_are_of_one_version() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("values");
        let held = RangeSet::up_to(9 << 20);
        let file = GroupFile::open(&path, 7).unwrap();
        assert!(file.values(&held).await.unwrap().is_empty());
        let values: Vec<_> = (0..3).map(|number| (number, [9; 32])).collect();
        file.note(values.clone()).await.unwrap();
        assert_eq!(file.values(&held).await.unwrap(), values);
        drop(file);
        let known = |version| GroupFile::open(&path, version).unwrap();
        assert_eq!(known(7).values(&held).await.unwrap(), values);
        assert!(known(8).values(&held).await.unwrap().is_empty());
        let part = RangeSet::up_to(2 << 20);
        assert_eq!(known(7).values(&part).await.unwrap().len(), 2);
    }
}
