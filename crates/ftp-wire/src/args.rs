//! `Args`: splits the arguments of one command line and keeps the position of each.

use crate::error::BadCommandKind;
use crate::facts::TimeVal;
use crate::parse::Parsed;
use crate::path::FtpPath;

const MISSING: BadCommandKind = BadCommandKind::MissingArgument;

/// The unread rest of a command line.
#[derive(Debug, Clone)]
pub(crate) struct Args<'a> {
    line: &'a [u8],
    /// First unread byte; it may be a blank.
    at: usize,
}

fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

impl<'a> Args<'a> {
    pub(crate) fn new(line: &'a [u8], at: usize) -> Self {
        Self { line, at }
    }

    /// The same line, from byte `at` on.
    pub(crate) fn reread(&self, at: usize) -> Self {
        Self::new(self.line, at)
    }

    fn skip_blanks(&mut self) {
        let rest = self.line.get(self.at..).unwrap_or_default();
        self.at += rest.iter().take_while(|b| is_blank(b)).count();
    }

    /// The position of the next argument.
    pub(crate) fn at(&mut self) -> usize {
        self.skip_blanks();
        self.at
    }

    /// The next argument and its position.
    pub(crate) fn next(&mut self) -> Option<(&'a [u8], usize)> {
        let at = self.at();
        let rest = self.line.get(at..)?;
        let end = rest.iter().position(is_blank).unwrap_or(rest.len());
        let word = rest.get(..end).filter(|word| !word.is_empty())?;
        self.at = at + end;
        Some((word, at))
    }

    /// The next argument, which is mandatory.
    pub(crate) fn require(&mut self) -> Parsed<(&'a [u8], usize)> {
        let at = self.at();
        self.next().ok_or((MISSING, at))
    }

    /// The next argument, which is mandatory, without taking it.
    pub(crate) fn peek(&self) -> Parsed<(&'a [u8], usize)> {
        self.clone().require()
    }

    /// The rest of the line, inner and trailing blanks included.
    pub(crate) fn rest(&mut self) -> (&'a [u8], usize) {
        let at = self.at();
        self.at = self.line.len();
        (self.line.get(at..).unwrap_or_default(), at)
    }

    /// The rest of the line as UTF-8 text.
    pub(crate) fn any_text(&mut self, what: &'static str) -> Parsed<String> {
        let (text, at) = self.rest();
        let text = String::from_utf8(text.to_vec());
        text.map_err(|_| (BadCommandKind::BadArgument(what), at))
    }

    /// The rest of the line behind one blank: a password or a name may begin with a blank of its
    /// own (RFC 959 §5.3).
    fn behind_one_blank(&mut self) -> (&'a [u8], usize) {
        let at = self.line.len().min(self.at + 1);
        self.at = self.line.len();
        (self.line.get(at..).unwrap_or_default(), at)
    }

    /// The rest of the line behind one blank as UTF-8 text.
    pub(crate) fn password(&mut self) -> Parsed<String> {
        let (text, at) = self.behind_one_blank();
        // Refused text must not be copied: the copy of a password would not be overwritten.
        let text = std::str::from_utf8(text).map(str::to_owned);
        text.map_err(|_| (BadCommandKind::BadArgument("password"), at))
    }

    /// The rest of the line as UTF-8 text, which must not be empty.
    pub(crate) fn text(&mut self, what: &'static str) -> Parsed<String> {
        let at = self.at();
        let text = self.any_text(what)?;
        if text.is_empty() {
            Err((MISSING, at))
        } else {
            Ok(text)
        }
    }

    /// One word of UTF-8 text.
    pub(crate) fn word(&mut self, what: &'static str) -> Parsed<String> {
        let (word, at) = self.require()?;
        let word = String::from_utf8(word.to_vec());
        word.map_err(|_| (BadCommandKind::BadArgument(what), at))
    }

    /// The rest of the line as text, if any.
    pub(crate) fn optional_word(&mut self, what: &'static str) -> Parsed<Option<String>> {
        let text = self.any_text(what)?;
        let text = text.trim_ascii();
        Ok((!text.is_empty()).then(|| text.to_owned()))
    }

