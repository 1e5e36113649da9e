//! The errors of an exchange, with the party at fault and the remedy.

use xio_core::{Error, ErrorKind, Operation};

use crate::head::Response;

pub(crate) const LAYER: &str = "http";
/// Longest text of a peer that an error repeats, in characters.
const WORDS: usize = 200;

#[cold]
pub(crate) fn error(kind: ErrorKind, op: Operation, fact: impl Into<String>) -> Error {
    Error::new(kind, LAYER, op, fact)
}

/// The peer broke the protocol.
#[cold]
pub(crate) fn broken(op: Operation, why: impl std::error::Error + Send + Sync + 'static) -> Error {
    error(ErrorKind::Protocol, op, why.to_string()).with_source(why)
}

/// The stream below ended within a message.
#[cold]
pub(crate) fn truncated(op: Operation, fact: &str) -> Error {
    error(ErrorKind::UnexpectedEof, op, fact)
}

/// The error kind and message for a response other than success.
#[cold]
pub(crate) fn refusal(response: &Response, target: &str) -> (ErrorKind, String) {
    let kind = match response.status {
        300..=399 => ErrorKind::Unsupported,
        401 | 403 | 407 => ErrorKind::Denied,
        404 | 410 => ErrorKind::NotFound,
        408 | 504 => ErrorKind::TimedOut,
        425 | 429 | 502 | 503 => ErrorKind::Refused,
        507 => ErrorKind::Exhausted,
        _ => ErrorKind::Io,
    };
    let place = response.headers.get("location");
    let status = format!("{} {}", response.status, words(&response.reason));
    let fact = match place {
        Some(place) if kind == ErrorKind::Unsupported => format!(
            "the peer answers {} for {}: it is now at {}; this layer follows no redirects",
            status.trim_end(),
            words(target),
            words(place)
        ),
        _ => format!(
            "the peer answers {} for {}",
            status.trim_end(),
            words(target)
        ),
    };
    (kind, fact)
}

/// The text of a peer, shortened and on one line.
fn words(text: &str) -> String {
    let plain = |c: char| if c.is_control() { '?' } else { c };
    text.chars().take(WORDS).map(plain).collect()
}
