//! `UrlError`: the fault of a text that is no location.

use std::fmt;

/// The fault of a text that is no location.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// Nothing at all.
    #[error(
        "url: empty; give a path, a file:, ftp://, ftps://, gsiftp://, sshftp:// or http(s):// URL, or -"
    )]
    Empty,
    /// A scheme that this client does not speak.
    #[error("url: scheme {}: unknown; use ftp://, ftps://, gsiftp://, sshftp://, http(s)://, file: or a plain path", .0.escape_default())]
    Scheme(String),
    /// No host between `//` and the path.
    #[error("url: no host; write ftp://HOST[:PORT]/PATH")]
    NoHost,
    /// A port that is no number from 1 to 65535.
    #[error(fmt = bad_port)]
    Port(String),
    /// A `file:` URL that names another host.
    #[error("url: file://{}: names another host; write file:///PATH", .0.escape_default())]
    FileHost(String),
    /// A NUL, CR or LF, which no command can carry.
    #[error("url: path holds NUL, CR or LF, which FTP cannot carry")]
    ControlByte,
    /// Bytes in a URL that are not UTF-8.
    #[error("url: holds bytes that are not UTF-8; write them as %XX")]
    Encoding,
}

fn bad_port(port: &String, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if port.bytes().all(|b| b.is_ascii_digit()) {
        return write!(f, "url: port {port}: must be 1 to 65535");
    }
    // It may be a piece of a password.
    f.write_str("url: port: must be 1 to 65535; in a password, write / : and @ as %2F, %3A and %40")
}
