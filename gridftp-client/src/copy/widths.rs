//! The data connections of an item: streams and stripes by its size and its path.

use std::num::NonZero;
use std::time::Duration;

use super::job::{FileJob, Item};
use super::state::CopyState;
use super::tuning::MOST_STREAMS;
use crate::options::CopyOptions;
use crate::stripes::{PathFacts, Width};

/// Files at least this large are worth several streams and stripes, in bytes.
const WORTH_STREAMS: u64 = 64 << 20;
/// Longest wait for the end of the search for files.
const FOUND: Duration = Duration::from_millis(50);
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
            None if helps && is_large => {
                let limit = path.connections.unwrap_or(u32::MAX).max(1);
                self.tuning.streams().min(limit)
            }
            None => 1,
        };
        Width {
            stripes,
            ..Width::of_streams(self.hold_streams(streams))
        }
    }

    /// As many streams of a file, or as many as the caller allows; an explanation then names that
    /// bound.
    fn hold_streams(&self, streams: u32) -> u32 {
        let CopyOptions {
            parallel,
            max_parallel,
            ..
        } = self.options;
        if parallel.is_none() && max_parallel.is_some_and(|most| streams >= most.get()) {
            self.totals.samples.reach([true, false]);
        }
        self.options.hold_streams(streams)
    }

    /// The data connections for an item that begins on a channel of its own: a large file that is
    /// alone may take more while it runs. Where files wait, others at once do that, and a channel
    /// of such a file serves no other: see [`fits`](Self::fits).
    ///
    /// One that failed is tried again without: its receiver may take fewer connections than are
    /// opened for it.
    pub(crate) async fn widest(&self, item: &Item, path: PathFacts) -> Width {
        let width = self.width(item, path);
        let is_free = !self.options.polite && self.options.connect.rate_limit.is_none();
        let is_first = matches!(item, Item::File(job) if job.retries == 0);
        let told = path.connections.map_or(1, |told| told.min(MOST_STREAMS));
        let limit = self.options.hold_streams(told);
        let may_widen = is_first && is_free && limit > width.streams && self.is_tuned(item, path);
        let most = match may_widen && self.is_alone().await {
            true => self.hold_streams(told),
            false => width.most,
        };
        Width { most, ..width }
    }

    /// Says whether a file that is under way is the only one of the copy.
    async fn is_alone(&self) -> bool {
        // The search for files ends a moment behind the last one.
        let _late = tokio::time::timeout(FOUND, self.queue.all_found()).await;
        self.queue.has_one_file()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::RateLimit;

    const FAR: PathFacts = PathFacts {
        round_trip: Duration::from_millis(50),
        may_stripe: true,
        nodes: false,
        parts: false,
        connections: Some(64),
    };

    fn file(size: u64) -> Item {
        let mut job = FileJob::new(b"/a".to_vec(), b"/b".to_vec());
        job.facts.size = Some(size);
        Item::File(Box::new(job))
    }

    #[test]
    fn a_bound_that_is_reached_is_noted() {
        for (exact, most, is_noted) in [
            (None, 99, false),
            (None, 4, true),
            (None, 2, true),
            (Some(2), 2, false),
        ] {
            let mut shared = CopyState::plain();
            (shared.options.parallel, shared.options.max_parallel) = (exact, NonZero::new(most));
            let near = PathFacts {
                round_trip: Duration::ZERO,
                ..FAR
            };
            shared.width(&file(WORTH_STREAMS), near);
            assert_eq!(shared.totals.samples.reached(), [false; 2]);
            shared.width(&file(WORTH_STREAMS), FAR);
            let reached = shared.totals.samples.reached();
            assert_eq!(reached, [is_noted, false], "{exact:?}, at most {most}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_file_that_is_alone_may_take_more_connections() {
        let mut shared = CopyState::plain();
        shared.queue.push(file(1 << 30));
        let taken = shared.queue.next(|_| true).await.unwrap();
        let most = async |shared: &CopyState, path| {
            let width = shared.widest(taken.item(), path).await;
            width.parallelism()
        };
        let wide = most(&shared, FAR).await;
        assert_eq!((wide.start, wide.most), (4, 16));
        let near = PathFacts {
            round_trip: Duration::ZERO,
            ..FAR
        };
        assert_eq!(most(&shared, near).await.most, 1);
        let old = PathFacts {
            connections: None,
            ..FAR
        };
        assert_eq!(most(&shared, old).await.most, 4);
        let few = PathFacts {
            connections: Some(6),
            ..FAR
        };
        assert_eq!(most(&shared, few).await.most, 6);
        let fewer = PathFacts {
            connections: Some(2),
            ..FAR
        };
        let wide = most(&shared, fewer).await;
        assert_eq!((wide.start, wide.most), (2, 2));
        shared.options.polite = true;
        assert_eq!(most(&shared, FAR).await.most, 4);
        shared.options.polite = false;
        shared.options.connect.rate_limit = Some(RateLimit::new(Some(1 << 20)));
        assert_eq!(most(&shared, FAR).await.most, 4);
        shared.options.connect.rate_limit = None;
        for (bound, numbers) in [(6, (4, 6)), (2, (2, 2)), (99, (4, 16))] {
            shared.options.max_parallel = NonZero::new(bound);
            let wide = most(&shared, FAR).await;
            assert_eq!((wide.start, wide.most), numbers, "at most {bound}");
        }
        shared.options.max_parallel = None;
        shared.options.parallel = Some(3);
        assert_eq!(most(&shared, FAR).await.most, 3);
        shared.options.parallel = None;
        // Its channel is for no other file.
        let width = shared.widest(taken.item(), FAR).await;
        assert!(!shared.fits(&file(1 << 30), width, FAR));
        let mut failed = file(1 << 30);
        if let Item::File(job) = &mut failed {
            job.retries = 1;
        }
        assert!(!shared.widest(&failed, FAR).await.widens());
        let finding = shared.queue.producer();
        assert_eq!(most(&shared, FAR).await.most, 4, "others may be found");
        drop(finding);
        assert_eq!(most(&shared, FAR).await.most, 16);
        shared.queue.push(file(1));
        assert_eq!(most(&shared, FAR).await.most, 4, "another waits");
    }
}
