//! `Keys`: paths of the tree as keys of the store, below a prefix.

use gridftp_dsi::{DsiPath, Error, ErrorKind, Result};
use object_store::path::Path;

/// Name of the empty object that keeps a directory without entries.
pub(crate) const MARKER: &str = ".gridftp-directory";

/// Longest key in bytes, of S3, Google and Azure alike.
const LONGEST: usize = 1024;

/// The keys below a prefix of the store.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    prefix: Path,
}

impl Keys {
    /// Keys below `prefix`, of which every byte counts: no part of it is decoded.
    pub(crate) fn new(prefix: &str) -> Result<Self> {
        let prefix = Path::parse(prefix)
            .map_err(|bad| Error::new(ErrorKind::BadName, "open store").because(bad))?;
        Ok(Self { prefix })
    }

    /// The key of a path, byte for byte.
    ///
    /// # Errors
    /// [`ErrorKind::BadName`] for a name that is not UTF-8, has a control character, or is that of
    /// a marker, and for a long key.
    pub(crate) fn key(&self, op: &'static str, path: &DsiPath) -> Result<Path> {
        let bad = |fact| Error::new(ErrorKind::BadName, op).at(path).because(fact);
        if path.name() == MARKER.as_bytes() {
            return Err(bad("the name is reserved for directories"));
        }
        let text = std::str::from_utf8(path.as_bytes())
            .map_err(|_| bad("keys of the store are text in UTF-8"))?;
        let all = format!("{}{text}", self.prefix);
        let key =
            Path::parse(all).map_err(|_| bad("keys of the store have no control characters"))?;
        if key.as_ref().len() > LONGEST {
            return Err(bad("keys of the store have at most 1024 bytes"));
        }
        Ok(key)
    }

    /// The prefix of the keys below a directory; empty for a whole store.
    pub(crate) fn below(dir: &Path) -> String {
        if dir.as_ref().is_empty() {
            String::new()
        } else {
            format!("{dir}/")
        }
    }

    /// The key of the marker of a directory.
    pub(crate) fn marker(dir: &Path) -> Path {
        dir.clone().join(MARKER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_paths_byte_for_byte() {
        for prefix in ["", "/", "pre fix/é%20", "/a/"] {
            let keys = Keys::new(prefix).unwrap();
            let trimmed = prefix.trim_matches('/');
            for name in ["é", "100%", "%2e%2e", "a#b?c", " x ", "...", "a/b"] {
                let path = DsiPath::new(format!("/{name}").as_bytes()).unwrap();
                let key = keys.key("open", &path).unwrap();
                let slash = if trimmed.is_empty() { "" } else { "/" };
                assert_eq!(key.as_ref(), format!("{trimmed}{slash}{name}"));
            }
        }
    }

    #[test]
    fn names_that_no_key_has_are_refused() {
        let keys = Keys::new("p").unwrap();
        let long = ["/abcdefg"; 150].concat();
        for name in [
            &b"/a\nb"[..],
            b"/\xff",
            b"/d/.gridftp-directory",
            long.as_bytes(),
        ] {
            let path = DsiPath::new(name).unwrap();
            assert_eq!(
                keys.key("open", &path).unwrap_err().kind(),
                ErrorKind::BadName
            );
        }
        assert!(Keys::new("a/../b").is_err());
        assert!(Keys::new("a//b").is_err());
    }
}
