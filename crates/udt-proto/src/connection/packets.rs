//! The connection's reaction to each kind of packet.

use std::time::{Duration, Instant};

use super::{Connection, Halves, Offer, Phase, Shutdown, ShutdownKind, Stage};
use crate::ConnectionError;
use crate::error::PeerMisbehaved;
use crate::handshake::{Handshake, Request};
use crate::handshake_state::{Role, Step};
use crate::packet::{Control, Packet};
use crate::rtt::RoundTrip;

/// Most acknowledgements that wait to be confirmed.
const MOST_CONFIRMATIONS: usize = 64;
/// Shortest pause between shutdowns to a peer that goes on sending.
const SHUTDOWN_PAUSE: Duration = Duration::from_millis(10);

impl Connection {
    /// Takes in datagrams that the endpoint found to be for this connection, of `stride` bytes
    /// each; the last may be shorter.
    pub fn handle_datagrams(&mut self, now: Instant, datagrams: &[u8], stride: usize) {
        if matches!(self.offer, Offer::Data(_)) {
            self.offer = Offer::Nothing;
        }
        for datagram in datagrams.chunks(stride.max(1)) {
            if let Some(packet) = Packet::parse(datagram) {
                self.on_packet(now, packet);
            }
        }
        if self.halves().is_some_and(|h| h.receiver.is_readable()) {
            self.ends.on_readable();
        }
    }

    fn on_packet(&mut self, now: Instant, packet: Packet<'_>) {
        if let Packet::Control(Control::Handshake(theirs)) = packet {
            self.on_handshake(now, theirs);
            return;
        }
        if let Phase::Handshake(handshake) = &self.phase
            && let Step::Connect { peer, .. } = handshake.on_other()
        {
            self.open(now, peer);
        }
        let Phase::Established(halves) = &mut self.phase else {
            return;
        };
        match &mut halves.stage {
            Stage::Open | Stage::Lingering { .. } => {}
            // Data that arrives now will not be read, so it must not be acknowledged.
            Stage::Aborting { .. } => {
                let is_of_use = |control: &Control<'_>| {
                    matches!(control, Control::Ack2 { .. } | Control::Shutdown { .. })
                };
                if !matches!(&packet, Packet::Control(control) if is_of_use(control)) {
                    return;
                }
            }
            Stage::Closing(shutdown) => {
                let is_shutdown = matches!(packet, Packet::Control(Control::Shutdown { .. }));
                if is_shutdown && shutdown.kind != ShutdownKind::Answer {
                    self.finish();
                } else {
                    shutdown.on_packet(now);
                }
                return;
            }
        }
        halves.on_heard(now);
        if let Err(how) = self.on_open_packet(now, packet) {
            self.give_up(ConnectionError::Misbehaved(how));
        }
    }

    fn on_open_packet(&mut self, now: Instant, packet: Packet<'_>) -> Result<(), PeerMisbehaved> {
        let Phase::Established(halves) = &mut self.phase else {
            return Ok(());
        };
        let Halves {
            sender,
            receiver,
            stage,
            confirmations,
            ..
        } = &mut **halves;
        let control = match packet {
            Packet::Data(data) => {
                receiver.on_data(now, &data, self.rtt);
                if receiver.is_asked() && matches!(stage, Stage::Lingering { .. }) {
                    self.be_patient(now);
                }
                return Ok(());
            }
            Packet::Control(control) => control,
        };
        match control {
            Control::Ack(ack) => {
                if let Some(full) = ack.full {
                    // A peer that has measured nothing yet says the default.
                    if (full.rtt, full.variance) != RoundTrip::UNKNOWN.as_micros() {
                        self.rtt.update(full.rtt);
                    }
                    if confirmations.len() < MOST_CONFIRMATIONS {
                        confirmations.push_back(ack.number);
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
                    self.try_shutdown();
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
            // The peer has not received our answer: even if the connection has ended, it must hear
            // of that.
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

    /// Takes in an answer to an inquiry.
    fn on_inquiry(&mut self, now: Instant, theirs: Handshake) {
        let id = self.id.get();
        let Phase::Established(halves) = &mut self.phase else {
            return;
        };
        match theirs.request {
            Request::Confirm if halves.to == theirs.id => halves.on_heard(now),
            Request::Ask if theirs.id == id => halves.inquiry.on_answer(),
            _ => {}
        }
    }

    fn on_shutdown(&mut self, reason: u32) {
        let Phase::Established(halves) = &self.phase else {
            return;
        };
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
        self.start_shutdown(0, ShutdownKind::Answer);
    }
}

impl Shutdown {
    /// Repeats the shutdown to a peer that goes on sending.
    fn on_packet(&mut self, now: Instant) {
        let is_recent = |at| now.saturating_duration_since(at) < SHUTDOWN_PAUSE;
        self.is_due |= !self.sent_at.is_some_and(is_recent);
    }
}
