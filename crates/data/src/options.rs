//! `Options`: deadlines, limits and the rule for peers of one session's data connections.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use mode_e::Limits;
use xio_core::SocketHints;

/// Who may be at the other end of a data connection that the peer opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Peers {
    /// Only this address, normally that of the control connection.
    Only(IpAddr),
    /// Anyone, for transfers between two servers.
    #[default]
    Any,
}

impl Peers {
    /// Whether a connection from `from` is to be served. An IPv4 address inside an IPv6 one is
    /// the same host.
    pub fn admits(self, from: SocketAddr) -> bool {
        match self {
            Self::Only(peer) => peer.to_canonical() == from.ip().to_canonical(),
            Self::Any => true,
        }
    }
}

/// What a session's data connections may take: time, connections, memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Longest wait for a connection to be made, and for the first peer to connect to our port.
    pub open_within: Duration,
    /// Longest wait in which no byte moves.
    pub stall: Duration,
    /// Longest wait for the peer to close its side of a MODE S connection over which it was sent a
    /// file.
    ///
    /// A peer that closes has read all of the file. Some clients lose a final reply that arrives on
    /// the control connection before that.
    pub linger: Duration,
    /// Longest time for which a peer may go on sending a file in MODE S that cannot be stored; the
    /// transfer has ended before. Zero resets the connection, and a peer that is still sending
    /// hears nothing but that.
    pub draining: Duration,
    /// Whether every connection of a MODE E transfer has to bring an end-of-data mark.
    ///
    /// A peer that was asked for several files at once goes on with the next one when connections
    /// broke, over new ones: only the missing marks then tell that the data is another file's.
    /// Without it, a connection that ends before it brings anything is taken for a stranger's.
    pub marks_from_all: bool,
    /// Most connections of one transfer that are served at once.
    pub connections: u32,
    /// Longest payload that one MODE E block may announce, in bytes. Payload is never held whole.
    pub block_len: u64,
    /// Largest file offset that is taken, in bytes.
    pub file_size: u64,
    /// Most separate ranges that one transfer's arrivals may form.
    pub ranges: usize,
    /// Most bytes of blocks out of order that wait in memory, where the consumer takes bytes in order.
    pub ahead: usize,
    /// Payload of the MODE E blocks we send, in bytes; `None` lets the size of the file choose.
    pub block: Option<u64>,
    /// What connections we open ask of their sockets: buffers, local address and ports.
    pub socket: SocketHints,
}

impl Options {
    /// What a peer may announce in MODE E.
    pub(crate) fn limits(&self) -> Limits {
        Limits::default()
            .with_max_block(self.block_len)
            .with_max_end(self.file_size)
            .with_max_connections(self.connections)
            .with_max_ranges(self.ranges)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            open_within: Duration::from_secs(60),
            stall: Duration::from_secs(300),
            linger: Duration::ZERO,
            draining: Duration::ZERO,
            marks_from_all: false,
            connections: 256,
            block_len: 1 << 40,
            file_size: i64::MAX as u64,
            ranges: 65_536,
            ahead: 8 << 20,
            block: None,
            socket: SocketHints::new(),
        }
    }
}
