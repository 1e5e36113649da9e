//! `Receiver`: the receiving half of a connection: packets that arrived, gaps, acknowledgements,
//! loss reports.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::assemble::Assembler;
use crate::control::SYN;
use crate::error::PeerMisbehaved;
use crate::estimate::Arrivals;
use crate::loss::Gaps;
use crate::options::Service;
use crate::packet::{Ack, Data, FullAck, Rates, begin_nak, push_loss};
use crate::receive_buffer::ReceiveBuffer;
use crate::rtt::{RoundTrip, micros};
use crate::seq::{Numbering, next_ack};

/// Packets after which a light acknowledgement is sent.
const LIGHT_EVERY: u32 = 64;
/// Most acknowledgements that can still be confirmed.
const MOST_HISTORY: usize = 1024;
/// Shortest pause between full acknowledgements, however short the packets are.
const LEAST_ACK: Duration = Duration::from_millis(1);
/// Bytes buffered before the first read, as in the backlog, and the packets that they are at least:
/// more than this end or the reference sends at first.
const UNREAD: usize = 1 << 17;
const FEW: u32 = 66;

/// An acknowledgement that was sent.
#[derive(Debug, Clone, Copy)]
struct Sent {
    number: u32,
    next: u64,
    at: Instant,
}

/// The receiving half of a connection.
#[derive(Debug)]
pub(crate) struct Receiver {
    numbers: Numbering,
    buffer: ReceiveBuffer,
    gaps: Gaps,
    assembler: Option<Assembler>,
    /// Bytes of a full packet.
    payload: usize,
    /// One past the last packet that has arrived.
    next: u64,
    arrivals: Arrivals,
    /// Packets since the last full acknowledgement.
    count: u32,
    is_light_due: bool,
    /// Whether the sender shows that it has missed an acknowledgement.
    is_asked: bool,
    ack_at: Option<Instant>,
    number: u32,
    /// Content of the last full acknowledgement, and its time.
    acked: u64,
    acked_at: Option<Instant>,
    long_at: Option<Instant>,
    told_room: u64,
    /// Most packets buffered after the first read.
    capacity: u32,
    /// First packet behind those whose acknowledgement the sender has confirmed.
    confirmed: u64,
    history: VecDeque<Sent>,
    nak_at: Option<Instant>,
    pub(crate) received: u64,
}

impl Receiver {
    pub(crate) fn new(numbers: Numbering, payload: usize, capacity: u32, service: Service) -> Self {
        let few = u32::try_from(UNREAD / payload.max(1)).unwrap_or(u32::MAX);
        Self {
            numbers,
            buffer: ReceiveBuffer::new(payload, capacity.min(few.max(FEW))),
            capacity,
            gaps: Gaps::default(),
            assembler: (service == Service::Message).then(Assembler::default),
            payload,
            next: 0,
            arrivals: Arrivals::default(),
            count: 0,
            is_light_due: false,
            is_asked: false,
            ack_at: None,
            number: 0,
            acked: 0,
            acked_at: None,
            long_at: None,
            told_room: capacity.into(),
            confirmed: 0,
            history: VecDeque::new(),
            nak_at: None,
            received: 0,
        }
    }

    /// The first packet that has not arrived.
    pub(crate) fn complete(&self) -> u64 {
        self.gaps.first().unwrap_or(self.next)
    }

    /// Whether packets are missing before others that have arrived.
    pub(crate) fn has_gaps(&self) -> bool {
        !self.gaps.is_empty()
    }

    /// Whether there is something to read.
    pub(crate) fn is_readable(&self) -> bool {
        match &self.assembler {
            None => self.buffer.read() < self.complete(),
            Some(assembler) => assembler.readable(self.complete()).is_some(),
        }
    }

