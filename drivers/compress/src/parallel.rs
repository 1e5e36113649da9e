//! `WorkQueue`: work on several blocks at once, finished in any order and returned in order.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// Longest work that a queue of width 1 does on the thread of the runtime.
const LONG: Duration = Duration::from_millis(2);
/// Longest work that a wider queue does on the thread of the runtime.
const WORTH_A_THREAD: Duration = Duration::from_micros(40);

/// A bounded queue of work in order.
///
/// Dropping it lets running work end, a block or so later, and drops the results.
#[derive(Debug)]
pub(crate) struct WorkQueue<T> {
    jobs: VecDeque<Job<T>>,
    width: usize,
}

#[derive(Debug)]
enum Job<T> {
    /// Always `Some`; taken out in its turn.
    Done(Option<T>),
    Running(JoinHandle<T>),
}

impl<T: Send + 'static> WorkQueue<T> {
    /// At most `width` pieces of work at once.
    pub(crate) const fn new(width: usize) -> Self {
        Self {
            jobs: VecDeque::new(),
            width,
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.jobs.len() < self.width
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Whether work of about this time is done at once.
    pub(crate) fn does_at_once(&self, time: Duration) -> bool {
        time <= if self.width > 1 { WORTH_A_THREAD } else { LONG }
    }

    /// Adds a result that is there already.
    pub(crate) fn add(&mut self, done: T) {
        self.jobs.push_back(Job::Done(Some(done)));
    }

    /// Adds work that takes about `time`, and does it at once when that is short.
    pub(crate) fn push(&mut self, time: Duration, work: impl FnOnce() -> T + Send + 'static) {
        match Handle::try_current() {
            Ok(runtime) if !self.does_at_once(time) => {
                self.jobs
                    .push_back(Job::Running(runtime.spawn_blocking(work)));
            }
            _ => self.add(work()),
        }
    }

    /// Returns the oldest result; `None` when there is no work.
    ///
    /// # Errors
    /// Work that ended without a result: the runtime is shutting down.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<T>>> {
        let next = match self.jobs.front_mut() {
            None => Ok(None),
            Some(Job::Done(done)) => Ok(done.take()),
            Some(Job::Running(running)) => ready!(Pin::new(running).poll(cx))
                .map(Some)
                .map_err(io::Error::other),
        };
        self.jobs.pop_front();
        Poll::Ready(next)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn order_is_that_of_arrival() {
        let mut line = WorkQueue::new(3);
        let (go, wait) = mpsc::channel::<()>();
        line.push(LONG * 2, move || {
            wait.recv().unwrap();
            1
        });
        line.push(LONG * 2, move || {
            // The first cannot end before this one.
            go.send(()).unwrap();
            2
        });
        line.push(Duration::ZERO, || 3);
        assert!(!line.has_room());
        for expected in [Some(1), Some(2), Some(3), None] {
            assert_eq!(poll_fn(|cx| line.poll_next(cx)).await.unwrap(), expected);
        }
        assert!(line.has_room() && line.is_empty());
    }

    #[test]
    fn without_a_runtime_work_is_done_on_the_spot() {
        let mut line = WorkQueue::new(1);
        line.push(LONG * 2, || std::thread::current().id());
        let Some(Job::Done(Some(id))) = line.jobs.pop_front() else {
            panic!("it waits for a thread that nobody has")
        };
        assert_eq!(id, std::thread::current().id());
    }

    #[tokio::test]
    async fn work_that_panics_is_an_error() {
        let mut line: WorkQueue<()> = WorkQueue::new(1);
        line.push(LONG * 2, || panic!("as this test wants"));
        poll_fn(|cx| line.poll_next(cx)).await.unwrap_err();
        assert!(line.has_room());
    }
}
