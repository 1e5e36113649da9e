//! Logs the operations on a stack, without their contents.
//!
//! # What it does
//!
//! Sends one `tracing` event per operation, with the direction and the number of bytes, and one
//! summary when the handle is dropped. The bytes themselves never appear: they may be secrets.
//!
//! # When not to use it
//!
//! On a busy server at level `trace`, with one event per block. At level `debug` there are only
//! the opening, the errors and the end of a handle.
//!
//! # String form
//!
//! `log` or `log:key=value;key=value`.
//!
//! The options are those of [`LogOptions`].
//!
//! # Cost
//!
//! Without a subscriber, one check of a flag per call; no copy, no system call.
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
//! let stack = Mem::new().push(Log::new().with_options(options));
//! assert_eq!(format!("{stack:?}"), "mem, log:tag=data");
//! ```

#![forbid(unsafe_code)]

use std::fmt;
use std::io;

use tracing::{debug, enabled, trace};
use xio_core::{
    Driver, DynLayer, Info, Observer, Operation, Result, Setting, Stream, Tap, Transform,
};

xio_core::options! {
    /// The logged events.
    pub struct LogOptions for "log" [impl Log] {
        /// Whether every read and write is an event at level `trace`.
        each: bool = true, "each";
        /// Word that marks the events of this stack; none by default.
        tag: Option<String> = None, "tag",
            Setting::new()
                .takes("a word of at most 64 bytes", &["data"])
                .only(|tag| tag.as_ref().is_some_and(|tag| tag.len() <= 64));
    }
}

/// The layer.
#[derive(Clone, Default)]
pub struct Log {
    options: LogOptions,
}

impl Log {
    /// The driver with the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        xio_core::write_driver(f, "log", &self.options)
    }
}

impl<S: Stream> Transform<S> for Log {
    type Handle = Tap<S, Logging>;

    async fn respond(&self, inner: S) -> Result<Self::Handle> {
        let logging = Logging {
            options: self.options.clone(),
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
    options: LogOptions,
    /// Description of the handle below at the time of opening.
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
    Driver::layer(
        "log",
        "logs operations, never contents",
        |options: LogOptions, _| Ok(DynLayer::new(Log::new().with_options(options))),
    )
}

#[cfg(test)]
mod tests;
