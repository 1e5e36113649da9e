//! `View`: the session's virtual root, working directory and permissions in the tree.

use ftp_wire::path::{FtpPath, joined};

/// The use of a path by a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Look at names and metadata.
    Metadata,
    /// Read contents.
    Read,
    /// Change anything.
    Write,
}

/// A path that the session's restrictions forbid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Forbidden;

/// The session's view of the tree.
///
/// All of this is text; the backend keeps every path beneath its tree. A client narrows its own
/// view further by `SITE CHROOT` and `SITE RESTRICT`: from then on the caller follows no link.
#[derive(Debug)]
pub(super) struct View {
    /// Prefix of the virtual root; empty until `SITE CHROOT`.
    root: Vec<u8>,
    /// Where `~` leads, within the virtual root.
    home: Vec<u8>,
    /// Working directory, within the virtual root.
    cwd: Vec<u8>,
    /// `SITE RESTRICT`'s list, longest path first; `None` until it is given.
    rules: Option<Vec<Rule>>,
}

/// One entry of `SITE RESTRICT`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    /// Absolute path in the tree, without the virtual root in force when it was given.
    path: Vec<u8>,
    read: bool,
    write: bool,
}

/// A path in both the forms a command needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResolvedPath {
    /// As the client sees it: absolute in its virtual root.
    pub(super) shown: FtpPath,
    /// As the caller needs it: absolute in the user's tree.
    pub(super) real: FtpPath,
}

impl View {
    /// Starts at `home`.
    pub(super) fn new(home: &FtpPath) -> Self {
        let home = joined(b"/", home.as_bytes());
        Self {
            root: Vec::new(),
            cwd: home.clone(),
            home,
            rules: None,
        }
    }

    /// The working directory as the client sees it.
    pub(super) fn cwd(&self) -> FtpPath {
        path(self.cwd.clone())
    }

    /// Resolves a path of the client; `None` is the working directory.
    pub(super) fn find(
        &self,
        user: &str,
        named: Option<&FtpPath>,
        access: Access,
    ) -> Result<ResolvedPath, Forbidden> {
        let named = named.map_or(&b"."[..], FtpPath::as_bytes);
        let shown = match strip_home(named, user) {
            Some(rest) => joined(&self.home, rest),
            None => joined(&self.cwd, named),
        };
        let real = self.real(&shown);
        if !self.permits(&real, access) {
            return Err(Forbidden);
        }
        Ok(ResolvedPath {
            shown: path(shown),
            real: path(real),
        })
    }

    /// Changes the working directory to a resolved one.
    pub(super) fn enter(&mut self, shown: &FtpPath) {
        self.cwd = shown.as_bytes().to_vec();
    }

    /// Says whether a virtual root is in force.
    pub(super) const fn has_root(&self) -> bool {
        !self.root.is_empty()
    }

    /// Makes a resolved directory the virtual root.
    pub(super) fn set_root(&mut self, real: &FtpPath) {
        let real = real.as_bytes();
        let inside = |full: Vec<u8>| match full.strip_prefix(real) {
            Some(rest) if rest.first() == Some(&b'/') => rest.to_vec(),
            _ if real == b"/" => full,
            _ => b"/".to_vec(),
        };
        self.cwd = inside(self.real(&self.cwd));
        self.home = inside(self.real(&self.home));
        self.root = real.to_vec();
    }

    /// Says whether `SITE RESTRICT` is in force.
    pub(super) const fn is_restricted(&self) -> bool {
        self.rules.is_some()
    }

    /// Applies `SITE RESTRICT`'s list: `[RWN]path,…`; `false` when it does not parse.
    pub(super) fn restrict(&mut self, user: &str, list: &str) -> bool {
        let mut rules = Vec::new();
        for item in list.split(',').map(str::trim) {
            let Some(at) = item.find(['/', '~', '$']) else {
                return false;
            };
            let (letters, named) = item.split_at(at);
            if !letters
                .bytes()
                .all(|b| matches!(b.to_ascii_uppercase(), b'R' | b'W' | b'N'))
            {
                return false;
            }
            // Patterns and aliases are not implemented, so they are refused.
            if named.contains(['*', '?', '[', ':']) {
                return false;
            }
            let named = named.replace("$USER", user);
            let named = match named.strip_prefix("$HOME") {
                Some(rest) => format!("~{rest}"),
                None => named,
            };
            let shown = match strip_home(named.as_bytes(), user) {
                Some(rest) => joined(&self.home, rest),
                None => joined(b"/", named.as_bytes()),
            };
            let has = |letter: u8| letters.bytes().any(|b| b.eq_ignore_ascii_case(&letter));
            let full = letters.is_empty();
            rules.push(Rule {
                path: self.real(&shown),
                read: (full || has(b'R')) && !has(b'N'),
                write: (full || has(b'W')) && !has(b'N'),
            });
        }
        rules.sort_by_key(|rule| std::cmp::Reverse(rule.path.len()));
        self.rules = Some(rules);
        true
    }

