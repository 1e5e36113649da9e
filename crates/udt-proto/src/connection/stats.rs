//! `Stats`: counters and measurements of a connection.

use std::time::Duration;

use super::Connection;
use crate::control;

/// Counters and measurements of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Data packets sent, retransmissions included.
    pub sent: u64,
    /// Data packets retransmitted.
    pub retransmitted: u64,
    /// Data packets received for the first time.
    pub received: u64,
    /// Data packets that the peer has reported as lost.
    pub lost: u64,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Shortest round-trip time of the last seconds.
    pub min_rtt: Duration,
    /// Packets per second that the congestion control sends at most.
    pub rate: u64,
    /// Packets in flight.
    pub in_flight: u64,
}

impl Connection {
    /// Counters and measurements until now.
    pub fn stats(&self) -> Stats {
        let Some(halves) = self.halves() else {
            return Stats::default();
        };
        let sender = &halves.sender;
        Stats {
            sent: sender.sent,
            retransmitted: sender.retransmitted,
            received: halves.receiver.received,
            lost: sender.lost,
            rtt: self.rtt.duration(),
            min_rtt: sender.min_rtt().unwrap_or_else(|| self.rtt.duration()),
            rate: control::whole(sender.rate()),
            in_flight: sender.in_flight(),
        }
    }
}
