//! `TlsOptions`: the TLS settings of a stack string.

use std::time::Duration;

use xio_core::{BadValue, Result, Setting, Value, print_list};

use crate::Tls;
use crate::builder::{Both, Shared, TlsBuilder};
use crate::credentials::{Identity, Roots, refused};

pub(crate) const DEFAULT_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

const fn file() -> Setting<Option<String>> {
    Setting::new()
        .takes("the path of a PEM file", &["/etc/x.pem"])
        .local()
}

/// Lowest accepted version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum MinVersion {
    /// TLS 1.2 (RFC 5246), with authenticated encryption and forward secrecy only.
    #[default]
    Tls12,
    /// TLS 1.3 (RFC 8446).
    Tls13,
}

xio_core::words! { MinVersion: "1.2 or 1.3", Tls12 = "1.2", Tls13 = "1.3" }

/// Whether clients need a certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientCertificates {
    /// No certificate is requested.
    #[default]
    None,
    /// A certificate is requested; clients without one are accepted.
    Optional,
    /// Clients without a certificate are refused.
    Required,
}

xio_core::words! {
    ClientCertificates: "none, optional or required",
    None = "none", Optional = "optional", Required = "required",
}

xio_core::options! {
    /// The TLS settings of a stack string.
    ///
    /// Programs without stack strings build a layer with [`Tls::client`], [`Tls::server`] or
    /// [`Tls::both`].
    pub struct TlsOptions for "tls" {
        /// Application protocols, in order of preference.
        alpn: Vec<String> = Vec::new(), "alpn",
            Setting::with("a name, or a list whose first character is its delimiter, as #h2#http/1.1",
                &["ftp", "#h2#http/1.1"],
                protocols,
                |names| match names.as_slice() {
                    [one] if one.starts_with(alphanumeric) => Some(one.clone()),
                    names => Some(print_list(names)),
                },
            );
        /// File of the trusted authorities; those of the system by default.
        ca: Option<String> = None, "ca", file();
        /// File of this end's certificate and its chain to the authority.
        cert: Option<String> = None, "cert", file();
        /// Whether clients need a certificate of an authority in `ca`.
        client_cert: ClientCertificates = ClientCertificates::None, "client_cert",
            Setting::new().local();
        /// Whether an end of the stream below without close-notify counts as one with it.
        close_notify_optional: bool = false, "close_notify",
            Setting::with("required or optional",
                &["required", "optional"],
                |value| match value.text() {
                    "required" => Ok(false),
                    "optional" => Ok(true),
                    _ => Err(BadValue),
                },
                |optional| Some(if *optional { "optional" } else { "required" }.to_owned()),
            )
            .local();
        /// Longest time of the handshake as a whole.
        handshake_timeout: Duration = DEFAULT_HANDSHAKE_TIMEOUT, "handshake_timeout",
            Setting::new().local();
        /// File of the private key, where it is not in the file of the certificate.
        key: Option<String> = None, "key", file();
        /// Lowest accepted version.
        min: MinVersion = MinVersion::Tls12, "min";
        /// Name that the peer's certificate must have, where it is not the target's host.
        name: Option<String> = None, "name",
            Setting::new().takes("a host name or address", &["example.org"]).local();
        /// Whether earlier sessions may be resumed.
        resume: bool = true, "resume";
    }
}

impl TlsOptions {
    /// Makes the layer, and reads the files.
    ///
    /// It can always connect, and accept connections when it has a certificate.
    ///
    /// # Errors
    /// Files that cannot be read, and contradictory options.
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
        // The system's authorities are for web sites, and do not decide which clients may connect.
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
        single if single.starts_with(alphanumeric) => vec![single],
        _ => value.list()?,
    };
    // RFC 7301 §3.1: a name has 1 to 255 bytes.
    let fits = |name: &&str| (1..=255).contains(&name.len()) && !name.contains(char::is_control);
    match names.iter().all(fits) {
        true => Ok(names.into_iter().map(str::to_owned).collect()),
        false => Err(BadValue),
    }
}

fn alphanumeric(c: char) -> bool {
    c.is_ascii_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

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
