//! What the two ends say to each other: an order, and the messages that it asks for.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

use crate::pipes::Pipe;

/// What is to pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    /// Whether messages go one way, and one byte comes back after the last.
    pub(crate) bulk: bool,
    /// Bytes of a message.
    pub(crate) size: usize,
    /// How many messages, or turns there and back.
    pub(crate) times: usize,
}

const HEAD: usize = 24;

impl Order {
    fn head(self) -> [u8; HEAD] {
        let words = [u64::from(self.bulk), self.size as u64, self.times as u64];
        let mut head = [0; HEAD];
        for (room, word) in head.chunks_exact_mut(8).zip(words) {
            room.copy_from_slice(&word.to_le_bytes());
        }
        head
    }

    fn of(head: &[u8; HEAD]) -> Self {
        let mut words = head.chunks_exact(8).map(|word| {
            let word = word.try_into().map_or(0, u64::from_le_bytes);
            usize::try_from(word).unwrap_or(usize::MAX)
        });
        let mut next = || words.next().unwrap_or(0);
        Self {
            bulk: next() == 1,
            size: next(),
            times: next(),
        }
    }
}

/// Has an order carried out, with a buffer as long as its messages, and says how long that took.
pub(crate) type Ask = Box<dyn FnMut(Order, &mut [u8]) -> Result<Duration>>;
/// Waits for an order and carries it out in a buffer that others share; false when none comes any more.
pub(crate) type Answer = Box<dyn FnMut(&Mutex<Vec<u8>>) -> Result<bool>>;

/// The end that gives orders.
pub(crate) fn ask(runtime: Runtime, mut pipe: impl Pipe + 'static) -> Ask {
    Box::new(move |order, message| {
        let took = runtime.block_on(async {
            pipe.put(&order.head()).await?;
            // From here on the other end is at it.
            pipe.take(&mut [0]).await?;
            let began = Instant::now();
            for _ in 0..order.times {
                pipe.put(message).await?;
                if !order.bulk {
                    pipe.take(message).await?;
                }
            }
            if order.bulk {
                pipe.take(&mut [0]).await?;
            }
            io::Result::Ok(began.elapsed())
        });
        Ok(took?)
    })
}

/// The end that carries them out.
pub(crate) fn answer(runtime: Runtime, mut pipe: impl Pipe + 'static) -> Answer {
    Box::new(move |shared| {
        let mut head = [0; HEAD];
        if runtime.block_on(pipe.take(&mut head)).is_err() {
            return Ok(false);
        }
        let order = Order::of(&head);
        let mut buffer = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let message = buffer
            .get_mut(..order.size)
            .context("a size that is too large")?;
        runtime.block_on(async {
            pipe.put(&[1]).await?;
            for _ in 0..order.times {
                pipe.take(message).await?;
                if !order.bulk {
                    pipe.put(message).await?;
                }
            }
            if order.bulk {
                pipe.put(&[1]).await?;
            }
            io::Result::Ok(())
        })?;
        Ok(true)
    })
}
