//! `Archive`: an object and all below it as a tar archive, made while it is sent.

mod header;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use gridftp_data::Chunks;
use gridftp_dsi::{
    Dsi, DsiPath, Error, ErrorKind, Kind, Listing, Result, Source, Staging, Stat, User,
};

use self::header::{BLOCK, Header, Type, padding};

/// Bytes of an archive that are made at a time.
const PIECE: usize = 256 << 10;

/// Entries of a directory that are sorted at a time; larger directories are read repeatedly.
const SORTED: usize = 4096;

/// Entries that wait in all directories on the way to the present one; beyond it, outer
/// directories are read again.
const WAITING: usize = 4 * SORTED;

/// Longest wait for the data of a file that another archive has.
const WAIT: Duration = Duration::from_secs(60);

/// The archive of an object.
///
/// Entries are sorted by name, and a directory precedes those below it. Their paths begin with the
/// name of the object, `.` for the root, and never leave it: a symbolic link is an entry of its
/// own, and is not followed. Devices and sockets are left out.
pub(crate) struct Archive<'a, D: Dsi> {
    dsi: &'a D,
    user: &'a User,
    /// The object itself, until its header is written.
    first: Option<(DsiPath, Stat)>,
    /// The directories on the way to the present entry.
    levels: Vec<Level>,
    /// The file whose bytes come next.
    file: Option<Open<D::Source>>,
    /// Longest wait for the data of a file, in a storage that moves files to an archive of its own.
    wait: Option<Duration>,
    has_ended: bool,
}

/// A directory of which some entries are written.
struct Level {
    path: DsiPath,
    /// Its path within the archive, with a slash at the end.
    prefix: Vec<u8>,
    /// The last entry taken.
    after: Option<Vec<u8>>,
    /// Sorted entries behind that one.
    batch: VecDeque<Stat>,
    /// Whether more follow those.
    has_more: bool,
}

/// A file of which some bytes are written.
struct Open<S> {
    source: S,
    path: DsiPath,
    at: u64,
    size: u64,
}

impl<'a, D: Dsi> Archive<'a, D> {
    /// Looks at `path`, whose link is followed.
    ///
    /// # Errors
    /// Those of the storage.
    pub(crate) async fn open(dsi: &'a D, user: &'a User, path: &DsiPath) -> Result<Self> {
        let mut stat = dsi.stat(user, path).await?;
        if stat.kind != Kind::Link {
            stat.target = None;
        }
        if path.is_root() {
            stat.name = b".".to_vec();
        }
        Ok(Self {
            dsi,
            user,
            first: Some((path.clone(), stat)),
            levels: Vec::new(),
            file: None,
            wait: dsi.capabilities().stages.then_some(WAIT),
            has_ended: false,
        })
    }

    /// Waits at most `most` for the data of a file.
    #[must_use]
    pub(crate) fn waiting(mut self, most: Duration) -> Self {
        self.wait = self.wait.map(|wait| wait.min(most));
        self
    }

    /// Waits for the data of a file.
    ///
    /// # Errors
    /// `Busy` with its path if that takes long: its retrieval goes on, and no reply could tell the
    /// client meanwhile that the server is alive.
    async fn retrieve(&self, path: &DsiPath) -> Result<()> {
        let Some(wait) = self.wait else {
            return Ok(());
        };
        match self.dsi.stage(self.user, path, "", wait).await? {
            Staging::Here => Ok(()),
            _ => Err(Error::new(ErrorKind::Busy, "archive")
                .at(path)
                .because("is being retrieved from the archive...")),
        }
    }

    /// The next entry: its path in the storage and in the archive.
    async fn entry(&mut self) -> Result<Option<(DsiPath, Vec<u8>, Stat)>> {
        if let Some((path, stat)) = self.first.take() {
            return Ok(Some((path, stat.name.clone(), stat)));
        }
        while let Some(level) = self.levels.last_mut() {
            if level.batch.is_empty() && level.has_more {
                level.fill(self.dsi, self.user).await?;
            }
            let Some(stat) = level.batch.pop_front() else {
                self.levels.pop();
                continue;
            };
            let path = level.path.child(&stat.name);
            let path = path.ok_or_else(|| Error::new(ErrorKind::BadName, "archive"))?;
            let shown = [level.prefix.as_slice(), &stat.name].concat();
            level.after = Some(stat.name.clone());
            return Ok(Some((path, shown, stat)));
        }
        Ok(None)
    }

