//! `ProcessSource`, `ProcessSink` and `ProcessListing`: open objects of the process.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use byte_ranges::{Range64, RangeSet};
use bytes::{Bytes, BytesMut};
use gridftp_dsi::{DsiPath, Error, ErrorKind, Finish, Listing, Result, Sink, Source, Stat};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};
use rustix::io::{Errno, pread, pwrite};
use tonic::Streaming;

use crate::connection::{Connection, LONG, SHORT};
use crate::convert::{failed, stat, time};
use crate::proto;

/// A handle of the process, which is closed with this value.
#[derive(Debug)]
struct Handle {
    process: Arc<Connection>,
    path: DsiPath,
    number: u64,
    is_closed: bool,
}

/// A file of the process, open by its descriptor.
#[derive(Debug)]
struct Open {
    handle: Handle,
    file: Arc<OwnedFd>,
}

impl Open {
    /// Fetches the descriptor, which must be of a regular file: any other may block.
    async fn new(process: Arc<Connection>, path: &DsiPath, number: u64) -> Result<(Self, Facts)> {
        let handle = Handle {
            process,
            path: path.clone(),
            number,
            is_closed: false,
        };
        let file = handle.process.descriptor(path, number).await?;
        let file = Arc::new(file);
        let open = Self { handle, file };
        let facts = open.facts()?;
        Ok((open, facts))
    }

    fn path(&self) -> &DsiPath {
        &self.handle.path
    }

    fn facts(&self) -> Result<Facts> {
        let raw = fstat(&self.file).map_err(|errno| self.error("open", errno))?;
        if FileType::from_raw_mode(raw.st_mode) != FileType::RegularFile {
            return Err(Error::new(ErrorKind::NotRegular, "open").at(self.path()));
        }
        // A write would go to the end, wherever it belongs.
        let flags = fcntl_getfl(&self.file).map_err(|errno| self.error("open", errno))?;
        if flags.contains(OFlags::APPEND) {
            let why = "the process opened the file for appending";
            return Err(Error::new(ErrorKind::Unsupported, "open")
                .at(self.path())
                .because(why));
        }
        Ok(Facts {
            size: u64::try_from(raw.st_size).unwrap_or(0),
            modified: (raw.st_mtime, raw.st_mtime_nsec),
        })
    }

    fn error(&self, op: &'static str, errno: Errno) -> Error {
        let kind = match errno {
            Errno::NOSPC => ErrorKind::NoSpace,
            Errno::DQUOT => ErrorKind::Quota,
            Errno::FBIG => ErrorKind::TooLarge,
            _ => ErrorKind::Io,
        };
        let error = Error::new(kind, op).at(self.path());
        error.because(io::Error::from(errno))
    }

    /// Runs work on the file on a thread that may block.
    async fn run<T: Send + 'static>(
        &self,
        op: &'static str,
        work: impl FnOnce(&OwnedFd) -> Result<T, Errno> + Send + 'static,
    ) -> Result<T> {
        let file = Arc::clone(&self.file);
        let done = tokio::task::spawn_blocking(move || work(&file)).await;
        done.unwrap_or(Err(Errno::IO))
            .map_err(|errno| self.error(op, errno))
    }

    async fn read(&self, offset: u64, mut into: BytesMut) -> Result<BytesMut> {
        if i64::try_from(offset).is_err() {
            return Ok(into);
        }
        self.run("read", move |file| {
            let room = into.capacity() - into.len();
            let begun = into.len();
            into.resize(begun + room, 0);
            let read = loop {
                match pread(file, into.get_mut(begun..).unwrap_or_default(), offset) {
                    Err(Errno::INTR) => {}
                    read => break read?,
                }
            };
            into.truncate(begun + read);
            Ok(into)
        })
        .await
    }
}

impl Drop for Handle {
    /// Tells the process, as far as it listens.
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        if self.is_closed {
            return;
        }
        let (process, path) = (Arc::clone(&self.process), self.path.clone());
        let handle = proto::Handle {
            handle: self.number,
        };
        runtime.spawn(async move {
            let closing = process.call(("close", &path), SHORT, |mut client| async move {
                client.close(handle).await
            });
            // It forgets its handles when it ends.
            drop(closing.await);
        });
    }
}

/// Size and modification time.
#[derive(Debug, PartialEq, Eq)]
struct Facts {
    size: u64,
    modified: (i64, u64),
}

/// A file of the process open for reading.
#[derive(Debug)]
pub struct ProcessSource {
    open: Open,
    facts: Facts,
}

impl ProcessSource {
    pub(crate) async fn new(process: Arc<Connection>, path: &DsiPath, handle: u64) -> Result<Self> {
        let (open, facts) = Open::new(process, path, handle).await?;
        Ok(Self { open, facts })
    }
}

impl Source for ProcessSource {
    fn size(&self) -> u64 {
        self.facts.size
    }

