//! Protection of the control and the data channel, and the demands of a server on both, as values.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ftp_wire::command::Dcau;

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

    /// The code of the reply to `AUTH` by which a server agrees.
    pub const fn agreement(self) -> u16 {
        match self {
            Self::Tls => 234,
            Self::Gssapi => 334,
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

/// The protection of a control channel, and the users that the peer is by it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Protection {
    /// The mechanism in force; `None` on a clear channel.
    pub by: Option<Mechanism>,
    /// The users that the peer's certificate logs in without a password.
    pub users: Vec<String>,
}

impl Protection {
    /// A channel protected by this mechanism, with a peer that is not known.
    pub const fn new(by: Mechanism) -> Self {
        Self {
            by: Some(by),
            users: Vec::new(),
        }
    }

    /// The strength: both mechanisms encrypt every line.
    pub const fn level(&self) -> Level {
        match self.by {
            None => Level::Clear,
            Some(Mechanism::Tls | Mechanism::Gssapi) => Level::Private,
        }
    }
}

/// The protection in force of data connections.
///
/// Without authentication [`Level::Private`] is the TLS of RFC 4217: the FTP server is the TLS
/// server, whichever end connects. With it, the handshake is that of Grid security at every level.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DataProtection {
    /// The identity that the peer must have.
    pub authentication: Dcau,
    /// The strength behind the handshake.
    pub level: Level,
}

impl Default for DataProtection {
    fn default() -> Self {
        Self::new(Dcau::None, Level::Clear)
    }
}

impl DataProtection {
    /// Makes a protection of these two parts.
    pub const fn new(authentication: Dcau, level: Level) -> Self {
        Self {
            authentication,
            level,
        }
    }

    /// Says whether it is the TLS of RFC 4217.
    pub fn is_tls(&self) -> bool {
        *self == Self::new(Dcau::None, Level::Private)
    }

    /// Says whether data connections begin with a handshake.
    pub fn is_some(&self) -> bool {
        *self != Self::default()
    }
}

/// The least protection of the two channels for a kind of login.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Demand {
    /// Of the control channel.
    pub control: Level,
    /// Of data connections.
    pub data: Level,
}

impl Demand {
    /// Makes a demand of these two parts.
    pub const fn new(control: Level, data: Level) -> Self {
        Self { control, data }
    }
}

/// The demands on one peer, by its login.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Demands {
    /// Of logins with a password.
    pub users: Demand,
    /// Of anonymous logins.
    pub anonymous: Demand,
    /// Of users by name, in addition.
    pub names: Arc<BTreeMap<String, Demand>>,
}

impl Demands {
    /// Makes demands of these two parts.
    pub fn new(users: Demand, anonymous: Demand) -> Self {
        Self {
            users,
            anonymous,
            names: Arc::default(),
        }
    }

    /// Adds demands on users by name.
    #[must_use]
    pub fn with_names(mut self, names: Arc<BTreeMap<String, Demand>>) -> Self {
        self.names = names;
        self
    }

    /// The demands without any configuration: passwords cross no network in clear.
    pub fn of_peer(peer: IpAddr) -> Self {
        let mut demands = Self::default();
        if !peer.to_canonical().is_loopback() {
            demands.users.control = Level::Private;
        }
        demands
    }

    /// The demand on a login of this kind under this name.
    pub fn of(&self, kind: LoginKind, user: &str) -> Demand {
        let of_kind = match kind {
            LoginKind::Anonymous => self.anonymous,
            LoginKind::User => self.users,
        };
        let own = self.names.get(user).copied().unwrap_or_default();
        Demand::new(of_kind.control.max(own.control), of_kind.data.max(own.data))
    }
}

/// The kind of a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginKind {
    /// Without proof of an identity.
    Anonymous,
    /// By a password or a certificate.
    User,
}

impl LoginKind {
    /// The kind of a login under this name, without a certificate.
    pub fn of_name(user: &str) -> Self {
        match is_anonymous(user) {
            true => Self::Anonymous,
            false => Self::User,
        }
    }
}

/// Says whether a name is one of anonymous logins (RFC 1635).
pub fn is_anonymous(user: &str) -> bool {
    user.eq_ignore_ascii_case("anonymous") || user.eq_ignore_ascii_case("ftp")
}
