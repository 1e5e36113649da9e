//! `FirstBlock`: the first block of an upload, which waits in memory while it is small.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use crate::error::Outcome;
use crate::whole::SMALL;

/// The first block, held back if it is small, so that a small file is written and published at once.
#[derive(Debug, Default)]
pub(crate) struct FirstBlock(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    /// None came yet.
    #[default]
    Open,
    /// It waits here.
    Waits(u64, Bytes),
    /// It is written, or was never held back.
    Written,
}

impl FirstBlock {
    /// Keeps a small first block back; false when it has to be written now.
    pub(crate) fn keep(&self, offset: u64, data: &Bytes) -> bool {
        if data.len() > SMALL {
            return false;
        }
        // Taken means that someone is writing it: no longer the first.
        let Ok(mut state) = self.0.try_lock() else {
            return false;
        };
        let open = matches!(*state, State::Open);
        if open {
            // A copy, so that a slow sender does not hold on to a large block of a pool.
            *state = State::Waits(offset, Bytes::copy_from_slice(data));
        }
        open
    }

    /// Whether all that came waits in memory.
    pub(crate) fn waits(&self) -> bool {
        let state = self.0.try_lock();
        state.is_ok_and(|state| matches!(*state, State::Waits(..)))
    }

    /// Has the block written that waits. Nothing that builds on it goes on before it is.
    pub(crate) fn catch_up(&self, write: impl FnOnce(u64, &[u8]) -> Outcome<()>) -> Outcome<()> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Waits(offset, data) = &*state {
            write(*offset, data)?;
        }
        *state = State::Written;
        Ok(())
    }

    /// Has a file published that consists of at most the block that waits; `None` when more came.
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
