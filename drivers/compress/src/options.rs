//! `CompressOptions`: codec, size of blocks, number of threads, and the rules for stored blocks.

use xio_core::{ByteSize, Error, ErrorKind, Operation, Result, Setting};

use crate::codec::Algorithm;
use crate::frame::MAX_BLOCK;
use crate::{Compress, LAYER};

const SMALLEST_BLOCK: usize = 256;
const MOST_THREADS: usize = 64;

/// The way to choose the codec.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strategy {
    /// By the options.
    #[default]
    Fixed,
    /// By the driver, from the gain and cost of compression and the speed of the link.
    Auto,
}

xio_core::words! { Strategy: "fixed or auto", Fixed = "fixed", Auto = "auto" }

xio_core::options! {
    /// Settings of the compression of sent data; `None` is the default.
    ///
    /// The other end chooses the codec of its data, block by block.
    #[derive(Copy)]
    pub struct CompressOptions for "compress" [impl Compress] check Self::check {
        /// Most bytes that are compressed at once, from 256 bytes to 1 MiB; 64 KiB by default.
        block: Option<ByteSize> = None, "block",
            Setting::new().takes("bytes from 256 to 1M, as 64K", &["64K", "1M"]);
        /// The codec; `zstd` by default. Not with `strategy=auto`.
        codec: Option<Algorithm> = None, "codec",
            Setting::with("stored, zlib, lzo, zstd or lz4",
                &["stored", "zlib", "zstd", "lz4"],
                |value| value.parse().map(Some),
                |codec| Some((*codec)?.to_string()),
            );
        /// Percent by which a block must shrink to be sent compressed; 1 by default.
        gain: Option<u8> = None, "gain", Setting::new().takes("percent from 0 to 99", &["0", "99"]);
        /// Level of the codec: more is smaller and slower. Not with `strategy=auto`.
        level: Option<i32> = None, "level",
            Setting::with("1 to 9 for zlib and lzo, -7 to 19 for zstd",
                &["1", "9"],
                |value| value.parse().map(Some),
                |level| Some((*level)?.to_string()),
            );
        /// Bytes below which a block is sent stored; 64 by default.
        smallest: Option<ByteSize> = None, "smallest",
            Setting::new().takes("bytes, as 4K", &["4K", "0"]).read_by(|v| v.size().map(Some));
        /// The way to choose the codec.
        strategy: Strategy = Strategy::Fixed, "strategy";
        /// Most blocks of a stream that are compressed at once; 1 by default.
        threads: Option<usize> = None, "threads",
            Setting::with("1 to 64",
                &["1", "64"],
                |value| value.parse().map(Some),
                |threads| Some((*threads)?.to_string()),
            );
    }
}

impl CompressOptions {
    /// Refuses values out of range, and options that contradict each other.
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

    /// Most blocks that are packed at once: no more than processors, since a peer may have chosen
    /// the number.
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

/// The rules for stored blocks, whatever the codec.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    smallest: usize,
    gain: u8,
    fills: bool,
}

impl Rules {
    /// Whether blocks of one repeated byte are sent as that byte.
    pub(crate) const fn fills(self) -> bool {
        self.fills
    }

    /// Whether a block of this length is worth a try.
    pub(crate) const fn allow(self, original: usize) -> bool {
        original >= self.smallest && original > 1
    }

    /// Whether the packed bytes are worth unpacking.
    pub(crate) const fn accept(self, original: usize, packed: usize) -> bool {
        packed < original && packed * 100 <= original * (100 - self.gain as usize)
    }

    /// The largest share of its length that a packed block may have.
    pub(crate) fn most(self) -> f64 {
        1.0 - f64::from(self.gain) / 100.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
