//! `Intro` and `Report`: the head of a stream to a receiver, and the receiver's reports.

use tokio::io::{AsyncRead, AsyncReadExt};
use xio_core::{Error, ErrorKind, Operation, Result, Target};

use crate::LAYER;

/// Most receivers of one stream.
pub(crate) const MAX_RECEIVERS: usize = 1024;
/// Longest contact, or reason, in bytes.
pub(crate) const MAX_TEXT: usize = 1024;
const MAGIC: [u8; 4] = *b"xmc1";

/// The head of a stream: `xmc1`, flags, fan-out, number of receivers, and each with its length.
pub(crate) struct Intro {
    /// Whether this receiver may answer.
    pub(crate) answers: bool,
    pub(crate) p: u8,
    /// The receivers to serve.
    pub(crate) receivers: Vec<Target>,
}

fn bad(fact: impl Into<String>) -> Error {
    Error::new(ErrorKind::Protocol, LAYER, Operation::Open, fact)
}

impl Intro {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend([u8::from(self.answers), self.p]);
        out.extend(short(self.receivers.len()));
        for receiver in &self.receivers {
            let text = receiver.to_string();
            out.extend(short(text.len()));
            out.extend(text.as_bytes());
        }
        out
    }

    pub(crate) async fn read<S: AsyncRead + Unpin>(from: &mut S) -> Result<Self> {
        let cut = |error| Error::from_io(error, LAYER, Operation::Open);
        let mut head = [0; 8];
        from.read_exact(&mut head).await.map_err(cut)?;
        let [m0, m1, m2, m3, flags, p, c0, c1] = head;
        if [m0, m1, m2, m3] != MAGIC || flags > 1 || !(1..=64).contains(&p) {
            return Err(bad("the peer does not speak multicast"));
        }
        let count = usize::from(u16::from_be_bytes([c0, c1]));
        if count >= MAX_RECEIVERS {
            return Err(bad(format!(
                "{count} receivers are more than {MAX_RECEIVERS}"
            )));
        }
        let mut receivers = Vec::new();
        for _ in 0..count {
            let mut len = [0; 2];
            from.read_exact(&mut len).await.map_err(cut)?;
            let len = usize::from(u16::from_be_bytes(len));
            if len > MAX_TEXT {
                return Err(bad(format!(
                    "a contact of {len} bytes is longer than {MAX_TEXT}"
                )));
            }
            let mut text = vec![0; len];
            from.read_exact(&mut text).await.map_err(cut)?;
            let text = String::from_utf8(text).map_err(|_| bad("a contact is not UTF-8"))?;
            receivers.push(text.parse()?);
        }
        Ok(Self {
            answers: flags == 1,
            p,
            receivers,
        })
    }
}

pub(crate) fn short(n: usize) -> [u8; 2] {
    u16::try_from(n).unwrap_or(u16::MAX).to_be_bytes()
}

/// A report of a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    /// Bytes that it wrote.
    Answer,
    /// A failed receiver, and the reason.
    Failure,
    /// It and all receivers behind it have everything, except the failed ones.
    End,
}

impl Report {
    /// Its three bytes: kind, and number of bytes that follow.
    pub(crate) fn head(self, len: usize) -> [u8; 3] {
        let [high, low] = short(len);
        let kind = match self {
            Self::Answer => b'A',
            Self::Failure => b'F',
            Self::End => b'E',
        };
        [kind, high, low]
    }

    pub(crate) fn parse(head: [u8; 3]) -> Option<(Self, usize)> {
        let [kind, high, low] = head;
        let len = usize::from(u16::from_be_bytes([high, low]));
        match kind {
            b'A' => Some((Self::Answer, len)),
            b'F' if len <= MAX_TEXT => Some((Self::Failure, len)),
            b'E' if len == 0 => Some((Self::End, len)),
            _ => None,
        }
    }
}
