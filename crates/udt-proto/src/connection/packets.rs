//! What a connection does about each kind of packet that comes.

use std::time::{Duration, Instant};

use super::{Connection, Halves, Inquiry, Offer, Phase, Shutdown};
use crate::ConnectionError;
use crate::error::PeerMisbehaved;
use crate::handshake::{Handshake, Request};
use crate::handshake_state::{Role, Step};
use crate::packet::{Control, Packet};
use crate::rtt::RoundTrip;

/// Acknowledgements that wait to be confirmed, at most.
const MOST_CONFIRMATIONS: usize = 64;
/// The peer is told again that it is over, if it goes on, but not more often.
const TELL_AGAIN: Duration = Duration::from_millis(10);

impl Connection {
    /// Takes in datagrams of `stride` bytes each (the last may be shorter) that the endpoint found to be for it.
    pub fn handle_datagrams(&mut self, now: Instant, datagrams: &[u8], stride: usize) {
        if matches!(self.offer, Offer::Data(_)) {
            self.offer = Offer::Nothing;
        }
        for datagram in datagrams.chunks(stride.max(1)) {
            if let Some(packet) = Packet::parse(datagram) {
                self.on_packet(now, packet);
            }
        }
        let Some(halves) = &self.halves else { return };
        if halves.receiver.is_readable() {
            self.ends.on_readable();
        }
    }

    fn on_packet(&mut self, now: Instant, packet: Packet<'_>) {
        if let Packet::Control(Control::Handshake(theirs)) = packet {
            self.on_handshake(now, theirs);
            return;
        }
        if let Phase::Handshake(handshake) = &self.phase {
            if let Step::Connect { peer, .. } = handshake.on_other() {
                self.open(now, peer);
            } else {
                return;
            }
        }
        match &mut self.phase {
            Phase::Established | Phase::Lingering { .. } => {}
            // Nobody will read what comes now, so it must not be acknowledged.
            Phase::Aborting { .. } => {
                let is_of_use = |control: &Control<'_>| {
                    matches!(control, Control::Ack2 { .. } | Control::Shutdown { .. })
                };
                if !matches!(&packet, Packet::Control(control) if is_of_use(control)) {
                    return;
                }
            }
            Phase::Closing(shutdown) => {
                let is_end = matches!(packet, Packet::Control(Control::Shutdown { .. }));
                let shutdown = *shutdown;
                self.on_packet_while_closing(now, shutdown, is_end);
                return;
            }
            Phase::Handshake(_) | Phase::Closed => return,
        }
        self.on_heard(now);
        if let Err(how) = self.on_open_packet(now, packet) {
            self.give_up(ConnectionError::Misbehaved(how));
        }
    }

    /// Notes that the peer is there.
    pub(super) fn on_heard(&mut self, now: Instant) {
        self.heard_at = now;
        self.expiry_from = now;
        self.expiries = 1;
        self.inquiry = Inquiry::default();
    }

    fn on_open_packet(&mut self, now: Instant, packet: Packet<'_>) -> Result<(), PeerMisbehaved> {
        let Some(halves) = &mut self.halves else {
            return Ok(());
        };
        let Halves {
            sender, receiver, ..
        } = &mut **halves;
        let control = match packet {
            Packet::Data(data) => {
                receiver.on_data(now, &data, self.rtt);
                if receiver.is_asked() && matches!(self.phase, Phase::Lingering { .. }) {
                    self.be_patient(now);
                }
                return Ok(());
            }
            Packet::Control(control) => control,
        };
        match control {
            Control::Ack(ack) => {
                if let Some(full) = ack.full {
                    // Until the peer has measured it says what everybody assumes.
                    if (full.rtt, full.variance) != RoundTrip::UNKNOWN.as_micros() {
                        self.rtt.update(full.rtt);
                    }
                    if self.confirmations.len() < MOST_CONFIRMATIONS {
                        self.confirmations.push_back(ack.number);
                    }
                }
                let was_drained = sender.is_drained();
                if sender.on_ack(now, &ack, self.rtt)? {
                    self.ends.on_room();
                }
                if sender.is_drained() && !was_drained {
                    self.ends.on_drained();
                    self.on_drained(now);
                }
            }
            Control::Nak(report) => sender.on_nak(now, report, self.rtt)?,
            Control::Ack2 { number } => {
                if let Some(took) = receiver.on_ack2(now, number) {
                    self.rtt.update(took);
                    self.try_part();
                }
            }
            Control::Drop {
                message,
                first,
                last,
            } => receiver.on_drop(now, message, first, last)?,
            Control::Warning => sender.on_warning(),
            Control::Shutdown { reason } => self.on_shutdown(reason),
            Control::Handshake(_) | Control::KeepAlive | Control::PeerError | Control::Unknown => {}
        }
        Ok(())
    }

    fn on_handshake(&mut self, now: Instant, theirs: Handshake) {
        let Phase::Handshake(handshake) = &mut self.phase else {
            // The peer has not heard that the connection stands, or stood: the end is for it to hear as well.
            self.handshake_due |= !self.is_over()
                && match self.role {
                    Role::Responder => true,
                    Role::Rendezvous => theirs.request != Request::Met,
                    Role::Initiator => false,
                };
            if self.role == Role::Initiator {
                self.on_inquiry(now, theirs);
            }
            return;
        };
        match handshake.on_handshake(theirs) {
            Step::Wait => {}
            Step::Send => self.handshake_due = !handshake.is_given_up,
            Step::Connect { peer, send } => {
                if let Some(took) = handshake.took(now) {
                    self.rtt = RoundTrip::measured(took);
                }
                self.handshake_due = send;
                self.open(now, peer);
            }
            Step::Fail(why) => self.fail(why),
        }
    }

    /// Takes in an answer to what was asked in a silence.
    fn on_inquiry(&mut self, now: Instant, theirs: Handshake) {
        let is_peer = |halves: &Halves| halves.to == theirs.id;
        match theirs.request {
            Request::Confirm if self.halves.as_deref().is_some_and(is_peer) => self.on_heard(now),
            Request::Ask if theirs.id == self.id.get() => self.inquiry.on_answer(),
            _ => {}
        }
    }

    fn on_shutdown(&mut self, reason: u32) {
        let Some(halves) = &self.halves else { return };
        let read = if reason != 0 {
            Err(ConnectionError::PeerAborted)
        } else if halves.receiver.has_gaps() {
            Err(ConnectionError::Truncated)
        } else {
            Ok(())
        };
        let is_drained = halves.sender.is_drained();
        let write = if is_drained {
            ConnectionError::PeerClosed
        } else {
            ConnectionError::Unacknowledged
        };
        self.ends.end(read, write);
        let why = read.err().or_else(|| (!is_drained).then_some(write));
        self.ends.close(why);
        self.say_farewell(0, true, false);
    }

    fn on_packet_while_closing(&mut self, now: Instant, shutdown: Shutdown, is_end: bool) {
        if is_end && !shutdown.is_answer {
            self.finish();
            return;
        }
        let is_soon = |told| now.saturating_duration_since(told) < TELL_AGAIN;
        if !shutdown.told.is_some_and(is_soon) {
            self.shutdown_due = true;
        }
    }
}
