//! `TcpHandle`: a connection; forwards to the socket, sends files, resets when dropped unfinished.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::SendFlags;
use rustix::pipe::{SpliceFlags, splice};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use xio_core::{
    Control, Info, KernelTransfer, KernelTransfers, Operation, Result, Stream, at_layer,
};

use crate::loss::{Arrival, LossWatch, LossyPeers, Path};
use crate::low_water::LowWater;
use crate::options::TcpOptions;
use crate::{control, path, socket};

/// Most that one send-file call moves, in bytes: a disk that must be waited for delivers this
/// much in a few milliseconds, and the system call's own cost is small against it.
const SEND_FILE_STEP: usize = 512 * 1024;

/// An open TCP connection.
///
/// Dropping it without `shutdown` resets the connection, as does the end of the process: a FIN
/// would read as a clean end, and to a peer in FTP's stream mode that means a complete file.
pub struct TcpHandle {
    socket: TcpStream,
    /// Address of the peer, kept since the kernel forgets it when the connection breaks.
    peer: Option<SocketAddr>,
    shut: bool,
    pub(crate) low_water: LowWater,
    /// While much is sent with the system's congestion control.
    loss: Option<Box<LossWatch>>,
    /// Whether the path is lossy, as the watch has found.
    is_lossy: bool,
    /// The same of received data.
    arrival: Option<Box<Arrival>>,
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
            low_water: LowWater::default(),
            loss: None,
            is_lossy: false,
            arrival: None,
        }
    }

    /// With the congestion control for a path that loses packets, if one is to be changed to.
    pub(crate) fn with_lossy(mut self, options: &TcpOptions, lossy: &Arc<LossyPeers>) -> Self {
        let name = options
            .lossy
            .as_ref()
            .filter(|_| options.congestion.is_none());
        self.arrival = name.map(|_| Box::default());
        let peer = self.peer.map(|peer| peer.ip().to_canonical());
        let watch = |name: &String| LossWatch::new(name.clone(), peer, Arc::clone(lossy));
        self.loss = name.map(|name| Box::new(watch(name)));
        self
    }

    /// Takes note of the result of a write.
    #[inline]
    fn wrote(&mut self, answer: &Poll<io::Result<usize>>) {
        if let (Some(watch), Poll::Ready(Ok(bytes))) = (&mut self.loss, answer) {
            let path = watch.wrote(&self.socket, *bytes);
            if path != Path::Watched {
                self.loss = None;
                self.is_lossy = path == Path::Lossy;
            }
        }
    }

    /// The socket, for operations that this interface does not offer.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Probes a peer that was silent for `idle`, and breaks the connection after three times as
    /// long. The probes also keep it alive in firewalls on the way.
    ///
    /// # Errors
    /// Those of setting options, as on a connection that is gone.
    pub fn keep_alive(&self, idle: Duration) -> io::Result<()> {
        socket::keep_alive(&self.socket, idle)
    }

    /// Runs a system call once the socket is ready for it, and again while it is not after all.
    fn poll_call(
        &self,
        cx: &mut Context<'_>,
        interest: Interest,
        op: Operation,
        mut call: impl FnMut() -> rustix::io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(match interest {
                Interest::READABLE => self.socket.poll_read_ready(cx),
                _ => self.socket.poll_write_ready(cx),
            })?;
            match self.socket.try_io(interest, || Ok(call()?)) {
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
        let this = &mut *self;
        let answer = Pin::new(&mut this.socket).poll_read(cx, buf);
        if answer.is_pending() {
            this.low_water.lower(&this.socket);
        }
        blame(answer, Operation::Read)
    }
}

impl AsyncWrite for TcpHandle {
    #[inline]
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let answer = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.wrote(&answer);
        blame(answer, Operation::Write)
    }

    #[inline]
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let answer = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.wrote(&answer);
        blame(answer, Operation::Write)
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
        if let Some(mut stats) = path::stats(&self.socket) {
            let arrival = self.arrival.as_ref();
            stats.is_lossy = self.is_lossy || arrival.is_some_and(|it| it.is_lossy(&stats));
            info.insert(stats);
        }
    }

    fn control(&mut self, control: Control<'_>) -> Option<Result<String>> {
        control::answer(&self.socket, control)
    }

    fn kernel_transfers(&self) -> KernelTransfers {
        KernelTransfers::ALL
    }

    fn poll_kernel(
        &mut self,
        cx: &mut Context<'_>,
        transfer: KernelTransfer<'_>,
    ) -> Poll<io::Result<usize>> {
        let op = transfer.operation();
        match transfer {
            KernelTransfer::Head(bytes) => self.poll_call(cx, Interest::WRITABLE, op, || {
                let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
                rustix::net::send(&self.socket, bytes, flags)
            }),
            KernelTransfer::SendFile { file, offset, len } => {
                let step = len.min(SEND_FILE_STEP);
                let answer = self.poll_call(cx, Interest::WRITABLE, op, || {
                    let mut from = offset;
                    rustix::fs::sendfile(&self.socket, file, Some(&mut from), step)
                });
                self.wrote(&answer);
                answer
            }
            KernelTransfer::Splice { pipe, len } => {
                let answer = self.poll_call(cx, Interest::READABLE, op, || {
                    let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
                    splice(&self.socket, None, pipe, None, len, flags)
                });
                match &answer {
                    Poll::Ready(moved) => {
                        let moved = *moved.as_ref().unwrap_or(&0);
                        self.low_water.moved(moved, len);
                    }
                    Poll::Pending => self.low_water.wait(cx, &self.socket, len),
                }
                answer
            }
            _ => Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
        }
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
