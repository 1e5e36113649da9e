//! Where an operation runs: here while the storage answers at once, else on a thread that may block.
//!
//! The threads are the runtime's. Digests have places of their own, one a core, so that neither
//! they nor calls that wait for a medium take all the threads that others need.

use std::ffi::c_long;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use gridftp_dsi::{Error, ErrorKind, Result};
use nix::sys::resource::{UsageWho, getrusage};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// Operations that run here right now.
static INLINE: AtomicUsize = AtomicUsize::new(0);

/// When all the time lost to slow operations is made up for, in microseconds since `START`.
static CAUGHT_UP_AT: AtomicU64 = AtomicU64::new(0);

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Calls that may block at the same time, fewer than the runtime's threads (512 by default): its
/// owner needs some as well.
static CALLS: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(256)));

/// Digests that may be computed at the same time.
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

/// What takes longer, and waited for something, waited for more than memory.
const SLOW: Duration = Duration::from_millis(1);

/// How many times its length makes up for a slow operation: at most one part in so many of the time
/// is lost to waiting.
const PENALTY: u32 = 4;

/// How much of that may be outstanding while operations still run here.
const CREDIT: Duration = Duration::from_millis(200);

/// How long an operation takes where the storage is as fast as it can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// As long as the kernel needs to look into its caches or to fill them.
    Brief,
    /// As long as it likes: it moves much, or waits for a medium or for somebody else.
    Long,
    /// As long as a core needs to hash some megabytes; those who want one take turns.
    Digest,
}

/// Runs `work`: here if it can be expected to touch only memory, else where it may block.
///
/// Two changes of threads cost several times what most operations do. After some that were slow the
/// next ones change threads for a while. A storage that does not answer at all never holds the last
/// thread of a runtime that has several.
///
/// # Cancel safety
/// Dropping the future does not stop work that has begun, which keeps its place to its end.
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

/// As [`run`], for long work that looks at its flag.
///
/// # Cancel safety
/// Dropping the future raises the flag.
pub(crate) async fn run_until_dropped<T: Send + 'static>(
    kind: Work,
    op: &'static str,
    work: impl FnOnce(&AtomicBool) -> Result<T> + Send + 'static,
) -> Result<T> {
    let stop = Arc::new(AtomicBool::new(false));
    let _guard = StopOnDrop(Arc::clone(&stop));
    run(kind, op, move || work(&stop)).await
}

/// Raises its flag when it goes: work on another thread learns that nobody waits for it.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The right to run one operation here.
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
        // On a busy machine an operation can take long without waiting for anything but its turn.
        if took > SLOW && waits() != self.waits {
            let now = micros(since_start(self.since) + took);
            let more = micros(took.saturating_mul(PENALTY));
            // Each adds its own part, whatever the others do meanwhile.
            let _ = CAUGHT_UP_AT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |at| {
                Some(at.max(now).saturating_add(more))
            });
        }
    }
}

/// How often this thread has gone to sleep.
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
    async fn work_that_nobody_waits_for_is_told_to_stop() {
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
            _ = work => panic!("it ends although somebody waits for it"),
            _ = begun.recv() => {}
        }
        assert_eq!(ended.recv_timeout(LIMIT), Ok(true));
    }
}
