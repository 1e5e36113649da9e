//! Grid Security Infrastructure (GSI) without I/O and without a clock.
//!
//! People at Grid sites log in with X.509 certificates, and with short-lived proxies of these, which
//! services may pass on. Bytes, values and the time go in; values and bytes come out. The caller reads files, owns
//! sockets, and generates RSA keys on threads that may block.
//!
//! | Task | Types |
//! | --- | --- |
//! | Read a credential, or write one | [`credential::Credential`] |
//! | Make a proxy | [`key::KeyPair::generate`], [`credential::Credential::make_proxy`] |
//! | Trust authorities, with signing policies and revocation lists | [`trust::TrustStore`] |
//! | Judge a chain | [`verify::Verifier`], [`verify::Peer`], [`verify::Refusal`] |
//! | Check the name of a server | [`host::Expected`] |
//! | Log in over a control channel, with delegation | [`exchange::Initiator`], [`exchange::Acceptor`], [`exchange::Session`] |
//! | Serve several host names | [`vhost::Hosts`], [`tls::Tls::server_of`] |
//! | Set up a data channel | [`exchange::DataChannel`]; or [`tls::Tls`] with [`sni::NameFilter`] and [`exchange::Tail`] |
//! | Map an identity to a local name | [`gridmap::GridMap`] |
//! | Report faults of a set-up to an administrator | [`finding::Finding`], [`trust::TrustStore::faults`] |
//!
//! ```
//! use gsi::credential::Credential;
//! use gsi::key::{KeyPair, KeySize};
//! use gsi::proxy::ProxyOptions;
//! use gsi::trust::{TrustOptions, TrustStore};
//! use gsi::verify::Verifier as _;
//! use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa};
//! use rustls::pki_types::UnixTime;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // An authority and a person. A program would read their files.
//! let mut params = CertificateParams::default();
//! params.distinguished_name.push(DnType::CommonName, "Lab CA");
//! params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
//! let authority = CertifiedIssuer::self_signed(params, rcgen::KeyPair::generate()?)?;
//! let mut params = CertificateParams::default();
//! params.distinguished_name.push(DnType::CommonName, "Alice Lab");
//! let key = rcgen::KeyPair::generate()?;
//! let pem = params.signed_by(&key, &authority)?.pem() + &key.serialize_pem();
//! let alice = Credential::from_pem(pem.as_bytes())?;
//!
//! // A proxy, as `grid-proxy-init` makes it.
//! let now = UnixTime::now();
//! let key = KeyPair::generate(KeySize::Bits2048)?;
//! let proxy = alice.make_proxy(key, &ProxyOptions::default(), now)?;
//!
//! // The other end trusts the authority, and learns the identity behind the proxy.
//! let mut store = TrustStore::new(TrustOptions::default().allow_missing_policies());
//! store.add_authority(authority.der().clone())?;
//! let peer = store.verify(proxy.chain(), now)?;
//! assert_eq!(peer.identity.to_string(), "/CN=Alice Lab");
//! # Ok(())
//! # }
//! ```
//!
//! # Rules of a chain
//!
//! A chain is accepted if a path of it leads to an authority of the store, in whatever order its
//! certificates are, and
//!
//! - every certificate is valid now, has a key and a signature of a known kind, and no critical
//!   extension that is unknown;
//! - authorities may sign certificates, within their path lengths and signing policies, and have
//!   revoked none of those below them, by a list that is signed and up to date;
//! - proxies extend the name of their issuer by one common name, are of one format, keep within the
//!   path lengths, and a limited one is followed by limited ones or independent ones only.
//!
//! A [`verify::Refusal`] names the certificate and the rule. The peer's identity is the name of the
//! end entity, or of an independent proxy; [`host`] has the rules for names of servers.
//!
//! # Limits
//!
//! - A chain has at most 16 certificates and 64 KiB, a token 128 KiB; the search for a path checks
//!   a bounded number of signatures, once for a connection.
//! - RSA keys have at least 2048 bits. Signatures with SHA-1 or MD5 count for nothing; a certificate
//!   that is trusted by its very bytes needs none.
//! - Legacy proxies, and authorities without a signing policy, are accepted only where
//!   [`trust::TrustOptions`] say so. Restricted proxies with a policy, and certificates with name
//!   constraints, are refused.
//! - There is neither OCSP nor the fetching of missing certificates. Delta and partial revocation
//!   lists are refused.
//! - Attribute certificates of VOMS are carried along and ignored. Messages are encrypted always;
//!   the integrity-only tokens of GSSAPI do not exist.
//!
//! Cryptography is that of rustls and `aws-lc-rs`, but for the passphrases of private keys.
#![forbid(unsafe_code)]

pub mod certificate;
pub mod credential;
mod der;
pub mod exchange;
pub mod finding;
pub mod gridmap;
pub mod host;
pub mod key;
mod kind;
#[cfg(test)]
mod lab;
pub mod name;
pub mod oid;
mod path;
pub mod policy;
pub mod proxy;
pub mod request;
pub mod revocation;
mod rules;
mod signature;
pub mod sni;
pub mod statement;
mod text;
pub mod tls;
pub mod trust;
pub mod verify;
pub mod vhost;
