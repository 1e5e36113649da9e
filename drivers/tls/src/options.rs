//! `TlsOptions`: what a stack string says of TLS.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use xio_core::{BadValue, Entry, Error, Opt, OptionText, Result, Value, seconds};

use crate::builder::{Both, Shared, TlsBuilder};
use crate::credentials::{Identity, Roots, refused};
use crate::{Tls, error::LAYER};

pub(crate) const DEFAULT_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

const FILE: &str = "the path of a PEM file";

pub(crate) const OPTIONS: &[Opt] = &[
    Opt::new(
        "alpn",
        "a name, or a list whose first character is its delimiter, as #h2#http/1.1",
        "application protocols spoken here, the preferred first",
    ),
    Opt::new(
        "ca",
        FILE,
        "authorities to believe, in place of the system's",
    )
    .local(),
    Opt::new(
        "cert",
        FILE,
        "own certificate, and those that lead to its authority",
    )
    .local(),
    Opt::new(
        "client_cert",
        "none, optional or required",
        "whether peers that connect must show a certificate of one of the authorities in ca",
    )
    .local(),
    Opt::new(
        "close_notify",
        "required or optional",
        "whether an end of the stream below without close-notify is an error",
    )
    .local(),
    Opt::new(
        "handshake_timeout",
        "seconds, as 30 or 2.5",
        "how long the handshake as a whole may take",
    )
    .local(),
    Opt::new(
        "key",
        FILE,
        "private key of cert, where it is not in the same file",
    )
    .local(),
    Opt::new("min", "1.2 or 1.3", "lowest version that is accepted"),
    Opt::new(
        "name",
        "a host name or address",
        "what the peer's certificate must be for, where it is not the target's host",
    )
    .local(),
    Opt::new("resume", "yes or no", "whether earlier sessions may go on"),
];

/// Lowest version that is accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MinVersion {
    /// TLS 1.2 (RFC 5246), with authenticated encryption and forward secrecy only.
    #[default]
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

/// Whether peers that connect must show a certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientCertificates {
    /// They are not asked.
    #[default]
    None,
    /// They are asked, and served without one as well.
    Optional,
    /// They are turned away without one.
    Required,
}

/// What a stack string says of TLS.
///
/// The string form and this struct meet in `FromStr` and `Display`. Programs that do not read
/// strings put a layer together with [`Tls::client`], [`Tls::server`] or [`Tls::both`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsOptions {
    /// Application protocols, the preferred first.
    pub alpn: Vec<String>,
    /// File of the authorities to believe; the system's if there is none.
    pub ca: Option<String>,
    /// File of the own certificate.
    pub cert: Option<String>,
    /// Whether peers that connect must show a certificate.
    pub client_cert: ClientCertificates,
    /// Whether an end without close-notify counts as one with it.
    pub close_notify_optional: bool,
    /// How long the handshake as a whole may take.
    pub handshake_timeout: Duration,
    /// File of the private key, where it is not that of the certificate.
    pub key: Option<String>,
    /// Lowest version that is accepted.
    pub min: MinVersion,
    /// What the peer's certificate must be for.
    pub name: Option<String>,
    /// Whether earlier sessions may go on.
    pub resume: bool,
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self {
            alpn: Vec::new(),
            ca: None,
            cert: None,
            client_cert: ClientCertificates::None,
            close_notify_optional: false,
            handshake_timeout: DEFAULT_HANDSHAKE_TIMEOUT,
            key: None,
            min: MinVersion::default(),
            name: None,
            resume: true,
        }
    }
}

impl TlsOptions {
    /// Reads the options of one entry of a stack string.
    ///
    /// # Errors
    /// An option that is unknown or whose value is not accepted.
    pub fn from_entry(entry: &Entry) -> Result<Self> {
        let mut options = Self::default();
        entry.apply(OPTIONS, &mut options, Self::set)?;
        Ok(options)
    }

    fn set(&mut self, key: &str, value: Value<'_>) -> Result<(), BadValue> {
        // No file and no host is called like that, and an error should not print it.
        let text = || match value.text() {
            text if text.is_empty() || text.contains(char::is_control) => Err(BadValue),
            text => Ok(Some(text.to_owned())),
        };
        match key {
            "alpn" => self.alpn = protocols(value)?,
            "ca" => self.ca = text()?,
            "cert" => self.cert = text()?,
            "client_cert" => {
                self.client_cert = match value.text() {
                    "none" => ClientCertificates::None,
                    "optional" => ClientCertificates::Optional,
                    "required" => ClientCertificates::Required,
                    _ => return Err(BadValue),
                }
            }
            "close_notify" => {
                self.close_notify_optional = match value.text() {
                    "required" => false,
                    "optional" => true,
                    _ => return Err(BadValue),
                }
            }
            "handshake_timeout" => self.handshake_timeout = value.seconds()?,
            "key" => self.key = text()?,
            "min" => {
                self.min = match value.text() {
                    "1.2" => MinVersion::Tls12,
                    "1.3" => MinVersion::Tls13,
                    _ => return Err(BadValue),
                }
            }
            "name" => self.name = text()?,
            "resume" => self.resume = value.bool()?,
            _ => return Err(BadValue),
        }
        Ok(())
    }

