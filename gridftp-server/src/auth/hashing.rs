//! `Hashing`: turns at hashing passwords, one a core and fair between hosts, with the threads and
//! the memory for it.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{io, mem, thread};

use argon2::Block;
use tokio::sync::oneshot;

/// Size in bytes from which freed memory returns to the system at once: glibc keeps smaller pieces
/// for later use.
const RETURNED: usize = 33 << 20;

/// Turns at hashing, one per core: a hash takes tens of megabytes and a whole core.
#[derive(Debug)]
pub(super) struct Hashing(Mutex<Turns>);

#[derive(Debug)]
struct Turns {
    free: usize,
    /// Waiting requests by host: each host's oldest is served in turn, so that one host's flood
    /// delays no other.
    waiting: VecDeque<(IpAddr, VecDeque<oneshot::Sender<Turn>>)>,
}

/// The right to hash one password; passes to the next request on drop.
#[derive(Debug)]
pub(super) struct Turn {
    hashing: Arc<Hashing>,
    memory: Memory,
}

/// Memory for argon2: it passes from turn to turn, and returns to the system when no request waits.
#[derive(Debug, Default)]
pub(super) struct Memory(Vec<Block>);

impl Memory {
    /// Returns `count` blocks of any content.
    pub(super) fn blocks(&mut self, count: usize) -> &mut [Block] {
        if self.0.len() < count {
            // Unused capacity costs no memory.
            self.0 = Vec::with_capacity(count.max(RETURNED / Block::SIZE));
            self.0.resize(count, Block::new());
        }
        &mut self.0
    }
}

impl Hashing {
    pub(super) fn new(turns: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Turns {
            free: turns,
            waiting: VecDeque::new(),
        })))
    }

    /// Waits for a turn on behalf of `host`.
    ///
    /// # Cancel safety
    /// Dropped, the request leaves the queue, and its turn passes to the next.
    pub(super) async fn turn(self: &Arc<Self>, host: IpAddr) -> Option<Turn> {
        let turn = {
            let mut turns = self.turns();
            if turns.free == 0 {
                Err(turns.wait(host))
            } else {
                turns.free -= 1;
                Ok(self.make_turn(Memory::default()))
            }
        };
        match turn {
            Ok(turn) => Some(turn),
            Err(waiting) => waiting.await.ok(),
        }
    }

    fn make_turn(self: &Arc<Self>, memory: Memory) -> Turn {
        Turn {
            hashing: Arc::clone(self),
            memory,
        }
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turns {
    fn wait(&mut self, host: IpAddr) -> oneshot::Receiver<Turn> {
        let (sender, receiver) = oneshot::channel();
        match self.waiting.iter_mut().find(|(of, _)| *of == host) {
            Some((_, queue)) => queue.push_back(sender),
            None => self.waiting.push_back((host, VecDeque::from([sender]))),
        }
        receiver
    }

    /// Takes the oldest request of the next host; `None` frees the turn.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        while let Some((host, mut queue)) = self.waiting.pop_front() {
            let next = loop {
                match queue.pop_front() {
                    Some(gone) if gone.is_closed() => {}
                    next => break next,
                }
            };
            if !queue.is_empty() {
                self.waiting.push_back((host, queue));
            }
            if next.is_some() {
                return next;
            }
        }
        self.free += 1;
        None
    }
}

impl Turn {
    /// Runs `work` on a thread of its own; the turn lasts until its end, even if the request was
    /// dropped.
    ///
    /// A thread is made for each: that costs a hundredth of the cheapest hash, and
    /// storage that does not answer never holds a login.
    ///
    /// # Errors
    /// Those of making a thread.
    pub(super) fn run(mut self, work: impl FnOnce(&mut Memory) + Send + 'static) -> io::Result<()> {
        let thread = thread::Builder::new().name("hash".to_owned());
        thread.spawn(move || work(&mut self.memory)).map(drop)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let next = self.hashing.turns().next();
        if let Some(next) = next {
            let turn = self.hashing.make_turn(mem::take(&mut self.memory));
            // A request dropped in this moment drops the turn, which passes on.
            drop(next.send(turn));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn ip(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    type Asking = std::pin::Pin<Box<dyn Future<Output = Option<Turn>> + Send>>;

    /// Returns a queued request.
    fn ask(hashing: &Arc<Hashing>, host: u8) -> Asking {
        let hashing = Arc::clone(hashing);
        let mut asking: Asking = Box::pin(async move { hashing.turn(ip(host)).await });
        assert!(served(&mut asking).is_none());
        asking
    }

    fn served(asking: &mut Asking) -> Option<Turn> {
        let mut cx = Context::from_waker(Waker::noop());
        match asking.as_mut().poll(&mut cx) {
            Poll::Ready(turn) => Some(turn.unwrap()),
            Poll::Pending => None,
        }
    }

    #[tokio::test]
    async fn hosts_are_served_in_turn_and_their_own_in_order() {
        let hashing = Hashing::new(1);
        let mut held = hashing.turn(ip(9)).await;
        let gone = ask(&hashing, 1);
        let mut asking: Vec<(u8, Asking)> = [(0, 1), (1, 1), (2, 1), (3, 2), (4, 3)]
            .map(|(number, host)| (number, ask(&hashing, host)))
            .into();
        drop(gone);
        let mut order = Vec::new();
        while held.take().is_some() {
            let next = asking.iter_mut().position(|(_, asking)| {
                held = served(asking);
                held.is_some()
            });
            order.extend(next.map(|next| asking.remove(next).0));
        }
        assert_eq!(order, [0, 3, 4, 1, 2]);
        assert_eq!(hashing.turns().free, 1);
    }

    #[tokio::test]
    async fn memory_goes_from_turn_to_turn_and_back_when_nobody_waits() {
        let hashing = Hashing::new(1);
        let mut first = hashing.turn(ip(1)).await.unwrap();
        let blocks = first.memory.blocks(8).as_ptr();
        let mut second = ask(&hashing, 2);
        drop(first);
        let mut second = served(&mut second).unwrap();
        assert_eq!(second.memory.blocks(8).as_ptr(), blocks);
        drop(second);
        assert!(hashing.turn(ip(1)).await.unwrap().memory.0.is_empty());
    }
}
