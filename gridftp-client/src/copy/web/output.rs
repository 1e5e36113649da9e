//! From a web server to standard output.

use std::sync::Weak;

use super::input::WebInput;
use crate::copy::ending::Success;
use crate::copy::job::FileJob;
use crate::copy::queue::Taken;
use crate::copy::state::CopyState;
use crate::copy::stdio::put::Input as _;
use crate::copy::stdio::{output, write};
use crate::error::TransferError;

/// Copies a file, once: written bytes cannot be taken back for another attempt.
pub(in crate::copy) async fn copy(shared: &CopyState, mut taken: Taken) {
    let job = taken.file_mut();
    shared.start(job);
    match move_bytes(shared, job).await {
        Ok(success) => shared.succeed(taken, &success),
        Err(error) => taken.done(|item| shared.give_up_item(&item, &error)),
    }
}

async fn move_bytes(shared: &CopyState, job: &mut FileJob) -> Result<Success, TransferError> {
    let mut input = WebInput::open(shared, job).await?;
    let out = output()?;
    shared.show(job, 0, Weak::new());
    let most = shared.options.length.unwrap_or(u64::MAX);
    loop {
        let piece = input.piece(most.saturating_sub(input.passed())).await?;
        if piece.is_empty() {
            return Ok(Success {
                bytes: input.passed(),
                verified: input.told(),
                sized: shared.expected(job).is_some(),
                there: None,
            });
        }
        shared.limit(piece.len()).await;
        shared.count(job, piece.len() as u64);
        let written = write(&out, piece.freeze()).await;
        written.map_err(|error| TransferError::local("write", "-", error))?;
    }
}
