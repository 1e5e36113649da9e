//! `Connection`: one end of a conversation, from the first handshake packet to the last shutdown.

mod drive;
mod ends;
mod inquiry;
mod packets;
mod stats;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::task::Poll;
use std::time::{Duration, Instant};

use self::ends::Ends;
pub use self::ends::Event;
use self::inquiry::Inquiry;
pub use self::stats::Stats;
use crate::control;
use crate::handshake::{Handshake, Request};
use crate::handshake_state::{HandshakeState, Role};
use crate::options::{HEADER, IP_UDP, Options, Service};
use crate::recv::Receiver;
use crate::rtt::RoundTrip;
use crate::send::Sender;
use crate::send_buffer::{Burst, SendBuffer};
use crate::seq::Numbering;
use crate::timer::{Timer, Timers};
use crate::{ConnectionError, ConnectionId};

/// Datagrams to be sent to [`Connection::peer`]: equally long ones one after another, the last may be shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transmit<'a> {
    /// The bytes of all of them.
    pub contents: &'a [u8],
    /// Bytes of each but the last, where there are several.
    pub segment_size: Option<usize>,
}

/// How a message is to be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct MessageOptions {
    /// How long it is worth sending again; none is for ever.
    pub time_to_live: Option<Duration>,
    /// Whether it may only be read after every message before it.
    pub in_order: bool,
}

impl MessageOptions {
    /// The same, sent again for so long only.
    #[must_use]
    pub const fn with_time_to_live(mut self, time: Duration) -> Self {
        self.time_to_live = Some(time);
        self
    }

    /// The same, to be read in order or not.
    #[must_use]
    pub const fn with_order(mut self, in_order: bool) -> Self {
        self.in_order = in_order;
        self
    }
}

/// State of a connection.
#[derive(Debug)]
enum Phase {
    /// The handshake is in progress.
    Handshake(Box<HandshakeState>),
    /// Data flows.
    Established,
    /// This end has closed: it waits for the acknowledgement of its data, and until the peer knows that
    /// `owed` packets have arrived here.
    Lingering { owed: u64 },
    /// This end has aborted after it read `owed` packets, which it acknowledges before the shutdown.
    Aborting { owed: u64 },
    /// Shutdown packets are sent.
    Closing(Shutdown),
    /// The peer has been told, or has gone.
    Closed,
}

/// The shutdown packets that were sent and are to be sent.
#[derive(Debug, Clone, Copy)]
struct Shutdown {
    reason: u32,
    left: u32,
    pause: Duration,
    /// When it was told last.
    told: Option<Instant>,
    /// Whether the peer said it first.
    is_answer: bool,
    /// Whether the peer may not know yet what has come here, and is to be told so first.
    owes_word: bool,
    word_due: bool,
}

/// What exists once both ends know each other.
#[derive(Debug)]
struct Halves {
    /// The peer's number for the connection.
    to: u32,
    /// Packets that wait to be read at the peer, at most.
    window: u32,
    sender: Sender,
    receiver: Receiver,
}

/// What was offered to be sent and may be gone by now.
#[derive(Debug, Clone, Copy)]
enum Offer {
    Nothing,
    Control,
    Data(Burst),
}

/// One end of a conversation.
///
/// Whatever was called, ask [`poll_transmit`](Self::poll_transmit) and [`poll_event`](Self::poll_event)
/// until they have nothing, then wait for a datagram or for [`poll_timeout`](Self::poll_timeout).
#[derive(Debug)]
pub struct Connection {
    id: ConnectionId,
    peer: SocketAddr,
    options: Options,
    role: Role,
    opened: Instant,
    phase: Phase,
    /// Our handshake, for those who did not hear it.
    ours: Handshake,
    /// Bytes of the largest packet, IP and UDP included.
    mss: u32,
    halves: Option<Box<Halves>>,
    rtt: RoundTrip,
    timers: Timers,
    /// Expiries since the peer was heard last; when that was, and when the last of either was.
    expiries: u32,
    heard_at: Instant,
    expiry_from: Instant,
    inquiry: Inquiry,
    /// A control packet, and what of it all waits to be written there.
    out: Vec<u8>,
    is_out_full: bool,
    offer: Offer,
    handshake_due: bool,
    keep_alive_due: bool,
    shutdown_due: bool,
    confirmations: VecDeque<u32>,
    probe: Option<Burst>,
    ends: Ends,
}