    /// Enters a directory, and forgets entries of outer ones when too many wait.
    fn enter(&mut self, path: DsiPath, prefix: Vec<u8>) {
        let mut waiting: usize = self.levels.iter().map(|level| level.batch.len()).sum();
        for level in &mut self.levels {
            if waiting <= WAITING {
                break;
            }
            waiting -= level.batch.len();
            level.has_more |= !level.batch.is_empty();
            level.batch = VecDeque::new();
        }
        self.levels.push(Level {
            path,
            prefix,
            after: None,
            batch: VecDeque::new(),
            has_more: true,
        });
    }

    /// Appends the header of the next entry, or the end of the archive.
    async fn header(&mut self, to: &mut Vec<u8>) -> Result<()> {
        let Some((path, mut shown, stat)) = self.entry().await? else {
            to.resize(to.len() + 2 * BLOCK, 0);
            self.has_ended = true;
            return Ok(());
        };
        let kind = match (&stat.target, stat.kind) {
            (Some(_), _) | (None, Kind::Link) => Type::Link,
            (None, Kind::File) => Type::File,
            (None, Kind::Directory) => Type::Directory,
            (None, Kind::Fifo) => Type::Fifo,
            (None, kind) => {
                tracing::debug!(%path, ?kind, "left out of an archive");
                return Ok(());
            }
        };
        let mut header = Header {
            kind,
            path: b"",
            target: b"",
            mode: stat.mode,
            uid: stat.uid,
            gid: stat.gid,
            size: 0,
            modified: stat.modified,
        };
        match kind {
            Type::Directory => shown.push(b'/'),
            Type::File => {
                self.retrieve(&path).await?;
                let source = self.dsi.read(self.user, &path).await?;
                header.size = source.size();
                self.file = Some(Open {
                    source,
                    path: path.clone(),
                    at: 0,
                    size: header.size,
                });
            }
            Type::Link => {
                let unreadable = || Error::new(ErrorKind::Io, "read link").at(&path);
                header.target = stat.target.as_deref().ok_or_else(unreadable)?;
                header.mode = 0o777;
            }
            Type::Fifo => {}
        }
        header.path = &shown;
        header.write(to);
        if kind == Type::Directory {
            self.enter(path, shown);
        }
        Ok(())
    }

    /// Appends bytes of the open file, and the zeros behind the last.
    async fn bytes(&mut self, mut block: BytesMut) -> Result<BytesMut> {
        let Some(file) = &mut self.file else {
            return Ok(block);
        };
        if file.at < file.size {
            let before = block.len();
            block = file.source.read_at(file.at, block).await?;
            let read = u64::try_from(block.len() - before).unwrap_or(u64::MAX);
            // A file that grew is cut here, and refused below.
            let taken = read.min(file.size - file.at);
            block.truncate(before + usize::try_from(taken).unwrap_or(0));
            file.at += taken;
            if taken == 0 {
                return Err(Error::new(ErrorKind::Changed, "read").at(&file.path));
            }
        }
        if file.at == file.size {
            file.source.unchanged().await?;
            block.resize(block.len() + padding(file.size), 0);
            self.file = None;
        }
        Ok(block)
    }
}

impl Level {
    /// Reads the next entries behind the last one taken.
    async fn fill<D: Dsi>(&mut self, dsi: &D, user: &User) -> Result<()> {
        let mut listing = dsi.list(user, &self.path).await?;
        let mut sorted = BTreeMap::new();
        self.has_more = false;
        loop {
            let entries = listing.next().await?;
            if entries.is_empty() {
                break;
            }
            for stat in entries {
                if self.after.as_ref().is_none_or(|after| stat.name > *after) {
                    sorted.insert(stat.name.clone(), stat);
                }
                if sorted.len() > SORTED {
                    sorted.pop_last();
                    self.has_more = true;
                }
            }
        }
        self.batch = sorted.into_values().collect();
        Ok(())
    }
}

