//! The part of a `Pump` that is of MODE E: headers, end-of-data marks, data of abandoned transfers.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use gridftp_dsi::Error as StorageError;
use mode_e::HEADER_LEN;
use tokio::io::{AsyncRead, ReadBuf};

use super::{End, Pump, Read};
use crate::error::{Error, Result};
use crate::receive::job::Job;

impl<F: Future<Output = Result<(), StorageError>>> Pump<F> {
    /// Reads and discards payload of an abandoned transfer.
    pub(super) fn read_stale<W>(
        &mut self,
        cx: &mut Context<'_>,
        job: &mut Job<'_, W>,
        len: u64,
    ) -> Result<Read> {
        let Poll::Ready(mut block) = self.poll_block(cx, job.pool) else {
            return Ok(Read::Wait);
        };
        let limit = usize::try_from(len).unwrap_or(usize::MAX);
        match block.poll_fill(cx, Pin::new(&mut self.conn.stream), limit) {
            Poll::Pending => Ok(Read::Wait),
            Poll::Ready(Ok(1..)) => {
                job.read += block.len() as u64;
                self.conn.deframer.moved(block.len() as u64);
                Ok(Read::Some)
            }
            // The peer may close instead of completing an abandoned transfer.
            Poll::Ready(_) => Ok(Read::End(End::Gone)),
        }
    }

    pub(super) fn read_header(&mut self, cx: &mut Context<'_>, need: usize) -> Result<Read> {
        let mut bytes = [0; HEADER_LEN];
        let mut buf = ReadBuf::new(bytes.get_mut(..need).unwrap_or_default());
        match Pin::new(&mut self.conn.stream).poll_read(cx, &mut buf) {
            Poll::Pending => Ok(Read::Wait),
            Poll::Ready(Err(error)) => self.gone(error),
            Poll::Ready(Ok(())) if buf.filled().is_empty() => {
                self.conn.deframer.at_end()?;
                Ok(Read::End(End::Gone))
            }
            Poll::Ready(Ok(())) => {
                self.conn.deframer.feed(buf.filled());
                Ok(Read::Some)
            }
        }
    }

    /// Handles a broken connection: before its first header it is not an error, since it may be
    /// another client's, or one kept too long.
    fn gone(&self, error: io::Error) -> Result<Read> {
        match self.conn.deframer.at_end() {
            Ok(()) => Ok(Read::End(End::Gone)),
            Err(_) => Err(Error::broken("receive", error)),
        }
    }

    /// Handles the end-of-data mark.
    pub(super) fn over(&mut self, close: bool) -> End {
        self.conn.deframer.next_transfer();
        if close { End::Last } else { End::Kept }
    }
}
