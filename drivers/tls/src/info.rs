//! `TlsInfo`: the negotiated parameters and the identity of the peer.

use std::fmt;

use rustls::pki_types::CertificateDer;
use rustls::{CommonState, HandshakeKind, ProtocolVersion};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// The result of a TLS handshake; a fact in [`Info`](xio_core::Info).
///
/// Prints as `TLS 1.3 TLS13_AES_256_GCM_SHA384`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsInfo {
    /// The version, as `TLS 1.3`.
    pub version: &'static str,
    /// The cipher suite by its standard name.
    pub cipher: String,
    /// The negotiated application protocol.
    pub alpn: Option<String>,
    /// Subject of the peer's verified certificate, as `CN=host, O=Grid`.
    pub peer_subject: Option<String>,
    /// Alternative names of that certificate, as `DNS:host`, `email:ann@example.org` and `URI:...`.
    pub peer_names: Vec<String>,
    /// The peer's certificate chain, its own first, in DER.
    pub peer_certificates: Vec<Vec<u8>>,
    /// Whether an earlier session was resumed, without certificates.
    pub resumed: bool,
}

impl TlsInfo {
    pub(crate) fn of(session: &CommonState) -> Self {
        let certificates = session.peer_certificates().unwrap_or_default();
        let suite = session.negotiated_cipher_suite();
        Self {
            version: match session.protocol_version() {
                Some(ProtocolVersion::TLSv1_2) => "TLS 1.2",
                Some(ProtocolVersion::TLSv1_3) => "TLS 1.3",
                _ => "TLS",
            },
            cipher: suite
                .and_then(|suite| suite.suite().as_str())
                .unwrap_or("unknown cipher")
                .to_owned(),
            alpn: session
                .alpn_protocol()
                .map(|name| String::from_utf8_lossy(name).into_owned()),
            peer_subject: certificates.first().and_then(subject),
            peer_names: certificates.first().map(names).unwrap_or_default(),
            peer_certificates: certificates.iter().map(|cert| cert.to_vec()).collect(),
            resumed: session.handshake_kind() == Some(HandshakeKind::Resumed),
        }
    }
}

/// The subject of a verified certificate.
fn subject(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    // An authority may have signed any text; the printed one stays on one line.
    let printable = |c: char| if c.is_control() { '?' } else { c };
    Some(
        parsed
            .subject()
            .to_string()
            .chars()
            .map(printable)
            .collect(),
    )
}

/// The alternative names of a verified certificate.
pub(crate) fn names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
        return Vec::new();
    };
    let Ok(Some(names)) = parsed.subject_alternative_name() else {
        return Vec::new();
    };
    let text = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some(format!("DNS:{name}")),
        GeneralName::RFC822Name(name) => Some(format!("email:{name}")),
        GeneralName::URI(name) => Some(format!("URI:{name}")),
        _ => None,
    };
    names.value.general_names.iter().filter_map(text).collect()
}

impl fmt::Display for TlsInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.version, self.cipher)
    }
}
