//! `ReplyParser`: assembles replies from the bytes of a server, of either multi-line style.

use crate::error::BadReply;
use crate::reply::{Code, Reply, Style};

/// Default limit of a reply in bytes: room for a listing on the control channel.
pub const DEFAULT_LIMIT: usize = 4 << 20;

/// Most lines in a row outside any reply that are skipped; GCT sends some when it echoes a command.
const MAX_GARBAGE: usize = 64;

/// Turns the bytes of a control connection into replies.
///
/// A multi-line reply ends at a line of its own code and a blank (RFC 959 §4.2). A line of another
/// code and a blank counts as text; but some servers end a reply that way, so at a deadline
/// [`settle`](Self::settle) takes it for the end.
#[derive(Debug, Clone)]
pub struct ReplyParser {
    limit: usize,
    raw: Vec<u8>,
    head: usize,
    /// Up to this position `raw` holds no line end.
    scanned: usize,
    open: Option<Open>,
    garbage: usize,
    failed: Option<BadReply>,
}

#[derive(Debug, Clone)]
struct Open {
    code: Code,
    lines: Vec<Vec<u8>>,
    style: Option<Style>,
    bytes: usize,
    /// Number of lines up to the last one that could be the end.
    could_end: Option<usize>,
}

impl Default for ReplyParser {
    fn default() -> Self {
        Self::new()
    }
}

impl ReplyParser {
    /// A parser for replies of up to [`DEFAULT_LIMIT`] bytes.
    pub const fn new() -> Self {
        Self::with_limit(DEFAULT_LIMIT)
    }

    /// A parser for replies of at most `limit` bytes.
    pub const fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            raw: Vec::new(),
            head: 0,
            scanned: 0,
            open: None,
            garbage: 0,
            failed: None,
        }
    }

    /// Takes bytes from the connection.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.raw.extend_from_slice(bytes);
        }
    }

    /// The next whole reply, if there is one.
    ///
    /// An error is final, since the start of the next reply is unknown.
    pub fn next_reply(&mut self) -> Option<Result<Reply, BadReply>> {
        while self.failed.is_none() {
            let Some(line) = self.next_line() else {
                let unfinished = self.raw.strip_suffix(b"\r").unwrap_or(&self.raw).len();
                let held = self.open.as_ref().map_or(0, |open| open.bytes);
                if unfinished.saturating_add(held) > self.limit {
                    self.fail(BadReply::TooLong { limit: self.limit });
                }
                break;
            };
            if let Some(reply) = self.take_line(line) {
                return Some(Ok(reply));
            }
        }
        self.failed.map(Err)
    }

    fn fail(&mut self, bad: BadReply) {
        self.failed = Some(bad);
        self.raw = Vec::new();
        self.head = 0;
        self.open = None;
    }

    fn next_line(&mut self) -> Option<Vec<u8>> {
        let unread = self.raw.get(self.scanned..).unwrap_or_default();
        let Some(found) = unread.iter().position(|b| *b == b'\n') else {
            self.raw.drain(..self.head);
            self.head = 0;
            self.scanned = self.raw.len();
            return None;
        };
        let end = self.scanned + found;
        let line = self.raw.get(self.head..end).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line).to_vec();
        self.head = end + 1;
        self.scanned = self.head;
        Some(line)
    }

    /// Adds a line; returns the reply it completes.
    fn take_line(&mut self, line: Vec<u8>) -> Option<Reply> {
        let held = self.open.as_ref().map_or(0, |open| open.bytes + 2);
        if held.saturating_add(line.len()) > self.limit {
            self.fail(BadReply::TooLong { limit: self.limit });
            return None;
        }
        let Some(mut open) = self.open.take() else {
            return self.begin(&line);
        };
        open.bytes += line.len() + 2;
        match split(&line) {
            Some((code, b' ', text)) if code == open.code => {
                open.lines.push(text.to_vec());
                return Some(open.close());
            }
            Some((code, b'-', text)) if code == open.code => {
                open.style = Some(Style::Coded);
                open.lines.push(text.to_vec());
            }
            other => {
                if matches!(other, Some((_, b' ', _))) {
                    open.could_end = Some(open.lines.len());
                }
                let indented = line.strip_prefix(b" ");
                if indented.is_some() {
                    open.style.get_or_insert(Style::Indented);
                }
                open.lines
                    .push(indented.map_or_else(|| line.clone(), <[u8]>::to_vec));
            }
        }
        self.open = Some(open);
        None
    }

    fn begin(&mut self, line: &[u8]) -> Option<Reply> {
        let Some((code, mark, text)) = split(line) else {
            self.garbage += 1;
            if self.garbage > MAX_GARBAGE {
                self.fail(BadReply::Garbage {
                    lines: self.garbage,
                });
            }
            return None;
        };
        self.garbage = 0;
        let lines = vec![text.to_vec()];
        if mark == b' ' {
            return Some(Reply::from_wire(code, lines, Style::Coded));
        }
        let bytes = line.len() + 2;
        self.open = Some(Open {
            code,
            lines,
            style: None,
            bytes,
            could_end: None,
        });
        None
    }

    /// Ends an unfinished multi-line reply at the last line that could be its end.
    ///
    /// To be called at the deadline of a reply only; `None` when there is no such line.
    pub fn settle(&mut self) -> Option<Reply> {
        let mut open = self.open.take_if(|open| open.could_end.is_some())?;
        let end = open.could_end?;
        // As text the line was stored with its code, which goes now.
        let closing = open
            .lines
            .get(end)
            .and_then(|line| line.get(4..))
            .unwrap_or_default()
            .to_vec();
        open.lines.truncate(end);
        open.lines.push(closing);
        Some(open.close())
    }

    /// Bytes received that are not yet part of a returned reply.
    pub fn buffered(&self) -> usize {
        self.raw.len() - self.head + self.open.as_ref().map_or(0, |open| open.bytes)
    }
}

impl Open {
    fn close(self) -> Reply {
        Reply::from_wire(self.code, self.lines, self.style.unwrap_or(Style::Coded))
    }
}

/// Splits `NNN-text`, `NNN text` and a bare `NNN`, which is read as `NNN ` with no text.
fn split(line: &[u8]) -> Option<(Code, u8, &[u8])> {
    let (digits, rest) = line.split_at_checked(3)?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0, |n, d| n * 10 + u16::from(d - b'0'));
    let code = Code::new(number)?;
    match rest.split_first() {
        None => Some((code, b' ', rest)),
        Some((mark @ (b' ' | b'-'), text)) => Some((code, *mark, text)),
        Some(_) => None,
    }
}

#[cfg(test)]
#[path = "reply_parser_tests.rs"]
mod tests;
