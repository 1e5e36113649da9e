//! Deals the blocks of one file to the connections of a MODE E transfer, and ends each of them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gridftp_dsi::Source;
use mode_e::{Header, Next, Scheduler, Streams};

use super::active::{Active, Turn};
use super::widen::Widening;
use super::write::{SMALL, pieces};
use super::{Feed, flush, still_the_same, tag_of};
use crate::conn::Conn;
use crate::error::Result;
use crate::plan::SendPlan;
use crate::wait;
use crate::watch::Watch;

/// Smallest and largest payload of a block derived from the size of the file, in bytes.
const BLOCKS: (u64, u64) = (256 << 10, 4 << 20);

/// Time in which a connection is to send a block: the end of a file waits for that of the slowest.
const TURN: Duration = Duration::from_millis(500);

/// One file on its way over several connections.
struct Deal<'a, S> {
    feed: &'a Feed<'a, S>,
    plan: &'a SendPlan,
    /// One task takes this lock, never across a wait, so there is no contention.
    schedule: Mutex<Scheduler>,
    active: Active,
    total: u64,
    /// Whether all bytes leave in one block, together with an end mark that waits for nothing else.
    is_small: bool,
    /// Connections to the receiver that is told the digest: the first one, which has all bytes or
    /// hands it on to the host that joins the digests of all. None where this end has a part itself,
    /// and does not ask before its end.
    told: usize,
}

/// The next step of a connection.
#[derive(Clone, Copy)]
enum Step {
    Data(Header),
    /// The last header, sent when all blocks are.
    End(Header),
    /// The last header of a connection that ends ahead of the others.
    Early(Header),
    Finished,
}

impl From<Next> for Step {
    fn from(next: Next) -> Self {
        match next {
            Next::Data(header) => Self::Data(header),
            Next::End(header) => Self::End(header),
            _ => Self::Finished,
        }
    }
}

/// Sends the ranges of `plan`, or its stripe of them, in extended blocks over all `conns`.
///
/// Each block goes to the next writable connection, where the plan begins with fewer connections
/// than are open to the first ones. Every connection gets an end-of-data mark, and one of each
/// destination their number (GFD.20 §4).
pub(crate) async fn extended<S: Source>(
    feed: &Feed<'_, S>,
    conns: &mut [Conn],
    streams: Streams,
    plan: &SendPlan,
    block: Option<u64>,
) -> Result<()> {
    let start = plan.active(streams);
    let deal = Deal::new(feed, streams, plan, block, start);
    let blocks = conns.iter_mut().enumerate();
    let blocks = wait::all(blocks.map(|(index, conn)| deal.blocks(index, conn)));
    let ends = match start < streams.connections() {
        true => {
            let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
            let widening = Widening::new(count(start), count(streams.connections()));
            feed.watch.carry(count(start));
            tokio::select! {
                biased;
                ends = blocks => ends,
                never = Box::pin(deal.active.widen(widening, feed.watch)) => match never {},
            }
        }
        false => blocks.await,
    }?;
    if !feed.watch.is_cut() {
        still_the_same(feed.source, &plan.ranges).await?;
    }
    if feed.watch.asks_before_end() {
        feed.watch.await_end().await;
    }
    let deal = &deal;
    let ends = conns.iter_mut().zip(ends).enumerate();
    wait::all(ends.map(|(index, (conn, end))| async move {
        if let Some((head, end)) = end {
            pieces(&mut conn.stream, [&head, &deal.marks(index, end)]).await?;
        }
        flush(std::slice::from_mut(conn)).await
    }))
    .await?;
    Ok(())
}

impl<'a, S: Source> Deal<'a, S> {
    fn new(
        feed: &'a Feed<'a, S>,
        streams: Streams,
        plan: &'a SendPlan,
        block: Option<u64>,
        start: usize,
    ) -> Self {
        let share = plan.share();
        let total = share.total();
        let block = block.unwrap_or_else(|| {
            (total / (4 * streams.connections() as u64))
                .next_multiple_of(64 << 10)
                .clamp(BLOCKS.0, BLOCKS.1)
        });
        let receivers = plan.receivers.and_then(|most| most.get().try_into().ok());
        let schedule =
            Scheduler::of(share, block, streams).with_receivers(receivers.unwrap_or(usize::MAX));
        Self {
            feed,
            plan,
            schedule: Mutex::new(schedule),
            active: Active::new(start),
            total,
            is_small: total <= SMALL.min(block) && !feed.watch.asks_before_end(),
            told: match plan.stripe {
                Some(_) if !feed.watch.asks_before_end() => 0,
                _ => streams.connections() / streams.destinations(),
            },
        }
    }

