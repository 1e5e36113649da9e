//! `Sealer` and `Opener`: bytes to checked blocks and back, without I/O.

use std::fmt;

use sha2::{Digest, Sha256};

/// Most bytes of a block.
pub(crate) const MAX_BLOCK: usize = 1 << 20;
const HEADER: usize = 12;
const DIGEST: usize = 32;
/// Most memory allocated at once for announced bytes.
const STEP: usize = 64 << 10;

/// The checksum of a block: its length and number, and its bytes.
fn checksum(length: u32, number: u32, bytes: &[u8]) -> u32 {
    let head = (u64::from(length) << 32 | u64::from(number)).to_be_bytes();
    crc32c::crc32c_append(crc32c::crc32c(&head), bytes)
}

/// Writes blocks.
#[derive(Debug, Clone, Default)]
pub struct Sealer {
    number: u32,
    digest: Sha256,
}

impl Sealer {
    /// A sealer at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a block of `bytes`, at least one and at most 1 MiB, to `out`.
    ///
    /// # Panics
    /// If there are none, or more.
    pub fn block(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        assert!(
            (1..=MAX_BLOCK).contains(&bytes.len()),
            "a block is 1 byte to 1 MiB"
        );
        self.digest.update(bytes);
        self.put(bytes.len(), bytes, out);
    }

    /// Appends the mark that ends the stream, and its digest.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        let digest = self.digest.finalize_reset();
        self.put(0, &digest, out);
    }

    fn put(&mut self, length: usize, bytes: &[u8], out: &mut Vec<u8>) {
        let length = u32::try_from(length).expect("a block is at most 1 MiB");
        out.reserve(HEADER + bytes.len());
        out.extend(length.to_be_bytes());
        out.extend(self.number.to_be_bytes());
        out.extend(checksum(length, self.number, bytes).to_be_bytes());
        out.extend_from_slice(bytes);
        self.number = self.number.wrapping_add(1);
    }
}

/// Checks blocks and returns the bytes of good ones.
#[derive(Debug, Clone)]
pub struct Opener {
    state: State,
    /// The current block: header and body.
    bytes: Vec<u8>,
    /// Number of received bytes in it.
    filled: usize,
    /// Position of the next byte to return.
    next: usize,
    number: u64,
    digest: Sha256,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Header,
    /// This number of bytes follows the header.
    Body(usize),
    /// The block is good.
    Good,
    /// The end mark is good; the end of the stream must follow.
    Marked,
    Ended,
    Failed(BadBlock),
}

impl Default for Opener {
    fn default() -> Self {
        Self::new()
    }
}

