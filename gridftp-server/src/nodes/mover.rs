//! `NodeMover`: runs one transfer of a session on its data nodes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use byte_ranges::{Range64, RangeSet};
use ftp_proto::types::{ListForm, TransferKind};
use ftp_wire::command::{Mode, Type};
use ftp_wire::path::FtpPath;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use gridftp_cluster::NodeSession;
use gridftp_cluster::{
    DataIdentity, FromNode, ToNode, Transfer, TransferKind as NodeKind, Transferred, Whole,
};
use gridftp_data::{ReceivePlan, Received, Watch};
use gridftp_dsi::{Dsi, DsiPath, ErrorKind, Sink, Source as _};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::NodeSide;
use super::side::{lost, refused};
use crate::data::{Context, Moved, NotArrived, Store, take_file};
use crate::error::{Error, Forbidden, NodeFault};
use crate::names::dsi_path;

/// Interval of a node's reports of received and moved bytes.
const REPORT: Duration = Duration::from_millis(250);

/// Interval of making received bytes durable, where the client asks for no markers.
const DURABLE: Duration = Duration::from_secs(1);

/// Time for the other nodes of a failed transfer to make durable what they received.
const SALVAGE: Duration = Duration::from_secs(3);

/// A transfer over the data connections of nodes.
pub(crate) struct NodeMover<'a, D: Dsi> {
    pub(crate) context: Context<'a, D>,
    pub(crate) side: &'a mut NodeSide,
}

impl<'a, D: Dsi> NodeMover<'a, D> {
    /// Has each node report its bytes as a stripe.
    pub(crate) fn new(context: Context<'a, D>, side: &'a mut NodeSide) -> Self {
        context.reporter.set_stripes(side.stripe_bytes());
        Self { context, side }
    }
}

