//! Runs an operation on this thread while the storage is fast, else on a blocking thread.
//!
//! The threads are those of the runtime. Digests have their own permits, one a core, so that
//! neither digests nor calls that wait for a medium occupy all threads.

use std::ffi::c_long;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use gridftp_dsi::{Error, ErrorKind, Result};
use nix::sys::resource::{UsageWho, getrusage};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// Number of operations running inline, on a thread of the runtime.
static INLINE: AtomicUsize = AtomicUsize::new(0);

/// Time at which the penalty of slow operations has passed, in microseconds since `START`.
static CAUGHT_UP_AT: AtomicU64 = AtomicU64::new(0);

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Most simultaneous blocking calls, fewer than the runtime's blocking threads (512 by default),
/// since its owner needs some as well.
static CALLS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(256)));

/// Most simultaneous digests.
static DIGESTS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    Arc::new(Semaphore::new(cores))
});

/// Whether a digest is being computed.
#[cfg(test)]
pub(crate) fn is_hashing() -> bool {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    DIGESTS.available_permits() < cores
}

/// Longest inline operation that is not slow; a longer one that slept has waited for a medium.
const SLOW: Duration = Duration::from_millis(1);

/// Penalty for a slow operation, in multiples of its time, so that at most one part in 4 is lost to
/// waiting.
const PENALTY: u32 = 4;

/// Largest outstanding penalty with which operations still run inline.
const CREDIT: Duration = Duration::from_millis(200);

/// The expected time of an operation on fast storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// The time of a call that reads or fills the kernel's caches.
    Brief,
    /// Any time: it moves much data, or waits for a medium or for another process.
    Long,
    /// The time to hash some megabytes; digests take turns.
    Digest,
}

/// Most simultaneous syncs that nobody waits for: a medium that hangs has no more threads.
static SYNCS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(16)));

/// Runs long work that nobody waits for on a blocking thread; `false` while too much of it runs.
pub(crate) fn run_beside(work: impl FnOnce() + Send + 'static) -> bool {
    let (Ok(runtime), Ok(permit)) = (
        Handle::try_current(),
        Arc::clone(&SYNCS).try_acquire_owned(),
    ) else {
        return false;
    };
    drop(runtime.spawn_blocking(move || {
        let _permit = permit;
        work();
    }));
    true
}

/// Runs `work`: inline if it is expected to touch only memory, else on a blocking thread.
///
/// Two changes of threads cost several times as much as most operations. After slow operations, the
/// next ones change threads for a while. A storage that does not answer at all never blocks the
/// last thread of a runtime with several.
///
/// # Cancel safety
/// Dropping the future does not stop work that has begun, which keeps its permit to its end.
pub(crate) async fn run<T: Send + 'static>(
    kind: Work,
    op: &'static str,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    if kind == Work::Brief
        && let Some(_permit) = InlinePermit::take()
    {
        return work();
    }
    let permits = if kind == Work::Digest {
        &DIGESTS
    } else {
        &CALLS
    };
    let permit = Arc::clone(permits).acquire_owned().await;
    let work = move || {
        let _permit = permit.expect("the semaphores are never closed");
        work()
    };
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(stopped) => Err(Error::new(ErrorKind::Io, op).because(stopped)),
        },
    }
}

/// As [`run`], for long work that checks its flag.
///
/// # Cancel safety
/// Dropping the future sets the flag.
pub(crate) async fn run_until_dropped<T: Send + 'static>(
    kind: Work,
    op: &'static str,
    work: impl FnOnce(&AtomicBool) -> Result<T> + Send + 'static,
) -> Result<T> {
    let stop = Arc::new(AtomicBool::new(false));
    let _guard = StopOnDrop(Arc::clone(&stop));
    run(kind, op, move || work(&stop)).await
}

/// Sets its flag on drop, which tells work on another thread to stop.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The right to run one operation inline.
struct InlinePermit {
    since: Instant,
    waits: c_long,
}

impl InlinePermit {
    fn take() -> Option<Self> {
        let now = Instant::now();
        if CAUGHT_UP_AT.load(Ordering::Relaxed) > micros(since_start(now) + CREDIT) {
            return None;
        }
        let limit = Handle::current().metrics().num_workers().saturating_sub(1);
        let taken = INLINE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |here| {
            (here < limit.max(1)).then_some(here + 1)
        });
        taken.is_ok().then(|| Self {
            since: now,
            waits: waits(),
        })
    }
}

impl Drop for InlinePermit {
    fn drop(&mut self) {
        INLINE.fetch_sub(1, Ordering::Relaxed);
        let took = self.since.elapsed();
        // On a busy machine an operation can take long without sleeping, waiting for the processor.
        if took > SLOW && waits() != self.waits {
            let now = micros(since_start(self.since) + took);
            let more = micros(took.saturating_mul(PENALTY));
            // Concurrent operations add their own penalties.
            let _ = CAUGHT_UP_AT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |at| {
                Some(at.max(now).saturating_add(more))
            });
        }
    }
}

/// Number of times this thread has slept.
fn waits() -> c_long {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.voluntary_context_switches())
}

fn since_start(now: Instant) -> Duration {
    now.saturating_duration_since(*START)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn dropped_work_is_told_to_stop() {
        const LIMIT: Duration = Duration::from_secs(20);
        let (begin, mut begun) = tokio::sync::mpsc::channel(1);
        let (end, ended) = mpsc::channel();
        let work = run_until_dropped(Work::Long, "test", move |stop| {
            let start = Instant::now();
            let _ = begin.blocking_send(());
            while !stop.load(Ordering::Relaxed) && start.elapsed() < LIMIT {
                std::thread::yield_now();
            }
            let _ = end.send(stop.load(Ordering::Relaxed));
            Ok(())
        });
        tokio::select! {
            _ = work => panic!("it ended before its future was dropped"),
            _ = begun.recv() => {}
        }
        assert_eq!(ended.recv_timeout(LIMIT), Ok(true));
    }
}