    /// Takes in a data packet.
    pub(crate) fn on_data(&mut self, now: Instant, data: &Data<'_>, rtt: RoundTrip) {
        self.arrivals.on_packet(now);
        let Some(index) = self.numbers.index(data.sequence, self.next) else {
            return;
        };
        if index < self.complete() || index >= self.buffer.limit() {
            // A sender that knew the last acknowledgement would not send this packet.
            self.sooner(now);
            return;
        }
        if data.payload.len() > self.payload {
            return;
        }
        if index > self.next {
            if self.gaps.is_full() {
                return;
            }
            let due = self.gaps.push(now, self.next, index, rtt.duration());
            self.nak_at = Some(self.nak_at.map_or(due, |at| at.min(due)));
        } else if index == self.next {
            self.arrivals.on_next(now, index, data.sequence);
        } else if !self.gaps.remove(now, index, self.next, rtt.duration()) {
            self.sooner(now);
            return;
        }
        self.next = self.next.max(index + 1);
        self.buffer.store(index, data.payload, data.message);
        if let Some(assembler) = &mut self.assembler {
            assembler.on_packet(index, data.message);
        }
        self.received += 1;
        self.count = self.count.wrapping_add(1);
        if self.count.is_multiple_of(LIGHT_EVERY) {
            self.is_light_due = true;
        }
        // A short packet ends a write, whose writer may wait for the acknowledgement.
        let pause = if data.payload.len() < self.payload {
            LEAST_ACK
        } else {
            SYN
        };
        self.ack_within(now, pause);
    }

    /// Schedules the next acknowledgement, even without new packets: the last may be lost.
    pub(crate) fn sooner(&mut self, now: Instant) {
        self.is_asked = true;
        self.ack_within(now, SYN);
    }

    /// Schedules the next acknowledgement, no later than a time after the last one.
    fn ack_within(&mut self, now: Instant, pause: Duration) {
        let at = self.acked_at.map_or(now, |at| now.max(at + pause));
        self.ack_at = Some(self.ack_at.map_or(at, |before| before.min(at)));
    }

    /// Takes in a drop request: the sender gives up packets of a message.
    pub(crate) fn on_drop(
        &mut self,
        now: Instant,
        message: u32,
        first: u32,
        last: u32,
    ) -> Result<(), PeerMisbehaved> {
        let assembler = self
            .assembler
            .as_mut()
            .ok_or(PeerMisbehaved::DroppedStream)?;
        let near = self.next;
        let (first, last) = (
            self.numbers.index(first, near),
            self.numbers.index(last, near),
        );
        let (Some(first), Some(last)) = (first, last) else {
            return Ok(());
        };
        if first > last || last >= self.buffer.limit() {
            return Ok(());
        }
        assembler.give_up(&mut self.buffer, first, last + 1, message);
        self.gaps.remove_range(first, last + 1);
        if first <= self.next {
            self.next = self.next.max(last + 1);
        }
        let next = self.gaps.first().unwrap_or(self.next);
        assembler.tidy(&mut self.buffer, next);
        // Nothing may follow, and the sender waits for the acknowledgement of dropped packets as
        // well.
        self.ack_within(now, LEAST_ACK);
        Ok(())
    }

    /// Takes in the confirmation of an acknowledgement; returns the round trip in microseconds.
    pub(crate) fn on_ack2(&mut self, now: Instant, number: u32) -> Option<u32> {
        let at = self.history.iter().position(|sent| sent.number == number)?;
        let sent = self.history.drain(..=at).next_back()?;
        self.confirmed = self.confirmed.max(sent.next);
        Some(micros(now.saturating_duration_since(sent.at)).max(1))
    }

    /// Whether the sender shows that it has missed an acknowledgement.
    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// First packet behind those whose acknowledgement is confirmed.
    pub(crate) fn confirmed(&self) -> u64 {
        self.confirmed
    }

    /// Schedules an acknowledgement at once; returns the first packet behind it.
    pub(crate) fn hurry(&mut self, now: Instant) -> u64 {
        if self.complete() > self.acked {
            self.ack_at = Some(now);
        }
        self.complete()
    }

    /// Copies bytes of the stream out.
    pub(crate) fn read(&mut self, now: Instant, into: &mut [u8]) -> usize {
        self.buffer.widen(self.capacity);
        let copied = self.buffer.copy(self.complete(), into);
        self.on_room(now);
        copied
    }

    /// Copies a message out, and returns its length.
    pub(crate) fn read_message(&mut self, now: Instant, into: &mut [u8]) -> Option<usize> {
        self.buffer.widen(self.capacity);
        let next = self.complete();
        let assembler = self.assembler.as_mut()?;
        let (first, end) = assembler.readable(next)?;
        let len = self.buffer.take_message(first, end, into);
        assembler.on_read(first);
        assembler.tidy(&mut self.buffer, next);
        self.on_room(now);
        Some(len)
    }

