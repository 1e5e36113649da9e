//! An upload that one node stores and publishes alone, and the front end's look at the file after it.

use std::time::Duration;

use ftp_proto::types::{Channel, Placement};
use ftp_wire::command::{Mode, Type};
use gridftp_cluster::{TransferKind as NodeKind, Transferred, Whole};
use gridftp_data::Watch;
use gridftp_dsi::{Dsi, ErrorKind, Kind, User};
use tokio::time::{Instant, sleep};

use super::follow::run;
use super::mover::{NodeMover, wire_path};
use crate::data::{KEEPING, Store};
use crate::error::{Error, NodeFault};

/// Longest time for a file to show the size that a node reported: NFS keeps attributes for up to
/// three seconds.
const VISIBLE: Duration = Duration::from_secs(3);

/// Interval of looking at the file within that time.
const LOOK: Duration = Duration::from_millis(250);

impl<D: Dsi> NodeMover<'_, D> {
    /// Has one node store a file, for a storage whose uploads cannot be shared.
    pub(super) async fn store_at_one(&mut self, store: &Store, drains: bool) -> Result<u64, Error> {
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
            proof: store.proof.clone(),
            rules: store.rules,
        }));
        if store.proof.is_some() {
            self.context.reporter.keep_nothing();
        }
        let request = self.request(whole, drains);
        // It publishes in one step, whose end alone is the truth.
        let followed = self.followed(KEEPING, NodeFault::Unknown);
        let is_layered = self.side.disk.is_some();
        let running = run(self.side, vec![request], &followed);
        // The node has recorded the ranges.
        let recorded = |_| std::future::ready(Ok(()));
        let context = &mut self.context;
        let done = context.reporter.run(followed.watch, running, recorded);
        let done = done.await;
        let dsi = &context.shared.dsi;
        // Without stored files there is nothing to look at.
        if let Ok(done) = &done
            && let Some(done) = done.first()
            && dsi.capabilities().keeps
        {
            let size = match is_layered {
                true => Size::Any,
                false => Size::reported(store, context.channel, followed.watch, done),
            };
            let examining = examine(dsi, context.user, store, size);
            context.reporter.complete(followed.watch, examining).await?;
        }
        context.reporter.last_marks(followed.watch).await;
        Ok(done?.iter().map(|done| done.bytes).sum())
    }
}

/// The size of a stored file by the report of its node.
#[derive(Debug, Clone, Copy)]
enum Size {
    Exactly(u64),
    /// The upload changed a part of the file.
    AtLeast(u64),
    /// Layers over files change the length.
    Any,
}

impl Size {
    fn reported(store: &Store, channel: &Channel, watch: &Watch, done: &Transferred) -> Self {
        let mut end = done.end;
        // Lengths of text on the wire and in the file differ.
        if channel.ty != Type::Ascii {
            let base = match store.into {
                Placement::At(offset) => offset,
                // The node alone knows where it appended.
                Placement::Whole | Placement::New | Placement::End => 0,
            };
            let held = &store.held;
            let mut wire = watch.received().end().max(held.end());
            wire = wire.max(store.size.unwrap_or_default());
            if channel.mode == Mode::Stream {
                wire = wire.max(held.first_hole().saturating_add(done.bytes));
            }
            if wire > 0 {
                end = end.max(base.saturating_add(wire));
            }
        }
        match store.is_cut_at_end() {
            true => Self::Exactly(end),
            false => Self::AtLeast(end),
        }
    }

    /// The fault of a report that does not fit this size.
    fn fault(self, found: u64) -> Option<NodeFault> {
        let (reported, fits) = match self {
            Self::Exactly(size) => (size, found == size),
            Self::AtLeast(size) => (size, found >= size),
            Self::Any => (found, true),
        };
        (!fits).then_some(NodeFault::Size { reported, found })
    }
}

/// Compares the stored file with its reported size; waits while the storage may show an older state.
async fn examine<D: Dsi>(dsi: &D, user: &User, store: &Store, size: Size) -> Result<(), Error> {
    let until = Instant::now() + VISIBLE;
    loop {
        let fault = match dsi.stat(user, &store.path).await {
            Ok(stat) if stat.kind == Kind::File => size.fault(stat.size),
            // A device, for instance, which has no size.
            Ok(_) => None,
            Err(error) if error.kind() == ErrorKind::NotFound => Some(NodeFault::Absent { at: 0 }),
            Err(error) => return Err(error.into()),
        };
        let Some(fault) = fault else { return Ok(()) };
        if Instant::now() >= until {
            return Err(fault.into());
        }
        sleep(LOOK).await;
    }
}
