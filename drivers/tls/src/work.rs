//! `off_reactor`: work of handshakes on threads beside the reactor, one a core at a time.

use std::future::pending;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::{Arc, LazyLock};
use std::thread::available_parallelism;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Turns of all servers of this process.
static TURNS: LazyLock<Turns> =
    LazyLock::new(|| Turns::new(available_parallelism().map_or(1, NonZero::get)));

struct Turns(Arc<Semaphore>);

impl Turns {
    fn new(at_once: usize) -> Self {
        Self(Arc::new(Semaphore::new(at_once)))
    }

    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let turn = Arc::clone(&self.0).acquire_owned().await;
        let done = spawn_blocking(move || {
            // Until then, also when nobody waits for the result any more.
            let _held = turn;
            work()
        });
        match done.await.map_err(tokio::task::JoinError::try_into_panic) {
            Ok(done) => done,
            Err(Ok(panic)) => resume_unwind(panic),
            // The runtime ends, and drops this future.
            Err(Err(_)) => pending().await,
        }
    }
}

/// Runs work of a handshake, which takes up to tens of milliseconds where a stranger chooses the
/// certificates, off the reactor: the sessions of others go on meanwhile. As many handshakes as there
/// are cores work at once, and the others wait in order.
///
/// # Cancel safety
/// Work that has begun ends, and its result is dropped.
pub async fn off_reactor<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    TURNS.run(work).await
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// A flood of handshakes takes no more threads than there are turns, even if its peers hang up.
    #[tokio::test]
    async fn work_waits_for_its_turn() {
        let turns = Arc::new(Turns::new(1));
        let (free, held) = mpsc::channel::<()>();
        let (begun, mut working) = tokio::sync::mpsc::unbounded_channel();
        let first = tokio::spawn({
            let turns = Arc::clone(&turns);
            async move {
                let work = move || {
                    begun.send(()).unwrap();
                    held.recv_timeout(Duration::from_secs(60)).is_ok()
                };
                turns.run(work).await
            }
        });
        working.recv().await.unwrap();
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        let mut second = Box::pin(turns.run(|| 7));
        assert!(futures_pending(&mut second).await, "the turn was free");
        free.send(()).unwrap();
        assert_eq!(second.await, 7);
    }

    async fn futures_pending<T>(work: &mut (impl Future<Output = T> + Unpin)) -> bool {
        tokio::select! {
            biased;
            _ = work => false,
            () = tokio::task::yield_now() => true,
        }
    }
}