impl Connection {
    /// Begins one that greets.
    pub(crate) fn start(
        now: Instant,
        id: ConnectionId,
        peer: SocketAddr,
        options: Options,
        role: Role,
        ours: Handshake,
    ) -> Self {
        let mut connection = Self::bare(now, id, peer, options, role, ours);
        connection.phase = Phase::Handshake(Box::new(HandshakeState::new(role, ours)));
        connection.handshake_due = true;
        let patience = match role {
            Role::Rendezvous => connection.options.rendezvous_timeout,
            Role::Initiator | Role::Responder => connection.options.connect_timeout,
        };
        connection
            .timers
            .set(Timer::Deadline, now.checked_add(patience));
        connection
    }

    /// Makes one at a listener, for a peer that has proved its address.
    pub(crate) fn respond(
        now: Instant,
        id: ConnectionId,
        peer: SocketAddr,
        options: Options,
        theirs: Handshake,
        ours: Handshake,
    ) -> Self {
        let mut connection = Self::bare(now, id, peer, options, Role::Responder, ours);
        connection.handshake_due = true;
        // The reference throws away what comes right behind the answer; this is what it may have.
        connection.keep_alive_due = true;
        connection.open(now, theirs);
        connection
    }

    fn bare(
        now: Instant,
        id: ConnectionId,
        peer: SocketAddr,
        options: Options,
        role: Role,
        ours: Handshake,
    ) -> Self {
        Self {
            id,
            peer,
            mss: ours.mss,
            options,
            role,
            opened: now,
            phase: Phase::Established,
            ours,
            halves: None,
            rtt: RoundTrip::UNKNOWN,
            timers: Timers::default(),
            expiries: 1,
            heard_at: now,
            expiry_from: now,
            inquiry: Inquiry::default(),
            out: Vec::new(),
            is_out_full: false,
            offer: Offer::Nothing,
            handshake_due: false,
            keep_alive_due: false,
            shutdown_due: false,
            confirmations: VecDeque::new(),
            probe: None,
            ends: Ends::default(),
        }
    }

    /// Begins to carry data, now that the peer is known, unless nobody waits for that any more.
    fn open(&mut self, now: Instant, theirs: Handshake) {
        let is_given_up =
            matches!(&self.phase, Phase::Handshake(handshake) if handshake.is_given_up);
        self.mss = self.mss.min(theirs.mss);
        let payload = Options::payload(self.mss);
        let numbers = Numbering::new(self.ours.initial);
        let window = theirs.window.clamp(2, 1 << 24);
        let most_rate = self.options.max_bandwidth.map_or(f64::INFINITY, |bytes| {
            (control::real(bytes) / f64::from(self.mss)).max(1.0)
        });
        let seed = self.id.get() ^ theirs.id;
        let controller = control::make(self.options.congestion, now, self.rtt, window, seed);
        let buffer = SendBuffer::new(numbers, theirs.id, payload, self.options.send_buffer);
        self.halves = Some(Box::new(Halves {
            to: theirs.id,
            window,
            sender: Sender::new(
                now,
                self.opened,
                buffer,
                numbers,
                controller,
                window,
                most_rate,
            ),
            receiver: Receiver::new(
                Numbering::new(theirs.initial),
                payload,
                self.options.receive_buffer,
                self.options.service,
            ),
        }));
        self.phase = Phase::Established;
        self.timers.clear();
        self.on_heard(now);
        if is_given_up {
            self.give_up(ConnectionError::Closed);
            return;
        }
        self.timers.set(Timer::Exp, Some(self.expiry()));
        self.ends.on_connected();
    }

    /// Its number, by which the endpoint knows it.
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// Where the peer is, and where everything goes.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Bytes of the largest datagram that it sends or receives.
    pub fn datagram_size(&self) -> usize {
        self.mss as usize - IP_UDP
    }

    /// Whether data can be carried: the handshake is over, and no end was made.
    pub fn is_connected(&self) -> bool {
        matches!(self.phase, Phase::Established | Phase::Lingering { .. })
    }

    /// Whether the peer has acknowledged all that was written.
    pub fn is_drained(&self) -> bool {
        self.halves
            .as_ref()
            .is_none_or(|halves| halves.sender.is_drained())
    }

    /// Whether nothing will be sent or received any more: forget it, once all is read.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// Takes as many bytes as there is room for; pending when there is none.
    ///
    /// # Errors
    ///
    /// Why nothing can be written any more.
    pub fn write(&mut self, now: Instant, data: &[u8]) -> Poll<Result<usize, ConnectionError>> {
        if self.options.service != Service::Stream {
            return Poll::Ready(Err(ConnectionError::WrongService));
        }
        self.ends.check_write()?;
        let Some(halves) = &mut self.halves else {
            return Poll::Pending;
        };
        if !halves.sender.is_waiting() {
            halves.sender.on_first_write(now);
        }
        let taken = halves.sender.buffer.write(data);
        if taken == 0 && !data.is_empty() {
            self.ends.wants_room = true;
            return Poll::Pending;
        }
        Poll::Ready(Ok(taken))
    }

