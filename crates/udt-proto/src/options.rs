//! `Options`: what a user chooses for a connection, with defaults and units.

use std::net::SocketAddr;
use std::time::Duration;

/// Bytes of the IPv4 and UDP headers, which a segment size includes whatever carries the packets.
pub(crate) const IP_UDP: usize = 28;
/// Bytes of a packet's own header.
pub(crate) const HEADER: usize = 16;
/// The smallest segment size that anyone may ask for, in bytes.
pub(crate) const MIN_MSS: u32 = 76;

/// What a connection carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Service {
    /// Bytes, without boundaries.
    #[default]
    Stream,
    /// Messages, whole or not at all.
    Message,
}

/// How a connection finds out how fast it may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Congestion {
    /// A model of the path: delivery rate and shortest round trip; random loss does not slow it.
    #[default]
    Model,
    /// CUBIC (RFC 9438): shares a link with TCP as TCP flows do, and slows down for random loss as they do.
    Cubic,
    /// UDT's own additive increase and multiplicative decrease of the rate.
    Native,
}

/// What a user chooses for a connection; both ends of a handshake have their own.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Largest packet in bytes, with 28 for IP and UDP; the smaller of both ends counts. 76 to 65535.
    pub mss: u16,
    /// The same for peers over IPv6, whose header is 20 bytes longer than what is counted for it.
    pub mss_over_ipv6: u16,
    /// Most packets that the peer may have on the way to us.
    pub flow_window: u32,
    /// Packets that wait for the peer's acknowledgement, at most. Memory is taken as it is needed.
    pub send_buffer: u32,
    /// Packets that wait to be read, at most, and 128 KiB of them, or 66, before the first read: who waits
    /// to be accepted takes no more. Memory is taken as it is needed.
    pub receive_buffer: u32,
    /// Bytes or messages; both ends must agree.
    pub service: Service,
    /// The congestion control of what we send.
    pub congestion: Congestion,
    /// Fastest rate to send at, in bytes per second, headers included; none is no limit.
    pub max_bandwidth: Option<u64>,
    /// How long a regular handshake may take.
    pub connect_timeout: Duration,
    /// How long a rendezvous may take.
    pub rendezvous_timeout: Duration,
    /// The first sequence number, for tests; drawn at random where it is not given.
    #[doc(hidden)]
    pub initial_sequence: Option<u32>,
    /// How long a close waits for the peer to acknowledge everything.
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

    /// Brings what was chosen within what the protocol and memory allow.
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
