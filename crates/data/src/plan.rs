//! `SendPlan` and `ReceivePlan`: the ranges, mode and type of one transfer.

use std::num::NonZero;

use byte_ranges::{Range64, RangeSet, Share, Stripe};
use ftp_wire::command::{Mode, Tag, Type};
use ftp_wire::opts::Parallelism;
use mode_e::Streams;

use crate::trailer::Trailer;
use crate::watch::Watch;

/// The data to send and its form on the network.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SendPlan {
    /// MODE S or MODE E.
    pub mode: Mode,
    /// `TYPE A` turns each LF into CRLF.
    pub ty: Type,
    /// Ranges of the source to send. MODE S sends them one after the other, so normally there is
    /// one.
    pub ranges: RangeSet,
    /// Offset of the source that is wire offset 0 in MODE E (`ERET P`), in bytes.
    pub base: u64,
    /// Connections to open to each address in MODE E; 0 counts as 1.
    ///
    /// Where there is one address and no stripe, the most of them are opened. Those beyond the
    /// starting number carry data of the file once that raises its rate; until then the receiver
    /// sees them without data, and in the end perhaps with their end-of-data mark alone.
    pub parallelism: Parallelism,
    /// The stripe that this end sends in MODE E, of which other ends send the others; `None` sends
    /// all ranges.
    pub stripe: Option<Stripe>,
    /// Most addresses that get data in MODE E; the others get end marks alone. `None` for all.
    pub receivers: Option<NonZero<u32>>,
    /// Tag of the transfer, in MODE E for a peer that may not have answered yet, see [`mode_e`]; in
    /// MODE S one of [`Extent::Whole`](ftp_wire::receipt::Extent::Whole) alone, for a
    /// [trailer](Tag) behind the data.
    pub tag: Option<Tag>,
    /// Whether each chunk goes to any writable connection; else all use one connection, so that
    /// every receiver gets them in order.
    pub dealt: bool,
}

impl SendPlan {
    /// Sends `ranges` of the source over one connection, with unchanged offsets.
    pub fn new(mode: Mode, ty: Type, ranges: RangeSet) -> Self {
        Self {
            mode,
            ty,
            ranges,
            base: 0,
            parallelism: Parallelism::of(1),
            stripe: None,
            receivers: None,
            tag: None,
            dealt: false,
        }
    }

    /// Opens `n` connections to each address in MODE E, or numbers from the start to the most.
    #[must_use]
    pub fn parallelism(mut self, n: impl Into<Parallelism>) -> Self {
        self.parallelism = n.into();
        self
    }

    /// The connections to open to each address.
    pub(crate) fn number(&self) -> Parallelism {
        let widens = self.stripe.is_none() && self.ty == Type::Image;
        match widens {
            true => self.parallelism,
            false => Parallelism::of(self.parallelism.start),
        }
    }

    /// Connections that carry data from the start, of those that are open.
    pub(crate) fn active(&self, streams: Streams) -> usize {
        let Parallelism { start, most, .. } = self.number();
        let open = streams.connections();
        match start < most && streams.destinations() == 1 {
            true => usize::try_from(start.max(1)).map_or(open, |start| start.min(open)),
            false => open,
        }
    }

    /// Sends one stripe of the ranges in MODE E; blocks count in wire offsets.
    #[must_use]
    pub fn stripe(mut self, stripe: Option<Stripe>) -> Self {
        self.stripe = stripe;
        self
    }

    /// Sends data to the first addresses alone in MODE E, and end marks to all.
    #[must_use]
    pub fn receivers(mut self, most: Option<NonZero<u32>>) -> Self {
        self.receivers = most;
        self
    }

    /// The bytes to send in MODE E, in wire offsets.
    pub(crate) fn share(&self) -> Share {
        let stripe = self.stripe.unwrap_or(Stripe::ONLY);
        stripe.share(&self.ranges.shift_down(self.base))
    }

    /// Offset of the first byte that this end sends.
    pub(crate) fn start(&self) -> u64 {
        let first = match self.stripe {
            None => self.ranges.first().map(Range64::start),
            Some(_) => self
                .share()
                .next()
                .map(|first| first.start().saturating_add(self.base)),
        };
        first.unwrap_or(self.base)
    }

    /// Sets the tag of the transfer, which must be higher than earlier ones in MODE E.
    #[must_use]
    pub fn tag(mut self, tag: Option<Tag>) -> Self {
        self.tag = tag;
        self
    }

    /// The trailer behind `bytes` bytes, with the digest that `watch` knows; empty where none follows
    /// the data.
    pub(crate) fn trailer(&self, watch: &Watch, bytes: u64) -> Box<[u8]> {
        if !Trailer::follows(self.mode, self.ty, self.tag) {
            return Box::default();
        }
        let told = watch.told_of(bytes);
        Trailer { told }.to_bytes().into()
    }

