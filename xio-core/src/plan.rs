//! `Plan`: a stack string as a value, parsed and printed.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Operation, Result};
use crate::percent;
use crate::value::{BadValue, Value};

/// Bound for a string from a peer; no useful stack is longer.
const MAX_TEXT: usize = 4096;
const MAX_LAYERS: usize = 16;

/// A stack string as a value: the drivers, bottom first, with their options.
///
/// ```text
/// stack := entry { "," entry }
/// entry := driver [ ":" option { ";" option } ]      option := key "=" value
/// ```
///
/// Values are `%HH`-decoded, for a `,` `;` `:` or `%` inside. `Display` prints a string that parses
/// to the same plan. The [`Registry`](crate::Registry) knows the drivers and their options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    entries: Vec<Entry>,
}

/// One driver of a [`Plan`] with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    driver: String,
    options: Vec<(String, String)>,
}

/// One option that a driver accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opt {
    /// Its key.
    pub name: &'static str,
    /// The accepted values: `bytes, as 4M`.
    pub takes: &'static str,
    /// A description in one sentence.
    pub about: &'static str,
    /// Values that it accepts, for tests.
    pub examples: &'static [&'static str],
    /// Whether it names something of this machine, which a peer's string may not set.
    pub local: bool,
}

impl Opt {
    /// Describes an option.
    #[must_use]
    pub const fn new(name: &'static str, takes: &'static str, about: &'static str) -> Self {
        Self {
            name,
            takes,
            about,
            examples: &[],
            local: false,
        }
    }

    /// Names values that it accepts.
    #[must_use]
    pub const fn examples(mut self, examples: &'static [&'static str]) -> Self {
        self.examples = examples;
        self
    }

    /// Marks it as naming something of this machine: a file, a port, a program.
    ///
    /// [`Registry::restrict`](crate::Registry::restrict) keeps such options from peers.
    #[must_use]
    pub const fn local(mut self) -> Self {
        self.local = true;
        self
    }
}

fn bad_plan(fact: impl Into<String>) -> Error {
    Error::new(ErrorKind::BadPlan, "stack", Operation::Plan, fact)
}

fn is_name(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    text.starts_with(|c: char| c.is_ascii_lowercase()) && text.bytes().all(word)
}

impl Plan {
    /// The drivers, bottom first.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The plan less the options that `leave_out` names.
    pub(crate) fn without(&self, leave_out: impl Fn(&Entry, &str) -> bool) -> Self {
        let mut plan = self.clone();
        for (entry, whole) in plan.entries.iter_mut().zip(&self.entries) {
            entry.options.retain(|(key, _)| !leave_out(whole, key));
        }
        plan
    }
}

impl FromStr for Plan {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Err(bad_plan(
                "the string is empty; name a driver, such as `tcp`",
            ));
        }
        if text.len() > MAX_TEXT {
            return Err(bad_plan(format!(
                "the string is longer than {MAX_TEXT} bytes"
            )));
        }
        let parts = text.split(',');
        if parts.clone().count() > MAX_LAYERS {
            return Err(bad_plan(format!("more than {MAX_LAYERS} layers")));
        }
        let entries = parts.map(str::parse).collect::<Result<_>>()?;
        Ok(Self { entries })
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, entry) in self.entries.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            write!(f, "{comma}{entry}")?;
        }
        Ok(())
    }
}

impl Entry {
    /// A driver without options.
    ///
    /// # Errors
    /// A name that no driver can have.
    pub fn new(driver: &str) -> Result<Self> {
        if !is_name(driver) {
            return Err(bad_plan(format!(
                "{driver:?} is no driver name: lower-case letters, digits and `_`, a letter first"
            )));
        }
        Ok(Self {
            driver: driver.to_owned(),
            options: Vec::new(),
        })
    }

