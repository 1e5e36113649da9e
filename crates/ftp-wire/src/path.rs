//! `FtpPath`: bytes, the quoting rule of 257, never a `PathBuf`.

use std::fmt;

/// A path as a peer named it: any bytes but NUL, CR and LF.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FtpPath(Vec<u8>);

impl FtpPath {
    /// Takes `bytes` as a path; `None` if empty or if it holds NUL, CR or LF, which no command line can carry.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Option<Self> {
        let bytes = bytes.into();
        if bytes.is_empty() || bytes.iter().any(|b| matches!(b, 0 | b'\r' | b'\n')) {
            return None;
        }
        Some(Self(bytes))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for FtpPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}
