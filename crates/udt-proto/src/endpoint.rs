//! `Endpoint`: all connections over one socket: who a datagram is for, and how a connection begins.

use std::net::SocketAddr;
use std::time::Instant;

use crate::{Connection, Options};

/// A connection's number at this end: 1 to 2^30.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub(crate) u32);

/// What a run of datagrams is for.
#[derive(Debug)]
#[non_exhaustive]
pub enum Routed {
    /// For nobody.
    Nobody,
    /// For this connection: give it to [`Connection::handle_datagrams`].
    Connection(ConnectionId),
    /// To be answered to where it came from with these bytes.
    Reply([u8; 64]),
    /// A connection that begins with it, which has something to transmit.
    Incoming(Box<Connection>),
}

/// All connections over one socket.
#[derive(Debug)]
pub struct Endpoint {}

impl Endpoint {
    /// One without connections. Whoever knows `seed` can guess cookies and numbers.
    pub fn new(_now: Instant, _seed: [u8; 16]) -> Self { unimplemented!() }
    /// Lets peers connect; at most `backlog` of them wait for [`taken`](Self::taken).
    pub fn listen(&mut self, _options: Options, _backlog: usize) { unimplemented!() }
    /// Lets nobody connect any more; what is connected stays so.
    pub fn stop_listening(&mut self) { unimplemented!() }
    /// Says that an incoming connection waits in the backlog no longer.
    pub fn taken(&mut self, _id: ConnectionId) { unimplemented!() }
    /// Begins a connection to a listener.
    pub fn connect(&mut self, _now: Instant, _peer: SocketAddr, _options: Options) -> Connection { unimplemented!() }
    /// Begins a connection to a peer that does the same.
    pub fn rendezvous(&mut self, _now: Instant, _peer: SocketAddr, _options: Options) -> Connection { unimplemented!() }
    /// Says who the first of these datagrams of `stride` bytes are for, and how many bytes of them: ask again for the rest.
    pub fn route(&mut self, _now: Instant, _from: SocketAddr, _datagrams: &[u8], _stride: usize) -> (Routed, usize) { unimplemented!() }
    /// Forgets a connection.
    pub fn forget(&mut self, _id: ConnectionId) { unimplemented!() }
    /// How many connections there are.
    pub fn len(&self) -> usize { unimplemented!() }
    /// Whether there is none.
    pub fn is_empty(&self) -> bool { unimplemented!() }
}
