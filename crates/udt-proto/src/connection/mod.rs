//! `Connection`: one end of a connection, from the first handshake packet to the last shutdown.

mod drive;
mod ends;
mod inquiry;
mod packets;
mod phase;
mod stats;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::task::Poll;
use std::time::{Duration, Instant};

use self::ends::Ends;
pub use self::ends::Event;
use self::inquiry::Inquiry;
use self::phase::{Halves, Phase, Shutdown, ShutdownKind, Stage};
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

/// Datagrams for [`Connection::peer`], of equal length; the last may be shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transmit<'a> {
    /// Bytes of all datagrams.
    pub contents: &'a [u8],
    /// Bytes of each datagram but the last, where there are several.
    pub segment_size: Option<usize>,
}

/// Delivery of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct MessageOptions {
    /// Time after which lost packets are not sent again; none is never.
    pub time_to_live: Option<Duration>,
    /// Whether it is read after every message before it.
    pub in_order: bool,
}

impl MessageOptions {
    /// Sets the time after which lost packets are not sent again.
    #[must_use]
    pub const fn with_time_to_live(mut self, time: Duration) -> Self {
        self.time_to_live = Some(time);
        self
    }

    /// Sets whether it is read after every message before it.
    #[must_use]
    pub const fn with_order(mut self, in_order: bool) -> Self {
        self.in_order = in_order;
        self
    }
}

/// Last offer of [`Connection::poll_transmit`], which may have been sent by now.
#[derive(Debug, Clone, Copy)]
enum Offer {
    Nothing,
    Control,
    Data(Burst),
}

/// One end of a connection.
///
/// After every call, drain [`poll_transmit`](Self::poll_transmit) and
/// [`poll_event`](Self::poll_event), then wait for a datagram or for
/// [`poll_timeout`](Self::poll_timeout).
#[derive(Debug)]
pub struct Connection {
    id: ConnectionId,
    peer: SocketAddr,
    options: Options,
    role: Role,
    opened: Instant,
    phase: Phase,
    /// Our handshake packet, to be repeated for a peer that has not received it.
    ours: Handshake,
    /// Bytes of the largest packet, IP and UDP included.
    mss: u32,
    rtt: RoundTrip,
    timers: Timers,
    /// Control packet on offer.
    out: Vec<u8>,
    is_out_full: bool,
    offer: Offer,
    handshake_due: bool,
    ends: Ends,
}

