//! `ModeEOptions`: how many connections and how large blocks, from a string and back.

use std::fmt;
use std::str::FromStr;

use xio_core::{BadValue, ByteSize, Entry, Error, Opt, OptionText, Result, Value};

pub(crate) const MAX_STREAMS: u32 = 64;

pub(crate) const OPTIONS: &[Opt] = &[
    Opt::new(
        "block",
        "bytes, 1K to 16M",
        "most bytes of a block that is written",
    ),
    Opt::new(
        "streams",
        "a number, 1 to 64",
        "how many connections make a stream",
    ),
];

/// How a stream is dealt out. The string form and this struct meet in `FromStr` and `Display`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModeEOptions {
    /// Most bytes of a block that is written; 256 KiB by default.
    pub block: ByteSize,
    /// Connections to open; 1 by default, and at a listener as many as come.
    pub streams: Option<u32>,
}

impl Default for ModeEOptions {
    fn default() -> Self {
        Self {
            block: ByteSize::new(256 << 10),
            streams: None,
        }
    }
}

impl ModeEOptions {
    /// Reads the options of one entry of a stack string.
    ///
    /// # Errors
    /// An option that is unknown or whose value is not accepted.
    pub fn from_entry(entry: &Entry) -> Result<Self> {
        let mut options = Self::default();
        entry.apply(OPTIONS, &mut options, Self::set)?;
        Ok(options)
    }

    fn set(&mut self, key: &str, value: Value<'_>) -> Result<(), BadValue> {
        match key {
            "block" => {
                self.block = value.size()?;
                if !(1 << 10..=16 << 20).contains(&self.block.bytes()) {
                    return Err(BadValue);
                }
            }
            "streams" => {
                let streams = value.parse()?;
                if !(1..=MAX_STREAMS).contains(&streams) {
                    return Err(BadValue);
                }
                self.streams = Some(streams);
            }
            _ => return Err(BadValue),
        }
        Ok(())
    }
}

impl FromStr for ModeEOptions {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::from_entry(&Entry::new(crate::LAYER)?.with_options(text)?)
    }
}

impl fmt::Display for ModeEOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let block = (self.block != Self::default().block).then_some(self.block);
        OptionText::new()
            .add("block", block)
            .add("streams", self.streams)
            .fmt(f)
    }
}
