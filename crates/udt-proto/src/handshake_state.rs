//! `HandshakeState`: how an end that begins a connection gets an answer, from a listener or in a rendezvous.

use std::time::{Duration, Instant};

use crate::error::{ConnectionError, PeerMisbehaved};
use crate::handshake::{Handshake, Request};
use crate::options::MIN_MSS;

/// How often a handshake packet is repeated.
pub(crate) const REPEAT: Duration = Duration::from_millis(250);
/// A cookie that has not been answered for so long may have gone stale: the reference forgets it every minute.
const STALE: Duration = Duration::from_millis(500);

/// The end's part in the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Asks a listener.
    Initiator,
    /// Was made by a listener.
    Responder,
    /// Meets one that does the same.
    Rendezvous,
}

/// What to do about a handshake packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing.
    Wait,
    /// Send ours at once.
    Send,
    /// The connection stands; send ours once more if that is said.
    Connect { peer: Handshake, send: bool },
    /// It will not come to be.
    Fail(ConnectionError),
}

/// State of a handshake.
#[derive(Debug, Clone)]
pub(crate) struct HandshakeState {
    role: Role,
    /// What we send, as it stands.
    pub(crate) ours: Handshake,
    /// What the peer of a rendezvous sent.
    met: Option<Handshake>,
    /// When the present form was sent first, and how often since.
    sent: Option<(Instant, u32)>,
    /// How often the cookie went back, of which each may still be answered, whatever was sent since.
    confirmations: u32,
    /// Whether nobody waits for the connection any more.
    pub(crate) is_given_up: bool,
}

impl HandshakeState {
    pub(crate) fn new(role: Role, ours: Handshake) -> Self {
        Self {
            role,
            ours,
            met: None,
            sent: None,
            confirmations: 0,
            is_given_up: false,
        }
    }

    /// Whether the peer may have a connection that we do not know to stand yet.
    pub(crate) fn may_stand(&self) -> bool {
        self.confirmations > 0
    }

    /// The peer's number, as far as it is known.
    pub(crate) fn to(&self) -> u32 {
        self.met.map_or(0, |met| met.id)
    }

    /// Notes that ours was sent.
    pub(crate) fn on_sent(&mut self, now: Instant) {
        let (first, times) = self.sent.unwrap_or((now, 0));
        self.sent = Some((first, times + 1));
        self.confirmations += u32::from(self.ours.request == Request::Confirm);
    }

    /// Says what to send when nothing was answered in time.
    pub(crate) fn on_repeat(&mut self, now: Instant) {
        let is_stale = |(at, _)| now.saturating_duration_since(at) >= STALE;
        if self.role == Role::Initiator
            && self.ours.request == Request::Confirm
            && self.sent.is_some_and(is_stale)
        {
            self.ours.request = Request::Ask;
            self.ours.cookie = 0;
            self.sent = None;
        }
    }

    /// How long the answer took, if it is clear which packet it answers.
    pub(crate) fn took(&self, now: Instant) -> Option<Duration> {
        let (at, times) = self.sent?;
        let is_clear = self.role != Role::Initiator
            || self.ours.request == Request::Confirm && self.confirmations == 1;
        (is_clear && times == 1).then(|| now.saturating_duration_since(at))
    }

    /// Reacts on a handshake packet for us.
    pub(crate) fn on_handshake(&mut self, theirs: Handshake) -> Step {
        if let Request::Refuse(_) = theirs.request {
            return Step::Fail(ConnectionError::Rejected);
        }
        match self.role {
            Role::Initiator => self.on_answer(theirs),
            Role::Rendezvous => self.on_meeting(theirs),
            Role::Responder => Step::Wait,
        }
    }

    fn on_answer(&mut self, theirs: Handshake) -> Step {
        match theirs.request {
            Request::Ask if self.ours.request == Request::Ask && theirs.id == self.ours.id => {
                self.ours.cookie = theirs.cookie;
                self.ours.request = Request::Confirm;
                self.sent = None;
                Step::Send
            }
            // An answer to somebody else's question, or a forged one, must not end ours. Over a long
            // path it may come when the cookie was thought to be stale already.
            Request::Confirm if self.confirmations > 0 && theirs.initial == self.ours.initial => {
                self.connect(theirs, false)
            }
            _ => Step::Wait,
        }
    }

    fn on_meeting(&mut self, theirs: Handshake) -> Step {
        if !is_usable(&theirs) {
            return Step::Wait;
        }
        match theirs.request {
            // It has ours, or it would still ask to meet.
            Request::Confirm | Request::Met => {
                let send = self.ours.request == Request::Meet;
                self.ours.request = Request::Confirm;
                self.met = Some(theirs);
                self.connect(theirs, send)
            }
            Request::Meet => {
                self.ours.request = Request::Confirm;
                self.met = Some(theirs);
                Step::Send
            }
            _ => Step::Wait,
        }
    }

    /// Reacts on a packet of a connection that stands at the other end.
    pub(crate) fn on_other(&self) -> Step {
        match self.met {
            Some(met) if self.ours.request == Request::Confirm => self.connect(met, false),
            _ => Step::Wait,
        }
    }

    fn connect(&self, peer: Handshake, send: bool) -> Step {
        // An answer may leave out what does not change.
        let is_ours = |theirs, ours| theirs == 0 || theirs == ours;
        if !is_ours(peer.version, self.ours.version) || !is_ours(peer.service, self.ours.service) {
            return Step::Fail(ConnectionError::Rejected);
        }
        if !is_usable(&peer) {
            return Step::Fail(ConnectionError::Misbehaved(PeerMisbehaved::BadHandshake));
        }
        Step::Connect { peer, send }
    }
}

/// Whether packets can be sent to whoever says this.
pub(crate) fn is_usable(handshake: &Handshake) -> bool {
    handshake.id.cast_signed() > 0 && handshake.mss >= MIN_MSS
}
