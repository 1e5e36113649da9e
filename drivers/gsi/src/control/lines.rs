//! `LineBuffer`: received bytes, taken line by line within a bound.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::control::AdatError;

/// Bound of a line in bytes: room for chains with attribute certificates in base64.
pub(crate) const MAX_LINE: usize = 128 * 1024;
/// Size of a read in bytes.
const READ: usize = 8 * 1024;

/// Received bytes.
#[derive(Debug, Default)]
pub(crate) struct LineBuffer {
    bytes: Vec<u8>,
    /// Start of the next line.
    start: usize,
    /// End of the bytes without a line feed.
    searched: usize,
}

/// A line that is too long.
#[derive(Debug)]
pub(crate) struct TooLong;

impl LineBuffer {
    /// Whether no byte waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// Takes the next line without its end.
    pub(crate) fn take(&mut self) -> Result<Option<Vec<u8>>, TooLong> {
        let fresh = self.bytes.get(self.searched..).unwrap_or_default();
        let Some(place) = fresh.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.bytes.len();
            return match self.searched - self.start > MAX_LINE {
                true => Err(TooLong),
                false => Ok(None),
            };
        };
        let end = self.searched + place;
        let line = self.bytes.get(self.start..end).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line).to_vec();
        self.start = end + 1;
        self.searched = self.start;
        match line.len() > MAX_LINE {
            true => Err(TooLong),
            false => Ok(Some(line)),
        }
    }

    /// Reads once; 0 is the end. Call it when no whole line waits.
    pub(crate) fn poll_fill<S: AsyncRead + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        below: &mut S,
    ) -> Poll<io::Result<usize>> {
        self.bytes.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        let mut room = [0; READ];
        let mut room = ReadBuf::new(&mut room);
        ready!(Pin::new(below).poll_read(cx, &mut room))?;
        self.bytes.extend_from_slice(room.filled());
        Poll::Ready(Ok(room.filled().len()))
    }

    /// Reads the next line.
    ///
    /// # Cancel safety
    /// No byte is lost.
    pub(crate) async fn next<S: AsyncRead + Unpin>(
        &mut self,
        below: &mut S,
    ) -> Result<Vec<u8>, AdatError> {
        loop {
            if let Some(line) = self.take().map_err(|TooLong| AdatError::TooLong)? {
                return Ok(line);
            }
            if poll_fn(|cx| self.poll_fill(cx, below)).await? == 0 {
                return Err(AdatError::Ended);
            }
        }
    }
}

/// Sends text with its line ends.
pub(crate) async fn send<S: AsyncWrite + Unpin>(below: &mut S, text: &str) -> io::Result<()> {
    below.write_all(text.as_bytes()).await?;
    below.flush().await
}

/// Text of a peer or of a certificate, fit for a line.
pub(crate) fn printable(text: &str) -> String {
    /// Characters that a person may want to read.
    const MOST: usize = 512;
    let shown = text.chars().take(MOST);
    shown
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn lines(mut bytes: &[u8]) -> (Vec<Vec<u8>>, AdatError) {
        let mut buffer = LineBuffer::default();
        let mut lines = Vec::new();
        loop {
            match buffer.next(&mut bytes).await {
                Ok(line) => lines.push(line),
                Err(error) => return (lines, error),
            }
        }
    }

    #[tokio::test]
    async fn lines_end_with_a_line_feed_and_are_bounded() {
        let (found, error) = lines(b"ADAT x\r\n\r\nENC y\nrest").await;
        assert_eq!(found, [&b"ADAT x"[..], b"", b"ENC y"]);
        assert!(matches!(error, AdatError::Ended));
        for (length, good) in [(MAX_LINE, true), (MAX_LINE + 1, false)] {
            let mut long = vec![b'x'; length];
            long.extend_from_slice(b"\r\n");
            let (found, error) = lines(&long).await;
            assert_eq!(found.len(), usize::from(good));
            assert_eq!(matches!(error, AdatError::TooLong), !good);
        }
        let (_, error) = lines(&vec![b'x'; 2 * MAX_LINE]).await;
        assert!(matches!(error, AdatError::TooLong));
    }
}
