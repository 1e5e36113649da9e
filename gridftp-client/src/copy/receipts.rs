//! Comparison of the two receipts of a tagged transfer, for every pair of ends.

use ftp_wire::command::Mode;
use ftp_wire::receipt::{Extent, Receipt};
use gridftp_dsi::types::ChecksumAlgorithm::{self, Blake3};

use super::kept::Digest;
use super::state::CopyState;
use crate::abilities::{Abilities, Tags};
use crate::control::Replies;
use crate::error::TransferError;
use crate::options::Verify;
use crate::verify;

/// The proof of a tagged transfer.
#[derive(Debug, Default)]
pub(crate) struct Proof {
    /// The digest of all bytes of the file, on which both ends agree.
    pub(crate) digest: Option<Digest>,
    /// The algorithm for digests of the stored files, when a receipt has none: the bytes arrived in
    /// too many pieces, or an end does not know those of earlier transfers.
    pub(crate) beside: Option<ChecksumAlgorithm>,
}

impl CopyState {
    /// The bytes that the receipts of tagged transfers are to prove.
    pub(crate) fn extent(&self) -> Extent {
        match self.options.verify {
            Verify::Auto => Extent::Whole,
            _ => Extent::Head,
        }
    }

    /// The `tags` of transfers with `servers`, where all of them know such in this mode: MODE S has
    /// them for the digest of all bytes alone.
    pub(crate) fn tags<'t>(
        &self,
        mode: Mode,
        servers: &[&Abilities],
        tags: &'t Tags,
    ) -> Option<&'t Tags> {
        let is_whole = self.extent() == Extent::Whole;
        let knows = |server: &&Abilities| match mode {
            Mode::Extended => server.tags,
            Mode::Stream => server.trailers && is_whole,
        };
        servers.iter().all(knows).then_some(tags)
    }

    /// Compares the receipts of the sender and the receiver of a transfer between `servers` and this
    /// end; `replies` are those of the server that owes a receipt.
    ///
    /// # Errors
    /// When they differ, or one is missing.
    pub(crate) fn judge_receipts(
        &self,
        receipts: [Option<&Receipt>; 2],
        servers: &[&Abilities],
        replies: &Replies,
        path: impl FnOnce() -> String,
    ) -> Result<Proof, TransferError> {
        let [Some(sent), Some(taken)] = receipts else {
            return Err(replies.misbehaved("no receipt in the reply").into());
        };
        let Some(digest) = verify::receipt(sent, taken, path)? else {
            let beside = Some(beside(servers));
            return Ok(Proof {
                digest: None,
                beside,
            });
        };
        let is_whole = self.extent() == Extent::Whole;
        Ok(Proof {
            digest: is_whole.then_some(digest),
            beside: None,
        })
    }
}

/// The strongest algorithm that all servers know.
fn beside(servers: &[&Abilities]) -> ChecksumAlgorithm {
    let known = |algorithm: &ChecksumAlgorithm| {
        let mut servers = servers.iter();
        servers.all(|server| server.cost(*algorithm).is_some())
    };
    verify::PROOFS.into_iter().find(known).unwrap_or(Blake3)
}
