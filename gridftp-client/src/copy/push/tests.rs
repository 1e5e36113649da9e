//! Directories are sent for as fast as a server makes them, and no faster.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ftp_proto::client::{ClientSession, Settings};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::io::{DuplexStream, ReadBuf};

use super::ask::{Dirs, make_dir};
use crate::control::Control;
use crate::copy::job::{DirJob, Item};
use crate::copy::shared::Shared;
use crate::copy::window::COMMANDS;
use crate::options::CopyOptions;
use crate::progress::{Silent, Totals};

/// Directories of the tree.
const DIRS: usize = 3 * COMMANDS;

/// A connection to a server that the test plays.
struct Wire(DuplexStream);

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl xio_core::Stream for Wire {
    fn describe(&self, info: &mut xio_core::Info) {
        let here = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        (info.local, info.peer) = (Some(here), Some(here));
    }
}

#[tokio::test(start_paused = true)]
async fn a_tree_of_directories_does_not_outrun_the_server() {
    let (near, far) = tokio::io::duplex(64 << 10);
    // All that is sent for is on the wire, so that it can be counted.
    let mut settings = Settings::default();
    settings.window = 8 * DIRS;
    let session = ClientSession::new(Instant::now(), settings);
    let stream = Box::new(Wire(near));
    let site = Arc::from("server:1");
    let (control, mut banner) =
        Control::start(stream, site, session, Duration::ZERO, Arc::new(Silent)).unwrap();
    let shared = Arc::new(Shared::new(
        CopyOptions::default(),
        Arc::new(Silent),
        Arc::new(Totals::default()),
        None,
        None,
        None,
    ));
    let maker = tokio::spawn({
        let shared = Arc::clone(&shared);
        async move {
            banner.finish().await.unwrap();
            let mut dirs = Dirs::default();
            for n in 0..DIRS {
                let dir = DirJob::new(Vec::new(), format!("/{n}").into_bytes());
                shared.queue.push(Item::Dir(Box::new(dir)));
                let taken = shared.queue.next(|_| true).await.unwrap();
                make_dir(&control, &shared, taken, &mut dirs).await;
            }
            while shared.queue.next(|_| true).await.is_some() {}
        }
    });
    let (far, mut replies) = tokio::io::split(far);
    let mut lines = BufReader::new(far).lines();
    replies.write_all(b"220 ready\r\n").await.unwrap();
    let (mut made, mut unanswered) = (0, Vec::new());
    loop {
        // Time is paused: it passes only when nobody has anything left to do.
        match tokio::time::timeout(Duration::from_millis(1), lines.next_line()).await {
            Ok(line) => match line.unwrap() {
                Some(line) => unanswered.push(line),
                None => break,
            },
            Err(_) if unanswered.is_empty() => break,
            Err(_) => {
                assert!(unanswered.len() <= 2 * COMMANDS, "{}", unanswered.len());
                for line in unanswered.drain(..) {
                    made += usize::from(line.starts_with("MKD "));
                    let reply = if line == "QUIT" {
                        "221 bye"
                    } else {
                        "250 done"
                    };
                    let reply = format!("{reply}\r\n");
                    replies.write_all(reply.as_bytes()).await.unwrap();
                }
            }
        }
    }
    maker.await.unwrap();
    assert_eq!((made, shared.worst()), (DIRS, None));
}
