//! `MulticastOptions`: who receives, and what a failure means, from a string and back.

use std::fmt;
use std::str::FromStr;

use xio_core::{BadValue, Entry, Error, Opt, OptionText, Result, Target, Value};

use crate::intro::{MAX_RECEIVERS, MAX_TEXT};

pub(crate) const OPTIONS: &[Opt] = &[
    Opt::new("forward", "yes or no", "hand on what a sender asks to").local(),
    Opt::new(
        "ignore_errors",
        "yes or no",
        "leave out receivers that fail",
    ),
    Opt::new(
        "p",
        "a number, 1 to 64",
        "how many receivers one end serves",
    ),
    Opt::new(
        "urls",
        "a list, as #b:5000#c:5000",
        "the receivers beside the contact",
    )
    .local(),
];

/// Who receives. The string form and this struct meet in `FromStr` and `Display`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MulticastOptions {
    /// Whether this end hands on what a sender asks it to; not by default.
    pub forward: bool,
    /// Whether a receiver that fails is left out, as long as one is left; not by default.
    pub ignore_errors: bool,
    /// How many receivers one end serves by itself; 2 by default.
    pub p: u8,
    /// Contacts of the receivers beside the one that is connected to.
    pub urls: Vec<String>,
}

impl Default for MulticastOptions {
    fn default() -> Self {
        Self {
            forward: false,
            ignore_errors: false,
            p: 2,
            urls: Vec::new(),
        }
    }
}

impl MulticastOptions {
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
            "forward" => self.forward = value.bool()?,
            "ignore_errors" => self.ignore_errors = value.bool()?,
            "p" => {
                self.p = value.parse()?;
                if !(1..=64).contains(&self.p) {
                    return Err(BadValue);
                }
            }
            "urls" => {
                let urls = value.list()?;
                let good = |url: &&str| url.len() <= MAX_TEXT && url.parse::<Target>().is_ok();
                if urls.len() >= MAX_RECEIVERS || !urls.iter().all(good) {
                    return Err(BadValue);
                }
                self.urls = urls.into_iter().map(str::to_owned).collect();
            }
            _ => return Err(BadValue),
        }
        Ok(())
    }
}

impl FromStr for MulticastOptions {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::from_entry(&Entry::new(crate::LAYER)?.with_options(text)?)
    }
}

impl fmt::Display for MulticastOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A contact string holds no space of its own that is not written %20 in a URL.
        let mark = ['#', ' ', '|', '\n'];
        let free = |mark: &char| !self.urls.iter().any(|url| url.contains(*mark));
        let mark = mark.into_iter().find(free).unwrap_or('\u{1}');
        let urls: String = self.urls.iter().map(|url| format!("{mark}{url}")).collect();
        OptionText::new()
            .add("forward", self.forward.then_some(1))
            .add("ignore_errors", self.ignore_errors.then_some(1))
            .add("p", (self.p != Self::default().p).then_some(self.p))
            .add("urls", (!urls.is_empty()).then_some(urls))
            .fmt(f)
    }
}
