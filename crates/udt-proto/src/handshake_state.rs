//! `HandshakeState`: the handshake of a client with a listener, and of a rendezvous.

use std::time::{Duration, Instant};

use crate::error::{ConnectionError, PeerMisbehaved};
use crate::handshake::{Handshake, Request};
use crate::options::MIN_MSS;

/// Interval in which a handshake packet is repeated.
pub(crate) const REPEAT: Duration = Duration::from_millis(250);
/// Time without an answer after which a cookie may be stale: the reference changes it every minute.
const STALE: Duration = Duration::from_millis(500);

/// Role of an end in the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Client of a listener.
    Initiator,
    /// Server side, created by a listener.
    Responder,
    /// One of two ends that connect to each other.
    Rendezvous,
}

/// Reaction to a handshake packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing.
    Wait,
    /// Send ours at once.
    Send,
    /// The connection is established; `send` repeats our packet.
    Connect { peer: Handshake, send: bool },
    /// The handshake failed.
    Fail(ConnectionError),
}

/// State of a handshake.
#[derive(Debug, Clone)]
pub(crate) struct HandshakeState {
    role: Role,
    /// Our packet as it stands.
    pub(crate) ours: Handshake,
    /// Packet of the peer of a rendezvous.
    met: Option<Handshake>,
    /// First send time of our packet as it stands, and the number of times since.
    sent: Option<(Instant, u32)>,
    /// Times that the cookie was returned; each may still be answered.
    confirmations: u32,
    /// Whether the caller has given the connection up.
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

    /// Whether the peer may have established the connection already.
    pub(crate) fn may_stand(&self) -> bool {
        self.confirmations > 0
    }

    /// Socket id of the peer, 0 while unknown.
    pub(crate) fn to(&self) -> u32 {
        self.met.map_or(0, |met| met.id)
    }

    /// Notes that our packet was sent.
    pub(crate) fn on_sent(&mut self, now: Instant) {
        let (first, times) = self.sent.unwrap_or((now, 0));
        self.sent = Some((first, times + 1));
        self.confirmations += u32::from(self.ours.request == Request::Confirm);
    }

    /// Chooses the next packet after a repeat interval without an answer.
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

    /// Round trip of the answer, if it is clear which packet it answers.
    pub(crate) fn took(&self, now: Instant) -> Option<Duration> {
        let (at, times) = self.sent?;
        let is_clear = self.role != Role::Initiator
            || self.ours.request == Request::Confirm && self.confirmations == 1;
        (is_clear && times == 1).then(|| now.saturating_duration_since(at))
    }

    /// Reacts to a handshake packet.
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
            // An answer to another handshake, or a forged one, must not end this one. Over a long
            // path it may arrive when the cookie is already treated as stale.
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
            // The peer has our packet, since it no longer sends its first.
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

    /// Reacts to another packet, which shows that the peer has established the connection.
    pub(crate) fn on_other(&self) -> Step {
        match self.met {
            Some(met) if self.ours.request == Request::Confirm => self.connect(met, false),
            _ => Step::Wait,
        }
    }

    fn connect(&self, peer: Handshake, send: bool) -> Step {
        // An answer may leave out the fixed fields.
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

/// Whether packets can be sent to the peer of this handshake.
pub(crate) fn is_usable(handshake: &Handshake) -> bool {
    handshake.id.cast_signed() > 0 && handshake.mss >= MIN_MSS
}
