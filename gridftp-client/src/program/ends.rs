//! Ends of a copy as its events tell them: their paths on this machine, and their text for a shell.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use crate::url::{Location, encode, unshow};

/// The path of an end on this machine, as an event tells it; `None` for an end elsewhere.
pub(crate) fn path_of(end: &str) -> Option<PathBuf> {
    // `a:/b` is a path here, which `Location` reads as one behind ssh.
    let is_url = end.contains("://") && matches!(Location::parse(end), Ok(Location::Remote(_)));
    if is_url || end == "-" {
        return None;
    }
    unshow(end).map(|path| OsString::from_vec(path).into())
}

/// An end, as an event tells it, for a shell and [`Location::parse`] to read again: a path of this
/// machine that either might take for something else is a `file:` URL.
pub(crate) fn pasted(end: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-._+,=/@".contains(c);
    let Some(path) = path_of(end) else {
        // URLs of web servers may have characters that mean something to a shell.
        return match end.chars().all(|c| is_plain(c) || ":%[]~".contains(c)) {
            true => end.to_owned(),
            false => format!("'{}'", end.replace('\'', r"'\''")),
        };
    };
    if !end.starts_with(['-', '+', ',', '=', '@']) && end.chars().all(is_plain) {
        return end.to_owned();
    }
    // Two slashes at the beginning would be those before a host.
    let host = if end.starts_with('/') { "//" } else { "" };
    format!("file:{host}{}", encode(path.as_os_str().as_bytes(), b"/@"))
}

/// Formats a line for a file: source, destination, and a remark that begins with a blank.
pub(super) fn moved(source: &str, destination: &str, remark: &str) -> String {
    format!("{} -> {}{remark}", pasted(source), pasted(destination))
}

/// Formats a line for a symbolic link: source, destination and target.
pub(super) fn linked(source: &str, destination: &str, target: &str) -> String {
    moved(source, destination, &format!(" (link to {target})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::show;

    #[test]
    fn an_end_can_be_pasted() {
        for (path, pasted_as) in [
            (&b"tree/a-1_2.b+c"[..], "tree/a-1_2.b+c"),
            ("/d\u{e9}/y=1".as_bytes(), "/d\u{e9}/y=1"),
            (b"a b", "file:a%20b"),
            (b"/a\\b", "file:///a%5Cb"),
            (b"//a$", "file:////a%24"),
            (b"a'\n%\xff", "file:a%27%0A%25%FF"),
            (b"host:/a", "file:host%3A/a"),
            (b"-r", "file:-r"),
            (b"~", "file:~"),
        ] {
            let told = pasted(&show(path));
            assert_eq!(told, pasted_as);
            let read = Location::parse(&told).unwrap();
            assert_eq!(
                read,
                Location::Local(OsString::from_vec(path.to_vec()).into())
            );
        }
        for (end, pasted_as) in [
            ("ftp://u@h:21/a%20b", "ftp://u@h:21/a%20b"),
            ("-", "-"),
            ("https://h/a?b=c&d", "'https://h/a?b=c&d'"),
            ("https://h/a'$(b)", r"'https://h/a'\''$(b)'"),
        ] {
            assert_eq!(pasted(end), pasted_as);
        }
    }
}
