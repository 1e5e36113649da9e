//! The part of a `Pump` that is of a trailer: the end of the stream, held back until it has ended.

use std::future::Future;

use gridftp_dsi::Error as StorageError;
use xio_core::Block;

use super::Pump;
use crate::conn::Conn;
use crate::error::{Error, ErrorKind, Result};
use crate::trailer::{Holder, Trailer};

impl<F: Future<Output = Result<(), StorageError>>> Pump<F> {
    /// Wraps a MODE S connection with a trailer behind its data.
    pub(crate) fn trailed(conn: Conn, start: u64) -> Self {
        Self {
            holder: Some(Box::new(Holder::new())),
            ..Self::plain(conn, start, u64::MAX)
        }
    }

    /// The trailer of a connection that has one, behind its end.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`] for data that was cut off.
    pub(crate) fn trailer(&self) -> Result<Option<Trailer>> {
        let Some(holder) = &self.holder else {
            return Ok(None);
        };
        let fact = "the peer closed the data connection before the trailer behind the data";
        let cut_off = || Error::new(ErrorKind::Closed, "receive", fact);
        holder.trailer().ok_or_else(cut_off).map(Some)
    }

    /// The bytes that are held back and in no block.
    pub(super) fn held(&self) -> &[u8] {
        self.holder.as_ref().map_or(&[], |holder| holder.held())
    }

    /// Number of bytes of the block that may be written.
    pub(super) fn data(&self) -> u64 {
        let len = self.block.as_ref().map_or(0, |block| block.len());
        let holds = self.holder.is_some() && self.end.is_none();
        let data = if holds { Holder::data(len) } else { len };
        data as u64
    }

    /// Number of bytes that may be read into the block.
    pub(super) fn room(&self, block: &Block) -> usize {
        let most = match self.holder {
            Some(_) => Holder::fill(self.at, block.size()),
            None => block.size(),
        };
        most.saturating_sub(block.len())
    }

    /// Takes the bytes that may be a trailer out of the block, until the stream has ended.
    pub(super) fn hold_back(&mut self) {
        let Some(holder) = self.holder.as_mut().filter(|_| self.end.is_none()) else {
            return;
        };
        if let Some(mut block) = self.block.take() {
            let data = holder.hold(&block);
            block.truncate(data);
            self.block = Some(block).filter(|_| data > 0);
        }
    }
}
