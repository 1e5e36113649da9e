//! `Decoder`: finds the payload in the bytes of a body, without copying.

use httparse::{EMPTY_HEADER, Status};

use crate::bad::BadBody;
use crate::parse::Framing;

/// Longest line with the size of a chunk and its extensions, in bytes.
const MAX_LINE: usize = 1024;
/// Longest trailer, in bytes.
const MAX_TRAILER: usize = 8 * 1024;
const MAX_TRAILER_FIELDS: usize = 64;
/// Most excess of chunk lines over payload, in bytes. Each chunk is granted [`FAIR_LINE`] and twice
/// its payload, so that a sender of single bytes stays far below.
const MAX_OVERHEAD: u64 = 16 * 1024;
const FAIR_LINE: u64 = 16;

/// The next part of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Next {
    /// This number of bytes is framing: drop them, and call [`Decoder::next`] again.
    Skip(usize),
    /// At most this number of bytes is payload: report the consumed ones to [`Decoder::took`].
    Payload(u64),
    /// More bytes are needed.
    More,
    /// The body is complete.
    End,
}

/// Decodes the framing of a body (RFC 9112 §6, §7).
#[derive(Debug, Clone)]
pub struct Decoder {
    state: State,
    overhead: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Length(u64),
    UntilClose,
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailer,
    Done,
}

impl Decoder {
    /// A decoder at the beginning of a body.
    #[must_use]
    pub const fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::Empty | Framing::Length(0) => State::Done,
            Framing::Length(n) => State::Length(n),
            Framing::Chunked => State::ChunkSize,
            Framing::UntilClose => State::UntilClose,
        };
        Self { state, overhead: 0 }
    }

    /// Returns the kind of the first bytes of `input`.
    ///
    /// # Errors
    /// For malformed framing, or far more framing than payload.
    pub fn next(&mut self, input: &[u8]) -> Result<Next, BadBody> {
        match self.state {
            State::Length(left) | State::Chunk(left) => Ok(Next::Payload(left)),
            State::UntilClose => Ok(Next::Payload(u64::MAX)),
            State::Done => Ok(Next::End),
            State::ChunkSize => self.chunk_size(input),
            State::ChunkEnd => match input {
                [] | [b'\r'] => Ok(Next::More),
                [b'\r', b'\n', ..] => {
                    self.state = State::ChunkSize;
                    Ok(Next::Skip(2))
                }
                _ => Err(BadBody::ChunkEnd),
            },
            State::Trailer => self.trailer(input),
        }
    }

    /// Records that `n` bytes of payload were consumed.
    pub fn took(&mut self, n: u64) {
        self.state = match self.state {
            State::Length(left) if left > n => State::Length(left - n),
            State::Length(_) => State::Done,
            State::Chunk(left) if left > n => State::Chunk(left - n),
            State::Chunk(_) => State::ChunkEnd,
            other => other,
        };
    }

    /// Whether the end of the stream below is the end of the body as well.
    #[must_use]
    pub const fn ends_with_stream(&self) -> bool {
        matches!(self.state, State::UntilClose | State::Done)
    }

    /// Whether the body is complete.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    fn chunk_size(&mut self, input: &[u8]) -> Result<Next, BadBody> {
        let seen = input.get(..MAX_LINE).unwrap_or(input);
        let Some(at) = seen.windows(2).position(|two| two == b"\r\n") else {
            // A malformed size is refused before its line ends.
            if input.first().is_some_and(|b| !b.is_ascii_hexdigit()) {
                return Err(BadBody::Size);
            }
            return if input.len() >= MAX_LINE {
                Err(BadBody::LineTooLong)
            } else {
                Ok(Next::More)
            };
        };
        let line = seen.get(..at + 2).unwrap_or_default();
        // `httparse` takes a line without digits for a size of 0, and any byte in an extension.
        let odd = |b: &u8| b.is_ascii_control() && *b != b'\t';
        let text = seen.get(..at).unwrap_or_default();
        if !text.first().is_some_and(u8::is_ascii_hexdigit) || text.iter().any(odd) {
            return Err(BadBody::Size);
        }
        let Ok(Status::Complete((_, size))) = httparse::parse_chunk_size(line) else {
            return Err(BadBody::Size);
        };
        if i64::try_from(size).is_err() {
            return Err(BadBody::Size);
        }
        let granted = FAIR_LINE.saturating_add(size.saturating_mul(2));
        self.overhead = (self.overhead + line.len() as u64 + 2).saturating_sub(granted);
        if self.overhead > MAX_OVERHEAD {
            return Err(BadBody::Overhead);
        }
        self.state = if size == 0 {
            State::Trailer
        } else {
            State::Chunk(size)
        };
        Ok(Next::Skip(line.len()))
    }

    /// Checks and drops the fields after the last chunk, on which nothing may depend.
    fn trailer(&mut self, input: &[u8]) -> Result<Next, BadBody> {
        if input.starts_with(b"\r\n") {
            self.state = State::Done;
            return Ok(Next::Skip(2));
        }
        let seen = input.get(..MAX_TRAILER).unwrap_or(input);
        let Some(at) = seen.windows(4).position(|four| four == b"\r\n\r\n") else {
            return if input.len() >= MAX_TRAILER {
                Err(BadBody::TrailerTooLong)
            } else {
                Ok(Next::More)
            };
        };
        let fields = seen.get(..at + 4).unwrap_or_default();
        let bare = |two: &[u8]| (two.first() == Some(&b'\r')) != (two.last() == Some(&b'\n'));
        let mut room = [EMPTY_HEADER; MAX_TRAILER_FIELDS];
        match httparse::parse_headers(fields, &mut room) {
            Ok(Status::Complete((n, _))) if n == fields.len() && !fields.windows(2).any(bare) => {
                self.state = State::Done;
                Ok(Next::Skip(n))
            }
            _ => Err(BadBody::Trailer),
        }
    }
}

