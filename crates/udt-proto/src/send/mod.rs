//! `Sender`: the sending half of a connection: the next packet and its time, the packets in flight,
//! and the acknowledged ones.

mod reports;

use std::time::{Duration, Instant};

use byte_ranges::{Range64, RangeSet};

use crate::control::{Controller, Progress, real, whole};
use crate::delivery::Delivery;
use crate::error::PeerMisbehaved;
use crate::estimate::average;
use crate::expiry::Expiry;
use crate::head::Head;
use crate::packet::{Ack, Control};
use crate::rtt::{RoundTrip, micros};
use crate::send_buffer::{Burst, SendBuffer};
use crate::seq::Numbering;

/// Lateness of bursts that is made up for.
const SLACK: Duration = Duration::from_millis(4);
/// Time that a burst takes at the pacing rate.
const BURST_TIME: Duration = Duration::from_millis(1);
/// Packets retransmitted at each timeout of a silence.
const BLIND: u64 = 64;
/// Longest delay of an acknowledgement beyond the round trip: the peer sends one in 10
/// milliseconds.
const ACK_DELAY: Duration = Duration::from_millis(15);

/// The sending half of a connection.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) buffer: SendBuffer,
    numbers: Numbering,
    controller: Box<dyn Controller>,
    /// Packets to retransmit.
    loss: RangeSet,
    /// One past the last packet that a full acknowledgement covers. The reference delivers only
    /// these to its reader, so only these are safe from a shutdown.
    secured: u64,
    /// One past the last packet that fits the peer's buffer.
    limit: u64,
    delivery: Delivery,
    /// Longest time for which a hole waits for its retransmission.
    longest_stall: Duration,
    /// Time of the next burst.
    due: Instant,
    /// Send time of the first packet of a pair whose second is still to be sent.
    pair: Option<Instant>,
    /// Highest rate that the options allow, in packets per second.
    most_rate: f64,
    /// Time of the last news about arrivals.
    progress_at: Instant,
    /// Timeouts of silence since then.
    silences: u32,
    /// Packets that may still be retransmitted in this silence.
    blind: Option<u64>,
    head: Head,
    expiry: Expiry,
    receive_rate: f64,
    capacity: f64,
    /// Allowance of packets in loss reports, and the time of its renewal.
    look_at: u64,
    looks_again: Instant,
    opened: Instant,
    pub(crate) sent: u64,
    pub(crate) retransmitted: u64,
    pub(crate) lost: u64,
}

impl Sender {
    pub(crate) fn new(
        now: Instant,
        opened: Instant,
        buffer: SendBuffer,
        numbers: Numbering,
        controller: Box<dyn Controller>,
        peer_window: u32,
        most_rate: f64,
    ) -> Self {
        Self {
            buffer,
            numbers,
            controller,
            loss: RangeSet::new(),
            secured: 0,
            limit: u64::from(peer_window),
            delivery: Delivery::new(now),
            longest_stall: Duration::ZERO,
            due: now,
            pair: None,
            most_rate,
            progress_at: now,
            silences: 0,
            blind: None,
            head: Head::new(now),
            expiry: Expiry::default(),
            receive_rate: 0.0,
            capacity: 0.0,
            look_at: 0,
            looks_again: now,
            opened,
            sent: 0,
            retransmitted: 0,
            lost: 0,
        }
    }

    /// Packets sent and not known to have arrived.
    pub(crate) fn in_flight(&self) -> u64 {
        let arrived = self.delivery.arrived();
        self.buffer.next().saturating_sub(arrived)
    }

    /// Whether full acknowledgements cover all written data.
    pub(crate) fn is_drained(&self) -> bool {
        self.secured == self.buffer.end()
    }

    /// Whether sent packets wait for acknowledgement.
    pub(crate) fn is_waiting(&self) -> bool {
        self.buffer.next() > self.buffer.acked()
    }

