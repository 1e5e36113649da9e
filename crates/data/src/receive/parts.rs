//! `Parts`: collects received pieces into whole aligned parts, within a window of memory.

use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use byte_ranges::{Range64, RangeSet};
use bytes::{Bytes, BytesMut};
use gridftp_dsi::{Error as StorageError, ErrorKind as StorageKind, Sink};
use mode_e::GatherError;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::channel::DataChannel;
use crate::error::{Error, Result, Wait};
use crate::memory::PartRoom;
use crate::options::Options;
use crate::plan::{ReceivePlan, Received};
use crate::receive::job::{Delivery, Payload};
use crate::watch::Watch;

/// The parts of one transfer between the connections and the storage.
///
/// A connection reads only as far as its part may be in memory. The last place in the window is
/// for the part of the lowest missing byte, so senders whose offsets rise never wait for each
/// other: that byte is the next one of some connection.
#[derive(Debug)]
pub(crate) struct Parts {
    state: Mutex<State>,
    /// Bytes of a part.
    size: u64,
    /// Most parts in memory.
    most: usize,
    /// The room in the memory that all transfers share.
    room: Option<Arc<PartRoom>>,
    /// Most separate ranges within one part.
    ranges: usize,
    /// Offset in the sink of wire offset 0.
    base: u64,
    /// The storage has failed.
    failed: Notify,
}

#[derive(Debug)]
struct State {
    /// Parts with missing bytes, by their offset in the sink.
    open: BTreeMap<u64, Part>,
    /// Parts to be stored.
    whole: VecDeque<(u64, Bytes)>,
    /// Number of parts being stored.
    storing: usize,
    /// Parts that are not collected any more: whole ones, those of an earlier attempt, and those
    /// before the transfer.
    closed: RangeSet,
    /// Bytes of an earlier attempt.
    held: RangeSet,
    /// Ranges of `held` that arrived again.
    repeated: RangeSet,
    /// Whether no further bytes arrive.
    ended: bool,
    failure: Option<Error>,
    /// Waker of the task of the connections, when the window was full.
    reader: Option<Waker>,
    /// Waker of the task that stores.
    storer: Option<Waker>,
}

/// A part with missing bytes.
#[derive(Debug, Default)]
struct Part {
    bytes: BytesMut,
    /// The written ranges, counted from the start of the part.
    filled: RangeSet,
}

impl Part {
    /// Writes `piece` at `at`; the bytes that are there already must be the same.
    fn write(&mut self, size: usize, at: usize, piece: &[u8]) -> Result<(), StorageError> {
        if self.bytes.is_empty() {
            self.bytes = BytesMut::zeroed(size);
        }
        let Some(range) = Range64::from_len(at as u64, piece.len() as u64) else {
            return Ok(());
        };
        let Some(place) = self.bytes.get_mut(at..at + piece.len()) else {
            return Err(StorageError::new(StorageKind::TooLarge, "write"));
        };
        let differs = |known: Range64| {
            let inside = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX) - at;
            let known = inside(known.start())..inside(known.end());
            place.get(known.clone()) != piece.get(known)
        };
        if self.filled.clip(range).iter().any(differs) {
            return Err(StorageError::new(StorageKind::Mismatch, "write"));
        }
        place.copy_from_slice(piece);
        self.filled.insert(range);
        Ok(())
    }

    /// Its first bytes, if all written ones are those.
    fn into_prefix(mut self) -> Option<BytesMut> {
        let end = self.filled.end();
        let is_prefix = end > 0 && self.filled == RangeSet::up_to(end);
        self.bytes.truncate(usize::try_from(end).ok()?);
        is_prefix.then_some(self.bytes)
    }
}

impl State {
    /// Number of parts in memory.
    fn used(&self) -> usize {
        self.open.len() + self.whole.len() + self.storing
    }

    fn wake(waker: &mut Option<Waker>) {
        if let Some(waker) = waker.take() {
            waker.wake();
        }
    }
}

