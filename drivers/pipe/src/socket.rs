//! `Socket`: a socket as a descriptor, such as the standard ones under `sshd`, without blocking.

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};
use tokio::io::ReadBuf;
use tokio::io::unix::AsyncFd;

/// A stream socket, read and written without setting `O_NONBLOCK`, which belongs to the open file
/// description that other programs may share.
pub(crate) struct Socket(AsyncFd<OwnedFd>);

impl Socket {
    #[expect(
        deprecated,
        reason = "sound here, as an `OwnedFd` is open while it is registered; its successor is unsafe"
    )]
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        Ok(Self(AsyncFd::new(fd)?))
    }

    pub(crate) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.0.poll_read_ready(cx))?;
            let unfilled = buf.initialize_unfilled();
            let read =
                ready.try_io(|fd| Ok(recv(fd.get_ref(), &mut *unfilled, RecvFlags::DONTWAIT)?.0));
            if let Ok(read) = read {
                buf.advance(read?);
                return Poll::Ready(Ok(()));
            }
        }
    }

    pub(crate) fn poll_write(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.0.poll_write_ready(cx))?;
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            if let Ok(sent) = ready.try_io(|fd| Ok(send(fd.get_ref(), buf, flags)?)) {
                return Poll::Ready(sent);
            }
        }
    }

    /// Ends the writing of all descriptors of the socket.
    pub(crate) fn end(&self) -> io::Result<()> {
        Ok(shutdown(self.0.get_ref(), Shutdown::Write)?)
    }
}
