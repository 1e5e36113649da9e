//! `PartMemory`: the memory in which all transfers together collect parts for their storages.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use gridftp_dsi::{Error as StorageError, ErrorKind as StorageKind, Shares, WriteModel};
use tokio::time::timeout;

use crate::channel::DataChannel;
use crate::error::{Error, Result};

/// A number of bytes for parts that transfers share; clones share the same bytes.
///
/// A transfer begins once there is room for one part, in turn. That room stays its own, so that no
/// transfer waits for another one in the middle. More room is taken while it is free, up to an equal
/// share for each transfer, and returned with every stored part. The transfers of one user together
/// have the user's share ([`Shares`]), or one part.
#[derive(Clone)]
pub struct PartMemory {
    state: Arc<Mutex<State>>,
    user: Arc<str>,
}

struct State {
    shares: Shares,
    /// Transfers with room.
    transfers: u64,
    /// Transfers that wait for their first room.
    queue: VecDeque<Waiting>,
    next: u64,
    /// Tasks that wait for room.
    waiting: Vec<Waker>,
}

/// A transfer that waits for the room of one part.
struct Waiting {
    number: u64,
    user: Arc<str>,
    size: u64,
}

/// The room of one transfer for parts of one size; dropping it returns the room.
pub struct PartRoom {
    memory: PartMemory,
    size: u64,
    places: Mutex<usize>,
}

/// The turn of a transfer, which ends with this value.
struct Turn<'m> {
    memory: &'m PartMemory,
    number: u64,
}

impl PartMemory {
    /// At most `total` bytes for the parts of all transfers.
    pub fn new(total: u64) -> Self {
        let state = State {
            shares: Shares::new(total),
            transfers: 0,
            queue: VecDeque::new(),
            next: 0,
            waiting: Vec::new(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            user: "".into(),
        }
    }

    /// The same bytes, for the transfers of this user.
    #[must_use]
    pub fn of(&self, user: &str) -> Self {
        Self {
            state: Arc::clone(&self.state),
            user: user.into(),
        }
    }

    /// All bytes.
    pub fn total(&self) -> u64 {
        self.state().shares.total()
    }

    /// The bytes in use.
    pub fn taken(&self) -> u64 {
        self.state().shares.taken()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room for one part; for ever, if a part has more than all bytes.
    pub(crate) async fn room(&self, size: u64) -> PartRoom {
        let turn = Turn::new(self, size);
        poll_fn(|cx| {
            let mut state = self.state();
            let next = state.next_in_turn().map(|waiting| waiting.number);
            if next != Some(turn.number) || size > state.shares.free() {
                state.wait(cx);
                return Poll::Pending;
            }
            state.shares.take(&self.user, size);
            state.transfers += 1;
            Poll::Ready(PartRoom {
                memory: self.clone(),
                size,
                places: Mutex::new(1),
            })
        })
        .await
    }

    fn wake(&self) {
        let waiting = std::mem::take(&mut self.state().waiting);
        waiting.into_iter().for_each(Waker::wake);
    }
}

impl State {
    /// The transfer that has the next room: the first of a user that may have it.
    fn next_in_turn(&self) -> Option<&Waiting> {
        let may = |waiting: &&Waiting| self.shares.admits(&waiting.user, waiting.size);
        self.queue.iter().find(may)
    }

    fn wait(&mut self, cx: &Context<'_>) {
        if !self.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            self.waiting.push(cx.waker().clone());
        }
    }
}

impl<'m> Turn<'m> {
    fn new(memory: &'m PartMemory, size: u64) -> Self {
        let mut state = memory.state();
        let number = state.next;
        state.next += 1;
        state.queue.push_back(Waiting {
            number,
            user: Arc::clone(&memory.user),
            size,
        });
        Self { memory, number }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut state = self.memory.state();
        state.queue.retain(|waiting| waiting.number != self.number);
        drop(state);
        self.memory.wake();
    }
}

impl PartRoom {
    /// Whether `wanted` parts may be in memory; else the task is woken when there may be room.
    pub(crate) fn admits(&self, cx: &Context<'_>, wanted: usize) -> bool {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.memory.state();
        while *places < wanted {
            let own = (*places as u64 + 1).saturating_mul(self.size);
            let user = &self.memory.user;
            let share = state.shares.total() / state.transfers.max(1);
            let is_free = own <= share && self.size <= state.shares.free();
            let is_first = state.next_in_turn().is_none();
            if !is_first || !is_free || !state.shares.admits(user, self.size) {
                state.wait(cx);
                return false;
            }
            state.shares.take(user, self.size);
            *places += 1;
        }
        true
    }

    /// Returns the room beyond `wanted` parts, but for one.
    pub(crate) fn shrink(&self, wanted: usize) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = wanted.max(1);
        if *places > wanted {
            let many = (*places - wanted) as u64;
            *places = wanted;
            let mut state = self.memory.state();
            state.shares.give_back(&self.memory.user, many * self.size);
            drop(state);
            self.memory.wake();
        }
    }

    /// The bytes of a part, which hold the room as long as they are in use.
    pub(crate) fn holds(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Held {
            bytes,
            _room: Arc::clone(self),
        })
    }
}

impl Drop for PartRoom {
    fn drop(&mut self) {
        let places = *self
            .places
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        let mut state = self.memory.state();
        state
            .shares
            .give_back(&self.memory.user, places as u64 * self.size);
        state.transfers -= 1;
        drop(state);
        self.memory.wake();
    }
}

