//! `Capabilities`: the abilities of a backend, for FEAT, and its order of writes.

use std::fmt;
use std::str::FromStr;

/// A checksum algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ChecksumAlgorithm {
    /// MD5.
    Md5,
    /// Adler-32.
    Adler32,
    /// SHA-1.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
    /// CRC-32C.
    Crc32c,
    /// BLAKE3, of 256 bits.
    Blake3,
}

impl ChecksumAlgorithm {
    /// Every algorithm.
    pub const ALL: [Self; 7] = [
        Self::Md5,
        Self::Adler32,
        Self::Sha1,
        Self::Sha256,
        Self::Sha512,
        Self::Crc32c,
        Self::Blake3,
    ];

    /// The name on the wire, as in `CKSM` and its FEAT line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Md5 => "MD5",
            Self::Adler32 => "ADLER32",
            Self::Sha1 => "SHA1",
            Self::Sha256 => "SHA256",
            Self::Sha512 => "SHA512",
            Self::Crc32c => "CRC32C",
            Self::Blake3 => "BLAKE3",
        }
    }

    /// Finds an algorithm by its name, in any case and with or without hyphens (`SHA-256`).
    pub fn from_name(name: &[u8]) -> Option<Self> {
        let letters = |name: &[u8]| -> Vec<u8> {
            let plain = name.iter().filter(|b| **b != b'-');
            plain.map(u8::to_ascii_uppercase).collect()
        };
        let wanted = letters(name);
        let mut all = Self::ALL.into_iter();
        all.find(|algorithm| letters(algorithm.name().as_bytes()) == wanted)
    }

    /// Number of hexadecimal digits of a digest.
    pub const fn hex_len(self) -> usize {
        match self {
            Self::Adler32 | Self::Crc32c => 8,
            Self::Md5 => 32,
            Self::Sha1 => 40,
            Self::Sha256 | Self::Blake3 => 64,
            Self::Sha512 => 128,
        }
    }
}

impl fmt::Display for ChecksumAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An unknown name of a checksum algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownAlgorithm;

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown checksum algorithm, known are")?;
        for (i, algorithm) in ChecksumAlgorithm::ALL.into_iter().enumerate() {
            write!(f, "{}{algorithm}", if i == 0 { " " } else { ", " })?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownAlgorithm {}

impl FromStr for ChecksumAlgorithm {
    type Err = UnknownAlgorithm;

    fn from_str(s: &str) -> Result<Self, UnknownAlgorithm> {
        Self::from_name(s.as_bytes()).ok_or(UnknownAlgorithm)
    }
}

/// The order of writes that a backend, or one open object, accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteModel {
    /// Any offset at any time.
    Random,
    /// Whole parts of this many bytes, in any order; the last one may be shorter.
    Parts(u64),
    /// From the start to the end.
    Sequential,
}

/// The capabilities of a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Name for the FEAT line `DSI name-version`.
    pub name: &'static str,
    /// The order of writes it accepts.
    pub writes: WriteModel,
    /// Checksum algorithms with their relative costs from 1 to 20, cheapest first.
    pub checksums: Vec<(ChecksumAlgorithm, u8)>,
    /// Whether it has symbolic links.
    pub symlinks: bool,
    /// Whether an interrupted upload can be continued.
    pub resume: bool,
    /// Whether written files can be read again.
    pub keeps: bool,
    /// Whether it keeps permission bits and groups.
    pub modes: bool,
    /// Whether several processes can write to one upload: [`Sink::share`](crate::Sink::share) and
    /// [`Dsi::join`](crate::Dsi::join).
    pub shares_uploads: bool,
    /// Whether parts of a file can be changed: updates, writes in place, appends and truncation.
    pub updates: bool,
    /// Whether modification times can be set.
    pub times: bool,
    /// Resolution of modification times, in nanoseconds.
    pub time_grain: u32,
    /// Whether it acts elsewhere with the credential of each user.
    pub acts_for_users: bool,
    /// Whether files may be in an archive: [`Dsi::stage`](crate::Dsi::stage) retrieves them.
    pub stages: bool,
    /// Whether a new object can be published so that it never replaces another one:
    /// [`Finish::exclusive`](crate::Finish::exclusive).
    pub exclusive: bool,
    /// Whether a finished file is on the medium, its name included, and outlives a power cut.
    pub durable: bool,
    /// Identity of the storage machine's boot, which changes at a restart: finished files may be in its
    /// page cache only.
    pub boot: Option<u128>,
    /// Whether it tells its free space: [`Dsi::free_space`](crate::Dsi::free_space).
    pub tells_space: bool,
    /// Whether files and directories have extended attributes: [`Dsi::attributes`](crate::Dsi::attributes).
    pub attributes: bool,
}

