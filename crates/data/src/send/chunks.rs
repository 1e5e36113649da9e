//! `Chunks`: a producer of bytes without a known size, such as a listing, and its senders.

use std::future::Future;
use std::time::Duration;

use byte_ranges::{Range64, RangeSet};
use bytes::{Bytes, BytesMut};
use gridftp_dsi::{Error as StorageError, Source};
use mode_e::{Header, Next, Scheduler, Streams};
use tokio::sync::Mutex;

use super::{Feed, flush, pieces};
use crate::conn::Conn;
use crate::error::Result;
use crate::plan::SendPlan;
use crate::text::Expand;
use crate::wait;
use crate::watch::Watch;

/// A producer of bytes in order.
pub trait Chunks: Send {
    /// The next bytes, of any length; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, StorageError>> + Send;

    /// Whether the next bytes may take any time, as at a terminal; else the stall deadline holds.
    fn is_patient(&self) -> bool {
        true
    }
}

/// The next chunk that is not empty.
async fn some<C: Chunks>(chunks: &mut C, stall: Duration, watch: &Watch) -> Result<Option<Bytes>> {
    let patient = chunks.is_patient();
    loop {
        match wait::local("send", stall, patient, watch, chunks.next()).await? {
            Some(chunk) if chunk.is_empty() => {}
            other => return Ok(other),
        }
    }
}

/// Sends all chunks with the trailer of `plan`, and ends the connection, which it returns.
pub(crate) async fn plain_chunks<C: Chunks>(
    mut conn: Conn,
    chunks: &mut C,
    plan: &SendPlan,
    stall: Duration,
    watch: &Watch,
) -> Result<Conn> {
    let mut offset = 0;
    while let Some(chunk) = some(chunks, stall, watch).await? {
        watch.show(offset, &chunk);
        pieces(&mut conn.stream, [&chunk]).await?;
        let len = chunk.len() as u64;
        watch.moved(len);
        offset += len;
    }
    pieces(&mut conn.stream, [&plan.trailer(watch, offset)]).await?;
    conn.finish().await
}

/// Sends all chunks in extended blocks over the first connection, and end marks over the others.
pub(crate) async fn extended_chunks<C: Chunks>(
    conns: &mut [Conn],
    streams: Streams,
    chunks: &mut C,
    stall: Duration,
    watch: &Watch,
) -> Result<()> {
    let ends = end_marks(conns.len(), streams);
    let mut parts = conns.iter_mut().zip(&ends);
    if let Some((conn, end)) = parts.next() {
        let mut offset = 0;
        let mut now = some(chunks, stall, watch).await?;
        if now.is_none() {
            pieces(&mut conn.stream, [end]).await?;
        }
        // The loop is one chunk ahead, so that the last chunk leaves together with the end mark.
        while let Some(chunk) = now {
            now = some(chunks, stall, watch).await?;
            let len = chunk.len() as u64;
            watch.show(offset, &chunk);
            let tail = if now.is_none() { end.as_slice() } else { &[] };
            pieces(
                &mut conn.stream,
                [&Header::data(offset, len).to_bytes(), &chunk, tail],
            )
            .await?;
            watch.moved(len);
            offset += len;
        }
    }
    wait::all(parts.map(|(conn, end)| pieces(&mut conn.stream, [end]))).await?;
    flush(conns).await
}

/// Sends each chunk over the next writable connection, and ends all connections.
pub(crate) async fn dealt_chunks<C: Chunks>(
    conns: &mut [Conn],
    streams: Streams,
    chunks: &mut C,
    stall: Duration,
    watch: &Watch,
) -> Result<()> {
    let ends = end_marks(conns.len(), streams);
    // Locked while a chunk is awaited: all connections wait for the same one, and the lock is fair.
    let deal = Mutex::new((Some(chunks), 0));
    let deal = &deal;
    wait::all(conns.iter_mut().map(|conn| async move {
        loop {
            let (offset, chunk) = {
                let mut deal = deal.lock().await;
                let (left, offset) = &mut *deal;
                let Some(chunks) = left else { return Ok(()) };
                let Some(chunk) = some(*chunks, stall, watch).await? else {
                    *left = None;
                    return Ok(());
                };
                let at = *offset;
                *offset += chunk.len() as u64;
                (at, chunk)
            };
            let len = chunk.len() as u64;
            watch.show(offset, &chunk);
            let head = Header::data(offset, len).to_bytes();
            pieces(&mut conn.stream, [&head, &chunk]).await?;
            watch.moved(len);
        }
    }))
    .await?;
    let parts = conns.iter_mut().zip(&ends);
    wait::all(parts.map(|(conn, end)| pieces(&mut conn.stream, [end]))).await?;
    flush(conns).await
}

/// The last header of each connection.
fn end_marks(connections: usize, streams: Streams) -> Vec<Vec<u8>> {
    // A schedule without ranges consists of the end marks.
    let mut schedule = Scheduler::new(&RangeSet::new(), 1, streams);
    let mark = |index| match schedule.next(index) {
        Next::End(header) => header.to_bytes().to_vec(),
        _ => Vec::new(),
    };
    (0..connections).map(mark).collect()
}

/// Bytes of a file translated at a time, which bounds the text held while the peer is slow.
const TEXT: u64 = 16 << 10;

/// A file translated to `TYPE A`, piece by piece.
#[derive(Debug)]
pub(crate) struct TextOf<'a, S> {
    feed: Feed<'a, S>,
    left: Vec<Range64>,
    expand: Expand,
    /// Number of pieces read; a single read needs no check for changes.
    pieces: u64,
}

impl<'a, S: Source> TextOf<'a, S> {
    pub(crate) fn new(feed: Feed<'a, S>, ranges: &RangeSet) -> Self {
        Self {
            feed,
            left: ranges.iter().rev().collect(),
            expand: Expand::default(),
            pieces: 0,
        }
    }
}

impl<S: Source> Chunks for TextOf<'_, S> {
    async fn next(&mut self) -> Result<Option<Bytes>, StorageError> {
        let Some(range) = self.left.pop() else {
            // As for `TYPE I`: a file that changed while it was read must not end cleanly.
            if self.pieces > 1 {
                self.feed.source.unchanged().await?;
            }
            return Ok(None);
        };
        self.pieces += 1;
        let block = self.feed.read(range.start(), range.len().min(TEXT)).await?;
        self.left.extend(Range64::new(
            range.start() + block.len() as u64,
            range.end(),
        ));
        // Allocate the exact size, since the text may wait for the peer.
        let lines = block.iter().filter(|byte| **byte == b'\n').count();
        let mut wire = BytesMut::with_capacity(block.len() + lines);
        self.expand.push(&block, &mut wire);
        Ok(Some(wire.freeze()))
    }

    fn is_patient(&self) -> bool {
        false
    }
}
