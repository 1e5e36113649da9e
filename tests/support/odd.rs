//! `OddTree`: files of equal size and distinct contents under unusual names.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Size of every file in bytes: equal, so that only the contents differ.
const SIZE: usize = 48;

/// Names with blanks at both ends, wildcards, characters special to shells, URLs, FTP and
/// terminals, changes of the writing direction, two forms of one letter, and bytes that are not
/// UTF-8.
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

/// Names that no command can carry, since CR and LF end a command.
pub const UNNAMEABLE: &[&[u8]] = &[b"a\nb", b"a\rb", b"\n", b"x\r"];

/// The contents of a directory tree, by file names as bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OddTree(BTreeMap<Vec<u8>, Vec<u8>>);

impl OddTree {
    /// Returns a file for each unusual name, and one for each byte that a command can carry.
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

    /// Returns the name and the content of each file.
    pub fn files(&self) -> impl ExactSizeIterator<Item = (&Vec<u8>, &Vec<u8>)> {
        self.0.iter()
    }

    /// Returns the files for whose names `keeps` is true.
    #[must_use]
    pub fn only(&self, keeps: impl Fn(&[u8]) -> bool) -> Self {
        Self::of(self.0.keys().filter(|name| keeps(name)).cloned())
    }

    /// Adds the files of `other`.
    #[must_use]
    pub fn with(mut self, other: &Self) -> Self {
        self.0.extend(other.0.clone());
        self
    }

    /// Writes all files below `root`.
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

    /// Reads the tree below `root`; the content of a symbolic link is its target.
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

    /// Returns a line for each file in which `got` differs.
    pub fn differences(&self, got: &Self) -> Vec<String> {
        let mut names: Vec<_> = self.0.keys().chain(got.0.keys()).collect();
        names.sort();
        names.dedup();
        names
            .into_iter()
            .filter_map(|name| {
                let difference = match (self.0.get(name), got.0.get(name)) {
                    (Some(want), Some(got)) if want == got => return None,
                    (Some(_), Some(_)) => "has different content",
                    (Some(_), None) => "is missing",
                    _ => "is unexpected",
                };
                Some(format!("\"{}\" {difference}", name.escape_ascii()))
            })
            .collect()
    }
}

/// Returns the path of `name` below `root`.
fn at(root: &Path, name: &[u8]) -> PathBuf {
    root.join(OsStr::from_bytes(name))
}
