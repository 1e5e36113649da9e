//! Walks local trees: streaming, in bounded memory, safe against loops of symbolic links.

use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use tokio::sync::mpsc;
use walkdir::WalkDir;

use crate::copy::within;
use crate::error::TransferError;

/// Directories of one branch that are open at once.
const OPEN_DIRS: usize = 32;
/// Entries that wait for their receiver.
const WAITING: usize = 1024;

/// A finding of a walk; a directory precedes its entries.
#[derive(Debug)]
#[non_exhaustive]
pub enum Found {
    /// A directory.
    Dir(Item),
    /// A regular file.
    File(Item),
    /// A symbolic link that is not followed, and its target.
    Link(Item, Vec<u8>),
    /// Something that cannot be copied: FIFO, device, socket.
    Special(PathBuf),
    /// Something that cannot be read, or a loop.
    Error(PathBuf, TransferError),
}

/// One object of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Item {
    /// Its path as it can be opened.
    pub path: PathBuf,
    /// Its path relative to the root of the walk; empty for the root.
    pub relative: Vec<u8>,
    /// Size in bytes.
    pub size: u64,
    /// Modification time: seconds since 1970 and nanoseconds.
    pub modified: (i64, u32),
    /// Permission bits, the lowest twelve.
    pub mode: u32,
}

impl Item {
    /// Makes the item for `path` from its metadata.
    pub fn new(path: PathBuf, relative: impl Into<Vec<u8>>, meta: &std::fs::Metadata) -> Self {
        Self {
            path,
            relative: relative.into(),
            size: meta.len(),
            modified: modified(meta),
            mode: meta.mode() & 0o7777,
        }
    }
}

/// The modification time: seconds since 1970 and nanoseconds.
pub(crate) fn modified(meta: &std::fs::Metadata) -> (i64, u32) {
    (meta.mtime(), u32::try_from(meta.mtime_nsec()).unwrap_or(0))
}

/// Walks `root` on a thread of its own; symbolic links are followed, the root itself comes first.
/// The directory of the device and inode `avoid` is not entered, but told as an error.
///
/// The walk stops when the receiver is dropped.
pub fn walk(root: PathBuf, avoid: Option<(u64, u64)>) -> mpsc::Receiver<Found> {
    walk_chosen(root, avoid, true, |_, _| true)
}

/// As [`walk`], with links followed or not below the root, of the names that `takes` wants: it is told a path relative to the root, and whether
/// that is a directory, of which nothing is told where it is not wanted.
pub(crate) fn walk_chosen(
    root: PathBuf,
    avoid: Option<(u64, u64)>,
    follows: bool,
    takes: impl Fn(&[u8], bool) -> bool + Send + 'static,
) -> mpsc::Receiver<Found> {
    let (tx, rx) = mpsc::channel(WAITING);
    tokio::task::spawn_blocking(move || {
        let mut entries = WalkDir::new(&root)
            .follow_links(follows)
            .max_open(OPEN_DIRS)
            .into_iter();
        while let Some(entry) = entries.next() {
            if !is_wanted(&root, &entry, &takes) {
                if entry.is_ok_and(|entry| entry.file_type().is_dir()) {
                    entries.skip_current_dir();
                }
                continue;
            }
            if let (Ok(entry), Some(_)) = (&entry, avoid)
                && entry.file_type().is_dir()
                && avoid == entry.metadata().ok().map(|meta| (meta.dev(), meta.ino()))
            {
                entries.skip_current_dir();
                let error = within(entry.path().as_os_str().as_bytes());
                if tx
                    .blocking_send(Found::Error(entry.path().to_owned(), error))
                    .is_err()
                {
                    return;
                }
                continue;
            }
            if tx.blocking_send(found(&root, entry)).is_err() {
                return;
            }
        }
    });
    rx
}

/// Says whether `takes` wants the object of an entry; of an error it is not known what it is.
fn is_wanted(
    root: &Path,
    entry: &walkdir::Result<walkdir::DirEntry>,
    takes: impl Fn(&[u8], bool) -> bool,
) -> bool {
    let (path, kinds) = match entry {
        Ok(entry) if entry.file_type().is_dir() => (Some(entry.path()), &[true][..]),
        Ok(entry) => (Some(entry.path()), &[false][..]),
        Err(error) => (error.path(), &[true, false][..]),
    };
    let relative = relative(root, path.unwrap_or(root));
    relative.is_empty() || kinds.iter().any(|is_dir| takes(relative, *is_dir))
}

/// Checks that a file which says that it is empty holds nothing.
///
/// # Errors
/// When it does hold something, as the files of `/proc` do: how much, only reading tells.
pub(crate) async fn check_empty(path: &Path) -> Result<(), TransferError> {
    let open = path.to_owned();
    let read = tokio::task::spawn_blocking(move || holds_something(&open)).await;
    let path = path.as_os_str().as_bytes();
    match read.map_err(std::io::Error::other).and_then(|done| done) {
        Ok(false) => Ok(()),
        Ok(true) => {
            let what = "it says that it is empty, but holds bytes; copy it alone, or through -";
            Err(TransferError::local("read", path, what))
        }
        Err(error) => Err(TransferError::local("read", path, error)),
    }
}

