//! A tree of its own for each test, and the shortest ways to use it.
#![allow(dead_code, reason = "each test binary uses its share")]

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use gridftp_dsi::{Create, Dsi, DsiPath, Error, Finish, Sink, Source, User};
use gridftp_dsi_posix::{FileSink, Posix};
use tempfile::TempDir;

/// A served directory `root` and, beside it, what must not be reached.
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

    /// In memory where this machine has such a place: for tests of very many names.
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

    /// Where the served `name` is on this machine.
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

    /// Everything in the served directory, hidden names too, but for the index.
    pub(crate) fn everything(&self) -> Vec<String> {
        let mut names = names_in(&self.real(""));
        names.retain(|name| name != INDEX);
        names
    }

    /// What the index names, in order.
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

    /// Another process, for all that the tree can tell.
    pub(crate) fn again(&self) -> Posix {
        Posix::open(&self.real("")).unwrap()
    }

    /// Makes a file of the tree two hours old.
    pub(crate) fn age(&self, name: &str) {
        let old = SystemTime::now() - Duration::from_secs(7200);
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(self.real(name))
            .unwrap();
        file.set_modified(old).unwrap();
    }
}

/// Where the index is.
pub(crate) const INDEX: &str = ".gridftp-index";

/// The names in a directory of this machine, in order; none where there is no such directory.
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
