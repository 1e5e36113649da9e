//! Writes to one data connection: memory in vectored writes, files by the cheapest means.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::ops::Deref;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use gridftp_dsi::{Error as StorageError, ErrorKind as StorageKind, Source};
use rustix::io::{Errno, ReadWriteFlags};
use tokio::io::AsyncWrite;
use xio_core::{Block, BoxStream, KernelTransfer, Pool, Stream};

use crate::conn::Conn;
use crate::error::{Error, Result};
use crate::watch::Watch;

/// Longest range of a file, in bytes, that is read into memory, so that header, payload and end
/// mark leave in one write; above it, send-file is cheaper.
pub(crate) const SMALL: u64 = 128 << 10;

/// Bytes of one send-file call: at most the range that was just checked to be in memory.
const STEP: u64 = 512 << 10;

/// Bytes that a sender keeps while its connection is not writable.
const FEW: usize = 1024;

/// Least bytes to read for a connection that takes few bytes at a time.
const LITTLE: u64 = 64 << 10;

/// Writes all `pieces` in order, in as few calls as the connection allows.
pub(crate) async fn pieces<const N: usize>(
    stream: &mut BoxStream,
    pieces: [&[u8]; N],
) -> Result<()> {
    let mut slices = pieces.map(IoSlice::new);
    let mut left = slices.as_mut_slice();
    // A write of empty pieces would return 0, which looks like a closed connection.
    IoSlice::advance_slices(&mut left, 0);
    while !left.is_empty() {
        let n = poll_fn(|cx| Pin::new(&mut *stream).poll_write_vectored(cx, left)).await;
        IoSlice::advance_slices(&mut left, some(n)?);
    }
    Ok(())
}

/// Writes `pieces` in order as far as the connection takes them without waiting; returns the number
/// of bytes.
async fn at_once<const N: usize>(stream: &mut BoxStream, pieces: [&[u8]; N]) -> Result<usize> {
    let mut slices = pieces.map(IoSlice::new);
    let mut left = slices.as_mut_slice();
    IoSlice::advance_slices(&mut left, 0);
    let mut taken = 0;
    poll_fn(|cx| {
        while !left.is_empty() {
            let Poll::Ready(n) = Pin::new(&mut *stream).poll_write_vectored(cx, left) else {
                break;
            };
            match some(n) {
                Ok(n) => {
                    IoSlice::advance_slices(&mut left, n);
                    taken += n;
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(taken))
    })
    .await
}

/// Writes all of `head`, announcing to the kernel that payload follows.
async fn ahead(stream: &mut BoxStream, mut head: &[u8]) -> Result<()> {
    while !head.is_empty() {
        let n = poll_fn(|cx| stream.poll_kernel(cx, KernelTransfer::Head(head))).await;
        head = head.get(some(n)?..).unwrap_or_default();
    }
    Ok(())
}

fn some(written: io::Result<usize>) -> Result<usize> {
    match written {
        Ok(0) => Err(Error::broken("send", io::ErrorKind::WriteZero.into())),
        Ok(n) => Ok(n),
        Err(error) => Err(Error::broken("send", error)),
    }
}

/// Bytes to send.
enum Piece {
    /// A block of the pool.
    Block(Block),
    /// Memory of the storage.
    Lent(Bytes),
}

impl Piece {
    /// The lent bytes from `at` on; a block returns to its pool.
    fn rest(self, at: usize) -> Option<Bytes> {
        match self {
            Self::Block(_) => None,
            Self::Lent(bytes) => Some(bytes.slice(at..)).filter(|rest| !rest.is_empty()),
        }
    }
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Block(block) => block,
            Self::Lent(bytes) => bytes,
        }
    }
}

/// Sends ranges of one source.
#[derive(Debug)]
pub(crate) struct Feed<'a, S> {
    pub(crate) source: &'a S,
    pub(crate) pool: &'a Pool,
    pub(crate) watch: &'a Watch,
}

