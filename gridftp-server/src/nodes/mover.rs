//! `NodeMover`: runs one transfer of a session on its data nodes.

use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use byte_ranges::{Range64, RangeSet};
use ftp_proto::modules::RetrieveModule;
use ftp_proto::types::{ListForm, TransferKind};
use ftp_wire::command::Type;
use ftp_wire::path::FtpPath;
use futures_util::FutureExt as _;
use gridftp_cluster::{NodeSession, Transfer, TransferKind as NodeKind, Transferred};
use gridftp_data::{ReceivePlan, Received, Watch};
use gridftp_dsi::{Dsi, DsiPath, ErrorKind, Sink, Source as _, Stat, User, Version};
use tokio_util::sync::CancellationToken;

use super::NodeSide;
use super::follow::{Check, Followed, run};
use crate::data::{Consent, Context, Digest, Moved, Store, Verdict, take_file};
use crate::error::{Error, Forbidden, NodeFault};
use crate::names::dsi_path;

/// Interval of a node's reports of received and moved bytes.
const REPORT: Duration = Duration::from_millis(250);

/// Interval of making received bytes durable, where the client asks for no markers.
const DURABLE: Duration = Duration::from_secs(1);

/// Time for nodes to make durable what they received, once the transfer is to end.
const SALVAGE: Duration = Duration::from_secs(3);

/// A transfer over the data connections of nodes.
pub(crate) struct NodeMover<'a, D: Dsi> {
    pub(super) context: Context<'a, D>,
    pub(super) side: &'a mut NodeSide,
    /// Ends the transfers of all nodes: one failed, or the session cancelled.
    stop: CancellationToken,
    consent: Consent,
}

impl<'a, D: Dsi> NodeMover<'a, D> {
    /// Has each node report its bytes as a stripe.
    pub(crate) fn new(context: Context<'a, D>, side: &'a mut NodeSide) -> Self {
        let stop = CancellationToken::new();
        context.reporter.set_stripes(side.stripe_bytes());
        context.reporter.set_stop(stop.clone());
        let consent = context.reporter.take_publications();
        Self {
            context,
            side,
            stop,
            consent,
        }
    }

    /// Follows transfers that end within this time after a stop, or fail in this way.
    pub(super) fn followed<'f>(
        &self,
        within: Duration,
        late: fn(String) -> NodeFault,
    ) -> Followed<'f>
    where
        'a: 'f,
    {
        Followed {
            unchanged: None,
            watch: self.context.watch,
            rate: self.side.rate.clone(),
            events: self.context.reporter.events(),
            stop: self.stop.clone(),
            consent: self.consent.clone(),
            limit: (within, late),
            lost: CancellationToken::new(),
            sent: AtomicUsize::new(0),
            nodes: self.side.stripes.len(),
        }
    }
}