    /// Sends chunks over all connections in MODE E.
    #[must_use]
    pub fn dealt(mut self) -> Self {
        self.dealt = true;
        self
    }

    /// Makes offset `base` of the source wire offset 0.
    #[must_use]
    pub fn base(mut self, base: u64) -> Self {
        self.base = base;
        self
    }
}

/// The form of the received data and its offset in the sink.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ReceivePlan {
    /// MODE S or MODE E.
    pub mode: Mode,
    /// `TYPE A` turns each CRLF into LF.
    pub ty: Type,
    /// Offset of the sink for wire offset 0 (`ESTO A`, `APPE`), in bytes.
    pub base: u64,
    /// The wire offsets that the sender leaves out (`REST`). A transfer in MODE S with a trailer brings
    /// the others in order, and one without begins at the first of those. A sink or consumer in order
    /// needs them to be the beginning of the file.
    pub held: RangeSet,
    /// Wire offset at which a MODE S transfer without a trailer ends although the peer may send more.
    pub until: Option<u64>,
    /// Tag of the transfer: in MODE E data of lower tags is discarded, any other refused; in MODE S
    /// data without its [trailer](Tag) is refused where the tag is of
    /// [`Extent::Whole`](ftp_wire::receipt::Extent::Whole).
    pub tag: Option<Tag>,
    /// Stripes in MODE E that connect to the same port, each with its own end-of-file mark; `None`
    /// for one.
    pub stripes: Option<NonZero<u32>>,
}

impl ReceivePlan {
    /// Receives a file from its start, with unchanged offsets.
    pub fn new(mode: Mode, ty: Type) -> Self {
        Self {
            mode,
            ty,
            ..Self::default()
        }
    }

    /// Puts wire offset 0 at offset `base` of the sink.
    #[must_use]
    pub fn base(mut self, base: u64) -> Self {
        self.base = base;
        self
    }

    /// Begins at wire offset `start`.
    #[must_use]
    pub fn start(self, start: u64) -> Self {
        self.held(RangeSet::up_to(start))
    }

    /// Receives the bytes outside the wire ranges `held`.
    #[must_use]
    pub fn held(mut self, held: RangeSet) -> Self {
        self.held = held;
        self
    }

    /// Wire offset of the first byte.
    pub(crate) fn first(&self) -> u64 {
        self.held.first_hole()
    }

    /// Receives the bytes before wire offset `until`, and closes the connection on later ones.
    #[must_use]
    pub fn until(mut self, until: Option<u64>) -> Self {
        self.until = until;
        self
    }

    /// Receives the data of this many stripes in MODE E, which all connect to the same port.
    #[must_use]
    pub fn stripes(mut self, stripes: Option<NonZero<u32>>) -> Self {
        self.stripes = stripes;
        self
    }

    /// Receives the transfer with this tag.
    #[must_use]
    pub fn tag(mut self, tag: Option<Tag>) -> Self {
        self.tag = tag;
        self
    }

    /// Whether a trailer follows the data, without which it was cut off.
    pub(crate) fn has_trailer(&self) -> bool {
        Trailer::follows(self.mode, self.ty, self.tag)
    }

    /// The wire ranges that a MODE S connection brings, of which the last may end anywhere.
    pub(crate) fn left(&self) -> RangeSet {
        match self.has_trailer() {
            true => self.held.complement(u64::MAX),
            false => {
                let until = self.until.unwrap_or(u64::MAX);
                Range64::new(self.first(), until).into_iter().collect()
            }
        }
    }
}

/// The result of a complete send.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sent {
    /// Payload bytes sent.
    pub bytes: u64,
    /// Number of data connections.
    pub connections: u32,
}

/// The result of a complete receive.
///
/// The end mark has arrived and everything is written; the ranges show whether the file is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// Payload bytes received, repeated ones counted each time.
    pub bytes: u64,
    /// Wire offsets written. `TYPE A` has none.
    pub ranges: RangeSet,
    /// One past the last byte written to the sink; `base` and the first offset that the plan
    /// does not hold if there is none.
    pub end: u64,
    /// Number of data connections.
    pub connections: u32,
    /// Whether a MODE S connection ended without a trailer, and without the end mark of its
    /// protection, so that the data may have been cut off on the way.
    pub ended_unmarked: bool,
}

impl Received {
    /// The result of a receive after its last write, from its watch.
    pub fn of(plan: &ReceivePlan, watch: &Watch, ended_unmarked: bool) -> Self {
        let ranges = watch.received();
        let end = if ranges.is_empty() {
            plan.first()
        } else {
            ranges.end()
        };
        Self {
            bytes: watch.bytes(),
            end: plan.base.saturating_add(end),
            ranges,
            connections: watch.connections(),
            ended_unmarked,
        }
    }
}