    /// Pacing rate in packets per second.
    pub(crate) fn rate(&self) -> f64 {
        self.controller.rate().clamp(1.0, self.most_rate)
    }

    pub(crate) fn min_rtt(&self) -> Option<Duration> {
        self.controller.min_rtt()
    }

    /// Notes a write while no packets wait for acknowledgement.
    pub(crate) fn on_first_write(&mut self, now: Instant) {
        self.progress_at = now;
        self.silences = 0;
    }

    /// Sets the time after which the last message is not retransmitted.
    pub(crate) fn expire(&mut self, first: u64, end: u64, deadline: Instant) {
        let number = self.buffer.message();
        self.expiry.push(first, end, number, deadline);
    }

    /// Takes in an acknowledgement; returns whether it frees room.
    pub(crate) fn on_ack(
        &mut self,
        now: Instant,
        ack: &Ack,
        rtt: RoundTrip,
    ) -> Result<bool, PeerMisbehaved> {
        let Some(next) = self.numbers.index(ack.next, self.buffer.next()) else {
            return Ok(false);
        };
        if next > self.buffer.next() {
            return Err(PeerMisbehaved::AcknowledgedUnsent);
        }
        let before = self.buffer.acked();
        if next < before {
            return Ok(false);
        }
        if let Some(full) = ack.full {
            self.secured = next;
            self.limit = next + u64::from(full.room.min(1 << 24));
            if let Some(rates) = full.rates {
                average(&mut self.receive_rate, rates.received);
                average(&mut self.capacity, rates.capacity);
            }
        }
        self.blind = None;
        let is_progress = next > before;
        if is_progress {
            let filled = self.buffer.ack(next);
            self.delivery.on_filled(now, filled);
            if let Some(done) = Range64::new(before, next) {
                self.loss.remove(done);
            }
            self.expiry.on_ack(next);
            self.on_news(now);
            self.on_new_head(now);
        }
        self.delivery.reach(now, next);
        let progress = self.progress(now, rtt, ack.full.is_some());
        self.controller.on_ack(now, &progress);
        Ok(is_progress)
    }

    /// Schedules packets for retransmission.
    fn lose(&mut self, start: u64, end: u64) {
        if let Some(range) = Range64::new(start, end) {
            self.loss.insert(range);
        }
    }

    fn on_news(&mut self, now: Instant) {
        self.progress_at = now;
        self.silences = 0;
    }

    fn progress(&mut self, now: Instant, rtt: RoundTrip, is_full: bool) -> Progress {
        self.longest_stall = rtt.duration();
        Progress {
            is_full,
            acked: self.buffer.acked(),
            next: self.buffer.next(),
            delivered: self.delivery.arrived(),
            is_whole: self.delivery.missing() == 0,
            in_flight: self.in_flight(),
            lost: self.lost,
            sample: self.delivery.sample(now),
            behind_loss: None,
            rtt,
            receive_rate: self.receive_rate,
            capacity: self.capacity,
        }
    }

    /// Notes a warning of congestion.
    pub(crate) fn on_warning(&mut self) {
        self.controller.on_warning(self.buffer.next());
    }

    /// Notes another first packet not acknowledged.
    fn on_new_head(&mut self, now: Instant) {
        let acked = self.buffer.acked();
        let stamped = self.buffer.stamped(acked);
        let age = stamped.map_or(0, |at| self.micros(now).wrapping_sub(at));
        let sent_at = now.checked_sub(Duration::from_micros(age.into()));
        self.head.replace(acked, sent_at.unwrap_or(now));
    }

    /// Returns when the acknowledgement of the first packet is overdue.
    pub(crate) fn overdue(&self, rtt: RoundTrip) -> Option<Instant> {
        let is_out = self.is_waiting() && !self.loss.contains(self.buffer.acked());
        is_out.then(|| self.head.overdue(rtt.late() + ACK_DELAY))
    }

