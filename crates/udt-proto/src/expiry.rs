//! `Expiry`: messages with a time to live, and drop requests for those that have expired.

use std::collections::VecDeque;
use std::time::Instant;

use crate::packet::Control;
use crate::seq::Numbering;

/// A message with a time to live.
#[derive(Debug, Clone, Copy)]
struct Expiring {
    first: u64,
    end: u64,
    number: u32,
    deadline: Instant,
}

/// All such messages that are not acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Expiry {
    waiting: VecDeque<Expiring>,
    /// Drop requests to send.
    dropped: VecDeque<Expiring>,
}

impl Expiry {
    /// Whether no message has a time to live.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Notes a message that was just written.
    pub(crate) fn push(&mut self, first: u64, end: u64, number: u32, deadline: Instant) {
        self.waiting.push_back(Expiring {
            first,
            end,
            number,
            deadline,
        });
    }

    /// Removes acknowledged messages.
    pub(crate) fn on_ack(&mut self, next: u64) {
        while self.waiting.front().is_some_and(|m| m.end <= next) {
            self.waiting.pop_front();
        }
    }

    /// Drops the message of a packet if it has expired; returns its packets.
    pub(crate) fn drop(&mut self, now: Instant, index: u64) -> Option<(u64, u64)> {
        let at = self.waiting.partition_point(|m| m.end <= index);
        let message = self.waiting.get(at).filter(|m| m.first <= index)?;
        if message.deadline > now {
            return None;
        }
        if !self.dropped.iter().any(|m| m.first == message.first) {
            self.dropped.push_back(*message);
        }
        Some((message.first, message.end))
    }

    /// Returns the next drop request.
    pub(crate) fn next(&mut self, numbers: Numbering) -> Option<Control<'static>> {
        self.dropped.pop_front().map(|message| Control::Drop {
            message: message.number,
            first: numbers.sequence(message.first),
            last: numbers.sequence(message.end - 1),
        })
    }
}