impl Opener {
    /// An opener at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self {
            state: State::Header,
            bytes: Vec::new(),
            filled: 0,
            next: 0,
            number: 0,
            digest: Sha256::new(),
        }
    }

    /// Checked bytes that are not [taken](Self::taken) yet.
    #[must_use]
    pub fn good(&self) -> &[u8] {
        match self.state {
            State::Good => self.bytes.get(self.next..).unwrap_or_default(),
            _ => &[],
        }
    }

    /// Removes `n` of the good bytes.
    pub fn taken(&mut self, n: usize) {
        self.next += n;
        if self.good().is_empty() && self.state == State::Good {
            self.begin();
        }
    }

    fn begin(&mut self) {
        self.state = State::Header;
        self.bytes.clear();
        self.filled = 0;
    }

    /// Whether the end of the stream must follow.
    #[must_use]
    pub fn is_marked(&self) -> bool {
        self.state == State::Marked
    }

    /// The buffer for the next bytes of the stream; `None` after its clean end.
    ///
    /// # Errors
    /// [`BadBlock`], from then on at every call.
    pub fn room(&mut self) -> Result<Option<&mut [u8]>, BadBlock> {
        let end = match self.state {
            State::Failed(bad) => return Err(bad),
            State::Ended => return Ok(None),
            State::Header => HEADER,
            State::Body(length) => (HEADER + length).min(self.filled + STEP),
            // Nothing is read while there are good bytes.
            State::Good => self.filled,
            State::Marked => 1,
        };
        self.bytes.resize(end, 0);
        Ok(self.bytes.get_mut(self.filled..))
    }

    /// Records `n` bytes received in [`room`](Self::room); 0 is the end of the stream.
    ///
    /// # Errors
    /// [`BadBlock`].
    pub fn came(&mut self, n: usize) -> Result<(), BadBlock> {
        self.filled += n;
        let checked = match self.state {
            State::Failed(bad) => Err(bad),
            State::Ended | State::Good => Ok(()),
            State::Marked if n == 0 => {
                self.state = State::Ended;
                self.bytes = Vec::new();
                Ok(())
            }
            State::Marked => Err(BadBlock::Beyond {
                blocks: self.number,
            }),
            _ if n == 0 => Err(BadBlock::Cut { block: self.number }),
            State::Header if self.filled == HEADER => self.header(),
            State::Body(length) if self.filled == HEADER + length => self.body(),
            State::Header | State::Body(_) => Ok(()),
        };
        if let Err(bad) = checked {
            self.state = State::Failed(bad);
        }
        checked
    }

    fn field(&self, at: usize) -> u32 {
        let bytes = self.bytes.get(at..).and_then(|rest| rest.first_chunk());
        u32::from_be_bytes(*bytes.expect("the header is complete"))
    }

    fn header(&mut self) -> Result<(), BadBlock> {
        let block = self.number;
        let length = self.field(0);
        let known = usize::try_from(length).unwrap_or(usize::MAX);
        if known > MAX_BLOCK {
            return Err(BadBlock::Long { block, length });
        }
        self.state = State::Body(if known == 0 { DIGEST } else { known });
        Ok(())
    }

    fn body(&mut self) -> Result<(), BadBlock> {
        let block = self.number;
        let (length, number) = (self.field(0), self.field(4));
        let body = self.bytes.get(HEADER..).unwrap_or_default();
        if checksum(length, number, body) != self.field(8) {
            return Err(BadBlock::Checksum { block });
        }
        if u64::from(number) != block & u64::from(u32::MAX) {
            return Err(BadBlock::Number { block, number });
        }
        if length == 0 {
            if self.digest.finalize_reset().as_slice() != body {
                return Err(BadBlock::Digest { blocks: block });
            }
            self.state = State::Marked;
            self.bytes = Vec::new();
            self.filled = 0;
            return Ok(());
        }
        self.digest.update(body);
        self.number += 1;
        self.next = HEADER;
        self.state = State::Good;
        Ok(())
    }
}

/// The fault of a stream of blocks. Blocks are counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadBlock {
    /// The block announces more bytes than the limit.
    Long {
        /// Number of the block.
        block: u64,
        /// The announced bytes.
        length: u32,
    },
    /// The checksum differs.
    Checksum {
        /// Number of the block.
        block: u64,
    },
    /// The block is good, but not the next one.
    Number {
        /// Number of the next block.
        block: u64,
        /// Number of the received block, modulo 2^32.
        number: u32,
    },
    /// Every block is good, but the digest of all differs.
    Digest {
        /// Number of blocks.
        blocks: u64,
    },
    /// Bytes follow the end mark.
    Beyond {
        /// Number of blocks before it.
        blocks: u64,
    },
    /// The stream ended before its end mark.
    Cut {
        /// Number of the next block.
        block: u64,
    },
}

impl fmt::Display for BadBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Long { block, length } => write!(
                f,
                "block {block} announces {length} bytes, more than {MAX_BLOCK}; does the peer use verify?"
            ),
            Self::Checksum { block } => {
                write!(f, "block {block} is corrupt: its checksum differs")
            }
            Self::Number { block, number } => {
                write!(f, "block {number} arrived in place of block {block}")
            }
            Self::Digest { blocks } => {
                write!(f, "the digest of all {blocks} blocks differs")
            }
            Self::Beyond { blocks } => {
                write!(f, "bytes follow the end mark after {blocks} blocks")
            }
            Self::Cut { block } => {
                write!(f, "the stream ended in block {block}, before its end mark")
            }
        }
    }
}

impl std::error::Error for BadBlock {}
