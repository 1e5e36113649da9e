//! One HTTP/2 connection over a stream that someone else opened, in either role, with heartbeats.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use gridftp_dsi_rpc::Caller;
use hyper::body::Incoming;
use hyper::client::conn::http2 as client;
use hyper::rt::Executor;
use hyper::server::conn::http2 as server;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Interval, MissedTickBehavior, interval_at};
use tokio_stream::Stream;
use tonic::body::Body;
use tonic::codegen::{Service, StdError, http};

/// Interval of heartbeats on every open stream.
pub(crate) const BEAT: Duration = Duration::from_secs(1);
/// Longest silence on a stream with heartbeats, after which the other end counts as frozen.
pub(crate) const SILENCE: Duration = Duration::from_millis(3500);
/// Longest time to open a connection, and to shake hands on it.
pub(crate) const OPENING: Duration = Duration::from_secs(5);

/// Interval of the pings of HTTP/2.
const PING: Duration = Duration::from_secs(2);
/// Longest wait for the answer to a ping.
const GRACE: Duration = Duration::from_secs(5);
/// Bounds of a connection.
#[derive(Debug)]
pub(crate) struct Bounds {
    /// Bytes in flight on one stream.
    stream_window: u32,
    /// Most calls in progress.
    calls: u32,
}

impl Bounds {
    /// Bytes in flight on a connection: those of all streams, so that streams that nobody reads
    /// delay no other one.
    const fn window(&self) -> u32 {
        self.calls.saturating_mul(self.stream_window)
    }
}

/// Between a front end and a node.
pub(crate) const MEMBERS: Bounds = Bounds {
    stream_window: 64 << 10,
    calls: 16_384,
};
/// Of a peer that may have no certificate.
pub(crate) const STRANGERS: Bounds = Bounds {
    stream_window: 64 << 10,
    calls: 1,
};

/// Longest header list in bytes.
const HEADERS: u32 = 16 << 10;

/// A connected byte stream.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Io for T {}

/// Starts HTTP/2 as the end that calls. The returned future carries the connection: dropping it
/// breaks off every call.
///
/// # Errors
///
/// The stream broke.
pub(crate) async fn call(
    stream: impl Io,
) -> hyper::Result<(Caller, impl Future<Output = hyper::Result<()>> + Send)> {
    let open = watch::Sender::new(());
    let (sender, connection) = client::Builder::new(Tied(open.subscribe()))
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(GRACE)
        .keep_alive_while_idle(true)
        .initial_connection_window_size(MEMBERS.window())
        .initial_stream_window_size(MEMBERS.stream_window)
        .max_header_list_size(HEADERS)
        .handshake(TokioIo::new(stream))
        .await?;
    let connection = async move {
        let _open = open;
        connection.await
    };
    Ok((Caller::new(sender), connection))
}

/// Serves calls over one connection until it ends.
///
/// # Errors
///
/// The stream broke.
pub(crate) async fn serve<S>(stream: impl Io, service: S, bounds: &Bounds) -> hyper::Result<()>
where
    S: Service<http::Request<Incoming>, Response = http::Response<Body>> + Clone + Send + 'static,
    S::Error: Into<StdError>,
    S::Future: Send + 'static,
{
    let open = watch::Sender::new(());
    server::Builder::new(Tied(open.subscribe()))
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(GRACE)
        .initial_connection_window_size(bounds.window())
        .initial_stream_window_size(bounds.stream_window)
        .max_concurrent_streams(bounds.calls)
        .max_header_list_size(HEADERS)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service))
        .await
}

/// Runs the tasks of one connection, which end when its sender is dropped.
///
/// The client of hyper runs the connection itself in such a task, as long as a call is in progress.
#[derive(Debug, Clone)]
struct Tied(watch::Receiver<()>);

impl<F> Executor<F> for Tied
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, task: F) {
        let mut open = self.0.clone();
        tokio::spawn(async move {
            tokio::select! {
                _ = open.changed() => {}
                _ = task => {}
            }
        });
    }
}

/// The sending half of a stream of messages: those of a queue, and heartbeats in between.
///
/// The connection polls it, so heartbeats need no task and stop with the process.
#[derive(Debug)]
pub(crate) struct Beats<T> {
    queue: mpsc::Receiver<T>,
    beat: Interval,
    heartbeat: fn() -> T,
    /// Work that ends with the stream.
    _work: Option<Work>,
}

impl<T> Beats<T> {
    pub(crate) fn new(queue: mpsc::Receiver<T>, heartbeat: fn() -> T, work: Option<Work>) -> Self {
        Self {
            queue,
            beat: beats(),
            heartbeat,
            _work: work,
        }
    }
}

/// The instants of heartbeats, the first one after an interval.
pub(crate) fn beats() -> Interval {
    let mut beat = interval_at(tokio::time::Instant::now() + BEAT, BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat
}

impl<T> Stream for Beats<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        if let Poll::Ready(message) = self.queue.poll_recv(cx) {
            self.beat.reset();
            return Poll::Ready(message);
        }
        ready!(self.beat.poll_tick(cx));
        Poll::Ready(Some((self.heartbeat)()))
    }
}

/// A task that is aborted when this is dropped.
#[derive(Debug)]
pub(crate) struct Work(JoinHandle<()>);

impl Work {
    pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.0.abort();
    }
}
