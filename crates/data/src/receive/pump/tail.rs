//! The part of a `Pump` that is of a trailer: the end of the stream, held back until it has ended.

use std::future::Future;

use byte_ranges::RangeSet;
use bytes::Bytes;
use gridftp_dsi::Error as StorageError;
use xio_core::Block;

use super::Pump;
use crate::conn::Conn;
use crate::error::{Error, ErrorKind, Result};
use crate::trailer::{Holder, Trailer};

/// The end of a stream with a trailer.
#[derive(Debug)]
pub(super) struct Tail {
    /// The wire offset from which on the stream may end: bytes before it are data.
    from: u64,
    /// While it holds bytes there is no block; else they begin the block.
    holder: Holder,
    /// The trailer, once the stream has ended with one.
    trailer: Option<Trailer>,
    /// The bytes before it that were held back, which go behind the last block.
    last: Bytes,
}

impl<F: Future<Output = Result<(), StorageError>>> Pump<F> {
    /// Wraps a MODE S connection that brings the wire ranges `left`, and then a trailer.
    pub(crate) fn trailed(conn: Conn, left: RangeSet) -> Self {
        let from = left.last().map_or(u64::MAX, |last| last.start());
        Self {
            tail: Some(Box::new(Tail {
                from,
                holder: Holder::default(),
                trailer: None,
                last: Bytes::new(),
            })),
            ..Self::plain(conn, left)
        }
    }

    /// The trailer of a connection that has one, behind its end.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] for data that was cut off.
    pub(crate) fn take_trailer(&mut self) -> Result<Option<Trailer>> {
        let Some(tail) = &mut self.tail else {
            return Ok(None);
        };
        let fact = "the peer closed the data connection before the trailer behind the data";
        let cut_off = || Error::new(ErrorKind::Closed, "receive", fact);
        tail.trailer.take().ok_or_else(cut_off).map(Some)
    }

    /// Whether bytes from the wire offset `at` on may be a trailer.
    fn may_end(&self, at: u64) -> bool {
        self.end.is_none() && self.tail.as_ref().is_some_and(|tail| tail.from <= at)
    }

    /// The bytes that are held back and in no block.
    pub(super) fn held(&self) -> &[u8] {
        self.tail.as_ref().map_or(&[], |tail| tail.holder.held())
    }

    /// Forgets the bytes that were held back, which begin a block now.
    pub(super) fn release(&mut self) {
        self.tail.iter_mut().for_each(|tail| tail.holder.release());
    }

    /// Number of bytes, of `len` ones from the wire offset `at` on, that may be a trailer.
    pub(super) fn doubtful(&self, at: u64, len: usize) -> usize {
        match self.may_end(at) {
            true => len - Holder::data(at, len),
            false => 0,
        }
    }

    /// Number of bytes that may be written next.
    pub(super) fn data(&self) -> u64 {
        let last = || self.tail.as_ref().map_or(0, |tail| tail.last.len());
        let len = self.block.as_ref().map_or_else(last, |block| block.len());
        (len - self.doubtful(self.at, len)) as u64
    }

    /// Number of bytes that may be read into the block.
    pub(super) fn room(&self, block: &Block) -> usize {
        let most = match self.may_end(self.at) {
            true => Holder::fill(self.at, block.size()),
            false => block.size(),
        };
        most.saturating_sub(block.len())
    }

    /// Takes the bytes that may be a trailer out of the block, until the stream has ended.
    pub(super) fn hold_back(&mut self) {
        if self.may_end(self.at)
            && let (Some(tail), Some(mut block)) = (&mut self.tail, self.block.take())
        {
            let data = tail.holder.hold(self.at, &block);
            block.truncate(data);
            self.block = Some(block).filter(|_| data > 0);
        }
    }

    /// Finds the trailer at the end of the stream; the held bytes before it are data.
    pub(super) fn find_trailer(&mut self) {
        self.hold_back();
        if let Some(tail) = &mut self.tail
            && let Some((trailer, last)) = tail.holder.end()
        {
            tail.last = Bytes::from(last);
            tail.trailer = Some(trailer);
        }
    }

    /// The data that may be written next: the block, and behind the end of the stream the last bytes
    /// before the trailer.
    pub(super) fn take_data(&mut self) -> Bytes {
        match self.block.take() {
            Some(block) => Bytes::from(block),
            None => {
                let tail = self.tail.as_mut();
                tail.map_or_else(Bytes::new, |tail| std::mem::take(&mut tail.last))
            }
        }
    }
}
