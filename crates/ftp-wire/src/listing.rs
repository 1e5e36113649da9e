//! Listing lines: MLSx in both directions (RFC 3659 §7.2), and the `ls -l` form of LIST.

use std::borrow::Cow;
use std::io::Write as _;

use crate::error::BadFacts;
use crate::facts::{Entry, EntryKind, Fact, FactSet};
use crate::time::{Civil, TimeVal};

/// The order of the facts in a line, which differs from that of FEAT.
const LINE_ORDER: [Fact; 14] = [
    Fact::Type,
    Fact::Modify,
    Fact::Charset,
    Fact::Size,
    Fact::Perm,
    Fact::UnixMode,
    Fact::UnixOwner,
    Fact::UnixUid,
    Fact::UnixGroup,
    Fact::UnixGid,
    Fact::Unique,
    Fact::UnixSlink,
    Fact::Count,
    Fact::Staged,
];

/// The beginning of a `Type` that tells the target of a link (RFC 3659 §7.5.1.5).
const LINK_TO: &[u8] = b"OS.unix=slink:";

/// The value of the `Error` fact for a name that no line can carry.
const UNNAMEABLE: &str = "InvalidName";

/// The name in a line for people: every control character becomes a `?`.
///
/// Unchanged, a name could end the line early and forge entries, or control a terminal.
pub fn safe_name(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        let shown = |c: char| if c.is_control() { '?' } else { c };
        let text: String = chunk.valid().chars().map(shown).collect();
        out.extend_from_slice(text.as_bytes());
        out.extend_from_slice(chunk.invalid());
    }
    out
}

/// The name in a line for programs: byte for byte, since a program opens the file by these bytes.
///
/// NUL, CR and LF, which no line and no command can carry, become U+FFFD. No other object has that
/// name in practice, so opening it fails.
pub fn wire_name(name: &[u8]) -> Cow<'_, [u8]> {
    if !name.iter().any(is_line_end) {
        return Cow::Borrowed(name);
    }
    let parts: Vec<_> = name.split(is_line_end).collect();
    Cow::Owned(parts.join("\u{fffd}".as_bytes()))
}

fn is_line_end(byte: &u8) -> bool {
    matches!(byte, 0 | b'\r' | b'\n')
}

pub(crate) fn url_encode(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(byte);
        } else {
            push(out, format_args!("%{byte:02X}"));
        }
    }
}

/// Decodes `%XX`; any other `%` stays.
pub(crate) fn url_decode(text: &[u8]) -> Vec<u8> {
    let hex = |b: u8| {
        char::from(b)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    };
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    loop {
        rest = match rest {
            [b'%', high, low, tail @ ..] => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => {
                    out.push(high << 4 | low);
                    tail
                }
                _ => {
                    out.push(b'%');
                    rest.get(1..).unwrap_or_default()
                }
            },
            [byte, tail @ ..] => {
                out.push(*byte);
                tail
            }
            [] => return out,
        };
    }
}

fn push(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a Vec takes every write");
}

impl Entry {
    /// Appends the line of MLSD, MLST, MLSR and MLSC: facts, a blank, the name; no line end.
    ///
    /// An error is printed whether `facts` selects it or not. A name that no line can carry is an
    /// error of its entry: `Error=InvalidName;`, with the name as from [`wire_name`].
    pub fn write_facts(&self, facts: FactSet, out: &mut Vec<u8>) {
        for fact in LINE_ORDER.into_iter().filter(|fact| facts.contains(*fact)) {
            self.write_fact(fact, out);
        }
        let name = wire_name(&self.name);
        let unnameable = matches!(name, Cow::Owned(_)).then_some(UNNAMEABLE);
        if let Some(error) = self.error.as_deref().or(unnameable) {
            encoded("Error", error.as_bytes(), out);
        }
        out.push(b' ');
        out.extend_from_slice(&name);
    }

