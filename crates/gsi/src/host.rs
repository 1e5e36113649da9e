//! The name that a server's certificate must have.

use std::net::IpAddr;
use std::str::FromStr;

use crate::certificate::Certificate;
use crate::verify::Peer;

/// The server that a client expects.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expected {
    /// The server of a host.
    Host(Host),
    /// The identity in its form of one line, compared exactly.
    Subject(String),
}

/// A host that a client connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Host {
    /// The host name or address that the user gave.
    pub name: String,
    /// The address of the connection.
    pub address: Option<IpAddr>,
    /// The name that the address resolves to, which only [`Names::Hybrid`] and [`Names::Gt2`] use.
    pub reverse: Option<String>,
}

impl Host {
    /// Expects a host by name or address.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            address: None,
            reverse: None,
        }
    }

    /// Also accepts a certificate for the address of the connection.
    #[must_use]
    pub fn address(mut self, address: IpAddr) -> Self {
        self.address = Some(address);
        self
    }

    /// Also accepts a certificate for the name that the address resolves to, where the rules
    /// permit that.
    #[must_use]
    pub fn reverse(mut self, name: impl Into<String>) -> Self {
        self.reverse = Some(name.into());
        self
    }
}

/// The rules for names, `NAME_COMPATIBILITY` of `gsi.conf`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Names {
    /// `STRICT_RFC2818`: the alternative names, or without host names among them the common name.
    #[default]
    Rfc2818,
    /// `HYBRID`: either of the others.
    Hybrid,
    /// `STRICT_GT2`: the common name, with the name of an interface after a hyphen.
    Gt2,
}

impl FromStr for Names {
    type Err = UnknownNames;

    /// Parses a value of `NAME_COMPATIBILITY`.
    fn from_str(text: &str) -> Result<Self, UnknownNames> {
        match text {
            "STRICT_RFC2818" => Ok(Self::Rfc2818),
            "HYBRID" => Ok(Self::Hybrid),
            "STRICT_GT2" => Ok(Self::Gt2),
            _ => Err(UnknownNames(text.to_owned())),
        }
    }
}

/// The text names no rules for names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("name compatibility {0} is unknown: use STRICT_RFC2818, HYBRID or STRICT_GT2")]
#[non_exhaustive]
pub struct UnknownNames(pub String);

/// The server is not the expected one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the server is {found}, not {expected}: connect to a name of its certificate, or expect its subject"
)]
#[non_exhaustive]
pub struct WrongHost {
    /// The names that the certificate has.
    pub found: String,
    /// The expected name.
    pub expected: String,
}

impl Expected {
    /// Parses a subject that a user gave: `/O=Grid/CN=host/lab` or `host@lab`.
    pub fn subject(text: &str) -> Self {
        match text.split_once('@') {
            Some((_, host)) if !text.starts_with('/') => Self::Host(Host::new(host)),
            _ => Self::Subject(text.to_owned()),
        }
    }

    /// Checks that a server is the expected one.
    ///
    /// # Errors
    ///
    /// It is another.
    pub fn check(&self, peer: &Peer, rules: Names) -> Result<(), WrongHost> {
        let wrong = |found, expected: &String| {
            Err(WrongHost {
                found,
                expected: expected.clone(),
            })
        };
        match self {
            Self::Subject(subject) if peer.identity.to_string() == *subject => Ok(()),
            Self::Subject(subject) => wrong(peer.identity.to_string(), subject),
            // An independent proxy is not its issuer, though it has the common name of it.
            Self::Host(host) if peer.holder.proxy().is_none() && host.fits(&peer.holder, rules) => {
                Ok(())
            }
            Self::Host(host) => wrong(found(&peer.holder), &host.name),
        }
    }
}

impl Host {
    /// Whether a certificate is of this host.
    pub fn fits(&self, certificate: &Certificate, rules: Names) -> bool {
        match rules {
            Names::Rfc2818 => self.fits_rfc2818(certificate),
            Names::Gt2 => self.fits_gt2(certificate),
            Names::Hybrid => self.fits_rfc2818(certificate) || self.fits_gt2(certificate),
        }
    }

    fn fits_rfc2818(&self, certificate: &Certificate) -> bool {
        let literal: Option<IpAddr> = self.literal();
        let mut addresses = certificate.ip_addresses().iter();
        if addresses
            .any(|held| Some(held) == literal.as_ref() || Some(held) == self.address.as_ref())
        {
            return true;
        }
        let same = |pattern: &str| match literal {
            Some(address) => pattern.parse() == Ok(address),
            None => is_same_host(pattern, &self.name, |a, b| a == b),
        };
        match certificate.dns_names() {
            [] => common_name(certificate).is_some_and(|name| same(&name)),
            names => literal.is_none() && names.iter().any(|name| same(name)),
        }
    }

    fn fits_gt2(&self, certificate: &Certificate) -> bool {
        let Some(held) = common_name(certificate) else {
            return false;
        };
        let named = self.literal().is_none().then_some(&self.name);
        let mut names = named.into_iter().chain(&self.reverse);
        names.any(|name| is_same_host(&held, name, is_same_interface))
    }

    /// The address, if the user gave one in place of a name.
    fn literal(&self) -> Option<IpAddr> {
        self.name
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse()
            .ok()
    }
}

/// The host in the first common name, which may follow the name of a service: `host/lab`.
fn common_name(certificate: &Certificate) -> Option<String> {
    let name = certificate.subject().common_name()?;
    Some(match name.split_once('/') {
        Some((_, host)) => host.to_owned(),
        None => name,
    })
}

/// The names of a certificate, for a message.
fn found(certificate: &Certificate) -> String {
    let addresses = certificate.ip_addresses().iter().map(IpAddr::to_string);
    let names: Vec<String> = certificate
        .dns_names()
        .iter()
        .cloned()
        .chain(addresses)
        .collect();
    if names.is_empty() {
        certificate.subject().to_string()
    } else {
        names.join(", ")
    }
}

/// Whether a name of a certificate is the name of a host; the first label may end in `*`.
fn is_same_host(pattern: &str, host: &str, same_first: fn(&str, &str) -> bool) -> bool {
    let (pattern, host) = (pattern.to_ascii_lowercase(), host.to_ascii_lowercase());
    let split = |name: &str| {
        let (first, rest) = name.split_once('.').unwrap_or((name, ""));
        (first.to_owned(), rest.to_owned())
    };
    let (first, rest) = split(&pattern);
    let (host_first, host_rest) = split(host.trim_end_matches('.'));
    let same = match first.strip_suffix('*') {
        Some(start) => !start.contains('*') && host_first.starts_with(start),
        None => same_first(&first, &host_first),
    };
    same && rest == host_rest && !host_first.is_empty()
}

/// Whether two first labels are of one host, where one may name an interface: `lab-eth0`.
fn is_same_interface(one: &str, other: &str) -> bool {
    let stem = |label: &str| label.split('-').next().map(str::to_owned);
    one == other || stem(one).as_deref() == Some(other) || stem(other).as_deref() == Some(one)
}