impl Connection {
    /// Creates the end that begins the handshake.
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
        let deadline = now.checked_add(patience);
        connection.timers.set(Timer::Deadline, deadline);
        connection
    }

    /// Creates the server side of a connection whose peer has returned a valid cookie.
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
        connection.open(now, theirs);
        if let Phase::Established(halves) = &mut connection.phase {
            // The reference drops the packet right behind the answer: this is one it may drop.
            halves.keep_alive_due = true;
        }
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
            phase: Phase::Closed(None),
            ours,
            rtt: RoundTrip::UNKNOWN,
            timers: Timers::default(),
            out: Vec::new(),
            is_out_full: false,
            offer: Offer::Nothing,
            handshake_due: false,
            ends: Ends::default(),
        }
    }

    /// Begins to carry data, now that the peer is known, unless the handshake was given up.
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
        let opened = self.opened;
        let sender = Sender::new(now, opened, buffer, numbers, controller, window, most_rate);
        let receiver = Receiver::new(
            Numbering::new(theirs.initial),
            payload,
            self.options.receive_buffer,
            self.options.service,
        );
        let halves = Box::new(Halves {
            to: theirs.id,
            window,
            stage: Stage::Open,
            sender,
            receiver,
            keep_alive_due: false,
            confirmations: VecDeque::new(),
            probe: None,
            expiries: 1,
            heard_at: now,
            expiry_from: now,
            inquiry: Inquiry::default(),
        });
        let expiry = halves.expiry(self.rtt);
        self.phase = Phase::Established(halves);
        self.timers.clear();
        if is_given_up {
            self.give_up(ConnectionError::Closed);
            return;
        }
        self.timers.set(Timer::Exp, Some(expiry));
        self.ends.on_connected();
    }

    fn halves(&self) -> Option<&Halves> {
        match &self.phase {
            Phase::Handshake(_) => None,
            Phase::Established(halves) => Some(halves),
            Phase::Closed(halves) => halves.as_deref(),
        }
    }

    fn halves_mut(&mut self) -> Option<&mut Halves> {
        match &mut self.phase {
            Phase::Handshake(_) => None,
            Phase::Established(halves) => Some(halves),
            Phase::Closed(halves) => halves.as_deref_mut(),
        }
    }

    /// Socket id, by which the endpoint knows it.
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// Address of the peer.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Bytes of the largest datagram that it sends or receives.
    pub fn datagram_size(&self) -> usize {
        self.mss as usize - IP_UDP
    }

    /// Whether data can be carried: the handshake is over, and neither end has ended the
    /// connection.
    pub fn is_connected(&self) -> bool {
        matches!(&self.phase, Phase::Established(halves) if halves.carries_data())
    }

    /// Whether the peer has acknowledged all written data.
    pub fn is_drained(&self) -> bool {
        let halves = self.halves();
        halves.is_none_or(|halves| halves.sender.is_drained())
    }

    /// Whether nothing will be sent or received any more: drop it once all is read.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Closed(_))
    }

    /// Takes as many bytes as there is room for; pending when there is none.
    ///
    /// # Errors
    ///
    /// The reason why nothing can be written any more.
    pub fn write(&mut self, now: Instant, data: &[u8]) -> Poll<Result<usize, ConnectionError>> {
        if self.options.service != Service::Stream {
            return Poll::Ready(Err(ConnectionError::WrongService));
        }
        self.ends.check_write()?;
        let Some(halves) = self.halves_mut() else {
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

    /// Returns bytes in order; none are the end of the stream.
    ///
    /// # Errors
    ///
    /// The reason why the rest of the stream cannot be read.
    pub fn read(&mut self, now: Instant, into: &mut [u8]) -> Poll<Result<usize, ConnectionError>> {
        if self.options.service != Service::Stream {
            return Poll::Ready(Err(ConnectionError::WrongService));
        }
        if let Some(halves) = self.halves_mut() {
            let copied = halves.receiver.read(now, into);
            if copied > 0 || into.is_empty() {
                return Poll::Ready(Ok(copied));
            }
        }
        self.ends.poll_end().map_ok(|()| 0)
    }

    /// Takes a whole message; pending when there is no room for it.
    ///
    /// # Errors
    ///
    /// The reason why it can never be sent.
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
        let payload = Options::payload(self.mss);
        let Some(halves) = self.halves_mut() else {
            return Poll::Pending;
        };
        // The peer buffers a message until it is whole, and keeps one packet of room free.
        let packets = usize::try_from(halves.window.saturating_sub(1)).unwrap_or(usize::MAX);
        let limit = halves.sender.buffer.largest_message();
        let limit = limit.min(packets.saturating_mul(payload));
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

    /// Returns the length of the next message, even if `into` is too short for it; none is the end.
    ///
    /// # Errors
    ///
    /// The reason why no more messages can be received.
    pub fn receive_message(
        &mut self,
        now: Instant,
        into: &mut [u8],
    ) -> Poll<Result<Option<usize>, ConnectionError>> {
        if self.options.service != Service::Message {
            return Poll::Ready(Err(ConnectionError::WrongService));
        }
        let read = |halves: &mut Halves| halves.receiver.read_message(now, into);
        if let Some(len) = self.halves_mut().and_then(read) {
            return Poll::Ready(Ok(Some(len)));
        }
        self.ends.poll_end().map_ok(|()| None)
    }

    /// Bytes that were written and not sent yet, in whole packets.
    pub fn unsent(&self) -> usize {
        let unsent = |halves: &Halves| halves.sender.buffer.unsent();
        self.halves().map_or(0, unsent)
    }

    #[cfg(test)]
    pub(crate) fn handshake_cookie(&self) -> Option<u32> {
        match &self.phase {
            Phase::Handshake(handshake) => Some(handshake.ours.cookie),
            _ => None,
        }
    }

    #[cfg(test)]
    pub(crate) fn is_for_messages(&self) -> bool {
        self.options.service == Service::Message
    }

    /// The first packet not acknowledged, and the allowance of packets in loss reports.
    #[cfg(test)]
    pub(crate) fn reported(&self) -> (u64, u64) {
        let reported = |halves: &Halves| halves.sender.reported();
        self.halves().map_or((0, 0), reported)
    }

    /// Bytes of memory held, about.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn memory(&self) -> usize {
        let memory = |halves: &Halves| halves.sender.memory() + halves.receiver.memory();
        self.halves().map_or(0, memory)
    }

    /// Our handshake packet as it stands, and the socket id that it is for.
    fn handshake(&self) -> (Handshake, u32) {
        if let Phase::Handshake(handshake) = &self.phase {
            return (handshake.ours, handshake.to());
        }
        let request = match self.role {
            Role::Rendezvous => Request::Met,
            Role::Initiator | Role::Responder => Request::Confirm,
        };
        let ours = self.ours;
        let to = self.halves().map_or(0, |halves| halves.to);
        (Handshake { request, ..ours }, to)
    }
}

/// Bytes of a packet's payload and header together, at most.
fn most_bytes(mss: u32) -> usize {
    Options::payload(mss) + HEADER
}