    /// Adds options in their string form, `key=value;key=value`; none for an empty string.
    ///
    /// # Errors
    /// Text of another form, or a key given twice.
    pub fn with_options(mut self, text: &str) -> Result<Self> {
        if text.is_empty() {
            return Ok(self);
        }
        for part in text.split(';') {
            let Some((key, raw)) = part.split_once('=') else {
                return Err(self.blame(format!("{part:?} is not of the form key=value")));
            };
            if !is_name(key) {
                return Err(self.blame(format!("{key:?} is no option name")));
            }
            if self.options.iter().any(|(known, _)| known == key) {
                return Err(self.blame(format!("option {key} is given twice")));
            }
            let Some(value) = percent::decode(raw) else {
                return Err(self.blame(format!(
                    "option {key}: a % in {raw:?} is not followed by two hex digits of UTF-8"
                )));
            };
            self.options.push((key.to_owned(), value));
        }
        Ok(self)
    }

    /// Name of the driver.
    #[must_use]
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// The options in the order given, values decoded.
    pub fn options(&self) -> impl Iterator<Item = (&str, &str)> {
        self.options
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// This entry with the options of `fixed` put before its own.
    ///
    /// # Errors
    /// When this entry sets one of them as well.
    pub(crate) fn with_fixed(&self, fixed: &Self) -> Result<Self> {
        let clash = |key: &str| fixed.options().any(|(known, _)| known == key);
        if let Some((key, _)) = self.options().find(|(key, _)| clash(key)) {
            return Err(self.blame(format!("option {key} is fixed here; leave it out")));
        }
        let mut entry = fixed.clone();
        entry.options.extend(self.options.iter().cloned());
        Ok(entry)
    }

    /// Checks that no option of this entry is `local` to this machine.
    ///
    /// # Errors
    /// Names the first local option.
    pub(crate) fn is_from_peer(&self, known: &[Opt]) -> Result<()> {
        let local = |key: &str| known.iter().any(|opt| opt.local && opt.name == key);
        match self.options().find(|(key, _)| local(key)) {
            None => Ok(()),
            Some((key, _)) => Err(self.blame(format!(
                "option {key} is this end's own business; leave it out"
            ))),
        }
    }

    /// Reads every option through `set`, which is called with keys of `known` only.
    ///
    /// # Errors
    /// An unknown option, or a value that `set` refuses; the error names the driver, the option and
    /// the accepted values.
    pub fn apply(
        &self,
        known: &[Opt],
        mut set: impl FnMut(&str, Value<'_>) -> std::result::Result<(), BadValue>,
    ) -> Result<()> {
        for (key, value) in self.options() {
            let Some(opt) = known.iter().find(|opt| opt.name == key) else {
                let names: Vec<_> = known.iter().map(|opt| opt.name).collect();
                return Err(self.blame(if names.is_empty() {
                    format!("no option `{key}`; this driver takes none")
                } else {
                    format!("no option `{key}`; accepted are {}", names.join(", "))
                }));
            };
            if set(key, Value::new(value)).is_err() {
                return Err(self.blame(format!(
                    "option {key} does not accept {value:?}; it takes {}",
                    opt.takes
                )));
            }
        }
        Ok(())
    }

    pub(crate) fn blame(&self, fact: String) -> Error {
        Error::new(
            ErrorKind::BadOption,
            self.driver.clone(),
            Operation::Plan,
            fact,
        )
    }
}

impl FromStr for Entry {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.split_once(':') {
            None => Self::new(text),
            Some((driver, "")) => Err(bad_plan(format!(
                "{driver:?} has no options after its colon"
            ))),
            Some((driver, options)) => Self::new(driver)?.with_options(options),
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.driver)?;
        for (i, (key, value)) in self.options().enumerate() {
            let mark = if i == 0 { ':' } else { ';' };
            write!(f, "{mark}{key}={}", percent::option(value))?;
        }
        Ok(())
    }
}

/// Prints `key=value` pairs the way a plan reads them; the base of `Display` for options.
#[derive(Debug, Default)]
pub struct OptionText(Vec<(String, String)>);

impl OptionText {
    /// An empty text.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an option where it has a value.
    #[must_use]
    pub fn add(mut self, key: &str, value: Option<impl fmt::Display>) -> Self {
        if let Some(value) = value {
            self.0.push((key.to_owned(), value.to_string()));
        }
        self
    }
}

impl fmt::Display for OptionText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (key, value)) in self.0.iter().enumerate() {
            let mark = if i == 0 { "" } else { ";" };
            write!(f, "{mark}{key}={}", percent::option(value))?;
        }
        Ok(())
    }
}
