//! `Input` and `Output`: one descriptor, waited for by the runtime or read on a blocking thread.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe;

use crate::socket::Socket;

/// Opens a pipe again, as non-blocking, if possible.
///
/// The flag `O_NONBLOCK` belongs to the open file description, which other programs may share, so
/// it must not be set on the given descriptor.
fn anew(fd: &OwnedFd, blocking: bool, how: &mut std::fs::OpenOptions) -> Option<File> {
    let file = File::from(fd.try_clone().ok()?);
    if blocking || !file.metadata().ok()?.file_type().is_fifo() {
        return None;
    }
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    how.custom_flags(i32::try_from(flags).ok()?)
        .open(format!("/proc/self/fd/{}", fd.as_raw_fd()))
        .ok()
}

/// Whether to treat a descriptor as a socket.
fn is_socket(fd: &OwnedFd, blocking: bool) -> bool {
    let kind = rustix::fs::fstat(fd).map(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode));
    !blocking && kind == Ok(rustix::fs::FileType::Socket)
}

pub(crate) enum Input {
    Waiting(pipe::Receiver),
    Socket(Socket),
    Threaded(tokio::fs::File),
}

impl Input {
    pub(crate) fn new(fd: OwnedFd, blocking: bool) -> io::Result<Self> {
        match anew(&fd, blocking, File::options().read(true)) {
            Some(file) => Ok(Self::Waiting(pipe::Receiver::from_file(file)?)),
            None if is_socket(&fd, blocking) => Ok(Self::Socket(Socket::new(fd)?)),
            None => Ok(Self::Threaded(File::from(fd).into())),
        }
    }
}

impl AsyncRead for Input {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Waiting(pipe) => Pin::new(pipe).poll_read(cx, buf),
            Self::Socket(socket) => socket.poll_read(cx, buf),
            Self::Threaded(file) => Pin::new(file).poll_read(cx, buf),
        }
    }
}

pub(crate) enum Output {
    Waiting(pipe::Sender),
    Socket(Socket),
    Threaded(tokio::fs::File),
}

impl Output {
    pub(crate) fn new(fd: OwnedFd, blocking: bool) -> io::Result<Self> {
        match anew(&fd, blocking, File::options().write(true)) {
            Some(file) => Ok(Self::Waiting(pipe::Sender::from_file(file)?)),
            None if is_socket(&fd, blocking) => Ok(Self::Socket(Socket::new(fd)?)),
            None => Ok(Self::Threaded(File::from(fd).into())),
        }
    }
}

impl AsyncWrite for Output {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Waiting(pipe) => Pin::new(pipe).poll_write(cx, buf),
            Self::Socket(socket) => socket.poll_write(cx, buf),
            Self::Threaded(file) => Pin::new(file).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Waiting(pipe) => Pin::new(pipe).poll_write_vectored(cx, bufs),
            Self::Socket(socket) => {
                let first = bufs.iter().find(|buf| !buf.is_empty());
                socket.poll_write(cx, first.map_or(&[], |buf| buf))
            }
            Self::Threaded(file) => Pin::new(file).poll_write_vectored(cx, bufs),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Waiting(pipe) => Pin::new(pipe).poll_flush(cx),
            Self::Socket(_) => Poll::Ready(Ok(())),
            Self::Threaded(file) => Pin::new(file).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Socket(socket) => Poll::Ready(socket.end()),
            other => Pin::new(other).poll_flush(cx),
        }
    }
}
