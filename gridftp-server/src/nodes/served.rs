//! The part of one client's session that runs on a node.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use byte_ranges::{RangeSet, Stripe};
use ftp_proto::security::DataProtection;
use ftp_proto::types::{Channel, Event, TransferKind};
use ftp_wire::path::FtpPath;
use gridftp_cluster::{
    Connect, DataIdentity, Failed, Fault, FromNode, Listen, Open, PeerRule, StoreRules, ToNode,
    Transfer, TransferKind as NodeKind, Transferred, Whole,
};
use gridftp_cluster::{Replies, Requests};
use gridftp_data::{Peers, Watch};
use gridftp_dsi::{Dsi, ErrorKind, User};
use tokio::sync::{mpsc, oneshot};
use xio::rate::Bound;

use super::joined::Joined;
use super::receipt::{of_message, to_message};
use crate::data::{
    Buffers, Context, DataLayer, DataSide, Ends, Mover, Reporter, Store, every, limit, take_file,
    tick,
};
use crate::error::{AbortedBy, Error, Forbidden};
use crate::grid::GridSession;
use crate::names::dsi_path;
use crate::reply_for::reply_for;
use crate::server::Shared;
use crate::transfer_log::Requester;

/// Most events that wait for the connection to the front end.
const EVENTS: usize = 4;

/// Interval of telling the values of this node's part of a tagged transfer.
const HASHED: Duration = Duration::from_millis(250);

/// Most ranges in one report.
const RANGES: usize = 32_768;

/// Most separate ranges of an upload on one node: with the blocks of other nodes between them, the
/// blocks of this one never join.
const PARTS: usize = 1 << 20;

/// One session of a client, as this node serves it.
pub(super) struct Served<D: Dsi> {
    shared: Arc<Shared<D>>,
    user: User,
    ends: Ends,
    side: DataSide,
    running: Arc<AtomicU32>,
}

/// Counts a running transfer.
struct Counted(Arc<AtomicU32>);

