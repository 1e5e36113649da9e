//! Limits on every field that a peer chooses, checked before a value is used.

use std::fmt;
use std::net::SocketAddr;

use byte_ranges::RangeSet;
use gridftp_dsi_rpc::proto::RangeList;

/// Longest message in bytes: the ranges of a large set, at ten bytes a bound.
pub(crate) const MAX_MESSAGE: usize = 2 << 20;
/// Longest text or name in bytes.
pub(crate) const MAX_TEXT: usize = 4096;
/// Longest path, upload token or credential in bytes.
pub(crate) const MAX_BYTES: usize = 65_536;
/// Most elements of any other list.
pub(crate) const MAX_LIST: usize = 1024;
/// Most stripes of one transfer.
pub(crate) const MAX_STRIPES: u32 = 256;

/// A message with a field that is missing, too long or out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Malformed {
    /// The field.
    pub field: &'static str,
}

impl Malformed {
    pub(crate) const fn new(field: &'static str) -> Self {
        Self { field }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "field {} is missing, too long or out of range",
            self.field
        )
    }
}

impl std::error::Error for Malformed {}

pub(crate) type Result<T, E = Malformed> = std::result::Result<T, E>;

/// Returns `value` if it holds.
pub(crate) fn check<T>(value: T, holds: bool, field: &'static str) -> Result<T> {
    match holds {
        true => Ok(value),
        false => Err(Malformed::new(field)),
    }
}

/// A text of at most [`MAX_TEXT`] bytes without control characters, which logs may show.
pub(crate) fn text(value: String, field: &'static str) -> Result<String> {
    let holds = value.len() <= MAX_TEXT && !value.chars().any(char::is_control);
    check(value, holds, field)
}

/// As [`text`]; the empty text is none.
pub(crate) fn some_text(value: String, field: &'static str) -> Result<Option<String>> {
    text(value, field).map(|text| (!text.is_empty()).then_some(text))
}

/// At most [`MAX_BYTES`] bytes.
pub(crate) fn bytes(value: Vec<u8>, field: &'static str) -> Result<Vec<u8>> {
    let holds = value.len() <= MAX_BYTES;
    check(value, holds, field)
}

/// At most [`MAX_LIST`] elements, each parsed.
pub(crate) fn list<T, U>(
    values: Vec<T>,
    field: &'static str,
    parse: impl FnMut(T) -> Result<U>,
) -> Result<Vec<U>> {
    let holds = values.len() <= MAX_LIST;
    check(values, holds, field)?
        .into_iter()
        .map(parse)
        .collect()
}

/// A socket address.
pub(crate) fn address(value: &str, field: &'static str) -> Result<SocketAddr> {
    // An IPv6 address with its scope and port is shorter.
    let value = check(value, value.len() <= 64, field)?;
    value.parse().map_err(|_| Malformed::new(field))
}

/// A set of at most [`MAX_RANGES`](gridftp_dsi_rpc::MAX_RANGES) ranges, in order and apart.
pub(crate) fn ranges(value: Option<RangeList>, field: &'static str) -> Result<RangeSet> {
    let set = value.unwrap_or_default().to_set();
    set.ok_or_else(|| Malformed::new(field))
}