impl<'a, D: Dsi> NodeMover<'a, D> {
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
            TransferKind::RetrieveBy { path, module } => {
                return self.retrieve_by(path, module).await;
            }
            TransferKind::List { path, form } => return self.list(path, form).await,
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
            TransferKind::StoreBy { path, module, size } => {
                let store = self.context.module_store(dsi_path(&path)?, module, size);
                self.store_at_one(&store, drains).await?
            }
            // A front end offers neither measurements nor many files in one transfer.
            TransferKind::RetrieveMemory { .. }
            | TransferKind::StoreMemory { .. }
            | TransferKind::RetrieveFiles { .. }
            | TransferKind::StoreFiles { .. } => {
                let kind = ErrorKind::Unsupported;
                return Err(gridftp_dsi::Error::new(kind, "measure or pack files").into());
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
        let proving = self.prove_sent((&source, rest), region, held);
        let (tag, version) = proving.await?;
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
            Transfer {
                tag,
                ..self.request(retrieve, false)
            }
        });
        let requests: Vec<_> = requests.collect();
        let at = self.place(path);
        // Each node opened the file by itself: all opened the same one if it is still there.
        let unchanged = || must_be_unchanged(at, &before).boxed();
        let sent = self.send(requests, version, Some(&unchanged)).await?;
        self.take_digest(tag, &sent);
        let sent = sent.iter().map(|sent| sent.bytes).sum();
        unchanged().await?;
        // A file behind layers, or text, has another length on the wire.
        let is_plain = self.side.disk.is_none() && self.context.channel.ty != Type::Ascii;
        if is_plain && sent != wanted {
            return Err(NodeFault::Amount { sent, wanted }.into());
        }
        Ok(sent)
    }

    /// A file of the storage, for a look at it.
    fn place<'f>(&self, path: &'f DsiPath) -> Looked<'f, D>
    where
        'a: 'f,
    {
        (&self.context.shared.dsi, self.context.user, path)
    }

    /// Has the first node send the output of a module.
    async fn retrieve_by(&mut self, path: FtpPath, module: RetrieveModule) -> Result<Moved, Error> {
        let at = dsi_path(&path)?;
        let asked = match &module {
            RetrieveModule::Checksum {
                algorithm,
                offset,
                length,
            } => {
                let examining = self.context.shared.dsi.stat(self.context.user, &at);
                let before = self.context.reporter.run_quietly(examining).await?;
                Some((algorithm.clone(), *offset, *length, before))
            }
            RetrieveModule::Tar => None,
        };
        let moved = self.send_one(NodeKind::RetrieveBy { path, module }).await?;
        // The digits cost a second reading; the rest of the report costs nothing.
        if let Some((algorithm, offset, length, before)) = asked {
            let told = moved.digest.as_ref().map(|digest| &digest.algorithm);
            if told != Some(&algorithm) {
                let node = self.side.stripes.first().map(NodeSession::node);
                return Err(NodeFault::Protocol(node.unwrap_or_default().to_owned()).into());
            }
            must_be_unchanged(self.place(&at), &before).await?;
            let rest = before.size.saturating_sub(offset);
            let (sent, wanted) = (moved.bytes, length.map_or(rest, |length| length.min(rest)));
            if sent != wanted {
                return Err(NodeFault::Amount { sent, wanted }.into());
            }
        }
        Ok(moved)
    }

    /// Has the first node send a listing.
    async fn list(&mut self, path: FtpPath, form: ListForm) -> Result<Moved, Error> {
        self.send_one(NodeKind::List { path, form }).await
    }

    /// Has the first node send all bytes.
    async fn send_one(&mut self, kind: NodeKind) -> Result<Moved, Error> {
        let request = self.request(kind, false);
        let sent = self.send(vec![request], None, None).await?;
        let sent = sent.into_iter().next().unwrap_or_default();
        let digest = sent.digest;
        Ok(Moved {
            digest: digest.map(|(algorithm, hex)| Digest { algorithm, hex }),
            ..Moved::from(sent.bytes)
        })
    }

    /// Has nodes send, and returns their results. The values of this `version` of the file are kept; the
    /// file has to be `unchanged` before the receiver is told its digest.
    async fn send<'f>(
        &mut self,
        requests: Vec<Transfer>,
        version: Option<Version>,
        unchanged: Option<&'f Check<'f>>,
    ) -> Result<Vec<Transferred>, Error>
    where
        'a: 'f,
    {
        let mut followed: Followed<'f> = self.followed(SALVAGE, NodeFault::Silent);
        followed.unchanged = unchanged;
        let running = run(self.side, requests, &followed);
        let done = self.context.run_noted(version, running).await?;
        // The bytes of each stripe, which the client learns in no other way.
        self.context.reporter.last_marks(followed.watch).await;
        Ok(done)
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
        let context = &mut self.context;
        let opening = store.open(dsi, context.user, context.channel, context.tag);
        let (sink, base, mut finish) = context.reporter.run_quietly(opening).await?;
        let proves = store.go_on_digest(context, &sink).await?;
        let named = store.held.shift_up(base).unwrap_or_default();
        let upload = match sink.share(proves.then_some(&named)).await {
            Ok(upload) => upload,
            // A file that is changed in place, for instance.
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                drop(sink);
                return self.store_at_one(store, drains).await;
            }
            Err(error) => return Err(error.into()),
        };
        let before = &sink.held();
        let part = NodeKind::Store {
            path: wire_path(&store.path),
            upload,
            base,
            held: store.held.clone(),
            rules: store.rules,
        };
        let request = Transfer {
            tag: self.prove_parts(store.held.first_hole(), 0),
            ..self.request(part, drains)
        };
        let requests = vec![request; self.side.stripes.len()];
        let followed = self.followed(SALVAGE, NodeFault::Silent);
        let context = &mut self.context;
        let plan = ReceivePlan::new(context.channel.mode, context.channel.ty)
            .base(base)
            .start(store.held.first_hole());
        let side = &mut *self.side;
        let receiving = async {
            let done = run(side, requests, &followed).await?;
            let received = received(&plan, followed.watch, &done);
            examine_text(&sink, &plan, &received).await?;
            followed.watch.compare()?;
            Ok::<_, Error>(received)
        };
        let (stored, named) = (&sink, &named);
        let examine = |reported: RangeSet| async move {
            let reported = reported.shift_up(base).unwrap_or_default();
            match again(named, &reported).filter(|_| proves) {
                Some(at) => Ok(store.repeated(stored, at).await),
                None => examine_reports(stored, before, reported).await,
            }
        };
        let arrived = store
            .receive(context, &sink, base, receiving, examine)
            .await?;
        if proves {
            let watch = context.watch;
            store
                .prove_or_keep((&sink, base), watch, &mut finish)
                .await?;
        }
        let stored = store.publish(context, sink, finish, arrived).await?;
        Ok(stored.bytes)
    }

    pub(super) fn request(&self, kind: NodeKind, drains: bool) -> Transfer {
        let restart = self.context.reporter.restart_every().unwrap_or(DURABLE);
        Transfer {
            kind,
            channel: self.context.channel.clone(),
            perf_every: Some(REPORT),
            restart_every: Some(restart.min(DURABLE)),
            drains,
            tag: None,
        }
    }
}