impl<D: Dsi> Chunks for Archive<'_, D> {
    async fn next(&mut self) -> Result<Option<Bytes>> {
        let mut block = BytesMut::with_capacity(PIECE);
        // Room for a header and the zeros behind a file, so that the piece does not grow much.
        while block.len() < PIECE / 2 && !self.has_ended {
            if self.file.is_some() {
                block = self.bytes(block).await?;
            } else {
                let mut header = Vec::new();
                self.header(&mut header).await?;
                block.extend_from_slice(&header);
            }
        }
        Ok((!block.is_empty()).then(|| block.freeze()))
    }

    fn is_patient(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use gridftp_dsi::{Create, Finish, Memory, Sink as _};

    use super::*;

    fn path(text: &str) -> DsiPath {
        DsiPath::new(text.as_bytes()).unwrap()
    }

    fn user() -> User {
        User::new("u", DsiPath::root(), true)
    }

    async fn put(memory: &Memory, name: &str, text: &'static str) {
        let how = Create::Whole { size: None };
        let sink = memory.write(&user(), &path(name), how).await.unwrap();
        let bytes = Bytes::from_static(text.as_bytes());
        let size = bytes.len() as u64;
        sink.write_at(0, bytes).await.unwrap();
        sink.finish(Finish::whole(size)).await.unwrap();
    }

    async fn read(memory: &Memory, name: &str) -> Vec<u8> {
        let user = user();
        let mut archive = Archive::open(memory, &user, &path(name)).await.unwrap();
        let mut bytes = Vec::new();
        while let Some(piece) = archive.next().await.unwrap() {
            assert!(piece.len() <= 2 * PIECE, "{}", piece.len());
            bytes.extend_from_slice(&piece);
        }
        bytes
    }

    /// The paths in an archive of empty files.
    fn names(archive: &[u8]) -> Vec<String> {
        let mut blocks = archive.chunks(BLOCK);
        let mut names = Vec::new();
        while let Some(block) = blocks.next() {
            match block[156] {
                // A pax header and its records, of one block.
                b'x' => drop(blocks.next()),
                0 => break,
                _ => {
                    let end = block.iter().position(|byte| *byte == 0).unwrap();
                    names.push(String::from_utf8(block[..end].to_vec()).unwrap());
                }
            }
        }
        names
    }

    #[tokio::test]
    async fn entries_are_sorted_in_directories_of_any_size() {
        let memory = Memory::new();
        let mut expected = vec!["./".to_owned(), "./big/".to_owned()];
        memory.make_dir(&user(), &path("/big")).await.unwrap();
        // The second directory makes the entries of the first wait.
        for dir in 0..2 {
            for i in 0..SORTED + 2 {
                let name = match (dir, i) {
                    (0, 7) => "00007/".to_owned(),
                    (0, _) => format!("{i:05}"),
                    (_, _) => format!("00007/{i:05}"),
                };
                match name.strip_suffix('/') {
                    Some(dir) => {
                        let dir = path(&format!("/big/{dir}"));
                        memory.make_dir(&user(), &dir).await.unwrap();
                    }
                    None => put(&memory, &format!("/big/{name}"), "").await,
                }
                expected.push(format!("./big/{name}"));
            }
        }
        expected.sort();
        assert_eq!(names(&read(&memory, "/").await), expected);
    }

    #[tokio::test]
    async fn a_file_that_changes_meanwhile_ends_the_archive() {
        let memory = Memory::new();
        put(&memory, "/f", "text").await;
        let user = user();
        let mut archive = Archive::open(&memory, &user, &path("/f")).await.unwrap();
        archive.header(&mut Vec::new()).await.unwrap();
        let sink = memory
            .write(&user, &path("/f"), Create::Append)
            .await
            .unwrap();
        sink.write_at(4, Bytes::from_static(b"more")).await.unwrap();
        let error = archive.next().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Changed);
    }
}
