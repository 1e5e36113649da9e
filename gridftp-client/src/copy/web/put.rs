//! From a web server to a server: the bytes pass this machine, and none is stored here.

use std::sync::Arc;

use gridftp_dsi::types::ChecksumAlgorithm;

use super::input::WebInput;
use crate::client::Client;
use crate::copy::Stop;
use crate::copy::queue::Taken;
use crate::copy::state::CopyState;
use crate::copy::stdio::put::{Hash, put};
use crate::copy::tuning::Worker;
use crate::url::Remote;

/// Copies from the queue until nothing is left.
pub(super) async fn run(mut client: Box<Client>, worker: &Worker) -> Result<(), Stop> {
    let shared = &worker.shared;
    let needed = shared.algorithm(&[&client]).await;
    let needed = needed.map_err(Stop::of_digest)?;
    while !worker.leaves()
        && let Some(taken) = shared.queue.next(|_| true).await
    {
        // A new session has new tickets.
        if client.guard.is_spent() {
            return Err(Stop::Replace);
        }
        client = Box::pin(copy(client, shared, needed, taken)).await?;
    }
    client.close().await;
    Ok(())
}

/// Copies a file; gives the session back.
async fn copy(
    client: Box<Client>,
    shared: &Arc<CopyState>,
    needed: Option<ChecksumAlgorithm>,
    taken: Taken,
) -> Result<Box<Client>, Stop> {
    let server = (&client.control, &client.abilities);
    let Some((mut taken, path)) = shared.allow(taken, None, server).await else {
        return Ok(client);
    };
    if shared.carries_attributes() {
        shared.warn_unkept("a web server");
    }
    let job = taken.file_mut();
    let mut input = match WebInput::open(shared, job).await {
        Ok(input) => input,
        Err(error) => {
            shared.fail(taken, &error);
            return Ok(client);
        }
    };
    let Some(site) = shared.destination.clone() else {
        unreachable!("it has a session with the destination");
    };
    let remote = Remote::new(site, job.to.clone());
    let hash = Hash::new(needed, shared.without_receipt(&[server]));
    let stored = Box::pin(put(*client, shared, job, &mut input, &remote, hash)).await;
    job.counted = job.counted.saturating_add(input.passed());
    match stored {
        Ok((client, mut success)) => {
            let server = (&client.control, &client.abilities);
            let settings = shared.send_settings(server, job, path, Ok(Vec::new()));
            match shared.settle_settings(job, settings).await {
                Ok(there) => {
                    success.there = there;
                    shared.succeed(taken, &success);
                }
                Err(error) => shared.fail(taken, &error),
            }
            Ok(Box::new(client))
        }
        Err(error) => {
            // It was removed, or is left to be.
            job.hidden = None;
            shared.fail(taken, &error);
            Err(Stop::Replace)
        }
    }
}
