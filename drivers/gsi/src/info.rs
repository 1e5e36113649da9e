//! `GsiInfo` and `Level`: the peer of a handle, and the protection of its bytes.

use std::fmt;

use gsi::verify::Peer;
use rustls::ProtocolVersion;

/// The protection of the bytes of a data channel, `PROT`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Level {
    /// None: the peers prove their identity, and go on in clear.
    Clear,
    /// Against changes; here it also encrypts.
    Safe,
    /// Against changes and readers.
    #[default]
    Private,
}

xio_core::words! {
    Level: "none, integrity or private",
    Clear = "none", Safe = "integrity", Private = "private",
}

/// The verified peer of a handle and the protection of its bytes; a fact in
/// [`Info`](xio_core::Info).
///
/// Prints as `GSI over TLS 1.3 with /O=Grid/CN=Alice Lab`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GsiInfo {
    /// The identity of the peer in its form of one line.
    pub identity: String,
    /// The subject of the peer's certificate, which may be a proxy.
    pub subject: String,
    /// The protection of the bytes.
    pub level: Level,
    /// The version of TLS, as `TLS 1.3`.
    pub version: &'static str,
    /// The judged chain in DER, from the peer's certificate to the trusted one.
    pub path: Vec<Vec<u8>>,
}

impl GsiInfo {
    pub(crate) fn new(peer: &Peer, level: Level, version: Option<ProtocolVersion>) -> Self {
        Self {
            identity: peer.identity.to_string(),
            subject: peer.subject.to_string(),
            level,
            path: peer.path.iter().map(|der| der.to_vec()).collect(),
            version: match version {
                Some(ProtocolVersion::TLSv1_2) => "TLS 1.2",
                Some(ProtocolVersion::TLSv1_3) => "TLS 1.3",
                _ => "TLS",
            },
        }
    }
}

impl fmt::Display for GsiInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GSI over {} with {}", self.version, self.identity)
    }
}