    /// The rest of the line behind one blank as a path.
    pub(crate) fn path(&mut self) -> Parsed<FtpPath> {
        let (path, at) = self.behind_one_blank();
        if path.is_empty() {
            return Err((MISSING, at));
        }
        FtpPath::new(path).ok_or((BadCommandKind::BadArgument("path"), at))
    }

    /// The rest of the line behind one blank as a path, if any.
    pub(crate) fn optional_path(&mut self) -> Parsed<Option<FtpPath>> {
        if self.line.len() <= self.at + 1 {
            return Ok(None);
        }
        self.path().map(Some)
    }

    /// As `optional_path`, without the leading options of `ls` (`-la`) that clients send.
    pub(crate) fn path_behind_options(&mut self) -> Parsed<Option<FtpPath>> {
        while self.line.get(self.at + 1) == Some(&b'-') {
            self.next();
        }
        self.optional_path()
    }

    /// A decimal number without a sign.
    pub(crate) fn number<T: std::str::FromStr>(&mut self, what: &'static str) -> Parsed<T> {
        let (word, at) = self.require()?;
        let digits = word.iter().all(u8::is_ascii_digit);
        let text = std::str::from_utf8(word).ok().filter(|_| digits);
        text.and_then(|text| text.parse().ok())
            .ok_or((BadCommandKind::BadArgument(what), at))
    }

    /// A length; −1 means to the end.
    pub(crate) fn length(&mut self) -> Parsed<Option<u64>> {
        if self.peek()?.0 == b"-1" {
            self.next();
            return Ok(None);
        }
        self.number("length").map(Some)
    }

    /// Permission bits, octal.
    pub(crate) fn octal(&mut self) -> Parsed<u32> {
        let (word, at) = self.require()?;
        let text = std::str::from_utf8(word)
            .ok()
            .filter(|text| !text.starts_with('+'));
        let mode = text.and_then(|text| u32::from_str_radix(text, 8).ok());
        mode.filter(|mode| *mode <= 0o7777)
            .ok_or((BadCommandKind::BadArgument("mode"), at))
    }

    /// A time-val.
    pub(crate) fn time(&mut self) -> Parsed<TimeVal> {
        let (word, at) = self.require()?;
        TimeVal::parse(word).ok_or((BadCommandKind::BadArgument("time"), at))
    }

    /// A hexadecimal digest, made lower case.
    pub(crate) fn digest(&mut self) -> Parsed<String> {
        let (word, at) = self.require()?;
        digest(word).ok_or((BadCommandKind::BadArgument("digest"), at))
    }

    /// One letter, made upper case.
    pub(crate) fn letter(&mut self, what: &'static str) -> Parsed<char> {
        let (word, at) = self.require()?;
        match word {
            [letter] if letter.is_ascii_alphabetic() => Ok(char::from(letter.to_ascii_uppercase())),
            _ => Err((BadCommandKind::BadArgument(what), at)),
        }
    }

    /// `name="args"`, where the quoted part may hold blanks.
    pub(crate) fn module(&mut self) -> Option<&'a [u8]> {
        let at = self.at();
        let text = self.line.get(at..)?;
        let equals = text
            .iter()
            .position(|b| *b == b'=')
            .filter(|equals| *equals > 0)?;
        let name_is_word = !text.get(..equals)?.iter().any(is_blank);
        let behind = text.get(equals + 1..).filter(|_| name_is_word)?;
        let end = match behind.strip_prefix(b"\"") {
            Some(quoted) => quoted.iter().position(|b| *b == b'"')? + 2,
            None => behind.iter().position(is_blank).unwrap_or(behind.len()),
        };
        let len = equals + 1 + end;
        self.at = at + len;
        text.get(..len)
    }
}

/// Hexadecimal digits, at least two and at most those of SHA-512, made lower case.
pub(crate) fn digest(text: &[u8]) -> Option<String> {
    let sound = (2..=128).contains(&text.len()) && text.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(text).ok().filter(|_| sound)?;
    Some(text.to_ascii_lowercase())
}
