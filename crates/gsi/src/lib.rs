//! Grid Security Infrastructure (GSI) without I/O and without a clock.
//!
//! Bytes, values and the time go in; values and bytes come out. The caller reads files, owns
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
//! | Set up a data channel | [`exchange::DataChannel`]; or [`tls::Tls`] with [`sni::NameFilter`] and [`exchange::Tail`] |
//! | Map an identity to a local name | [`gridmap::GridMap`] |
//!
//! Cryptography is that of rustls and `aws-lc-rs`, but for the passphrases of private keys.
//! Attribute certificates of VOMS are carried along and ignored.
#![forbid(unsafe_code)]

pub mod certificate;
pub mod credential;
mod der;
pub mod exchange;
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
mod text;
pub mod tls;
pub mod trust;
pub mod verify;
