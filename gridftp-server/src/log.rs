//! The log on stderr, and its line for every transfer.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use tracing::field::Field;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{LogFormat, LogLevel};
use crate::log_queue::LogQueue;

/// Time that the end of a process waits for its last log lines.
const LAST_LINES: Duration = Duration::from_millis(500);

/// The log of a process. Dropped, it waits half a second at most until the last lines are written.
#[derive(Debug)]
#[must_use = "the last lines are lost without it"]
pub struct Log(Arc<LogQueue>);

impl Drop for Log {
    fn drop(&mut self) {
        self.0.flush(LAST_LINES);
    }
}

/// Sends all log lines of this process to stderr in the given form.
///
/// Nothing waits for stderr: where it is too slow, lines are dropped, and their number is logged
/// later. Does nothing when a subscriber is installed already.
///
/// # Errors
/// Those of making the thread that writes.
pub fn install(format: LogFormat, level: LogLevel) -> io::Result<Log> {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let queue = LogQueue::start(io::stderr(), |lines| {
        tracing::warn!(
            lines,
            "log lines were dropped: standard error did not take them"
        );
    })?;
    // A line for each frame of the connections to data nodes would drown all others.
    let libraries = ["h2", "hyper", "hyper_util", "rustls", "tonic", "tower"];
    let libraries = libraries.map(|name| (name, level.min(LevelFilter::WARN)));
    let targets = Targets::new().with_default(level).with_targets(libraries);
    let builder = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(Arc::clone(&queue))
        // A failing log must not end the logged work: reporting it there would panic.
        .log_internal_errors(false)
        .with_ansi(false);
    let installed = match format {
        LogFormat::Text => builder
            .with_target(false)
            .fmt_fields(debug_fn(write_field).delimited(" "))
            .finish()
            .with(targets)
            .try_init(),
        LogFormat::Json => builder
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .finish()
            .with(targets)
            .try_init(),
    };
    // Only fails where an embedding program has a subscriber, whose choice stands.
    drop(installed);
    Ok(Log(queue))
}

/// Writes one field of a line for people.
fn write_field(out: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    match field.name() {
        "message" => write!(out, "{value:?}"),
        name => write!(out, "{name}={}", Value(format!("{value:?}"))),
    }
}

/// The value of a field: in quotes where a blank, a quote or an `=` would begin another.
struct Value(String);

impl Value {
    /// Says whether it is one quoted string already.
    fn is_quoted(&self) -> bool {
        let inner = self.0.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
        let mut escaped = false;
        let open = inner.is_some_and(|inner| {
            inner.chars().all(|c| {
                let inside = escaped || c != '"';
                escaped = !escaped && c == '\\';
                inside
            })
        });
        open && !escaped
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let splits = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '=');
        if self.is_quoted() || !(self.0.is_empty() || self.0.contains(splits)) {
            return f.write_str(&self.0);
        }
        write!(f, "{:?}", self.0)
    }
}

/// Text from a peer, made safe for terminals and one line: everything unusual is escaped.
pub(crate) struct Shown<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                if c.is_control() || c == '\\' || ('\u{202a}'..='\u{202e}').contains(&c) {
                    write!(f, "{}", c.escape_default())?;
                } else {
                    fmt::Write::write_char(f, c)?;
                }
            }
            write!(f, "{}", chunk.invalid().escape_ascii())?;
        }
        Ok(())
    }
}

/// The result of one transfer.
#[derive(Debug)]
pub(crate) struct TransferLine<'a> {
    /// Login name.
    pub(crate) user: &'a str,
    /// `RETR`, `STOR`, …
    pub(crate) verb: &'static str,
    /// The file or directory.
    pub(crate) path: &'a [u8],
    /// Payload bytes moved.
    pub(crate) bytes: u64,
    /// From the command to its end.
    pub(crate) took: Duration,
    /// Data connections used.
    pub(crate) streams: u32,
    /// The control connection's other end.
    pub(crate) peer: IpAddr,
    /// The value of `SITE TASKID`; left out when empty.
    pub(crate) task: &'a str,
    /// `ok`, or the error.
    pub(crate) result: &'a str,
}

impl TransferLine<'_> {
    /// Writes the line: at level info, failures too.
    pub(crate) fn write(&self) {
        tracing::info!(
            target: "transfer",
            user = %Shown(self.user.as_bytes()),
            verb = self.verb,
            path = %Shown(self.path),
            bytes = self.bytes,
            seconds = self.took.as_secs_f64(),
            streams = self.streams,
            peer = %self.peer,
            task = (!self.task.is_empty()).then(|| display(Shown(self.task.as_bytes()))),
            result = %Shown(self.result.as_bytes()),
            "transfer"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_write_lines_or_move_the_cursor() {
        assert_eq!(Shown(b"a\nb\x1b[2J\\").to_string(), "a\\nb\\u{1b}[2J\\\\");
        assert_eq!(Shown("€ ok".as_bytes()).to_string(), "€ ok");
        assert_eq!(Shown(b"\xff\xfe").to_string(), "\\xff\\xfe");
        assert_eq!(Shown("a\u{202e}b".as_bytes()).to_string(), "a\\u{202e}b");
    }

    /// A name is one value, whatever it looks like.
    #[test]
    fn a_value_makes_up_no_field() {
        for (value, written) in [
            ("ok", "ok"),
            ("/a/b.c:1-2", "/a/b.c:1-2"),
            ("\"STOR\"", "\"STOR\""),
            ("", "\"\""),
            ("/a b", "\"/a b\""),
            ("/a\u{a0}b", "\"/a\\u{a0}b\""),
            ("/x result=ok", "\"/x result=ok\""),
            ("\" user=\"root", "\"\\\" user=\\\"root\""),
            ("\"a\" b=\"c\"", "\"\\\"a\\\" b=\\\"c\\\"\""),
            ("\"a\\\"", "\"\\\"a\\\\\\\"\""),
            ("\"", "\"\\\"\""),
        ] {
            assert_eq!(Value(value.to_owned()).to_string(), written, "{value}");
        }
    }
}
