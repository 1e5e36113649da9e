//! Listings of servers without `MLSD`: which `LIST` to send, and its lines as those of `MLSD`.

use ftp_proto::client::FailureKind;
use ftp_wire::command::Command;
use ftp_wire::facts::{Entry, EntryKind, Fact, FactSet};
use ftp_wire::path::FtpPath;

use crate::abilities::Abilities;
use crate::error::ControlError;

/// Ways to ask for a listing, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Form {
    /// `MLSD`.
    #[default]
    Facts,
    /// `LIST -a`: hidden names are left out without the option, which not every server knows.
    All,
    /// `LIST`.
    Plain,
}

impl Form {
    /// This form, or the first that the server has.
    pub(crate) fn at(self, abilities: &Abilities) -> Self {
        match abilities.mlst {
            true => self,
            false => self.max(Self::All),
        }
    }

    pub(crate) fn command(self, path: FtpPath) -> Command {
        match self {
            Self::Facts => Command::Mlsd(Some(path)),
            Self::All => Command::ListAll(path),
            Self::Plain => Command::List(Some(path)),
        }
    }

    /// The form to try after this one was refused.
    pub(crate) fn after(self, refusal: &ControlError) -> Option<Self> {
        match (self, refusal.kind()?) {
            (Self::Facts, FailureKind::Unsupported) => Some(Self::All),
            (Self::All, FailureKind::Unsupported | FailureKind::NotFound | FailureKind::Failed) => {
                Some(Self::Plain)
            }
            _ => None,
        }
    }

    /// Gives `each` a line as `MLSD` would have it.
    pub(crate) fn line(self, line: &[u8], each: impl FnOnce(&[u8])) {
        match self {
            Self::Facts => each(line),
            Self::All | Self::Plain if is_total(line) => {}
            // A line that is not understood is told as it is.
            Self::All | Self::Plain => match unix(line).or_else(|| dos(line)) {
                Some(facts) => each(&facts),
                None => each(line),
            },
        }
    }
}

fn is_total(line: &[u8]) -> bool {
    line.strip_prefix(b"total ")
        .is_some_and(|rest| rest.trim_ascii().iter().all(u8::is_ascii_digit))
}

/// Splits off the first word, and the one blank behind it.
fn word(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.trim_ascii_start();
    let end = line.iter().position(|b| *b == b' ')?;
    let (word, rest) = line.split_at(end);
    Some((word, rest.get(1..)?))
}

/// A line of `ls -l`: the name follows the time, which follows the size.
fn unix(line: &[u8]) -> Option<Vec<u8>> {
    let kind = *line.first()?;
    let (rights, mut rest) = word(line)?;
    if !b"-dlbcps".contains(&kind) || rights.len() < 10 {
        return None;
    }
    let (mut size, mut before): (Option<&[u8]>, &[u8]) = (None, b"");
    // Links, owner and group, of which some servers leave some out, and the size.
    for _ in 0..8 {
        let (next, behind) = word(rest)?;
        if number(before).is_some()
            && let Some(name) = time(rest)
        {
            size = Some(before);
            rest = name;
            break;
        }
        (before, rest) = (next, behind);
    }
    if kind == b'l' {
        let cut = rest.windows(4).position(|w| w == b" -> ");
        let (name, target) = rest.split_at(cut.unwrap_or(rest.len()));
        return size.and_then(|_| link(name, target.get(4..)));
    }
    let size = size?;
    let size = std::str::from_utf8(size).ok()?;
    let is = |at: usize, bits: &[u8]| rights.get(at).is_some_and(|bit| bits.contains(bit));
    let mode = (1..10).fold(0, |mode, at| mode << 1 | u32::from(is(at, b"rwxst")));
    let facts = match kind {
        b'-' => format!("Type=file;Size={size};UNIX.mode={mode:04o}; "),
        b'd' => format!("Type=dir;UNIX.mode={mode:04o}; "),
        _ => "Type=OS.unix=special; ".to_owned(),
    };
    (!rest.is_empty()).then(|| [facts.as_bytes(), rest].concat())
}

/// A symbolic link, and its target where the line has it.
fn link(name: &[u8], target: Option<&[u8]>) -> Option<Vec<u8>> {
    // The kind of its target shows when it is asked for.
    let mut entry = Entry::new(EntryKind::File, name);
    entry.target = Some(target.unwrap_or_default().to_vec());
    let mut line = Vec::new();
    entry.write_facts(
        FactSet::NONE.with(Fact::Type).with(Fact::UnixSlink),
        &mut line,
    );
    (!name.is_empty()).then_some(line)
}

/// The name behind a time as `ls` writes it: `Jan 02 2020`, `2 Jan 03:04`, `2020-01-02 03:04`,
/// `2020-01-02 03:04:05.000000000 +0000`.
fn time(line: &[u8]) -> Option<&[u8]> {
    let (first, rest) = word(line)?;
    if first.len() == 10 && first.iter().filter(|b| **b == b'-').count() == 2 {
        let (clock, name) = word(rest)?;
        return match clock.iter().filter(|b| **b == b':').count() {
            0 => None,
            // Seconds come with the offset of the time zone.
            2 => Some(behind_zone(name).unwrap_or(name)),
            _ => Some(name),
        };
    }
    let (second, rest) = word(rest)?;
    let month = |text: &[u8]| text.len() == 3 && text.iter().all(u8::is_ascii_alphabetic);
    let day = |text| number(text).is_some_and(|day| (1..=31).contains(&day));
    if !(month(first) && day(second) || day(first) && month(second)) {
        return None;
    }
    let (last, name) = word(rest)?;
    (last.contains(&b':') || number(last).is_some_and(|year| year >= 1900)).then_some(name)
}

