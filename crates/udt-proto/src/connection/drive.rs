//! The connection's own actions: timers, packets to transmit, and its end.

use std::time::{Duration, Instant};

use super::{
    Connection, Event, Halves, Offer, Phase, Shutdown, ShutdownKind, Stage, Transmit, most_bytes,
};
use crate::ConnectionError;
use crate::handshake_state::{REPEAT, Role};
use crate::packet::{Control, write_control};
use crate::recv::Receiver;
use crate::rtt::RoundTrip;
use crate::timer::Timer;

/// Expiries in a row after which the peer is gone, unless it was heard within `LATELY`.
const MOST_EXPIRIES: u32 = 16;
const LATELY: Duration = Duration::from_secs(5);
/// Shortest wait of a close for the peer to know which packets have arrived here.
const LEAST_PATIENCE: Duration = Duration::from_secs(3);
/// Repetitions of the shutdown packet, after pauses that double up to the longest.
const SHUTDOWNS: u32 = 8;
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Reason in a shutdown that comes before everything was acknowledged; 0 is a proper end.
const GIVEN_UP: u32 = 1;

impl Connection {
    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.ends.poll_event()
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) and then
    /// [`poll_transmit`](Self::poll_transmit); none once the connection is over.
    ///
    /// While the socket is not writable, wait for that instead.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let earliest = self.timers.earliest();
        let Phase::Established(halves) = &self.phase else {
            return earliest;
        };
        let sender = &halves.sender;
        let others = match halves.stage {
            Stage::Open | Stage::Lingering { .. } => [
                sender.ready_at(),
                sender.silence_ends(self.rtt),
                sender.overdue(self.rtt),
                halves.receiver.due(),
            ],
            Stage::Aborting { .. } => [halves.receiver.due(), None, None, None],
            Stage::Closing(_) => [None; 4],
        };
        others.into_iter().flatten().chain(earliest).min()
    }

    /// Does everything that is due by now.
    pub fn handle_timeout(&mut self, now: Instant) {
        if matches!(self.offer, Offer::Data(_)) {
            self.offer = Offer::Nothing;
        }
        if self.timers.take_due(Timer::Handshake, now) {
            if let Phase::Handshake(handshake) = &mut self.phase {
                handshake.on_repeat(now);
            }
            self.handshake_due = true;
        }
        if self.timers.take_due(Timer::Deadline, now) {
            match &self.phase {
                Phase::Handshake(_) => self.fail(ConnectionError::TimedOut),
                Phase::Established(halves) if matches!(halves.stage, Stage::Lingering { .. }) => {
                    self.give_up(ConnectionError::LingerExpired);
                }
                Phase::Established(_) | Phase::Closed(_) => {}
            }
        }
        if self.timers.take_due(Timer::Abort, now) {
            self.try_shutdown();
        }
        if self.timers.take_due(Timer::Shutdown, now) {
            self.on_shutdown_timer();
        }
        if self.timers.take_due(Timer::Exp, now) {
            self.on_expiry(now);
        }
        let Phase::Established(halves) = &mut self.phase else {
            return;
        };
        if halves.carries_data() {
            let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
            if is_due(halves.sender.overdue(self.rtt)) {
                halves.sender.on_overdue(now);
            }
            if is_due(halves.sender.silence_ends(self.rtt)) {
                halves.probe = halves.sender.on_silence(now, self.rtt);
            }
        }
    }

    fn on_expiry(&mut self, now: Instant) {
        let Phase::Established(halves) = &mut self.phase else {
            return;
        };
        if !halves.carries_data() {
            return;
        }
        // The timer is set once, not with every packet: the peer may have been heard since.
        let at = halves.expiry(self.rtt);
        if at > now {
            self.timers.set(Timer::Exp, Some(at));
            return;
        }
        let is_quiet = now.saturating_duration_since(halves.heard_at) > LATELY;
        if halves.expiries > MOST_EXPIRIES && is_quiet {
            self.fail(ConnectionError::PeerGone);
            return;
        }
        // Only a listener has a port that answers other peers.
        if self.role == Role::Initiator && halves.inquiry.on_expiry(halves.expiries) {
            self.fail(ConnectionError::Forgotten);
            return;
        }
        halves.keep_alive_due |= !halves.sender.is_waiting();
        halves.sender.shrink(false);
        halves.receiver.shrink();
        halves.expiries += 1;
        halves.expiry_from = now;
        self.timers.set(Timer::Exp, Some(halves.expiry(self.rtt)));
    }

    /// Returns packets to send now: at most `segments` datagrams and 64 KiB.
    ///
    /// The same is offered again until [`on_transmitted`](Self::on_transmitted) is called.
    pub fn poll_transmit(&mut self, now: Instant, segments: usize) -> Option<Transmit<'_>> {
        self.offer = Offer::Nothing;
        if self.is_out_full || self.write_next_control(now) {
            self.is_out_full = true;
            self.offer = Offer::Control;
            return Some(Transmit {
                contents: &self.out,
                segment_size: None,
            });
        }
        let Phase::Established(halves) = &mut self.phase else {
            return None;
        };
        if !halves.carries_data() {
            return None;
        }
        let size = most_bytes(self.mss);
        let sender = &mut halves.sender;
        let probe = halves.probe.take();
        let burst = match probe.filter(|burst| burst.first >= sender.buffer.acked()) {
            Some(probe) => probe,
            None => sender.plan(now, segments.max(1))?,
        };
        self.offer = Offer::Data(burst);
        let contents = sender.contents(now, burst)?;
        Some(Transmit {
            contents,
            segment_size: (burst.packets > 1).then_some(size),
        })
    }

    /// Notes that the last offer was sent.
    pub fn on_transmitted(&mut self, now: Instant) {
        match std::mem::replace(&mut self.offer, Offer::Nothing) {
            Offer::Nothing => {}
            Offer::Control => self.is_out_full = false,
            Offer::Data(burst) => {
                if let Some(halves) = self.halves_mut() {
                    halves.sender.on_sent(now, burst);
                }
            }
        }
    }

    /// Writes the next control packet; returns whether there is one.
    fn write_next_control(&mut self, now: Instant) -> bool {
        if std::mem::take(&mut self.handshake_due) {
            let (handshake, to) = self.handshake();
            if let Phase::Handshake(handshake) = &mut self.phase {
                handshake.on_sent(now);
                self.timers.set(Timer::Handshake, Some(now + REPEAT));
            }
            write_control(&mut self.out, &Control::Handshake(handshake), to);
            return true;
        }
        let rtt = self.rtt;
        let Phase::Established(halves) = &mut self.phase else {
            return false;
        };
        if let Stage::Closing(shutdown) = &mut halves.stage {
            let Some(control) = shutdown.next(now, rtt, &mut halves.receiver) else {
                return false;
            };
            if matches!(control, Control::Shutdown { .. })
                && self.timers.get(Timer::Shutdown).is_none()
            {
                let next = now + shutdown.pause;
                self.timers.set(Timer::Shutdown, Some(next));
            }
            write_control(&mut self.out, &control, halves.to);
            return true;
        }
        if std::mem::take(&mut halves.keep_alive_due) {
            write_control(&mut self.out, &Control::KeepAlive, halves.to);
            return true;
        }
        if let Some((question, to)) = halves.inquiry.next(self.ours, halves.to) {
            write_control(&mut self.out, &Control::Handshake(question), to);
            return true;
        }
        if let Some(number) = halves.confirmations.pop_front() {
            write_control(&mut self.out, &Control::Ack2 { number }, halves.to);
            return true;
        }
        let size = most_bytes(self.mss);
        if halves
            .receiver
            .nak(now, rtt, halves.to, size, &mut self.out)
        {
            return true;
        }
        let control = match halves.receiver.ack(now, rtt) {
            Some(ack) => Some(Control::Ack(ack)),
            None => halves.sender.next_drop(now),
        };
        if let Some(control) = &control {
            write_control(&mut self.out, control, halves.to);
        }
        control.is_some()
    }

    /// Ends the connection in order: written data is sent and acknowledged, then the peer is told.
    pub fn close(&mut self, now: Instant) {
        match &mut self.phase {
            Phase::Handshake(_) => self.give_up_handshake(now),
            Phase::Established(halves) if matches!(halves.stage, Stage::Open) => {
                let owed = halves.receiver.hurry(now);
                halves.stage = Stage::Lingering { owed };
                self.ends.end_write(ConnectionError::Closed);
                let linger = self.options.linger;
                self.timers.set(Timer::Deadline, now.checked_add(linger));
                self.be_patient(now);
                self.try_shutdown();
            }
            Phase::Established(_) | Phase::Closed(_) => {}
        }
    }

    /// Notes that the network reports the peer's port as closed; ignored once the peer was heard.
    pub fn on_unreachable(&mut self) {
        // The peer of a rendezvous may start later.
        if matches!(self.phase, Phase::Handshake(_)) && self.role == Role::Initiator {
            self.fail(ConnectionError::Unreachable);
        }
    }

    /// Ends the connection at once; the peer is told that data is missing.
    pub fn abort(&mut self, now: Instant) {
        match &self.phase {
            Phase::Handshake(_) => self.give_up_handshake(now),
            Phase::Established(halves) if halves.carries_data() => self.leave(now),
            Phase::Established(_) | Phase::Closed(_) => {}
        }
    }

    /// Queues one more shutdown packet, and aborts an open connection: for a driver that is about
    /// to end.
    pub fn end_now(&mut self) {
        match &mut self.phase {
            Phase::Handshake(_) => self.fail(ConnectionError::Closed),
            Phase::Established(halves) => match &mut halves.stage {
                Stage::Closing(shutdown) => shutdown.is_due = true,
                Stage::Open | Stage::Lingering { .. } | Stage::Aborting { .. } => {
                    self.give_up(ConnectionError::Closed);
                }
            },
            Phase::Closed(_) => {}
        }
    }

    /// Stops the handshake. Where the peer may have a connection already, its answer is awaited, so
    /// that it is told of the end.
    fn give_up_handshake(&mut self, now: Instant) {
        let Phase::Handshake(handshake) = &mut self.phase else {
            return;
        };
        if !handshake.may_stand() {
            self.fail(ConnectionError::Closed);
            return;
        }
        if std::mem::replace(&mut handshake.is_given_up, true) {
            return;
        }
        self.end(ConnectionError::Closed);
        self.handshake_due = false;
        self.timers.clear();
        let deadline = now.checked_add(LEAST_PATIENCE);
        self.timers.set(Timer::Deadline, deadline);
    }

    /// Aborts, but first acknowledges data that was read: the peer may be closing.
    fn leave(&mut self, now: Instant) {
        let Phase::Established(halves) = &mut self.phase else {
            return;
        };
        let receiver = &mut halves.receiver;
        let is_owed = !receiver.is_readable()
            && !receiver.has_gaps()
            && receiver.confirmed() < receiver.complete();
        if !is_owed {
            self.give_up(ConnectionError::Closed);
            return;
        }
        let owed = receiver.hurry(now);
        halves.stage = Stage::Aborting { owed };
        halves.probe = None;
        self.end(ConnectionError::Closed);
        self.timers.clear();
        let patience = (self.rtt.late() * 8).min(LEAST_PATIENCE);
        self.timers.set(Timer::Abort, now.checked_add(patience));
    }

    /// Goes on with a close once everything is acknowledged. A peer that was out of reach until now
    /// has some time to learn which packets have arrived here.
    pub(super) fn on_drained(&mut self, now: Instant) {
        if let Phase::Established(halves) = &mut self.phase
            && matches!(halves.stage, Stage::Lingering { .. })
            && self.timers.get(Timer::Abort).is_none()
        {
            halves.receiver.sooner(now);
            self.be_patient(now);
        }
        self.try_shutdown();
    }

    /// Restarts the wait for the peer to know which packets have arrived here.
    pub(super) fn be_patient(&mut self, now: Instant) {
        let patience = LEAST_PATIENCE.max(self.rtt.late() * 8);
        let patience = patience.min(self.options.linger);
        self.timers.set(Timer::Abort, now.checked_add(patience));
    }

    /// Ends a close once everything is acknowledged and the peer knows which packets have arrived
    /// here.
    pub(super) fn try_shutdown(&mut self) {
        let Phase::Established(halves) = &self.phase else {
            return;
        };
        let (Stage::Lingering { owed } | Stage::Aborting { owed }) = halves.stage else {
            return;
        };
        let is_known = halves.receiver.confirmed() >= owed;
        if !is_known && self.timers.get(Timer::Abort).is_some() {
            return;
        }
        let kind = match is_known {
            true => ShutdownKind::Plain,
            false => ShutdownKind::WithAck,
        };
        if matches!(halves.stage, Stage::Aborting { .. }) {
            self.start_shutdown(GIVEN_UP, kind);
        } else if halves.sender.is_drained() {
            let closed = ConnectionError::Closed;
            self.ends.end(Err(closed), closed);
            self.ends.close(None);
            self.start_shutdown(0, kind);
        }
    }

    /// Ends an established connection with an error, and tells the peer.
    pub(super) fn give_up(&mut self, why: ConnectionError) {
        self.end(why);
        self.start_shutdown(GIVEN_UP, ShutdownKind::Plain);
    }

    pub(super) fn start_shutdown(&mut self, reason: u32, kind: ShutdownKind) {
        let Phase::Established(halves) = &mut self.phase else {
            return;
        };
        let is_answer = kind == ShutdownKind::Answer;
        halves.stage = Stage::Closing(Shutdown {
            reason,
            kind,
            is_due: true,
            is_ack_due: kind == ShutdownKind::WithAck,
            left: if is_answer { 0 } else { SHUTDOWNS },
            pause: (self.rtt.duration() / 2).clamp(Duration::from_millis(10), LONGEST_PAUSE),
            sent_at: None,
        });
        halves.probe = None;
        halves.sender.shrink(true);
        self.timers.clear();
    }

    fn on_shutdown_timer(&mut self) {
        let Phase::Established(halves) = &mut self.phase else {
            return;
        };
        let Stage::Closing(shutdown) = &mut halves.stage else {
            return;
        };
        if shutdown.left == 0 {
            self.finish();
            return;
        }
        shutdown.left -= 1;
        shutdown.pause = (shutdown.pause * 2).min(LONGEST_PAUSE);
        shutdown.is_due = true;
    }

    /// Ends both directions with an error.
    fn end(&mut self, why: ConnectionError) {
        self.ends.end(Err(why), why);
        self.ends.close(Some(why));
    }

    /// Ends the connection without telling the peer.
    pub(super) fn fail(&mut self, why: ConnectionError) {
        self.end(why);
        self.finish();
    }

    pub(super) fn finish(&mut self) {
        let halves: Option<Box<Halves>> =
            match std::mem::replace(&mut self.phase, Phase::Closed(None)) {
                Phase::Handshake(_) => None,
                Phase::Established(halves) => Some(halves),
                Phase::Closed(halves) => halves,
            };
        self.phase = Phase::Closed(halves);
        self.timers.clear();
        self.handshake_due = false;
    }
}

impl Shutdown {
    /// Returns the next packet, if one is due: the acknowledgement, then the shutdown.
    fn next(
        &mut self,
        now: Instant,
        rtt: RoundTrip,
        receiver: &mut Receiver,
    ) -> Option<Control<'static>> {
        if !self.is_due {
            return None;
        }
        if std::mem::take(&mut self.is_ack_due)
            && let Some(ack) = receiver.ack_again(now, rtt)
        {
            return Some(Control::Ack(ack));
        }
        self.is_due = false;
        self.is_ack_due = self.kind == ShutdownKind::WithAck;
        self.sent_at = Some(now);
        let reason = self.reason;
        Some(Control::Shutdown { reason })
    }
}
