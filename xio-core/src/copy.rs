//! `copy_file` and `copy`: move bytes into a stack by the cheapest means that both ends allow.

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::BorrowedFd;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::kernel::KernelTransfer;
use crate::pool::{Block, Pool};
use crate::stream::Stream;

/// Bytes that are read by position, so that a copy may begin anywhere in them.
pub trait Positional: Sync {
    /// A descriptor of the same bytes, for send-file.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Reads once from `offset` into the free part of `block`, at most `limit` bytes; the block
    /// comes back unchanged at the end.
    fn read_at(
        &self,
        offset: u64,
        block: Block,
        limit: usize,
    ) -> impl Future<Output = io::Result<Block>> + Send;
}

/// Sends the bytes `offset .. offset + len` of `from` into `to` and returns their number.
///
/// Tries send-file where the stack and the source offer it, and blocks of `pool` otherwise. It
/// stops early, without an error, at the end of `from`. It does not flush or shut down.
///
/// *A layer that forgets to forward [`Stream::poll_kernel`] loses the fast path silently*;
/// that is why pass-through layers are [`Tap`](crate::Tap)s.
///
/// # Errors
/// Those of the source and the stack.
///
/// # Cancel safety
/// Dropping the future leaves an unknown part of the range sent; the stream is fit only to be
/// dropped then.
pub async fn copy_file<P, S>(
    from: &P,
    offset: u64,
    len: u64,
    to: &mut S,
    pool: &Pool,
) -> io::Result<u64>
where
    P: Positional,
    S: Stream + ?Sized,
{
    let mut sent = 0;
    if len > 0
        && to.kernel_transfers().send_file
        && let Some(file) = from.descriptor()
    {
        // Bytes that a layer holds back must not be overtaken.
        poll_fn(|cx| Pin::new(&mut *to).poll_flush(cx)).await?;
        let end;
        (sent, end) = send_file(file, offset, len, to).await?;
        if end {
            return Ok(sent);
        }
    }
    while sent < len {
        let limit = usize::try_from(len - sent).unwrap_or(usize::MAX);
        let block = from.read_at(offset + sent, pool.get().await, limit).await?;
        if block.is_empty() {
            break;
        }
        write_all(to, &block).await?;
        sent += block.len() as u64;
    }
    Ok(sent)
}

/// Sends by descriptor as far as that works; returns the number of bytes, and whether all were
/// sent.
async fn send_file<S>(
    file: BorrowedFd<'_>,
    offset: u64,
    len: u64,
    to: &mut S,
) -> io::Result<(u64, bool)>
where
    S: Stream + ?Sized,
{
    let mut sent = 0;
    while sent < len {
        let transfer = KernelTransfer::SendFile {
            file,
            offset: offset + sent,
            len: usize::try_from(len - sent).unwrap_or(usize::MAX),
        };
        match poll_fn(|cx| to.poll_kernel(cx, transfer)).await {
            Ok(0) => return Ok((sent, true)),
            Ok(n) => sent += n as u64,
            // The kernel returns EINVAL for a file that cannot be mapped.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput
                ) =>
            {
                return Ok((sent, false));
            }
            Err(error) => return Err(error),
        }
    }
    Ok((sent, true))
}

/// Copies `from`, to its end, into `to` and returns the number of bytes.
///
/// While nothing arrives, no block of the pool is held. It does not flush or shut down.
///
/// # Errors
/// Those of both ends.
///
/// # Cancel safety
/// Bytes that were read and not yet written are lost when the future is dropped.
pub async fn copy<R, W>(from: &mut R, to: &mut W, pool: &Pool) -> io::Result<u64>
where
    R: AsyncRead + Unpin + ?Sized,
    W: AsyncWrite + Unpin + ?Sized,
{
    let mut moved = 0;
    loop {
        let block = pool.read(from, usize::MAX).await?;
        if block.is_empty() {
            return Ok(moved);
        }
        write_all(to, &block).await?;
        moved += block.len() as u64;
    }
}

async fn write_all<W>(to: &mut W, mut bytes: &[u8]) -> io::Result<()>
where
    W: AsyncWrite + Unpin + ?Sized,
{
    while !bytes.is_empty() {
        let n = poll_fn(|cx| Pin::new(&mut *to).poll_write(cx, bytes)).await?;
        if n == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        bytes = bytes.get(n..).unwrap_or_default();
    }
    Ok(())
}
