//! What a connection does by itself: timers, what to transmit, and its end.

use std::time::{Duration, Instant};

use super::{Connection, Event, Halves, Offer, Phase, Shutdown, Transmit, most_bytes};
use crate::ConnectionError;
use crate::handshake_state::{REPEAT, Role};
use crate::packet::{Control, write_control};
use crate::timer::Timer;

/// Silence of the peer that makes us speak, multiplied by how often it did so before.
const EXPIRY: Duration = Duration::from_millis(300);
/// It does not make us wait longer than this, whatever the peer says of the round trip.
const LONGEST_EXPIRY: Duration = Duration::from_secs(10);
/// After more expiries than this the peer is gone, unless it was heard lately.
const MOST_EXPIRIES: u32 = 16;
const LATELY: Duration = Duration::from_secs(5);
/// How long a close waits at least for the peer to know what has come here.
const LEAST_PATIENCE: Duration = Duration::from_secs(3);
/// How often the end is told, with longer and longer pauses, and the longest of them.
const FAREWELLS: u32 = 8;
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// What a shutdown says that comes before everything was acknowledged; 0 is a proper end.
const GIVEN_UP: u32 = 1;

impl Connection {
    /// What has happened since the last time.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.ends.poll_event()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) and to ask for what to transmit; none when it is over.
    ///
    /// While the socket takes nothing more, wait for that instead.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.is_over() {
            return None;
        }
        let mut earliest = self.timers.earliest();
        if let (Phase::Established | Phase::Lingering { .. }, Some(halves)) =
            (&self.phase, &self.halves)
        {
            let sender = &halves.sender;
            let others = [
                sender.ready_at(),
                sender.silence_ends(self.rtt),
                sender.overdue(self.rtt),
                halves.receiver.due(),
            ];
            earliest = others.into_iter().flatten().chain(earliest).min();
        }
        if let (Phase::Aborting { .. }, Some(halves)) = (&self.phase, &self.halves) {
            earliest = halves.receiver.due().into_iter().chain(earliest).min();
        }
        earliest
    }

    /// Does what was to be done by now.
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
            match self.phase {
                Phase::Handshake(_) => self.fail(ConnectionError::TimedOut),
                Phase::Lingering { .. } => self.give_up(ConnectionError::LingerExpired),
                Phase::Established | Phase::Aborting { .. } | Phase::Closing(_) | Phase::Closed => {
                }
            }
        }
        if self.timers.take_due(Timer::Abort, now) {
            self.try_part();
        }
        if self.timers.take_due(Timer::Shutdown, now) {
            self.on_farewell_timer();
        }
        if self.timers.take_due(Timer::Exp, now) {
            self.on_expiry(now);
        }
        if let (Phase::Established | Phase::Lingering { .. }, Some(halves)) =
            (&self.phase, &mut self.halves)
        {
            let overdue = halves.sender.overdue(self.rtt);
            if overdue.is_some_and(|at| at <= now) {
                halves.sender.on_overdue(now);
            }
            let due = halves.sender.silence_ends(self.rtt);
            if due.is_some_and(|at| at <= now) {
                self.probe = halves.sender.on_silence(now, self.rtt);
            }
        }
    }

    /// When the peer will have been silent for too long.
    pub(super) fn expiry(&self) -> Instant {
        let slow = self.rtt.late() * self.expiries + Duration::from_millis(10);
        self.expiry_from + slow.max(EXPIRY * self.expiries).min(LONGEST_EXPIRY)
    }

    fn on_expiry(&mut self, now: Instant) {
        let (Phase::Established | Phase::Lingering { .. }, Some(halves)) =
            (&self.phase, &mut self.halves)
        else {
            return;
        };
        let is_waiting = halves.sender.is_waiting();
        // Heard in the meantime: the timer is set once, not with every packet.
        let at = self.expiry();
        if at > now {
            self.timers.set(Timer::Exp, Some(at));
            return;
        }
        let is_quiet = now.saturating_duration_since(self.heard_at) > LATELY;
        if self.expiries > MOST_EXPIRIES && is_quiet {
            self.fail(ConnectionError::PeerGone);
            return;
        }
        // Only who was connected to has a port that answers others.
        if self.role == Role::Initiator && self.inquiry.on_expiry(self.expiries) {
            self.fail(ConnectionError::Forgotten);
            return;
        }
        self.keep_alive_due |= !is_waiting;
        if let Some(halves) = &mut self.halves {
            halves.sender.shrink(false);
            halves.receiver.shrink();
        }
        self.expiries += 1;
        self.expiry_from = now;
        self.timers.set(Timer::Exp, Some(self.expiry()));
    }

    /// What is to be sent now: at most `segments` datagrams and 64 KiB.
    ///
    /// The same is offered again until [`on_transmitted`](Self::on_transmitted) says that it is gone.
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
        if !self.is_connected() {
            return None;
        }
        let size = most_bytes(self.mss);
        let probe = self.probe.take();
        let sender = &mut self.halves.as_mut()?.sender;
        let probe = probe.filter(|burst| burst.first >= sender.buffer.acked());
        let burst = match probe {
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

    /// Says that what was offered last is gone.
    pub fn on_transmitted(&mut self, now: Instant) {
        match std::mem::replace(&mut self.offer, Offer::Nothing) {
            Offer::Nothing => {}
            Offer::Control => self.is_out_full = false,
            Offer::Data(burst) => {
                if let Some(halves) = &mut self.halves {
                    halves.sender.on_sent(now, burst);
                }
            }
        }
    }

    /// Writes the control packet that is to go next; whether there is one.
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
        let Some(halves) = &mut self.halves else {
            return false;
        };
        let Halves {
            to,
            sender,
            receiver,
            ..
        } = &mut **halves;
        if self.shutdown_due {
            let Phase::Closing(shutdown) = &mut self.phase else {
                return false;
            };
            if std::mem::take(&mut shutdown.word_due)
                && let Some(ack) = receiver.ack_again(now, self.rtt)
            {
                write_control(&mut self.out, &Control::Ack(ack), *to);
                return true;
            }
            self.shutdown_due = false;
            shutdown.told = Some(now);
            shutdown.word_due = shutdown.owes_word;
            let reason = shutdown.reason;
            if self.timers.get(Timer::Shutdown).is_none() {
                self.timers.set(Timer::Shutdown, Some(now + shutdown.pause));
            }
            write_control(&mut self.out, &Control::Shutdown { reason }, *to);
            return true;
        }
        if matches!(
            self.phase,
            Phase::Handshake(_) | Phase::Closing(_) | Phase::Closed
        ) {
            return false;
        }
        if std::mem::take(&mut self.keep_alive_due) {
            write_control(&mut self.out, &Control::KeepAlive, *to);
            return true;
        }
        if let Some((question, to)) = self.inquiry.next(self.ours, *to) {
            write_control(&mut self.out, &Control::Handshake(question), to);
            return true;
        }
        if let Some(number) = self.confirmations.pop_front() {
            write_control(&mut self.out, &Control::Ack2 { number }, *to);
            return true;
        }
        if receiver.nak(now, self.rtt, *to, most_bytes(self.mss), &mut self.out) {
            return true;
        }
        if let Some(ack) = receiver.ack(now, self.rtt) {
            write_control(&mut self.out, &Control::Ack(ack), *to);
            return true;
        }
        if let Some(drop) = sender.next_drop(now) {
            write_control(&mut self.out, &drop, *to);
            return true;
        }
        false
    }

    /// Ends it well: what was written goes out and is acknowledged, then the peer is told.
    pub fn close(&mut self, now: Instant) {
        match self.phase {
            Phase::Handshake(_) => self.give_up_handshake(now),
            Phase::Established => {
                let halves = self.halves.as_mut();
                let owed = halves.map_or(0, |halves| halves.receiver.hurry(now));
                self.phase = Phase::Lingering { owed };
                self.ends.end_write(ConnectionError::Closed);
                let linger = self.options.linger;
                self.timers.set(Timer::Deadline, now.checked_add(linger));
                self.be_patient(now);
                self.try_part();
            }
            Phase::Lingering { .. }
            | Phase::Aborting { .. }
            | Phase::Closing(_)
            | Phase::Closed => {}
        }
    }

    /// Notes that the socket says that nobody is at the peer's address; ignored once the peer was heard.
    pub fn on_unreachable(&mut self) {
        // Who is to be met may not have come yet.
        if matches!(self.phase, Phase::Handshake(_)) && self.role == Role::Initiator {
            self.fail(ConnectionError::Unreachable);
        }
    }

    /// Gives it up at once; the peer is told that what it has is not all.
    pub fn abort(&mut self, now: Instant) {
        match self.phase {
            Phase::Handshake(_) => self.give_up_handshake(now),
            Phase::Established | Phase::Lingering { .. } => self.leave(now),
            Phase::Aborting { .. } | Phase::Closing(_) | Phase::Closed => {}
        }
    }

    /// Has the end told once more, and gives up what has not ended: for when nobody will drive it any longer.
    pub fn last_words(&mut self) {
        match self.phase {
            Phase::Handshake(_) => self.fail(ConnectionError::Closed),
            Phase::Established | Phase::Lingering { .. } | Phase::Aborting { .. } => {
                self.give_up(ConnectionError::Closed);
            }
            Phase::Closing(_) => self.shutdown_due = true,
            Phase::Closed => {}
        }
    }

    /// Stops asking for the connection. Where one may stand at the peer already, its answer is still
    /// waited for, so that it hears of the end and does not wait for us.
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
        let closed = ConnectionError::Closed;
        self.ends.end(Err(closed), closed);
        self.ends.close(Some(closed));
        self.handshake_due = false;
        self.timers.clear();
        self.timers
            .set(Timer::Deadline, now.checked_add(LEAST_PATIENCE));
    }

    /// Gives up, but lets a peer whose last words were read have that in writing: it may be closing.
    fn leave(&mut self, now: Instant) {
        let owed = self.halves.as_mut().and_then(|halves| {
            let receiver = &mut halves.receiver;
            let is_owed = !receiver.is_readable()
                && !receiver.has_gaps()
                && receiver.confirmed() < receiver.complete();
            is_owed.then(|| receiver.hurry(now))
        });
        let Some(owed) = owed else {
            self.give_up(ConnectionError::Closed);
            return;
        };
        let closed = ConnectionError::Closed;
        self.ends.end(Err(closed), closed);
        self.ends.close(Some(closed));
        self.phase = Phase::Aborting { owed };
        self.probe = None;
        self.timers.clear();
        let patience = (self.rtt.late() * 8).min(LEAST_PATIENCE);
        self.timers.set(Timer::Abort, now.checked_add(patience));
    }

    /// Goes on with a close now that everything is acknowledged. A peer that was out of reach until now
    /// has some time to hear what has come here.
    pub(super) fn on_drained(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Lingering { .. }) && self.timers.get(Timer::Abort).is_none()
        {
            if let Some(halves) = &mut self.halves {
                halves.receiver.sooner(now);
            }
            self.be_patient(now);
        }
        self.try_part();
    }

    /// Waits from now on for the peer to know what has come here, as it shows that it wants to.
    pub(super) fn be_patient(&mut self, now: Instant) {
        let patience = LEAST_PATIENCE.max(self.rtt.late() * 8);
        let patience = patience.min(self.options.linger);
        self.timers.set(Timer::Abort, now.checked_add(patience));
    }

    /// Goes on with a close once everything is acknowledged, and the peer knows what we have.
    pub(super) fn try_part(&mut self) {
        let (Phase::Lingering { owed } | Phase::Aborting { owed }) = self.phase else {
            return;
        };
        let halves = self.halves.as_ref();
        let is_known = halves.is_none_or(|halves| halves.receiver.confirmed() >= owed);
        let is_patient = self.timers.get(Timer::Abort).is_some();
        let is_done = is_known || !is_patient;
        if is_done && matches!(self.phase, Phase::Aborting { .. }) {
            self.say_farewell(GIVEN_UP, false, !is_known);
        } else if is_done && self.is_drained() {
            let closed = ConnectionError::Closed;
            self.ends.end(Err(closed), closed);
            self.ends.close(None);
            self.say_farewell(0, false, !is_known);
        }
    }

    /// Ends it for a reason that is no good one, and tells the peer.
    pub(super) fn give_up(&mut self, why: ConnectionError) {
        self.ends.end(Err(why), why);
        self.ends.close(Some(why));
        self.say_farewell(GIVEN_UP, false, false);
    }

    pub(super) fn say_farewell(&mut self, reason: u32, is_answer: bool, owes_word: bool) {
        self.phase = Phase::Closing(Shutdown {
            reason,
            left: if is_answer { 0 } else { FAREWELLS },
            pause: (self.rtt.duration() / 2).clamp(Duration::from_millis(10), LONGEST_PAUSE),
            told: None,
            is_answer,
            owes_word,
            word_due: owes_word,
        });
        self.timers.clear();
        self.probe = None;
        self.shutdown_due = true;
        if let Some(halves) = &mut self.halves {
            halves.sender.shrink(true);
        }
    }

    fn on_farewell_timer(&mut self) {
        let Phase::Closing(shutdown) = &mut self.phase else {
            return;
        };
        if shutdown.left == 0 {
            self.finish();
            return;
        }
        shutdown.left -= 1;
        shutdown.pause = (shutdown.pause * 2).min(LONGEST_PAUSE);
        self.shutdown_due = true;
    }

    /// Ends it without a word.
    pub(super) fn fail(&mut self, why: ConnectionError) {
        self.ends.end(Err(why), why);
        self.ends.close(Some(why));
        self.finish();
    }

    pub(super) fn finish(&mut self) {
        self.phase = Phase::Closed;
        self.timers.clear();
        self.handshake_due = false;
        self.shutdown_due = false;
    }
}
