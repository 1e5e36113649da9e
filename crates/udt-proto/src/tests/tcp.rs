//! `Tcp`: a flow that understands nothing but loss, as CUBIC does, for company.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Bytes of a packet and of an acknowledgement.
pub(super) const PACKET: usize = 1472;
pub(super) const ACK: usize = 12;
/// Packets that arrive later than so many that were sent after them are lost.
const REORDERING: u64 = 3;

/// The sending end. The receiving end is an echo of packet numbers.
#[derive(Debug)]
pub(super) struct Tcp {
    pub(super) from: usize,
    pub(super) to: usize,
    window: f64,
    threshold: f64,
    /// The window before the last decrease, and when that was.
    most: f64,
    since: Option<Instant>,
    next: u64,
    out: VecDeque<(u64, Instant)>,
    /// Losses of packets before this one belong to the last decrease.
    recovery: u64,
    rtt: Duration,
    heard_at: Instant,
    pub(super) arrived: u64,
}

impl Tcp {
    pub(super) fn new(now: Instant, from: usize, to: usize) -> Self {
        Self {
            from,
            to,
            window: 10.0,
            threshold: f64::INFINITY,
            most: 0.0,
            since: None,
            next: 0,
            out: VecDeque::new(),
            recovery: 0,
            rtt: Duration::from_millis(100),
            heard_at: now,
            arrived: 0,
        }
    }

    /// The packets that may go now.
    pub(super) fn send(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        while (self.out.len() as f64) < self.window.max(1.0) {
            let mut packet = vec![0; PACKET];
            packet[4..12].copy_from_slice(&self.next.to_be_bytes());
            packets.push(packet);
            self.out.push_back((self.next, now));
            self.next += 1;
        }
        packets
    }

    /// When it gives up waiting.
    pub(super) fn timeout(&self) -> Instant {
        self.heard_at + self.rtt * 2 + Duration::from_millis(200)
    }

    pub(super) fn on_timeout(&mut self, now: Instant) {
        self.out.clear();
        self.threshold = self.window / 2.0;
        self.window = 1.0;
        self.heard_at = now;
    }

    pub(super) fn on_ack(&mut self, now: Instant, number: u64) {
        self.heard_at = now;
        let Some(at) = self.out.iter().position(|(n, _)| *n == number) else {
            return;
        };
        if let Some((_, sent)) = self.out.remove(at) {
            self.rtt = (self.rtt * 7 + (now - sent)) / 8;
        }
        while let Some((first, _)) = self.out.front().copied()
            && first + REORDERING < number
        {
            self.out.pop_front();
            if first >= self.recovery {
                self.most = self.window;
                self.window *= 0.7;
                self.threshold = self.window;
                self.since = Some(now);
                self.recovery = self.next;
            }
        }
        self.grow(now);
    }

    fn grow(&mut self, now: Instant) {
        if self.window < self.threshold {
            self.window += 1.0;
            return;
        }
        let since = *self.since.get_or_insert(now);
        let time = (now - since).as_secs_f64();
        let back = (self.most * 0.3 / 0.4).cbrt();
        let cubic = 0.4 * (time + self.rtt.as_secs_f64() - back).powi(3) + self.most;
        // No slower than additive increase of the same average.
        let friendly = self.most * 0.7 + 0.53 * time / self.rtt.as_secs_f64();
        let target = cubic.max(friendly).min(self.window * 1.5);
        self.window += ((target - self.window) / self.window).max(0.01 / self.window);
    }
}
