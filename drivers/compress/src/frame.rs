//! The wire form: a preamble, blocks with lengths and checksum, and an end mark; no I/O.
//!
//! Each direction of a connection is a stream of its own:
//!
//! ```text
//! stream    preamble { block } end
//!
//! preamble  0       4         5              8
//!           +-------+---------+--------------+
//!           | XIOZ  | version | largest block|      version 1; length in bytes, little-endian
//!           +-------+---------+--------------+
//!
//! block     0     1            1..3        0..3      4
//!           +-----+------------+-----------+---------+------------------+
//!           | tag | original   | packed    | CRC-32C | packed bytes     |
//!           |     | length     | length    |         |                  |
//!           +-----+------------+-----------+---------+------------------+
//!
//! end       0     1         5
//!           +-----+---------+
//!           | tag | CRC-32C |
//!           +-----+---------+
//!
//! tag       bit 7: end mark      bits 6 to 4: zero      bits 3 to 0: codec, as `Algorithm` numbers them
//! ```
//!
//! Lengths are written in groups of seven bits, the lowest first, bit 7 saying that another group
//! follows, in as few groups as hold them. A stored block has no packed length, since it is the
//! original one. The checksum is little-endian and is that of the block's number in the stream
//! (eight bytes, little-endian, from 0), of the header before the checksum, and of the
//! **original** bytes. So it detects a block that was lost, doubled, moved, altered or unpacked
//! wrongly.
//!
//! A reader refuses every block that breaks these rules: a block is never empty, its original
//! length is at most the largest block that the preamble announced, which is at most [`MAX_BLOCK`],
//! and packed bytes are fewer than the original ones. Seven bytes around a stored block of 4 KiB
//! are 0.17 %.

use crate::codec::Algorithm;

/// Length in bytes of a preamble.
pub const PREAMBLE_LEN: usize = 8;
/// Largest length in bytes of the header of a block.
pub const MAX_HEADER: usize = 1 + 3 + 3 + CHECKSUM_LEN;
/// Largest block in bytes that a preamble may announce.
pub const MAX_BLOCK: usize = 1 << 20;

const MAGIC: [u8; 4] = *b"XIOZ";
const VERSION: u8 = 1;
const CHECKSUM_LEN: usize = 4;
const END: u8 = 0x80;
const CODEC: u8 = 0x0F;

/// A violation of the wire form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadFrame {
    /// The stream does not begin with the preamble.
    #[error("these are not the bytes of this layer; does the peer's stack have `compress` too?")]
    Magic,
    /// The version of the stream is unknown.
    #[error("the peer speaks version {0}, this end {VERSION}")]
    Version(u8),
    /// The announced largest block is 0 or beyond [`MAX_BLOCK`].
    #[error("blocks of {0} bytes were announced; 1 to {MAX_BLOCK} are accepted")]
    Announced(usize),
    /// A bit of the tag is set that has no meaning.
    #[error("tag {0:#04x} has a bit without a meaning")]
    Tag(u8),
    /// The number of the codec is not assigned.
    #[error("no codec has the number {0}")]
    Codec(u8),
    /// The codec is known, but not in this build.
    #[error("{}", .0.how_to_get())]
    NotBuilt(Algorithm),
    /// A length has more groups than it needs, or than are allowed.
    #[error("a length is not written in its shortest form")]
    Length,
    /// The block is empty.
    #[error("it is empty")]
    Empty,
    /// The block unpacks to more bytes than the announced largest block.
    #[error("it unpacks to {original} bytes, more than the announced {announced}")]
    TooLong {
        /// Original length in the header.
        original: usize,
        /// Largest block of the preamble.
        announced: usize,
    },
    /// There are no packed bytes, or no fewer than the original ones.
    #[error("it is no smaller packed than unpacked")]
    NotSmaller,
    /// The packed bytes do not unpack to exactly the original length.
    #[error("{0} cannot unpack it to its length")]
    Corrupt(Algorithm),
    /// The checksum does not agree.
    #[error("its checksum does not agree")]
    Checksum,
    /// Bytes follow the end mark.
    #[error("bytes follow the end mark")]
    Beyond,
}

