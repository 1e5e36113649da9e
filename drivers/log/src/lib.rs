//! Logs what passes through a stack, without its contents.
//!
//! # What it does
//!
//! Sends one `tracing` event per operation, with the direction and the number of bytes, and one
//! summary when the handle is dropped. The bytes themselves never appear: they may be secrets.
//!
//! # When not to use it
//!
//! On a busy server at level `trace`: one event per block adds up. The default, `debug`, is
//! quiet but for the opening, the errors and the end of a handle.
//!
//! # String form
//!
//! `log` or `log:key=value;key=value`.
//!
//! | Option | Value | Default |
//! | --- | --- | --- |
//! | `each` | whether every read and write is an event, at level `trace` | yes |
//! | `tag` | a word that marks the events of this stack | none |
//!
//! # Cost
//!
//! Where nobody listens to the events, one check of a flag per call; no copy, no system call.
//!
//! # Example
//!
//! ```
//! use xio_core::Transport;
//! use xio_log::{Log, LogOptions};
//! use xio_testkit::Mem;
//!
//! let mut options = LogOptions::default();
//! options.tag = Some("data".to_owned());
//! let stack = Mem::new().push(Log::new(options));
//! assert_eq!(format!("{stack:?}"), "mem, log:tag=data");
//! ```

#![forbid(unsafe_code)]

use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Arc;

use tracing::{debug, enabled, trace};
use xio_core::{
    BadValue, Driver, DynLayer, Entry, Error, Info, Observer, Operation, Opt, OptionText, Result,
    Stream, Tap, Transform, Value,
};

const OPTIONS: &[Opt] = &[
    Opt::new("each", "yes or no", "make every read and write an event"),
    Opt::new(
        "tag",
        "a word of at most 64 bytes",
        "mark the events of this stack",
    ),
];

/// What is logged. The string form and this struct meet in `FromStr` and `Display`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogOptions {
    /// Whether every read and write is an event at level `trace`; on by default.
    pub each: bool,
    /// A word that marks the events; none by default.
    pub tag: Option<String>,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            each: true,
            tag: None,
        }
    }
}

impl LogOptions {
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
            "each" => self.each = value.bool()?,
            "tag" => {
                let text = value.text();
                // A line break in a tag would forge lines of a text log.
                if text.is_empty() || text.len() > 64 || text.chars().any(char::is_control) {
                    return Err(BadValue);
                }
                self.tag = Some(text.to_owned());
            }
            _ => return Err(BadValue),
        }
        Ok(())
    }
}

impl FromStr for LogOptions {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::from_entry(&Entry::new("log")?.with_options(text)?)
    }
}

impl fmt::Display for LogOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        OptionText::new()
            .add("each", (!self.each).then_some(0))
            .add("tag", self.tag.as_deref())
            .fmt(f)
    }
}

/// The layer.
#[derive(Clone, Default)]
pub struct Log {
    options: Arc<LogOptions>,
}

impl Log {
    /// A layer that logs as the options say.
    #[must_use]
    pub fn new(options: LogOptions) -> Self {
        Self {
            options: Arc::new(options),
        }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.options.to_string().as_str() {
            "" => f.write_str("log"),
            options => write!(f, "log:{options}"),
        }
    }
}

impl<S: Stream> Transform<S> for Log {
    type Handle = Tap<S, Logging>;

    async fn respond(&self, inner: S) -> Result<Self::Handle> {
        let logging = Logging {
            options: Arc::clone(&self.options),
            handle: inner.info().to_string(),
            read: 0,
            written: 0,
            shut: false,
        };
        debug!(tag = logging.tag(), handle = logging.handle, "opened");
        Ok(Tap::new(inner, logging))
    }

    fn describe(&self, info: &mut Info) {
        info.layer("log");
    }
}

/// The observer of one handle.
#[derive(Debug)]
pub struct Logging {
    options: Arc<LogOptions>,
    /// The handle below, as it described itself when it was opened.
    handle: String,
    read: u64,
    written: u64,
    shut: bool,
}

impl Logging {
    fn tag(&self) -> &str {
        self.options.tag.as_deref().unwrap_or_default()
    }

    #[inline]
    fn each(&self, what: &'static str, bytes: usize) {
        if self.options.each && enabled!(tracing::Level::TRACE) {
            trace!(tag = self.tag(), handle = self.handle, bytes, "{what}");
        }
    }
}

impl Observer for Logging {
    #[inline]
    fn read(&mut self, n: usize) {
        self.read += n as u64;
        self.each(if n == 0 { "end" } else { "read" }, n);
    }

    #[inline]
    fn wrote(&mut self, n: usize) {
        self.written += n as u64;
        self.each("wrote", n);
    }

    #[inline]
    fn sent_file(&mut self, n: usize) {
        self.written += n as u64;
        self.each("sent from a file", n);
    }

    fn shut(&mut self) {
        if !self.shut {
            self.shut = true;
            self.each("shut down", 0);
        }
    }

    fn failed(&mut self, op: Operation, error: &io::Error) {
        debug!(tag = self.tag(), handle = self.handle, %op, %error, "failed");
    }

    fn describe(&self, info: &mut Info) {
        info.layer("log");
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        debug!(
            tag = self.tag(),
            handle = self.handle,
            read = self.read,
            written = self.written,
            how = if self.shut { "closed" } else { "dropped" },
            "ended"
        );
    }
}

/// The driver for a registry.
#[must_use]
pub fn driver() -> Driver {
    Driver::layer("log", "logs operations, never contents", OPTIONS, |entry| {
        Ok(DynLayer::new(Log::new(LogOptions::from_entry(entry)?)))
    })
}

#[cfg(test)]
mod tests;
