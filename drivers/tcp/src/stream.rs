//! `TcpHandle`: a connection; forwards to the socket, sends files, resets when dropped unfinished.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::SendFlags;
use rustix::pipe::{SpliceFlags, splice};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use xio_core::{Info, Operation, Stream, at_layer};

use crate::{path, socket};

/// Most that one send-file call moves, in bytes: a disk that must be waited for delivers this
/// much in a few milliseconds, and the system call's own cost is small against it.
const SEND_FILE_STEP: usize = 512 * 1024;

/// An open TCP connection.
///
/// Dropping it without `shutdown` resets the connection, as does the end of the process: a FIN
/// would read as a clean end, and to a peer in FTP's stream mode that means a complete file.
pub struct TcpHandle {
    socket: TcpStream,
    /// Who the peer is, as learnt when it came; the kernel forgets when the connection breaks.
    peer: Option<SocketAddr>,
    shut: bool,
}

impl TcpHandle {
    pub(crate) fn new(socket: TcpStream, peer: Option<SocketAddr>) -> Self {
        // From the first byte on, so that a peer of a process that is killed sees a reset as well.
        // With zero linger the kernel resets; if it refuses, closing is all that is left.
        let _ = SockRef::from(&socket).set_linger(Some(Duration::ZERO));
        Self {
            socket,
            peer,
            shut: false,
        }
    }

    /// The socket, for what this interface does not offer.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Has the kernel probe a peer that was silent for `idle`, and break the connection to one that is silent for
    /// three times as long. What is between the two then sees it used.
    ///
    /// # Errors
    /// Those of setting options, which a connection that is gone has.
    pub fn keep_alive(&self, idle: Duration) -> io::Result<()> {
        socket::keep_alive(&self.socket, idle)
    }

    /// Runs a system call once the socket can be written, and again while it cannot after all.
    fn poll_writing(
        &self,
        cx: &mut Context<'_>,
        op: Operation,
        mut call: impl FnMut() -> rustix::io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.socket.poll_write_ready(cx))?;
            match self.socket.try_io(Interest::WRITABLE, || Ok(call()?)) {
                Ok(n) => return Poll::Ready(Ok(n)),
                Err(e)
                    if matches!(
                        e.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) => {}
                Err(e) => return Poll::Ready(Err(at_layer(e, "tcp", op))),
            }
        }
    }
}

/// Takes a connection that was made elsewhere; its options stay as they are.
impl From<TcpStream> for TcpHandle {
    fn from(socket: TcpStream) -> Self {
        let peer = socket.peer_addr().ok();
        Self::new(socket, peer)
    }
}

#[inline]
fn blame<T>(answer: Poll<io::Result<T>>, op: Operation) -> Poll<io::Result<T>> {
    match answer {
        Poll::Ready(Err(error)) => Poll::Ready(Err(at_layer(error, "tcp", op))),
        other => other,
    }
}

impl AsyncRead for TcpHandle {
    #[inline]
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        blame(
            Pin::new(&mut self.socket).poll_read(cx, buf),
            Operation::Read,
        )
    }
}

impl AsyncWrite for TcpHandle {
    #[inline]
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        blame(
            Pin::new(&mut self.socket).poll_write(cx, buf),
            Operation::Write,
        )
    }

    #[inline]
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        blame(
            Pin::new(&mut self.socket).poll_write_vectored(cx, bufs),
            Operation::Write,
        )
    }

    #[inline]
    fn is_write_vectored(&self) -> bool {
        true
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The socket holds nothing back.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.shut {
            let _ = SockRef::from(&self.socket).set_linger(None);
            ready!(blame(
                Pin::new(&mut self.socket).poll_shutdown(cx),
                Operation::Shutdown
            ))?;
            self.shut = true;
        }
        Poll::Ready(Ok(()))
    }
}

impl Stream for TcpHandle {
    fn describe(&self, info: &mut Info) {
        info.layer("tcp");
        // An IPv4 peer of a socket that serves both families is an IPv4 peer.
        let plain = |mut address: SocketAddr| {
            address.set_ip(address.ip().to_canonical());
            address
        };
        info.local = self.socket.local_addr().ok().map(plain);
        info.peer = self.peer.map(plain);
        if let Some(stats) = path::stats(&self.socket) {
            info.insert(stats);
        }
    }

    fn is_send_file(&self) -> bool {
        true
    }

    fn poll_send_file(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
    ) -> Poll<io::Result<usize>> {
        let step = len.min(SEND_FILE_STEP);
        self.poll_writing(cx, Operation::SendFile, || {
            let mut from = offset;
            rustix::fs::sendfile(&self.socket, file, Some(&mut from), step)
        })
    }

    fn is_splice(&self) -> bool {
        true
    }

    fn poll_splice(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pipe: BorrowedFd<'_>,
        len: usize,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.socket.poll_read_ready(cx))?;
            let moved = self.socket.try_io(Interest::READABLE, || {
                let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
                Ok(splice(&self.socket, None, pipe, None, len, flags)?)
            });
            match moved {
                Ok(n) => return Poll::Ready(Ok(n)),
                Err(e)
                    if matches!(
                        e.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) => {}
                Err(e) => return Poll::Ready(Err(at_layer(e, "tcp", Operation::Read))),
            }
        }
    }

    fn poll_write_more(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_writing(cx, Operation::Write, || {
            rustix::net::send(&self.socket, buf, SendFlags::MORE | SendFlags::NOSIGNAL)
        })
    }
}

impl fmt::Debug for TcpHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_process_that_dies_resets_until_the_stream_was_shut_down() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).await;
        let mut handle = TcpHandle::from(socket.unwrap());
        let linger = |handle: &TcpHandle| SockRef::from(handle.socket()).linger().unwrap();
        assert_eq!(linger(&handle), Some(Duration::ZERO));
        handle.shutdown().await.unwrap();
        assert_eq!(linger(&handle), None);
    }
}