impl<D: Dsi> NodeMover<'_, D> {
    /// Runs the transfer to its end.
    ///
    /// # Errors
    /// Those of a transfer on this host, those of a node, and the loss of one.
    pub(crate) async fn run(mut self, kind: TransferKind, drains: bool) -> Result<Moved, Error> {
        // A layer may change the length, so that offsets of stripes mean nothing.
        if self.side.disk.is_some() && self.side.stripes.len() > 1 {
            return Err(Error::NotThroughLayers);
        }
        let _file = take_file(&self.side.descriptors)?;
        let bytes = match kind {
            TransferKind::Retrieve { path, region, held } => {
                self.retrieve(&dsi_path(&path)?, region, &held).await?
            }
            TransferKind::List { path, form } => self.list(path, form).await?,
            TransferKind::Store {
                path,
                into,
                held,
                size,
                modified,
                checksum,
            } => {
                let store = Store {
                    held,
                    size,
                    modified,
                    checksum,
                    ..self.context.plain_store(dsi_path(&path)?, into)
                };
                self.store(&store, drains).await?
            }
            TransferKind::RetrieveBy { .. } | TransferKind::StoreBy { .. } => {
                return Err(NodeFault::Module.into());
            }
        };
        Ok(Moved::from(bytes))
    }

    /// Has every node send its stripe of a file; returns the bytes sent.
    async fn retrieve(
        &mut self,
        path: &DsiPath,
        region: Option<(u64, Option<u64>)>,
        held: &RangeSet,
    ) -> Result<u64, Error> {
        let reading = self.context.shared.dsi.read(self.context.user, path);
        let source = self.context.reporter.run_patiently(reading).await?;
        let examining = self.context.shared.dsi.stat(self.context.user, path);
        let before = self.context.reporter.run_quietly(examining).await?;
        let rest = source.size();
        let rest = region.map_or(rest, |(offset, length)| {
            let rest = rest.saturating_sub(offset);
            length.map_or(rest, |length| length.min(rest))
        });
        let wanted = held.complement(rest).total();
        let stripes = u32::try_from(self.side.stripes.len()).unwrap_or(u32::MAX);
        let requests = (0..stripes).map(|stripe| {
            let retrieve = NodeKind::Retrieve {
                path: wire_path(path),
                region,
                held: held.clone(),
                layout: self.context.channel.layout,
                stripe,
                stripes,
            };
            self.request(retrieve, false)
        });
        let requests: Vec<_> = requests.collect();
        let sent = self.send(requests).await?;
        // Each node opened the file by itself: all opened the same one if it is still there.
        let after = self
            .context
            .shared
            .dsi
            .stat(self.context.user, path)
            .await?;
        if (before.inode, before.modified, before.size) != (after.inode, after.modified, after.size)
        {
            return Err(gridftp_dsi::Error::new(ErrorKind::Changed, "read")
                .at(path)
                .into());
        }
        // A file behind layers, or text, has another length on the wire.
        let is_plain = self.side.disk.is_none() && self.context.channel.ty != Type::Ascii;
        if is_plain && sent != wanted {
            return Err(NodeFault::Amount { sent, wanted }.into());
        }
        Ok(sent)
    }

    /// Has the first node send a listing; returns the bytes sent.
    async fn list(&mut self, path: FtpPath, form: ListForm) -> Result<u64, Error> {
        let request = self.request(NodeKind::List { path, form }, false);
        self.send(vec![request]).await
    }

    /// Runs transfers that send; returns the bytes sent.
    async fn send(&mut self, requests: Vec<Transfer>) -> Result<u64, Error> {
        let watch = self.context.watch;
        let running = run(self.side, requests, watch);
        let recorded = |_| std::future::ready(Ok(()));
        let reporter = &mut *self.context.reporter;
        let done = reporter.run(watch, running, recorded).await?;
        // The bytes of each stripe, which the client learns in no other way.
        reporter.last_marks(watch).await;
        Ok(done.iter().map(|done| done.bytes).sum())
    }

    /// Has every node receive its stripe of an upload, then publishes it.
    async fn store(&mut self, store: &Store, drains: bool) -> Result<u64, Error> {
        if !self.context.user.may_write {
            return Err(Forbidden::Write.into());
        }
        let dsi = &self.context.shared.dsi;
        if !dsi.capabilities().shares_uploads || self.side.disk.is_some() {
            return self.store_at_one(store, drains).await;
        }
        let opening = store.open(dsi, self.context.user, self.context.channel);
        let (sink, base, finish) = self.context.reporter.run_quietly(opening).await?;
        let upload = match sink.share().await {
            Ok(upload) => upload,
            // A file that is changed in place, for instance.
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                drop(sink);
                return self.store_at_one(store, drains).await;
            }
            Err(error) => return Err(error.into()),
        };
        let before = sink.held();
        let part = NodeKind::Store {
            path: wire_path(&store.path),
            upload,
            base,
            held: store.held.clone(),
            size: store.size,
        };
        let request = self.request(part, drains);
        let requests = vec![request; self.side.stripes.len()];
        let context = &mut self.context;
        let plan = ReceivePlan::new(context.channel.mode, context.channel.ty)
            .base(base)
            .start(store.held.first_hole());
        let (watch, side) = (context.watch, &mut *self.side);
        let receiving = async {
            let done = run(side, requests, watch).await?;
            let received = received(&plan, watch, &done);
            there(&sink, &before, base, &received).await?;
            Ok::<_, Error>(received)
        };
        match store.receive(context, &sink, base, receiving).await {
            Ok(arrived) => store.publish(context, sink, finish, arrived).await,
            Err(NotArrived { error, kept }) => {
                if let Error::Node(NodeFault::Absent { .. }) = error {
                    // Whatever was recorded before may be as wrong.
                    sink.checkpoint(&RangeSet::new(), store.durable).await?;
                } else if kept {
                    // The other nodes reported their last durable ranges after the failure.
                    context.reporter.last_marks(context.watch).await;
                }
                Err(error)
            }
        }
    }

    /// Has one node store a file, for a storage whose uploads cannot be shared.
    async fn store_at_one(&mut self, store: &Store, drains: bool) -> Result<u64, Error> {
        if self.side.stripes.len() > 1 {
            return Err(NodeFault::NotShared.into());
        }
        let whole = NodeKind::Whole(Box::new(Whole {
            path: wire_path(&store.path),
            into: store.into,
            held: store.held.clone(),
            size: store.size,
            modified: store.modified,
            checksum: store.checksum.clone(),
            empty_unannounced: store.empty_unannounced,
        }));
        let request = self.request(whole, drains);
        let watch = self.context.watch;
        let running = run(self.side, vec![request], watch);
        // The node has recorded the ranges.
        let recorded = |_| std::future::ready(Ok(()));
        let reporter = &mut *self.context.reporter;
        let done = reporter.run(watch, running, recorded).await?;
        reporter.last_marks(watch).await;
        Ok(done.iter().map(|done| done.bytes).sum())
    }

    fn request(&self, kind: NodeKind, drains: bool) -> Transfer {
        let restart = self.context.reporter.restart_every().unwrap_or(DURABLE);
        Transfer {
            kind,
            channel: self.context.channel.clone(),
            identity: DataIdentity::default(),
            perf_every: Some(REPORT),
            restart_every: Some(restart.min(DURABLE)),
            tag: self.context.tag,
            drains,
        }
    }
}

