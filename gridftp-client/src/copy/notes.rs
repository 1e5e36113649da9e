//! Notes of uploads under way on disk, by which a later run goes on with them.
//!
//! A note belongs to one destination. It names the version of the source, the hidden name that is
//! written, and the ranges that the server has told it holds; the server proves them before it goes
//! on. The process that writes a note has it locked, so that two never write to one hidden name.
//! Beside a note may be the values of the groups of the source that were sent.

use std::collections::HashSet;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use byte_ranges::RangeSet;
use ftp_wire::path::FtpPath;
use gridftp_dsi::Version;
use gridftp_dsi::hasher::Hasher;
use gridftp_dsi::types::ChecksumAlgorithm;
use gridftp_dsi_posix::GroupFile;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::pull::land::make_dirs;
use super::{lock, run_record};
use crate::partials::OLD;

const TITLE: &str = "gridftp-upload 1";

/// End of the name of the values beside a note.
const VALUES: &str = "values";

/// Largest note, in bytes.
const MAX_LEN: u64 = 1 << 20;

/// Most ranges of a note; the others are sent again.
const MAX_RANGES: usize = 4096;

/// Size from which a note is written anew, in bytes.
const FULL: u64 = 512 << 10;

/// Tries to lock a note that a list of the notes may have locked, and the time between two.
const TRIES: u32 = 4;
const MOMENT: Duration = Duration::from_millis(10);

/// Longest wait for the disk before an upload begins.
const SETTLING: Duration = Duration::from_secs(10);

/// The note of one upload, locked by this process.
#[derive(Debug)]
pub(crate) struct Note {
    path: PathBuf,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    file: Mutex<File>,
    /// The state that waits to be written.
    next: Mutex<Option<Upload>>,
}

/// The state of an upload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Upload {
    /// URL of the destination.
    pub(crate) to: String,
    /// URL of the directory that the file is written to.
    pub(crate) dir: String,
    /// The version of the source, in one line.
    pub(crate) source: String,
    /// The hidden name that is written; `None` where the server keeps uploads apart.
    pub(crate) hidden: Option<FtpPath>,
    /// The ranges that the server has told it holds.
    pub(crate) held: RangeSet,
}

impl Note {
    /// Opens the note for the destination `to` in the directory `notes`, with the upload that an
    /// earlier run noted; `None` while another process has it, and where none can be written.
    pub(crate) async fn open(notes: &Path, to: &str) -> Option<(Self, Option<Upload>)> {
        let (notes, name) = (notes.to_owned(), name_of(to)?);
        let opened = tokio::task::spawn_blocking(move || {
            // Without a directory the note is not opened.
            let _ = make_dirs(&notes, !notes.exists());
            let path = notes.join(name);
            let file = open(&path, true)?;
            let upload = read(&file);
            if upload.is_none() {
                // A state on the medium is of no use without its name.
                let _ = File::open(&notes).and_then(|dir| dir.sync_all());
            }
            // Though no byte may come, it is not to expire.
            let _ = file.set_modified(SystemTime::now());
            let shared = Arc::new(Shared {
                file: Mutex::new(file),
                next: Mutex::default(),
            });
            Some((Self { path, shared }, upload))
        });
        opened.await.ok()?
    }

    /// Opens the values of the groups of this version of the source, for its digest in a later run.
    pub(crate) async fn groups(&self, version: Version) -> Option<GroupFile> {
        let path = self.path.with_extension(VALUES);
        let mut hasher = Hasher::new(ChecksumAlgorithm::Sha256)?;
        hasher.update(&version.to_bytes());
        let version = u64::from_str_radix(hasher.finish().get(..16)?, 16).ok()?;
        let opened = tokio::task::spawn_blocking(move || GroupFile::open(&path, version));
        opened.await.ok()?.ok()
    }

    /// Writes the state of the upload, on a blocking thread; of several states at once the last.
    pub(crate) fn write(&self, upload: Upload) {
        let waits = lock(&self.shared.next).replace(upload).is_some();
        if !waits {
            let shared = Arc::clone(&self.shared);
            drop(tokio::task::spawn_blocking(move || shared.write()));
        }
    }

    /// Writes the state of the upload, and waits for the disk.
    pub(crate) async fn settle(&self, upload: Upload) {
        *lock(&self.shared.next) = Some(upload);
        let shared = Arc::clone(&self.shared);
        let written = tokio::task::spawn_blocking(move || shared.write());
        if tokio::time::timeout(SETTLING, written).await.is_err() {
            tracing::debug!(path = %self.path.display(), "the note of an upload takes long to write");
        }
    }

    /// Writes the last state of the upload, before the program may end.
    pub(crate) fn write_now(&self, upload: Upload) {
        *lock(&self.shared.next) = Some(upload);
        self.shared.write();
    }