    /// Sends blocks over one connection until none is left, or until it is not needed. Gives the
    /// tag, if that is not sent yet, and the end mark, if that is to follow all blocks.
    async fn blocks(&self, index: usize, conn: &mut Conn) -> Result<Option<(Vec<u8>, Header)>> {
        // The tag leaves together with the first block.
        let mut head = tag_of(self.plan);
        let mut most = u64::MAX;
        let mut step = self.step(index, most).await;
        loop {
            let header = match step {
                Step::Data(header) => header,
                Step::End(end) => {
                    // The others may wait for a receiver that needs these bytes first.
                    flush(std::slice::from_mut(conn)).await?;
                    return Ok(Some((head, end)));
                }
                Step::Early(end) => {
                    pieces(&mut conn.stream, [&head, &end.to_bytes()]).await?;
                    flush(std::slice::from_mut(conn)).await?;
                    return Ok(None);
                }
                Step::Finished => return Ok(None),
            };
            // The last block of a small file leaves together with the end mark.
            let ahead = self.is_small.then(|| Step::from(self.next(index, most)));
            let end = match ahead {
                Some(Step::End(end)) => Some(end),
                _ => None,
            };
            let tail = || end.map_or_else(Box::default, |end| self.marks(index, end));
            let offset = header.offset.saturating_add(self.plan.base);
            head.extend(header.to_bytes());
            let begun = Instant::now();
            self.feed
                .stretch(conn, &head, offset, header.count, &tail)
                .await?;
            head.clear();
            most = in_turn(most, header.count, begun.elapsed());
            if end.is_some() {
                return Ok(None);
            }
            step = match ahead {
                Some(ahead) => ahead,
                None => self.step(index, most).await,
            };
        }
    }

    /// The next step of a connection, once it may take one, with at most so many bytes.
    async fn step(&self, index: usize, most: u64) -> Step {
        let early = match self.active.turn(index).await {
            Turn::Take => None,
            Turn::End => self.schedule().end_early(index),
        };
        early.map_or_else(|| self.next(index, most).into(), Step::Early)
    }

    /// The next block or the end of a connection.
    fn next(&self, index: usize, most: u64) -> Next {
        let mut schedule = self.schedule();
        if self.feed.watch.is_cut() {
            schedule.clear();
        }
        let next = schedule.next_within(index, most);
        if schedule.left() == 0 {
            self.active.drain();
        }
        next
    }

    fn schedule(&self) -> MutexGuard<'_, Scheduler> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The end mark of a connection, with the values that go ahead of it.
    fn marks(&self, index: usize, end: Header) -> Box<[u8]> {
        let proves = index < self.told;
        marks(end, self.feed.watch, proves.then_some(self.total))
    }
}

/// Most bytes of the next block of a connection, behind one of `count` bytes that it `took` so long to
/// send: those of a [`TURN`], but at most twice as many as the limit `before`, since a small block that
/// only fills a free buffer tells nothing of the rate. A power of two, so that few blocks begin within
/// a group of a digest.
fn in_turn(before: u64, count: u64, took: Duration) -> u64 {
    let rate = u128::from(count) * TURN.as_micros() / took.as_micros().max(1);
    let bytes = u64::try_from(rate).unwrap_or(u64::MAX);
    let bytes = bytes.min(before.saturating_mul(2)).max(BLOCKS.0);
    1 << bytes.ilog2()
}

/// The end mark of a connection; ahead of the announcement of all marks, the digest of the `total`
/// bytes and the hints of it, where this end knows it, or that of the whole file, where it is a stripe.
fn marks(end: Header, watch: &Watch, total: Option<u64>) -> Box<[u8]> {
    let total = total.filter(|_| end.announces() && !watch.is_cut());
    let told = total.and_then(|total| match watch.asks_before_end() {
        true => watch.told_at_end().cloned(),
        false => watch.told_of(total),
    });
    let digest = told.iter().flat_map(|told| Header::of_digest(told.digest));
    let hints = told.iter().flat_map(|told| &told.hints);
    let values = digest.chain(hints.copied().map(Header::of_hint));
    values.chain([end]).flat_map(Header::to_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_connection_takes_smaller_blocks() {
        const MIB: u64 = 1 << 20;
        let first = |count, millis| in_turn(u64::MAX, count, Duration::from_millis(millis));
        assert_eq!(first(4 * MIB, 10), 128 * MIB);
        assert_eq!(first(4 * MIB, 2000), MIB);
        assert_eq!(first(MIB, 600), MIB / 2);
        assert_eq!(first(MIB / 2, 60_000), MIB / 4);
        assert_eq!(first(u64::MAX, 0), 1 << 63);
        // A free buffer takes a small block at once.
        assert_eq!(in_turn(MIB / 4, MIB / 4, Duration::ZERO), MIB / 2);
    }
}
