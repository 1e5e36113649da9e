//! `FirstBlock`: the first block of an upload, held in memory while it is small.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use crate::error::Outcome;
use crate::whole::SMALL;

/// The first block, withheld if it is small, so that a small file is written and published at once.
#[derive(Debug, Default)]
pub(crate) struct FirstBlock(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    /// No block yet.
    #[default]
    Open,
    /// The withheld block with its offset.
    Waits(u64, Bytes),
    /// The block is written, or was never withheld.
    Written,
}

impl FirstBlock {
    /// Withholds a small first block; `false` if it must be written now.
    pub(crate) fn keep(&self, offset: u64, data: &Bytes) -> bool {
        if data.len() > SMALL {
            return false;
        }
        // Locked means that the first block is being written, so this one is not the first.
        let Ok(mut state) = self.0.try_lock() else {
            return false;
        };
        let open = matches!(*state, State::Open);
        if open {
            // A copy, so that a slow sender does not hold a large block of a pool.
            *state = State::Waits(offset, Bytes::copy_from_slice(data));
        }
        open
    }

    /// Whether all received bytes are in memory.
    pub(crate) fn waits(&self) -> bool {
        let state = self.0.try_lock();
        state.is_ok_and(|state| matches!(*state, State::Waits(..)))
    }

    /// Writes the withheld block. Other operations wait for it on the lock.
    pub(crate) fn catch_up(&self, write: impl FnOnce(u64, &[u8]) -> Outcome<()>) -> Outcome<()> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Waits(offset, data) = &*state {
            write(*offset, data)?;
        }
        *state = State::Written;
        Ok(())
    }

    /// Publishes a file of at most the withheld block; `None` if there are more bytes.
    pub(crate) fn publish<T>(
        &self,
        publish: impl FnOnce(u64, &[u8]) -> Outcome<Option<T>>,
    ) -> Outcome<Option<T>> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Open => publish(0, &[]),
            State::Waits(offset, data) => publish(*offset, data),
            State::Written => Ok(None),
        }
    }
}