    /// Removes the note, before the program may end.
    pub(crate) fn remove(self) {
        let _ = std::fs::remove_file(self.path.with_extension(VALUES));
        // A state that waits to be written goes to a file without a name.
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "the note of an upload stays");
        }
    }
}

impl Shared {
    /// Adds the state that waits behind the others, so that a torn one leaves the one before.
    fn write(&self) {
        let mut file = lock(&self.file);
        let Some(upload) = lock(&self.next).take() else {
            return;
        };
        let mut added = || {
            if file.metadata()?.len() > FULL {
                file.set_len(0)?;
            }
            file.seek(SeekFrom::End(0))?;
            file.write_all(upload.to_text().as_bytes())?;
            file.sync_data()
        };
        if let Err(error) = added() {
            tracing::debug!(%error, "the note of an upload is not written");
        }
    }
}

impl Upload {
    fn to_text(&self) -> String {
        let hidden = self.hidden.as_ref().map(FtpPath::as_bytes);
        let hidden = percent_encode(hidden.unwrap_or_default(), NON_ALPHANUMERIC);
        let held: RangeSet = self.held.iter().take(MAX_RANGES).collect();
        let Self {
            to, dir, source, ..
        } = self;
        let body =
            format!("{TITLE}\nto {to}\ndir {dir}\nsource {source}\nhidden {hidden}\nheld {held}\n");
        format!("{body}sum {}\n", sum(&body))
    }

    /// Reads the last whole state of a note.
    fn last(text: &str) -> Option<Self> {
        let mut states = text.rmatch_indices(TITLE);
        states.find_map(|(at, _)| Self::parse(text.get(at..)?))
    }

    fn parse(text: &str) -> Option<Self> {
        let (body, end) = text.split_at_checked(text.find("\nsum ")? + 1)?;
        if end.lines().next()?.strip_prefix("sum ")? != sum(body) {
            return None;
        }
        let mut lines = body.lines();
        let mut field = |key: &str| lines.next()?.strip_prefix(key);
        if !field(TITLE)?.is_empty() {
            return None;
        }
        let mut text = |key: &str| field(key).map(str::to_owned);
        let (to, dir, source) = (text("to ")?, text("dir ")?, text("source ")?);
        let hidden: Vec<u8> = percent_decode_str(field("hidden ")?).collect();
        let held = field("held ")?;
        Some(Self {
            to,
            dir,
            source,
            hidden: FtpPath::new(hidden).filter(|hidden| !hidden.as_bytes().is_empty()),
            held: match held {
                "" => RangeSet::new(),
                held => byte_ranges::text::parse(held.as_bytes(), MAX_RANGES).ok()?,
            },
        })
    }
}

/// The note of an upload, as a process finds it that does not write it.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) upload: Upload,
    /// Time of its last state.
    pub(crate) modified: SystemTime,
    /// Whether a process has it locked.
    pub(crate) in_use: bool,
}

/// The notes in the directory `notes`.
pub(crate) async fn all(notes: &Path) -> Vec<Found> {
    let notes = notes.to_owned();
    let found = tokio::task::spawn_blocking(move || {
        let entries = std::fs::read_dir(&notes).into_iter().flatten().flatten();
        let found = entries.filter_map(|entry| {
            let file = File::open(entry.path()).ok()?;
            let upload = read(&file)?;
            // For a moment only, which a run that begins waits out.
            let locked = flock(&file, FlockOperation::NonBlockingLockShared);
            let _ = flock(&file, FlockOperation::Unlock);
            Some(Found {
                upload,
                modified: file.metadata().ok()?.modified().ok()?,
                in_use: locked == Err(Errno::WOULDBLOCK),
            })
        });
        found.collect()
    });
    found.await.unwrap_or_default()
}

/// Removes the notes in the directory `notes` of uploads to the directories `dirs` that nobody has
/// continued for a week; gives their hidden files.
pub(crate) async fn expired(notes: &Path, dirs: HashSet<Vec<u8>>) -> Vec<FtpPath> {
    let notes = notes.to_owned();
    let found = tokio::task::spawn_blocking(move || {
        let mut hidden = Vec::new();
        for entry in std::fs::read_dir(&notes).into_iter().flatten().flatten() {
            if run_record::is_record(&entry.file_name()) {
                continue;
            }
            let old = entry.metadata().is_ok_and(|meta| is_old(&meta));
            let Some(file) = old.then(|| open(&entry.path(), false)).flatten() else {
                continue;
            };
            // Another run may have gone on with it before the lock.
            if !file.metadata().is_ok_and(|meta| is_old(&meta)) {
                continue;
            }
            let upload = read(&file);
            let is_there = |upload: &Upload| dirs.contains(upload.dir.as_bytes());
            if upload.as_ref().is_none_or(is_there) && std::fs::remove_file(entry.path()).is_ok() {
                hidden.extend(upload.and_then(|upload| upload.hidden));
            }
        }
        hidden
    });
    found.await.unwrap_or_default()
}

