//! `Journal`: a file for each upload in parts, so that a later process continues or removes it.
//!
//! The first line names the upload, and each further line a part, or the values of some groups of
//! 1 MiB. The line of a part replaces the earlier lines of its bytes; that of a part without bytes only
//! removes them. A line that a crash has cut off does not count. The file is locked while a sink uses
//! it, and written anew by the next sink if the process of that one is frozen.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path as FilePath, PathBuf};
use std::time::{Duration, SystemTime};

use byte_ranges::RangeSet;
use digest_tree::{GROUP, Hash, Value, groups_in};
use gridftp_dsi::GroupValue;
use object_store::path::Path;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::outcome::random;
use crate::owner::{FROZEN, FileId, Heartbeat, NEXT, take_over};
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

/// The line of a part.
#[derive(Debug, Serialize, Deserialize)]
struct PartLine {
    index: usize,
    #[serde(flatten)]
    stored: Stored,
}

/// The line of the values of groups in a row, from the number `group` on.
#[derive(Debug, Serialize, Deserialize)]
struct GroupsLine {
    group: u64,
    /// In hexadecimal.
    values: String,
}

/// The begin of a line of values, which are many: most readers need none of them.
const GROUPS: &[u8] = b"{\"group\"";

/// The lines that a record adds to a journal.
#[derive(Debug, Default)]
pub(crate) struct Fresh {
    /// Parts whose lines are removed.
    pub(crate) gone: Vec<(usize, Stored)>,
    pub(crate) parts: Vec<(usize, Stored)>,
    /// Values of groups of these and earlier parts, in order.
    pub(crate) values: Vec<GroupValue>,
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
    id: FileId,
    path: PathBuf,
    /// Whether a write has failed: a line may be cut off, or not be on stable storage although a
    /// later flush succeeds.
    has_failed: bool,
}