/// A file of a storage, and the user that it is looked at for.
type Looked<'a, D> = (&'a D, &'a User, &'a DsiPath);

/// Checks that a file that was sent is still the same as before.
async fn must_be_unchanged<D: Dsi>(
    (dsi, user, path): Looked<'_, D>,
    before: &Stat,
) -> Result<(), Error> {
    let after = dsi.stat(user, path).await?;
    let facts = |stat: &Stat| (stat.inode, stat.modified, stat.size);
    match facts(before) == facts(&after) {
        true => Ok(()),
        false => Err(gridftp_dsi::Error::new(ErrorKind::Changed, "read")
            .at(path)
            .into()),
    }
}

/// A path as the nodes' service names it.
pub(super) fn wire_path(path: &DsiPath) -> FtpPath {
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

/// The first byte of the ranges `named` as held that is `reported` all the same.
fn again(named: &RangeSet, reported: &RangeSet) -> Option<u64> {
    let again = named.iter().find_map(|held| reported.clip(held).first());
    again.map(Range64::start)
}

/// Compares the reported length of text, which has no ranges, with that of the upload.
async fn examine_text<S: Sink>(
    sink: &S,
    plan: &ReceivePlan,
    received: &Received,
) -> Result<(), Error> {
    if plan.ty == Type::Ascii
        && let Some(data) = sink.data().await?
        && data.end() < received.end
    {
        return Err(NodeFault::Absent { at: data.end() }.into());
    }
    Ok(())
}

/// Compares the reported ranges with those that are in the upload.
async fn examine_reports<S: Sink>(
    sink: &S,
    before: &RangeSet,
    reported: RangeSet,
) -> Result<Verdict, Error> {
    let Some(data) = sink.data().await? else {
        return Ok(Verdict::Sound);
    };
    let missing = reported.iter().find_map(|range: Range64| {
        let gaps = data.gaps(range);
        gaps.iter().find(|gap| !before.covers(*gap))
    });
    Ok(match missing {
        None => Verdict::Sound,
        Some(gap) => Verdict::False(NodeFault::Absent { at: gap.start() }.into()),
    })
}
