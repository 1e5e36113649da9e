//! `Stats`: what a connection has counted and measured.

use std::time::Duration;

use super::Connection;
use crate::control;

/// What a connection has counted and measured so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Data packets sent, those sent again included.
    pub sent: u64,
    /// Data packets sent again.
    pub retransmitted: u64,
    /// Data packets received for the first time.
    pub received: u64,
    /// Data packets that the peer has reported as lost.
    pub lost: u64,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Shortest round-trip time seen lately.
    pub min_rtt: Duration,
    /// Packets per second that the congestion control sends at most.
    pub rate: u64,
    /// Packets on the way.
    pub in_flight: u64,
}

impl Connection {
    /// What it has counted and measured.
    pub fn stats(&self) -> Stats {
        let Some(halves) = &self.halves else {
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
