//! A tree for each test, with short helpers to use it.
#![allow(dead_code, reason = "each test binary uses its share")]

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use gridftp_dsi::{Create, Dsi, DsiPath, Error, Finish, Sink, Source, User};
use gridftp_dsi_posix::{FileSink, Posix};
use tempfile::TempDir;

/// A served directory `root` beside files that must not be reached.
pub(crate) struct Tree {
    pub(crate) all: TempDir,
    pub(crate) posix: Posix,
    pub(crate) user: User,
}

pub(crate) fn path(text: &str) -> DsiPath {
    DsiPath::new(text.as_bytes()).unwrap()
}

impl Tree {
    pub(crate) fn new() -> Self {
        Self::within(tempfile::tempdir().unwrap())
    }

    /// A tree on a memory file system if there is one, for tests of very many names.
    pub(crate) fn in_memory() -> Self {
        Self::within(
            tempfile::tempdir_in("/dev/shm")
                .or_else(|_| tempfile::tempdir())
                .unwrap(),
        )
    }

    fn within(all: TempDir) -> Self {
        std::fs::create_dir(all.path().join("root")).unwrap();
        std::fs::write(all.path().join("secret"), "secret").unwrap();
        let posix = Posix::open(&all.path().join("root")).unwrap();
        Self {
            all,
            posix,
            user: User::new("u", DsiPath::root(), true),
        }
    }

    /// The path on this machine of the served `name`.
    pub(crate) fn real(&self, name: &str) -> PathBuf {
        self.all.path().join("root").join(name)
    }

    pub(crate) async fn read(&self, name: &str) -> Result<Vec<u8>, Error> {
        let source = self.posix.read(&self.user, &path(name)).await?;
        let mut bytes = Vec::new();
        loop {
            let read = source
                .read_at(bytes.len() as u64, BytesMut::with_capacity(65_536))
                .await?;
            if read.is_empty() {
                return Ok(bytes);
            }
            bytes.extend_from_slice(&read);
        }
    }

    pub(crate) async fn open(&self, name: &str, how: Create) -> Result<FileSink, Error> {
        self.posix.write(&self.user, &path(name), how).await
    }

    pub(crate) async fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let sink = self.open(name, WHOLE).await?;
        sink.write_at(0, Bytes::copy_from_slice(bytes)).await?;
        sink.finish(Finish::whole(bytes.len() as u64))
            .await
            .map(|_| ())
    }

    /// All names in the served directory, hidden ones included, except the index.
    pub(crate) fn everything(&self) -> Vec<String> {
        let mut names = names_in(&self.real(""));
        names.retain(|name| name != INDEX);
        names
    }

    /// The paths in the index, sorted.
    pub(crate) fn indexed(&self) -> Vec<String> {
        let index = self.real(INDEX);
        let mut paths: Vec<_> = names_in(&index)
            .iter()
            .map(|id| std::fs::read_link(index.join(id)).unwrap())
            .map(|path| path.into_os_string().into_string().unwrap())
            .collect();
        paths.sort();
        paths
    }

    /// A second backend for the same tree, in place of another process.
    pub(crate) fn again(&self) -> Posix {
        Posix::open(&self.real("")).unwrap()
    }

    /// Sets the age of a file of the tree to two hours.
    pub(crate) fn age(&self, name: &str) {
        let old = SystemTime::now() - Duration::from_secs(7200);
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(self.real(name))
            .unwrap();
        file.set_modified(old).unwrap();
    }
}

/// The path of the index.
pub(crate) const INDEX: &str = ".gridftp-index";

/// The names in a directory of this machine, sorted; none if there is no such directory.
pub(crate) fn names_in(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub(crate) const WHOLE: Create = Create::Whole { size: None };
pub(crate) const RESUME: Create = Create::Resume { size: None };
pub(crate) const UPDATE: Create = Create::Update { size: None };
