//! Packets in wire format: parsing and writing.

use crate::handshake::Handshake;
use crate::options::HEADER;
use crate::seq::MAX_SEQUENCE;

/// Bit of control packets, and of the first number of a range in a loss report.
const TOP: u32 = 1 << 31;

/// A parsed packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packet<'a> {
    Data(Data<'a>),
    Control(Control<'a>),
}

/// A data packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Data<'a> {
    pub(crate) sequence: u32,
    pub(crate) message: Message,
    pub(crate) payload: &'a [u8],
}

/// Word 1 of a data packet: message number, part and order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Message(pub(crate) u32);

impl Message {
    const FIRST: u32 = 1 << 31;
    const LAST: u32 = 1 << 30;
    const IN_ORDER: u32 = 1 << 29;

    pub(crate) fn new(number: u32, first: bool, last: bool, in_order: bool) -> Self {
        let bit = |is, bit| if is { bit } else { 0 };
        Self(
            number & (Self::IN_ORDER - 1)
                | bit(first, Self::FIRST)
                | bit(last, Self::LAST)
                | bit(in_order, Self::IN_ORDER),
        )
    }

    pub(crate) const fn number(self) -> u32 {
        self.0 & (Self::IN_ORDER - 1)
    }

    pub(crate) const fn is_first(self) -> bool {
        self.0 & Self::FIRST != 0
    }

    pub(crate) const fn is_last(self) -> bool {
        self.0 & Self::LAST != 0
    }

    pub(crate) const fn in_order(self) -> bool {
        self.0 & Self::IN_ORDER != 0
    }
}

/// A control packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Control<'a> {
    Handshake(Handshake),
    KeepAlive,
    Ack(Ack),
    Nak(LossReport<'a>),
    /// Congestion warning; libudt never sends it.
    Warning,
    /// Shutdown. Word 1 is 0 from libudt; from this implementation it is not 0 after an abort.
    Shutdown {
        reason: u32,
    },
    /// Confirms the acknowledgement of this number.
    Ack2 {
        number: u32,
    },
    /// Drop request: the sender will not send these packets again.
    Drop {
        message: u32,
        first: u32,
        last: u32,
    },
    /// Peer error: its file could not be written.
    PeerError,
    /// Unknown or malformed packet.
    Unknown,
}

/// An acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ack {
    /// Its own number; 0 in a light one.
    pub(crate) number: u32,
    /// All packets before this sequence number have arrived.
    pub(crate) next: u32,
    /// Further words, which a light acknowledgement lacks.
    pub(crate) full: Option<FullAck>,
}

/// The second part of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FullAck {
    /// Round-trip time and variance of the receiver, in microseconds.
    pub(crate) rtt: u32,
    pub(crate) variance: u32,
    /// Free packets in the receiver's buffer.
    pub(crate) room: u32,
    pub(crate) rates: Option<Rates>,
}

/// The third part of an acknowledgement: packets per second, 0 where unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rates {
    /// Arrival rate.
    pub(crate) received: u32,
    /// Capacity of the path.
    pub(crate) capacity: u32,
}

/// The ranges of a loss report in wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LossReport<'a> {
    rest: &'a [u8],
}

/// An incomplete range or word at the end of a loss report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HalfARange;

impl Iterator for LossReport<'_> {
    /// First and last missing sequence number.
    type Item = Result<(u32, u32), HalfARange>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let Some((word, rest)) = take_word(self.rest) else {
            self.rest = &[];
            return Some(Err(HalfARange));
        };
        self.rest = rest;
        if word & TOP == 0 {
            return Some(Ok((word, word)));
        }
        match take_word(rest) {
            Some((last, rest)) if last & TOP == 0 => {
                self.rest = rest;
                Some(Ok((word & MAX_SEQUENCE, last)))
            }
            _ => {
                self.rest = &[];
                Some(Err(HalfARange))
            }
        }
    }
}

/// Takes the first word off.
fn take_word(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (word, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*word), rest))
}

/// Takes `N` words off the front.
pub(crate) fn words<const N: usize>(bytes: &[u8]) -> Option<[u32; N]> {
    let mut rest = bytes;
    let mut words = [0; N];
    for word in &mut words {
        (*word, rest) = take_word(rest)?;
    }
    Some(words)
}

/// Returns the destination socket id of a packet, 0 for a listener; none if it is no packet.
pub(crate) fn destination(datagram: &[u8]) -> Option<u32> {
    words(datagram).map(|[_, _, _, destination]| destination)
}

