//! The protocol between the two ends: parameters of an exchange, and its messages.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

use crate::pipes::Pipe;

/// Messages between the two ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exchange {
    /// Whether messages go one way, and one byte comes back after the last.
    pub(crate) bulk: bool,
    /// Bytes of a message.
    pub(crate) size: usize,
    /// Number of messages, or of round trips.
    pub(crate) times: usize,
}

const HEAD: usize = 24;

impl Exchange {
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

/// Runs an exchange with a buffer of the size of its messages, and returns its duration.
pub(crate) type RunNear = Box<dyn FnMut(Exchange, &mut [u8]) -> Result<Duration>>;
/// Waits for an exchange and runs it with a shared buffer; returns false when the near end closes.
pub(crate) type RunFar = Box<dyn FnMut(&Mutex<Vec<u8>>) -> Result<bool>>;

/// Returns the end that starts exchanges.
pub(crate) fn run_near(runtime: Runtime, mut pipe: impl Pipe + 'static) -> RunNear {
    Box::new(move |exchange, message| {
        let took = runtime.block_on(async {
            pipe.put(&exchange.head()).await?;
            // From here on the far end runs the exchange.
            pipe.take(&mut [0]).await?;
            let began = Instant::now();
            for _ in 0..exchange.times {
                pipe.put(message).await?;
                if !exchange.bulk {
                    pipe.take(message).await?;
                }
            }
            if exchange.bulk {
                pipe.take(&mut [0]).await?;
            }
            io::Result::Ok(began.elapsed())
        });
        Ok(took?)
    })
}

/// Returns the other end.
pub(crate) fn run_far(runtime: Runtime, mut pipe: impl Pipe + 'static) -> RunFar {
    Box::new(move |shared| {
        let mut head = [0; HEAD];
        if runtime.block_on(pipe.take(&mut head)).is_err() {
            return Ok(false);
        }
        let exchange = Exchange::of(&head);
        let mut buffer = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let message = buffer
            .get_mut(..exchange.size)
            .context("the message size exceeds the buffer")?;
        runtime.block_on(async {
            pipe.put(&[1]).await?;
            for _ in 0..exchange.times {
                pipe.take(message).await?;
                if !exchange.bulk {
                    pipe.put(message).await?;
                }
            }
            if exchange.bulk {
                pipe.put(&[1]).await?;
            }
            io::Result::Ok(())
        })?;
        Ok(true)
    })
}
