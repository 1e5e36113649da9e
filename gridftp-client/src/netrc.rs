//! Looks up accounts in a `.netrc` file, so that no password need stand on a command line.

use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use ftp_wire::command::Secret;

/// The largest `.netrc` that is read, in bytes.
const LARGEST: u64 = 1 << 20;

/// An account found in a `.netrc`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Account {
    /// Login name, when the entry has one.
    pub user: Option<String>,
    /// Password, when the entry has one.
    pub password: Option<Secret>,
}

/// The fault of a `.netrc` file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetrcError {
    /// It cannot be read.
    #[error("netrc: read {}", .0.display())]
    Read(PathBuf, #[source] io::Error),
    /// Others can read the passwords in it.
    #[error("netrc: read {}: mode {mode:04o} lets others read it; run chmod 600 on it", .0.display(), mode = .1)]
    Open(PathBuf, u32),
    /// It is larger than any such file is.
    #[error("netrc: read {}: larger than 1 MiB", .0.display())]
    TooLarge(PathBuf),
}

/// Finds the account for `host` (and `user`, when the URL names one) in the file at `path`.
///
/// # Errors
/// [`NetrcError`] when the file cannot be read, or when others than its owner may read it.
pub fn lookup(path: &Path, host: &str, user: Option<&str>) -> Result<Option<Account>, NetrcError> {
    let read = |error| NetrcError::Read(path.to_owned(), error);
    let meta = std::fs::metadata(path).map_err(read)?;
    if meta.is_file() && meta.permissions().mode() & 0o077 != 0 {
        return Err(NetrcError::Open(path.to_owned(), meta.mode() & 0o7777));
    }
    if meta.len() > LARGEST {
        return Err(NetrcError::TooLarge(path.to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(read)?;
    Ok(find(&text, host, user))
}

fn find(text: &str, host: &str, user: Option<&str>) -> Option<Account> {
    let mut entries = Vec::new();
    let mut words = Words { rest: text };
    while let Some(word) = words.next() {
        match word.as_str() {
            "machine" => entries.push((
                words.next(),
                Account {
                    user: None,
                    password: None,
                },
            )),
            "default" => entries.push((
                None,
                Account {
                    user: None,
                    password: None,
                },
            )),
            "macdef" => words.skip_macro(),
            "login" | "password" | "account" => {
                let value = words.next();
                if let (Some((_, entry)), Some(value)) = (entries.last_mut(), value) {
                    match word.as_str() {
                        "login" => entry.user = Some(value),
                        "password" => entry.password = Some(Secret::new(value)),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    entries
        .into_iter()
        .find(|(machine, entry)| {
            machine
                .as_deref()
                .is_none_or(|m| m.eq_ignore_ascii_case(host))
                && user.is_none_or(|user| entry.user.as_deref() == Some(user))
        })
        .map(|(_, entry)| entry)
}

/// Words between blanks; a word may stand in double quotes, with `\` before any byte.
struct Words<'a> {
    rest: &'a str,
}

impl Words<'_> {
    fn skip_macro(&mut self) {
        self.rest = self.rest.split_once("\n\n").map_or("", |(_, rest)| rest);
    }
}

impl Iterator for Words<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        self.rest = self.rest.trim_start();
        while self.rest.starts_with('#') {
            self.rest = self
                .rest
                .split_once('\n')
                .map_or("", |(_, rest)| rest)
                .trim_start();
        }
        let mut word = String::new();
        let quoted = self.rest.starts_with('"');
        let mut chars = self.rest.char_indices().skip(usize::from(quoted));
        let mut end = self.rest.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => word.extend(chars.next().map(|(_, c)| c)),
                '"' if quoted => {
                    end = at + 1;
                    break;
                }
                c if !quoted && c.is_whitespace() => {
                    end = at;
                    break;
                }
                c => word.push(c),
            }
        }
        let empty = self.rest.is_empty();
        self.rest = self.rest.get(end..).unwrap_or_default();
        (!empty).then_some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "machine a.example login ann password p1\n\
        # a comment\nmacdef init\n machine evil\n\n\
        machine b.example\n  login bob\n  password \"p \\\"2\"\n\
        machine a.example login amy password p3\ndefault login anonymous password me@here";

    fn found(host: &str, user: Option<&str>) -> Option<(String, String)> {
        let account = find(FILE, host, user)?;
        Some((
            account.user.unwrap(),
            account.password.unwrap().reveal().to_owned(),
        ))
    }

    fn pair(user: &str, password: &str) -> Option<(String, String)> {
        Some((user.into(), password.into()))
    }

    #[test]
    fn finds_by_machine_then_by_login_then_default() {
        assert_eq!(found("A.example", None), pair("ann", "p1"));
        assert_eq!(found("a.example", Some("amy")), pair("amy", "p3"));
        assert_eq!(found("b.example", None), pair("bob", "p \"2"));
        assert_eq!(found("evil", None), pair("anonymous", "me@here"));
        assert_eq!(found("a.example", Some("nobody")), None);
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("netrc");
        std::fs::write(&path, FILE).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(
            lookup(&path, "a.example", None),
            Err(NetrcError::Open(_, 0o644))
        ));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(lookup(&path, "a.example", None).unwrap().is_some());
    }

    #[test]
    fn garbage_never_panics() {
        for text in [
            "machine",
            "\"",
            "\\",
            "login x",
            "machine \"a",
            "macdef",
            "#",
            "machine a login",
        ] {
            find(text, "a", None);
        }
    }
}
