//! Secrets around rustls: PEM text and decrypted records, without copies in freed memory.
//!
//! rustls and its reader of PEM free their buffers as they are, with keys and passwords in them.
//! [`pem`] decodes into memory that is overwritten. [`records`] has the data of received records
//! decrypted in the buffer of the caller, who overwrites it.

#![forbid(unsafe_code)]

pub mod pem;
pub mod records;
