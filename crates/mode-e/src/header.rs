//! `Header` and its flags: parse and write 17 bytes.

use std::fmt;

use crate::Limits;

/// Bytes of a block header.
pub const HEADER_LEN: usize = 17;

/// Most hints that go behind the digest of a tagged transfer.
pub const MAX_HINTS: usize = 1 << 11;

/// A value of which many together show the places where the bytes of a receiver differ from the file;
/// its meaning is a matter of both ends.
pub type Hint = [u8; 16];

/// The descriptor byte of a block (GFD.20 §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Flags(u8);

impl Flags {
    /// No flag: a block of data.
    pub const NONE: Self = Self(0);
    /// End of record; ignored.
    pub const EOR: Self = Self(0x80);
    /// The offset field holds the number of end-of-data marks to expect.
    pub const EOF: Self = Self(0x40);
    /// The sender suspects errors in the payload; ignored.
    pub const ERROR: Self = Self(0x20);
    /// The payload is a restart marker, not data.
    pub const RESTART: Self = Self(0x10);
    /// The last block of this connection for this transfer.
    pub const EOD: Self = Self(0x08);
    /// The sender closes this connection.
    pub const CLOSE: Self = Self(0x04);
    /// Bits without a meaning in any specification.
    pub const RESERVED: Self = Self(0x03);
    /// Ours: the tag of the following blocks; excludes other flags, and both ends must agree on it.
    pub const TAG: Self = Self(0x01);
    /// Ours: half of the digest of a tagged transfer, or a hint behind it; excludes other flags.
    pub const DIGEST: Self = Self(0x02);

    /// Wraps a descriptor byte.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// The descriptor byte.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Says whether any of `other`'s bits is set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Both sets of bits.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The header of one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header {
    /// The descriptor.
    pub flags: Flags,
    /// Bytes of payload that follow.
    pub count: u64,
    /// Offset of the payload in the file, in bytes; with EOF, the number of end-of-data marks.
    pub offset: u64,
}

impl Header {
    /// A header of any content.
    pub const fn new(flags: Flags, count: u64, offset: u64) -> Self {
        Self {
            flags,
            count,
            offset,
        }
    }

    /// A block of `count` bytes at `offset`.
    pub const fn data(offset: u64, count: u64) -> Self {
        Self::new(Flags::NONE, count, offset)
    }

    /// The end-of-data mark: the last block of one connection for a transfer.
    pub const fn eod() -> Self {
        Self::new(Flags::EOD, 0, 0)
    }

    /// The end-of-data mark with the end-of-file mark, which announces the number of such marks.
    pub const fn eof(connections: u64) -> Self {
        Self::new(Flags::EOF.with(Flags::EOD), 0, connections)
    }

    /// Says whether it announces the number of end-of-data marks.
    pub const fn announces(self) -> bool {
        self.flags.has(Flags::EOF)
    }

    /// The block with the tag of all that follow on its connection, up to the end-of-data mark.
    pub const fn of_tag(tag: u64) -> Self {
        Self::new(Flags::TAG, 0, tag)
    }

    /// The tag, if this is a tag block.
    pub const fn tag(self) -> Option<u64> {
        if self.flags.0 == Flags::TAG.0 && self.count == 0 {
            Some(self.offset)
        } else {
            None
        }
    }

    /// The blocks with the digest of a tagged transfer, ahead of an end-of-data mark: 16 bytes each,
    /// in their count and offset fields.
    pub fn of_digest(digest: [u8; 32]) -> [Self; 2] {
        let (first, second) = digest.split_at(16);
        [first, second].map(Self::of_half)
    }

    /// The block with the next hint, of which there are at most [`MAX_HINTS`], behind the digest.
    pub fn of_hint(hint: Hint) -> Self {
        Self::of_half(&hint)
    }

    fn of_half(half: &[u8]) -> Self {
        let mut bytes = [Flags::DIGEST.0; HEADER_LEN];
        for (byte, of) in bytes.iter_mut().skip(1).zip(half) {
            *byte = *of;
        }
        Self::parse(&bytes)
    }

    /// Half of a digest, or a hint, if this is such a block.
    pub(crate) fn half_digest(self) -> Option<u128> {
        let half = (u128::from(self.count) << 64) | u128::from(self.offset);
        (self.flags.0 == Flags::DIGEST.0).then_some(half)
    }

    /// Reads a header; nothing is checked, see [`check`](Self::check).
    pub fn parse(bytes: &[u8; HEADER_LEN]) -> Self {
        let [flags, count @ .., _, _, _, _, _, _, _, _] = *bytes;
        let [_, _, _, _, _, _, _, _, _, offset @ ..] = *bytes;
        Self::new(
            Flags(flags),
            u64::from_be_bytes(count),
            u64::from_be_bytes(offset),
        )
    }