/// The name behind the offset of a time zone.
fn behind_zone(text: &[u8]) -> Option<&[u8]> {
    let (zone, name) = text.split_at_checked(5)?;
    let (sign, digits) = zone.split_first()?;
    let is_zone = b"+-".contains(sign) && digits.iter().all(u8::is_ascii_digit);
    name.strip_prefix(b" ").filter(|_| is_zone)
}

/// A line of a DOS listing: `01-02-20  03:04PM  <DIR>  name`, or, of a link,
/// `01-02-20  03:04PM  <SYMLINKD>  name [target]`.
fn dos(line: &[u8]) -> Option<Vec<u8>> {
    let (date, rest) = word(line)?;
    let (clock, rest) = word(rest)?;
    let (what, name) = word(rest)?;
    if date.iter().filter(|b| **b == b'-').count() != 2 || !clock.contains(&b':') {
        return None;
    }
    if matches!(what, b"<SYMLINK>" | b"<SYMLINKD>" | b"<JUNCTION>") {
        let name = name.trim_ascii_start();
        let cut = name.windows(2).rposition(|w| w == b" [");
        let told = cut.filter(|_| name.ends_with(b"]"));
        let (name, target) = name.split_at(told.unwrap_or(name.len()));
        let target = target.get(2..).and_then(|rest| rest.strip_suffix(b"]"));
        // No name there has a backslash.
        let slash = |b: &u8| if *b == b'\\' { b'/' } else { *b };
        let target = target.map(|target| target.iter().map(slash).collect::<Vec<_>>());
        return link(name, target.as_deref());
    }
    let (facts, name) = match number(what) {
        Some(size) => (format!("Type=file;Size={size}; "), name),
        None if what.starts_with(b"<") => ("Type=dir; ".to_owned(), name.trim_ascii_start()),
        None => return None,
    };
    (!name.is_empty()).then(|| [facts.as_bytes(), name].concat())
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> String {
        let mut read = String::new();
        Form::All.line(line.as_bytes(), |line| {
            read = String::from_utf8_lossy(line).into_owned();
        });
        read
    }

    #[test]
    fn listings_of_unix_are_read() {
        for (line, facts) in [
            (
                "-rw-r--r--    1 ftp      ftp          1234 Jan 02  2020 a b ",
                "Type=file;Size=1234;UNIX.mode=0644; a b ",
            ),
            (
                "drwxr-xr-x+  12 1000 users 4096 Dec 31 23:59  two",
                "Type=dir;UNIX.mode=0755;  two",
            ),
            (
                "-rw------- 1 owner 7 Mar  3 2001 x",
                "Type=file;Size=7;UNIX.mode=0600; x",
            ),
            (
                "lrwxrwxrwx 1 o g 4 Jan 1 10:00 to -> a -> b",
                "Type=file;UNIX.slink=a%20-%3E%20b; to",
            ),
            (
                "lrwxrwxrwx 1 o g 4 Jan 1 10:00 to",
                "Type=file;UNIX.slink=; to",
            ),
            (
                "lrwxrwxrwx 1 o g 4 Jan 1 10:00 to -> ..",
                "Type=file;UNIX.slink=..; to",
            ),
            (
                "-rw-r--r-- 1 o g 99 2020-01-02 03:04 May 5 2001",
                "Type=file;Size=99;UNIX.mode=0644; May 5 2001",
            ),
            (
                "-rw-r--r-- 1 o g 5 2026-11-28 20:00:00.000000000 +0000 a b",
                "Type=file;Size=5;UNIX.mode=0644; a b",
            ),
            (
                "lrwxrwxrwx 1 o g 5 2026-11-28 20:00:00 -0330 +0100 -> b",
                "Type=file;UNIX.slink=b; +0100",
            ),
            (
                "-rw-r--r-- 1 o g 5 2026-11-28 20:00 +0000 x",
                "Type=file;Size=5;UNIX.mode=0644; +0000 x",
            ),
            (
                "-rw-r--r-- 1 o g 5 2 Jan 2020 n",
                "Type=file;Size=5;UNIX.mode=0644; n",
            ),
            (
                "crw-rw-rw- 1 root root 1, 3 Jan 1 10:00 null",
                "Type=OS.unix=special; null",
            ),
            ("total 12", ""),
        ] {
            assert_eq!(read(line), facts, "{line}");
        }
    }

    #[test]
    fn listings_of_dos_are_read() {
        for (line, facts) in [
            (
                "01-02-20  03:04PM       <DIR>          a b",
                "Type=dir; a b",
            ),
            ("01-02-2020  15:04      1234  c", "Type=file;Size=1234;  c"),
            (
                r"01-02-20  03:04PM    <SYMLINKD>     a [b] [..\c d]",
                "Type=file;UNIX.slink=../c%20d; a [b]",
            ),
            (
                r"01-02-20  03:04PM    <SYMLINK>      f [C:\f]",
                "Type=file;UNIX.slink=C%3A/f; f",
            ),
            (
                r"01-02-20  03:04PM    <JUNCTION>     j [C:\d]",
                "Type=file;UNIX.slink=C%3A/d; j",
            ),
            (
                "01-02-20  03:04PM    <JUNCTION>     j",
                "Type=file;UNIX.slink=; j",
            ),
        ] {
            assert_eq!(read(line), facts, "{line}");
        }
    }

    #[test]
    fn other_lines_stay_as_they_are() {
        for line in [
            "hello",
            "-rw-r--r-- 1",
            "drwx a b c d e f g h i",
            "total chaos",
        ] {
            assert_eq!(read(line), line);
        }
    }
}
