//! `Connection`: one end of a conversation, from the first handshake packet to the last shutdown.

use std::net::SocketAddr;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::{ConnectionError, ConnectionId};

/// What has become possible, or has come to an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is over: bytes may be written and read.
    Connected,
    /// Reading may succeed where it was pending.
    Readable,
    /// Writing may succeed where it was pending.
    Writable,
    /// The peer has acknowledged all that was written.
    Drained,
    /// The connection is over; what arrived before may still be read. The error is why, unless it ended well.
    Closed(Option<ConnectionError>),
}

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

/// What a connection has counted and measured so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Data packets sent, those sent again included.
    pub sent: u64,
    /// Data packets sent again.
    pub retransmitted: u64,
    /// Data packets received for the first time.
    pub received: u64,
    /// Data packets that the peer has reported as lost.
    pub lost: u64,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Shortest round-trip time seen lately.
    pub min_rtt: Duration,
    /// Packets per second that the congestion control sends at most.
    pub rate: u64,
    /// Packets on the way.
    pub in_flight: u64,
}

/// One end of a conversation.
#[derive(Debug)]
pub struct Connection {}

impl Connection {
    /// Its number, by which the endpoint knows it.
    pub fn id(&self) -> ConnectionId { unimplemented!() }
    /// Where the peer is, and where everything goes.
    pub fn peer(&self) -> SocketAddr { unimplemented!() }
    /// Bytes of the largest datagram that it sends or receives, for the buffers of a driver.
    pub fn datagram_size(&self) -> usize { unimplemented!() }
    /// Takes in datagrams of `stride` bytes each (the last may be shorter) that the endpoint found to be for it.
    pub fn handle_datagrams(&mut self, _now: Instant, _datagrams: &[u8], _stride: usize) { unimplemented!() }
    /// Does what was to be done by now.
    pub fn handle_timeout(&mut self, _now: Instant) { unimplemented!() }
    /// When to call [`handle_timeout`](Self::handle_timeout) and to ask for what to transmit; none when it is over.
    pub fn poll_timeout(&self) -> Option<Instant> { unimplemented!() }
    /// What is to be sent now: at most `segments` datagrams and 64 KiB.
    ///
    /// The same is offered again until [`on_transmitted`](Self::on_transmitted) says that it is gone.
    pub fn poll_transmit(&mut self, _now: Instant, _segments: usize) -> Option<Transmit<'_>> { unimplemented!() }
    /// Says that what was offered last is gone.
    pub fn on_transmitted(&mut self, _now: Instant) { unimplemented!() }
    /// What has happened since the last time.
    pub fn poll_event(&mut self) -> Option<Event> { unimplemented!() }
    /// Whether the handshake is over.
    pub fn is_connected(&self) -> bool { unimplemented!() }
    /// Whether all that was written is acknowledged.
    pub fn is_drained(&self) -> bool { unimplemented!() }
    /// Whether nothing will be sent or received any more: forget it.
    pub fn is_over(&self) -> bool { unimplemented!() }
    /// Takes as many bytes as there is room for; pending when there is none.
    ///
    /// # Errors
    /// Why nothing can be written any more.
    pub fn write(&mut self, _now: Instant, _data: &[u8]) -> Poll<Result<usize, ConnectionError>> { unimplemented!() }
    /// Hands over bytes in order; nothing at all is the end, which the peer has marked.
    ///
    /// # Errors
    /// Why not all that the peer sent can be read.
    pub fn read(&mut self, _now: Instant, _into: &mut [u8]) -> Poll<Result<usize, ConnectionError>> { unimplemented!() }
    /// Takes a whole message; pending when there is no room now.
    ///
    /// # Errors
    /// Why it can never be sent.
    pub fn send_message(&mut self, _now: Instant, _data: &[u8], _options: MessageOptions) -> Poll<Result<(), ConnectionError>> { unimplemented!() }
    /// Hands over a whole message, with its length in full even if `into` was too short for it; none is the end.
    ///
    /// # Errors
    /// Why not all that the peer sent can be received.
    pub fn receive_message(&mut self, _now: Instant, _into: &mut [u8]) -> Poll<Result<Option<usize>, ConnectionError>> { unimplemented!() }
    /// Ends it well: what was written goes out and is acknowledged, then the peer is told.
    pub fn close(&mut self, _now: Instant) { unimplemented!() }
    /// Gives it up at once; the peer is told that what it has is not all.
    pub fn abort(&mut self, _now: Instant) { unimplemented!() }
    /// What it has counted and measured.
    pub fn stats(&self) -> Stats { unimplemented!() }
}
