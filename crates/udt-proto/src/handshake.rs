//! `Handshake`: the 48 bytes of a handshake packet.

use std::net::IpAddr;

use crate::options::Service;
use crate::packet::words;

/// Version of the protocol.
pub(crate) const VERSION: u32 = 4;

/// Request type of a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    /// First request of a client, and the listener's answer with a cookie.
    Ask,
    /// Second request of a client, with the cookie, and its answer; second packet of a rendezvous.
    Confirm,
    /// First packet of a rendezvous.
    Meet,
    /// Answer of a rendezvous that is connected already.
    Met,
    /// Rejection; usually 1002.
    Refuse(i32),
    /// Unknown number.
    Other(i32),
}

impl Request {
    fn from_word(word: u32) -> Self {
        match word.cast_signed() {
            1 => Self::Ask,
            -1 => Self::Confirm,
            0 => Self::Meet,
            -2 => Self::Met,
            refusal @ 1000.. => Self::Refuse(refusal),
            other => Self::Other(other),
        }
    }

    fn word(self) -> u32 {
        match self {
            Self::Ask => 1_i32,
            Self::Confirm => -1,
            Self::Meet => 0,
            Self::Met => -2,
            Self::Refuse(number) | Self::Other(number) => number,
        }
        .cast_unsigned()
    }
}

/// The content of a handshake packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handshake {
    pub(crate) version: u32,
    /// 1 for a stream, 2 for messages.
    pub(crate) service: u32,
    /// Initial sequence number.
    pub(crate) initial: u32,
    /// Largest packet, in bytes.
    pub(crate) mss: u32,
    /// Flow window of the sender of this packet, in packets.
    pub(crate) window: u32,
    pub(crate) request: Request,
    /// Socket id of the sender of this packet.
    pub(crate) id: u32,
    pub(crate) cookie: u32,
    /// Destination address, see [`address_words`].
    pub(crate) address: [u32; 4],
}

impl Handshake {
    /// Bytes of it.
    pub(crate) const LEN: usize = 48;

    /// Reads exactly 48 bytes: the reference ignores longer ones too.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let body: &[u8; Self::LEN] = body.try_into().ok()?;
        let [
            version,
            service,
            initial,
            mss,
            window,
            request,
            id,
            cookie,
            a,
            b,
            c,
            d,
        ] = words(body)?;
        Some(Self {
            version,
            service,
            initial,
            mss,
            window,
            request: Request::from_word(request),
            id,
            cookie,
            address: [a, b, c, d],
        })
    }

    /// Its words in order.
    pub(crate) fn words(&self) -> [u32; 12] {
        let [a, b, c, d] = self.address;
        [
            self.version,
            self.service,
            self.initial,
            self.mss,
            self.window,
            self.request.word(),
            self.id,
            self.cookie,
            a,
            b,
            c,
            d,
        ]
    }
}

/// The number of a service.
pub(crate) const fn service_word(service: Service) -> u32 {
    match service {
        Service::Stream => 1,
        Service::Message => 2,
    }
}

/// An address in the form the reference gives it: every group of four bytes reversed.
pub(crate) fn address_words(address: IpAddr) -> [u32; 4] {
    let mut octets = [0; 16];
    match address {
        IpAddr::V4(v4) => octets
            .iter_mut()
            .zip(v4.octets())
            .for_each(|(to, from)| *to = from),
        IpAddr::V6(v6) => octets = v6.octets(),
    }
    words::<4>(&octets).unwrap_or_default().map(u32::swap_bytes)
}