impl Counted {
    fn new(running: &Arc<AtomicU32>) -> Self {
        running.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(running))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<D: Dsi> Served<D> {
    /// Begins a session; `running` counts the transfers of all.
    pub(super) fn new(
        shared: Arc<Shared<D>>,
        running: Arc<AtomicU32>,
        open: &Open,
        ends: Ends,
    ) -> Self {
        let user = open.user.clone();
        let rules = shared.rules();
        let mut side = shared.data_side(&rules.policy, &user.name);
        let limits = side.channel.options_mut();
        limits.open_within = open.limits.connect_timeout;
        limits.stall = open.limits.stall_timeout;
        limits.ranges = PARTS;
        limits.connections = limits.connections.min(open.limits.max_streams);
        Self {
            shared,
            user,
            ends,
            side,
            running,
        }
    }

    /// Serves the requests of the front end until it ends the session.
    ///
    /// # Cancel safety
    /// Dropped, the data connections close; what was received stays in the upload.
    pub(super) async fn run(mut self, mut requests: Requests, replies: Replies) {
        while let Some(request) = requests.recv().await {
            let answer = match request {
                ToNode::Listen(listen) => self.listen(*listen).await.map(FromNode::Listening),
                ToNode::Connect(connect) => self.connect(*connect).map(|()| FromNode::Done),
                ToNode::Stack(side, stack) => self
                    .side
                    .set_stack(side, stack.as_deref())
                    .map(|()| FromNode::Done),
                ToNode::Transfer(transfer) => {
                    // The data side is lent to the transfer.
                    let mut bound = self.side.bound.clone();
                    let running = self.transfer(*transfer, &mut bound, &mut requests, &replies);
                    let ended = running.await;
                    self.side.bound = bound;
                    let Some(ended) = ended else { return };
                    ended.map(|done| FromNode::Transferred(Box::new(done)))
                }
                // Of a transfer that has ended.
                ToNode::Abort | ToNode::Publish | ToNode::EndData(_) => continue,
                ToNode::DropData => {
                    self.side.drop_data();
                    continue;
                }
                ToNode::Rate(rate) => {
                    limit(&mut self.side.bound, rate);
                    continue;
                }
            };
            let answer = answer.unwrap_or_else(|error| FromNode::Failed(Box::new(failed(&error))));
            replies.send(answer).await;
        }
    }

    async fn listen(&mut self, listen: Listen) -> Result<std::net::SocketAddr, Error> {
        let rule = self.rule(listen.peers, &listen.protection, &listen.identity)?;
        let buffers = Buffers::new(listen.send_buffer, listen.receive_buffer);
        let (ends, family) = (self.ends, listen.family);
        self.side.listen(ends, family, buffers, rule).await
    }

    fn connect(&mut self, connect: Connect) -> Result<(), Error> {
        let rule = self.rule(connect.peers, &connect.protection, &connect.identity)?;
        self.side.connect_to(connect.addresses, self.ends, rule)
    }

    /// The hosts of data connections with this protection, and the layer of it.
    fn rule(
        &self,
        peers: PeerRule,
        protection: &DataProtection,
        identity: &DataIdentity,
    ) -> Result<(Peers, Option<DataLayer>), Error> {
        let own = self.ends.peer;
        let peers = match peers {
            PeerRule::Own => Peers::Only(own),
            PeerRule::Any => Peers::AnyBeside(own),
            PeerRule::Among(networks) => {
                let networks = networks.iter().filter_map(|network| network.parse().ok());
                Peers::Among(own, networks.collect())
            }
        };
        let mut grid = GridSession::new(self.shared.rules().policy.grid.clone());
        if let Some(credential) = &identity.credential {
            grid.take_delegated(credential.reveal(), identity.own_authorities)?;
        }
        let layer = grid.layer(protection).map_err(Error::Stack)?;
        let layer = layer.map(|layer| DataLayer::Grid(Box::new(layer)));
        if layer.is_none() && protection.is_some() {
            return Err(Forbidden::NoProtection.into());
        }
        Ok((peers, layer))
    }

    /// Runs a transfer to its end, beside requests to stop it and to change its bound; `None` when the
    /// session ended.
    async fn transfer(
        &mut self,
        transfer: Transfer,
        bound: &mut Option<Bound>,
        requests: &mut Requests,
        replies: &Replies,
    ) -> Option<Result<Transferred, Error>> {
        let _counted = Counted::new(&self.running);
        let (sender, mut events) = mpsc::channel(EVENTS);
        let (cancel, cancelled) = oneshot::channel();
        let mut cancel = Some(cancel);
        let mut reporter = Reporter::at(
            sender,
            cancelled,
            transfer.perf_every,
            transfer.restart_every,
        );
        let (consent, mut asked) = mpsc::channel(1);
        reporter.set_consent(consent);
        let mut publication: Option<oneshot::Sender<()>> = None;
        let watch = Watch::new();
        let part_of = transfer.tag.and_then(|tag| tag.part_of);
        part_of.iter().for_each(|from| watch.hand_on(*from));
        let mut hashed = part_of.map(|_| every(HASHED));
        let mut asks = transfer.tag.is_some_and(|tag| tag.asks);
        if asks {
            watch.ask_before_end();
        }
        let work = self.work(transfer, &watch, &mut reporter);
        let mut work = std::pin::pin!(work);
        let result = loop {
            tokio::select! {
                biased;
                Some(event) = events.recv() => tell(replies, event).await,
                () = tick(&mut hashed) => hand_on(replies, &watch).await,
                () = watch.stripe_sent(), if asks => {
                    asks = false;
                    hand_on(replies, &watch).await;
                    replies.send(FromNode::Sent(watch.bytes())).await;
                }
                Some(consent) = asked.recv() => {
                    publication = Some(consent);
                    replies.send(FromNode::Arrived).await;
                }
                result = &mut work => break result,
                request = requests.recv() => match request? {
                    ToNode::Publish => {
                        if let Some(consent) = publication.take() {
                            // An abort may have been faster.
                            let _ = consent.send(());
                        }
                    }
                    ToNode::EndData(told) => {
                        watch.end_stripe(told.map(|told| of_message(*told)));
                    }
                    ToNode::Abort => {
                        if let Some(cancel) = cancel.take() {
                            // The transfer may have ended already.
                            let _ = cancel.send(AbortedBy::Client);
                        }
                    }
                    ToNode::Rate(rate) => limit(bound, rate),
                    // A front end waits for the end of a transfer before its next request.
                    _ => return None,
                },
            }
        };
        while let Ok(event) = events.try_recv() {
            tell(replies, event).await;
        }
        if watch.hands_on() {
            hand_on_last(replies, &watch).await;
        }
        Some(result)
    }

    async fn work(
        &mut self,
        transfer: Transfer,
        watch: &Watch,
        reporter: &mut Reporter,
    ) -> Result<Transferred, Error> {
        let shared = Arc::clone(&self.shared);
        self.side.set_draining(transfer.drains);
        let channel: Channel = transfer.channel;
        let context = Context {
            shared: &shared,
            user: &self.user,
            // The front end, which knows the task, writes the log of transfers.
            requester: Requester {
                user: &self.user.name,
                task: "",
                peer: self.ends.peer,
                files: &AtomicUsize::new(0),
            },
            channel: &channel,
            tag: transfer.tag.map(|tag| tag.tag),
            rules: rules(&transfer.kind),
            watch,
            reporter,
        };
        let mover = Mover::new(context, &mut self.side);
        let ended = moved(mover, transfer.kind, transfer.drains).await;
        let mut done = ended.map_err(|error| error.beside_refused(self.side.channel.refused()))?;
        done.connections = watch.most_carrying();
        done.proven = watch.receipt().and_then(|receipt| receipt.blake3);
        Ok(done)
    }
}

/// Moves the bytes of this node.
async fn moved<D: Dsi>(
    mut mover: Mover<'_, D>,
    kind: NodeKind,
    drains: bool,
) -> Result<Transferred, Error> {
    let kind = match kind {
        NodeKind::Store {
            path,
            upload,
            base,
            held,
            ..
        } => return stored_part(mover, &path, &upload, (base, held.first_hole())).await,
        NodeKind::Whole(whole) => return stored_whole(mover, *whole).await,
        NodeKind::Retrieve {
            path,
            region,
            held,
            layout,
            stripe,
            stripes,
        } => {
            mover.stripe = Stripe::new(layout, stripe, stripes).filter(|_| stripes > 1);
            TransferKind::Retrieve { path, region, held }
        }
        NodeKind::List { path, form } => TransferKind::List { path, form },
        NodeKind::RetrieveBy { path, module } => TransferKind::RetrieveBy { path, module },
    };
    let sent = mover.run(kind, drains).await?;
    Ok(Transferred {
        bytes: sent.bytes,
        digest: sent.digest.map(|digest| (digest.algorithm, digest.hex)),
        ..Transferred::default()
    })
}

/// Receives this node's part of a shared upload, with the offset of the file and of the transfer at
/// which it begins.
async fn stored_part<D: Dsi>(
    mut mover: Mover<'_, D>,
    path: &FtpPath,
    upload: &[u8],
    (base, start): (u64, u64),
) -> Result<Transferred, Error> {
    let _file = take_file(mover.side.channel.descriptors())?;
    let path = dsi_path(path)?;
    let joined = Joined {
        path: &path,
        upload,
        base,
        start,
    };
    let received = mover.join(&joined).await?;
    Ok(Transferred {
        bytes: received.bytes,
        end: received.end,
        ended_unmarked: received.ended_unmarked,
        ..Transferred::default()
    })
}

/// Receives and publishes a file alone.
async fn stored_whole<D: Dsi>(mut mover: Mover<'_, D>, whole: Whole) -> Result<Transferred, Error> {
    let _file = take_file(mover.side.channel.descriptors())?;
    let store = Store {
        path: dsi_path(&whole.path)?,
        into: whole.into,
        held: whole.held,
        size: whole.size,
        modified: whole.modified,
        checksum: whole.checksum,
        proof: whole.proof,
        rules: whole.rules,
    };
    let stored = mover.store(&store).await?;
    Ok(Transferred {
        bytes: stored.bytes,
        // Without bytes the file need not reach to the offset of the upload.
        end: if stored.bytes > 0 { stored.end } else { 0 },
        ..Transferred::default()
    })
}

/// The way of storing of the front end.
fn rules(kind: &NodeKind) -> StoreRules {
    match kind {
        NodeKind::Whole(whole) => whole.rules,
        NodeKind::Store { rules, .. } => *rules,
        _ => StoreRules::default(),
    }
}

/// Tells the front end the values of this node's part that it does not know.
async fn hand_on(replies: &Replies, watch: &Watch) {
    loop {
        let known = watch.take_known();
        if known.is_empty() {
            return;
        }
        replies.send(FromNode::Hashed(Box::new(known))).await;
    }
}

/// As [`hand_on`], with the digest that the sender told this node, at the end of the transfer.
async fn hand_on_last(replies: &Replies, watch: &Watch) {
    hand_on(replies, watch).await;
    if let Some(told) = watch.take_told() {
        replies.send(FromNode::Told(to_message(told))).await;
    }
}

/// Sends an event to the front end.
async fn tell(replies: &Replies, event: Event) {
    let report = match event {
        Event::Opened { reused } => FromNode::Opened { reused },
        Event::Received(mut ranges) => {
            // A message has room for so many.
            while ranges.len() > RANGES {
                let mut some = RangeSet::new();
                for range in ranges.iter().take(RANGES) {
                    some.insert(range);
                }
                for range in some.iter() {
                    ranges.remove(range);
                }
                replies.send(FromNode::Received(some)).await;
            }
            FromNode::Received(ranges)
        }
        Event::Moved { bytes, .. } => FromNode::Moved(bytes),
        Event::Waiting => FromNode::Waiting,
        // Not of a transfer.
        Event::Lines(_) | Event::Hashed { .. } => return,
    };
    replies.send(report).await;
}

/// The report of a failure, with the reply for the client.
fn failed(error: &Error) -> Failed {
    Failed {
        reply: reply_for(error),
        fault: fault(error),
    }
}

fn fault(error: &Error) -> Fault {
    match error {
        Error::Refusing { error, .. } => fault(error),
        Error::Storage(error) if error.kind() == ErrorKind::Busy => Fault::Node,
        Error::Data(error) if error.kind() == gridftp_data::ErrorKind::Full => Fault::Node,
        Error::Storage(_) => Fault::Storage,
        Error::Data(_) if error.storage().is_some() => Fault::Storage,
        Error::Data(_) | Error::Unvisited(_) => Fault::Peer,
        Error::Aborted(_) => Fault::Aborted,
        _ => Fault::Request,
    }
}
