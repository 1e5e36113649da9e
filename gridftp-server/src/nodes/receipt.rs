//! The receipt of a tagged transfer whose bytes pass through nodes alone.

use byte_ranges::{Range64, RangeSet};
use ftp_wire::receipt::Extent;
use gridftp_cluster::{NodeTag, Transferred};
use gridftp_data::Told;
use gridftp_dsi::{Dsi, Source, Version};

use super::mover::NodeMover;
use crate::error::Error;

impl<D: Dsi> NodeMover<'_, D> {
    /// Begins the receipt of a transfer with all bytes on one node, which digests them.
    pub(super) fn prove_at_one(&self) -> Option<NodeTag> {
        let tag = self.context.tag?;
        self.context.watch.prove_elsewhere(tag);
        Some(NodeTag {
            tag,
            part_of: None,
            asks: false,
        })
    }

    /// Takes the digest of the node with all bytes.
    pub(super) fn take_digest(&self, tag: Option<NodeTag>, done: &[Transferred]) {
        if tag.is_some_and(|tag| tag.part_of.is_none()) {
            let proven = done.first().and_then(|done| done.proven);
            self.context.watch.note_digest(proven);
        }
    }

    /// Begins the receipt of a transfer of the bytes from `start` on, in a file that begins at `base`,
    /// of which each node tells the values of its part.
    pub(super) fn prove_parts(&self, start: u64, base: u64) -> Option<NodeTag> {
        let tag = self.context.tag?;
        let from = self.context.watch.prove_parts(tag, start, base);
        Some(NodeTag {
            tag,
            part_of: Some(from),
            asks: false,
        })
    }

    /// Begins the receipt of a file, or of the `length` bytes of a region of it, that the nodes send,
    /// less the ranges that the client holds. Gives the version of the file where its values are kept.
    pub(super) async fn prove_sent<S: Source>(
        &mut self,
        (source, length): (&S, u64),
        region: Option<(u64, Option<u64>)>,
        held: &RangeSet,
    ) -> Result<(Option<NodeTag>, Option<Version>), Error> {
        if self.side.stripes.len() <= 1 {
            return Ok((self.prove_at_one(), None));
        }
        let version = self.context.go_on_digest(source, region, held).await?;
        let base = region.map_or(0, |(offset, _)| offset);
        let first = held.complement(length).first();
        let start = base.saturating_add(first.map_or(0, Range64::start));
        let mut tag = self.prove_parts(start, base);
        if let Some(tag) = &mut tag {
            // The last one to end tells the receiver the digest of all.
            tag.asks = tag.tag.extent == Extent::Whole;
        }
        Ok((tag, version))
    }
}

/// The digest of a file in a message between the front end and a node.
pub(super) fn to_message(told: Told) -> Box<gridftp_cluster::Told> {
    Box::new(gridftp_cluster::Told {
        digest: told.digest,
        hints: told.hints,
    })
}

/// The digest of a file of such a message.
pub(super) fn of_message(told: gridftp_cluster::Told) -> Told {
    Told::new(told.digest, told.hints)
}