/// The beginning of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preamble {
    /// Most bytes that any block of the stream unpacks to.
    pub block: usize,
}

impl Preamble {
    /// Announces blocks of at most `block` bytes, from 1 to [`MAX_BLOCK`].
    #[must_use]
    pub fn new(block: usize) -> Self {
        Self {
            block: block.clamp(1, MAX_BLOCK),
        }
    }

    /// Returns the wire form.
    #[must_use]
    pub fn write(self) -> [u8; PREAMBLE_LEN] {
        let [m0, m1, m2, m3] = MAGIC;
        let [b0, b1, b2, ..] = self.block.to_le_bytes();
        [m0, m1, m2, m3, VERSION, b0, b1, b2]
    }

    /// Reads the wire form.
    ///
    /// # Errors
    /// Bytes that are no preamble, or announce an unknown version or a bad block length.
    pub fn parse(bytes: [u8; PREAMBLE_LEN]) -> Result<Self, BadFrame> {
        let [m0, m1, m2, m3, version, b0, b1, b2] = bytes;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(BadFrame::Magic);
        }
        if version != VERSION {
            return Err(BadFrame::Version(version));
        }
        match usize::from(b0) | usize::from(b1) << 8 | usize::from(b2) << 16 {
            block @ 1..=MAX_BLOCK => Ok(Self { block }),
            block => Err(BadFrame::Announced(block)),
        }
    }
}

/// The header of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header {
    /// The codec.
    pub algorithm: Algorithm,
    /// Length in bytes of the original.
    pub original: usize,
    /// Length in bytes of the packed bytes.
    pub packed: usize,
    /// Checksum over number, header and original bytes.
    pub checksum: u32,
}

/// One step of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Frame {
    /// A block begins.
    Block(Header),
    /// The stream ended in good order.
    End,
}

impl Frame {
    /// Reads a header and returns it with its length; `None` when it continues beyond `bytes`.
    ///
    /// `number` is the number of blocks before it, and `announced` the preamble's largest block.
    ///
    /// # Errors
    /// Bytes that begin no block of such a stream.
    pub fn parse(
        bytes: &[u8],
        number: u64,
        announced: usize,
    ) -> Result<Option<(Self, usize)>, BadFrame> {
        let Some((&tag, rest)) = bytes.split_first() else {
            return Ok(None);
        };
        if tag == END {
            let Some(found) = checksum_at(rest) else {
                return Ok(None);
            };
            if found != Checksum::new(number, &[END]).finish() {
                return Err(BadFrame::Checksum);
            }
            return Ok(Some((Self::End, 1 + CHECKSUM_LEN)));
        }
        if tag & !CODEC != 0 {
            return Err(BadFrame::Tag(tag));
        }
        let algorithm = Algorithm::from_number(tag).ok_or(BadFrame::Codec(tag))?;
        let Some((original, rest)) = length_at(rest)? else {
            return Ok(None);
        };
        if original == 0 {
            return Err(BadFrame::Empty);
        }
        if original > announced {
            return Err(BadFrame::TooLong {
                original,
                announced,
            });
        }
        let (packed, rest) = match algorithm {
            Algorithm::Stored => (original, rest),
            _ => match length_at(rest)? {
                None => return Ok(None),
                Some((packed, _)) if packed == 0 || packed >= original => {
                    return Err(BadFrame::NotSmaller);
                }
                Some(found) => found,
            },
        };
        let Some(checksum) = checksum_at(rest) else {
            return Ok(None);
        };
        if !algorithm.is_built() {
            return Err(BadFrame::NotBuilt(algorithm));
        }
        let header = Header {
            algorithm,
            original,
            packed,
            checksum,
        };
        Ok(Some((
            Self::Block(header),
            bytes.len() - rest.len() + CHECKSUM_LEN,
        )))
    }
}

impl Header {
    /// Begins the checksum that must equal [`checksum`](Self::checksum) after the original bytes.
    #[must_use]
    pub fn verify(&self, number: u64) -> Checksum {
        let head = Head::lengths(self.algorithm, self.original, self.packed);
        Checksum::new(number, head.bytes())
    }

