//! `Code` and `Reply`: multi-line rules of RFC 959 §4.2; `Display` writes exactly the wire form.

use std::fmt;

use crate::facts::TimeVal;

/// A three-digit reply code (RFC 959 §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(u16);

impl Code {
    /// Makes a code; `None` outside 100–699.
    pub const fn new(code: u16) -> Option<Self> {
        if code >= 100 && code < 700 {
            Some(Self(code))
        } else {
            None
        }
    }

    /// Makes a code from a literal, checked by the compiler: `Code::of::<226>()`.
    pub const fn of<const N: u16>() -> Self {
        const {
            assert!(
                N >= 100 && N < 700,
                "a reply code has three digits, the first 1 to 6"
            )
        };
        Self(N)
    }

    /// The number.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Says whether more replies to the same command follow (1xx).
    pub const fn is_preliminary(self) -> bool {
        self.0 < 200
    }

    /// Says whether the command did what it was asked (2xx).
    pub const fn is_success(self) -> bool {
        self.0 / 100 == 2
    }

    /// Says whether another command must follow (3xx).
    pub const fn is_intermediate(self) -> bool {
        self.0 / 100 == 3
    }

    /// Says whether trying again may help (4xx).
    pub const fn is_transient(self) -> bool {
        self.0 / 100 == 4
    }

    /// Says whether the command failed (4xx or 5xx).
    pub const fn is_failure(self) -> bool {
        self.0 / 100 == 4 || self.0 / 100 == 5
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:03}", self.0)
    }
}

/// One reply, whole or a part of it: a code and its lines of text.
///
/// Line ends and NUL within a line become blanks, so that a reply built from a file's name or an
/// error's text cannot end early or pass for two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    code: Code,
    lines: Vec<Vec<u8>>,
    style: Style,
    position: Position,
}

/// Part of a reply that its lines are, for a reply that is written as its lines are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    Whole,
    First,
    Inner,
    Last,
}

/// How the lines between the first and the last are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// `NNN-` before every inner line.
    Coded,
    /// One blank before every inner line, as FEAT, STAT, MLST, SPAS, 112 and 113 have it.
    Indented,
}

impl Reply {
    /// A reply of one line.
    pub fn new(code: Code, text: impl Into<Vec<u8>>) -> Self {
        Self {
            code,
            lines: vec![safe(text.into())],
            style: Style::Coded,
            position: Position::Whole,
        }
    }

    /// A reply of one line with a literal code, checked by the compiler: `Reply::of::<200>("ok")`.
    pub fn of<const N: u16>(text: impl Into<Vec<u8>>) -> Self {
        Self::new(Code::of::<N>(), text)
    }

    /// A reply whose lines all carry the code; the last is the closing one.
    pub fn coded<L: Into<Vec<u8>>>(code: Code, lines: impl IntoIterator<Item = L>) -> Self {
        let mut lines: Vec<_> = lines.into_iter().map(|line| safe(line.into())).collect();
        if lines.is_empty() {
            lines.push(Vec::new());
        }
        Self {
            code,
            lines,
            style: Style::Coded,
            position: Position::Whole,
        }
    }

    /// A reply with an opening line, inner lines each behind one blank, and a closing line.
    pub fn indented<L: Into<Vec<u8>>>(
        code: Code,
        first: impl Into<Vec<u8>>,
        inner: impl IntoIterator<Item = L>,
        last: impl Into<Vec<u8>>,
    ) -> Self {
        let mut lines = vec![safe(first.into())];
        lines.extend(inner.into_iter().map(|line| safe(line.into())));
        lines.push(safe(last.into()));
        Self::lines_of(code, lines, Position::Whole)
    }

    /// The beginning of an indented reply whose other lines are not known yet.
    pub fn opening(code: Code, first: impl Into<Vec<u8>>) -> Self {
        Self::lines_of(code, vec![safe(first.into())], Position::First)
    }

    /// More inner lines of a reply that [`opening`](Self::opening) began.
    pub fn inside<L: Into<Vec<u8>>>(code: Code, inner: impl IntoIterator<Item = L>) -> Self {
        let inner = inner.into_iter().map(|line| safe(line.into()));
        Self::lines_of(code, inner.collect(), Position::Inner)
    }

    /// The end of a reply that [`opening`](Self::opening) began.
    pub fn closing(code: Code, last: impl Into<Vec<u8>>) -> Self {
        Self::lines_of(code, vec![safe(last.into())], Position::Last)
    }

    fn lines_of(code: Code, lines: Vec<Vec<u8>>, position: Position) -> Self {
        Self {
            code,
            lines,
            style: Style::Indented,
            position,
        }
    }