impl<S: Source> Feed<'_, S> {
    /// Sends `head`, then `len` bytes of the source from `offset`, then `tail`, which is asked for
    /// once the receipt knows all bytes.
    ///
    /// A range that fits in one block leaves in one write with its head and tail. No block is held
    /// while the connection is not writable.
    pub(crate) async fn stretch(
        &self,
        conn: &mut Conn,
        mut head: &[u8],
        mut offset: u64,
        mut len: u64,
        tail: &(dyn Fn() -> Box<[u8]> + Sync),
    ) -> Result<()> {
        let mut end = Box::<[u8]>::default();
        // Bytes before this offset are in the receipt; some may be read once more to be sent.
        let mut shown = offset;
        let sends = |file: BorrowedFd<'_>| !is_blind(file);
        let mut sends_file =
            conn.stream.kernel_transfers().send_file && self.source.descriptor().is_some_and(sends);
        // The rest of a short write: the storage lends its bytes once.
        let mut lent = None;
        while len > 0 {
            let proven = self.watch.to_digest(offset);
            if sends_file && len > SMALL && proven == 0 {
                ahead(&mut conn.stream, std::mem::take(&mut head)).await?;
                let sent = self.send_file(conn, offset, len).await?;
                offset += sent;
                len -= sent;
                shown = offset;
                sends_file = false;
                continue;
            }
            let whole = if sends_file && len > SMALL {
                proven
            } else {
                len
            };
            let block = match lent.take() {
                Some(rest) => Piece::Lent(rest),
                None => {
                    let next = self.next(offset, len.min(whole).min(conn.room)).await;
                    next.map_err(|e| Error::storage("send", e))?
                }
            };
            let got = block.len() as u64;
            let again = usize::try_from(shown - offset).unwrap_or(usize::MAX);
            self.watch
                .show(shown, block.get(again..).unwrap_or_default());
            shown = shown.max(offset + got);
            let last = if got == len {
                end = tail();
                &*end
            } else {
                &[][..]
            };
            let parts = [std::mem::take(&mut head), &block, last];
            let [before, payload, _] = parts.map(<[u8]>::len);
            let taken = at_once(&mut conn.stream, parts).await?;
            conn.tell_sent(self.watch);
            if taken == before + payload + last.len() {
                self.watch.moved(got);
                offset += got;
                len -= got;
                if len == 0 {
                    return Ok(());
                }
                conn.room = conn.room.saturating_mul(2);
                continue;
            }
            // The peer is the slower side. During the wait a few bytes stay here, more than the
            // longest head, and the block returns to the pool.
            let rest = parts.into_iter().flatten().skip(taken).take(FEW);
            let few: Vec<u8> = rest.copied().collect();
            let out = (taken + few.len()).saturating_sub(before);
            let moved = out.min(payload);
            lent = block.rest(moved);
            pieces(&mut conn.stream, [&few]).await?;
            let moved = moved as u64;
            self.watch.moved(moved);
            offset += moved;
            len -= moved;
            if len == 0 {
                let rest = end.get(out - payload..).unwrap_or_default();
                return pieces(&mut conn.stream, [rest]).await;
            }
            conn.room = (taken as u64).max(LITTLE);
        }
        end = tail();
        pieces(&mut conn.stream, [head, &end]).await
    }

    /// Sends by send-file, as far as that is supported; returns the number of bytes sent.
    async fn send_file(&self, conn: &mut Conn, offset: u64, len: u64) -> Result<u64> {
        let Some(file) = self.source.descriptor() else {
            return Ok(0);
        };
        let mut sent = 0;
        while sent < len {
            let want = usize::try_from((len - sent).min(STEP)).unwrap_or(usize::MAX);
            self.warm(file, offset + sent, want as u64).await?;
            let transfer = KernelTransfer::SendFile {
                file,
                offset: offset + sent,
                len: want,
            };
            match poll_fn(|cx| conn.stream.poll_kernel(cx, transfer)).await {
                Ok(0) => return Err(Error::storage("send", shrank(offset + sent))),
                Ok(n) => {
                    sent += n as u64;
                    self.watch.moved(n as u64);
                    conn.tell_sent(self.watch);
                }
                // The kernel returns `InvalidInput` for a file that it cannot map.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput
                    ) =>
                {
                    return Ok(sent);
                }
                Err(error) => return Err(send_file_failed(error)),
            }
        }
        Ok(sent)
    }

    /// Reads a range into the page cache, unless it is there, on a thread of the storage: send-file
    /// would block this thread on the disk, and every transfer that it serves.
    async fn warm(&self, file: BorrowedFd<'_>, offset: u64, len: u64) -> Result<()> {
        let (mut at, end) = (offset, offset + len);
        if is_warm(file, at) && is_warm(file, end - 1) {
            return Ok(());
        }
        while at < end {
            let block = self.read(at, end - at).await;
            at += block.map_err(|e| Error::storage("send", e))?.len() as u64;
        }
        Ok(())
    }

    /// The next bytes from `offset`, at most `len` and at least one, without a copy if the storage
    /// has them in memory.
    async fn next(&self, offset: u64, len: u64) -> Result<Piece, StorageError> {
        if !self.source.lends() {
            return self.read(offset, len).await.map(Piece::Block);
        }
        let _storing = self.watch.storing();
        match self.source.lend(offset, len).await? {
            none if none.is_empty() => Err(shrank(offset)),
            lent => Ok(Piece::Lent(lent)),
        }
    }

    /// Reads a block from `offset`, at most `len` bytes and at least one.
    pub(crate) async fn read(&self, offset: u64, len: u64) -> Result<Block, StorageError> {
        let mut block = self.pool.get().await;
        let want = usize::try_from(len).unwrap_or(usize::MAX).min(block.size());
        let _storing = self.watch.storing();
        while block.len() < want {
            let before = block.len();
            let read = self.source.read_at(offset + before as u64, block.take());
            block.restore(read.await?);
            if block.len() == before {
                return Err(shrank(offset + before as u64));
            }
        }
        block.truncate(want);
        Ok(block)
    }
}

