//! `Journal`: a file for each upload in parts, so that a later process continues or removes it.
//!
//! The first line names the upload, and each further line a part. A line that a crash has cut off
//! does not count. The file is locked while a sink uses it.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path as FilePath, PathBuf};
use std::time::{Duration, SystemTime};

use object_store::path::Path;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::parts::Upload;

/// Suffix of the file of an upload that a restart continues.
const KEPT: &str = "upload";

/// The first line of a journal.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    version: u32,
    store: String,
    key: String,
    id: String,
    part: u64,
    size: Option<u64>,
}

/// A stored part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stored {
    /// Its name for the completion.
    pub(crate) id: String,
    /// Its bytes.
    pub(crate) len: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    index: usize,
    #[serde(flatten)]
    stored: Stored,
}

/// The content of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) upload: Upload,
    /// Length of the object, if it was announced.
    pub(crate) size: Option<u64>,
    pub(crate) parts: BTreeMap<usize, Stored>,
}

/// A directory of journals.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    dir: PathBuf,
    /// The store, so that two of them may share a directory.
    store: String,
}

/// A journal that this process uses; dropping it unlocks it.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
}

impl Index {
    /// Opens a directory, creating it if it is missing.
    pub(crate) fn open(dir: &FilePath, store: &str) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        Ok(Self {
            dir: dir.to_owned(),
            store: store.to_owned(),
        })
    }

    /// The file of the upload to `key` that a restart continues.
    fn path(&self, key: &Path) -> PathBuf {
        let digest = Sha256::new()
            .chain_update(self.store.as_bytes())
            .chain_update([0])
            .chain_update(key.as_ref().as_bytes())
            .finalize();
        let name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        self.dir.join(name).with_extension(KEPT)
    }

    /// Records a new upload. The journal is that of the key if `kept`, else a further one, which
    /// only the sweep reads.
    pub(crate) fn create(
        &self,
        upload: &Upload,
        size: Option<u64>,
        kept: bool,
    ) -> io::Result<Journal> {
        let mut path = self.path(&upload.key);
        if !kept {
            path = aside(&path, upload);
        }
        let head = Head {
            version: 1,
            store: self.store.clone(),
            key: upload.key.to_string(),
            id: upload.id.clone(),
            part: upload.part,
            size,
        };
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let mut journal = Journal { file, path };
        journal.line(&head)?;
        journal.file.sync_all()?;
        File::open(&self.dir)?.sync_all()?;
        Ok(journal)
    }

    /// Reads the upload to `key` without its lock.
    pub(crate) fn peek(&self, key: &Path) -> io::Result<Option<Kept>> {
        match File::open(self.path(key)) {
            Ok(mut file) => Ok(read(&mut file)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Locks the upload to `key`; `None` if there is none.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] while a sink uses it.
    pub(crate) fn lock(&self, key: &Path) -> io::Result<Option<(Journal, Option<Kept>)>> {
        lock(self.path(key))
    }

    /// Locks the uploads that were not written to for `age` and that no sink uses.
    pub(crate) fn stale(&self, age: Duration) -> io::Result<Vec<(Journal, Option<Kept>)>> {
        let mut stale = Vec::new();
        for entry in std::fs::read_dir(&self.dir)? {
            let entry = entry?;
            let written = entry.metadata().and_then(|meta| meta.modified());
            let is_old = written.is_ok_and(|written| {
                let now = SystemTime::now();
                now.duration_since(written).is_ok_and(|idle| idle >= age)
            });
            if !is_old || !entry.file_type()?.is_file() {
                continue;
            }
            if let Ok(Some((journal, kept))) = lock(entry.path())
                && self.is_own(&journal)?
            {
                stale.push((journal, kept));
            }
        }
        Ok(stale)
    }

    /// Whether a journal is of this store.
    fn is_own(&self, journal: &Journal) -> io::Result<bool> {
        let text = std::fs::read_to_string(&journal.path)?;
        let head = text.lines().next().unwrap_or_default();
        let head: Option<Head> = serde_json::from_str(head).ok();
        Ok(head.is_some_and(|head| head.store == self.store))
    }
}

/// The name of a journal that only the sweep reads.
fn aside(path: &FilePath, upload: &Upload) -> PathBuf {
    let digest = Sha256::digest(upload.id.as_bytes());
    let name: String = digest
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    path.with_extension(name)
}

/// Opens and locks a journal that still has its name afterwards.
fn lock(path: PathBuf) -> io::Result<Option<(Journal, Option<Kept>)>> {
    loop {
        let opened = OpenOptions::new().read(true).append(true).open(&path);
        let mut file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let here = file.metadata()?;
        // The owner before may have removed it between the two calls.
        let is_same = std::fs::metadata(&path)
            .is_ok_and(|there| (there.dev(), there.ino()) == (here.dev(), here.ino()));
        if is_same {
            let kept = read(&mut file)?;
            // A line that was cut off must not begin the next one.
            let text = std::fs::read(&path)?;
            let whole = text.iter().rposition(|byte| *byte == b'\n');
            file.set_len(whole.map_or(0, |end| end as u64 + 1))?;
            return Ok(Some((Journal { file, path }, kept)));
        }
    }
}

/// The content of a journal; `None` without a whole first line.
fn read(file: &mut File) -> io::Result<Option<Kept>> {
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    // Only lines with their end are whole.
    let whole = text
        .rfind('\n')
        .and_then(|end| text.get(..end))
        .unwrap_or_default();
    let mut lines = whole.lines();
    let head = lines.next().unwrap_or_default();
    let Ok(head) = serde_json::from_str::<Head>(head) else {
        return Ok(None);
    };
    let Ok(key) = Path::parse(&head.key) else {
        return Ok(None);
    };
    let upload = Upload {
        key,
        id: head.id,
        part: head.part,
    };
    let lines = lines.filter_map(|line| serde_json::from_str::<Line>(line).ok());
    Ok((head.version == 1 && head.part > 0).then(|| Kept {
        upload,
        size: head.size,
        parts: lines.map(|line| (line.index, line.stored)).collect(),
    }))
}

impl Journal {
    fn line(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(value)?;
        text.push(b'\n');
        self.file.write_all(&text)
    }

    /// Records parts, on stable storage if `durable`.
    pub(crate) fn record(&mut self, parts: &[(usize, Stored)], durable: bool) -> io::Result<()> {
        for (index, stored) in parts.iter().cloned() {
            self.line(&Line { index, stored })?;
        }
        if durable {
            self.file.sync_data()?;
        }
        Ok(())
    }

    /// Leaves the name to the next upload of the key.
    pub(crate) fn set_aside(&mut self, upload: &Upload) -> io::Result<()> {
        let other = aside(&self.path, upload);
        std::fs::rename(&self.path, &other)?;
        self.path = other;
        Ok(())
    }

    /// Removes the journal.
    pub(crate) fn remove(self) -> io::Result<()> {
        std::fs::remove_file(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upload(key: &str) -> Upload {
        Upload {
            key: Path::parse(key).unwrap(),
            id: format!("id of {key}"),
            part: 10,
        }
    }

    fn stored(id: &str, len: u64) -> Stored {
        Stored { id: id.into(), len }
    }

    #[test]
    fn recorded_parts_are_read_again_and_a_cut_line_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let index = Index::open(dir.path(), "s3://b").unwrap();
        let upload = upload("a/é%");
        let mut journal = index.create(&upload, Some(99), true).unwrap();
        let parts = [stored("\"e1\"", 10), stored("<x>", 10)];
        journal
            .record(&[(3, parts[0].clone()), (0, parts[1].clone())], true)
            .unwrap();
        journal.file.write_all(b"{\"index\":1,\"id\":\"cu").unwrap();
        let kept = index.peek(&upload.key).unwrap().unwrap();
        assert_eq!((kept.size, &kept.upload), (Some(99), &upload));
        assert_eq!(kept.parts.keys().collect::<Vec<_>>(), [&0, &3]);
        assert_eq!(kept.parts[&3], parts[0]);
        let busy = index.lock(&upload.key).unwrap_err();
        assert_eq!(busy.kind(), io::ErrorKind::WouldBlock);
        drop(journal);
        let (mut journal, again) = index.lock(&upload.key).unwrap().unwrap();
        assert_eq!(again.as_ref(), Some(&kept));
        journal.record(&[(1, parts[0].clone())], false).unwrap();
        let kept = index.peek(&upload.key).unwrap().unwrap();
        assert_eq!(kept.parts.keys().collect::<Vec<_>>(), [&0, &1, &3]);
        journal.remove().unwrap();
        assert!(index.lock(&upload.key).unwrap().is_none());
    }

    #[test]
    fn the_sweep_takes_old_journals_of_its_store_alone() {
        let dir = tempfile::tempdir().unwrap();
        let index = Index::open(dir.path(), "s3://b").unwrap();
        let other = Index::open(dir.path(), "s3://c").unwrap();
        drop(index.create(&upload("a"), None, true).unwrap());
        drop(index.create(&upload("a"), None, false).unwrap());
        drop(other.create(&upload("a"), None, true).unwrap());
        let used = index.create(&upload("b"), None, true).unwrap();
        assert_eq!(index.stale(Duration::from_secs(60)).unwrap().len(), 0);
        assert_eq!(index.stale(Duration::ZERO).unwrap().len(), 2);
        drop(used);
    }
}
