//! `FtpPath`: bytes, the quoting rule of 257, never a `PathBuf`.

use std::fmt;

/// A path as sent by a peer: any bytes but NUL, CR and LF.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FtpPath(Vec<u8>);

impl FtpPath {
    /// Wraps `bytes`; `None` if empty, or if they hold NUL, CR or LF, which a command cannot carry.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Option<Self> {
        let bytes = bytes.into();
        if bytes.is_empty() || bytes.iter().any(|b| matches!(b, 0 | b'\r' | b'\n')) {
            return None;
        }
        Some(Self(bytes))
    }

    /// `/`.
    pub fn root() -> Self {
        Self(vec![b'/'])
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Says whether it begins with `/`.
    pub fn is_absolute(&self) -> bool {
        self.0.first() == Some(&b'/')
    }

    /// The absolute path that `other` names when this is the current directory.
    ///
    /// By text alone: empty and `.` components are dropped, `..` removes one component and never
    /// leaves the root, symbolic links are not read, and `~` is an ordinary name.
    #[must_use]
    pub fn join(&self, other: &Self) -> Self {
        Self(joined(&self.0, &other.0))
    }

    /// This path made absolute and free of `.`, `..` and empty components, as seen from the root.
    #[must_use]
    pub fn normalized(&self) -> Self {
        Self::root().join(self)
    }

    /// The directory that contains it, normalised; the root's parent is the root.
    #[must_use]
    pub fn parent(&self) -> Self {
        self.normalized().join(&Self(b"..".to_vec()))
    }

    /// The last non-empty component, unless it is `.` or `..`.
    pub fn file_name(&self) -> Option<&[u8]> {
        let last = self
            .0
            .split(|b| *b == b'/')
            .rfind(|part| !part.is_empty())?;
        (last != b"." && last != b"..").then_some(last)
    }

    /// The path in double quotes, quotes within doubled, as in a 257 (RFC 959, appendix II).
    pub fn quoted(&self) -> Vec<u8> {
        let mut out = vec![b'"'];
        for &byte in &self.0 {
            if byte == b'"' {
                out.push(b'"');
            }
            out.push(byte);
        }
        out.push(b'"');
        out
    }
}

/// As [`FtpPath::join`], for bytes; either argument may be empty.
pub fn joined(base: &[u8], other: &[u8]) -> Vec<u8> {
    let base = if other.first() == Some(&b'/') {
        b""
    } else {
        base
    };
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in base
        .split(|b| *b == b'/')
        .chain(other.split(|b| *b == b'/'))
    {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let mut out = vec![b'/'];
    out.extend_from_slice(&parts.join(&b'/'));
    out
}

/// Reads the path in double quotes from the text of a 257 reply.
///
/// Doubled quotes become one; GCT does not double them, so a single quote ends the path only before
/// a blank or the end of the text.
pub fn unquote(text: &[u8]) -> Option<FtpPath> {
    let start = text.iter().position(|b| *b == b'"')? + 1;
    let mut rest = text.get(start..)?;
    let mut path = Vec::new();
    loop {
        rest = match rest {
            [b'"', b'"', rest @ ..] => {
                path.push(b'"');
                rest
            }
            [b'"'] | [b'"', b' ', ..] => return FtpPath::new(path),
            [byte, rest @ ..] => {
                path.push(*byte);
                rest
            }
            [] => return None,
        };
    }
}

impl fmt::Display for FtpPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Control characters, which a terminal might obey, and bad UTF-8 are escaped.
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                if c.is_control() {
                    write!(f, "{}", c.escape_default())?;
                } else {
                    write!(f, "{c}")?;
                }
            }
            write!(f, "{}", chunk.invalid().escape_ascii())?;
        }
        Ok(())
    }
}

impl fmt::Debug for FtpPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(text: &str) -> FtpPath {
        FtpPath::new(text).unwrap()
    }

    #[test]
    fn joins_and_normalises_by_text() {
        for (cwd, other, expected) in [
            ("/a/b", "c", "/a/b/c"),
            ("/a/b", "/c", "/c"),
            ("/a/b", "../c", "/a/c"),
            ("/a/b", "../../../../etc/passwd", "/etc/passwd"),
            ("/", "..", "/"),
            ("/a", ".//./x/", "/a/x"),
            ("/a", "~", "/a/~"),
            ("/a", " x ", "/a/ x "),
            ("/a", "...", "/a/..."),
        ] {
            assert_eq!(
                path(cwd).join(&path(other)),
                path(expected),
                "{cwd} {other}"
            );
        }
        assert_eq!(path("/a/b/").parent(), path("/a"));
        assert_eq!(path("/").parent(), path("/"));
        assert_eq!(path("/a/b/").file_name(), Some(&b"b"[..]));
        assert_eq!(path("/").file_name(), None);
        assert_eq!(path("a/..").file_name(), None);
    }

    #[test]
    fn refuses_bytes_that_no_line_can_carry() {
        for bad in ["", "a\0b", "a\rb", "a\nb"] {
            assert_eq!(FtpPath::new(bad), None);
        }
    }

    #[test]
    fn reads_a_257_with_and_without_doubled_quotes() {
        assert_eq!(
            unquote(b"\"/a b\" is current directory."),
            Some(path("/a b"))
        );
        assert_eq!(unquote(b"\"/a\"\"b\" created"), Some(path("/a\"b")));
        assert_eq!(unquote(b"\"/a\"b\" created"), Some(path("/a\"b")));
        assert_eq!(unquote(b"\"/a"), None);
        assert_eq!(unquote(b"no quotes"), None);
        assert_eq!(unquote(b"\"\" is empty"), None);
    }

    #[test]
    fn display_shows_text_and_escapes_the_rest() {
        assert_eq!(path("/€ a\x1b[31m").to_string(), "/€ a\\u{1b}[31m");
        assert_eq!(FtpPath::new(&b"/\xff"[..]).unwrap().to_string(), "/\\xff");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn quoting_round_trips(bytes in prop::collection::vec(any::<u8>(), 1..40)) {
            if let Some(path) = FtpPath::new(bytes) {
                let mut text = path.quoted();
                text.extend(b" is current directory.");
                prop_assert_eq!(unquote(&text), Some(path));
            }
        }

        #[test]
        fn joining_never_leaves_the_root(cwd in "[./a]{1,12}", other in "[./a]{1,12}") {
            let joined = path(&cwd).join(&path(&other));
            let text = joined.as_bytes();
            prop_assert_eq!(text.first(), Some(&b'/'));
            prop_assert!(text == b"/" || text[1..].split(|b| *b == b'/').all(|p| !matches!(p, b"" | b"." | b"..")));
            prop_assert_eq!(joined.normalized(), joined);
        }
    }
}