    /// Schedules the first packet for retransmission, perhaps with some behind it.
    pub(crate) fn on_overdue(&mut self, now: Instant) {
        let (acked, next) = (self.buffer.acked(), self.buffer.next());
        let packets = self.head.on_overdue(now, acked);
        self.lose(acked, next.min(acked + packets));
    }

    /// Returns the timeout of the present silence.
    pub(crate) fn silence_ends(&self, rtt: RoundTrip) -> Option<Instant> {
        let patience = rtt.late() + ACK_DELAY;
        let patience = patience * 2_u32.pow(self.silences.min(6));
        let most = Duration::from_secs(1).max(rtt.late() * 2);
        self.is_waiting()
            .then(|| self.progress_at + patience.min(most))
    }

    /// Reacts to the timeout: returns the last packet as a probe, and every other time schedules
    /// all unacknowledged packets.
    pub(crate) fn on_silence(&mut self, now: Instant, rtt: RoundTrip) -> Option<Burst> {
        self.silences += 1;
        self.progress_at = now;
        let (acked, next) = (self.buffer.acked(), self.buffer.next());
        if self.silences.is_multiple_of(2) {
            // A loss report may have been lost, and the reference sends it once only.
            self.lose(acked, next);
            self.blind = Some(BLIND);
            let progress = self.progress(now, rtt, false);
            self.controller.on_timeout(&progress);
        }
        let last = next.checked_sub(1).filter(|last| *last >= acked)?;
        Some(Burst {
            is_resent: true,
            is_probe: true,
            ..Burst::new(last, 1)
        })
    }