    /// Announces new room at once to a sender that knows of little.
    fn on_room(&mut self, now: Instant) {
        let room = self.buffer.room(self.complete());
        if self.told_room <= room / 2 {
            self.told_room = room;
            self.acked_at = None;
            self.confirmed = self.confirmed.min(self.acked.saturating_sub(1));
            self.ack_at = Some(now);
        }
    }

    /// Returns when an acknowledgement or a loss report is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        match (self.ack_at, self.nak_at) {
            (Some(ack), Some(nak)) => Some(ack.min(nak)),
            (ack, nak) => ack.or(nak),
        }
    }

    /// Returns the acknowledgement to send now, if any.
    pub(crate) fn ack(&mut self, now: Instant, rtt: RoundTrip) -> Option<Ack> {
        let next = self.complete();
        let light = std::mem::take(&mut self.is_light_due) && next > self.acked;
        if self.ack_at.is_none_or(|at| at > now) {
            return light.then(|| Ack {
                number: 0,
                next: self.numbers.sequence(next),
                full: None,
            });
        }
        self.ack_at = None;
        if next == self.confirmed && next > 0 && self.acked_at.is_some() {
            return None;
        }
        let is_asked = std::mem::take(&mut self.is_asked);
        if let Some(at) = self.acked_at.filter(|_| next == self.acked && !is_asked)
            && now < at + rtt.late()
        {
            self.ack_at = Some(at + rtt.late());
            return None;
        }
        self.acked = next;
        self.acked_at = Some(now);
        self.count = 0;
        self.number = next_ack(self.number);
        if self.history.len() >= MOST_HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(Sent {
            number: self.number,
            next,
            at: now,
        });
        // Repeated until it is confirmed.
        self.ack_at = Some(now + SYN);
        let is_long = self
            .long_at
            .is_none_or(|at| now.saturating_duration_since(at) >= SYN);
        let rates = is_long.then(|| {
            self.long_at = Some(now);
            let (received, capacity) = self.arrivals.rates();
            Rates { received, capacity }
        });
        self.told_room = self.buffer.room(next);
        Some(Ack {
            number: self.number,
            next: self.numbers.sequence(next),
            full: Some(FullAck {
                rtt: rtt.smoothed(),
                variance: rtt.variance(),
                room: u32::try_from(self.told_room).unwrap_or(u32::MAX),
                rates,
            }),
        })
    }

    /// Returns the last acknowledgement once more, unless it is confirmed.
    pub(crate) fn ack_again(&mut self, now: Instant, rtt: RoundTrip) -> Option<Ack> {
        self.acked_at = None;
        self.ack_at = Some(now);
        let is_known = self.confirmed == self.complete();
        (!is_known).then(|| self.ack(now, rtt)).flatten()
    }

    /// Writes the loss report to send now; returns whether there is one.
    pub(crate) fn nak(
        &mut self,
        now: Instant,
        rtt: RoundTrip,
        to: u32,
        most: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let is_due = self.nak_at.is_some_and(|at| at <= now);
        if !is_due && !self.gaps.has_fresh(self.next) {
            return false;
        }
        begin_nak(out, to);
        let empty = out.len();
        let numbers = self.numbers;
        let late = (rtt.late() + SYN).max(2 * SYN);
        self.gaps.report(now, self.next, late, |first, last| {
            let has_room = out.len() + 8 <= most;
            if has_room {
                push_loss(out, numbers.sequence(first), numbers.sequence(last));
            }
            has_room
        });
        self.nak_at = self.gaps.due();
        out.len() > empty
    }

    /// Frees unused memory.
    pub(crate) fn shrink(&mut self) {
        self.buffer.shrink();
        self.gaps.shrink();
        if self.history.is_empty() {
            self.history = VecDeque::new();
        }
    }

    /// Bytes of memory held, about.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn memory(&self) -> usize {
        self.buffer.memory() + self.gaps.len() * 48 + self.history.capacity() * size_of::<Sent>()
    }
}
