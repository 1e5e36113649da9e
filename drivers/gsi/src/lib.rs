//! Grid security at its edges: files, keys and streams for the rules of `grid-security`.
//!
//! | Part | Purpose |
//! | --- | --- |
//! | [`Environment`] | the user, the variables and the folders of a process, as values |
//! | [`find`], [`CredentialFiles`] | credentials in the places of the Globus programs |
//! | [`TrustDirectory`] | authorities, signing policies and revocation lists, read again when they change |
//! | [`GridMapFile`] | a grid-mapfile, read again when it changes |
//! | [`KeyPool`] | RSA keys for delegation, generated ahead of need |

#![forbid(unsafe_code)]

mod credential;
mod environment;
mod file;
mod gridmap;
mod keys;
mod trust;

pub use credential::{CredentialFiles, Found, NoCredential, Purpose, find};
pub use environment::Environment;
pub use file::{FileError, FileFault};
pub use gridmap::GridMapFile;
pub use keys::KeyPool;
pub use trust::{Judge, NoTrust, TrustDirectory};
