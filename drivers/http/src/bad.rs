//! `BadHead` and `BadBody`: the faults of a message, and the status to answer with.

use std::fmt;

/// The fault of the head of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadHead {
    /// It is longer than the limit.
    TooLong,
    /// It has more header fields than the limit.
    TooManyFields,
    /// The request line is malformed.
    RequestLine,
    /// The status line is malformed.
    StatusLine,
    /// A header field has an invalid name or value, or is folded.
    Field,
    /// A line ends with half a line end.
    LineEnd,
    /// The version is not one of HTTP/1.
    Version,
    /// The target of the request is empty or has invalid bytes.
    Target,
    /// The status is not one of a final response.
    Status,
    /// A request of HTTP/1.1 must name one host.
    Host,
    /// The length is no number, or is given twice with different numbers.
    Length,
    /// Length and transfer coding contradict each other.
    LengthAndCoding,
    /// The transfer coding is not `chunked`, or the version has none.
    Coding,
    /// Too many interim responses.
    Interim,
    /// The peer switches to another protocol without a request for it.
    Switch,
}

impl BadHead {
    /// The status of the response to such a request.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::TooLong | Self::TooManyFields => 431,
            Self::Version => 505,
            Self::Coding => 501,
            _ => 400,
        }
    }
}

impl fmt::Display for BadHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "the head is longer than 64 KiB",
            Self::TooManyFields => "the head has more than 128 fields",
            Self::RequestLine => "the request line is malformed; does the peer speak HTTP?",
            Self::StatusLine => "the status line is malformed; does the peer speak HTTP?",
            Self::Field => "a header field is malformed",
            Self::LineEnd => "a line of the head does not end with CR LF",
            Self::Version => "the version is neither HTTP/1.0 nor HTTP/1.1",
            Self::Target => "the target is empty or has bytes that a request line cannot hold",
            Self::Status => "the status is not one of a final response",
            Self::Host => "the request does not name one host",
            Self::Length => "Content-Length is malformed or contradicts itself",
            Self::LengthAndCoding => "Content-Length and Transfer-Encoding are both given",
            Self::Coding => "the transfer coding is not chunked, or not allowed in this version",
            Self::Interim => "the peer sends too many interim responses",
            Self::Switch => "the peer switches protocols without a request for it",
        })
    }
}

impl std::error::Error for BadHead {}

/// The fault of a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadBody {
    /// The size of a chunk is no number, or above 2^63 − 1.
    Size,
    /// The line with the size of a chunk is longer than the limit.
    LineTooLong,
    /// The chunks carry far more lines and extensions than payload.
    Overhead,
    /// A chunk is not followed by the end of a line.
    ChunkEnd,
    /// The fields after the last chunk are malformed.
    Trailer,
    /// The fields after the last chunk are longer than the limit.
    TrailerTooLong,
}

impl fmt::Display for BadBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Size => "the size of a chunk is malformed",
            Self::LineTooLong => "the line with the size of a chunk is longer than 1 KiB",
            Self::Overhead => "the chunks carry far more lines and extensions than payload",
            Self::ChunkEnd => "a chunk is longer than its size says",
            Self::Trailer => "the fields after the last chunk are malformed",
            Self::TrailerTooLong => "the fields after the last chunk are longer than 8 KiB",
        })
    }
}

impl std::error::Error for BadBody {}