impl<'a> Packet<'a> {
    /// Parses a packet; none if it is too short.
    pub(crate) fn parse(datagram: &'a [u8]) -> Option<Self> {
        let [kind, info, _, _] = words(datagram)?;
        let (_, body) = datagram.split_at_checked(HEADER)?;
        if kind & TOP == 0 {
            return Some(Self::Data(Data {
                sequence: kind,
                message: Message(info),
                payload: body,
            }));
        }
        Some(Self::Control(match (kind & !TOP) >> 16 {
            0 => Handshake::parse(body).map_or(Control::Unknown, Control::Handshake),
            1 => Control::KeepAlive,
            2 => Ack::parse(info, body).map_or(Control::Unknown, Control::Ack),
            3 => Control::Nak(LossReport { rest: body }),
            4 => Control::Warning,
            5 => Control::Shutdown { reason: info },
            6 => Control::Ack2 { number: info },
            7 => words(body).map_or(Control::Unknown, |[first, last]| Control::Drop {
                message: info & 0x1fff_ffff,
                first: first & MAX_SEQUENCE,
                last: last & MAX_SEQUENCE,
            }),
            8 => Control::PeerError,
            _ => Control::Unknown,
        }))
    }
}

impl Ack {
    /// Parses one, four or six words; other lengths are cut to these.
    fn parse(number: u32, body: &[u8]) -> Option<Self> {
        let [next] = words(body)?;
        let full = words(body).map(|[_, rtt, variance, room]| FullAck {
            rtt,
            variance,
            room,
            rates: words(body).map(|[_, _, _, _, received, capacity]| Rates { received, capacity }),
        });
        Some(Self {
            number: if full.is_some() { number } else { 0 },
            next: next & MAX_SEQUENCE,
            full,
        })
    }
}

/// Writes the header of a data packet into the beginning of its slot.
pub(crate) fn write_data_header(place: &mut [u8], sequence: u32, message: Message, to: u32) {
    put(place, &[sequence, message.0, 0, to]);
}

/// Stamps a data packet with the microseconds since its socket was opened.
pub(crate) fn write_timestamp(packet: &mut [u8], micros: u32) {
    if let Some((_, rest)) = packet.split_at_mut_checked(8) {
        put(rest, &[micros]);
    }
}

/// Reads the timestamp of a data packet.
pub(crate) fn timestamp(packet: &[u8]) -> Option<u32> {
    words(packet).map(|[_, _, timestamp]| timestamp)
}

/// Writes words, as many as there is room for.
fn put(place: &mut [u8], words: &[u32]) {
    for (bytes, word) in place.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
}

/// Writes a control packet over whatever `out` holds.
pub(crate) fn write_control(out: &mut Vec<u8>, control: &Control<'_>, to: u32) {
    // The reference sends a word of padding in place of an empty body.
    let (kind, info) = match *control {
        Control::Handshake(_) => (0, 0),
        Control::KeepAlive => (1, 0),
        Control::Ack(ack) => (2, ack.number),
        Control::Nak(_) => (3, 0),
        Control::Warning => (4, 0),
        Control::Shutdown { reason } => (5, reason),
        Control::Ack2 { number } => (6, number),
        Control::Drop { message, .. } => (7, message),
        Control::PeerError => (8, 4000),
        Control::Unknown => (0x7fff, 0),
    };
    out.clear();
    let header = [TOP | kind << 16, info, 0, to];
    push(out, &header);
    match control {
        Control::Handshake(handshake) => push(out, &handshake.words()),
        Control::Ack(ack) => {
            push(out, &[ack.next]);
            if let Some(full) = ack.full {
                push(out, &[full.rtt, full.variance, full.room]);
                if let Some(rates) = full.rates {
                    push(out, &[rates.received, rates.capacity]);
                }
            }
        }
        Control::Nak(report) => out.extend_from_slice(report.rest),
        Control::Drop { first, last, .. } => push(out, &[*first, *last]),
        _ => push(out, &[0]),
    }
}

/// Writes the beginning of a loss report, to which [`push_loss`] adds.
pub(crate) fn begin_nak(out: &mut Vec<u8>, to: u32) {
    write_control(out, &Control::Nak(LossReport { rest: &[] }), to);
}

/// Adds a range of missing sequence numbers, both ends included, to a loss report.
pub(crate) fn push_loss(out: &mut Vec<u8>, first: u32, last: u32) {
    if first == last {
        push(out, &[first]);
    } else {
        push(out, &[first | TOP, last]);
    }
}

fn push(out: &mut Vec<u8>, words: &[u32]) {
    out.extend(words.iter().flat_map(|word| word.to_be_bytes()));
}
