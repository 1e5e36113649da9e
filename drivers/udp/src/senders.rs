//! `Senders`: the tasks that wait to send; the runtime remembers only one per socket.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// Waiting tasks, as one waker.
#[derive(Default)]
pub(crate) struct Senders(Mutex<Vec<Waker>>);

impl Senders {
    /// Registers a task.
    pub(crate) fn wait(&self, waker: &Waker) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.iter().any(|known| known.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }

    /// Wakes all tasks but `than`, which is running.
    pub(crate) fn wake_others(&self, than: &Waker) {
        let others = self.take().into_iter().filter(|one| !one.will_wake(than));
        others.for_each(Waker::wake);
    }

    fn take(&self) -> Vec<Waker> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Wake for Senders {
    fn wake(self: Arc<Self>) {
        self.take().into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn every_task_that_waits_is_woken_once() {
        #[derive(Default)]
        struct Count(AtomicUsize);
        impl Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let counts = [(); 3].map(|()| Arc::new(Count::default()));
        let wakers = counts
            .each_ref()
            .map(|count| Waker::from(Arc::clone(count)));
        let senders = Arc::new(Senders::default());
        for _ in 0..2 {
            wakers.iter().for_each(|waker| senders.wait(waker));
        }
        Waker::from(Arc::clone(&senders)).wake_by_ref();
        Waker::from(senders).wake();
        for count in counts {
            assert_eq!(count.0.load(Ordering::Relaxed), 1);
        }
    }
}