/// Reads the byte at `offset` if it is in memory.
fn glance(file: BorrowedFd<'_>, offset: u64) -> rustix::io::Result<usize> {
    let mut byte = [0];
    let mut into = [io::IoSliceMut::new(&mut byte)];
    rustix::io::preadv2(file, &mut into, offset, ReadWriteFlags::NOWAIT)
}

/// Whether the byte at `offset` is in memory.
fn is_warm(file: BorrowedFd<'_>, offset: u64) -> bool {
    glance(file, offset) != Err(Errno::AGAIN)
}

/// Whether the file system cannot report the page cache, as network file systems: send-file could
/// then block this thread for any time.
fn is_blind(file: BorrowedFd<'_>) -> bool {
    /// File systems entirely in memory: tmpfs and ramfs.
    const MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];
    glance(file, 0) == Err(Errno::OPNOTSUPP)
        && !rustix::fs::fstatfs(file).is_ok_and(|fs| MEMORY.contains(&fs.f_type))
}

/// The source is shorter than the range to send.
fn shrank(at: u64) -> StorageError {
    let fact = format!("the file ended at byte {at} while it was being sent");
    StorageError::new(StorageKind::Changed, "read").because(fact)
}

/// The error of a send-file call: of the connection for these kinds, else of the file.
fn send_file_failed(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::NotConnected
        | io::ErrorKind::TimedOut
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable => Error::broken("send", error),
        _ => Error::storage(
            "send",
            StorageError::new(StorageKind::Io, "read").because(error),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn only_file_systems_that_cannot_report_the_page_cache_are_blind() {
        let here = tempfile::tempfile().unwrap();
        assert!(!is_blind(here.as_fd()));
        if let Ok(memory) = tempfile::tempfile_in("/dev/shm") {
            assert!(!is_blind(memory.as_fd()));
        }
        // The kernel generates this file at each read.
        let made = std::fs::File::open("/proc/self/status").unwrap();
        assert!(is_blind(made.as_fd()));
    }
}
