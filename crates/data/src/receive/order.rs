//! `InOrder`: sorts received pieces by offset, for consumers that need bytes in order.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use gridftp_dsi::{Error as StorageError, ErrorKind as StorageKind, Sink, WriteModel};
use tokio::sync::Notify;

use crate::error::{Error, ErrorKind, Result};
use crate::text::Collapse;
use crate::wait;
use crate::watch::Watch;

/// Bytes of `TYPE A` data translated at a time.
const TEXT: usize = 32 << 10;

/// Memory of a piece beside its bytes, so that tiny pieces are bounded too.
const PIECE: usize = 128;

/// A consumer of bytes in order, such as the parser of a listing or standard output.
pub trait Consumer: Send {
    /// Takes the next bytes. They may be a block of the pool that all transfers share, unless the
    /// consumer is [patient](Self::is_patient): then they are its own to keep.
    fn take(&mut self, bytes: Bytes) -> impl Future<Output = Result<(), StorageError>> + Send;

    /// Whether taking bytes may take any time, as a terminal does; else the stall deadline holds.
    fn is_patient(&self) -> bool {
        true
    }

    /// Called after the last byte.
    fn end(&mut self) -> impl Future<Output = Result<(), StorageError>> + Send {
        async { Ok(()) }
    }
}

/// Queue of pieces from the connections to one consumer.
#[derive(Debug)]
pub(crate) struct InOrder {
    state: Mutex<State>,
    /// Most memory of pieces that are not next.
    ahead: usize,
    /// The consumer may take any time.
    patient: bool,
    /// A piece was added, or the queue is complete.
    added: Notify,
    /// A piece was consumed.
    taken: Notify,
    /// The consumer has failed.
    failed: Notify,
}

#[derive(Debug)]
struct State {
    next: u64,
    waiting: BTreeMap<u64, Bytes>,
    /// Memory of the waiting pieces.
    held: usize,
    complete: bool,
    /// The error of the consumer, with which the connections end.
    failure: Option<Error>,
    /// Waker of the task of the connections, when the queue had no room.
    reader: Option<Waker>,
}

impl State {
    /// Whether some of these bytes were queued before.
    fn has_some_of(&self, offset: u64, len: usize) -> bool {
        let end = offset.saturating_add(len as u64);
        let before = self.waiting.range(..end).next_back();
        offset < self.next || before.is_some_and(|(at, piece)| at + piece.len() as u64 > offset)
    }
}

enum Ready {
    /// The next bytes and their offset.
    Piece(u64, Bytes),
    End,
    Gap(u64),
    NotYet,
}

impl InOrder {
    /// Starts at the wire offset `start`; at most `ahead` bytes of memory wait for earlier ones. A
    /// `patient` consumer gets bytes that keep no block of the pool: it may hold them for any time,
    /// and other transfers need the blocks.
    pub(crate) fn new(start: u64, ahead: usize, patient: bool) -> Self {
        let state = State {
            next: start,
            waiting: BTreeMap::new(),
            held: 0,
            complete: false,
            failure: None,
            reader: None,
        };
        Self {
            state: Mutex::new(state),
            ahead,
            patient,
            added: Notify::new(),
            taken: Notify::new(),
            failed: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a piece; waits while the queue is full.
    ///
    /// The next piece in order is always accepted, and waiting pieces keep no block of the pool, so
    /// writers never wait for each other.
    ///
    /// # Errors
    /// [`StorageKind::Mismatch`] for repeated bytes: the first ones may be gone, so they cannot be
    /// compared.
    pub(crate) async fn write(&self, offset: u64, mut data: Bytes) -> Result<(), StorageError> {
        if self.patient || offset > self.state().next {
            data = Bytes::copy_from_slice(&data);
        }
        loop {
            let taken = self.taken.notified();
            {
                let mut state = self.state();
                if state.has_some_of(offset, data.len()) {
                    let fact = format!(
                        "the peer sent byte {offset} twice, which output in order cannot accept"
                    );
                    return Err(StorageError::new(StorageKind::Mismatch, "write").because(fact));
                }
                if offset <= state.next || state.held + data.len() + PIECE <= self.ahead {
                    state.held += data.len() + PIECE;
                    state.waiting.insert(offset, data.clone());
                    break;
                }
            }
            taken.await;
        }
        self.added.notify_one();
        Ok(())
    }

    /// Number of bytes that may be read behind the `read` ones at `offset`: any number if they are
    /// next.
    ///
    /// Bytes too far ahead stay unread on the connection, so that they cost no memory here.
    pub(crate) fn poll_room(&self, cx: &Context<'_>, offset: u64, read: usize) -> Poll<usize> {
        let mut state = self.state();
        if offset <= state.next {
            return Poll::Ready(usize::MAX);
        }
        match self.ahead.saturating_sub(state.held + read + PIECE) {
            0 => {
                state.reader = Some(cx.waker().clone());
                Poll::Pending
            }
            room => Poll::Ready(room),
        }
    }

    /// Marks the queue as complete; returns an error of the consumer that was not returned before.
    pub(crate) fn complete(&self) -> Result<()> {
        let mut state = self.state();
        state.complete = true;
        self.added.notify_one();
        state.failure.take().map_or(Ok(()), Err)
    }

    /// Waits until the consumer fails.
    pub(crate) async fn failed(&self) -> Error {
        loop {
            let told = self.failed.notified();
            if let Some(error) = self.state().failure.take() {
                return error;
            }
            told.await;
        }
    }

    /// Passes the pieces to `consumer`, as [`drain`](Self::drain). An error ends the connections
    /// first, if there are any, since they decide about the rest of the peer's data.
    pub(crate) async fn hand_over<C: Consumer>(
        &self,
        consumer: &mut C,
        stall: Duration,
        watch: &Watch,
        account: bool,
    ) -> Result<()> {
        let Err(error) = self.drain(consumer, stall, watch, account).await else {
            return Ok(());
        };
        {
            let mut state = self.state();
            if state.complete {
                return Err(error);
            }
            state.failure = Some(error);
        }
        self.failed.notify_one();
        std::future::pending().await
    }

    fn pop(&self) -> Ready {
        let mut state = self.state();
        let at = state.next;
        match state.waiting.first_key_value() {
            None if state.complete => Ready::End,
            Some((offset, _)) if *offset > at && state.complete => Ready::Gap(at),
            Some((offset, _)) if *offset <= at => {
                let Some((_, piece)) = state.waiting.pop_first() else {
                    return Ready::NotYet;
                };
                state.held -= piece.len() + PIECE;
                state.next += piece.len() as u64;
                if let Some(reader) = state.reader.take() {
                    reader.wake();
                }
                Ready::Piece(at, piece)
            }
            _ => Ready::NotYet,
        }
    }

    /// Passes the pieces to `consumer` up to the end and, with `account`, records each in the watch
    /// once it is consumed.
    async fn drain<C: Consumer>(
        &self,
        consumer: &mut C,
        stall: Duration,
        watch: &Watch,
        account: bool,
    ) -> Result<()> {
        let patient = consumer.is_patient();
        loop {
            match self.pop() {
                Ready::Piece(at, piece) => {
                    let len = piece.len() as u64;
                    let take = consumer.take(piece);
                    wait::local("receive", stall, patient, watch, take).await?;
                    if account {
                        watch.arrived().record(at, len)?;
                    }
                    self.taken.notify_waiters();
                }
                Ready::NotYet => self.added.notified().await,
                Ready::End => {
                    let end = consumer.end();
                    return wait::local("receive", stall, patient, watch, end).await;
                }
                Ready::Gap(at) => {
                    let fact = format!("the peer did not send byte {at}");
                    return Err(Error::new(ErrorKind::Protocol, "receive", fact));
                }
            }
        }
    }
}

/// Writes `TYPE A` data into a sink from an offset on; also plain bytes, for sequential sinks.
#[derive(Debug)]
pub(crate) struct TextInto<'a, K> {
    sink: &'a K,
    /// Offset of the next byte to write.
    at: u64,
    /// The part that is not whole yet, for a sink that takes whole parts of so many bytes.
    part: Option<(usize, BytesMut)>,
    /// `None` for plain bytes.
    collapse: Option<Collapse>,
}

impl<'a, K: Sink> TextInto<'a, K> {
    pub(crate) fn new(sink: &'a K, at: u64, text: bool) -> Self {
        let part = match sink.order() {
            WriteModel::Parts(size) => Some(usize::try_from(size).unwrap_or(usize::MAX).max(1)),
            _ => None,
        };
        Self {
            sink,
            at,
            part: part.map(|size| (size, BytesMut::new())),
            collapse: text.then(Collapse::default),
        }
    }

