//! Waits for several futures at once, with stall deadlines.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use gridftp_dsi::Error as StorageError;
use tokio::time::Instant;

use crate::error::{Error, Result, Wait};
use crate::watch::Watch;

/// Samples of the progress within one stall deadline.
const SAMPLES: u32 = 4;

/// Runs all `futures` in this task and returns their results in order, or the first error.
pub(crate) async fn all<F, T>(futures: impl IntoIterator<Item = F>) -> Result<Vec<T>>
where
    F: Future<Output = Result<T>>,
{
    let mut slots: Vec<(Pin<Box<F>>, Option<T>)> =
        futures.into_iter().map(|f| (Box::pin(f), None)).collect();
    poll_fn(|cx| {
        let mut waiting = false;
        for (future, result) in slots.iter_mut().filter(|(_, result)| result.is_none()) {
            match future.as_mut().poll(cx) {
                Poll::Ready(Ok(done)) => *result = Some(done),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => waiting = true,
            }
        }
        if waiting {
            Poll::Pending
        } else {
            Poll::Ready(Ok(()))
        }
    })
    .await?;
    Ok(slots.into_iter().filter_map(|(_, result)| result).collect())
}

/// Runs one step of the local producer or consumer, for `op`; a `patient` one may take any time.
pub(crate) async fn local<T>(
    op: &'static str,
    stall: Duration,
    patient: bool,
    watch: &Watch,
    step: impl Future<Output = Result<T, StorageError>>,
) -> Result<T> {
    // Meanwhile the peer waits for us, so its deadline does not run.
    watch.local(true);
    let done = if patient {
        Ok(step.await)
    } else {
        tokio::time::timeout(stall, step).await
    };
    watch.local(false);
    done.map_err(|_| Error::timeout(Wait::Storage, stall))?
        .map_err(|cause| Error::storage(op, cause))
}

/// A sample of the progress.
pub(crate) enum Sample {
    /// The present count, and the party to blame if it does not change.
    At(u64, Wait),
    /// The work waits for the local producer or consumer, which has its own deadline or none.
    Local,
}

/// A stall deadline over work in steps: progress is a change of the count, not the end of a step.
#[derive(Debug)]
pub(crate) struct Stall {
    after: Duration,
    /// Time of the next sample.
    next: Option<Instant>,
    seen: Option<u64>,
    /// Samples in a row with this count.
    same: u32,
}

impl Stall {
    pub(crate) fn new(after: Duration) -> Self {
        Self {
            after,
            next: None,
            seen: None,
            same: 0,
        }
    }

    /// Runs one step, unless `sample` returns the same count for too long, earlier steps included.
    ///
    /// Moving bytes resets no timer.
    pub(crate) async fn run<T>(
        &mut self,
        sample: impl Fn() -> Sample,
        step: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let mut step = pin!(step);
        loop {
            let quarter = self.after / SAMPLES;
            let next = *self.next.get_or_insert_with(|| Instant::now() + quarter);
            if let Ok(done) = tokio::time::timeout_at(next, step.as_mut()).await {
                return done;
            }
            self.next = None;
            match sample() {
                Sample::Local => self.same = 0,
                Sample::At(count, wait) => {
                    self.same = if self.seen.replace(count) == Some(count) {
                        self.same + 1
                    } else {
                        1
                    };
                    if self.same >= SAMPLES {
                        return Err(Error::timeout(wait, self.after));
                    }
                }
            }
        }
    }
}
