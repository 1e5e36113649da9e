//! Sends one file or a sequence of chunks over open connections, in MODE S and MODE E.

mod chunks;
mod write;

use std::sync::{Mutex, PoisonError};

use byte_ranges::RangeSet;
use gridftp_dsi::Source;
use mode_e::{Header, Next, Scheduler, Streams};

use crate::conn::Conn;
use crate::error::{Error, Result};
use crate::plan::SendPlan;
use crate::wait;
use crate::watch::Watch;

pub use chunks::Chunks;
pub(crate) use chunks::{TextOf, dealt_chunks, extended_chunks, plain_chunks};
pub(crate) use write::Feed;
use write::{SMALL, pieces};

/// Smallest and largest payload of a block derived from the size of the file, in bytes.
const BLOCKS: (u64, u64) = (256 << 10, 4 << 20);

/// Sends `ranges` one after the other and ends the connection, which in MODE S is the end of the
/// file. Returns the connection, on which the peer may still have bytes to read.
pub(crate) async fn plain<S: Source>(
    feed: &Feed<'_, S>,
    mut conn: Conn,
    ranges: &RangeSet,
) -> Result<Conn> {
    for range in ranges.iter() {
        feed.stretch(&mut conn, &[], range.start(), range.len(), &Box::default)
            .await?;
    }
    still_the_same(feed.source, ranges.total()).await?;
    conn.finish().await
}

/// Sends the ranges of `plan`, or its stripe of them, in extended blocks over all `conns`.
///
/// Each block goes to the next writable connection. Every connection gets an end-of-data mark, and
/// one of each destination their number (GFD.20 §4).
pub(crate) async fn extended<S: Source>(
    feed: &Feed<'_, S>,
    conns: &mut [Conn],
    streams: Streams,
    plan: &SendPlan,
    block: Option<u64>,
) -> Result<()> {
    let (share, base) = (plan.share(), plan.base);
    let total = share.total();
    let block = block.unwrap_or_else(|| {
        // Several blocks for each connection, so that a slow one does not hold up the end.
        (total / (4 * streams.connections() as u64))
            .next_multiple_of(64 << 10)
            .clamp(BLOCKS.0, BLOCKS.1)
    });
    let receivers = plan.receivers.and_then(|most| most.get().try_into().ok());
    let schedule =
        Scheduler::of(share, block, streams).with_receivers(receivers.unwrap_or(usize::MAX));
    let schedule = Mutex::new(schedule);
    // One task takes this lock, never across a wait, so there is no contention.
    let next = |of| {
        let mut schedule = schedule.lock().unwrap_or_else(PoisonError::into_inner);
        if feed.watch.is_cut() {
            schedule.clear();
        }
        schedule.next(of)
    };
    let small = total <= SMALL.min(block);
    let proves = plan.stripe.is_none() && streams.destinations() == 1;
    let ends = wait::all(
        conns
            .iter_mut()
            .enumerate()
            .map(|(index, conn)| async move {
                // The tag leaves together with the first block.
                let mut head = tag_of(plan);
                let mut step = next(index);
                while let Next::Data(header) = step {
                    let mut end = None;
                    if small {
                        step = next(index);
                        end = end_of(step);
                    }
                    let tail = || {
                        end.map_or_else(Box::default, |end| {
                            marks(end, feed.watch, proves.then_some(total))
                        })
                    };
                    let offset = header.offset.saturating_add(base);
                    head.extend(header.to_bytes());
                    feed.stretch(conn, &head, offset, header.count, &tail)
                        .await?;
                    head.clear();
                    if end.is_some() {
                        return Ok(None);
                    }
                    if !small {
                        step = next(index);
                    }
                }
                Ok(end_of(step).map(|end| (head, end)))
            }),
    )
    .await?;
    if !feed.watch.is_cut() {
        still_the_same(feed.source, total).await?;
    }
    wait::all(conns.iter_mut().zip(ends).map(|(conn, end)| async move {
        match end {
            Some((head, end)) => {
                let marks = marks(end, feed.watch, proves.then_some(total));
                pieces(&mut conn.stream, [&head, &marks]).await
            }
            None => Ok(()),
        }
    }))
    .await?;
    flush(conns).await
}

/// Sends the tag of the transfer, if any, on every connection, ahead of its first block.
pub(crate) async fn name(conns: &mut [Conn], plan: &SendPlan) -> Result<()> {
    let tag = tag_of(plan);
    let tag = tag.as_slice();
    let all = conns.iter_mut().map(|conn| pieces(&mut conn.stream, [tag]));
    wait::all(all).await.map(drop)
}

/// The tag block of the transfer; empty if it has no tag.
fn tag_of(plan: &SendPlan) -> Vec<u8> {
    let tag = plan.tag.map(|tag| Header::of_tag(tag.number).to_bytes());
    tag.map_or_else(Vec::new, Vec::from)
}

/// The last header of a connection, if `step` is one.
fn end_of(step: Next) -> Option<Header> {
    match step {
        Next::End(header) => Some(header),
        _ => None,
    }
}

/// The end mark of a connection; ahead of the announcement of all marks, the digest of the `total`
/// bytes and the values of their sections, where this end sends all of them to one receiver and
/// knows it.
fn marks(end: Header, watch: &Watch, total: Option<u64>) -> Box<[u8]> {
    let total = total.filter(|_| end.announces() && !watch.is_cut());
    let digest = total.and_then(|total| watch.whole(total));
    let sections = total.filter(|_| digest.is_some());
    let sections = sections.map_or_else(Vec::new, |total| watch.sections(total));
    let digest = digest.into_iter().flat_map(Header::of_digest);
    let values = digest.chain(sections.into_iter().map(Header::of_section));
    values.chain([end]).flat_map(Header::to_bytes).collect()
}

/// Fails if the file changed while it was read, so that the transfer does not end cleanly.
///
/// A file read in a single piece needs no check.
async fn still_the_same<S: Source>(source: &S, total: u64) -> Result<()> {
    if total <= SMALL {
        return Ok(());
    }
    source
        .unchanged()
        .await
        .map_err(|e| Error::storage("send", e))
}

/// Flushes layers that buffer bytes, since the connections stay open.
async fn flush(conns: &mut [Conn]) -> Result<()> {
    use tokio::io::AsyncWriteExt as _;
    for conn in conns {
        conn.stream
            .flush()
            .await
            .map_err(|e| Error::broken("send", e))?;
    }
    Ok(())
}