    /// One past the last byte written.
    pub(crate) fn end_offset(&self) -> u64 {
        self.at
    }

    async fn put(&mut self, mut local: Bytes) -> Result<(), StorageError> {
        while let Some((size, part)) = &mut self.part
            && !local.is_empty()
        {
            part.extend_from_slice(&local.split_to(local.len().min(*size - part.len())));
            if part.len() == *size {
                let whole = std::mem::take(part).freeze();
                self.write(whole).await?;
            }
        }
        self.write(local).await
    }

    async fn write(&mut self, local: Bytes) -> Result<(), StorageError> {
        if local.is_empty() {
            return Ok(());
        }
        let len = local.len() as u64;
        self.sink.write_at(self.at, local).await?;
        self.at += len;
        Ok(())
    }
}

impl<K: Sink> Consumer for TextInto<'_, K> {
    async fn take(&mut self, mut bytes: Bytes) -> Result<(), StorageError> {
        if self.collapse.is_none() {
            return self.put(bytes).await;
        }
        // In small pieces, so that a copy is small beside its block.
        while !bytes.is_empty() {
            let wire = bytes.split_to(bytes.len().min(TEXT));
            let mut local = BytesMut::with_capacity(wire.len() + 1);
            if let Some(collapse) = &mut self.collapse {
                collapse.push(&wire, &mut local);
            }
            self.put(local.freeze()).await?;
        }
        Ok(())
    }

    fn is_patient(&self) -> bool {
        false
    }

    async fn end(&mut self) -> Result<(), StorageError> {
        let mut last = BytesMut::new();
        if let Some(collapse) = &mut self.collapse {
            collapse.finish(&mut last);
        }
        self.put(last.freeze()).await?;
        if let Some((_, part)) = &mut self.part {
            let short = std::mem::take(part).freeze();
            self.write(short).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;

    #[test]
    fn tiny_pieces_out_of_order_take_bounded_memory() {
        const AHEAD: usize = 1 << 20;
        let order = InOrder::new(0, AHEAD, false);
        let mut cx = Context::from_waker(Waker::noop());
        let mut let_in = 0_usize;
        // Backwards, so that no piece is next and none are merged.
        for offset in (1..=1_000_000).rev() {
            if pin!(order.write(offset, Bytes::from_static(b"x")))
                .poll(&mut cx)
                .is_pending()
            {
                break;
            }
            let_in += 1;
        }
        assert!(let_in >= 1024, "{let_in} pieces are too few to be useful");
        let entry = size_of::<(u64, Bytes)>() + 1;
        assert!(let_in * entry <= AHEAD, "{let_in} pieces wait");
    }
}
