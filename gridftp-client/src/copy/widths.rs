//! The data connections of an item: streams and stripes by its size and its path.

use std::num::NonZero;
use std::time::Duration;

use super::job::{FileJob, Item};
use super::state::CopyState;
use crate::stripes::{PathFacts, Width};

/// Files at least this large are worth several streams and stripes, in bytes.
const WORTH_STREAMS: u64 = 64 << 20;
/// A round trip below this is a link on which one stream does best.
pub(super) const NEAR: Duration = Duration::from_millis(2);

impl CopyState {
    /// The data connections for an item.
    pub(crate) fn width(&self, item: &Item, path: PathFacts) -> Width {
        let Item::File(job) = item else {
            return Width::of_streams(1);
        };
        let is_large = is_large(job);
        let whole = !self.is_partial() && job.held.is_empty() && !job.begun;
        let stripes = match path.may_stripe && is_large && (whole || path.parts) {
            true => self.options.stripes.unwrap_or(NonZero::<u32>::MAX),
            false => NonZero::<u32>::MIN,
        };
        // Where each node has a link of its own, one stream fills nine tenths of it.
        let has_links = path.nodes && stripes > NonZero::<u32>::MIN;
        let helps = path.round_trip >= NEAR || has_links;
        let streams = match self.options.parallel {
            Some(n) => n,
            None if helps && is_large => self.tuning.streams(),
            None => 1,
        };
        Width { streams, stripes }
    }

    /// Says whether the streams of an item are chosen by their rate.
    pub(crate) fn is_tuned(&self, item: &Item, path: PathFacts) -> bool {
        let large = matches!(item, Item::File(job) if is_large(job));
        large && self.options.parallel.is_none() && path.round_trip >= NEAR
    }

    /// Says whether `item` may use a channel of this width. Directories may use any channel to one
    /// host.
    pub(crate) fn fits(&self, item: &Item, width: Width, path: PathFacts) -> bool {
        match item {
            Item::Dir(_) => !width.is_striped(),
            Item::File(_) => self.width(item, path) == width,
        }
    }
}

/// Says whether a file is worth several streams and stripes.
fn is_large(job: &FileJob) -> bool {
    job.facts.size >= Some(WORTH_STREAMS)
}
