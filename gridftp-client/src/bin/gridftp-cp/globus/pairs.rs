//! Pairs of URLs, as `-f` reads and `-df` and `-do` write them, and the copies that they make.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use ftp_wire::glob;
use gridftp_client::Location;
use gridftp_client::url::unshow;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

/// The bytes that a `file:` URL has as escapes.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A source and its destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) from: OsString,
    pub(super) to: OsString,
    /// The part of a line of `-f`, which `-off` and `-len` do not change.
    pub(super) part: Option<Part>,
    /// Whether it is one of the names here that wildcards match.
    pub(super) is_match: bool,
}

/// The bytes of a file that are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) offset: u64,
    /// `None` for all behind the offset.
    pub(super) length: Option<u64>,
}

/// Several sources with one destination, which is a directory where there are several.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) pairs: Vec<Pair>,
    pub(super) to: OsString,
}

/// Reads a list of pairs: two words a line, `"` around words with blanks, `#` before comments. A
/// third word is the part of the file; those behind it are facts of the source, which are asked for
/// anyway.
pub(super) fn read(text: &[u8]) -> Result<Vec<Pair>, String> {
    let mut pairs = Vec::new();
    for (number, line) in (1_usize..).zip(text.split(|byte| *byte == b'\n')) {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let (from, rest) = word(line);
        let (to, rest) = word(rest);
        if from.is_empty() || to.is_empty() {
            return Err(format!("line {number}: write a source and a destination"));
        }
        let (third, _) = word(rest);
        let part = match third {
            b"" => None,
            third => Some(part(third).ok_or_else(|| {
                let shown = third.escape_ascii();
                format!("line {number}: {shown}: write OFFSET,LENGTH in bytes, or 0,-1 for all")
            })?),
        };
        let [from, to] = [from, to].map(|word| OsString::from_vec(word.to_vec()));
        let is_match = false;
        pairs.push(Pair {
            from,
            to,
            part,
            is_match,
        });
    }
    Ok(pairs)
}

/// Reads `OFFSET,LENGTH` or `OFFSET`; -1 is no bound.
fn part(word: &[u8]) -> Option<Part> {
    let text = std::str::from_utf8(word).ok()?;
    let (offset, length) = text.split_once(',').unwrap_or((text, "-1"));
    let number = |text: &str| match text {
        "-1" => Some(None),
        text if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok().map(Some),
        _ => None,
    };
    Some(Part {
        offset: number(offset)?.unwrap_or(0),
        length: number(length)?,
    })
}

impl Part {
    /// The offset and the length as options of a copy, which has none for a whole file.
    pub(super) fn bounds(self) -> (Option<u64>, Option<u64>) {
        let is_whole = self.offset == 0 && self.length.is_none();
        (Some(self.offset).filter(|_| !is_whole), self.length)
    }
}

/// Splits off the first word.
fn word(line: &[u8]) -> (&[u8], &[u8]) {
    let line = line.trim_ascii_start();
    let (quoted, end) = match line.strip_prefix(b"\"") {
        Some(rest) => (rest, rest.iter().position(|byte| *byte == b'"')),
        None => (line, line.iter().position(u8::is_ascii_whitespace)),
    };
    let (word, rest) = quoted.split_at(end.unwrap_or(quoted.len()));
    (word, rest.strip_prefix(b"\"").unwrap_or(rest))
}

impl Pair {
    /// Writes a line that [`read`] reads.
    pub(super) fn write(&self, mut to: impl io::Write) -> io::Result<()> {
        let [from, dest] = [&self.from, &self.to].map(|word| word.as_bytes());
        let part = match self.part {
            None => String::new(),
            Some(Part { offset, length }) => match length {
                None => format!(" {offset},-1"),
                Some(length) => format!(" {offset},{length}"),
            },
        };
        to.write_all(&[b"\"", from, b"\" \"", dest, b"\"", part.as_bytes(), b"\n"].concat())
    }

    /// The directory of the destination, where the file keeps its name.
    fn dir(&self) -> Option<&[u8]> {
        let (_, from) = split(self.from.as_bytes());
        let (dir, to) = split(self.to.as_bytes());
        // A query is no part of the name.
        let keeps = self.is_file() && from == to && !from.contains(&b'?');
        (keeps && !self.is_piped()).then_some(dir)
    }