    /// Makes the layer, reading the files that the options name.
    ///
    /// It can connect always, and be connected to when there is a certificate.
    ///
    /// # Errors
    /// Files that cannot be read, and options that do not fit together.
    pub fn build(&self) -> Result<Tls> {
        let ca = self.ca.as_ref().map(Roots::pem_file).transpose()?;
        let identity = match (&self.cert, &self.key) {
            (Some(cert), key) => Some(Identity::pem_files(cert, key.as_ref().unwrap_or(cert))?),
            (None, Some(_)) => return Err(refused("option key is given without cert")),
            (None, None) => None,
        };
        let roots = ca.clone().unwrap_or(Roots::system());
        let shared = Shared {
            alpn: self.alpn.clone(),
            min: self.min,
            resume: self.resume,
            handshake_timeout: self.handshake_timeout,
            unmarked_end: self.close_notify_optional,
        };
        let mut builder = TlsBuilder::<Both>::new(Some(roots), identity).shared(shared);
        if let Some(name) = &self.name {
            builder = builder.server_name(name);
        }
        // Whoever the system trusts for web sites has no say in who may connect here.
        let clients = || {
            ca.ok_or_else(|| refused("option client_cert needs the authorities of the peers in ca"))
        };
        match self.client_cert {
            ClientCertificates::None => builder,
            ClientCertificates::Optional => builder.request_client_certificates(clients()?),
            ClientCertificates::Required => builder.require_client_certificates(clients()?),
        }
        .build()
    }
}

/// One name, or a list with a delimiter in front.
fn protocols(value: Value<'_>) -> Result<Vec<String>, BadValue> {
    let names = match value.text() {
        single if single.starts_with(|c: char| c.is_ascii_alphanumeric()) => vec![single],
        _ => value.list()?,
    };
    // RFC 7301 §3.1: a name has 1 to 255 bytes.
    let fits = |name: &&str| (1..=255).contains(&name.len()) && !name.contains(char::is_control);
    match names.iter().all(fits) {
        true => Ok(names.into_iter().map(str::to_owned).collect()),
        false => Err(BadValue),
    }
}

/// Prints names as [`protocols`] reads them.
fn listed(names: &[String]) -> Option<String> {
    match names {
        [] => None,
        [single] if single.starts_with(|c: char| c.is_ascii_alphanumeric()) => Some(single.clone()),
        many => {
            let used = |c: char| many.iter().any(|name| name.contains(c));
            let delimiter = "#|!/~^".chars().find(|c| !used(*c)).unwrap_or('\n');
            Some(many.iter().fold(String::new(), |text, name| {
                format!("{text}{delimiter}{name}")
            }))
        }
    }
}

impl FromStr for TlsOptions {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::from_entry(&Entry::new(LAYER)?.with_options(text)?)
    }
}

impl fmt::Display for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let standard = Self::default();
        OptionText::new()
            .add("alpn", listed(&self.alpn))
            .add("ca", self.ca.as_ref())
            .add("cert", self.cert.as_ref())
            .add(
                "client_cert",
                match self.client_cert {
                    ClientCertificates::None => None,
                    ClientCertificates::Optional => Some("optional"),
                    ClientCertificates::Required => Some("required"),
                },
            )
            .add(
                "close_notify",
                self.close_notify_optional.then_some("optional"),
            )
            .add(
                "handshake_timeout",
                (self.handshake_timeout != standard.handshake_timeout)
                    .then(|| seconds(self.handshake_timeout)),
            )
            .add("key", self.key.as_ref())
            .add("min", (self.min == MinVersion::Tls13).then_some("1.3"))
            .add("name", self.name.as_ref())
            .add("resume", (!self.resume).then_some("no"))
            .fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Strategy, any, prop, prop_assert_eq, proptest};

    use super::*;

    fn text() -> impl Strategy<Value = Option<String>> {
        prop::option::of("[ -~]{1,12}")
    }

    fn options() -> impl Strategy<Value = TlsOptions> {
        let files = (text(), text(), text(), text());
        let rest = (
            any::<bool>(),
            any::<bool>(),
            any::<bool>(),
            0..3_u8,
            1..999_999_999_u64,
        );
        let alpn = prop::collection::vec("[a-z/.1-9]{1,10}", 0..4);
        (files, rest, alpn).prop_map(|((ca, cert, key, name), rest, alpn)| TlsOptions {
            alpn,
            ca,
            cert,
            client_cert: match rest.3 {
                0 => ClientCertificates::None,
                1 => ClientCertificates::Optional,
                _ => ClientCertificates::Required,
            },
            close_notify_optional: rest.0,
            handshake_timeout: Duration::from_millis(rest.4),
            key,
            min: if rest.1 {
                MinVersion::Tls12
            } else {
                MinVersion::Tls13
            },
            name,
            resume: rest.2,
        })
    }

    proptest! {
        #[test]
        fn display_round_trips(options in options()) {
            prop_assert_eq!(options.to_string().parse::<TlsOptions>().unwrap(), options);
        }
    }

    #[test]
    fn lists_of_protocols() {
        let names = |text: &str| text.parse::<TlsOptions>().map(|o| o.alpn);
        assert_eq!(names("alpn=ftp").unwrap(), ["ftp"]);
        assert_eq!(names("alpn=#h2#http/1.1").unwrap(), ["h2", "http/1.1"]);
        assert!(names("alpn=#h2#").is_err());
        assert!(names("alpn=").is_err());
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        for (text, says) in [
            ("key=/x", "without cert"),
            ("client_cert=required", "in ca"),
            ("verify=none", "no option `verify`"),
            ("min=1.1", "takes 1.2 or 1.3"),
            ("ca=/nowhere/ca.pem", "/nowhere/ca.pem"),
        ] {
            let error = text
                .parse::<TlsOptions>()
                .and_then(|o| o.build().map(|_| ()));
            let error = error.unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
