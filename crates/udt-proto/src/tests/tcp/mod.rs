//! `Tcp`: a flow of another protocol under a control of its own, as a competitor.

mod bbr;
mod cubic;

use std::collections::VecDeque;
use std::fmt::Debug;
use std::time::{Duration, Instant};

pub(super) use self::bbr::Bbr;
pub(super) use self::cubic::Cubic;

/// Bytes of a packet and of an acknowledgement.
pub(super) const PACKET: usize = 1472;
pub(super) const ACK: usize = 12;
/// Reordering, in packets, beyond which a packet is lost.
const REORDERING: u64 = 3;

/// Congestion control of a flow.
pub(super) trait Control: Debug {
    fn on_ack(&mut self, heard: &Heard);
    fn on_timeout(&mut self);
    /// Most packets in flight.
    fn window(&self) -> f64;
    /// Packets per second.
    fn rate(&self) -> f64 {
        f64::INFINITY
    }
}

/// State after an acknowledgement.
#[derive(Debug)]
pub(super) struct Heard {
    now: Instant,
    /// Round trip of its packet, and the average.
    rtt: Duration,
    average: Duration,
    /// Packets that have arrived, now and when this one was sent.
    delivered: u64,
    delivered_before: u64,
    /// Packets per second from then to now.
    rate: f64,
    in_flight: f64,
    /// Newly lost packets, and whether they are the first of a round.
    lost: u64,
    is_new_loss: bool,
}

#[derive(Debug)]
struct Sent {
    number: u64,
    at: Instant,
    /// Packets that had arrived by then, and arrival and send time of the last.
    delivered: u64,
    delivered_at: Instant,
    first_at: Instant,
}

/// The sending end. The receiving end is an echo of packet numbers.
#[derive(Debug)]
pub(super) struct Tcp {
    pub(super) from: usize,
    pub(super) to: usize,
    control: Box<dyn Control>,
    next: u64,
    /// Time of the next packet at the pacing rate.
    send_at: Instant,
    out: VecDeque<Sent>,
    delivered: u64,
    delivered_at: Instant,
    first_at: Instant,
    /// Losses of packets before this one are old.
    recovery: u64,
    rtt: Duration,
    heard_at: Instant,
    pub(super) arrived: u64,
}

impl Tcp {
    pub(super) fn new(now: Instant, from: usize, to: usize, control: Box<dyn Control>) -> Self {
        Self {
            from,
            to,
            control,
            next: 0,
            send_at: now,
            out: VecDeque::new(),
            delivered: 0,
            delivered_at: now,
            first_at: now,
            recovery: 0,
            rtt: Duration::from_millis(100),
            heard_at: now,
            arrived: 0,
        }
    }

    fn has_room(&self) -> bool {
        (self.out.len() as f64) < self.control.window().max(1.0)
    }

    /// Returns the packets to send now; at a rate, those of a millisecond together.
    pub(super) fn send(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        let rate = self.control.rate();
        let together = (rate / 1e3).max(2.0);
        if self.out.is_empty() {
            (self.first_at, self.delivered_at) = (now, now);
        }
        while self.has_room() && self.send_at <= now && (packets.len() as f64) < together {
            let mut packet = vec![0; PACKET];
            packet[4..12].copy_from_slice(&self.next.to_be_bytes());
            packets.push(packet);
            self.out.push_back(Sent {
                number: self.next,
                at: now,
                delivered: self.delivered,
                delivered_at: self.delivered_at,
                first_at: self.first_at,
            });
            self.next += 1;
        }
        if !packets.is_empty() {
            self.send_at = now + Duration::from_secs_f64(packets.len() as f64 / rate);
        }
        packets
    }

    /// Returns when it sends more or times out.
    pub(super) fn wakes_at(&self) -> Instant {
        if self.has_room() {
            self.send_at.min(self.gives_up_at())
        } else {
            self.gives_up_at()
        }
    }

    fn gives_up_at(&self) -> Instant {
        self.heard_at + self.rtt * 2 + Duration::from_millis(200)
    }

    pub(super) fn on_wake(&mut self, now: Instant) {
        if self.gives_up_at() <= now {
            self.out.clear();
            self.control.on_timeout();
            self.heard_at = now;
        }
    }

    pub(super) fn on_ack(&mut self, now: Instant, number: u64) {
        self.heard_at = now;
        let Some(at) = self.out.iter().position(|sent| sent.number == number) else {
            return;
        };
        let sent = self.out.remove(at).expect("it was found there");
        self.rtt = (self.rtt * 7 + (now - sent.at)) / 8;
        self.delivered += 1;
        self.delivered_at = now;
        self.first_at = sent.at;
        let took = (now - sent.delivered_at).max(sent.at - sent.first_at);
        let mut heard = Heard {
            now,
            rtt: now - sent.at,
            average: self.rtt,
            delivered: self.delivered,
            delivered_before: sent.delivered,
            rate: (self.delivered - sent.delivered) as f64 / took.as_secs_f64().max(1e-3),
            in_flight: 0.0,
            lost: 0,
            is_new_loss: false,
        };
        while let Some(first) = self.out.front()
            && first.number + REORDERING < number
        {
            heard.lost += 1;
            if first.number >= self.recovery {
                heard.is_new_loss = true;
                self.recovery = self.next;
            }
            self.out.pop_front();
        }
        heard.in_flight = self.out.len() as f64;
        self.control.on_ack(&heard);
    }
}
