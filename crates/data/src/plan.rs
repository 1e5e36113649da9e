//! `SendPlan` and `ReceivePlan`: what one transfer moves and how it crosses the network.

use byte_ranges::RangeSet;
use ftp_wire::command::{Mode, Type};

/// What to send, and how.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SendPlan {
    /// MODE S or MODE E.
    pub mode: Mode,
    /// `TYPE A` turns each LF into CRLF.
    pub ty: Type,
    /// Ranges of the source to send. MODE S sends them one after the other, so that normally there
    /// is one.
    pub ranges: RangeSet,
    /// Offset of the source that MODE E calls 0 (`ERET P`), in bytes.
    pub base: u64,
    /// Connections to open to each address in MODE E; 0 counts as 1.
    pub parallelism: u32,
    /// Tag that names the transfer to a peer that may not have answered yet; see [`mode_e`].
    pub tag: Option<u64>,
    /// Whether chunks go out over whichever connection is free, each as soon as it is there; else they
    /// take one connection, so that the simplest of receivers gets them in order.
    pub dealt: bool,
}

impl SendPlan {
    /// Sends `ranges` of the source over one connection, offsets as they are.
    pub fn new(mode: Mode, ty: Type, ranges: RangeSet) -> Self {
        Self {
            mode,
            ty,
            ranges,
            base: 0,
            parallelism: 1,
            tag: None,
            dealt: false,
        }
    }

    /// Opens `n` connections to each address in MODE E.
    #[must_use]
    pub fn parallelism(mut self, n: u32) -> Self {
        self.parallelism = n;
        self
    }

    /// Names the transfer in MODE E by this tag, higher than those before it.
    #[must_use]
    pub fn tag(mut self, tag: Option<u64>) -> Self {
        self.tag = tag;
        self
    }

    /// Deals chunks to all connections in MODE E.
    #[must_use]
    pub fn dealt(mut self) -> Self {
        self.dealt = true;
        self
    }

    /// Calls offset `base` of the source 0 on the wire.
    #[must_use]
    pub fn base(mut self, base: u64) -> Self {
        self.base = base;
        self
    }
}

/// How to take what the peer sends.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ReceivePlan {
    /// MODE S or MODE E.
    pub mode: Mode,
    /// `TYPE A` turns each CRLF into LF.
    pub ty: Type,
    /// Offset of the sink where wire offset 0 lies (`ESTO A`, `APPE`), in bytes.
    pub base: u64,
    /// Wire offset of the first byte that comes (`REST n`), in bytes; where a MODE S transfer begins.
    pub start: u64,
    /// Wire offset at which a MODE S transfer is over although the peer may send more.
    pub until: Option<u64>,
    /// Tag of the transfer in MODE E: the data of lower ones is thrown away, any other refused.
    pub tag: Option<u64>,
}

impl ReceivePlan {
    /// Takes a file from its start, offsets as they are.
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
    pub fn start(mut self, start: u64) -> Self {
        self.start = start;
        self
    }

    /// Receives the bytes before wire offset `until`, and closes the connection on later ones.
    #[must_use]
    pub fn until(mut self, until: Option<u64>) -> Self {
        self.until = until;
        self
    }

    /// Takes the MODE E transfer of this tag.
    #[must_use]
    pub fn tag(mut self, tag: Option<u64>) -> Self {
        self.tag = tag;
        self
    }
}

/// A transfer that was sent to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sent {
    /// Payload bytes sent.
    pub bytes: u64,
    /// Data connections it took.
    pub connections: u32,
}

/// A transfer that was received to its end.
///
/// The end mark came and everything is written; whether the file is whole, the caller tells from
/// the ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// Payload bytes that came, repeated ones counted each time.
    pub bytes: u64,
    /// Wire offsets written. `TYPE A` has none.
    pub ranges: RangeSet,
    /// One past the last byte of the sink that was written; the plan's `base + start` when none was.
    pub end: u64,
    /// Data connections it took.
    pub connections: u32,
}