    fn write_fact(&self, fact: Fact, out: &mut Vec<u8>) {
        let name = fact.as_str();
        match fact {
            Fact::Type => push(out, format_args!("{name}={};", self.kind.as_str())),
            // Apache commons-net drops a line with more than three digits of a second.
            Fact::Modify => push(out, format_args!("{name}={};", self.modified.to_millis())),
            Fact::Charset => {
                let utf8 = std::str::from_utf8(&self.name).is_ok();
                push(
                    out,
                    format_args!("{name}={};", if utf8 { "UTF-8" } else { "8bit" }),
                );
            }
            Fact::Size => push(out, format_args!("{name}={};", self.size)),
            Fact::Perm => encoded(name, self.perm.as_bytes(), out),
            Fact::UnixMode => push(out, format_args!("{name}={:04o};", self.mode & 0o7777)),
            Fact::UnixOwner => encoded(name, self.owner.1.as_bytes(), out),
            Fact::UnixUid => push(out, format_args!("{name}={};", self.owner.0)),
            Fact::UnixGroup => encoded(name, self.group.1.as_bytes(), out),
            Fact::UnixGid => push(out, format_args!("{name}={};", self.group.0)),
            Fact::Unique => {
                let (device, inode) = self.unique;
                push(out, format_args!("{name}={device:x}-{inode:x};"));
            }
            Fact::UnixSlink => {
                if let Some(target) = &self.target {
                    encoded(name, target, out);
                }
            }
            Fact::Count => {
                if let Some(count) = self.count {
                    push(out, format_args!("{name}={count};"));
                }
            }
            Fact::Staged => {
                if let Some(staged) = self.staged {
                    push(out, format_args!("{name}={staged};"));
                }
            }
        }
    }

    /// Parses a line of MLSD, MLST, MLSR or MLSC; returns the entry and the facts in the line.
    ///
    /// Fields without a fact are as in [`Entry::new`]; unknown facts are skipped. The name is as
    /// sent: the caller checks that it does not lead out of the directory.
    ///
    /// # Errors
    ///
    /// [`BadFacts`] when there is no name, or a number or time is malformed.
    pub fn parse(line: &[u8]) -> Result<(Self, FactSet), BadFacts> {
        let (facts, name) = split_name(line).ok_or(BadFacts::Name)?;
        let mut entry = Self::new(EntryKind::Other, name);
        let mut found = FactSet::NONE;
        let mut at = 0;
        for fact in facts.split(|b| *b == b';') {
            if !fact.is_empty() {
                let equals = fact
                    .iter()
                    .position(|b| *b == b'=')
                    .ok_or(BadFacts::Fact { at })?;
                let (key, value) = fact.split_at(equals);
                let value = value.get(1..).unwrap_or_default();
                let bad = BadFacts::Value {
                    at: at + equals + 1,
                };
                if let Some(fact) = Fact::from_name(key) {
                    entry.take_fact(fact, value).ok_or(bad)?;
                    found = found.with(fact);
                } else if key.eq_ignore_ascii_case(b"Error") {
                    entry.error = Some(decoded(value));
                }
            }
            at += fact.len() + 1;
        }
        Ok((entry, found))
    }

    fn take_fact(&mut self, fact: Fact, value: &[u8]) -> Option<()> {
        match fact {
            Fact::Type => {
                self.kind = EntryKind::from_fact(value);
                if let Some((kind, target)) = value.split_at_checked(LINK_TO.len())
                    && kind.eq_ignore_ascii_case(LINK_TO)
                {
                    self.target.get_or_insert_with(|| target.to_vec());
                }
            }
            Fact::Modify => self.modified = TimeVal::parse(value)?,
            Fact::Charset => {}
            Fact::Size => self.size = number(value, 10)?,
            Fact::Perm => self.perm = decoded(value),
            Fact::UnixMode => self.mode = u32::try_from(number(value, 8)? & 0o7777).ok()?,
            Fact::UnixOwner => self.owner.1 = decoded(value),
            Fact::UnixUid => self.owner.0 = u32::try_from(number(value, 10)?).ok()?,
            Fact::UnixGroup => self.group.1 = decoded(value),
            Fact::UnixGid => self.group.0 = u32::try_from(number(value, 10)?).ok()?,
            Fact::Unique => self.unique = unique(value),
            Fact::UnixSlink => self.target = Some(url_decode(value)),
            Fact::Count => self.count = Some(number(value, 10)?),
            Fact::Staged => self.staged = Some(value.eq_ignore_ascii_case(b"true")),
        }
        Some(())
    }

