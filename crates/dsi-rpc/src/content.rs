//! `Content`: the bytes of an open file, by its descriptor or by calls.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use gridftp_dsi::{DsiPath, Error, ErrorKind, Result};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};
use rustix::io::{Errno, pread, pwrite};

use crate::BLOCK;
use crate::handle::{Handle, SHORT};
use crate::peers::Peers;
use crate::proto;

/// A file with its handle at the peer.
#[derive(Debug)]
pub(crate) struct Content<P: Peers> {
    pub(crate) handle: Handle<P>,
    /// The file of a peer that passes descriptors.
    pub(crate) file: Option<File>,
}

impl<P: Peers> Content<P> {
    /// Takes what a call opened.
    pub(crate) async fn new(handle: Handle<P>, opened: &proto::Opened) -> Result<Self> {
        let file = match opened.in_calls {
            true => None,
            false => Some(File::new(handle.descriptor().await?, &handle.path)?),
        };
        Ok(Self { handle, file })
    }

    pub(crate) fn path(&self) -> &DsiPath {
        &self.handle.path
    }

    /// Reads at `offset` into the spare capacity.
    pub(crate) async fn read(&self, offset: u64, mut into: BytesMut) -> Result<BytesMut> {
        if let Some(file) = &self.file {
            return file.read(offset, into).await;
        }
        let room = (into.capacity() - into.len()).min(BLOCK);
        let request = proto::ReadRequest {
            handle: self.handle.number,
            offset,
            length: u32::try_from(room).unwrap_or(0),
        };
        let reading = self.handle.call("read", SHORT, |mut client| async move {
            client.read(request).await
        });
        let block = reading.await?.bytes;
        into.extend_from_slice(block.get(..room).unwrap_or(&block));
        Ok(into)
    }

    /// Reads `len` bytes; fewer at the end.
    pub(crate) async fn read_all(&self, offset: u64, len: usize) -> Result<Bytes> {
        let mut into = BytesMut::with_capacity(len);
        loop {
            let before = into.len();
            let at = offset.saturating_add(u64::try_from(before).unwrap_or(u64::MAX));
            into = self.read(at, into).await?;
            if into.len() >= len || into.len() == before {
                into.truncate(len);
                return Ok(into.freeze());
            }
        }
    }

    /// Writes one block by a call.
    pub(crate) async fn write_block(
        &self,
        offset: u64,
        bytes: Bytes,
        will_check: String,
    ) -> Result<()> {
        let request = proto::WriteRequest {
            handle: self.handle.number,
            offset,
            bytes,
            will_check,
        };
        let writing = self.handle.call("write", SHORT, |mut client| async move {
            client.write(request).await
        });
        writing.await.map(drop)
    }
}

/// A file open by its descriptor.
#[derive(Debug)]
pub(crate) struct File {
    descriptor: Arc<OwnedFd>,
    path: DsiPath,
    /// Size and modification time at the time of opening.
    opened: (u64, i64, u64),
}

impl File {
    /// Takes a descriptor, which must be of a regular file: any other may block.
    fn new(descriptor: OwnedFd, path: &DsiPath) -> Result<Self> {
        let mut file = Self {
            descriptor: Arc::new(descriptor),
            path: path.clone(),
            opened: (0, 0, 0),
        };
        file.opened = file.facts()?;
        // A write would go to the end, wherever it belongs.
        let flags = fcntl_getfl(&file.descriptor).map_err(|errno| file.error("open", errno))?;
        if flags.contains(OFlags::APPEND) {
            let why = "the process opened the file for appending";
            return Err(Error::new(ErrorKind::Unsupported, "open")
                .at(path)
                .because(why));
        }
        Ok(file)
    }

    fn facts(&self) -> Result<(u64, i64, u64)> {
        let raw = fstat(&self.descriptor).map_err(|errno| self.error("open", errno))?;
        if FileType::from_raw_mode(raw.st_mode) != FileType::RegularFile {
            return Err(Error::new(ErrorKind::NotRegular, "open").at(&self.path));
        }
        let size = u64::try_from(raw.st_size).unwrap_or(0);
        Ok((size, raw.st_mtime, raw.st_mtime_nsec))
    }

    /// The size at the time of opening.
    pub(crate) fn opened_size(&self) -> u64 {
        self.opened.0
    }

    /// The size now.
    pub(crate) fn size(&self) -> Result<u64> {
        self.facts().map(|(size, ..)| size)
    }

    pub(crate) fn unchanged(&self) -> Result<()> {
        match self.facts()? == self.opened {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Changed, "read").at(&self.path)),
        }
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    fn error(&self, op: &'static str, errno: Errno) -> Error {
        let kind = match errno {
            Errno::NOSPC => ErrorKind::NoSpace,
            Errno::DQUOT => ErrorKind::Quota,
            Errno::FBIG => ErrorKind::TooLarge,
            _ => ErrorKind::Io,
        };
        let error = Error::new(kind, op).at(&self.path);
        error.because(io::Error::from(errno))
    }

    /// Runs work on the file on a thread that may block.
    async fn run<T: Send + 'static>(
        &self,
        op: &'static str,
        work: impl FnOnce(&OwnedFd) -> Result<T, Errno> + Send + 'static,
    ) -> Result<T> {
        let file = Arc::clone(&self.descriptor);
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

    pub(crate) async fn write(&self, offset: u64, data: Bytes) -> Result<()> {
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
        self.run("write", write).await
    }

    pub(crate) async fn sync(&self) -> Result<()> {
        self.run("sync", |file| rustix::fs::fdatasync(file)).await
    }

    pub(crate) async fn truncate(&self, size: u64) -> Result<()> {
        self.run("finish", move |file| rustix::fs::ftruncate(file, size))
            .await
    }
}
