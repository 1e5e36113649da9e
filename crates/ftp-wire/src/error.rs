//! The errors of the grammar: `Copy` values with the fault and the byte at which it is.

use std::fmt;

use crate::reply::Code;

/// A line that cannot be a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadLine {
    /// No line end within the limit; the line is dropped up to its end.
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// A control byte within the line, NUL and lone CR included.
    Control {
        /// The byte.
        byte: u8,
        /// Its position in the line.
        at: usize,
    },
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { limit } => write!(f, "line is longer than {limit} bytes"),
            Self::Control { byte, at } => write!(f, "control byte {byte:#04x} at byte {at}"),
        }
    }
}

impl std::error::Error for BadLine {}

/// A line that is no command of this implementation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadCommand {
    kind: BadCommandKind,
    verb: Option<&'static str>,
    at: usize,
}

/// The fault of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadCommandKind {
    /// Nothing but blanks.
    Empty,
    /// An unknown verb.
    UnknownVerb,
    /// An unknown `SITE` subcommand.
    UnknownSite,
    /// A verb of a specification that is not implemented.
    NotImplemented,
    /// An argument is missing.
    MissingArgument,
    /// More arguments than the command takes.
    ExtraArgument,
    /// The named argument is malformed.
    BadArgument(&'static str),
    /// The named argument is well formed, but its value is not implemented.
    UnsupportedArgument(&'static str),
    /// The address family is neither 1 nor 2 (RFC 2428 §2).
    UnsupportedFamily,
    /// `OPTS` for a command without options.
    UnknownOpts,
}

impl BadCommand {
    pub(crate) const fn new(kind: BadCommandKind, verb: Option<&'static str>, at: usize) -> Self {
        Self { kind, verb, at }
    }

    /// The fault.
    pub const fn kind(self) -> BadCommandKind {
        self.kind
    }

    /// The verb, if known; for `SITE`, both words.
    pub const fn verb(self) -> Option<&'static str> {
        self.verb
    }

    /// The byte of the line at which the fault is.
    pub const fn at(self) -> usize {
        self.at
    }

    /// The code of the reply to it (RFC 959 §4.2.2, RFC 2428 §2).
    pub const fn code(self) -> Code {
        match self.kind {
            BadCommandKind::Empty | BadCommandKind::UnknownVerb | BadCommandKind::UnknownSite => {
                Code::of::<500>()
            }
            BadCommandKind::MissingArgument
            | BadCommandKind::ExtraArgument
            | BadCommandKind::BadArgument(_)
            | BadCommandKind::UnknownOpts => Code::of::<501>(),
            BadCommandKind::NotImplemented => Code::of::<502>(),
            BadCommandKind::UnsupportedArgument(_) => Code::of::<504>(),
            BadCommandKind::UnsupportedFamily => Code::of::<522>(),
        }
    }
}

impl fmt::Display for BadCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(verb) = self.verb {
            write!(f, "{verb}: ")?;
        }
        match self.kind {
            BadCommandKind::Empty => f.write_str("empty command"),
            BadCommandKind::UnknownVerb => f.write_str("unknown command"),
            BadCommandKind::UnknownSite => f.write_str("unknown SITE command"),
            BadCommandKind::NotImplemented => f.write_str("command is not implemented"),
            BadCommandKind::MissingArgument => f.write_str("argument is missing"),
            BadCommandKind::ExtraArgument => write!(f, "unexpected argument at byte {}", self.at),
            BadCommandKind::BadArgument(what) => write!(f, "bad {what} at byte {}", self.at),
            BadCommandKind::UnsupportedArgument(what) => {
                write!(f, "{what} at byte {} is not supported", self.at)
            }
            BadCommandKind::UnsupportedFamily => {
                f.write_str("network protocol is not supported, use (1,2)")
            }
            BadCommandKind::UnknownOpts => f.write_str("no such options"),
        }
    }
}

impl std::error::Error for BadCommand {}

/// An address, or a list of them, that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadAddress {
    /// Not of the form `h,h,h,h,p,p` with six numbers up to 255.
    HostPort,
    /// Not of the form `|family|address|port|`.
    Extended,
    /// A family other than 1 and 2.
    Family,
    /// No address at all.
    Empty,
    /// More addresses than the limit.
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The reply carries no address.
    Reply,
}

impl fmt::Display for BadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostPort => f.write_str("address is not of the form h,h,h,h,p,p"),
            Self::Extended => f.write_str("address is not of the form |family|address|port|"),
            Self::Family => f.write_str("address family is neither 1 nor 2"),
            Self::Empty => f.write_str("no address"),
            Self::TooMany { limit } => write!(f, "more than {limit} addresses"),
            Self::Reply => f.write_str("reply carries no address"),
        }
    }
}

impl std::error::Error for BadAddress {}

/// Bytes of a server that are no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadReply {
    /// The reply is longer than the limit.
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// Too many lines that belong to no reply.
    Garbage {
        /// The number of lines.
        lines: usize,
    },
}

impl fmt::Display for BadReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { limit } => write!(f, "reply is longer than {limit} bytes"),
            Self::Garbage { lines } => write!(f, "{lines} lines in a row that are no reply"),
        }
    }
}

impl std::error::Error for BadReply {}

/// A listing line or a fact that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadFacts {
    /// No blank between facts and name, or no name behind it.
    Name,
    /// A fact without `=`.
    Fact {
        /// Byte of the line.
        at: usize,
    },
    /// The value of this fact is malformed.
    Value {
        /// Byte of the line.
        at: usize,
    },
}

impl fmt::Display for BadFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => f.write_str("listing line has no name"),
            Self::Fact { at } => write!(f, "listing line has no fact at byte {at}"),
            Self::Value { at } => write!(f, "listing line has a malformed value at byte {at}"),
        }
    }
}

impl std::error::Error for BadFacts {}

/// A marker reply that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadMarker {
    /// 111 without a readable range list.
    Ranges,
    /// 112 or 113 in which the named line is missing or malformed.
    Field(&'static str),
}

impl fmt::Display for BadMarker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ranges => f.write_str("restart marker has no readable ranges"),
            Self::Field(name) => write!(f, "marker has no readable \"{name}\""),
        }
    }
}

impl std::error::Error for BadMarker {}