/// Whether another process has taken an upload over.
pub(crate) fn is_lost(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::StaleNetworkFileHandle
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
            path = aside(&path);
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
        let mut journal = Journal::new(file, path)?;
        journal.line(&head)?;
        journal.file.sync_all()?;
        File::open(&self.dir)?.sync_all()?;
        Ok(journal)
    }

    /// Reads the upload to `key` without its lock.
    pub(crate) fn peek(&self, key: &Path) -> io::Result<Option<Kept>> {
        match std::fs::read(self.path(key)) {
            Ok(text) => Ok(parse(&text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Locks the upload to `key`, or takes it over from a frozen process; `None` if there is none.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] while a sink uses it.
    pub(crate) fn lock(&self, key: &Path) -> io::Result<Option<(Journal, Option<Kept>)>> {
        let locked = lock(self.path(key))?;
        if let Some((journal, _)) = &locked {
            // Its time tells how long the last owner has been gone.
            journal.id.touch(&journal.path)?;
        }
        Ok(locked)
    }

    /// The journals of this store that were not written to for `age` and that no sink uses.
    ///
    /// One at a time is open, and none is changed: its time tells its age to every sweep.
    pub(crate) fn stale(&self, age: Duration) -> io::Result<Vec<PathBuf>> {
        let mut stale = Vec::new();
        for entry in std::fs::read_dir(&self.dir)? {
            let entry = entry?;
            if !entry.metadata().is_ok_and(|meta| is_old(&meta, age)) {
                continue;
            }
            match suffix(&entry.file_name()) {
                // A process has ended while it took an upload over; a sweep beside this one may have
                // removed it.
                Some(Suffix::Next) => drop(std::fs::remove_file(entry.path())),
                Some(Suffix::Journal) if self.is_abandoned(&entry.path()) => {
                    stale.push(entry.path());
                }
                _ => {}
            }
        }
        Ok(stale)
    }

    /// Locks a journal that [`stale`](Self::stale) named; `None` if it was used meanwhile.
    pub(crate) fn take(
        &self,
        path: PathBuf,
        age: Duration,
    ) -> io::Result<Option<(Journal, Option<Kept>)>> {
        let is_still_old = std::fs::metadata(&path).is_ok_and(|meta| is_old(&meta, age));
        match lock(path) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            done => {
                let taken = done?.filter(|_| is_still_old);
                if let Some((journal, _)) = &taken {
                    journal.id.touch(&journal.path)?;
                }
                Ok(taken)
            }
        }
    }

    /// Gives a journal, which a sweep has touched, its age again.
    pub(crate) fn set_age(path: &FilePath, age: Duration) -> io::Result<()> {
        let file = OpenOptions::new().append(true).open(path)?;
        file.set_modified(
            SystemTime::now()
                .checked_sub(age)
                .unwrap_or(SystemTime::UNIX_EPOCH),
        )
    }

    /// Whether a journal is of this store and no sink uses it, or one of a frozen process.
    fn is_abandoned(&self, path: &FilePath) -> bool {
        let Ok(mut file) = OpenOptions::new().read(true).append(true).open(path) else {
            return false;
        };
        let is_frozen = || file.metadata().is_ok_and(|meta| is_old(&meta, FROZEN));
        let is_used = flock(&file, FlockOperation::NonBlockingLockExclusive).is_err();
        let mut text = Vec::new();
        if (is_used && !is_frozen()) || file.read_to_end(&mut text).is_err() {
            return false;
        }
        // A journal without a whole first line is of no store: its process was killed meanwhile.
        head(&text).is_none_or(|head| head.store == self.store)
    }
}

/// The files of this module in the directory; all others are not ours.
enum Suffix {
    Journal,
    /// A journal without its name yet.
    Next,
}

fn suffix(name: &OsStr) -> Option<Suffix> {
    let is_hex = |text: &str, len| {
        let mut bytes = text.bytes();
        text.len() == len && bytes.all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let (key, suffix) = name.to_str()?.split_once('.')?;
    match suffix {
        _ if !is_hex(key, 64) => None,
        NEXT => Some(Suffix::Next),
        KEPT => Some(Suffix::Journal),
        _ => is_hex(suffix, 16).then_some(Suffix::Journal),
    }
}

fn is_old(meta: &Metadata, age: Duration) -> bool {
    let idle = meta
        .modified()
        .map(|written| SystemTime::now().duration_since(written));
    meta.is_file() && idle.is_ok_and(|idle| idle.is_ok_and(|idle| idle >= age))
}

/// A name of a journal that only the sweep reads.
fn aside(path: &FilePath) -> PathBuf {
    path.with_extension(random())
}

/// Opens and locks a journal that still has its name afterwards, or takes it over from a frozen
/// process.
fn lock(path: PathBuf) -> io::Result<Option<(Journal, Option<Kept>)>> {
    loop {
        let opened = OpenOptions::new().read(true).append(true).open(&path);
        let mut file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
            if error.kind() != io::ErrorKind::WouldBlock {
                return Err(error.into());
            }
            return match take_over(&path) {
                // Its sink has ended the upload meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                taken => {
                    let (file, text) = taken?;
                    Ok(Some((Journal::new(file, path)?, parse(&text))))
                }
            };
        }
        // The owner before may have removed it between the two calls.
        if FileId::named(&path)? == Some(FileId::of(&file)?) {
            let mut text = Vec::new();
            file.read_to_end(&mut text)?;
            // A line that was cut off must not begin the next one.
            let whole = whole(&text).len();
            if whole < text.len() {
                file.set_len(whole as u64)?;
            }
            let kept = parse(&text);
            return Ok(Some((Journal::new(file, path)?, kept)));
        }
    }
}

/// The lines of a journal that have their end; a crash may have cut off the last one.
pub(crate) fn whole(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte == b'\n');
    text.get(..end.map_or(0, |end| end + 1)).unwrap_or_default()
}

/// The first line of a journal.
fn head(text: &[u8]) -> Option<Head> {
    let line = whole(text).split(|byte| *byte == b'\n').next()?;
    serde_json::from_slice(line).ok()
}

/// The content of a journal; `None` without a whole first line.
fn parse(text: &[u8]) -> Option<Kept> {
    let head = head(text).filter(|head| head.version == 1 && head.part > 0)?;
    let upload = Upload {
        key: Path::parse(&head.key).ok()?,
        id: head.id,
        part: head.part,
    };
    let lines = lines(text).filter(|line| !line.starts_with(GROUPS));
    let lines = lines.filter_map(|line| serde_json::from_slice::<PartLine>(line).ok());
    let mut parts: BTreeMap<_, _> = lines.map(|line| (line.index, line.stored)).collect();
    parts.retain(|_, stored| stored.len > 0);
    Some(Kept {
        upload,
        size: head.size,
        parts,
    })
}

