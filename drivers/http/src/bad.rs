//! `BadHead` and `BadBody`: what was wrong with a message, and how to answer it.

use std::fmt;

/// What is wrong with the head of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadHead {
    /// It is longer than a head may be.
    TooLong,
    /// It has more header fields than a head may have.
    TooManyFields,
    /// The request line is none.
    RequestLine,
    /// The status line is none.
    StatusLine,
    /// A header field has a name or a value that it cannot have, or is folded.
    Field,
    /// A line ends with half a line end.
    LineEnd,
    /// The version is not one of HTTP/1.
    Version,
    /// The target of the request cannot stand in a request line.
    Target,
    /// The status is none of a final response.
    Status,
    /// A request of HTTP/1.1 must name one host.
    Host,
    /// The length is no number, or is given twice with different numbers.
    Length,
    /// Length and transfer coding contradict each other.
    LengthAndCoding,
    /// The transfer coding is not `chunked`, or stands where the version has none.
    Coding,
    /// More interim responses than anybody needs.
    Interim,
    /// The peer switches to another protocol, which nobody asked for.
    Switch,
}

impl BadHead {
    /// The status that tells a peer what is wrong with its request.
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
            Self::Target => "the target is empty or holds what a request line cannot",
            Self::Status => "the status is none of a final response",
            Self::Host => "the request does not name one host",
            Self::Length => "Content-Length is malformed or contradicts itself",
            Self::LengthAndCoding => "Content-Length and Transfer-Encoding are both given",
            Self::Coding => "the transfer coding is not chunked, or not allowed in this version",
            Self::Interim => "the peer sends one interim response after the other",
            Self::Switch => "the peer switches protocols without being asked",
        })
    }
}

impl std::error::Error for BadHead {}

/// What is wrong with a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadBody {
    /// The size of a chunk is no number, or larger than anybody can send.
    Size,
    /// The line with the size of a chunk is longer than it may be.
    LineTooLong,
    /// The chunks carry far more lines and extensions than payload.
    Overhead,
    /// A chunk is not followed by the end of a line.
    ChunkEnd,
    /// The fields after the last chunk are malformed.
    Trailer,
    /// The fields after the last chunk are longer than they may be.
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
