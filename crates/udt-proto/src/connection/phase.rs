//! `Phase`: the state of a connection that exists in one phase only.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::Inquiry;
use crate::handshake_state::HandshakeState;
use crate::recv::Receiver;
use crate::rtt::RoundTrip;
use crate::send::Sender;
use crate::send_buffer::Burst;

/// Silence of the peer before a reaction, multiplied by the expiries in a row.
const EXPIRY: Duration = Duration::from_millis(300);
/// Longest such silence, whatever the peer says of the round trip.
const LONGEST_EXPIRY: Duration = Duration::from_secs(10);

/// Phase of a connection.
#[derive(Debug)]
pub(super) enum Phase {
    /// The handshake is in progress.
    Handshake(Box<HandshakeState>),
    /// Both ends know each other.
    Established(Box<Halves>),
    /// Nothing is sent any more; data that arrived before can still be read.
    Closed(Option<Box<Halves>>),
}

/// Stage of an established connection.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stage {
    /// Data flows both ways.
    Open,
    /// This end has closed: it waits for the acknowledgement of its data, and until the peer knows
    /// that `owed` packets have arrived here.
    Lingering { owed: u64 },
    /// This end has aborted after it read `owed` packets, which it acknowledges before the
    /// shutdown.
    Aborting { owed: u64 },
    /// Shutdown packets are sent.
    Closing(Shutdown),
}

/// Shutdown packets, sent and to be sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shutdown {
    pub(super) reason: u32,
    pub(super) kind: ShutdownKind,
    pub(super) is_due: bool,
    /// Whether an acknowledgement goes out before the next one.
    pub(super) is_ack_due: bool,
    /// Repetitions left, and the pause before the next.
    pub(super) left: u32,
    pub(super) pause: Duration,
    pub(super) sent_at: Option<Instant>,
}

/// Relation of a shutdown to the packets of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShutdownKind {
    /// The peer knows which packets have arrived here.
    Plain,
    /// The peer may not know that: each shutdown follows an acknowledgement.
    WithAck,
    /// Answers the shutdown of the peer.
    Answer,
}

/// State that exists once both ends know each other.
#[derive(Debug)]
pub(super) struct Halves {
    /// Socket id of the peer.
    pub(super) to: u32,
    /// Packets that the peer buffers for reading, at most.
    pub(super) window: u32,
    pub(super) stage: Stage,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    pub(super) keep_alive_due: bool,
    /// Acknowledgements to be confirmed.
    pub(super) confirmations: VecDeque<u32>,
    /// Packet that is sent again into silence.
    pub(super) probe: Option<Burst>,
    /// Expiries since the peer was heard last; when that was, and when the last of either was.
    pub(super) expiries: u32,
    pub(super) heard_at: Instant,
    pub(super) expiry_from: Instant,
    pub(super) inquiry: Inquiry,
}

impl Halves {
    /// Whether data is sent and received.
    pub(super) fn carries_data(&self) -> bool {
        matches!(self.stage, Stage::Open | Stage::Lingering { .. })
    }

    /// Notes that the peer is there.
    pub(super) fn on_heard(&mut self, now: Instant) {
        self.heard_at = now;
        self.expiry_from = now;
        self.expiries = 1;
        self.inquiry = Inquiry::default();
    }

    /// End of the silence that the peer is allowed.
    pub(super) fn expiry(&self, rtt: RoundTrip) -> Instant {
        let slow = rtt.late() * self.expiries + Duration::from_millis(10);
        self.expiry_from + slow.max(EXPIRY * self.expiries).min(LONGEST_EXPIRY)
    }
}
