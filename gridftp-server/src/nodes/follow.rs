//! The transfers of nodes, followed from their requests to the end of the last.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use ftp_proto::types::Event;
use ftp_wire::command::Mode;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use gridftp_cluster::{Fault, FromNode, NodeSession, ToNode, Transfer, Transferred};
use gridftp_data::{Told, Watch};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::receipt::{of_message, to_message};
use super::side::{lost, refused};
use super::{AskedRate, NodeSide};
use crate::data::Consent;
use crate::error::{AFTER_LOSS, Error, NodeFault};

/// The session with a node.
pub(super) trait Session: Send {
    /// The name of the node.
    fn node(&self) -> &str;

    /// Sends a request, whole or not at all.
    fn send(&self, request: ToNode) -> impl Future<Output = gridftp_cluster::Result<()>> + Send;

    /// Receives the next answer or event; dropped, nothing is lost.
    fn recv(&mut self) -> impl Future<Output = gridftp_cluster::Result<FromNode>> + Send;
}

impl Session for NodeSession {
    fn node(&self) -> &str {
        self.node()
    }

    fn send(&self, request: ToNode) -> impl Future<Output = gridftp_cluster::Result<()>> + Send {
        self.send(request)
    }

    fn recv(&mut self) -> impl Future<Output = gridftp_cluster::Result<FromNode>> + Send {
        self.recv()
    }
}

/// Longest look at a file that was sent.
const LOOK: Duration = Duration::from_secs(5);

/// A check of a file.
pub(super) type Check<'a> = dyn Fn() -> BoxFuture<'a, Result<(), Error>> + Send + Sync + 'a;

/// The reports of a transfer on nodes, and its end ahead of time.
pub(super) struct Followed<'a> {
    /// Counts the bytes of all nodes.
    pub(super) watch: &'a Watch,
    /// Shared by the nodes of the transfer.
    pub(super) rate: AskedRate,
    /// The way of events to the session.
    pub(super) events: mpsc::Sender<Event>,
    /// Stops the transfers of all nodes.
    pub(super) stop: CancellationToken,
    /// Asks the session whether its client is still there.
    pub(super) consent: Consent,
    /// Longest time from the stop to the end, and the failure of a node that takes longer.
    pub(super) limit: (Duration, fn(String) -> NodeFault),
    /// Cancelled once a node was lost.
    pub(super) lost: CancellationToken,
    /// The check of the source before its digest is told.
    pub(super) unchanged: Option<&'a Check<'a>>,
    /// Number of nodes that have sent all their data, of those that ask before their end marks.
    pub(super) sent: AtomicUsize,
    /// Number of nodes with a part.
    pub(super) nodes: usize,
}

/// Runs one request on each of the first nodes to the end of all; returns their results.
///
/// After the first failure, or a stop, the nodes are told to end; they report the ranges that they
/// made durable.
///
/// # Cancel safety
/// Dropping the future ends the sessions with the nodes at once, and their transfers with them.
pub(super) async fn run(
    side: &mut NodeSide,
    requests: Vec<Transfer>,
    followed: &Followed<'_>,
) -> Result<Vec<Transferred>, Error> {
    if side.stripes.is_empty() || side.stripes.len() < requests.len() {
        return Err(NodeFault::NoChannel.into());
    }
    side.settle_disk().await?;
    let running = RunningSide(side);
    let results = run_all(running.0, requests, followed).await?;
    running.0.is_running = false;
    Ok(results)
}

/// Ends the sessions with the nodes unless their transfers ended well.
struct RunningSide<'a>(&'a mut NodeSide);

impl Drop for RunningSide<'_> {
    fn drop(&mut self) {
        if self.0.is_running {
            self.0.close();
        }
    }
}

async fn run_all(
    side: &mut NodeSide,
    requests: Vec<Transfer>,
    followed: &Followed<'_>,
) -> Result<Vec<Transferred>, Error> {
    side.start_counts();
    let takes_all = requests.len() == side.stripes.len();
    let counts = side.stripe_bytes();
    let is_extended = requests
        .iter()
        .any(|request| request.channel.mode == Mode::Extended);
    let nodes = side.stripes.iter_mut().zip(requests).zip(&*counts);
    let results = followed.all(nodes).await?;
    side.is_cached = is_extended && takes_all;
    Ok(results)
}