    /// Returns the next drop request. Call it before [`plan`](Self::plan), which would retransmit.
    pub(crate) fn next_drop(&mut self, now: Instant) -> Option<Control<'static>> {
        if !self.expiry.is_empty() {
            self.drop_expired(now);
        }
        self.expiry.next(self.numbers)
    }

    /// Drops expired messages instead of retransmitting them.
    fn drop_expired(&mut self, now: Instant) {
        while let Some(lost) = self.loss.first()
            && let Some((first, end)) = self.expiry.drop(now, lost.start())
        {
            if let Some(range) = Range64::new(first, end) {
                self.loss.remove(range);
            }
            if (first..end).contains(&self.buffer.acked()) {
                // From now on the drop request may be overdue.
                self.head.on_sent(now);
            }
            // Packets of it that were never sent count as sent.
            self.buffer.sent(end);
        }
    }

    /// Returns the burst to send now, if any, of `segments` packets at most.
    pub(crate) fn plan(&self, now: Instant, segments: usize) -> Option<Burst> {
        let first = self.buffer.next();
        // The receiver measures the path by every sixteenth packet and its successor, sent without
        // a pause.
        let is_second = self.pair.is_some_and(|at| now <= at + BURST_TIME);
        if is_second && self.may_send_until(now) > first {
            return Some(Burst::new(first, 1));
        }
        if self.due > now {
            return None;
        }
        let most = self.burst_length().min(segments);
        if let Some(lost) = self.loss.first().filter(|_| self.blind != Some(0)) {
            let packets = self.buffer.burst(lost.start(), lost.end(), most);
            return (packets > 0).then_some(Burst {
                is_resent: true,
                ..Burst::new(lost.start(), packets)
            });
        }
        let end = self.may_send_until(now);
        let packets = self.buffer.burst(first, end, most);
        if packets == 0 {
            return None;
        }
        let packets = if self.begins_pair(first + packets as u64) && packets < segments {
            self.buffer.burst(first, end, packets + 1)
        } else {
            packets
        };
        Some(Burst::new(first, packets))
    }

    /// Whether the last packet before `end` is the first of a pair.
    fn begins_pair(&self, end: u64) -> bool {
        self.numbers.sequence(end - 1) & 15 == 0
    }

    /// One past the last packet that the windows allow now.
    fn may_send_until(&self, now: Instant) -> u64 {
        let (rate, next) = (self.controller.bandwidth(), self.buffer.next());
        let hidden = self.delivery.hidden(now, next, rate, self.longest_stall);
        let on_the_way = self.in_flight().saturating_sub(hidden);
        let free = self.controller.window().saturating_sub(on_the_way);
        let end = self.buffer.next().saturating_add(free);
        end.min(self.limit).min(self.buffer.end())
    }

    /// Returns when the next packet can be sent, if only pacing holds it.
    pub(crate) fn ready_at(&self) -> Option<Instant> {
        let resend = !self.loss.is_empty() && self.blind != Some(0);
        let at = self.due;
        if resend || self.may_send_until(at) > self.buffer.next() {
            return Some(at);
        }
        // While a hole hides arrivals, the window opens by itself.
        let over = (self.in_flight() + 1).saturating_sub(self.controller.window());
        let rate = self.controller.bandwidth();
        let opens = self.delivery.hidden_at(over, rate, self.longest_stall)?;
        let at = at.max(opens);
        (self.may_send_until(at) > self.buffer.next()).then_some(at)
    }

    fn burst_length(&self) -> usize {
        let packets = whole(self.rate() * BURST_TIME.as_secs_f64()).max(2);
        usize::try_from(packets).unwrap_or(usize::MAX)
    }

    /// Returns the bytes of a burst, with timestamps.
    pub(crate) fn contents(&mut self, now: Instant, burst: Burst) -> Option<&[u8]> {
        let micros = self.micros(now);
        self.buffer.stamp(burst.first, burst.packets, micros);
        self.buffer.contents(burst.first, burst.packets)
    }

    fn micros(&self, now: Instant) -> u32 {
        let since = now.saturating_duration_since(self.opened);
        // The wire has 32 bits, which wrap around.
        micros(Duration::from_micros(
            u64::try_from(since.as_micros()).unwrap_or_default() & u64::from(u32::MAX),
        ))
    }

    /// Notes that a burst was sent.
    pub(crate) fn on_sent(&mut self, now: Instant, burst: Burst) {
        let end = burst.first + burst.packets as u64;
        self.sent += burst.packets as u64;
        if !burst.is_probe {
            let start = self.due.max(now.checked_sub(SLACK).unwrap_or(now));
            self.due = start + Duration::from_secs_f64(real(burst.packets as u64) / self.rate());
        }
        if burst.first <= self.buffer.acked() && self.buffer.acked() < end {
            self.head.on_sent(now);
        }
        if burst.is_resent {
            self.retransmitted += burst.packets as u64;
            self.blind = self
                .blind
                .map(|left| left.saturating_sub(burst.packets as u64));
            if let Some(range) = Range64::new(burst.first, end) {
                self.loss.remove(range);
            }
            return;
        }
        self.pair = self.begins_pair(end).then_some(now);
        let is_idle = self.in_flight() == 0;
        if is_idle {
            self.controller.on_idle_end(now);
        }
        if !self.is_waiting() {
            self.on_first_write(now);
        }
        self.buffer.sent(end);
        let is_limited = self.buffer.end() == end && self.in_flight() < self.controller.window();
        self.delivery.on_sent(now, end, is_idle, is_limited);
    }

    /// The first packet not acknowledged, and the allowance of packets in loss reports.
    #[cfg(test)]
    pub(crate) fn reported(&self) -> (u64, u64) {
        (self.buffer.acked(), self.look_at)
    }

    /// Frees unused memory, and all of it when nothing will be sent any more.
    pub(crate) fn shrink(&mut self, is_over: bool) {
        self.buffer.shrink(is_over);
        self.delivery.shrink(is_over);
    }

    /// Bytes of memory held, about.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn memory(&self) -> usize {
        self.buffer.memory() + self.delivery.memory() + self.loss.len() * 40
    }
}