/// The line in front of a chunk of `size` bytes.
pub(crate) fn chunk_line(size: usize) -> Vec<u8> {
    format!("{size:x}\r\n").into_bytes()
}

/// The end of a chunked body.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert_eq, proptest};

    use super::*;

    /// Decodes bytes in pieces of `step`; returns the payload and the bytes behind the end.
    fn decode(framing: Framing, bytes: &[u8], step: usize) -> Result<(Vec<u8>, Vec<u8>), BadBody> {
        let mut decoder = Decoder::new(framing);
        let mut payload = Vec::new();
        let mut held: Vec<u8> = Vec::new();
        let mut pieces = bytes.chunks(step.max(1));
        loop {
            match decoder.next(&held)? {
                Next::Skip(n) => drop(held.drain(..n)),
                Next::Payload(most) if !held.is_empty() => {
                    let n = held.len().min(usize::try_from(most).unwrap_or(usize::MAX));
                    payload.extend(held.drain(..n));
                    decoder.took(n as u64);
                }
                Next::End => {
                    held.extend(pieces.flatten());
                    return Ok((payload, held));
                }
                Next::Payload(_) | Next::More => match pieces.next() {
                    Some(piece) => held.extend(piece),
                    None => return Ok((payload, b"(cut)".to_vec())),
                },
            }
        }
    }

    proptest! {
        #[test]
        fn chunks_round_trip_at_every_split(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..200), 0..10),
            step in 1..50_usize,
        ) {
            let mut wire = Vec::new();
            for part in &parts {
                wire.extend(chunk_line(part.len()));
                wire.extend(part);
                wire.extend(b"\r\n");
            }
            wire.extend(LAST_CHUNK);
            wire.extend(b"next");
            let (payload, rest) = decode(Framing::Chunked, &wire, step).unwrap();
            prop_assert_eq!(payload, parts.concat());
            prop_assert_eq!(rest, b"next");
        }
    }

    #[test]
    fn extensions_and_trailers_are_skipped() {
        let wire = b"5;a=b;c=\"d\"\r\nhello\r\nA \t;x\r\n0123456789\r\n0\r\nX: y\r\nContent-Length: 9\r\n\r\nrest";
        for step in [1, 2, 7, 1000] {
            let (payload, rest) = decode(Framing::Chunked, wire, step).unwrap();
            assert_eq!(payload, b"hello0123456789");
            assert_eq!(rest, b"rest");
        }
    }

    #[test]
    fn malformed_chunks_are_named() {
        for (wire, why) in [
            (&b"\r\n"[..], BadBody::Size),
            (b"+5\r\nhello\r\n0\r\n\r\n", BadBody::Size),
            (b"-5\r\nhello\r\n0\r\n\r\n", BadBody::Size),
            (b" 5\r\nhello\r\n", BadBody::Size),
            (b"0x5\r\nhello\r\n", BadBody::Size),
            (b"5\nhello\r\n", BadBody::Size),
            (b"5;a\nb\r\nhello\r\n", BadBody::Size),
            (b"5;a\rb\r\nhello\r\n", BadBody::Size),
            (b"g\r\n", BadBody::Size),
            (b"11111111111111111\r\n", BadBody::Size),
            (b"ffffffffffffffff\r\n", BadBody::Size),
            (b"5\r\nhello!\r\n", BadBody::ChunkEnd),
            (b"5\r\nhello\n\n", BadBody::ChunkEnd),
            (b"0\r\nX : y\r\n\r\n", BadBody::Trailer),
            (b"0\r\nX: y\nZ: q\r\n\r\n", BadBody::Trailer),
        ] {
            for step in [1, 3, 1000] {
                let got = decode(Framing::Chunked, wire, step);
                assert_eq!(got, Err(why), "{:?}", String::from_utf8_lossy(wire));
            }
        }
    }

    #[test]
    fn endless_framing_is_cut() {
        let line = [b"5;".to_vec(), vec![b'a'; 2000]].concat();
        assert_eq!(
            decode(Framing::Chunked, &line, 100),
            Err(BadBody::LineTooLong)
        );
        let digits = vec![b'0'; 2000];
        assert_eq!(
            decode(Framing::Chunked, &digits, 100),
            Err(BadBody::LineTooLong)
        );
        // One byte of payload for each kilobyte of extension.
        let chunk = [b"1;".to_vec(), vec![b'a'; 1000], b"\r\nx\r\n".to_vec()].concat();
        assert_eq!(
            decode(Framing::Chunked, &chunk.repeat(100), 4096),
            Err(BadBody::Overhead)
        );
        // Single bytes without extensions are accepted for ever.
        let (payload, _) = decode(Framing::Chunked, &b"1\r\nx\r\n".repeat(20_000), 4096).unwrap();
        assert_eq!(payload.len(), 20_000);
        let trailer = [b"0\r\n".to_vec(), b"X: y\r\n".repeat(2000)].concat();
        assert_eq!(
            decode(Framing::Chunked, &trailer, 100),
            Err(BadBody::TrailerTooLong)
        );
    }

    #[test]
    fn a_length_determines_the_end() {
        assert_eq!(
            decode(Framing::Length(3), b"abcdef", 2),
            Ok((b"abc".to_vec(), b"def".to_vec()))
        );
        assert_eq!(decode(Framing::Empty, b"x", 1), Ok((vec![], b"x".to_vec())));
        let mut decoder = Decoder::new(Framing::Length(3));
        decoder.took(2);
        assert!(!decoder.ends_with_stream());
        decoder.took(1);
        assert!(decoder.is_done() && decoder.ends_with_stream());
        assert!(Decoder::new(Framing::UntilClose).ends_with_stream());
    }
}
