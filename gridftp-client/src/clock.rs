//! The clock that the timers run by, which tests pause.

use std::time::Instant;

/// The time of that clock.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Waits for that time; for ever where there is none.
pub(crate) async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