impl Capabilities {
    /// A backend that keeps written files, changes parts of them and sets their times, and has no
    /// other optional capability.
    pub fn new(name: &'static str, writes: WriteModel) -> Self {
        Self {
            name,
            writes,
            checksums: Vec::new(),
            symlinks: false,
            resume: false,
            keeps: true,
            modes: false,
            shares_uploads: false,
            updates: true,
            times: true,
            time_grain: 1,
            acts_for_users: false,
            stages: false,
            exclusive: false,
            durable: false,
            boot: None,
            tells_space: false,
            attributes: false,
        }
    }

    /// Sets the checksum algorithms and their costs, sorted by cost.
    #[must_use]
    pub fn with_checksums(mut self, checksums: impl Into<Vec<(ChecksumAlgorithm, u8)>>) -> Self {
        self.checksums = checksums.into();
        self.checksums.sort_by_key(|(_, cost)| *cost);
        self
    }

    /// Sets whether there are symbolic links.
    #[must_use]
    pub fn with_symlinks(mut self, symlinks: bool) -> Self {
        self.symlinks = symlinks;
        self
    }

    /// Sets whether an interrupted upload can be continued.
    #[must_use]
    pub fn with_resume(mut self, resume: bool) -> Self {
        self.resume = resume;
        self
    }

    /// Sets whether written files can be read again.
    #[must_use]
    pub fn with_keeps(mut self, keeps: bool) -> Self {
        self.keeps = keeps;
        self
    }

    /// Sets whether permission bits and groups are kept.
    #[must_use]
    pub fn with_modes(mut self, modes: bool) -> Self {
        self.modes = modes;
        self
    }

    /// Sets whether several processes can write to one upload.
    #[must_use]
    pub fn with_shared_uploads(mut self, shares_uploads: bool) -> Self {
        self.shares_uploads = shares_uploads;
        self
    }

    /// Sets whether parts of a file can be changed.
    #[must_use]
    pub fn with_updates(mut self, updates: bool) -> Self {
        self.updates = updates;
        self
    }

    /// Sets whether modification times can be set.
    #[must_use]
    pub fn with_times(mut self, times: bool) -> Self {
        self.times = times;
        self
    }

    /// Sets the resolution of modification times, in nanoseconds.
    #[must_use]
    pub fn with_time_grain(mut self, nanos: u32) -> Self {
        self.time_grain = nanos.max(1);
        self
    }

    /// Sets whether it acts elsewhere with the credential of each user.
    #[must_use]
    pub fn with_acting_for_users(mut self, acts_for_users: bool) -> Self {
        self.acts_for_users = acts_for_users;
        self
    }

    /// Sets whether files may be in an archive.
    #[must_use]
    pub fn with_stages(mut self, stages: bool) -> Self {
        self.stages = stages;
        self
    }

    /// Sets whether a new object can be published so that it never replaces another one.
    #[must_use]
    pub fn with_exclusive(mut self, exclusive: bool) -> Self {
        self.exclusive = exclusive;
        self
    }

    /// Sets whether a finished file is on the medium.
    #[must_use]
    pub fn with_durable(mut self, durable: bool) -> Self {
        self.durable = durable;
        self
    }

    /// Sets the identity of the storage machine's boot.
    #[must_use]
    pub fn with_boot(mut self, boot: Option<u128>) -> Self {
        self.boot = boot;
        self
    }

    /// Sets whether it tells its free space.
    #[must_use]
    pub fn with_space(mut self, tells_space: bool) -> Self {
        self.tells_space = tells_space;
        self
    }

    /// Sets whether files and directories have extended attributes.
    #[must_use]
    pub fn with_attributes(mut self, attributes: bool) -> Self {
        self.attributes = attributes;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_in_any_case_and_print_as_on_the_wire() {
        for algorithm in ChecksumAlgorithm::ALL {
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
            assert_eq!(algorithm.to_string().to_lowercase().parse(), Ok(algorithm));
        }
        assert_eq!("sha-256".parse(), Ok(ChecksumAlgorithm::Sha256));
        let unknown = "whirlpool".parse::<ChecksumAlgorithm>().unwrap_err();
        assert!(unknown.to_string().ends_with("CRC32C, BLAKE3"), "{unknown}");
    }
}
