//! `Partial`: the partial file of a broken upload, as `SITE HELD` lists those of a directory.

use crate::facts::TimeVal;
use crate::path::FtpPath;
use crate::reply::{Code, Reply};

/// Most partial files of one reply.
pub const MAX_PARTIALS: usize = 256;

/// First line of a list of partial files, before the directory.
const TITLE: &[u8] = b"Partial files in ";

/// Last line of a list that is not complete.
const MORE: &str = "More are kept: ask for a directory below.";

/// The partial file of a broken upload.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "both ends make one from the facts that they have, and the compiler names a new one"
)]
pub struct Partial {
    /// The name that the whole file is to have, relative to the directory that was asked for.
    pub name: FtpPath,
    /// Bytes that are kept.
    pub held: u64,
    /// Bytes of the whole file, where the upload told them.
    pub size: Option<u64>,
    /// Time of the last change.
    pub modified: TimeVal,
    /// Whether an upload writes to it now.
    pub in_use: bool,
}

impl Partial {
    /// The line of a list: facts, a blank and the name, in the manner of RFC 3659 §7.2.
    fn to_line(&self) -> Vec<u8> {
        let Self {
            name,
            held,
            size,
            modified,
            in_use,
        } = self;
        let size = size.map(|size| format!("Size={size};")).unwrap_or_default();
        let used = if *in_use { "Used=1;" } else { "" };
        let mut line = format!("Held={held};{size}Modify={modified};{used} ").into_bytes();
        line.extend_from_slice(name.as_bytes());
        line
    }

    /// Reads the line of a list, without the blanks before it; unknown facts are left out. `None`
    /// for a name that leads out of the directory.
    fn parse(line: &[u8]) -> Option<Self> {
        let at = line.windows(2).position(|pair| pair == b"; ")?;
        let (facts, name) = (line.get(..at)?, line.get(at + 2..)?);
        if name
            .split(|byte| *byte == b'/')
            .any(|part| matches!(part, b"" | b"." | b".."))
        {
            return None;
        }
        let (mut held, mut size, mut modified, mut in_use) = (None, None, None, false);
        for fact in std::str::from_utf8(facts).ok()?.split(';') {
            match fact.split_once('=')? {
                ("Held", value) => held = Some(value.parse().ok()?),
                ("Size", value) => size = Some(value.parse().ok()?),
                ("Modify", value) => modified = Some(TimeVal::parse(value.as_bytes())?),
                ("Used", value) => in_use = value == "1",
                _ => {}
            }
        }
        Some(Self {
            name: FtpPath::new(name)?,
            held: held?,
            size,
            modified: modified?,
            in_use,
        })
    }

    /// The reply to `SITE HELD` of the directory `dir`; `is_cut` says whether it keeps others.
    pub fn list(dir: &FtpPath, all: impl IntoIterator<Item = Self>, is_cut: bool) -> Reply {
        let first = [TITLE, dir.as_bytes()].concat();
        let lines = all.into_iter().map(|partial| partial.to_line());
        let last = if is_cut { MORE } else { "End." };
        Reply::indented(Code::of::<213>(), first, lines, last)
    }

    /// Reads the reply to `SITE HELD` of a directory, and whether it keeps others; `None` for the
    /// reply of a file, for a line that is none, and for more than [`MAX_PARTIALS`].
    pub fn all_of(reply: &Reply) -> Option<(Vec<Self>, bool)> {
        let lines = reply.inner();
        if !reply.first_line().trim_ascii().starts_with(TITLE) || lines.len() > MAX_PARTIALS {
            return None;
        }
        let all = lines
            .iter()
            .map(|line| Self::parse(line.trim_ascii_start()));
        let is_cut = reply.last_line().trim_ascii() == MORE.as_bytes();
        Some((all.collect::<Option<_>>()?, is_cut))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partial(name: &[u8]) -> Partial {
        Partial {
            name: FtpPath::new(name).unwrap(),
            held: 7,
            size: Some(u64::MAX),
            modified: TimeVal::new(1_000_000_000, 5),
            in_use: true,
        }
    }

    #[test]
    fn a_list_is_read_as_it_is_written() {
        let plain = Partial {
            size: None,
            in_use: false,
            ..partial(b"f")
        };
        let all = [
            plain,
            partial(b"a b/c; d "),
            partial(b"\xff/Held=1; x"),
            partial(b" blank"),
        ];
        let dir = FtpPath::new("/d").unwrap();
        for is_cut in [false, true] {
            let reply = Partial::list(&dir, all.iter().skip(1).cloned(), is_cut);
            let (read, cut) = Partial::all_of(&reply).unwrap();
            assert_eq!((&read[..2], cut), (&all[1..3], is_cut));
        }
        let text = Partial::list(&dir, all.iter().take(1).cloned(), false).to_string();
        let line = "Held=7;Modify=20010909014640.000000005; f";
        assert_eq!(
            text,
            format!("213-Partial files in /d\r\n {line}\r\n213 End.\r\n")
        );
    }

    #[test]
    fn lines_of_a_hostile_server_are_none() {
        for line in [
            "",
            "f",
            "Held=1;Modify=20010909014640; ",
            "Held=1;Modify=20010909014640; ../f",
            "Held=1;Modify=20010909014640; /f",
            "Held=1;Modify=20010909014640; a//f",
            "Held=1;Modify=20010909014640; a/.",
            "Held=-1;Modify=20010909014640; f",
            "Held=1;Modify=today; f",
            "Modify=20010909014640; f",
            "Held=1; f",
            "Held; f",
        ] {
            assert_eq!(Partial::parse(line.as_bytes()), None, "{line}");
        }
        let read = Partial::parse(b"Held=1;New=2;Modify=20010909014640; f").unwrap();
        assert_eq!(read.held, 1);
    }

    #[test]
    fn a_reply_has_few_partial_files() {
        let dir = FtpPath::root();
        let all = |count| {
            let list = vec![partial(b"f"); count];
            let all = Partial::all_of(&Partial::list(&dir, list, false));
            all.map(|(all, _)| all.len())
        };
        assert_eq!(all(0), Some(0));
        assert_eq!(all(MAX_PARTIALS), Some(MAX_PARTIALS));
        assert_eq!(all(MAX_PARTIALS + 1), None);
        assert_eq!(
            Partial::all_of(&Reply::of::<213>("Range Marker 0-5")),
            None,
            "that of a file"
        );
    }
}
