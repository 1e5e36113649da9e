//! `Code` and `Reply`: multi-line rules of RFC 959 §4.2; `Display` writes exactly the wire form.

use std::fmt;

use crate::facts::TimeVal;

/// A three-digit reply code (RFC 959 §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(u16);

impl Code {
    /// Creates a code; `None` outside 100–699.
    pub const fn new(code: u16) -> Option<Self> {
        if code >= 100 && code < 700 {
            Some(Self(code))
        } else {
            None
        }
    }

    /// Creates a code from a literal, checked by the compiler: `Code::of::<226>()`.
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

    /// Says whether the command succeeded (2xx).
    pub const fn is_success(self) -> bool {
        self.0 / 100 == 2
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

/// A reply or a part of one: a code and lines of text.
///
/// Line ends and NUL within a line become blanks, so that a reply with a file's name or an error's
/// text cannot end early or pass for two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    code: Code,
    lines: Vec<Vec<u8>>,
    style: Style,
    position: Position,
}

/// The part of a reply that a value holds, for replies written in pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    Whole,
    First,
    Inner,
    Last,
}

/// The form of the lines between the first and the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// `NNN-` before every inner line.
    Coded,
    /// One blank before every inner line, as in FEAT, STAT, MLST, SPAS, 112 and 113.
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

    /// A reply with the code on every line; the last is the closing one.
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

    /// The first line of an indented reply, for which the other lines follow later.
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
    /// The reason is the first line, since many clients show only that one. Clients of Globus find
    /// the line of the class anywhere in the reply.
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

    /// A reply as parsed.
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

    /// The closing line, which may also be the first.
    pub fn last_line(&self) -> &[u8] {
        self.lines.last().map_or(&[], Vec::as_slice)
    }

    /// The text for people: lines joined by line feeds, bad UTF-8 replaced, no closing `End.`.
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

    /// The value of a line `name: value`, blanks trimmed; names match in any case.
    pub fn field(&self, name: &str) -> Option<String> {
        self.lines.iter().find_map(|line| {
            let (key, value) = line.split_at_checked(line.iter().position(|b| *b == b':')?)?;
            let found = key.trim_ascii().eq_ignore_ascii_case(name.as_bytes());
            let value = value.get(1..)?.trim_ascii();
            found.then(|| String::from_utf8_lossy(value).into_owned())
        })
    }

    /// The class of an error of GCT (`GlobusError: v=1 c=PATH_NOT_FOUND`).
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
            // RFC 959 §4.2: no inner line may look like the closing one. Both styles ensure that.
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

/// Writes the wire form with bad UTF-8 replaced; for the wire itself use [`Reply::write_to`].
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