/// The lines behind the first.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    whole(text).split(|byte| *byte == b'\n').skip(1)
}

/// The values in a line of values.
fn values_of(line: &[u8]) -> Option<impl Iterator<Item = GroupValue>> {
    let GroupsLine { group, values } = serde_json::from_slice(line).ok()?;
    let (digits, _) = values.as_bytes().as_chunks::<64>();
    let values: Result<Vec<_>, _> = digits.iter().map(Hash::from_hex).collect();
    Some((group..).zip(values.ok()?.into_iter().map(Value::from)))
}

/// The lines for these values, which are sorted by number.
fn lines_of(values: &[GroupValue]) -> impl Iterator<Item = GroupsLine> {
    let runs = values.chunk_by(|(number, _), (next, _)| number.checked_add(1) == Some(*next));
    runs.filter_map(|run| {
        let (group, _) = run.first()?;
        let values = run.iter().map(|(_, value)| Hash::from(*value).to_hex());
        Some(GroupsLine {
            group: *group,
            values: values.map(|hex| hex.to_string()).collect(),
        })
    })
}

impl Journal {
    fn new(file: File, path: PathBuf) -> io::Result<Self> {
        Ok(Self {
            id: FileId::of(&file)?,
            file,
            path,
            has_failed: false,
        })
    }

    fn line(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(value)?;
        text.push(b'\n');
        self.file.write_all(&text)
    }

    /// The recorded values of the groups in `held`, of parts of `part` bytes.
    pub(crate) fn values(&self, part: u64, held: &RangeSet) -> io::Result<Vec<GroupValue>> {
        let mut values = BTreeMap::new();
        for line in lines(&std::fs::read(&self.path)?) {
            if line.starts_with(GROUPS) {
                values.extend(values_of(line).into_iter().flatten());
            } else if let Ok(line) = serde_json::from_slice::<PartLine>(line) {
                let start = part.saturating_mul(line.index as u64);
                let end = start.saturating_add(part).div_ceil(GROUP);
                let mut replaced = values.split_off(&(start / GROUP));
                values.extend(replaced.split_off(&end));
            }
        }
        let numbers = groups_in(held);
        values.retain(|group, _| numbers.contains(*group));
        Ok(values.into_iter().collect())
    }

    /// Writes the fresh lines, on stable storage if `durable`; none after a failed write.
    pub(crate) fn record(&mut self, fresh: &Fresh, durable: bool) -> io::Result<()> {
        self.must_own()?;
        if self.has_failed {
            return Err(io::Error::other("an earlier write to it failed"));
        }
        let recorded = self.append(fresh, durable);
        self.has_failed = recorded.is_err();
        recorded
    }

    /// Fails once another sink has written the journal anew.
    fn must_own(&self) -> io::Result<()> {
        self.id.must_have(&self.path)
    }

    /// Tells other processes that this one works, until the result is dropped.
    pub(crate) fn heartbeat(&self) -> Heartbeat {
        Heartbeat::of(self.id, self.path.clone())
    }

    fn append(&mut self, fresh: &Fresh, durable: bool) -> io::Result<()> {
        let none = Stored {
            id: String::new(),
            len: 0,
        };
        let gone = fresh.gone.iter().map(|(index, _)| (*index, none.clone()));
        for (index, stored) in gone.chain(fresh.parts.iter().cloned()) {
            self.line(&PartLine { index, stored })?;
        }
        for line in lines_of(&fresh.values) {
            self.line(&line)?;
        }
        if durable {
            self.file.sync_data()?;
        }
        // The next owner may have read it before.
        self.must_own()
    }

    /// Leaves the name to the next upload of the key.
    pub(crate) fn set_aside(&mut self) -> io::Result<()> {
        self.must_own()?;
        let other = aside(&self.path);
        std::fs::rename(&self.path, &other)?;
        self.path = other;
        Ok(())
    }

    /// Removes the journal, unless another sink has it now.
    pub(crate) fn remove(self) -> io::Result<()> {
        match self.must_own() {
            Err(error) if is_lost(&error) => Ok(()),
            Err(error) => Err(error),
            Ok(()) => std::fs::remove_file(&self.path),
        }
    }
}

#[cfg(test)]
mod tests;
