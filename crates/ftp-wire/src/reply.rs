//! `Code` and `Reply`: multi-line rules of RFC 959 §4.2; `Display` writes exactly the wire form.

use std::fmt;

/// A three-digit reply code (RFC 959 §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(u16);

impl Code {
    /// Makes a code; `None` outside 100–699.
    pub const fn new(code: u16) -> Option<Self> {
        if code >= 100 && code < 700 { Some(Self(code)) } else { None }
    }

    /// The number.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Says whether more replies to the same command follow (1xx).
    pub const fn is_preliminary(self) -> bool {
        self.0 < 200
    }

    /// Says whether the command did what it was asked (2xx).
    pub const fn is_success(self) -> bool {
        self.0 / 100 == 2
    }

    /// Says whether another command must follow (3xx).
    pub const fn is_intermediate(self) -> bool {
        self.0 / 100 == 3
    }

    /// Says whether trying again may help (4xx).
    pub const fn is_transient(self) -> bool {
        self.0 / 100 == 4
    }

    /// Says whether the command failed (4xx or 5xx).
    pub const fn is_failure(self) -> bool {
        self.0 / 100 == 4 || self.0 / 100 == 5
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:03}", self.0)
    }
}

/// One whole reply: a code and its lines of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    code: Code,
    lines: Vec<Vec<u8>>,
    style: Style,
}

/// How the lines between the first and the last are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Style {
    /// `NNN-` before every inner line.
    Coded,
    /// One blank before every inner line, as FEAT, STAT, MLST, SPAS, 112 and 113 have it.
    Indented,
}
