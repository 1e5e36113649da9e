//! `Links`: the treatment of symbolic links, and the allowed targets of their copies.

use crate::copy::is_below;
use crate::names;

/// Treatment of symbolic links in a tree. A link that is itself the source is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Links {
    /// The object that a link leads to is copied.
    #[default]
    Follow,
    /// A link becomes a link with the same target, once all files are copied. A link of a server
    /// that leads out of its tree is an error. An absolute target in the tree becomes a relative
    /// one, since Globus servers tell no others. Links are made on this machine and at servers of
    /// this kind, and left out with a warning at others.
    ///
    /// Nothing is written through a link that the destination tells: one in the place of a file is
    /// replaced, and one in the place of a directory is an error.
    Copy,
    /// Links are left out. [`Manner::delete`](crate::Manner::delete) keeps every link at the
    /// destination.
    Skip,
}

/// The target that the copy of a server's link has: `target` leads from the object at `from`, which
/// is `relative` in the tree; `None` where it leads out of that.
///
/// A `..` behind a name is refused, since the name may be a link itself.
pub(crate) fn inner_target(target: &[u8], from: &[u8], relative: &[u8]) -> Option<Vec<u8>> {
    let depth = parts(relative).count().saturating_sub(1);
    if target.is_empty() || target.contains(&0) {
        return None;
    }
    if !target.starts_with(b"/") {
        let up = parts(target).take_while(|part| *part == b"..").count();
        let plain = parts(target).skip(up).all(|part| part != b"..");
        return (plain && up <= depth).then(|| target.to_vec());
    }
    let root = names::trim_slashes(from.strip_suffix(relative)?);
    if !root.starts_with(b"/") || !is_below(target, root) || parts(target).any(|p| p == b"..") {
        return None;
    }
    let below: Vec<_> = parts(target.strip_prefix(root)?).collect();
    let up = std::iter::repeat_n(&b".."[..], depth);
    let text = up.chain(below).collect::<Vec<_>>().join(&b'/');
    Some(if text.is_empty() { b".".to_vec() } else { text })
}

/// The components of a path that mean something.
fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let all = path.split(|b| *b == b'/');
    all.filter(|part| !matches!(*part, b"" | b"."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_stays_in_its_tree() {
        for (target, relative, text) in [
            ("f", "l", Some("f")),
            ("./d//f", "l", Some("./d//f")),
            ("..", "d/l", Some("..")),
            ("../e/f", "d/l", Some("../e/f")),
            ("..f", "l", Some("..f")),
            ("..", "l", None),
            ("../../f", "d/l", None),
            ("d/../f", "l", None),
            ("../e/../../f", "d/l", None),
            ("", "l", None),
            ("a\0", "l", None),
            ("/src/e/f", "d/l", Some("../e/f")),
            ("/src/f", "l", Some("f")),
            ("/src", "d/l", Some("..")),
            ("/src", "l", Some(".")),
            ("/srcs/f", "l", None),
            ("/src/../f", "l", None),
            ("/etc/passwd", "l", None),
            ("/", "l", None),
        ] {
            let from = format!("/src/{relative}");
            let told = inner_target(target.as_bytes(), from.as_bytes(), relative.as_bytes());
            assert_eq!(
                told.as_deref(),
                text.map(str::as_bytes),
                "{target} {relative}"
            );
        }
        let home = inner_target(b"/f", b"~/l", b"l");
        assert_eq!(home, None);
        assert_eq!(inner_target(b"/f", b"/l", b"l").unwrap(), b"f");
    }
}