    /// Says whether one of its ends is standard input or output.
    pub(super) fn is_piped(&self) -> bool {
        self.from == "-" || self.to == "-"
    }

    /// The pairs of the names here that the wildcards of the source match, of directories only where
    /// they are copied; the pair itself where there are none. One file may get another name.
    pub(super) fn expand(self, with_dirs: bool) -> Vec<Self> {
        let mut names = matches(&self.from).unwrap_or_default();
        names.retain(|name| with_dirs || !name.ends_with(b"/"));
        let (dir, _) = split(self.from.as_bytes());
        let to = self.to.as_bytes();
        let is_renamed = matches!(names.as_slice(), [name] if !name.ends_with(b"/"));
        let destination = |name: &[u8]| match to.ends_with(b"/") {
            true => below(to, name),
            false if is_renamed => self.to.clone(),
            false => below(&[to, b"/"].concat(), name),
        };
        let pairs = names.iter().map(|name| Self {
            from: below(dir, name),
            to: destination(name),
            part: self.part,
            is_match: true,
        });
        let pairs: Vec<_> = pairs.collect();
        if pairs.is_empty() { vec![self] } else { pairs }
    }

    /// Says whether the source is one file, as far as its URL tells.
    pub(super) fn is_file(&self) -> bool {
        let (_, name) = split(self.from.as_bytes());
        let is_web = ["http://", "https://"].iter().any(|scheme| {
            let begin = self.from.as_bytes().get(..scheme.len());
            begin.is_some_and(|begin| begin.eq_ignore_ascii_case(scheme.as_bytes()))
        });
        !name.is_empty() && (is_web || !name.iter().any(|byte| b"*?[".contains(byte)))
    }

    /// The pair of a file at `source`, which this source is or leads to; `None` where it does not.
    pub(super) fn of(&self, source: &str) -> Option<Self> {
        let ((host, path), (other, found)) = (place(&self.from)?, place(source.as_ref())?);
        if host != other {
            return None;
        }
        if self.is_file() {
            return (path == found).then(|| self.clone());
        }
        let below = found.strip_prefix(split(&path).0)?;
        let below = percent_encode(below, ESCAPED).to_string().into_bytes();
        let to = self.to.as_bytes();
        let slash: &[u8] = if to.ends_with(b"/") { b"" } else { b"/" };
        Some(Self {
            from: OsString::from_vec([split(self.from.as_bytes()).0, &below].concat()),
            to: OsString::from_vec([to, slash, &below].concat()),
            part: self.part,
            is_match: false,
        })
    }
}

/// The names here that the wildcards of a source match, in order, those of directories with a slash;
/// `None` where a server has the source, and where its directory cannot be read.
pub(super) fn matches(from: &OsStr) -> Option<Vec<Vec<u8>>> {
    let (dir, name) = split(from.as_bytes());
    let dir: &[u8] = if dir.is_empty() { b"./" } else { dir };
    let Location::Local(dir) = Location::parse_os(OsStr::from_bytes(dir)).ok()? else {
        return None;
    };
    // The URL of a server has the same wildcards and escapes.
    let url = format!("ftp://localhost/{}", std::str::from_utf8(name).ok()?);
    let Location::Remote(remote) = Location::parse(&url).ok()? else {
        return None;
    };
    let pattern = remote.pattern?;
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&dir).ok()? {
        let entry = entry.ok()?;
        let mut name = entry.file_name().into_vec();
        if glob::matches(&pattern, &name) {
            // A link counts as the object that it leads to.
            let is_dir = std::fs::metadata(entry.path()).is_ok_and(|found| found.is_dir());
            name.extend(is_dir.then_some(b'/'));
            names.push(name);
        }
    }
    names.sort_unstable();
    Some(names)
}

/// A name below a directory, escaped where that is a URL.
fn below(dir: &[u8], name: &[u8]) -> OsString {
    let is_url = dir.starts_with(b"file:") || dir.windows(3).any(|part| part == b"://");
    let escaped = percent_encode(name, ESCAPED).to_string();
    let name = if is_url { escaped.as_bytes() } else { name };
    OsString::from_vec([dir, name].concat())
}