impl Followed<'_> {
    /// Follows the transfers of all nodes to the end of the last; each counts its bytes, and has an
    /// equal share of the rate.
    async fn all<'n, S: Session + 'n>(
        &self,
        nodes: impl Iterator<Item = ((&'n mut S, Transfer), &'n AtomicU64)>,
    ) -> Result<Vec<Transferred>, Error> {
        let nodes: Vec<_> = nodes.collect();
        let sharers = nodes.len();
        let mut running: FuturesUnordered<_> = nodes
            .into_iter()
            .map(|((node, request), count)| self.follow(node, request, count, sharers))
            .collect();
        let mut results = Vec::new();
        let mut failure: Option<Error> = None;
        while let Some(ended) = running.next().await {
            let error = match ended {
                Ok(done) => {
                    results.push(done);
                    continue;
                }
                Err(error) => error,
            };
            if matches!(error, Error::Node(NodeFault::Lost { .. })) {
                self.lost.cancel();
            }
            // The others end because they are told to.
            self.stop.cancel();
            if failure.as_ref().is_none_or(|first| is_cause(&error, first)) {
                failure = Some(error);
            }
        }
        failure.map_or(Ok(results), Err)
    }

    /// Follows the transfer of one of so many `sharers` of the rate to its end.
    async fn follow<S: Session>(
        &self,
        node: &mut S,
        request: Transfer,
        count: &AtomicU64,
        sharers: usize,
    ) -> Result<Transferred, Error> {
        let mut rate = self.rate.clone();
        // Other transfers may have had other sharers.
        let share = rate.share(sharers);
        for request in share
            .into_iter()
            .chain([ToNode::Transfer(Box::new(request))])
        {
            let sent = node.send(request).await;
            sent.map_err(|error| lost(node.node(), error))?;
        }
        let (mut until, mut is_hurried) = (None, false);
        loop {
            let limit = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            let message = tokio::select! {
                biased;
                () = self.stop.cancelled(), if until.is_none() => {
                    until = Some(Instant::now() + self.limit.0);
                    let told = node.send(ToNode::Abort).await;
                    told.map_err(|error| lost(node.node(), error))?;
                    continue;
                }
                // Before the stop or after it.
                () = self.lost.cancelled(), if until.is_some() && !is_hurried => {
                    is_hurried = true;
                    until = until.map(|until| until.min(Instant::now() + AFTER_LOSS));
                    continue;
                }
                () = limit => return Err(self.limit.1(node.node().to_owned()).into()),
                message = node.recv() => message.map_err(|error| lost(node.node(), error))?,
                () = rate.changed() => {
                    if let Some(share) = rate.share(sharers) {
                        let told = node.send(share).await;
                        told.map_err(|error| lost(node.node(), error))?;
                    }
                    continue;
                }
            };
            if let Some(done) = self.take(node, message, count).await? {
                return Ok(done);
            }
        }
    }

    /// The digest of a file that all nodes have sent, for the receiver; `None` where it is not known, or
    /// the storage does not tell in time whether the file is still the same.
    ///
    /// # Errors
    /// The file has changed: the transfer must not end well for the receiver.
    async fn joined(&self) -> Result<Option<Told>, Error> {
        let unchanged = async {
            match self.unchanged {
                Some(check) => check().await,
                None => Ok(()),
            }
        };
        match timeout(LOOK, unchanged).await {
            Ok(unchanged) => unchanged.map(|()| self.watch.joined()),
            Err(_) => Ok(None),
        }
    }

    /// Takes a message of a node; returns the result of its transfer once that has ended.
    async fn take<S: Session>(
        &self,
        node: &S,
        message: FromNode,
        count: &AtomicU64,
    ) -> Result<Option<Transferred>, Error> {
        let moved = |total: u64| {
            let before = count.fetch_max(total, Ordering::Relaxed);
            self.watch.moved(total.saturating_sub(before));
        };
        match message {
            FromNode::Opened { reused } => self.watch.open(reused),
            FromNode::Received(ranges) => self.watch.record(&ranges)?,
            FromNode::Moved(total) => moved(total),
            // The receiver lives as long as the session.
            FromNode::Waiting => drop(self.events.send(Event::Waiting).await),
            FromNode::Arrived => {
                let (agree, agreed) = oneshot::channel();
                // The session answers, or stops the transfer.
                if self.consent.send(agree).await.is_ok() && agreed.await.is_ok() {
                    let told = node.send(ToNode::Publish).await;
                    told.map_err(|error| lost(node.node(), error))?;
                }
            }
            FromNode::Hashed(known) => self.watch.add_known(*known),
            FromNode::Told(told) => self.watch.note_told(of_message(*told)),
            FromNode::Sent(bytes) => {
                moved(bytes);
                // All others have told the values of their parts before.
                let is_last = self.sent.fetch_add(1, Ordering::Relaxed) + 1 == self.nodes;
                let told = match is_last {
                    true => self.stop.run_until_cancelled(self.joined()).await,
                    false => Some(Ok(None)),
                };
                // The node is told to abort instead.
                let Some(told) = told.transpose()? else {
                    return Ok(None);
                };
                let ended = node.send(ToNode::EndData(told.map(to_message))).await;
                ended.map_err(|error| lost(node.node(), error))?;
            }
            FromNode::Transferred(done) => {
                moved(done.bytes);
                self.watch.connected(done.connections);
                // The reports on the way named most of them.
                let known = self.watch.received();
                for range in done.ranges.iter() {
                    self.watch.record(&known.gaps(range))?;
                }
                return Ok(Some(*done));
            }
            FromNode::Failed(failed) => return Err(refused(node.node(), *failed)),
            FromNode::Done | FromNode::Listening(_) => {
                return Err(NodeFault::Protocol(node.node().to_owned()).into());
            }
        }
        Ok(None)
    }
}

/// Says whether a failure is the cause of the one that was reported first: the client ends its
/// connections to all nodes when one is lost, and the others report that.
fn is_cause(error: &Error, first: &Error) -> bool {
    let Error::Node(NodeFault::Refused { failed, .. }) = first else {
        return false;
    };
    error.is_lost_node() && matches!(failed.fault, Fault::Peer | Fault::Aborted)
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