    /// Length in bytes of its wire form.
    pub(crate) fn wire_len(&self) -> usize {
        Head::lengths(self.algorithm, self.original, self.packed).len + CHECKSUM_LEN
    }
}

/// The wire form of a header, or of an end mark.
#[derive(Debug, Clone, Copy)]
pub struct Head {
    bytes: [u8; MAX_HEADER],
    len: usize,
}

impl Head {
    /// Makes the header of block `number`, packed by `algorithm` from `original` to `packed` bytes.
    #[must_use]
    pub fn new(number: u64, algorithm: Algorithm, original: &[u8], packed: usize) -> Self {
        let mut head = Self::lengths(algorithm, original.len(), packed);
        let mut checksum = Checksum::new(number, head.bytes());
        checksum.add(original);
        head.push(&checksum.finish().to_le_bytes());
        head
    }

    /// Makes the end mark of a stream of `number` blocks.
    #[must_use]
    pub fn end(number: u64) -> Self {
        let mut head = Self::empty();
        head.push(&[END]);
        head.push(&Checksum::new(number, &[END]).finish().to_le_bytes());
        head
    }

    /// The bytes to send.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    const fn empty() -> Self {
        Self {
            bytes: [0; MAX_HEADER],
            len: 0,
        }
    }

    fn lengths(algorithm: Algorithm, original: usize, packed: usize) -> Self {
        let mut head = Self::empty();
        head.push(&[algorithm.number()]);
        head.push_length(original);
        if algorithm != Algorithm::Stored {
            head.push_length(packed);
        }
        head
    }

    fn push_length(&mut self, mut length: usize) {
        while length >= 0x80 {
            let [low, ..] = length.to_le_bytes();
            self.push(&[low | 0x80]);
            length >>= 7;
        }
        let [low, ..] = length.to_le_bytes();
        self.push(&[low]);
    }

    fn push(&mut self, more: &[u8]) {
        let free = self.bytes.get_mut(self.len..self.len + more.len());
        free.expect("tag, two lengths of MAX_BLOCK at most and a checksum fit")
            .copy_from_slice(more);
        self.len += more.len();
    }
}

/// A running checksum: over the number of the block, its header and its original bytes.
#[derive(Debug, Clone, Copy)]
pub struct Checksum(u32);

impl Checksum {
    fn new(number: u64, head: &[u8]) -> Self {
        Self(crc32c::crc32c_append(
            crc32c::crc32c(&number.to_le_bytes()),
            head,
        ))
    }

    /// Adds original bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0 = crc32c::crc32c_append(self.0, bytes);
    }

    /// The value over all added bytes.
    #[must_use]
    pub const fn finish(self) -> u32 {
        self.0
    }
}

fn checksum_at(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|four| u32::from_le_bytes(*four))
}

