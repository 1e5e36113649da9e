//! Sends one file or a sequence of chunks over open connections, in MODE S and MODE E.

mod active;
mod chunks;
mod deal;
mod widen;
mod write;

use byte_ranges::RangeSet;
use gridftp_dsi::Source;
use mode_e::Header;

use crate::conn::Conn;
use crate::error::{Error, Result};
use crate::plan::SendPlan;
use crate::wait;

pub use chunks::Chunks;
pub(crate) use chunks::{TextOf, dealt_chunks, extended_chunks, plain_chunks};
pub(crate) use deal::extended;
pub(crate) use write::Feed;
use write::{SMALL, pieces};

/// Sends the ranges of `plan` one after the other, with its trailer, and ends the connection, which in
/// MODE S is the end of the file. Returns the connection, on which the peer may still have bytes to
/// read.
pub(crate) async fn plain<S: Source>(
    feed: &Feed<'_, S>,
    mut conn: Conn,
    plan: &SendPlan,
) -> Result<Conn> {
    let total = plan.ranges.total();
    let trailer = || plan.trailer(feed.watch, total);
    // Read in a single piece, it needs no check behind it, and leaves together with its trailer.
    let is_small = total <= SMALL && plan.ranges.len() == 1;
    for range in plan.ranges.iter() {
        let tail = || if is_small { trailer() } else { Box::default() };
        feed.stretch(&mut conn, &[], range.start(), range.len(), &tail)
            .await?;
    }
    if !is_small {
        still_the_same(feed.source, &plan.ranges).await?;
        pieces(&mut conn.stream, [&trailer()]).await?;
    }
    conn.finish().await
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

/// Fails if the file changed while it was read, so that the transfer does not end cleanly.
///
/// One range read in a single piece needs no check.
async fn still_the_same<S: Source>(source: &S, ranges: &RangeSet) -> Result<()> {
    if ranges.total() <= SMALL && ranges.len() <= 1 {
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
