//! `FileHandle`: an open file as a stream, and as a source that is read by position.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};
use xio_core::{Block, Info, Operation, Positional, Stream, at_layer};

/// An open file.
///
/// Reads and writes share one position; [`Positional`] does not move it.
pub struct FileHandle {
    file: tokio::fs::File,
    /// The same open file, for reads by position on other threads.
    shared: Arc<std::fs::File>,
    /// Whether it is open for reading.
    reads: bool,
}

impl FileHandle {
    pub(crate) fn new(file: std::fs::File, reads: bool) -> io::Result<Self> {
        let shared = Arc::new(file.try_clone()?);
        Ok(Self {
            file: file.into(),
            shared,
            reads,
        })
    }
}

fn blame<T>(answer: Poll<io::Result<T>>, op: Operation) -> Poll<io::Result<T>> {
    answer.map_err(|error| at_layer(error, "file", op))
}

impl AsyncRead for FileHandle {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.reads {
            return Poll::Ready(Ok(()));
        }
        blame(Pin::new(&mut self.file).poll_read(cx, buf), Operation::Read)
    }
}

impl AsyncWrite for FileHandle {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        blame(
            Pin::new(&mut self.file).poll_write(cx, buf),
            Operation::Write,
        )
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        blame(
            Pin::new(&mut self.file).poll_write_vectored(cx, bufs),
            Operation::Write,
        )
    }

    fn is_write_vectored(&self) -> bool {
        self.file.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        blame(Pin::new(&mut self.file).poll_flush(cx), Operation::Flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        blame(
            Pin::new(&mut self.file).poll_shutdown(cx),
            Operation::Shutdown,
        )
    }
}

impl Stream for FileHandle {
    fn describe(&self, info: &mut Info) {
        info.layer("file");
        info.ends_together = !self.reads;
    }

    fn as_seek(&mut self) -> Option<&mut (dyn AsyncSeek + Unpin)> {
        Some(&mut self.file)
    }
}

impl Positional for FileHandle {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.shared.as_fd())
    }

    async fn read_at(&self, offset: u64, mut block: Block, limit: usize) -> io::Result<Block> {
        let file = Arc::clone(&self.shared);
        tokio::task::spawn_blocking(move || {
            let from = block.len();
            let most = block.room().min(limit);
            let mut memory = block.take();
            memory.resize(from + most, 0);
            let part = memory.get_mut(from..).unwrap_or_default();
            let n = loop {
                match file.read_at(part, offset) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(at_layer(error, "file", Operation::Read)),
                    Ok(n) => break n,
                }
            };
            memory.truncate(from + n);
            block.restore(memory);
            Ok(block)
        })
        .await
        .map_err(io::Error::other)?
    }
}

impl fmt::Debug for FileHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}
