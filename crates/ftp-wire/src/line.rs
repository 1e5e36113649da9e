//! Splits CRLF lines with a hard length limit and Telnet IAC handling (RFC 959 §5.3, RFC 854).

use zeroize::Zeroize as _;

use crate::error::BadLine;

/// Default limit of a line in bytes.
pub const DEFAULT_LIMIT: usize = 8 * 1024;

/// Limit of a line of `DCSC` in bytes, where credentials are allowed: chains with attribute
/// certificates in base64 have tens of thousands of bytes.
pub const CREDENTIAL_LIMIT: usize = 128 * 1024;

/// Most bytes of Telnet refusals held for the caller; further options of the peer are ignored.
const MAX_ANSWERS: usize = 384;

/// Capacity above which an empty splitter frees its memory, in bytes.
const KEEP: usize = 512;

const SE: u8 = 240;
const SB: u8 = 250;
const WILL: u8 = 251;
const WONT: u8 = 252;
const DO: u8 = 253;
const DONT: u8 = 254;
const IAC: u8 = 255;

/// Turns the bytes of a control connection into lines.
///
/// [`push`](Self::push) received bytes, then call [`next_line`](Self::next_line) until it returns
/// `None`: an unfinished line never takes more memory than the limit. CRLF and a bare LF end a
/// line. Telnet commands are removed, and options of the peer are refused through
/// [`take_answers`](Self::take_answers). All other bytes are kept, those of names included.
///
/// Before a change of protection, [`buffered`](Self::buffered) must be 0: bytes sent ahead of a
/// handshake must not be read after it.
///
/// Returned lines are overwritten afterwards, since a line may hold a password.
#[derive(Debug, Clone)]
pub struct LineSplitter {
    limit: usize,
    /// Whether a line of `DCSC` may be longer.
    credentials: bool,
    /// Received bytes, read up to `head`.
    raw: Vec<u8>,
    head: usize,
    /// The line so far, without Telnet commands.
    line: Vec<u8>,
    /// Received bytes of the line, Telnet commands included.
    taken: usize,
    fault: Option<BadLine>,
    /// The line was returned and is to be overwritten.
    handed_out: bool,
    telnet: Telnet,
    answers: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Telnet {
    Data,
    Iac,
    /// The option byte of WILL, WONT, DO or DONT comes next.
    Option(u8),
    Sub,
    SubIac,
}

impl Default for LineSplitter {
    fn default() -> Self {
        Self::new()
    }
}

impl LineSplitter {
    /// A splitter with a limit of [`DEFAULT_LIMIT`].
    pub const fn new() -> Self {
        Self::with_limit(DEFAULT_LIMIT)
    }

    /// A splitter with a limit of `limit` bytes a line, line end not counted.
    pub const fn with_limit(limit: usize) -> Self {
        Self {
            limit,
            credentials: false,
            raw: Vec::new(),
            head: 0,
            line: Vec::new(),
            taken: 0,
            fault: None,
            handed_out: false,
            telnet: Telnet::Data,
            answers: Vec::new(),
        }
    }

    /// Changes the limit, from the line in progress on.
    pub const fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Raises the limit of lines of `DCSC` to [`CREDENTIAL_LIMIT`], for peers that are known.
    pub const fn allow_credentials(&mut self) {
        self.credentials = true;
    }

    /// Takes bytes from the connection.
    pub fn push(&mut self, bytes: &[u8]) {
        self.forget();
        if self.head > 0 {
            let rest = self.raw.len() - self.head;
            self.raw.copy_within(self.head.., 0);
            self.forget_raw(rest);
        }
        make_room(&mut self.raw, bytes.len());
        self.raw.extend_from_slice(bytes);
    }

    /// The next whole line without its end, or its error.
    ///
    /// A line in error is dropped up to its end; a line that is too long is reported once, as soon
    /// as it passes the limit.
    pub fn next_line(&mut self) -> Option<Result<&[u8], BadLine>> {
        self.forget();
        while let Some(&byte) = self.raw.get(self.head) {
            self.head += 1;
            let was_too_long = self.is_too_long();
            self.taken += 1;
            let Some(byte) = self.strip_telnet(byte) else {
                if !was_too_long && self.note_length() {
                    return self.fault.map(Err);
                }
                continue;
            };
            if byte == b'\n' {
                return match self.end_line(was_too_long) {
                    Some(Ok(())) => Some(Ok(&self.line)),
                    Some(Err(bad)) => Some(Err(bad)),
                    None => continue,
                };
            }
            if was_too_long {
                continue;
            }
            make_room(&mut self.line, 1);
            self.line.push(byte);
            if self.note_length() {
                return self.fault.map(Err);
            }
        }
        self.forget_raw(0);
        if self.raw.capacity() > KEEP {
            self.raw = Vec::new();
        }
        None
    }

