//! `Encoder` and `Decoder`: bytes to Telnet and back, without I/O (RFC 854).

const IAC: u8 = 255;
const DONT: u8 = 254;
const DO: u8 = 253;
const WONT: u8 = 252;
const WILL: u8 = 251;
const SB: u8 = 250;
const SE: u8 = 240;
const CR: u8 = b'\r';
const LF: u8 = b'\n';
const NUL: u8 = 0;

/// Longest subnegotiation that is skipped, in bytes.
const MAX_SUBNEGOTIATION: usize = 1024;

/// Escapes data so that no byte of it reads as a command.
#[derive(Debug, Clone, Default)]
pub struct Encoder {
    /// The last byte was a carriage return: a NUL follows unless the next byte is a line feed.
    after_cr: bool,
}

impl Encoder {
    /// An encoder at the start of a stream.
    #[must_use]
    pub const fn new() -> Self {
        Self { after_cr: false }
    }

    /// Appends `data` to `out` in its Telnet form, at most two bytes for each and one before.
    pub fn encode(&mut self, data: &[u8], out: &mut Vec<u8>) {
        out.reserve(data.len() + 1);
        for &byte in data {
            if self.after_cr && byte != LF {
                out.push(NUL);
            }
            self.after_cr = byte == CR;
            out.push(byte);
            if byte == IAC {
                out.push(IAC);
            }
        }
    }

    /// Prepares for a command at `at` in `out`: completes a carriage return before it, since a line
    /// feed may still follow the command.
    pub fn interrupt(&mut self, out: &mut Vec<u8>, at: usize) {
        if std::mem::take(&mut self.after_cr) {
            out.insert(at.min(out.len()), NUL);
        }
    }

    /// Completes a last carriage return.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        let end = out.len();
        self.interrupt(out, end);
    }
}

/// Takes commands out of the data and answers them.
#[derive(Debug, Clone, Default)]
pub struct Decoder {
    state: State,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Data,
    AfterCr,
    Command,
    /// The option of this verb follows.
    Option(u8),
    /// Within a subnegotiation, with its length so far.
    Sub(usize),
    /// The same, after an IAC.
    SubCommand(usize),
}

/// A subnegotiation is longer than any useful one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a subnegotiation is longer than {MAX_SUBNEGOTIATION} bytes")]
#[non_exhaustive]
pub struct TooLong;

impl Decoder {
    /// A decoder at the start of a stream.
    #[must_use]
    pub const fn new() -> Self {
        Self { state: State::Data }
    }

    /// Whether a command has begun and not ended: no place for a stream to end.
    #[must_use]
    pub const fn is_within(&self) -> bool {
        !matches!(self.state, State::Data | State::AfterCr)
    }

    /// Moves the data of `bytes` to its front, returns its length, and appends the answers for the
    /// peer to `answers`: at most as many bytes as it sent.
    ///
    /// # Errors
    /// [`TooLong`]; the stream is of no use then.
    pub fn decode(&mut self, bytes: &mut [u8], answers: &mut Vec<u8>) -> Result<usize, TooLong> {
        let mut kept = 0;
        for at in 0..bytes.len() {
            let Some(&byte) = bytes.get(at) else { break };
            if let Some(data) = self.step(byte, answers)? {
                // Never more data than bytes, so this is behind the one just read.
                if let Some(slot) = bytes.get_mut(kept) {
                    *slot = data;
                }
                kept += 1;
            }
        }
        Ok(kept)
    }

    fn step(&mut self, byte: u8, answers: &mut Vec<u8>) -> Result<Option<u8>, TooLong> {
        let (state, data) = match (self.state, byte) {
            (State::Data | State::AfterCr, IAC) => (State::Command, None),
            (State::AfterCr, NUL) => (State::Data, None),
            (State::Data | State::AfterCr, CR) => (State::AfterCr, Some(CR)),
            (State::Data | State::AfterCr, _) => (State::Data, Some(byte)),
            (State::Command, IAC) => (State::Data, Some(IAC)),
            (State::Command, WILL..=DONT) => (State::Option(byte), None),
            (State::Command, SB) => (State::Sub(0), None),
            // Every other command means nothing to a stream of bytes.
            (State::Command, _) => (State::Data, None),
            (State::Option(verb), option) => {
                match verb {
                    WILL => answers.extend([IAC, DONT, option]),
                    DO => answers.extend([IAC, WONT, option]),
                    // RFC 1143 §7: a refusal of an option that is off needs no answer, or two ends
                    // never rest.
                    _ => {}
                }
                (State::Data, None)
            }
            (State::Sub(len), IAC) => (State::SubCommand(len), None),
            (State::SubCommand(_), SE) => (State::Data, None),
            (State::Sub(len) | State::SubCommand(len), _) => {
                if len >= MAX_SUBNEGOTIATION {
                    return Err(TooLong);
                }
                (State::Sub(len + 1), None)
            }
        };
        self.state = state;
        Ok(data)
    }
}
