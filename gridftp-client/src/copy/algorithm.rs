//! Which digest both ends of a copy are compared by, settled before anything is copied.

use ftp_proto::client::FailureKind;
use gridftp_dsi::types::ChecksumAlgorithm::{self, Md5};

use super::state::CopyState;
use crate::client::Client;
use crate::error::{ControlError, TransferError};
use crate::options::Verify;
use crate::verify;

impl CopyState {
    /// The algorithm to compare digests with, when that is asked: the one asked for, or the best of
    /// those that cost the servers of the copy little.
    ///
    /// # Errors
    /// When the servers offer none, or not that one.
    pub(crate) async fn algorithm(
        &self,
        clients: &[&Client],
    ) -> Result<Option<ChecksumAlgorithm>, TransferError> {
        if matches!(self.options.verify, Verify::Auto | Verify::No) {
            return Ok(None);
        }
        for client in clients {
            check(client).await?;
        }
        if let Verify::With(algorithm) = self.options.verify {
            for client in clients {
                let offered = &client.abilities.checksums;
                if !offered.is_empty() && client.abilities.cost(algorithm).is_none() {
                    return Err(not_offered(client, algorithm));
                }
            }
            return Ok(Some(algorithm));
        }
        let abilities: Vec<_> = clients.iter().map(|client| &client.abilities).collect();
        let chosen = match self.options.verify {
            Verify::Disk => verify::cheap_proof(&abilities),
            _ => verify::cheap(&abilities),
        };
        if chosen.is_some() {
            return Ok(chosen);
        }
        Err(TransferError::request(
            "verify: the servers have no checksum algorithm in common",
            "name one that both ends know, or copy without --verify",
        ))
    }
}

/// Checks that a server which lists no algorithms knows `CKSM` at all.
async fn check(client: &Client) -> Result<(), TransferError> {
    if !client.abilities.checksums.is_empty() {
        return Ok(());
    }
    let asked = client.send_checksum(b"/", Md5, 0, Some(0));
    match asked?.finish().await {
        // A Globus server answers 500 to all that fails, in several lines.
        Err(ControlError::Refused { site, reply, .. })
            if FailureKind::of(&reply) == FailureKind::Unsupported && reply.lines().len() == 1 =>
        {
            let what = format!("verify: {site}: {}", crate::error::Text(&reply));
            let remedy = "the server computes no checksums, copy without --verify";
            Err(TransferError::request(what, remedy))
        }
        Err(error @ (ControlError::Lost { .. } | ControlError::Misbehaved { .. })) => {
            Err(error.into())
        }
        Ok(_) | Err(ControlError::Refused { .. }) => Ok(()),
    }
}

fn not_offered(client: &Client, algorithm: ChecksumAlgorithm) -> TransferError {
    let offered = client.abilities.checksums.iter();
    let offered: Vec<_> = offered.map(|(algorithm, _)| algorithm.name()).collect();
    let what = format!(
        "verify: {}: the server does not offer {}; it offers {}",
        client.site(),
        algorithm.name(),
        offered.join(", ")
    );
    TransferError::request(what, "")
}
