//! Grid Security Infrastructure (GSI) without I/O and without a clock.
#![forbid(unsafe_code)]

mod asn1;
pub mod certificate;
pub mod credential;
mod der;
pub mod exchange;
pub mod key;
mod kind;
#[cfg(test)]
mod lab;
pub mod name;
pub mod oid;
pub mod proxy;
pub mod request;
pub mod sni;
pub mod tls;
pub mod verify;