    /// Appends the line of LIST, in the form of `ls -l`, times in UTC; no line end.
    ///
    /// As with `ls`, a time more than half a year from `now` shows the year in place of the hour.
    pub fn write_long(&self, now: TimeVal, out: &mut Vec<u8>) {
        let name_of = |(id, name): &(u32, String)| {
            if name.is_empty() {
                id.to_string()
            } else {
                url_safe(name)
            }
        };
        let Civil {
            year,
            month,
            day,
            hour,
            minute,
            ..
        } = self.modified.civil();
        let month = MONTHS
            .get(usize::from(month).wrapping_sub(1))
            .unwrap_or(&"Jan");
        let age = now.seconds.saturating_sub(self.modified.seconds);
        let clock = if (-DAY..HALF_YEAR).contains(&age) {
            format!("{hour:02}:{minute:02}")
        } else {
            format!("{year:>5}")
        };
        push(
            out,
            format_args!(
                "{} {:3} {:>8} {:>8} {:12} {month} {day:2} {clock} ",
                mode_text(self.kind, self.mode),
                self.links,
                name_of(&self.owner),
                name_of(&self.group),
                self.size,
            ),
        );
        out.extend(safe_name(&self.name));
        if let (EntryKind::Slink, Some(target)) = (self.kind, &self.target) {
            out.extend_from_slice(b" -> ");
            out.extend(safe_name(target));
        }
    }
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const DAY: i64 = 86_400;
const HALF_YEAR: i64 = 182 * DAY;

/// Replaces blanks and control characters in a user's name, which would break the columns.
fn url_safe(name: &str) -> String {
    name.chars()
        .map(|c| {
            if c.is_whitespace() || c.is_control() {
                '?'
            } else {
                c
            }
        })
        .collect()
}

fn mode_text(kind: EntryKind, mode: u32) -> String {
    let mut text = String::with_capacity(10);
    text.push(match kind {
        EntryKind::Dir | EntryKind::Cdir | EntryKind::Pdir => 'd',
        EntryKind::Slink => 'l',
        EntryKind::Char => 'c',
        EntryKind::Block => 'b',
        EntryKind::Pipe => 'p',
        EntryKind::File | EntryKind::Other => '-',
    });
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

fn encoded(name: &str, value: &[u8], out: &mut Vec<u8>) {
    push(out, format_args!("{name}="));
    url_encode(value, out);
    out.push(b';');
}

fn decoded(value: &[u8]) -> String {
    String::from_utf8_lossy(&url_decode(value)).into_owned()
}

fn number(digits: &[u8], radix: u32) -> Option<u64> {
    digits.first().filter(|b| b.is_ascii_digit())?;
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok()
}

/// `Unique` may be any text; one that is not two hexadecimal numbers is hashed into two.
fn unique(value: &[u8]) -> (u64, u64) {
    let text = std::str::from_utf8(value).unwrap_or_default();
    let hex = |t: &str| u64::from_str_radix(t, 16).ok();
    let pair = text
        .split_once('-')
        .and_then(|(device, inode)| Some((hex(device)?, hex(inode)?)));
    pair.unwrap_or_else(|| {
        let fnv = |seed: u64| {
            value.iter().fold(seed, |h, b| {
                (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3)
            })
        };
        (fnv(0xcbf2_9ce4_8422_2325), fnv(0x6c62_272e_07bb_0142))
    })
}

/// Separates the facts from the name: at the blank behind the last `;`, or, where a server omits
/// that `;`, at the first blank.
fn split_name(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let blank = if line.first() == Some(&b' ') {
        0
    } else {
        let closed = line
            .windows(2)
            .position(|pair| pair == b"; ")
            .map(|at| at + 1);
        closed.or_else(|| line.iter().position(|b| *b == b' '))?
    };
    let (facts, name) = line.split_at(blank);
    let name = name.get(1..).filter(|name| !name.is_empty())?;
    Some((facts, name))
}

#[cfg(test)]
#[path = "listing_tests.rs"]
mod tests;
