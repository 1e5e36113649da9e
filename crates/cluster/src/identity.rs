//! `Identity`: cluster, role and name of a member, as its certificate states them.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;

use crate::authority::SKEW;
use crate::error::{Error, Result};

const SCHEME: &str = "gridftp-cluster://";
/// Longest name of a cluster or a member, in bytes.
const MAX_NAME: usize = 64;

/// The part that a member of a cluster plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a cluster has two kinds of members"
)]
pub enum Role {
    /// Control channels and sessions.
    Front,
    /// Data connections and storage.
    Node,
}

impl Role {
    /// Its name in a certificate.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Front => "front",
            Self::Node => "node",
        }
    }

    /// The role of this name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let roles = [Self::Front, Self::Node];
        roles.into_iter().find(|role| role.name() == name)
    }

    /// The role at the other end of a connection.
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Front => Self::Node,
            Self::Node => Self::Front,
        }
    }
}

/// Cluster, role and name of a member.
///
/// It is the URI `gridftp-cluster://CLUSTER/ROLE/NAME` among the alternative names of the
/// certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// The random name of the cluster.
    pub cluster: String,
    /// The role.
    pub role: Role,
    /// The name, unique in the cluster by role.
    pub name: String,
}

impl Identity {
    /// Makes an identity; `None` if a name is not 1 to 64 letters, digits, `.`, `-` or `_`.
    pub fn new(cluster: &str, role: Role, name: &str) -> Option<Self> {
        (is_name(cluster) && is_name(name)).then(|| Self {
            cluster: cluster.into(),
            role,
            name: name.into(),
        })
    }

    /// Says whether the other one is of the same cluster and has this role.
    pub(crate) fn accepts(&self, other: &Self, role: Role) -> bool {
        self.cluster == other.cluster && other.role == role
    }
}

fn is_name(text: &str) -> bool {
    (1..=MAX_NAME).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{SCHEME}{}/{}/{}",
            self.cluster,
            self.role.name(),
            self.name
        )
    }
}

/// A text that is no identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BadIdentity;

impl fmt::Display for BadIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no identity of the form gridftp-cluster://CLUSTER/ROLE/NAME")
    }
}

impl std::error::Error for BadIdentity {}

impl FromStr for Identity {
    type Err = BadIdentity;

    fn from_str(text: &str) -> Result<Self, BadIdentity> {
        let mut parts = text.strip_prefix(SCHEME).ok_or(BadIdentity)?.split('/');
        let parts = (parts.next(), parts.next(), parts.next(), parts.next());
        let (Some(cluster), Some(role), Some(name), None) = parts else {
            return Err(BadIdentity);
        };
        let role = Role::from_name(role).ok_or(BadIdentity)?;
        Self::new(cluster, role, name).ok_or(BadIdentity)
    }
}

/// The verified other end of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) identity: Identity,
    /// The issue of its certificate.
    pub(crate) issued: SystemTime,
    /// The end of its certificate's validity.
    pub(crate) not_after: SystemTime,
}

impl Peer {
    /// The end of a connection that showed this chain.
    ///
    /// # Errors
    ///
    /// It showed none, or as [`Self::of_certificate`].
    pub(crate) fn of_certificates(chain: Option<&[CertificateDer<'_>]>) -> Result<Self> {
        let leaf = chain.and_then(<[_]>::first);
        let none = || Error::certificate("peer", "has no certificate");
        Self::of_certificate(leaf.ok_or_else(none)?)
    }

    /// Reads identity and validity from a certificate that was verified.
    ///
    /// # Errors
    ///
    /// The certificate does not name exactly one member of a cluster.
    pub(crate) fn of_certificate(certificate: &CertificateDer<'_>) -> Result<Self> {
        let bad = |fact: &str| Error::certificate("certificate", fact);
        let (_, parsed) = x509_parser::parse_x509_certificate(certificate)
            .map_err(|_| bad("is no X.509 certificate"))?;
        let names = parsed
            .subject_alternative_name()
            .map_err(|_| bad("has broken alternative names"))?;
        let names = names.map(|names| names.value.general_names.as_slice());
        let mut members = names
            .unwrap_or_default()
            .iter()
            .filter_map(|name| match name {
                GeneralName::URI(uri) if uri.starts_with(SCHEME) => Some(*uri),
                _ => None,
            });
        let (Some(member), None) = (members.next(), members.next()) else {
            return Err(bad("does not name a member of a cluster"));
        };
        let time = |time: x509_parser::time::ASN1Time| {
            let seconds = u64::try_from(time.timestamp()).unwrap_or_default();
            UNIX_EPOCH + Duration::from_secs(seconds)
        };
        Ok(Self {
            identity: member.parse().map_err(bad_identity)?,
            issued: time(parsed.validity().not_before) + SKEW,
            not_after: time(parsed.validity().not_after),
        })
    }

    /// Checks that it may make or answer a call now: cluster, role and validity.
    ///
    /// # Errors
    ///
    /// It may not.
    pub(crate) fn check(&self, own: &Identity, role: Role, now: SystemTime) -> Result<()> {
        if !own.accepts(&self.identity, role) {
            return Err(Error::Role {
                found: self.identity.to_string(),
                expected: role,
            });
        }
        if now > self.not_after {
            return Err(Error::certificate(&self.identity, "certificate expired"));
        }
        Ok(())
    }
}

fn bad_identity(error: BadIdentity) -> Error {
    Error::certificate("certificate", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_as_it_was_written() {
        let identity = Identity::new("0a1b", Role::Node, "dtn-1.example.org").unwrap();
        assert_eq!(
            identity.to_string(),
            "gridftp-cluster://0a1b/node/dtn-1.example.org"
        );
        assert_eq!(identity.to_string().parse(), Ok(identity));
    }

    #[test]
    fn other_texts_are_no_identity() {
        for text in [
            "",
            "gridftp-cluster://",
            "gridftp-cluster://a/node",
            "gridftp-cluster://a/node/",
            "gridftp-cluster://a/root/b",
            "gridftp-cluster://a/node/b/c",
            "gridftp-cluster:///node/b",
            "gridftp-cluster://a/node/b c",
            "https://a/node/b",
        ] {
            assert_eq!(text.parse::<Identity>(), Err(BadIdentity), "{text}");
        }
        assert_eq!(Identity::new("a", Role::Node, &"n".repeat(65)), None);
    }
}
