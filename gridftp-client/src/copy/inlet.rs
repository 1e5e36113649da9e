//! `Inlet`: the bytes that a server sends, handed over in their order.

use bytes::Bytes;
use gridftp_data::Consumer;
use gridftp_dsi::{Error as StorageError, ErrorKind};
use gridftp_dsi_posix::checksum::Hasher;
use tokio::sync::mpsc;

/// The consumer of the bytes of a file.
pub(super) struct Inlet {
    /// Blocks, and nothing at the end of the file.
    pub(super) to: mpsc::Sender<Option<Bytes>>,
    pub(super) hasher: Option<Hasher>,
}

impl Consumer for Inlet {
    async fn take(&mut self, bytes: Bytes) -> Result<(), StorageError> {
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&bytes);
        }
        let gone = |_| StorageError::new(ErrorKind::Io, "write");
        self.to.send(Some(bytes)).await.map_err(gone)
    }
}
