//! Names that come from a listing: which of them may become paths here, and how paths are joined.

use crate::error::TransferError;
use crate::url::show;

/// The longest relative path that is taken from a listing, in bytes.
const LONGEST: usize = 4096;

/// Checks that `name` is one component that can be joined to a directory without leaving it, and
/// that commands can carry.
///
/// # Errors
/// [`TransferError::BadName`] for anything else: a server must not choose where we write.
pub fn check(name: &[u8]) -> Result<(), TransferError> {
    check_component(name)?;
    match name.iter().any(|b| matches!(b, b'\n' | b'\r')) {
        true => Err(bad(name, "it holds a line end")),
        false => Ok(()),
    }
}

/// As [`check`], of a name on this machine, which may hold a line end.
pub(crate) fn check_component(name: &[u8]) -> Result<(), TransferError> {
    let why = match name {
        b"" => "it is empty",
        b"." | b".." => "it leads out of its directory",
        _ if name.len() > LONGEST => "it is longer than any path",
        _ if name.contains(&b'/') => "it holds a slash",
        _ if name.contains(&0) => "it holds a NUL",
        _ => return Ok(()),
    };
    Err(bad(name, why))
}

fn bad(name: &[u8], why: &'static str) -> TransferError {
    TransferError::BadName {
        name: show(name),
        why,
    }
}

/// Joins a checked name to a directory.
pub fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(dir.len() + 1 + name.len());
    path.extend_from_slice(dir);
    if !dir.is_empty() && !dir.ends_with(b"/") && !name.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// The last component of a path; empty for a root.
pub fn last(path: &[u8]) -> &[u8] {
    let trimmed = trim_slashes(path);
    trimmed.rsplit(|b| *b == b'/').next().unwrap_or_default()
}

/// The path without its last component; empty when there is none.
pub fn parent(path: &[u8]) -> &[u8] {
    let trimmed = trim_slashes(path);
    match trimmed.iter().rposition(|b| *b == b'/') {
        Some(0) => b"/",
        Some(at) => trimmed.get(..at).unwrap_or_default(),
        None => b"",
    }
}

/// The path without slashes at its end; a root stays `/`.
pub fn trim_slashes(path: &[u8]) -> &[u8] {
    let mut path = path;
    while let [rest @ .., b'/'] = path {
        if rest.is_empty() {
            break;
        }
        path = rest;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for bad in [
            &b""[..],
            b".",
            b"..",
            b"a/b",
            b"/etc/passwd",
            b"a\0b",
            b"a\nb",
            b"a\r",
            &[b'x'; 5000],
        ] {
            assert!(check(bad).is_err(), "{}", bad.escape_ascii());
        }
        for good in [
            &b"a"[..],
            b"...",
            b"a b",
            b" ",
            b"-rf",
            b"\xff",
            b"~",
            "é".as_bytes(),
        ] {
            assert!(check(good).is_ok(), "{}", good.escape_ascii());
        }
        assert!(check_component(b"a\nb").is_ok() && check_component(b"..").is_err());
    }

    #[test]
    fn paths_come_apart_and_together() {
        assert_eq!(join(b"/a", b"b"), b"/a/b");
        assert_eq!(join(b"/", b"b"), b"/b");
        assert_eq!(join(b"", b"b"), b"b");
        assert_eq!(join(b"/a", b""), b"/a");
        assert_eq!(last(b"/a/b//"), b"b");
        assert_eq!(last(b"/"), b"");
        assert_eq!(parent(b"/a/b/"), b"/a");
        assert_eq!(parent(b"/a"), b"/");
        assert_eq!(parent(b"a"), b"");
        assert_eq!(trim_slashes(b"///"), b"/");
    }
}
