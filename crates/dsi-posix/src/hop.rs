//! One hop to a thread that may block, and back.
//!
//! The threads are the runtime's: `max_blocking_threads` of its builder bounds them.

use gridftp_dsi::{Error, ErrorKind, Result};

/// Runs `work` where it may block.
///
/// # Cancel safety
/// Dropping the future does not stop work that has begun.
pub(crate) async fn hop<T: Send + 'static>(
    op: &'static str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(stopped) => Err(Error::new(ErrorKind::Io, op).because(stopped)),
        },
    }
}
