//! Protection of the control and the data channel, as values.

/// A mechanism that `AUTH` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// TLS on the control connection (RFC 4217).
    Tls,
    /// Grid security: tokens in `ADAT`, then wrapped lines (RFC 2228, GFD.20).
    Gssapi,
}

impl Mechanism {
    /// The argument of `AUTH`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tls => "TLS",
            Self::Gssapi => "GSSAPI",
        }
    }
}

/// The strength of protection, in rising order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Level {
    /// None: `PROT C`.
    #[default]
    Clear,
    /// Against changes: `PROT S`.
    Integrity,
    /// Against readers too: `PROT P`.
    Private,
}

impl Level {
    /// The argument of `PROT`.
    pub const fn letter(self) -> char {
        match self {
            Self::Clear => 'C',
            Self::Integrity => 'S',
            Self::Private => 'P',
        }
    }
}

/// Says whether a name is one of anonymous logins (RFC 1635).
pub fn is_anonymous(user: &str) -> bool {
    user.eq_ignore_ascii_case("anonymous") || user.eq_ignore_ascii_case("ftp")
}