/// The server of a URL, none for this machine, and the path there.
fn place(url: &OsStr) -> Option<(String, Vec<u8>)> {
    match Location::parse_os(url).ok()? {
        Location::Remote(remote) => Some((remote.site.to_string(), remote.path)),
        Location::Local(path) => {
            let mut bytes = std::path::absolute(&path).ok()?.into_os_string().into_vec();
            if path.as_os_str().as_bytes().ends_with(b"/") && !bytes.ends_with(b"/") {
                bytes.push(b'/');
            }
            Some((String::new(), bytes))
        }
        _ => None,
    }
}

/// Splits a URL behind its last slash.
fn split(url: &[u8]) -> (&[u8], &[u8]) {
    let cut = url.iter().rposition(|byte| *byte == b'/');
    url.split_at(cut.map_or(0, |cut| cut + 1))
}

/// Joins pairs that follow each other and have one directory as destination, so that they share
/// sessions.
pub(super) fn batches(pairs: Vec<Pair>) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    let host = |url: &OsStr| {
        let url = url.as_bytes().to_vec();
        let slashes = url.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let end = slashes.map(|(at, _)| at).nth(2);
        url.get(..end.unwrap_or(0)).unwrap_or_default().to_vec()
    };
    for pair in pairs {
        let dir = pair.dir().map(|dir| OsString::from_vec(dir.to_vec()));
        if let (Some(dir), Some(last)) = (&dir, batches.last_mut())
            && last.to == *dir
            && last.pairs.first().is_some_and(|first| {
                host(&first.from) == host(&pair.from) && first.part == pair.part
            })
        {
            last.pairs.push(pair);
            continue;
        }
        let to = dir.unwrap_or_else(|| pair.to.clone());
        batches.push(Batch {
            pairs: vec![pair],
            to,
        });
    }
    batches
}