    /// A failure in the structured form of GCT 13.24: its class (`PATH_NOT_FOUND`) and further
    /// fields (`GridFTP-Errno`).
    ///
    /// The reason stands in the first line, which is all that many clients show; those of Globus look for
    /// the line of the class wherever it is, as behind the prose of their own server.
    pub fn globus_error(code: Code, reason: &str, class: &str, fields: &[(&str, &str)]) -> Self {
        let head = format!("GlobusError: v=1 c={class}");
        let fields = fields
            .iter()
            .map(|(name, value)| format!("{name}: {value}"));
        Self::coded(
            code,
            [reason.to_owned(), head]
                .into_iter()
                .chain(fields)
                .chain(["End.".to_owned()]),
        )
    }

    /// A reply as a parser found it.
    pub(crate) fn from_wire(code: Code, lines: Vec<Vec<u8>>, style: Style) -> Self {
        Self {
            code,
            lines,
            style,
            position: Position::Whole,
        }
    }

    /// The code.
    pub const fn code(&self) -> Code {
        self.code
    }

    /// All lines, without codes and line ends; at least one.
    pub fn lines(&self) -> &[Vec<u8>] {
        &self.lines
    }

    /// The lines between the first and the last.
    pub fn inner(&self) -> &[Vec<u8>] {
        match self.lines.as_slice() {
            [_, inner @ .., _] => inner,
            _ => &[],
        }
    }

    /// The first line.
    pub fn first_line(&self) -> &[u8] {
        self.lines.first().map_or(&[], Vec::as_slice)
    }

    /// The closing line; of a reply of one line, that one.
    pub fn last_line(&self) -> &[u8] {
        self.lines.last().map_or(&[], Vec::as_slice)
    }

    /// All text for a person: lines joined by line feeds, bad UTF-8 replaced, the bare `End.` left out.
    pub fn text(&self) -> String {
        let closing = |line: &[u8]| matches!(line, b"End" | b"End.");
        let lines = match self.lines.as_slice() {
            [lines @ .., last] if !lines.is_empty() && closing(last) => lines,
            lines => lines,
        };
        let lines: Vec<_> = lines
            .iter()
            .map(|line| String::from_utf8_lossy(line))
            .collect();
        lines.join("\n")
    }

    /// The value behind `name:` on a line of its own, blanks trimmed; names match in any case.
    pub fn field(&self, name: &str) -> Option<String> {
        self.lines.iter().find_map(|line| {
            let (key, value) = line.split_at_checked(line.iter().position(|b| *b == b':')?)?;
            let found = key.trim_ascii().eq_ignore_ascii_case(name.as_bytes());
            let value = value.get(1..)?.trim_ascii();
            found.then(|| String::from_utf8_lossy(value).into_owned())
        })
    }

    /// The class GCT gives an error (`GlobusError: v=1 c=PATH_NOT_FOUND`).
    pub fn error_class(&self) -> Option<String> {
        let words = self.field("GlobusError")?;
        words
            .split_ascii_whitespace()
            .find_map(|w| w.strip_prefix("c="))
            .map(str::to_owned)
    }

    /// The number in a reply to `SIZE`, in bytes.
    pub fn size(&self) -> Option<u64> {
        std::str::from_utf8(self.last_line())
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    /// The time in a reply to `MDTM`.
    pub fn time(&self) -> Option<TimeVal> {
        TimeVal::parse(self.last_line().trim_ascii())
    }

    /// The digest in a reply to `CKSM`, in lower-case hexadecimal.
    pub fn digest(&self) -> Option<String> {
        let text = std::str::from_utf8(self.last_line()).ok()?.trim();
        let is_digest = !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
        is_digest.then(|| text.to_ascii_lowercase())
    }

    /// Appends the wire form, line ends included.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        let code = self.code.to_string();
        let last = self.lines.len().saturating_sub(1);
        for (i, line) in self.lines.iter().enumerate() {
            // RFC 959 §4.2: an inner line that looks like the closing one must be told apart from
            // it. Both styles see to that for every line.
            let opens = i == 0 && matches!(self.position, Position::Whole | Position::First);
            let closes = i == last && matches!(self.position, Position::Whole | Position::Last);
            let coded = opens || closes || self.style == Style::Coded;
            if coded {
                out.extend_from_slice(code.as_bytes());
            }
            out.push(if closes || !coded { b' ' } else { b'-' });
            out.extend_from_slice(line);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// Writes the wire form; bytes that are no UTF-8 come out replaced, so the wire itself takes
/// [`Reply::write_to`].
impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut wire = Vec::new();
        self.write_to(&mut wire);
        f.write_str(&String::from_utf8_lossy(&wire))
    }
}

fn safe(mut line: Vec<u8>) -> Vec<u8> {
    for byte in &mut line {
        if matches!(byte, 0 | b'\r' | b'\n') {
            *byte = b' ';
        }
    }
    line
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
