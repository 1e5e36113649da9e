//! `Options`: deadlines, limits and the rule for peers of one session's data connections.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use mode_e::Limits;
use xio_core::SocketHints;

use crate::network::Network;

/// The hosts that may connect to a data port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Peers {
    /// Only this address, normally that of the control connection.
    Only(IpAddr),
    /// This address and those of these networks.
    Among(IpAddr, Arc<[Network]>),
    /// Any address, for transfers between two servers; this one is never kept out by the others.
    AnyBeside(IpAddr),
    /// Any address.
    #[default]
    Any,
}

impl Peers {
    /// Whether to serve a connection from `from`. An IPv4-mapped address equals the IPv4 address.
    pub fn admits(&self, from: SocketAddr) -> bool {
        let is = |peer: &IpAddr| peer.to_canonical() == from.ip().to_canonical();
        match self {
            Self::Only(peer) => is(peer),
            Self::Among(peer, networks) => {
                is(peer) || networks.iter().any(|network| network.contains(from.ip()))
            }
            Self::AnyBeside(_) | Self::Any => true,
        }
    }

    /// Whether `from` is a host other than the peer's own.
    pub(crate) fn is_foreign(&self, from: SocketAddr) -> bool {
        match self {
            Self::Only(own) | Self::Among(own, _) | Self::AnyBeside(own) => {
                own.to_canonical() != from.ip().to_canonical()
            }
            Self::Any => false,
        }
    }
}

/// Limits on the time, number and memory of a session's data connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Longest time to open a connection, and to wait for the first peer on our port.
    pub open_within: Duration,
    /// Longest time without a byte moved.
    pub stall: Duration,
    /// Longest wait, after sending a file in MODE S, for the peer to close its side.
    ///
    /// A peer that closes has read the whole file. Some clients lose a final reply that arrives on
    /// the control connection before that.
    pub linger: Duration,
    /// Longest time to read and discard the rest of a MODE S file that cannot be stored, after the
    /// transfer has failed. Zero resets the connection, which a sending peer may notice before it
    /// reads the reply.
    pub draining: Duration,
    /// Whether every connection of a MODE E transfer must have an end-of-data mark.
    ///
    /// When connections break, a peer with several requested files continues with the next file
    /// over new ones: only the missing marks then show that the data is of another file. Without
    /// this option, a connection that closes before its first header is ignored.
    pub marks_from_all: bool,
    /// Most simultaneous connections of one transfer.
    pub connections: u32,
    /// Longest payload that one MODE E block may announce, in bytes. Payload is never held whole.
    pub block_len: u64,
    /// Largest accepted file offset, in bytes.
    pub file_size: u64,
    /// Most separate ranges received in one transfer.
    pub ranges: usize,
    /// Most bytes of blocks out of order held in memory for a consumer that needs them in order.
    pub ahead: usize,
    /// Most bytes of parts in memory for a sink that takes whole parts; one part at least.
    pub parts: usize,
    /// Payload of the MODE E blocks we send, in bytes; `None` derives it from the size of the file.
    pub block: Option<u64>,
    /// Socket options of the connections we open: buffers, local address and ports.
    pub socket: SocketHints,
}

impl Options {
    /// The limits of MODE E.
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
            parts: 64 << 20,
            block: None,
            socket: SocketHints::new(),
        }
    }
}
