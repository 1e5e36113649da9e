//! `wake_both`: one waker for the two tasks of a layer that wait for the layer below.

use std::sync::Arc;
use std::task::{Wake, Waker};

/// A waker that wakes this task and, where there is one, another.
///
/// A stream keeps the waker of the last call alone (one for reads, one for writes). Where a reader
/// and a writer of a layer both wait for the layer below to take bytes, this wakes both: one of
/// them may be a future that was dropped.
#[must_use]
pub fn wake_both(task: &Waker, other: Option<&Waker>) -> Waker {
    match other {
        Some(other) if !other.will_wake(task) => {
            Waker::from(Arc::new(Both([task.clone(), other.clone()])))
        }
        _ => task.clone(),
    }
}

struct Both([Waker; 2]);

impl Wake for Both {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.iter().for_each(Waker::wake_by_ref);
    }
}