    /// The wire form.
    pub fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        let fields = std::iter::once(self.flags.0)
            .chain(self.count.to_be_bytes())
            .chain(self.offset.to_be_bytes());
        for (byte, field) in bytes.iter_mut().zip(fields) {
            *byte = field;
        }
        bytes
    }

    /// Checks the header against `limits`, and refuses ambiguous combinations of flags.
    ///
    /// # Errors
    ///
    /// The first fault found.
    pub fn check(self, limits: &Limits) -> Result<(), BadBlockKind> {
        let Self {
            flags,
            count,
            offset,
        } = self;
        if flags.has(Flags::RESERVED) {
            return Err(BadBlockKind::ReservedBits {
                descriptor: flags.0,
            });
        }
        if flags.has(Flags::RESTART) {
            return Err(BadBlockKind::RestartMarker);
        }
        if flags.has(Flags::EOF) {
            // The offset field holds the count of marks, so payload would have no offset.
            if count != 0 {
                return Err(BadBlockKind::EofWithPayload { count });
            }
            if offset == 0 || offset > u64::from(limits.max_connections) {
                return Err(BadBlockKind::AbsurdCount {
                    announced: offset,
                    limit: limits.max_connections,
                });
            }
            return Ok(());
        }
        if count > limits.max_block {
            return Err(BadBlockKind::TooLong {
                count,
                limit: limits.max_block,
            });
        }
        // The offset of a mark without payload has no meaning.
        if count > 0
            && offset
                .checked_add(count)
                .is_none_or(|end| end > limits.max_end)
        {
            return Err(BadBlockKind::BeyondEnd { offset, count });
        }
        Ok(())
    }
}

/// A refused block and its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BadBlock {
    /// The fault.
    pub kind: BadBlockKind,
    /// Start of the block's header, in bytes since the connection was opened.
    pub at: u64,
}

/// The fault of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadBlockKind {
    /// Descriptor bits without a meaning are set.
    ReservedBits {
        /// The descriptor byte.
        descriptor: u8,
    },
    /// The first block of a tagged transfer is no tag.
    Untagged {
        /// The tag of the current transfer.
        wanted: u64,
    },
    /// A tag in the middle of a transfer, or the tag of a later transfer.
    OtherTag {
        /// The received tag.
        tag: u64,
        /// The tag of the current transfer.
        wanted: u64,
    },
    /// The block holds a restart marker, which is no file data.
    RestartMarker,
    /// An EOF block announces payload, which would have no offset.
    EofWithPayload {
        /// The announced bytes.
        count: u64,
    },
    /// An EOF block announces no end-of-data mark, or more than there may be connections.
    AbsurdCount {
        /// The announced marks.
        announced: u64,
        /// The limit.
        limit: u32,
    },
    /// The payload is longer than the limit.
    TooLong {
        /// The announced bytes.
        count: u64,
        /// The limit.
        limit: u64,
    },
    /// The block ends beyond the largest file.
    BeyondEnd {
        /// Its offset.
        offset: u64,
        /// Its bytes.
        count: u64,
    },
    /// The peer closes a connection before its end-of-data mark.
    CloseWithoutEod,
    /// Too many blocks with neither payload nor mark.
    TooManyEmpty {
        /// The limit.
        limit: u32,
    },
    /// The connection ended within a header.
    CutInHeader,
    /// The connection ended within a block.
    CutInPayload {
        /// Number of missing bytes.
        missing: u64,
    },
    /// The connection ended between blocks, without an end-of-data mark.
    CutBeforeEod,
}

impl fmt::Display for BadBlockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReservedBits { descriptor } => {
                write!(f, "reserved bits in descriptor {descriptor:#04x}")
            }
            Self::Untagged { wanted } => {
                write!(f, "data without a tag, expected transfer {wanted}")
            }
            Self::OtherTag { tag, wanted } => {
                write!(f, "data of transfer {tag}, expected transfer {wanted}")
            }
            Self::RestartMarker => f.write_str("restart markers within the data are not supported"),
            Self::EofWithPayload { count } => {
                write!(f, "end-of-file block announces {count} bytes of payload")
            }
            Self::AbsurdCount { announced, limit } => {
                write!(
                    f,
                    "{announced} end-of-data marks announced, allowed are 1 to {limit}"
                )
            }
            Self::TooLong { count, limit } => {
                write!(f, "block of {count} bytes, the limit is {limit}")
            }
            Self::BeyondEnd { offset, count } => {
                write!(
                    f,
                    "block of {count} bytes at offset {offset} ends beyond any file"
                )
            }
            Self::CloseWithoutEod => f.write_str("close announced without an end-of-data mark"),
            Self::TooManyEmpty { limit } => write!(f, "more than {limit} empty blocks"),
            Self::CutInHeader => f.write_str("connection ended within a block header"),
            Self::CutInPayload { missing } => {
                write!(
                    f,
                    "connection ended {missing} bytes before the end of a block"
                )
            }
            Self::CutBeforeEod => f.write_str("connection ended without an end-of-data mark"),
        }
    }
}

impl fmt::Display for BadBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "mode e: block at byte {} of the connection: {}",
            self.at, self.kind
        )
    }
}

impl std::error::Error for BadBlock {}
