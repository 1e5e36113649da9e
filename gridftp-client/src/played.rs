//! A control connection in memory, to a server that a test plays.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ftp_proto::client::{ClientSession, Settings};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader, DuplexStream,
    Lines, ReadBuf, ReadHalf, WriteHalf,
};

use crate::clock::now;
use crate::control::{Control, Replies};
use crate::progress::Silent;

/// Gives the client's end, the banner to come, and the server's end.
pub(crate) fn connect(settings: Settings) -> (Control, Replies, DuplexStream) {
    let (near, far) = tokio::io::duplex(64 << 10);
    let session = ClientSession::new(now(), settings);
    let (stream, site) = (Box::new(Wire(near)), Arc::from("server:1"));
    let observer = Arc::new(Silent);
    let (control, banner) =
        Control::start(stream, site, session, Duration::ZERO, observer).unwrap();
    (control, banner, far)
}

/// Gives the client's end behind a greeting, the lines that the server reads, and its replies.
pub(crate) async fn greeted(
    settings: Settings,
) -> (
    Control,
    Lines<BufReader<ReadHalf<DuplexStream>>>,
    WriteHalf<DuplexStream>,
) {
    let (control, mut banner, far) = connect(settings);
    let (far, mut replies) = tokio::io::split(far);
    replies.write_all(b"220 ready\r\n").await.unwrap();
    banner.finish().await.unwrap();
    (control, BufReader::new(far).lines(), replies)
}

/// One end of a connection in memory.
pub(crate) struct Wire(pub(crate) DuplexStream);

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Wire {
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

impl xio_core::Stream for Wire {
    fn describe(&self, info: &mut xio_core::Info) {
        let here = SocketAddr::from(([127, 0, 0, 1], 1));
        (info.local, info.peer) = (Some(here), Some(here));
    }
}
