//! `CompressOptions`: which codec, how large the blocks, how many threads, and the rules.

use std::fmt;
use std::str::FromStr;

use xio_core::{
    BadValue, ByteSize, Entry, Error, ErrorKind, Operation, Opt, OptionText, Result, Value,
};

use crate::LAYER;
use crate::codec::Algorithm;
use crate::frame::MAX_BLOCK;

const SMALLEST_BLOCK: usize = 256;
const MOST_THREADS: usize = 64;

pub(crate) const OPTIONS: &[Opt] = &[
    Opt::new(
        "block",
        "bytes from 256 to 1M, as 64K",
        "most that is compressed at once",
    ),
    Opt::new("codec", "stored, zlib, lzo, zstd or lz4", "how to compress"),
    Opt::new(
        "gain",
        "percent from 0 to 99",
        "a block that shrinks by less is sent as it is",
    ),
    Opt::new(
        "level",
        "1 to 9 for zlib and lzo, -7 to 19 for zstd",
        "how hard to try; more is smaller and slower",
    ),
    Opt::new(
        "smallest",
        "bytes, as 4K",
        "a smaller block is sent as it is",
    ),
    Opt::new(
        "strategy",
        "fixed or auto",
        "whether to choose the codec while data flow",
    ),
    Opt::new(
        "threads",
        "1 to 64",
        "how many blocks of a stream are worked on at once",
    ),
];

/// Who chooses the codec.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strategy {
    /// The options do.
    #[default]
    Fixed,
    /// The driver does, from what compressing gains and costs and from how fast the link is.
    Auto,
}

impl FromStr for Strategy {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        match text {
            "fixed" => Ok(Self::Fixed),
            "auto" => Ok(Self::Auto),
            _ => Err(BadValue),
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fixed => "fixed",
            Self::Auto => "auto",
        })
    }
}

/// What a user chooses of the layer; `None` is the default.
///
/// The options rule what this end sends. What it reads, the other end chose, block by block.
/// The string form and this struct meet in `FromStr` and `Display`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompressOptions {
    /// Most bytes that are compressed at once, from 256 bytes to 1 MiB; 64 KiB by default.
    pub block: Option<ByteSize>,
    /// The codec; `zstd` by default. Not with [`Strategy::Auto`].
    pub codec: Option<Algorithm>,
    /// Percent by which a block must shrink to be sent compressed; 1 by default.
    pub gain: Option<u8>,
    /// The codec's level; its own default otherwise. Not with [`Strategy::Auto`].
    pub level: Option<i32>,
    /// Length in bytes below which a block is not worth compressing; 64 by default.
    pub smallest: Option<ByteSize>,
    /// Who chooses the codec; the options by default.
    pub strategy: Strategy,
    /// How many blocks of one stream are worked on at once, within what the machine has; 1 by default.
    pub threads: Option<usize>,
}

impl CompressOptions {
    /// One codec for all blocks.
    #[must_use]
    pub const fn fixed(codec: Algorithm) -> Self {
        Self {
            block: None,
            codec: Some(codec),
            gain: None,
            level: None,
            smallest: None,
            strategy: Strategy::Fixed,
            threads: None,
        }
    }

    /// The codec that is best at any time.
    #[must_use]
    pub fn auto() -> Self {
        Self {
            strategy: Strategy::Auto,
            ..Self::default()
        }
    }

    /// Reads the options of one entry of a stack string.
    ///
    /// # Errors
    /// An option that is unknown, whose value is not accepted, or that does not go with another.
    pub fn from_entry(entry: &Entry) -> Result<Self> {
        let mut options = Self::default();
        entry.apply(OPTIONS, &mut options, Self::set)?;
        options.check()?;
        Ok(options)
    }

    fn set(&mut self, key: &str, value: Value<'_>) -> Result<(), BadValue> {
        match key {
            "block" => self.block = Some(value.size()?),
            "codec" => self.codec = Some(value.parse()?),
            "gain" => self.gain = Some(value.parse()?),
            "level" => self.level = Some(value.parse()?),
            "smallest" => self.smallest = Some(value.size()?),
            "strategy" => self.strategy = value.parse()?,
            "threads" => self.threads = Some(value.parse()?),
            _ => return Err(BadValue),
        }
        Ok(())
    }

    /// Says what does not go, or does not go together.
    pub(crate) fn check(&self) -> Result<()> {
        let bad = |fact: String| {
            Err(Error::new(
                ErrorKind::BadOption,
                LAYER,
                Operation::Plan,
                fact,
            ))
        };
        if !(SMALLEST_BLOCK..=MAX_BLOCK).contains(&self.block_len()) {
            let block = self.block_len();
            return bad(format!(
                "block={block}: {SMALLEST_BLOCK} to {MAX_BLOCK} bytes are accepted"
            ));
        }
        if self.gain.is_some_and(|gain| gain > 99) {
            return bad("gain: 0 to 99 percent are accepted".into());
        }
        if !(1..=MOST_THREADS).contains(&self.thread_count()) {
            return bad(format!("threads: 1 to {MOST_THREADS} are accepted"));
        }
        if self.strategy == Strategy::Auto && (self.codec.is_some() || self.level.is_some()) {
            return bad("strategy=auto chooses codec and level itself; leave them out".into());
        }
        let codec = self.codec.unwrap_or_default();
        if !codec.is_built() {
            return bad(codec.how_to_get());
        }
        match (self.level, codec.levels()) {
            (None, _) => Ok(()),
            (Some(_), None) => bad(format!("codec={codec} knows no levels; leave level out")),
            (Some(level), Some(known)) if !known.contains(&level) => bad(format!(
                "level={level}: codec={codec} knows {} to {}",
                known.start(),
                known.end()
            )),
            _ => Ok(()),
        }
    }

