//! Mistakes on command lines and in the settings, each with its exit status and words of its message.

mod copies;
mod others;
mod settings;

pub(super) use copies::COPIES;
pub(super) use others::OTHERS;
pub(super) use settings::SETTINGS;

/// One command line behind variables, with `URL` for a server and `URL2` for
/// another: the exit status and words of the message.
pub(in crate::usage) type Row = (&'static str, i32, &'static [&'static str]);

/// Receipts that are no receipts of gridftp-cp.
pub(super) const RECEIPTS: &str = r#"{"receipt":"bogus"}
{"receipt":"file","destination":"\\q"}
{"receipt":"file","destination":"x"}
{"receipt":"file","destination":"x","checksum":{"algorithm":"sha0","digest":""}}
"#;
