//! Another FTP or GridFTP server as storage: a gateway.
//!
//! Every operation becomes commands to the upstream server over a session of a pool. There is one
//! pool for each credential: that of the service, or the delegated one of the user. Sessions that
//! were idle for a while are closed, lost ones are replaced, and every wait has a deadline. An
//! upstream that is gone fails the operation, and is tried again by the next one.
//!
//! | Operation | At the upstream |
//! | --- | --- |
//! | facts, listings | `MLST`, `MLSD`; else `SIZE`, `MDTM`, `CWD`, `LIST` |
//! | reading | `RETR` from an offset on, in up to four places of a file at once |
//! | an upload | `STOR` over one connection under a hidden name of the directory, renamed when it is whole |
//! | recording bytes for a restart | the transfer ends, for the upstream's word; `APPE` goes on |
//! | continuing an upload | `APPE` to the hidden file; `REST` and `STOR` where our own server kept bytes of a broken connection |
//! | checksums | `CKSM`; else the bytes are read and hashed here |
//! | time, mode, group | `MFMT` or `SITE UTIME`, `SITE CHMOD`, `SITE CHGRP` |
//!
//! Hidden files that are not continued for a week are removed when their directory is listed, or
//! behind an upload to it. Errors have the upstream's name and its words. A file is written from its start to its end, and
//! changed as a whole only: the upstream keeps the bytes of an upload, nothing is kept here. A
//! gateway that is its own upstream, directly or through other gateways, refuses its operations.
//!
//! ```no_run
//! use gridftp_dsi_gridftp::{Config, Gateway};
//!
//! let mut config = Config::new("gsiftp://dtn.example.org/data");
//! config.cred = Some("/etc/gridftp/service.pem".into());
//! let storage = Gateway::open(&config)?;
//! # Ok::<(), gridftp_dsi::Error>(())
//! ```
#![forbid(unsafe_code)]

mod attempt;
mod backend;
mod config;
mod digest;
mod entry;
mod error;
mod listing;
mod names;
mod pool;
mod probe;
mod sink;
mod source;
mod target;
mod uploads;

pub use backend::Gateway;
pub use config::Config;
pub use gridftp_client::{options, words};
pub use listing::GatewayListing;
pub use sink::GatewaySink;
pub use source::GatewaySource;
