//! `ControlStream`: a control connection that reads on behind urgent data.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use xio::{Info, Stream};
use xio_tcp::TcpHandle;

/// Silence after which the client is probed: a control connection is idle while a transfer runs,
/// and NAT and firewalls forget idle connections after some minutes.
const PROBED: Duration = Duration::from_secs(60);

/// A TCP connection that reads on behind the urgent mark.
///
/// Clients send the Telnet synch before `ABOR` as urgent data. A read ends at that mark although
/// more data is there, and tokio waits for readiness after a read that does not fill its buffer, so
/// that the `ABOR` would stay unread until more data arrives. Here only the kernel's "would block"
/// ends the reading.
#[derive(Debug)]
pub(crate) struct ControlStream(TcpHandle);

impl ControlStream {
    /// Sets up a connection for commands: small writes are sent at once, urgent data stays in line,
    /// an idle client is probed.
    ///
    /// # Errors
    /// Those of setting options on a connection that has ended.
    pub(crate) fn new(socket: TcpStream) -> io::Result<Self> {
        let options = SockRef::from(&socket);
        options.set_tcp_nodelay(true)?;
        options.set_out_of_band_inline(true)?;
        let handle = TcpHandle::from(socket);
        handle.keep_alive(PROBED)?;
        Ok(Self(handle))
    }
}

impl AsyncRead for ControlStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let socket = self.0.socket();
        loop {
            ready!(socket.poll_read_ready(cx))?;
            let read = socket.try_io(Interest::READABLE, || {
                Ok(rustix::io::read(socket, buf.initialize_unfilled())?)
            });
            match read {
                Ok(n) => {
                    buf.advance(n);
                    return Poll::Ready(Ok(()));
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for ControlStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl Stream for ControlStream {
    fn describe(&self, info: &mut Info) {
        self.0.describe(info);
    }
}
