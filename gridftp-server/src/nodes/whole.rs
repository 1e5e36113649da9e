//! An upload that one node stores and publishes alone, and the front end's look at the file after it.

use std::time::Duration;

use ftp_proto::types::{Channel, Placement};
use ftp_wire::command::{Mode, Type};
use gridftp_cluster::{NodeSession, Transfer, TransferKind as NodeKind, Transferred, Whole};
use gridftp_data::Watch;
use gridftp_dsi::{Dsi, ErrorKind, Kind, Stat};
use tokio::time::{Instant, sleep, timeout};

use super::follow::run;
use super::mover::{NodeMover, wire_path};
use crate::data::Store;
use crate::error::{Error, KEEPING, NodeFault};

/// Longest time for a file to show the size that a node reported: NFS with `actimeo=3` keeps
/// attributes of files and directories for up to three seconds.
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
        let tag = self.prove_at_one();
        let request = Transfer {
            tag,
            ..self.request(whole, drains)
        };
        // It publishes in one step, whose end alone is the truth.
        let followed = self.followed(KEEPING, NodeFault::Unknown);
        let is_layered = self.side.disk.is_some();
        let running = run(self.side, vec![request], &followed);
        // The node has recorded the ranges.
        let recorded = |_| std::future::ready(Ok(()));
        let context = &mut self.context;
        let done = context.reporter.run(followed.watch, running, recorded);
        let done = done.await;
        if let Ok(done) = &done {
            self.take_digest(tag, done);
        }
        let context = &mut self.context;
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
            let node = self.side.stripes.first().map(NodeSession::node);
            let look = || dsi.stat(context.user, &store.path);
            let examining = examine_in_time(look, size, node.unwrap_or_default());
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

/// As [`examine`]; a storage that does not answer must not hold the reply.
async fn examine_in_time<L>(look: impl FnMut() -> L, size: Size, node: &str) -> Result<(), Error>
where
    L: Future<Output = gridftp_dsi::Result<Stat>>,
{
    let examined = timeout(KEEPING, examine(look, size)).await;
    examined.unwrap_or_else(|_| Err(NodeFault::Unknown(node.to_owned()).into()))
}

/// Compares the stored file with its reported size; waits while the storage may show an older state,
/// or fails for a moment.
async fn examine<L>(mut look: impl FnMut() -> L, size: Size) -> Result<(), Error>
where
    L: Future<Output = gridftp_dsi::Result<Stat>>,
{
    let until = Instant::now() + VISIBLE;
    loop {
        let fault: Option<Error> = match look().await {
            Ok(stat) if stat.kind == Kind::File => size.fault(stat.size).map(Error::from),
            // A device, for instance, which has no size.
            Ok(_) => None,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Some(NodeFault::Absent { at: 0 }.into())
            }
            Err(error) => Some(error.into()),
        };
        let Some(fault) = fault else { return Ok(()) };
        if Instant::now() >= until {
            return Err(fault);
        }
        sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails so often, then shows a file of this size.
    async fn found(failures: u32, size: u64) -> Result<(), Error> {
        let mut tries = 0;
        let look = || {
            tries += 1;
            let mut stat = Stat::new("f", Kind::File);
            stat.size = size;
            std::future::ready(match tries {
                tries if tries <= failures => Err(gridftp_dsi::Error::new(ErrorKind::Busy, "stat")),
                _ => Ok(stat),
            })
        };
        examine(look, Size::Exactly(10)).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_storage_that_fails_for_a_moment_is_asked_again() {
        assert!(found(11, 10).await.is_ok());
        let wrong = found(11, 9).await;
        assert!(matches!(wrong, Err(Error::Node(NodeFault::Size { .. }))));
        let begun = Instant::now();
        assert!(matches!(found(u32::MAX, 10).await, Err(Error::Storage(_))));
        assert_eq!(begun.elapsed(), VISIBLE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_storage_that_does_not_answer_holds_no_reply() {
        let ended = examine_in_time(std::future::pending, Size::Any, "one").await;
        assert!(matches!(ended, Err(Error::Node(NodeFault::Unknown(node))) if node == "one"));
    }
}