/// Reads a length and returns it with the rest; `None` when it continues beyond `bytes`.
fn length_at(bytes: &[u8]) -> Result<Option<(usize, &[u8])>, BadFrame> {
    let mut length = 0;
    for (i, &byte) in bytes.iter().take(3).enumerate() {
        length |= usize::from(byte & 0x7F) << (7 * i);
        if byte & 0x80 == 0 {
            if byte == 0 && i > 0 {
                return Err(BadFrame::Length);
            }
            return Ok(Some((length, bytes.get(i + 1..).unwrap_or_default())));
        }
    }
    if bytes.len() >= 3 {
        Err(BadFrame::Length)
    } else {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    proptest! {
        #[test]
        fn headers_round_trip_and_cuts_want_more(
            number: u64, original in 1..=MAX_BLOCK, share in any::<u16>(), codec in 0..5_u8,
        ) {
            let algorithm = Algorithm::from_number(codec).unwrap();
            let data = vec![7; original];
            let packed = match algorithm {
                Algorithm::Stored => original,
                _ if original == 1 => return Ok(()),
                _ => 1 + usize::from(share) * (original - 2) / 65_535,
            };
            let head = Head::new(number, algorithm, &data, packed);
            for cut in 0..head.bytes().len() {
                prop_assert_eq!(Frame::parse(&head.bytes()[..cut], number, original), Ok(None));
            }
            match Frame::parse(head.bytes(), number, original) {
                Ok(Some((Frame::Block(header), len))) => {
                    prop_assert_eq!((header.algorithm, header.original, header.packed, len),
                        (algorithm, original, packed, head.bytes().len()));
                    let mut checksum = header.verify(number);
                    checksum.add(&data);
                    prop_assert_eq!(checksum.finish(), header.checksum);
                }
                other => prop_assert_eq!(other, Err(BadFrame::NotBuilt(algorithm))),
            }
            prop_assert_eq!(
                Frame::parse(head.bytes(), number, original - 1),
                Err(if original == 1 { BadFrame::TooLong { original, announced: 0 } }
                    else { BadFrame::TooLong { original, announced: original - 1 } })
            );
        }
    }

    #[test]
    fn the_drawing_is_what_is_written() {
        assert_eq!(Preamble::new(65_536).write(), *b"XIOZ\x01\0\0\x01");
        let head = Head::new(3, Algorithm::Stored, b"abc", 3);
        let checksum = crc32c::crc32c(b"\x03\0\0\0\0\0\0\0\x00\x03abc");
        assert_eq!(
            head.bytes(),
            [&[0, 3][..], &checksum.to_le_bytes()].concat()
        );
        let head = Head::new(0, Algorithm::Zlib, &[0; 300], 2);
        assert_eq!(head.bytes().get(..4), Some(&[1, 0xAC, 0x02, 2][..]));
        let end = Head::end(1);
        let checksum = crc32c::crc32c(b"\x01\0\0\0\0\0\0\0\x80");
        assert_eq!(end.bytes(), [&[0x80][..], &checksum.to_le_bytes()].concat());
    }

    #[test]
    fn what_no_stream_holds_is_refused() {
        for (bytes, bad) in [
            (&[0x90][..], BadFrame::Tag(0x90)),
            (&[0x10], BadFrame::Tag(0x10)),
            (&[9], BadFrame::Codec(9)),
            (&[0, 0], BadFrame::Empty),
            (&[0, 0x80, 0], BadFrame::Length),
            (&[0, 0xFF, 0xFF, 0xFF], BadFrame::Length),
            (
                &[0, 0xFF, 0xFF, 0x7F],
                BadFrame::TooLong {
                    original: (1 << 21) - 1,
                    announced: 1000,
                },
            ),
            (&[1, 10, 10], BadFrame::NotSmaller),
            (&[1, 10, 0], BadFrame::NotSmaller),
            (&[0x80, 0, 0, 0, 0], BadFrame::Checksum),
        ] {
            assert_eq!(Frame::parse(bytes, 0, 1000), Err(bad), "{bytes:?}");
        }
        let preamble = |bytes: &[u8; 8]| Preamble::parse(*bytes);
        assert_eq!(preamble(b"GET / HT"), Err(BadFrame::Magic));
        assert_eq!(preamble(b"XIOZ\x02\0\0\x01"), Err(BadFrame::Version(2)));
        assert_eq!(preamble(b"XIOZ\x01\0\0\0"), Err(BadFrame::Announced(0)));
        assert_eq!(
            preamble(b"XIOZ\x01\x01\0\x10"),
            Err(BadFrame::Announced(MAX_BLOCK + 1))
        );
        assert_eq!(
            preamble(b"XIOZ\x01\0\0\x10"),
            Ok(Preamble { block: MAX_BLOCK })
        );
    }

    #[test]
    fn an_end_mark_counts_the_blocks() {
        let end = Head::end(7);
        assert_eq!(Frame::parse(end.bytes(), 7, 1), Ok(Some((Frame::End, 5))));
        assert_eq!(Frame::parse(end.bytes(), 6, 1), Err(BadFrame::Checksum));
        assert_eq!(Frame::parse(&end.bytes()[..4], 7, 1), Ok(None));
    }
}