/// A local path, as an event tells it, as a `file:` URL; any other text stays.
pub(super) fn url(text: &str) -> String {
    if text.contains("://") {
        return text.to_owned();
    }
    let name = unshow(text).unwrap_or_else(|| text.into());
    let name = PathBuf::from(OsString::from_vec(name));
    let path = std::path::absolute(&name).unwrap_or(name);
    let escaped = percent_encode(path.as_os_str().as_bytes(), ESCAPED);
    let slash = if text.ends_with('/') { "/" } else { "" };
    format!("file://{escaped}").trim_end_matches('/').to_owned() + slash
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(from: &str, to: &str) -> Pair {
        Pair {
            from: from.into(),
            to: to.into(),
            part: None,
            is_match: false,
        }
    }

    fn of_part(pair: Pair, offset: u64, length: Option<u64>) -> Pair {
        let part = Some(Part { offset, length });
        Pair { part, ..pair }
    }

    #[test]
    fn pairs_are_read_as_they_are_written() {
        let pairs = [
            pair("file:/a b", "ftp://h/c"),
            of_part(pair("x", "y"), 0, None),
            of_part(pair("x", "z"), 9, Some(5)),
        ];
        let mut text = b"# a comment\n\n".to_vec();
        for pair in &pairs {
            pair.write(&mut text).unwrap();
        }
        assert_eq!(read(&text).unwrap(), pairs);
        let plain = b"  x\ty 0,-1 size=3;\n\"x\" \"z\" 9,5\n";
        assert_eq!(read(plain).unwrap(), pairs[1..]);
        let offset = of_part(pair("x", "y"), 7, None);
        assert_eq!(read(b"x y 7\n").unwrap(), [offset]);
        for third in [
            "x",
            "1,",
            ",1",
            "1,x",
            "-2,1",
            "+1,1",
            "1,2,3",
            "1,99999999999999999999",
        ] {
            let error = read(format!("a b\nx y {third}\n").as_bytes()).unwrap_err();
            assert!(error.starts_with(&format!("line 2: {third}: ")), "{error}");
        }
        assert!(read(b"x\n").unwrap_err().starts_with("line 1"));
    }

    #[test]
    fn a_part_bounds_a_copy_and_a_whole_file_does_not() {
        let bounds = |offset, length| Part { offset, length }.bounds();
        assert_eq!(bounds(0, None), (None, None));
        assert_eq!(bounds(0, Some(5)), (Some(0), Some(5)));
        assert_eq!(bounds(7, None), (Some(7), None));
    }

    #[test]
    fn pairs_of_one_directory_share_a_copy() {
        let pairs = vec![
            pair("ftp://h/d/a", "file:///t/a"),
            pair("ftp://h/e/b", "file:///t/b"),
            pair("ftp://i/e/c", "file:///t/c"),
            pair("ftp://i/e/d", "file:///t/other"),
            pair("ftp://i/e/a", "file:///u/a"),
            of_part(pair("ftp://i/e/b", "file:///u/b"), 0, Some(3)),
            of_part(pair("ftp://i/e/c", "file:///u/c"), 0, Some(3)),
            // Standard output is no name in a directory.
            pair("file:///d/-", "-"),
        ];
        let found = batches(pairs);
        let counts: Vec<_> = found.iter().map(|batch| batch.pairs.len()).collect();
        assert_eq!(counts, [2, 1, 1, 1, 2, 1]);
        assert_eq!(found[0].to, "file:///t/");
        assert_eq!(found[2].to, "file:///t/other");
        assert_eq!(found[5].to, "-");
    }

    #[test]
    fn a_file_below_a_source_has_its_own_pair() {
        for (from, to, source, expected) in [
            ("ftp://h/d/", "file:///t/", "ftp://h/d/x/y", "file:///t/x/y"),
            (
                "ftp://h/d/a",
                "file:///t/b",
                "ftp://h:21/d/a",
                "file:///t/b",
            ),
            (
                "gsiftp://u@h/d/",
                "file:///t/",
                "gsiftp://u@h:2811/d/a%20b",
                "file:///t/a%20b",
            ),
            ("file:/d/", "ftp://h/t/", "/d/x", "ftp://h/t/x"),
            (
                "http://h/d?x=1",
                "file:///t/d",
                "http://h:80/d?x=1",
                "file:///t/d",
            ),
            ("ftp://h/d/*", "file:///t/", "ftp://h/d/a", "file:///t/a"),
        ] {
            let found = pair(from, to).of(source).unwrap();
            assert_eq!(found.to, expected, "{from} {to} {source}");
        }
        assert_eq!(pair("ftp://h/d/", "x").of("ftp://h/e/f"), None);
        assert_eq!(pair("ftp://h/d/a", "x").of("ftp://h/d/b"), None);
    }

    #[test]
    fn wildcards_match_names_here() {
        let tree = tempfile::tempdir().unwrap();
        for name in ["one", "o b", "two", "x*"] {
            std::fs::write(tree.path().join(name), name).unwrap();
        }
        std::fs::create_dir(tree.path().join("out")).unwrap();
        let path = tree.path().to_str().unwrap();
        let here = format!("file://{path}/");
        let expand = |from: &str, to: &str, with_dirs| {
            let pairs = pair(from, to).expand(with_dirs);
            let ends =
                |pair: &Pair| [&pair.from, &pair.to].map(|end| end.to_str().unwrap().to_owned());
            pairs.iter().map(ends).collect::<Vec<_>>()
        };
        let joined = |name: &str, to: &str| [format!("{here}{name}"), to.to_owned()];
        assert_eq!(
            expand(&format!("{here}o*"), "ftp://h/t/", false),
            [
                joined("o%20b", "ftp://h/t/o%20b"),
                joined("one", "ftp://h/t/one")
            ]
        );
        assert_eq!(
            expand(&format!("{here}ou*"), "ftp://h/t", true),
            [joined("out/", "ftp://h/t/out/")]
        );
        // One file has the name of its destination, and a star is a character too.
        let star = format!("{here}?%2A");
        assert_eq!(
            expand(&star, "ftp://h/t", true),
            [joined("x%2A", "ftp://h/t")]
        );
        let bare = [format!("{path}/o b"), "t/o b".to_owned()];
        assert_eq!(expand(&format!("{path}/o?b"), "t/", true), [bare]);
        for kept in [
            format!("{here}no*"),
            format!("{here}o"),
            "ftp://h/d/*".to_owned(),
        ] {
            assert_eq!(expand(&kept, "t/", true), [[kept.clone(), "t/".to_owned()]]);
        }
    }

    #[test]
    fn local_paths_are_urls_too() {
        assert_eq!(url("/a b/c"), "file:///a%20b/c");
        assert_eq!(url("/a/"), "file:///a/");
        assert_eq!(url("/a\\\\b\\n\\xff"), "file:///a%5Cb%0A%FF");
        assert_eq!(url("ftp://h/a"), "ftp://h/a");
    }
}
