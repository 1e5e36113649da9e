//! `Codec`: compress one block, decompress one block; the whole interface of an algorithm.

mod fill;
mod lz4;
#[cfg(feature = "lzo")]
mod lzo;
mod stored;
mod zlib;
mod zstd;

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use xio_core::BadValue;

pub(crate) use fill::is_fill;

/// The algorithms, by the number that they have on the wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Algorithm {
    /// The bytes as they are.
    Stored = 0,
    /// Raw deflate (RFC 1951) in blocks of their own.
    Zlib = 1,
    /// LZO1X, only in builds with the feature `lzo`.
    Lzo = 2,
    /// Zstandard (RFC 8878), a frame for each block.
    #[default]
    Zstd = 3,
    /// The block format of LZ4.
    Lz4 = 4,
    /// One byte for a block that repeats it, as in holes of files; part of every codec's streams.
    Fill = 5,
}

impl Algorithm {
    /// All algorithms, built or not.
    pub const ALL: [Self; 6] = [
        Self::Stored,
        Self::Zlib,
        Self::Lzo,
        Self::Zstd,
        Self::Lz4,
        Self::Fill,
    ];

    /// Its number on the wire.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The algorithm of a number on the wire.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.number() == number)
    }

    /// Its name in a stack string.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Zlib => "zlib",
            Self::Lzo => "lzo",
            Self::Zstd => "zstd",
            Self::Lz4 => "lz4",
            Self::Fill => "fill",
        }
    }

    /// Whether this build has it.
    #[must_use]
    pub const fn is_built(self) -> bool {
        !matches!(self, Self::Lzo) || cfg!(feature = "lzo")
    }

    /// Levels that it accepts, the fastest first; none where it knows no levels.
    #[must_use]
    pub const fn levels(self) -> Option<RangeInclusive<i32>> {
        match self {
            Self::Stored | Self::Lz4 | Self::Fill => None,
            Self::Zlib => Some(1..=9),
            Self::Lzo => Some(1..=9),
            Self::Zstd => Some(-7..=19),
        }
    }

    /// The default level.
    #[must_use]
    pub const fn default_level(self) -> i32 {
        match self {
            Self::Stored | Self::Lz4 | Self::Fill => 0,
            Self::Zlib => 6,
            Self::Lzo | Self::Zstd => 3,
        }
    }

    /// The error that this build lacks it, with the remedy.
    #[must_use]
    pub fn how_to_get(self) -> String {
        format!(
            "this build has no {self} codec, because its library is under the GPL, version 2; a \
             build with `--features {self}` has it and falls under that licence"
        )
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        Self::ALL
            .into_iter()
            .find(|one| one.name() == text)
            .ok_or(BadValue)
    }
}

/// The packed bytes do not unpack to a block of that length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "codecs make it, and it says all there is to say"
)]
pub struct Corrupt;

/// An algorithm on blocks of bytes, without frames, order or streams.
///
/// Blocks stand by themselves: none is needed to unpack another. A codec keeps tables between
/// calls for speed only.
pub trait Codec: Send {
    /// Packs `block` into the beginning of `out` and returns the length; `None` when it could not.
    ///
    /// `out` has at least [`room_for`] the block.
    fn compress(&mut self, block: &[u8], out: &mut [u8]) -> Option<usize>;

    /// Unpacks into `block`, which has the length of the original.
    ///
    /// # Errors
    /// [`Corrupt`] unless `packed` unpacks to exactly that many bytes. It never writes more, and
    /// allocates nothing by a length in `packed`.
    fn decompress(&mut self, packed: &[u8], block: &mut [u8]) -> Result<(), Corrupt>;
}

/// The room in bytes that any codec may need while it packs a block of `len` bytes.
#[must_use]
pub const fn room_for(len: usize) -> usize {
    len + len / 8 + 128
}

/// Makes a codec; `level` is brought into the range that it knows.
///
/// # Panics
/// When this build lacks it; ask [`Algorithm::is_built`] before.
#[must_use]
pub fn make(algorithm: Algorithm, level: i32) -> Box<dyn Codec> {
    let level = algorithm
        .levels()
        .map_or(0, |known| level.clamp(*known.start(), *known.end()));
    match algorithm {
        Algorithm::Stored => Box::new(stored::Stored),
        Algorithm::Zlib => Box::new(zlib::Zlib::new(level)),
        #[cfg(feature = "lzo")]
        Algorithm::Lzo => Box::new(lzo::Lzo::new(level)),
        #[cfg(not(feature = "lzo"))]
        Algorithm::Lzo => panic!("asked for a codec that this build lacks"),
        Algorithm::Zstd => Box::new(zstd::Zstd::new(level)),
        Algorithm::Lz4 => Box::new(lz4::Lz4::default()),
        Algorithm::Fill => Box::new(fill::Fill),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_of_one_algorithm_each() {
        for one in Algorithm::ALL {
            assert_eq!(Algorithm::from_number(one.number()), Some(one));
            assert_eq!(one.name().parse(), Ok(one));
            let level = one.default_level();
            assert!(one.levels().is_none_or(|levels| levels.contains(&level)));
        }
        assert_eq!(Algorithm::from_number(6), None);
        assert_eq!("gzip".parse::<Algorithm>(), Err(BadValue));
    }
}
