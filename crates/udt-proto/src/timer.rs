//! `Timers`: the deadlines of a connection, as a table.

use std::time::Instant;

/// Timers of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    /// Repeats a handshake packet.
    Handshake,
    /// Silence of the peer (EXP in UDT).
    Exp,
    /// Ends a handshake or a close that takes too long.
    Deadline,
    /// Ends the wait of an abort for the last acknowledgements.
    Abort,
    /// Repeats the shutdown packet.
    Shutdown,
}

const COUNT: usize = 5;

/// The deadlines.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timers {
    at: [Option<Instant>; COUNT],
}

impl Timers {
    fn slot(&mut self, timer: Timer) -> Option<&mut Option<Instant>> {
        self.at.get_mut(timer as usize)
    }

    pub(crate) fn get(&self, timer: Timer) -> Option<Instant> {
        self.at.get(timer as usize).copied().flatten()
    }

    pub(crate) fn set(&mut self, timer: Timer, at: Option<Instant>) {
        if let Some(slot) = self.slot(timer) {
            *slot = at;
        }
    }

    /// Clears a timer if it has expired; returns whether it had.
    pub(crate) fn take_due(&mut self, timer: Timer, now: Instant) -> bool {
        self.slot(timer)
            .is_some_and(|slot| slot.take_if(|at| *at <= now).is_some())
    }

    pub(crate) fn earliest(&self) -> Option<Instant> {
        self.at.iter().flatten().min().copied()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}