    /// Hands over bytes in order; nothing at all is the end, which the peer has marked.
    ///
    /// # Errors
    ///
    /// Why not all that the peer sent can be read.
    pub fn read(&mut self, now: Instant, into: &mut [u8]) -> Poll<Result<usize, ConnectionError>> {
        if self.options.service != Service::Stream {
            return Poll::Ready(Err(ConnectionError::WrongService));
        }
        if let Some(halves) = &mut self.halves {
            let copied = halves.receiver.read(now, into);
            if copied > 0 || into.is_empty() {
                return Poll::Ready(Ok(copied));
            }
        }
        self.ends.poll_end().map_ok(|()| 0)
    }

    /// Takes a whole message; pending when there is no room now.
    ///
    /// # Errors
    ///
    /// Why it can never be sent.
    pub fn send_message(
        &mut self,
        now: Instant,
        data: &[u8],
        options: MessageOptions,
    ) -> Poll<Result<(), ConnectionError>> {
        if self.options.service != Service::Message {
            return Poll::Ready(Err(ConnectionError::WrongService));
        }
        self.ends.check_write()?;
        let Some(halves) = &mut self.halves else {
            return Poll::Pending;
        };
        // It waits at the peer until it is whole, where one place is always free.
        let place = Options::payload(self.mss);
        let places = usize::try_from(halves.window.saturating_sub(1)).unwrap_or(usize::MAX);
        let limit = halves.sender.buffer.largest_message();
        let limit = limit.min(places.saturating_mul(place));
        if data.len() > limit {
            return Poll::Ready(Err(ConnectionError::MessageTooLong { limit }));
        }
        if !halves.sender.is_waiting() {
            halves.sender.on_first_write(now);
        }
        let Some((first, end)) = halves.sender.buffer.write_message(data, options.in_order) else {
            self.ends.wants_room = true;
            return Poll::Pending;
        };
        if let Some(deadline) = options.time_to_live.and_then(|time| now.checked_add(time)) {
            halves.sender.expire(first, end, deadline);
        }
        Poll::Ready(Ok(()))
    }

    /// Hands over a whole message, with its length in full even if `into` was too short for it; none is the end.
    ///
    /// # Errors
    ///
    /// Why not all that the peer sent can be received.
    pub fn receive_message(
        &mut self,
        now: Instant,
        into: &mut [u8],
    ) -> Poll<Result<Option<usize>, ConnectionError>> {
        if self.options.service != Service::Message {
            return Poll::Ready(Err(ConnectionError::WrongService));
        }
        let read = |halves: &mut Box<Halves>| halves.receiver.read_message(now, into);
        if let Some(len) = self.halves.as_mut().and_then(read) {
            return Poll::Ready(Ok(Some(len)));
        }
        self.ends.poll_end().map_ok(|()| None)
    }

    /// Bytes that were written and never sent, about: whole packets count.
    pub fn unsent(&self) -> usize {
        let unsent = |halves: &Halves| halves.sender.buffer.unsent();
        self.halves.as_deref().map_or(0, unsent)
    }

    #[cfg(test)]
    pub(crate) fn greeting_cookie(&self) -> Option<u32> {
        match &self.phase {
            Phase::Handshake(handshake) => Some(handshake.ours.cookie),
            _ => None,
        }
    }

    #[cfg(test)]
    pub(crate) fn is_for_messages(&self) -> bool {
        self.options.service == Service::Message
    }

    /// The first packet that is not acknowledged, and how many may be looked at for loss reports.
    #[cfg(test)]
    pub(crate) fn reported(&self) -> (u64, u64) {
        let halves = self.halves.as_ref();
        halves.map_or((0, 0), |halves| halves.sender.reported())
    }

    /// Bytes of memory held, about.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn memory(&self) -> usize {
        let halves = self.halves.as_ref();
        halves.map_or(0, |halves| {
            halves.sender.memory() + halves.receiver.memory()
        })
    }

    /// What a handshake packet from us says now.
    fn handshake(&self) -> (Handshake, u32) {
        match &self.phase {
            Phase::Handshake(handshake) => (handshake.ours, handshake.to()),
            _ => {
                let request = match self.role {
                    Role::Rendezvous => Request::Met,
                    Role::Initiator | Role::Responder => Request::Confirm,
                };
                let to = self.halves.as_ref().map_or(0, |halves| halves.to);
                (
                    Handshake {
                        request,
                        ..self.ours
                    },
                    to,
                )
            }
        }
    }
}

/// Bytes of a packet's payload and header together, at most.
fn most_bytes(mss: u32) -> usize {
    Options::payload(mss) + HEADER
}
