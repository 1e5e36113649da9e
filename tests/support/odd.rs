//! `OddTree`: files of equal size and distinct contents under every name that a path can hold.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Bytes of every file, so that only the contents tell one from another.
const SIZE: usize = 48;

/// Names beside those of one byte each: blanks at both ends, wildcards, what shells, URLs, FTP and
/// terminals take for something else, directions of writing, two forms of one letter, and no UTF-8.
const NAMES: &[&[u8]] = &[
    b" ",
    b"  ",
    b" a",
    b"a ",
    b"a  b",
    b"\ta\t",
    b". ",
    b" .",
    b".. ",
    b" ..",
    b"...",
    b" ;x=y; z ",
    b"*",
    b"?",
    b"[a]",
    b"a*b",
    b"[",
    b"]",
    b"{a,b}",
    b"!x",
    b"^x",
    b"-rf",
    b"--",
    b"-",
    b"~",
    b"~root",
    b"%",
    b"%41",
    b"a%2Fb",
    b"%00",
    b"#x",
    b"a?b",
    b"a:b",
    b"a@b",
    b"\"",
    b"a\"b",
    b"'",
    b"\\",
    b"\\n",
    b"$HOME",
    b"`x`",
    b"a;b",
    b"a=b",
    b"type=dir; x",
    b"\x1b[31mred",
    b"\x1b]0;title\x07",
    b"\x08\x08",
    b"\x7f",
    b"\xff",
    b"\xff\xff",
    b"\xff\xf4\xff\xf2",
    b"\xc3",
    b"\xe2\x80",
    b"\xc2\x85",
    b"a\xff\xfeb",
    "\u{202e}gpj.exe".as_bytes(),
    "\u{200f}x".as_bytes(),
    "\u{2066}x\u{2069}".as_bytes(),
    "\u{5d0}\u{5d1}".as_bytes(),
    "\u{e9}".as_bytes(),
    "e\u{301}".as_bytes(),
    "\u{2028}x".as_bytes(),
    "\u{fffd}".as_bytes(),
    "a\u{fffd}b".as_bytes(),
    "\u{1f980}".as_bytes(),
    b" d /f",
    b"d\x1b[0m /\x01",
    b"*d/*",
    b"\xfe/\xfd",
    b"~x/~y",
    "\u{202e}d/\u{202e}f".as_bytes(),
];

/// Names that no command can carry: CR and LF end it.
pub const UNNAMEABLE: &[&[u8]] = &[b"a\nb", b"a\rb", b"\n", b"x\r"];

/// A directory by the bytes of its names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OddTree(BTreeMap<Vec<u8>, Vec<u8>>);

impl OddTree {
    /// Returns a file for every name, and one for every byte that a name may hold and a command carry.
    pub fn all() -> Self {
        let bytes = (1..=255_u8).filter(|byte| !matches!(byte, b'/' | b'\n' | b'\r'));
        let bytes = bytes.map(|byte| vec![b'x', byte, b'y']);
        let names = NAMES.iter().map(|name| name.to_vec());
        Self::of(bytes.chain(names))
    }

    /// Returns a file for each of `names`.
    pub fn of(names: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self(
            names
                .into_iter()
                .map(|name| {
                    let mut content = name.escape_ascii().to_string().into_bytes();
                    content.resize(SIZE, b'.');
                    (name, content)
                })
                .collect(),
        )
    }

    /// Returns the name of each file and what it holds.
    pub fn files(&self) -> impl ExactSizeIterator<Item = (&Vec<u8>, &Vec<u8>)> {
        self.0.iter()
    }

    /// Returns the files whose names `keeps` says to keep.
    #[must_use]
    pub fn only(&self, keeps: impl Fn(&[u8]) -> bool) -> Self {
        Self::of(self.0.keys().filter(|name| keeps(name)).cloned())
    }

    /// Adds what is in another.
    #[must_use]
    pub fn with(mut self, other: &Self) -> Self {
        self.0.extend(other.0.clone());
        self
    }

    /// Writes all of it below `root`.
    pub fn write(&self, root: &Path) -> Result<()> {
        for (name, content) in &self.0 {
            let path = at(root, name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(&path, content).with_context(|| format!("write {}", name.escape_ascii()))?;
        }
        Ok(())
    }

    /// Reads what is below `root`.
    pub fn read(root: &Path) -> Result<Self> {
        let mut found = BTreeMap::new();
        let mut dirs = vec![PathBuf::new()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(root.join(&dir))? {
                let entry = entry?;
                let name = dir.join(entry.file_name());
                let kind = entry.file_type()?;
                if kind.is_symlink() {
                    let to = fs::read_link(entry.path())?;
                    found.insert(
                        name.into_os_string().into_vec(),
                        to.into_os_string().into_vec(),
                    );
                } else if kind.is_dir() {
                    dirs.push(name);
                } else {
                    found.insert(
                        name.as_os_str().as_bytes().to_vec(),
                        fs::read(entry.path())?,
                    );
                }
            }
        }
        Ok(Self(found))
    }

    /// Returns how `got` differs, for people; nothing when it does not.
    pub fn differences(&self, got: &Self) -> Vec<String> {
        let mut names: Vec<_> = self.0.keys().chain(got.0.keys()).collect();
        names.sort();
        names.dedup();
        names
            .into_iter()
            .filter_map(|name| {
                let what = match (self.0.get(name), got.0.get(name)) {
                    (Some(want), Some(got)) if want == got => return None,
                    (Some(_), Some(_)) => "holds another's bytes",
                    (Some(_), None) => "is missing",
                    _ => "is one too many",
                };
                Some(format!("\"{}\" {what}", name.escape_ascii()))
            })
            .collect()
    }
}

/// Returns where a name of bytes lies below `root`.
fn at(root: &Path, name: &[u8]) -> PathBuf {
    root.join(OsStr::from_bytes(name))
}
