//! `CodecCache`: the codecs shared by all streams of a layer, so that idle streams hold no tables.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::codec::{self, Algorithm, Codec, Corrupt, is_fill, room_for};
use crate::frame::{BadFrame, Head, Header};
use crate::options::Rules;

/// Most idle sets of codecs that are kept; further ones are dropped after use.
const KEPT: usize = 16;

/// An algorithm at a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) algorithm: Algorithm,
    pub(crate) level: i32,
}

impl Choice {
    pub(crate) const STORED: Self = Self {
        algorithm: Algorithm::Stored,
        level: 0,
    };

    /// Estimated time to pack `len` bytes, by which long work moves to another thread.
    pub(crate) fn time(self, len: usize) -> Duration {
        let nanoseconds_a_byte = match (self.algorithm, self.level) {
            (Algorithm::Stored | Algorithm::Fill, _) => 0,
            (Algorithm::Lz4, _) => 2,
            (Algorithm::Lzo, ..=4) => 3,
            (Algorithm::Lzo, _) => 40,
            (Algorithm::Zlib, ..=3) => 10,
            (Algorithm::Zlib, ..=6) => 25,
            (Algorithm::Zlib, _) => 50,
            (Algorithm::Zstd, ..=3) => 6,
            (Algorithm::Zstd, ..=9) => 25,
            (Algorithm::Zstd, _) => 200,
        };
        Duration::from_nanos(nanoseconds_a_byte * len as u64)
    }
}

/// Estimated time to unpack to `len` bytes.
pub(crate) fn unpacking_time(algorithm: Algorithm, len: usize) -> Duration {
    let nanoseconds_a_byte = match algorithm {
        Algorithm::Stored | Algorithm::Fill => 0,
        Algorithm::Lz4 => 1,
        Algorithm::Zlib | Algorithm::Lzo | Algorithm::Zstd => 2,
    };
    Duration::from_nanos(nanoseconds_a_byte * len as u64)
}

/// A codec and its settings.
struct CachedCodec {
    choice: Choice,
    codec: Box<dyn Codec>,
}

/// The codecs of one worker, made on first use.
#[derive(Default)]
struct CodecSet(Vec<CachedCodec>);

impl CodecSet {
    fn codec(&mut self, choice: Choice) -> &mut dyn Codec {
        let at = self
            .0
            .iter()
            .position(|tool| tool.choice == choice)
            .unwrap_or_else(|| {
                let codec = codec::make(choice.algorithm, choice.level);
                self.0.push(CachedCodec { choice, codec });
                self.0.len() - 1
            });
        &mut *self
            .0
            .get_mut(at)
            .expect("found or pushed just above")
            .codec
    }
}

/// The source of the workers' codecs. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct CodecCache(Arc<Mutex<Vec<CodecSet>>>);

impl fmt::Debug for CodecCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("codec cache")
    }
}

/// A packed block.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) head: Head,
    /// The payload after the head: `payload_len` bytes.
    pub(crate) payload: Vec<u8>,
    pub(crate) payload_len: usize,
    /// The memory of the block, where it is not the payload.
    pub(crate) spare: Vec<u8>,
    /// One for each choice that was tried.
    pub(crate) outcomes: Vec<Outcome>,
    /// Start of packing.
    pub(crate) began: Instant,
}

/// Gain and cost of packing a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    pub(crate) choice: Choice,
    pub(crate) original: usize,
    /// The packed length, even where the block is sent stored.
    pub(crate) packed: usize,
    pub(crate) time: Duration,
}

impl CodecCache {
    fn stock(&self) -> MutexGuard<'_, Vec<CodecSet>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, choice: Choice, work: impl FnOnce(&mut dyn Codec) -> T) -> T {
        let mut bench = self.stock().pop().unwrap_or_default();
        let done = work(bench.codec(choice));
        let mut stock = self.stock();
        if stock.len() < KEPT {
            stock.push(bench);
        }
        done
    }

    /// Packs a block by each choice and keeps the smallest result; stores it where the rules or its
    /// contents require that.
    ///
    /// `room` is memory that may be used.
    pub(crate) fn pack(
        &self,
        choices: &[Choice],
        rules: Rules,
        number: u64,
        block: Vec<u8>,
        mut room: Vec<u8>,
    ) -> Packed {
        let (original, began) = (block.len(), Instant::now());
        let mut outcomes = Vec::with_capacity(choices.len());
        let mut best = (Algorithm::Stored, original);
        if rules.fills() && is_fill(&block) {
            room.clear();
            room.extend(block.first());
            best = (Algorithm::Fill, 1);
        } else if rules.allow(original) {
            let mut other = Vec::new();
            for &choice in choices.iter().filter(|choice| **choice != Choice::STORED) {
                let tried = Instant::now();
                other.resize(room_for(original).max(other.len()), 0);
                let packed = self.with(choice, |codec| codec.compress(&block, &mut other));
                let packed = packed.unwrap_or(original);
                outcomes.push(Outcome {
                    choice,
                    original,
                    packed,
                    time: tried.elapsed(),
                });
                if packed < best.1 && rules.accept(original, packed) {
                    best = (choice.algorithm, packed);
                    std::mem::swap(&mut room, &mut other);
                }
            }
        }
        let (algorithm, payload_len) = best;
        let head = Head::new(number, algorithm, &block, payload_len);
        let (payload, spare) = match algorithm {
            Algorithm::Stored => (block, room),
            _ => (room, block),
        };
        Packed {
            head,
            payload,
            payload_len,
            spare,
            outcomes,
            began,
        }
    }

    /// Returns the share of a sample that is left when it is packed by the reference codec.
    pub(crate) fn sample(&self, choice: Choice, sample: &[u8]) -> f64 {
        let mut room = vec![0; room_for(sample.len())];
        let packed = self.with(choice, |codec| codec.compress(sample, &mut room));
        let share = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
        packed.map_or(1.0, |packed| share(packed) / share(sample.len().max(1)))
    }

    /// Unpacks block `number` and compares its checksum.
    pub(crate) fn unpack(
        &self,
        header: Header,
        number: u64,
        packed: &[u8],
        mut block: Vec<u8>,
    ) -> Result<Vec<u8>, BadFrame> {
        block.resize(header.original, 0);
        let Header {
            algorithm,
            checksum,
            ..
        } = header;
        let choice = Choice {
            algorithm,
            level: algorithm.default_level(),
        };
        self.with(choice, |codec| codec.decompress(packed, &mut block))
            .map_err(|Corrupt| BadFrame::Corrupt(algorithm))?;
        let mut found = header.verify(number);
        found.add(&block);
        if found.finish() == checksum {
            Ok(block)
        } else {
            Err(BadFrame::Checksum)
        }
    }
}