    fn is_too_long(&self) -> bool {
        matches!(self.fault, Some(BadLine::TooLong { .. }))
    }

    /// Marks a line that passed the limit just now; the CR of its end does not count.
    fn note_length(&mut self) -> bool {
        let text = self.taken - usize::from(self.line.last() == Some(&b'\r'));
        let is_credential = || {
            let verb = self.line.get(..5).unwrap_or_default();
            self.credentials && verb.eq_ignore_ascii_case(b"DCSC ")
        };
        let limit = match text > self.limit && is_credential() {
            true => CREDENTIAL_LIMIT.max(self.limit),
            false => self.limit,
        };
        let too_long = text > limit;
        if too_long {
            self.fault = Some(BadLine::TooLong { limit });
            self.line.zeroize();
            self.line = Vec::new();
        }
        too_long
    }

    /// Ends the line; `None` when its error was reported before.
    fn end_line(&mut self, told: bool) -> Option<Result<(), BadLine>> {
        self.taken = 0;
        self.fault = None;
        self.handed_out = true;
        if told {
            self.forget();
            return None;
        }
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        Some(match misplaced(&self.line) {
            Some((at, byte)) => Err(BadLine::Control { byte, at }),
            None => Ok(()),
        })
    }

    /// Returns a data byte, and removes Telnet commands.
    fn strip_telnet(&mut self, byte: u8) -> Option<u8> {
        let (next, data) = match (self.telnet, byte) {
            (Telnet::Data, IAC) => (Telnet::Iac, None),
            (Telnet::Data, _) => (Telnet::Data, Some(byte)),
            (Telnet::Iac, WILL | WONT | DO | DONT) => (Telnet::Option(byte), None),
            (Telnet::Iac, SB) => (Telnet::Sub, None),
            (Telnet::Iac, IAC) => (Telnet::Data, Some(IAC)),
            // IP, DM and the other two-byte commands are ignored: ABOR is a line.
            (Telnet::Iac, SE..) => (Telnet::Data, None),
            // No Telnet command: the urgent byte of a Synch was lost on the way.
            (Telnet::Iac, _) => (Telnet::Data, Some(byte)),
            (Telnet::Option(verb), _) => {
                self.refuse(verb, byte);
                (Telnet::Data, None)
            }
            (Telnet::Sub, IAC) => (Telnet::SubIac, None),
            (Telnet::SubIac, SE) => (Telnet::Data, None),
            (Telnet::Sub | Telnet::SubIac, _) => (Telnet::Sub, None),
        };
        self.telnet = next;
        data
    }

    fn refuse(&mut self, verb: u8, option: u8) {
        let answer = match verb {
            WILL => DONT,
            DO => WONT,
            _ => return,
        };
        if self.answers.len() + 3 <= MAX_ANSWERS {
            self.answers.extend_from_slice(&[IAC, answer, option]);
        }
    }

    /// The bytes to send in answer to Telnet options; usually none.
    pub fn take_answers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.answers)
    }

    /// Bytes received that are not yet part of a returned line.
    pub fn buffered(&self) -> usize {
        let line = if self.handed_out { 0 } else { self.taken };
        self.raw.len() - self.head + line
    }

    /// Overwrites the received bytes behind the first `keep`, which are still to be read.
    fn forget_raw(&mut self, keep: usize) {
        if let Some(gone) = self.raw.get_mut(keep..) {
            gone.zeroize();
        }
        self.raw.truncate(keep);
        self.head = 0;
    }

    fn forget(&mut self) {
        if std::mem::take(&mut self.handed_out) {
            self.line.zeroize();
            if self.line.capacity() > KEEP {
                self.line = Vec::new();
            }
        }
    }
}

/// The first control byte that is not allowed: a name may hold any but NUL and CR, a verb none.
fn misplaced(line: &[u8]) -> Option<(usize, u8)> {
    let verb = line.iter().position(|b| matches!(b, b' ' | b'\t'));
    let verb = verb.unwrap_or(line.len());
    line.iter()
        .copied()
        .enumerate()
        .find(|&(at, byte)| match byte {
            0 | b'\r' => true,
            byte => at < verb && byte.is_ascii_control(),
        })
}

impl Drop for LineSplitter {
    fn drop(&mut self) {
        self.raw.zeroize();
        self.line.zeroize();
    }
}

/// Reserves room for `more` bytes, and overwrites the memory it moves out of.
fn make_room(bytes: &mut Vec<u8>, more: usize) {
    let wanted = bytes.len() + more;
    if wanted > bytes.capacity() {
        let mut larger = Vec::with_capacity(wanted.max(2 * bytes.capacity()).max(64));
        larger.extend_from_slice(bytes);
        bytes.zeroize();
        *bytes = larger;
    }
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