fn is_old(meta: &Metadata) -> bool {
    let age = meta.modified().ok().and_then(|at| at.elapsed().ok());
    age.is_some_and(|age| age > OLD)
}

/// Opens and locks a note, on a blocking thread; `None` while another process has it.
pub(super) fn open(path: &Path, create: bool) -> Option<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(create).mode(0o600);
    let file = options.open(path).ok()?;
    let mut tries = TRIES;
    while let Err(error) = flock(&file, FlockOperation::NonBlockingLockExclusive) {
        tries = tries
            .checked_sub(1)
            .filter(|_| create && error == Errno::WOULDBLOCK)?;
        std::thread::sleep(MOMENT);
    }
    // It may have been removed between the two.
    let (here, there) = (file.metadata().ok()?, std::fs::metadata(path).ok()?);
    (here.ino() == there.ino()).then_some(file)
}

fn read(file: &File) -> Option<Upload> {
    let mut text = String::new();
    file.take(MAX_LEN).read_to_string(&mut text).ok()?;
    Upload::last(&text)
}

/// The file name of the note for the destination `to`.
fn name_of(to: &str) -> Option<String> {
    digest(ChecksumAlgorithm::Sha256, to)
}

fn sum(body: &str) -> String {
    digest(ChecksumAlgorithm::Crc32c, body).unwrap_or_default()
}

fn digest(algorithm: ChecksumAlgorithm, text: &str) -> Option<String> {
    let mut hasher = Hasher::new(algorithm)?;
    hasher.update(text.as_bytes());
    Some(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upload() -> Upload {
        Upload {
            to: "ftp://host/d/f".to_owned(),
            dir: "ftp://host/d/".to_owned(),
            source: "7 1 2 /a b".to_owned(),
            hidden: FtpPath::new(b"/d/.\xffx".to_vec()),
            held: RangeSet::up_to(5),
        }
    }

    #[test]
    fn a_note_is_valid_only_as_a_whole() {
        let plain = Upload::default();
        for upload in [upload(), plain] {
            let text = upload.to_text();
            assert_eq!(Upload::parse(&text), Some(upload.clone()));
            let mut later = upload.clone();
            later.held = RangeSet::up_to(99);
            for cut in 0..text.len() - 1 {
                assert_eq!(Upload::last(&text[..cut]), None, "{cut}");
            }
            let (both, torn) = (text.clone() + &later.to_text(), later.to_text().len() - 2);
            assert_eq!(Upload::last(&both[..text.len() + torn]), Some(upload));
            assert_eq!(Upload::last(&both), Some(later));
        }
    }

    #[tokio::test]
    async fn a_note_has_one_writer_and_outlives_it() {
        let dir = tempfile::tempdir().unwrap();
        let notes = dir.path().join("notes");
        let (note, before) = Note::open(&notes, "ftp://host/d/f").await.unwrap();
        assert_eq!(before, None);
        assert!(Note::open(&notes, "ftp://host/d/f").await.is_none());
        assert!(Note::open(&notes, "ftp://host/d/g").await.is_some());
        note.write_now(Upload::default());
        note.write_now(upload());
        let found = all(&notes).await;
        assert!(
            found
                .iter()
                .all(|note| note.in_use && note.upload == upload()),
            "{found:?}"
        );
        assert_eq!(found.len(), 1);
        drop(note);
        assert!(!all(&notes).await.first().unwrap().in_use);
        let (note, before) = Note::open(&notes, "ftp://host/d/f").await.unwrap();
        assert_eq!(before, Some(upload()));
        note.remove();
        let (_note, before) = Note::open(&notes, "ftp://host/d/f").await.unwrap();
        assert_eq!(before, None);
    }

    #[tokio::test]
    async fn old_notes_of_a_directory_give_their_hidden_files() {
        let dir = tempfile::tempdir().unwrap();
        for (name, days) in [("old", 8), ("new", 1)] {
            let path = dir.path().join(name);
            std::fs::write(&path, upload().to_text()).unwrap();
            let at = SystemTime::now() - Duration::from_secs(days * 24 * 3600);
            File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_modified(at)
                .unwrap();
        }
        let dirs = |dir: &str| HashSet::from([dir.as_bytes().to_vec()]);
        let other = expired(dir.path(), dirs("ftp://other/")).await;
        assert!(other.is_empty(), "{other:?}");
        let hidden = expired(dir.path(), dirs(&upload().dir)).await;
        assert_eq!(hidden, upload().hidden.into_iter().collect::<Vec<_>>());
        assert!(dir.path().join("new").exists() && !dir.path().join("old").exists());
    }
}
