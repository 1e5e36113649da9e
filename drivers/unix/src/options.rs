//! `UnixOptions`: what a listener's path is made with, from a string and back.

use std::fmt;
use std::str::FromStr;

use xio_core::{BadValue, Entry, Error, Opt, OptionText, Result, Value};

pub(crate) const OPTIONS: &[Opt] = &[Opt::new(
    "mode",
    "octal permissions, as 0600",
    "who may connect to a path that is listened at",
)
.local()];

/// How sockets are made. The string form and this struct meet in `FromStr` and `Display`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnixOptions {
    /// Permissions of a path that is listened at; `None` leaves them to the process's mask.
    pub mode: Option<u32>,
}

impl UnixOptions {
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
        let digits = value.text();
        let octal = digits.bytes().all(|b| (b'0'..=b'7').contains(&b));
        let mode = u32::from_str_radix(digits, 8).map_err(|_| BadValue)?;
        if key != "mode" || !octal || mode > 0o777 {
            return Err(BadValue);
        }
        self.mode = Some(mode);
        Ok(())
    }
}

impl FromStr for UnixOptions {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::from_entry(&Entry::new("unix")?.with_options(text)?)
    }
}

impl fmt::Display for UnixOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = self.mode.map(|mode| format!("{mode:04o}"));
        OptionText::new().add("mode", mode).fmt(f)
    }
}