/// A path as the nodes' service names it.
fn wire_path(path: &DsiPath) -> FtpPath {
    FtpPath::new(path.as_bytes()).unwrap_or_else(FtpPath::root)
}

/// The result of all nodes together.
fn received(plan: &ReceivePlan, watch: &Watch, done: &[Transferred]) -> Received {
    let unmarked = done.iter().any(|done| done.ended_unmarked);
    let mut received = Received::of(plan, watch, unmarked);
    if plan.ty == Type::Ascii {
        received.end = done.iter().map(|done| done.end).max().unwrap_or_default();
    }
    received
}

/// Checks that the reported ranges are in the upload.
async fn there<S: Sink>(
    sink: &S,
    before: &RangeSet,
    base: u64,
    received: &Received,
) -> Result<(), Error> {
    let Some(data) = sink.data().await? else {
        return Ok(());
    };
    let reported = received.ranges.shift_up(base).unwrap_or_default();
    let missing = reported.iter().find_map(|range: Range64| {
        let gaps = data.gaps(range);
        gaps.iter().find(|gap| !before.covers(*gap))
    });
    match missing {
        None => Ok(()),
        Some(gap) => Err(NodeFault::Absent { at: gap.start() }.into()),
    }
}

/// Runs one request on each of the first nodes to the end of all; returns their results.
///
/// After the first failure the others are told to stop; they report what they made durable.
///
/// # Cancel safety
/// Dropping the future ends the sessions with the nodes at once, and their transfers with them.
async fn run(
    side: &mut NodeSide,
    requests: Vec<Transfer>,
    watch: &Watch,
) -> Result<Vec<Transferred>, Error> {
    if side.stripes.is_empty() || side.stripes.len() < requests.len() {
        return Err(NodeFault::NoChannel.into());
    }
    side.settle_disk().await?;
    let running = RunningSide(side);
    let results = run_all(running.0, requests, watch).await?;
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
    watch: &Watch,
) -> Result<Vec<Transferred>, Error> {
    side.begin();
    let takes_all = requests.len() == side.stripes.len();
    let stop = CancellationToken::new();
    let counts = side.stripe_bytes();
    let mut running = FuturesUnordered::new();
    let is_extended = requests
        .iter()
        .any(|request| request.channel.mode == Mode::Extended);
    for ((node, request), count) in side.stripes.iter_mut().zip(requests).zip(&*counts) {
        running.push(follow(node, request, (watch, count), &stop));
    }
    let mut results = Vec::new();
    let mut failure = None;
    while let Some(ended) = running.next().await {
        match ended {
            Ok(done) => results.push(done),
            // The others end because they are told to; the first failure is mostly the cause.
            Err(error) => {
                stop.cancel();
                failure.get_or_insert(error);
            }
        }
    }
    drop(running);
    match failure {
        None => {
            side.is_cached = is_extended && takes_all;
            Ok(results)
        }
        Some(error) => Err(error),
    }
}

/// Follows the transfer of one node to its end.
async fn follow(
    node: &mut NodeSession,
    request: Transfer,
    (watch, count): (&Watch, &AtomicU64),
    stop: &CancellationToken,
) -> Result<Transferred, Error> {
    let sent = node.send(ToNode::Transfer(Box::new(request))).await;
    sent.map_err(|error| lost(node, error))?;
    let mut until: Option<Instant> = None;
    let moved = |total: u64| {
        let before = count.fetch_max(total, Ordering::Relaxed);
        watch.moved(total.saturating_sub(before));
    };
    loop {
        let limit = async {
            match until {
                Some(until) => sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        let message = tokio::select! {
            biased;
            () = stop.cancelled(), if until.is_none() => {
                until = Some(Instant::now() + SALVAGE);
                let abort = ToNode::Abort { by: "front end".to_owned() };
                node.send(abort).await.map_err(|error| lost(node, error))?;
                continue;
            }
            () = limit => return Err(NodeFault::Silent(node.node().to_owned()).into()),
            message = node.recv() => message.map_err(|error| lost(node, error))?,
        };
        match message {
            FromNode::Opened { reused } => watch.open(reused),
            FromNode::Received(ranges) => watch.record(&ranges)?,
            FromNode::Moved(total) => moved(total),
            FromNode::Transferred(done) => {
                moved(done.bytes);
                watch.connected(done.connections);
                // The reports on the way named most of them.
                let known = watch.received();
                for range in done.ranges.iter() {
                    watch.record(&known.gaps(range))?;
                }
                return Ok(*done);
            }
            FromNode::Failed(failed) => return Err(refused(node, *failed)),
            FromNode::Done | FromNode::Listening(_) => {
                return Err(NodeFault::Protocol(node.node().to_owned()).into());
            }
        }
    }
}