    /// Says whether no rule forbids this access to a path beneath a resolved one.
    pub(super) fn permits_beneath(&self, resolved: &ResolvedPath, access: Access) -> bool {
        let Some(rules) = &self.rules else {
            return true;
        };
        rules
            .iter()
            .filter(|rule| is_beneath(resolved.real.as_bytes(), &rule.path))
            .all(|rule| rule.permits(access))
    }

    fn real(&self, shown: &[u8]) -> Vec<u8> {
        if !self.has_root() || self.root == b"/" {
            return shown.to_vec();
        }
        let mut real = self.root.clone();
        if shown != b"/" {
            real.extend_from_slice(shown);
        }
        real
    }

    /// Says whether a path in the tree may be used so.
    pub(super) fn permits(&self, real: &[u8], access: Access) -> bool {
        let Some(rules) = &self.rules else {
            return true;
        };
        // Longest match wins.
        rules
            .iter()
            .find(|rule| is_beneath(&rule.path, real))
            .is_some_and(|rule| rule.permits(access))
    }
}

impl Rule {
    fn permits(&self, access: Access) -> bool {
        match access {
            Access::Metadata => self.read || self.write,
            Access::Read => self.read,
            Access::Write => self.write,
        }
    }
}

/// Says whether `inner` is `outer` or lies beneath it.
fn is_beneath(outer: &[u8], inner: &[u8]) -> bool {
    outer == b"/"
        || inner
            .strip_prefix(outer)
            .is_some_and(|rest| rest.is_empty() || rest.first() == Some(&b'/'))
}

/// Returns the path behind `~` or `~user`; a `~` before another name is an ordinary letter.
fn strip_home<'a>(named: &'a [u8], user: &str) -> Option<&'a [u8]> {
    let rest = named.strip_prefix(b"~")?;
    let rest = rest.strip_prefix(user.as_bytes()).unwrap_or(rest);
    match rest.split_first() {
        None => Some(b"."),
        Some((b'/', rest)) => Some(if rest.is_empty() { b"." } else { rest }),
        Some(_) => None,
    }
}

fn path(bytes: Vec<u8>) -> FtpPath {
    FtpPath::new(bytes).expect("joined from paths, and begins with a slash")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ftp(text: &str) -> FtpPath {
        FtpPath::new(text).unwrap()
    }

    fn shown(view: &View, named: &str) -> String {
        let resolved = view
            .find("ann", Some(&ftp(named)), Access::Metadata)
            .unwrap();
        String::from_utf8(resolved.shown.as_bytes().to_vec()).unwrap()
    }

    fn real(view: &View, named: &str) -> String {
        let resolved = view
            .find("ann", Some(&ftp(named)), Access::Metadata)
            .unwrap();
        String::from_utf8(resolved.real.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn paths_are_normalised_by_text() {
        let view = View::new(&ftp("/home/ann"));
        for (named, expected) in [
            ("x", "/home/ann/x"),
            ("/x", "/x"),
            ("../../../../etc", "/etc"),
            ("a//b/./c/", "/home/ann/a/b/c"),
            ("/", "/"),
            ("~", "/home/ann"),
            ("~/x", "/home/ann/x"),
            ("~ann/x", "/home/ann/x"),
            ("~root", "/home/ann/~root"),
            ("~ann2", "/home/ann/~ann2"),
            ("a b ", "/home/ann/a b "),
        ] {
            assert_eq!(shown(&view, named), expected, "{named}");
        }
    }

    #[test]
    fn a_virtual_root_holds_every_path() {
        let mut view = View::new(&ftp("/home/ann"));
        view.set_root(&ftp("/home"));
        assert_eq!(view.cwd(), ftp("/ann"));
        assert_eq!(real(&view, "x"), "/home/ann/x");
        assert_eq!(real(&view, "/../../x"), "/home/x");
        assert_eq!(real(&view, "/"), "/home");
        assert_eq!(shown(&view, "~"), "/ann");
        let mut view = View::new(&ftp("/home/ann"));
        view.set_root(&ftp("/homes"));
        assert_eq!(view.cwd(), ftp("/"));
    }

    #[test]
    fn restrictions_take_the_longest_match() {
        let mut view = View::new(&ftp("/home/ann"));
        assert!(view.restrict("ann", "R/data,RW/data/in,N/data/in/secret,~"));
        let may = |named: &str, access| view.find("ann", Some(&ftp(named)), access).is_ok();
        assert!(may("/data/x", Access::Read) && !may("/data/x", Access::Write));
        assert!(may("/data/in/x", Access::Write));
        assert!(!may("/data/in/secret/x", Access::Metadata));
        assert!(may("/home/ann/f", Access::Write));
        assert!(!may("/database", Access::Metadata) && !may("/", Access::Metadata));
        let whole = |named: &str, access| {
            let resolved = view.find("ann", Some(&ftp(named)), access).unwrap();
            view.permits_beneath(&resolved, access)
        };
        assert!(!whole("/data/in", Access::Write) && !whole("/data", Access::Metadata));
        assert!(whole("/data/in/other", Access::Write) && whole("/data/more", Access::Metadata));
        for bad in ["", "data", "X/data", "/a*", "/a:b"] {
            assert!(!View::new(&ftp("/")).restrict("ann", bad), "{bad}");
        }
    }
}