impl DataChannel {
    /// Waits for room for one part of a sink of this order; `None` for one without parts, and where
    /// the memory is not shared.
    ///
    /// # Errors
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage), which says `TooLarge` of a part that is larger than all memory, and
    /// `Busy` where the other transfers leave none within the stall deadline.
    pub fn part_room(
        &self,
        order: WriteModel,
    ) -> impl Future<Output = Result<Option<PartRoom>>> + Send + use<> {
        let (memory, stall) = (self.parts.clone(), self.options().stall);
        async move {
            let (Some(memory), WriteModel::Parts(size)) = (memory, order) else {
                return Ok(None);
            };
            let refuse = |kind, fact: String| {
                let cause = StorageError::new(kind, "write").because(fact);
                Err(Error::storage("receive", cause))
            };
            let total = memory.total();
            if size > total {
                let fact =
                    format!("a part has {size} bytes, more than the {total} bytes for all parts");
                return refuse(StorageKind::TooLarge, fact);
            }
            match timeout(stall, memory.room(size)).await {
                Ok(room) => Ok(Some(room)),
                Err(_) => {
                    let fact = "other uploads use the memory for parts, try again later";
                    refuse(StorageKind::Busy, fact.to_owned())
                }
            }
        }
    }
}

/// Bytes with the room that they take.
struct Held {
    bytes: Bytes,
    _room: Arc<PartRoom>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for PartMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let taken = self.taken();
        f.debug_struct("PartMemory")
            .field("total", &self.total())
            .field("taken", &taken)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PartRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartRoom")
            .field("size", &self.size)
            .field("places", &self.places)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;

    fn ready(done: Poll<PartRoom>) -> PartRoom {
        match done {
            Poll::Ready(room) => room,
            Poll::Pending => panic!("there is room"),
        }
    }

    #[test]
    fn transfers_have_one_part_in_turn_and_share_the_rest() {
        let memory = PartMemory::new(85);
        let cx = &mut Context::from_waker(Waker::noop());
        let one = ready(pin!(memory.of("a").room(10)).poll(cx));
        assert!(one.admits(cx, 4) && !one.admits(cx, 5), "half of 85 bytes");
        let two = ready(pin!(memory.of("b").room(10)).poll(cx));
        assert!(two.admits(cx, 2) && !two.admits(cx, 3), "half of the rest");
        let three = ready(pin!(memory.of("c").room(10)).poll(cx));
        let four = ready(pin!(memory.of("d").room(10)).poll(cx));
        let fifth = memory.of("e");
        let mut five = pin!(fifth.room(10));
        assert!(five.as_mut().poll(cx).is_pending(), "85 bytes are 8 parts");
        // The first returns room, and gets no more while another waits.
        one.shrink(3);
        assert!(!one.admits(cx, 4));
        let sixth = memory.of("f");
        let mut six = pin!(sixth.room(10));
        assert!(six.as_mut().poll(cx).is_pending(), "it is not its turn");
        let five = ready(five.as_mut().poll(cx));
        assert_eq!(memory.taken(), 80);
        one.shrink(0);
        let six = ready(six.as_mut().poll(cx));
        two.shrink(0);
        assert!(!one.admits(cx, 2), "a sixth of 85 bytes is one part");
        drop((four, five, six));
        assert!(one.admits(cx, 2));
        drop((one, two, three));
        assert_eq!(memory.taken(), 0);
    }

    /// As many uploads as there are parts.
    #[test]
    fn slow_transfers_of_one_user_leave_room_for_the_next() {
        let memory = PartMemory::new(160);
        let cx = &mut Context::from_waker(Waker::noop());
        let ann = memory.of("ann");
        let mut rooms: Vec<_> = (0..8).map(|_| ready(pin!(ann.room(10)).poll(cx))).collect();
        let mut ninth = pin!(ann.room(10));
        assert!(ninth.as_mut().poll(cx).is_pending(), "half of 160 bytes");
        // She is first in the queue, and the others pass.
        for user in ["bob", "bob", "cat", "dan"] {
            rooms.push(ready(pin!(memory.of(user).room(10)).poll(cx)));
        }
        rooms.truncate(7);
        assert!(ninth.as_mut().poll(cx).is_ready());
    }

    #[test]
    fn bytes_in_use_keep_the_room_of_a_transfer_that_has_ended() {
        let memory = PartMemory::new(10);
        let cx = &mut Context::from_waker(Waker::noop());
        let Poll::Ready(room) = pin!(memory.room(10)).poll(cx) else {
            panic!("there is room");
        };
        let bytes = Arc::new(room).holds(Bytes::from_static(b"0123456789"));
        assert!(pin!(memory.room(10)).poll(cx).is_pending());
        let tail = bytes.slice(9..);
        drop(bytes);
        assert_eq!(memory.taken(), 10);
        drop(tail);
        assert!(pin!(memory.room(10)).poll(cx).is_ready());
    }

    #[test]
    fn a_transfer_that_gives_up_its_turn_stops_no_other() {
        let memory = PartMemory::new(10);
        let cx = &mut Context::from_waker(Waker::noop());
        let first = pin!(memory.room(10)).poll(cx);
        {
            let mut second = pin!(memory.room(10));
            assert!(second.as_mut().poll(cx).is_pending());
        }
        let mut third = pin!(memory.room(10));
        assert!(third.as_mut().poll(cx).is_pending());
        drop(first);
        assert!(third.as_mut().poll(cx).is_ready());
    }
}
