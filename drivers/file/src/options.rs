//! `FileOptions`: how a file is opened.

use std::fmt;
use std::str::FromStr;

use xio_core::{BadValue, Entry, Error, Opt, OptionText, Result, Value};

pub(crate) const OPTIONS: &[Opt] = &[
    Opt::new(
        "blocking",
        "yes or no",
        "changes nothing: files are read and written on threads that may block",
    ),
    Opt::new(
        "flags",
        "one of r r+ w w+ a a+",
        "what the file is opened for, as fopen has it",
    )
    .local(),
    Opt::new(
        "mode",
        "octal digits, as 0644",
        "permissions of a file that is made",
    )
    .local(),
    Opt::new("offset", "bytes, as 1M", "where reading and writing begin").local(),
];

/// What a file is opened for, as `fopen` names it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flags {
    /// `r`: reading.
    #[default]
    Read,
    /// `r+`: reading and writing a file that exists.
    Update,
    /// `w`: writing a file that is made or emptied.
    Write,
    /// `w+`: reading and writing a file that is made or emptied.
    Rewrite,
    /// `a`: writing at the end of a file, which is made where it is missing.
    Append,
    /// `a+`: reading, and writing at the end.
    ReadAppend,
}

impl Flags {
    const ALL: [(Self, &'static str); 6] = [
        (Self::Read, "r"),
        (Self::Update, "r+"),
        (Self::Write, "w"),
        (Self::Rewrite, "w+"),
        (Self::Append, "a"),
        (Self::ReadAppend, "a+"),
    ];
}

impl FromStr for Flags {
    type Err = BadValue;

    fn from_str(text: &str) -> Result<Self, BadValue> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text);
        found.map(|(flags, _)| *flags).ok_or(BadValue)
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = Self::ALL.iter().find(|(flags, _)| flags == self);
        f.write_str(found.map_or("r", |(_, name)| name))
    }
}

/// How a file is opened. The string form and this struct meet in `FromStr` and `Display`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileOptions {
    /// What it is opened for; reading by default.
    pub flags: Flags,
    /// Permissions of a file that is made, before the umask; 0666 by default.
    pub mode: u32,
    /// Where reading and writing begin, in bytes from the start; 0 by default.
    pub offset: u64,
}

impl Default for FileOptions {
    fn default() -> Self {
        Self {
            flags: Flags::Read,
            mode: 0o666,
            offset: 0,
        }
    }
}

impl FileOptions {
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
            "flags" => self.flags = value.parse()?,
            "mode" => {
                let digits = value.text();
                let octal = digits.bytes().all(|b| (b'0'..=b'7').contains(&b));
                let mode = u32::from_str_radix(digits, 8).map_err(|_| BadValue)?;
                if !octal || mode > 0o7777 {
                    return Err(BadValue);
                }
                self.mode = mode;
            }
            "offset" => self.offset = value.size()?.bytes(),
            _ => return Err(BadValue),
        }
        Ok(())
    }
}

impl FromStr for FileOptions {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::from_entry(&Entry::new("file")?.with_options(text)?)
    }
}

impl fmt::Display for FileOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = Self::default();
        OptionText::new()
            .add("flags", (self.flags != plain.flags).then_some(self.flags))
            .add(
                "mode",
                (self.mode != plain.mode).then(|| format!("{:04o}", self.mode)),
            )
            .add("offset", (self.offset > 0).then_some(self.offset))
            .fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    proptest! {
        #[test]
        fn display_round_trips(flags in 0..6_usize, mode in 0..=0o7777_u32, offset in any::<u64>()) {
            let options = FileOptions { flags: Flags::ALL[flags].0, mode, offset };
            prop_assert_eq!(options.to_string().parse::<FileOptions>().unwrap(), options);
        }
    }

    #[test]
    fn bad_values_are_refused() {
        for bad in [
            "flags=rw",
            "flags=",
            "mode=+644",
            "mode=888",
            "mode=17777",
            "offset=-1",
            "blocking=1",
        ] {
            assert!(bad.parse::<FileOptions>().is_err(), "{bad}");
        }
    }
}
