//! `Head`: the first packet not acknowledged, and when to retransmit it without a loss report.
//!
//! The reference reports a loss once. If the report or the retransmission is lost, the only sign is
//! that the acknowledgements do not advance.

use std::time::{Duration, Instant};

/// Most packets retransmitted at a time.
const MOST: u64 = 64;

/// Send time and retransmissions of the packet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    sent_at: Instant,
    /// Times that it was retransmitted because it was overdue.
    times: u32,
    /// Packets retransmitted with the previous head, and one past the last of them.
    packets: u64,
    end: Option<u64>,
}

impl Head {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            sent_at: now,
            times: 0,
            packets: 1,
            end: None,
        }
    }

    /// Notes that the packet is sent.
    pub(crate) fn on_sent(&mut self, now: Instant) {
        self.sent_at = now;
    }

    /// Starts over with another packet.
    pub(crate) fn replace(&mut self, acked: u64, sent_at: Instant) {
        self.sent_at = sent_at;
        self.times = 0;
        if self.end.is_none_or(|end| acked > end) {
            self.packets = 1;
        }
    }

    /// Returns when the packet is overdue, if an acknowledgement takes at most `patience`.
    pub(crate) fn overdue(&self, patience: Duration) -> Instant {
        self.sent_at + patience * 2_u32.pow(self.times.min(6))
    }

    /// Notes that the packet is overdue; returns the number of packets to retransmit: twice as many
    /// if exactly those of the last time have arrived.
    pub(crate) fn on_overdue(&mut self, now: Instant, acked: u64) -> u64 {
        if self.times == 0 && self.end == Some(acked) {
            self.packets = (2 * self.packets).min(MOST);
        }
        self.times += 1;
        self.sent_at = now;
        self.end = Some(acked + self.packets);
        self.packets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "an Instant can be had in no other way"
    )]
    fn a_run_of_holes_is_filled_by_doubling() {
        let now = Instant::now();
        let mut head = Head::new(now);
        let mut acked = 0;
        for packets in [1, 2, 4, 8, 16, 32, 64, 64] {
            assert_eq!(head.on_overdue(now, acked), packets);
            acked += packets;
            head.replace(acked, now);
        }
        head.replace(acked + 1, now);
        assert_eq!(head.on_overdue(now, acked + 1), 1, "what follows had come");
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "an Instant can be had in no other way"
    )]
    fn patience_doubles_until_something_comes() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let mut head = Head::new(now);
        assert_eq!(head.overdue(second), now + second);
        head.on_overdue(now + second, 0);
        assert_eq!(head.overdue(second), now + 3 * second);
        head.replace(1, now + 2 * second);
        assert_eq!(head.overdue(second), now + 3 * second);
    }
}
