//! `Options` of a connection, with defaults and units.

use std::net::SocketAddr;
use std::time::Duration;

/// Bytes of the IPv4 and UDP headers, which a segment size includes over IPv6 too.
pub(crate) const IP_UDP: usize = 28;
/// Bytes of a packet's own header.
pub(crate) const HEADER: usize = 16;
/// Smallest segment size, in bytes.
pub(crate) const MIN_MSS: u32 = 76;

/// Service of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Service {
    /// A stream of bytes.
    #[default]
    Stream,
    /// Messages, each whole or not at all.
    Message,
}

/// Congestion control of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Congestion {
    /// A model of the path: delivery rate and shortest round trip; random loss does not slow it.
    #[default]
    Model,
    /// CUBIC (RFC 9438): shares a link as TCP does, and slows down for random loss as TCP does.
    Cubic,
    /// UDT's own additive increase and multiplicative decrease of the rate.
    Native,
}

/// Options of one end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Largest packet in bytes, with 28 for IP and UDP, 76 to 65535; the smaller of both ends
    /// counts.
    pub mss: u16,
    /// The same for peers over IPv6, whose header is 20 bytes longer than the 28 bytes assume.
    pub mss_over_ipv6: u16,
    /// Most packets that the peer may have in flight to this end.
    pub flow_window: u32,
    /// Most packets that wait for acknowledgement. Memory is allocated as needed.
    pub send_buffer: u32,
    /// Most packets that wait to be read. Before the first read it is 128 KiB of them, or 66, which
    /// bounds connections in a backlog. Memory is allocated as needed.
    pub receive_buffer: u32,
    /// Bytes or messages; both ends must agree.
    pub service: Service,
    /// Congestion control of the sent data.
    pub congestion: Congestion,
    /// Highest rate to send at, in bytes per second with headers; none is no limit.
    pub max_bandwidth: Option<u64>,
    /// Longest time of a regular handshake.
    pub connect_timeout: Duration,
    /// Longest time of a rendezvous.
    pub rendezvous_timeout: Duration,
    /// First sequence number, for tests; random by default.
    #[doc(hidden)]
    pub initial_sequence: Option<u32>,
    /// Longest wait of a close for the peer's acknowledgement.
    pub linger: Duration,
}

impl Options {
    /// Largest packet in bytes to and from this peer.
    pub(crate) fn mss_to(&self, peer: SocketAddr) -> u32 {
        let is_ipv6 = peer.ip().to_canonical().is_ipv6();
        u32::from(if is_ipv6 {
            self.mss_over_ipv6
        } else {
            self.mss
        })
    }

    /// Largest number of payload bytes in a packet of `mss` bytes.
    pub(crate) fn payload(mss: u32) -> usize {
        mss as usize - IP_UDP - HEADER
    }

    /// Clamps the options to the limits of the protocol and of memory.
    pub(crate) fn checked(mut self) -> Self {
        self.mss = self.mss.max(76);
        self.mss_over_ipv6 = self.mss_over_ipv6.max(76);
        self.flow_window = self.flow_window.clamp(32, 1 << 24);
        self.send_buffer = self.send_buffer.clamp(32, 1 << 24);
        self.receive_buffer = self.receive_buffer.clamp(32, self.flow_window);
        self
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mss: 1500,
            mss_over_ipv6: 1480,
            flow_window: 25600,
            send_buffer: 25600,
            receive_buffer: 25600,
            service: Service::default(),
            congestion: Congestion::default(),
            max_bandwidth: None,
            connect_timeout: Duration::from_secs(3),
            rendezvous_timeout: Duration::from_secs(30),
            initial_sequence: None,
            linger: Duration::from_secs(180),
        }
    }
}
