//! Grid Security Infrastructure (GSI) without I/O and without a clock.
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