    pub(crate) fn block_len(&self) -> usize {
        self.block.map_or(64 << 10, ByteSize::in_memory)
    }

    pub(crate) fn thread_count(&self) -> usize {
        self.threads.unwrap_or(1)
    }

    /// How many blocks are worked on at once here: no more than there are processors for, since a
    /// peer may have chosen the number.
    pub(crate) fn width(&self) -> usize {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        self.thread_count().min(processors)
    }

    pub(crate) fn rules(&self) -> Rules {
        Rules {
            smallest: self.smallest.map_or(64, ByteSize::in_memory),
            gain: self.gain.unwrap_or(1),
            fills: self.codec != Some(Algorithm::Stored),
        }
    }
}

/// When a block is sent as it is, whatever the codec.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    smallest: usize,
    gain: u8,
    fills: bool,
}

impl Rules {
    /// Whether blocks of one byte over and over are sent as that byte.
    pub(crate) const fn fills(self) -> bool {
        self.fills
    }

    /// Whether a block of this length is worth a try.
    pub(crate) const fn allow(self, original: usize) -> bool {
        original >= self.smallest && original > 1
    }

    /// Whether what came of it is worth unpacking.
    pub(crate) const fn accept(self, original: usize, packed: usize) -> bool {
        packed < original && packed * 100 <= original * (100 - self.gain as usize)
    }

    /// The share of its length that a block may have left at most.
    pub(crate) fn most(self) -> f64 {
        1.0 - f64::from(self.gain) / 100.0
    }
}

impl FromStr for CompressOptions {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::from_entry(&Entry::new(LAYER)?.with_options(text)?)
    }
}

impl fmt::Display for CompressOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let auto = (self.strategy == Strategy::Auto).then_some(self.strategy);
        OptionText::new()
            .add("block", self.block)
            .add("codec", self.codec)
            .add("gain", self.gain)
            .add("level", self.level)
            .add("smallest", self.smallest)
            .add("strategy", auto)
            .add("threads", self.threads)
            .fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy as _, any, prop, prop_assert_eq, proptest};

    use super::*;

    proptest! {
        #[test]
        fn display_round_trips(
            block in prop::option::of((256..=MAX_BLOCK as u64).prop_map(ByteSize::new)),
            gain in prop::option::of(0..100_u8),
            smallest in prop::option::of(any::<u64>().prop_map(ByteSize::new)),
            threads in prop::option::of(1..=64_usize),
            (codec, level, strategy) in prop::option::of((0..2_usize, 1..=9_i32)).prop_flat_map(|fixed| {
                Just(match fixed {
                    None => (None, None, Strategy::Auto),
                    Some((0, level)) => (Some(Algorithm::Zlib), Some(level), Strategy::Fixed),
                    Some(_) => (Some(Algorithm::Lz4), None, Strategy::Fixed),
                })
            }),
        ) {
            let options = CompressOptions { block, codec, gain, level, smallest, strategy, threads };
            prop_assert_eq!(options.to_string().parse::<CompressOptions>().unwrap(), options);
        }
    }

    #[test]
    fn what_does_not_go_is_said() {
        for (text, word) in [
            ("block=255", "256 to 1048576"),
            ("block=2M", "256 to 1048576"),
            ("gain=100", "0 to 99"),
            ("threads=0", "1 to 64"),
            ("threads=65", "1 to 64"),
            ("level=20", "-7 to 19"),
            ("codec=zlib;level=0", "1 to 9"),
            ("codec=lz4;level=1", "no levels"),
            ("codec=gzip", "stored, zlib, lzo, zstd or lz4"),
            ("strategy=auto;codec=zlib", "leave them out"),
            ("strategy=best", "fixed or auto"),
            ("method=zlib", "no option `method`"),
        ] {
            let error = text.parse::<CompressOptions>().unwrap_err();
            assert!(error.to_string().contains(word), "{text}: {error}");
            assert_eq!(error.kind(), ErrorKind::BadOption);
        }
    }

    #[test]
    fn lzo_is_there_when_it_was_asked_for() {
        let lzo = "codec=lzo;level=9".parse::<CompressOptions>();
        if cfg!(feature = "lzo") {
            assert_eq!(lzo.unwrap().codec, Some(Algorithm::Lzo));
        } else {
            let text = lzo.unwrap_err().to_string();
            assert!(
                text.contains("GPL") && text.contains("--features lzo"),
                "{text}"
            );
        }
    }

    #[test]
    fn rules_are_of_length_and_gain() {
        let rules = "gain=20;smallest=4K"
            .parse::<CompressOptions>()
            .unwrap()
            .rules();
        assert!(!rules.allow(4095) && rules.allow(4096));
        assert!(rules.accept(10_000, 8000) && !rules.accept(10_000, 8001));
        let none = "gain=0;smallest=0"
            .parse::<CompressOptions>()
            .unwrap()
            .rules();
        assert!(none.accept(100, 99) && !none.accept(100, 100));
    }
}