impl Parts {
    /// Collects parts of `size` bytes for a sink that has the bytes `held`.
    fn new(size: u64, base: u64, held: RangeSet, options: &Options) -> Self {
        let size = size.max(1);
        let whole = |range: Range64| {
            let start = range.start().next_multiple_of(size);
            Range64::new(start, range.end() - range.end() % size)
        };
        let mut closed: RangeSet = held.iter().filter_map(whole).collect();
        closed.extend(Range64::new(0, base - base % size));
        let most = (options.parts as u64 / size).max(1);
        Self {
            state: Mutex::new(State {
                open: BTreeMap::new(),
                whole: VecDeque::new(),
                storing: 0,
                closed,
                held,
                repeated: RangeSet::new(),
                ended: false,
                failure: None,
                reader: None,
                storer: None,
            }),
            size,
            most: usize::try_from(most).unwrap_or(usize::MAX),
            room: None,
            ranges: options.ranges,
            base,
            failed: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether bytes of the part at `at` may be read now.
    fn admits(&self, state: &mut State, cx: &Context<'_>, at: u64) -> bool {
        if state.open.contains_key(&at) || state.closed.contains(at) {
            return true;
        }
        // Any part but the lowest leaves a place for that.
        let places = match at == state.closed.first_hole() {
            true => state.used() + 1,
            false => state.used() + 2,
        };
        let has_room = |room: &Arc<PartRoom>| room.admits(cx, places);
        let fits = places <= self.most && self.room.as_ref().is_none_or(has_room);
        if fits {
            state.open.insert(at, Part::default());
        }
        fits
    }

    /// A part as the sink gets it, which may keep it.
    fn frozen(&self, part: BytesMut) -> Bytes {
        let bytes = part.freeze();
        match &self.room {
            Some(room) => room.holds(bytes),
            None => bytes,
        }
    }

    /// Number of bytes that may be read behind the `read` ones at the wire offset `offset`: at most
    /// to the end of their part. Bytes outside the window stay unread on the connection.
    pub(crate) fn poll_room(&self, cx: &Context<'_>, offset: u64, read: usize) -> Poll<usize> {
        let at = offset.saturating_add(self.base).saturating_add(read as u64);
        let into = at % self.size;
        let mut state = self.state();
        if !self.admits(&mut state, cx, at - into) {
            state.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(usize::try_from(self.size - into).unwrap_or(usize::MAX))
    }

    /// The party to blame for a transfer that does not move; `None` while parts are stored, which
    /// has its own deadline.
    pub(crate) fn wait(&self) -> Option<Wait> {
        let state = self.state();
        if state.storing > 0 {
            return None;
        }
        let full = state.reader.is_some();
        Some(if full { Wait::Part } else { Wait::Receive })
    }

    /// Puts a piece into its parts, which have room by [`poll_room`](Self::poll_room).
    ///
    /// # Errors
    /// [`StorageKind::Mismatch`] for other bytes than earlier ones, and for bytes of a part that is
    /// stored, which cannot be compared.
    fn put(&self, offset: u64, mut data: Bytes) -> Result<(), StorageError> {
        let mut at = offset.saturating_add(self.base);
        let mut state = self.state();
        while !data.is_empty() {
            let into = at % self.size;
            let room = usize::try_from(self.size - into).unwrap_or(usize::MAX);
            let piece = data.split_to(data.len().min(room));
            self.put_piece(&mut state, at, &piece)?;
            at = at.saturating_add(piece.len() as u64);
        }
        Ok(())
    }

    fn put_piece(&self, state: &mut State, at: u64, piece: &[u8]) -> Result<(), StorageError> {
        let Some(range) = Range64::from_len(at, piece.len() as u64) else {
            return Err(StorageError::new(StorageKind::TooLarge, "write"));
        };
        if state.held.covers(range) {
            state.repeated.insert(range);
            State::wake(&mut state.storer);
            return Ok(());
        }
        if state.closed.contains(at) {
            let fact = format!("byte {at} arrived again after its part, which cannot be compared");
            return Err(StorageError::new(StorageKind::Mismatch, "write").because(fact));
        }
        let (into, size) = (at % self.size, self.size);
        let start = at - into;
        let part = state.open.entry(start).or_default();
        let inside = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        part.write(inside(size), inside(into), piece)?;
        if part.filled.len() > self.ranges {
            let limit = self.ranges;
            state.failure = Some(GatherError::TooManyRanges { limit }.into());
            self.failed.notify_one();
        } else if part.filled.total() == size
            && let Some(part) = state.open.remove(&start)
        {
            state.closed.extend(Range64::from_len(start, size));
            state.whole.push_back((start, self.frozen(part.bytes)));
            State::wake(&mut state.storer);
            // The reserved place is now that of another part.
            State::wake(&mut state.reader);
        }
        Ok(())
    }

    /// Ends the collection. At the end of the data the last part may be short; other parts with
    /// missing bytes are dropped, and their bytes never count as received.
    fn end(&self, complete: bool) {
        let mut state = self.state();
        state.ended = true;
        let last = state.open.pop_last();
        state.open.clear();
        if let Some((at, part)) = last.filter(|(at, _)| complete && *at >= state.closed.end())
            && let Some(bytes) = part.into_prefix()
        {
            state.whole.push_back((at, self.frozen(bytes)));
        }
        State::wake(&mut state.storer);
    }

    /// Waits until the storage fails.
    pub(crate) async fn failed(&self) -> Error {
        loop {
            let told = self.failed.notified();
            if let Some(error) = self.state().failure.take() {
                return error;
            }
            told.await;
        }
    }

    /// Stores the parts as they become whole, several at a time, and records them in the watch.
    async fn store<K: Sink>(&self, sink: &K, stall: Duration, watch: &Watch) -> Result<()> {
        let begin = |(at, bytes): (u64, Bytes)| {
            let len = bytes.len() as u64;
            let write = timeout(stall, sink.write_at(at, bytes));
            Box::pin(async move { (at, len, write.await) })
        };
        let mut writes: Vec<Pin<Box<_>>> = Vec::new();
        poll_fn(|cx| {
            loop {
                let mut state = self.state();
                let repeated = std::mem::take(&mut state.repeated);
                let whole = std::mem::take(&mut state.whole);
                state.storing += whole.len();
                if whole.is_empty() && repeated.is_empty() && state.ended && writes.is_empty() {
                    return Poll::Ready(Ok(()));
                }
                state.storer = Some(cx.waker().clone());
                drop(state);
                for range in &repeated {
                    self.record(watch, range.start(), range.len())?;
                }
                writes.extend(whole.into_iter().map(begin));
                let mut stored = 0;
                let mut at = 0;
                while let Some(write) = writes.get_mut(at) {
                    let Poll::Ready((offset, len, done)) = write.as_mut().poll(cx) else {
                        at += 1;
                        continue;
                    };
                    drop(writes.swap_remove(at));
                    done.map_err(|_| Error::timeout(Wait::Storage, stall))?
                        .map_err(|cause| Error::storage("receive", cause))?;
                    self.record(watch, offset, len)?;
                    stored += 1;
                }
                if stored == 0 {
                    return Poll::Pending;
                }
                let mut state = self.state();
                state.storing -= stored;
                if let Some(room) = &self.room {
                    room.shrink(state.used() + 1);
                }
                State::wake(&mut state.reader);
            }
        })
        .await
    }

    fn record(&self, watch: &Watch, at: u64, len: u64) -> Result<()> {
        let offset = at.saturating_sub(self.base);
        Ok(watch.arrived().record(offset, len)?)
    }

    /// Passes an error of the storage to the connections, or returns it if they have ended.
    fn fail(&self, error: Error) -> Result<()> {
        let mut state = self.state();
        if state.ended {
            return Err(error);
        }
        state.failure = Some(error);
        self.failed.notify_one();
        Ok(())
    }
}

impl DataChannel {
    /// Receives a file into a sink that takes whole parts of `size` bytes.
    ///
    /// The parts that are whole when the data ends early are stored first.
    pub(crate) async fn receive_parts<K: Sink>(
        &mut self,
        sink: &K,
        size: u64,
        plan: &ReceivePlan,
        watch: &Watch,
    ) -> Result<Received> {
        let options = *self.options_mut();
        let room = self.part_room(sink.order()).await?;
        let mut parts = Parts::new(size, plan.base, sink.held(), &options);
        parts.room = room.map(Arc::new);
        let parts = &parts;
        let write = |offset, payload| {
            ready(match payload {
                Payload::Block(data) => parts.put(offset, data),
                Payload::Again(..) | Payload::Pipe(..) => {
                    Err(StorageError::new(StorageKind::Unsupported, "write"))
                }
            })
        };
        let moving = async {
            let delivery = Delivery::Parts(parts);
            let moved = self.receive_with(write, delivery, plan, watch).await;
            parts.end(moved.is_ok());
            moved
        };
        let storing = async {
            let stored = parts.store(sink, options.stall, watch).await;
            stored.or_else(|error| parts.fail(error))
        };
        let (moved, stored) = tokio::join!(moving, storing);
        let ended_unmarked = moved?;
        stored?;
        parts.state().failure.take().map_or(Ok(()), Err)?;
        Ok(Received::of(plan, watch, ended_unmarked))
    }
}

#[cfg(test)]
#[path = "parts_tests.rs"]
mod tests;