/// Says whether there is a byte in a file.
pub(crate) fn holds_something(path: &Path) -> std::io::Result<bool> {
    use std::io::Read as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    // Some wait for data that is still to come.
    let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let mut file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    match file.read(&mut [0]) {
        Ok(n) => Ok(n > 0),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(true),
        Err(error) => Err(error),
    }
}

fn found(root: &Path, entry: walkdir::Result<walkdir::DirEntry>) -> Found {
    let entry = match entry.and_then(|e| e.metadata().map(|meta| (e, meta))) {
        Ok((entry, meta)) => (entry.into_path(), meta),
        Err(error) => return walk_error(root, error),
    };
    let (path, mut meta) = entry;
    let relative = relative(root, &path).to_vec();
    let mut target = None;
    if meta.is_symlink() {
        let followed = match relative.is_empty() {
            true => std::fs::metadata(&path).map(|there| meta = there),
            false => std::fs::read_link(&path).map(|to| target = Some(to)),
        };
        if let Err(error) = followed {
            let error = TransferError::local("read", path.as_os_str().as_bytes(), error);
            return Found::Error(path, error);
        }
    }
    if let Some(target) = target {
        let target = target.into_os_string().into_vec();
        Found::Link(Item::new(path, relative, &meta), target)
    } else if meta.is_dir() {
        Found::Dir(Item::new(path, relative, &meta))
    } else if meta.is_file() {
        Found::File(Item::new(path, relative, &meta))
    } else {
        Found::Special(path)
    }
}

/// The path relative to the root of a walk; empty for the root.
fn relative<'p>(root: &Path, path: &'p Path) -> &'p [u8] {
    let inner = path.strip_prefix(root).unwrap_or(path);
    inner.as_os_str().as_bytes()
}

fn walk_error(root: &Path, error: walkdir::Error) -> Found {
    let path = error.path().unwrap_or(root).to_owned();
    let shown = path.as_os_str().as_bytes().to_vec();
    let text = match error.loop_ancestor() {
        Some(ancestor) => format!("symbolic link leads back to {}", ancestor.display()),
        None => String::new(),
    };
    let failure = match error.into_io_error() {
        Some(cause) => TransferError::local("read", shown, cause),
        None => TransferError::local("follow", shown, text),
    };
    Found::Error(path, failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(root: &Path, follows: bool) -> Vec<String> {
        let mut rx = walk_chosen(root.to_owned(), None, follows, |_, _| true);
        let mut seen = Vec::new();
        while let Some(found) = rx.recv().await {
            seen.push(match found {
                Found::Dir(item) => format!("d {}", String::from_utf8(item.relative).unwrap()),
                Found::File(item) => {
                    format!(
                        "f {} {}",
                        String::from_utf8(item.relative).unwrap(),
                        item.size
                    )
                }
                Found::Link(item, target) => format!(
                    "l {} {}",
                    String::from_utf8(item.relative).unwrap(),
                    String::from_utf8(target).unwrap()
                ),
                Found::Special(path) => format!("s {}", path.file_name().unwrap().display()),
                Found::Error(path, _) => format!("e {}", path.file_name().unwrap().display()),
            });
        }
        seen.sort();
        seen
    }

    #[tokio::test]
    async fn follows_links_but_not_in_circles() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        std::fs::create_dir(root.join("sub")).unwrap();
        std::fs::write(root.join("sub/file"), b"12345").unwrap();
        std::os::unix::fs::symlink("..", root.join("sub/up")).unwrap();
        std::os::unix::fs::symlink("sub/file", root.join("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", root.join("dangling")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, root.join("fifo"), rustix::fs::Mode::RWXU).unwrap();
        assert_eq!(
            all(root, true).await,
            [
                "d ",
                "d sub",
                "e dangling",
                "e up",
                "f link 5",
                "f sub/file 5",
                "s fifo"
            ]
        );
        let link = dir.path().join("root");
        std::os::unix::fs::symlink(".", &link).unwrap();
        assert_eq!(
            all(&link, false).await,
            [
                "d ",
                "d sub",
                "f sub/file 5",
                "l dangling nowhere",
                "l link sub/file",
                "l root .",
                "l sub/up ..",
                "s fifo"
            ]
        );
    }

    #[tokio::test]
    async fn stops_when_the_receiver_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..WAITING * 2 {
            std::fs::write(dir.path().join(n.to_string()), b"").unwrap();
        }
        let mut rx = walk(dir.path().to_owned(), None);
        rx.recv().await.unwrap();
        drop(rx);
        // The runtime's shutdown would wait for a thread that is stuck.
    }
}
