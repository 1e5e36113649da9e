//! `OrderingOptions`: how much may be kept, from a string and back.

use std::fmt;
use std::str::FromStr;

use xio_core::{
    BadValue, ByteSize, Entry, Error, ErrorKind, Operation, Opt, OptionText, Result, Value,
};

/// Most bytes of all buffers together; a peer's string may have asked for them.
const MAX_MEMORY: u64 = 256 << 20;

pub(crate) const OPTIONS: &[Opt] = &[
    Opt::new("buf_size", "bytes, 1K to 16M", "most bytes of a buffer"),
    Opt::new("buffering", "yes or no", "keep blocks that are not next"),
    Opt::new(
        "max_buf_count",
        "a number, 1 to 65536",
        "how many buffers, of 256M together",
    ),
    Opt::new(
        "max_read_count",
        "a number, 1 to 65536",
        "blocks taken in one go",
    ),
];

/// How much is kept. The string form and this struct meet in `FromStr` and `Display`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct OrderingOptions {
    /// Most bytes of a buffer; 256 KiB by default.
    pub buf_size: ByteSize,
    /// Whether blocks that are not next are kept; they are by default.
    pub buffering: bool,
    /// How many buffers there are; 64 by default.
    pub max_buf_count: u32,
    /// How many blocks one read takes from below before it lets others run; 64 by default.
    pub max_read_count: u32,
}

impl Default for OrderingOptions {
    fn default() -> Self {
        Self {
            buf_size: ByteSize::new(256 << 10),
            buffering: true,
            max_buf_count: 64,
            max_read_count: 64,
        }
    }
}

impl OrderingOptions {
    /// Reads the options of one entry of a stack string.
    ///
    /// # Errors
    /// An option that is unknown or whose value is not accepted, and buffers of more than 256 MiB
    /// together.
    pub fn from_entry(entry: &Entry) -> Result<Self> {
        let mut options = Self::default();
        entry.apply(OPTIONS, &mut options, Self::set)?;
        let memory = options.buf_size.bytes() * u64::from(options.max_buf_count);
        if memory > MAX_MEMORY {
            let fact = format!(
                "{} buffers of {} bytes are more than 256M together",
                options.max_buf_count, options.buf_size
            );
            let kind = ErrorKind::BadOption;
            return Err(Error::new(kind, crate::LAYER, Operation::Plan, fact));
        }
        Ok(options)
    }

    fn set(&mut self, key: &str, value: Value<'_>) -> Result<(), BadValue> {
        let count = || match value.parse()? {
            count @ 1..=65536 => Ok(count),
            _ => Err(BadValue),
        };
        match key {
            "buf_size" => {
                self.buf_size = value.size()?;
                if !(1 << 10..=16 << 20).contains(&self.buf_size.bytes()) {
                    return Err(BadValue);
                }
            }
            "buffering" => self.buffering = value.bool()?,
            "max_buf_count" => self.max_buf_count = count()?,
            "max_read_count" => self.max_read_count = count()?,
            _ => return Err(BadValue),
        }
        Ok(())
    }
}

impl FromStr for OrderingOptions {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::from_entry(&Entry::new(crate::LAYER)?.with_options(text)?)
    }
}

impl fmt::Display for OrderingOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = Self::default();
        let other = |value: u32, plain: u32| (value != plain).then_some(value);
        OptionText::new()
            .add(
                "buf_size",
                (self.buf_size != plain.buf_size).then_some(self.buf_size),
            )
            .add("buffering", (!self.buffering).then_some(0))
            .add(
                "max_buf_count",
                other(self.max_buf_count, plain.max_buf_count),
            )
            .add(
                "max_read_count",
                other(self.max_read_count, plain.max_read_count),
            )
            .fmt(f)
    }
}