    async fn read_at(&self, offset: u64, into: BytesMut) -> Result<BytesMut> {
        self.open.read(offset, into).await
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.open.file.as_fd())
    }

    async fn unchanged(&self) -> Result<()> {
        match self.open.facts()? == self.facts {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Changed, "read").at(self.open.path())),
        }
    }
}

/// A file of the process open for writing, which has no name yet.
#[derive(Debug)]
pub struct ProcessSink {
    open: Open,
}

impl ProcessSink {
    pub(crate) async fn new(process: Arc<Connection>, path: &DsiPath, handle: u64) -> Result<Self> {
        let (open, _) = Open::new(process, path, handle).await?;
        Ok(Self { open })
    }

    /// Gives the file its size, if all of it was written.
    async fn settle(&self, done: &Finish) -> Result<()> {
        let Some(size) = done.size else {
            return Ok(());
        };
        let whole = Range64::new(0, size);
        let has_gaps = |held: &RangeSet| whole.is_some_and(|whole| !held.gaps(whole).is_empty());
        let is_short = self.open.facts()?.size < size;
        if is_short || done.held.as_ref().is_some_and(has_gaps) {
            return Err(Error::new(ErrorKind::Incomplete, "finish").at(self.open.path()));
        }
        self.open
            .run("finish", move |file| rustix::fs::ftruncate(file, size))
            .await
    }
}

impl Sink for ProcessSink {
    async fn write_at(&self, offset: u64, data: Bytes) -> Result<()> {
        let end = u64::try_from(data.len())
            .ok()
            .and_then(|len| offset.checked_add(len));
        if end.and_then(|end| i64::try_from(end).ok()).is_none() {
            return Err(Error::new(ErrorKind::TooLarge, "write").at(self.open.path()));
        }
        let write = move |file: &OwnedFd| {
            let (mut at, mut rest) = (offset, data.as_ref());
            while !rest.is_empty() {
                match pwrite(file, rest, at) {
                    Ok(0) => return Err(Errno::IO),
                    Ok(n) => {
                        rest = rest.get(n..).unwrap_or_default();
                        at += u64::try_from(n).unwrap_or(0);
                    }
                    Err(Errno::INTR) => {}
                    Err(errno) => return Err(errno),
                }
            }
            Ok(())
        };
        self.open.run("write", write).await
    }

    /// Nothing can be continued, so nothing is recorded.
    async fn checkpoint(&self, _: &RangeSet, durable: bool) -> Result<()> {
        match durable {
            true => {
                self.open
                    .run("sync", |file| rustix::fs::fdatasync(file))
                    .await
            }
            false => Ok(()),
        }
    }

    fn held(&self) -> RangeSet {
        RangeSet::new()
    }

    async fn read_back(&self, offset: u64, len: usize) -> Result<Bytes> {
        let read = self.open.read(offset, BytesMut::with_capacity(len)).await?;
        let read = read.freeze();
        Ok(read.slice(..read.len().min(len)))
    }

    async fn finish(mut self, done: Finish) -> Result<Stat> {
        self.settle(&done).await?;
        let (algorithm, digest) = match done.checksum {
            Some((algorithm, digest)) => (algorithm.name().to_owned(), digest),
            None => Default::default(),
        };
        let request = proto::FinishRequest {
            handle: self.open.handle.number,
            modified: done.modified.map(time),
            mode: done.mode,
            algorithm,
            digest,
        };
        // Closed in any case.
        self.open.handle.is_closed = true;
        let (process, path) = (&self.open.handle.process, self.open.path());
        let finished = process.call(("finish", path), LONG, |mut client| async move {
            client.finish(request).await
        });
        Ok(stat(finished.await?, path.name()))
    }
}

/// A directory of the process being listed.
#[derive(Debug)]
pub struct ProcessListing {
    entries: Streaming<proto::Entries>,
    path: DsiPath,
}

impl ProcessListing {
    /// Reads the first batch, since the process tells only with it that the directory is not there.
    pub(crate) fn new(entries: Streaming<proto::Entries>, path: DsiPath) -> Self {
        Self { entries, path }
    }
}

impl Listing for ProcessListing {
    async fn next(&mut self) -> Result<Vec<Stat>> {
        loop {
            let batch = tokio::time::timeout(SHORT, self.entries.message()).await;
            let error = |why| {
                Error::new(ErrorKind::Io, "list")
                    .at(&self.path)
                    .because(why)
            };
            let batch = batch.map_err(|_| error("no answer in time"))?;
            let batch = batch.map_err(|status| failed(&status, "list").at(&self.path))?;
            let Some(batch) = batch else {
                return Ok(Vec::new());
            };
            let entries = batch.entries.into_iter().filter_map(|mut facts| {
                let name = std::mem::take(&mut facts.name);
                // A name that leads elsewhere is no entry.
                self.path.child(&name)?;
                Some(stat(facts, &name))
            });
            let entries: Vec<Stat> = entries.collect();
            if !entries.is_empty() {
                return Ok(entries);
            }
        }
    }
}
