//! Grid Security Infrastructure (GSI) without I/O and without a clock.
#![forbid(unsafe_code)]

mod asn1;
pub mod certificate;
mod kind;
pub mod name;
pub mod oid;
pub mod verify;
