//! `Part`: digests of a part of a file, by the upstream where it can, else of the bytes.

use std::sync::Arc;

use gridftp_client::error::TransferError;
use gridftp_client::file::ReadOptions;
use gridftp_dsi::hasher::Hasher;
use gridftp_dsi::{ChecksumAlgorithm, DsiPath, Error, ErrorKind, Progress, Result};

use crate::error::{is_refusal, kind, of_io, refused};
use crate::pool::{Session, Upstream};

/// A part of a file of the upstream.
pub(crate) struct Part<'a> {
    pub(crate) up: &'a Arc<Upstream>,
    /// The path of the storage, for errors.
    pub(crate) path: &'a DsiPath,
    /// The path at the upstream.
    pub(crate) file: &'a [u8],
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

const OP: &str = "checksum";

impl Part<'_> {
    /// The digest, in lower-case hexadecimal; `session` asks the upstream for it, or for the bytes.
    pub(crate) async fn digest(
        &self,
        session: Session,
        algorithm: ChecksumAlgorithm,
        progress: &Progress,
    ) -> Result<(Session, String)> {
        if self.length > 0 && session.abilities().cost(algorithm).is_some() {
            let (offset, length) = (self.offset, Some(self.length));
            let asked = session
                .checksum(self.file, algorithm, offset, length)
                .await
                .map_err(TransferError::from);
            match asked {
                Ok(digest) => {
                    progress.add(self.length);
                    return Ok((session, digest));
                }
                Err(error) if kind(&error) == ErrorKind::Unsupported => {}
                Err(error) => {
                    if is_refusal(&error) {
                        session.put();
                    }
                    return Err(self.up.failed(OP, self.path, error));
                }
            }
        }
        self.of_bytes(session, algorithm, progress).await
    }

    async fn of_bytes(
        &self,
        session: Session,
        algorithm: ChecksumAlgorithm,
        progress: &Progress,
    ) -> Result<(Session, String)> {
        let mut hasher = Hasher::new(algorithm)
            .ok_or_else(|| Error::new(ErrorKind::Unsupported, OP).at(self.path))?;
        if self.length == 0 {
            return Ok((session, hasher.finish()));
        }
        let (client, place) = session.split();
        let mut options = ReadOptions::default();
        (options.offset, options.streams) = (self.offset, self.up.streams);
        // Not every server sends a part of a file: the transfer is stopped behind it.
        let mut reader = client.into_reader(self.file, options);
        let mut left = self.length;
        while left > 0 {
            let piece = reader.piece().await;
            let mut piece = piece.map_err(|error| self.up.failed(OP, self.path, of_io(error)))?;
            if piece.is_empty() {
                return Err(Error::new(ErrorKind::Changed, OP).at(self.path));
            }
            piece.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            left -= piece.len() as u64;
            progress.add(piece.len() as u64);
            let hashing = tokio::task::spawn_blocking(move || {
                hasher.update(&piece);
                hasher
            });
            let failed = |error| refused(ErrorKind::Io, OP, self.path, error);
            hasher = hashing.await.map_err(failed)?;
        }
        let client = reader.stop().await;
        let lost = || {
            refused(
                ErrorKind::Io,
                OP,
                self.path,
                "the upstream ended the session",
            )
        };
        let session = place.session(client.ok_or_else(lost)?);
        Ok((session, hasher.finish()))
    }
}
