//! The queue of a task under the interleavings of its threads with up to three preemptions, by
//! loom.

use std::future::poll_fn;
use std::task::Poll;

use loom::future::block_on;
use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;

use self::queue::Queue;

/// The locks of loom, for the module of the queue.
mod sync {
    pub(crate) use loom::sync::{Mutex, MutexGuard};
}

#[path = "../queue.rs"]
#[allow(
    dead_code,
    clippy::duplicate_mod,
    reason = "the driver uses all of it, with the locks of std"
)]
mod queue;

fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

#[test]
fn all_work_is_taken_although_it_comes_while_the_task_goes_to_sleep() {
    model(|| {
        let queue = Arc::new(Queue::<u32, u32>::default());
        let others = [0, 1].map(|number| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                if number == 0 {
                    queue.schedule(1);
                } else {
                    queue.order(1).unwrap();
                }
            })
        });
        let (mut connections, mut orders) = (Vec::new(), 0);
        // A lost wake-up is a deadlock, which loom reports.
        block_on(poll_fn(|cx| {
            orders += queue.take(cx, &mut connections).len();
            match connections.len() + orders {
                2 => Poll::Ready(()),
                _ => Poll::Pending,
            }
        }));
        for other in others {
            other.join().unwrap();
        }
    });
}

#[test]
fn an_order_is_either_carried_out_or_returned() {
    model(|| {
        let queue = Arc::new(Queue::<u32, u32>::default());
        queue.order(0).unwrap();
        let other = Arc::clone(&queue);
        let other = thread::spawn(move || other.order(1).is_ok());
        let mut orders = 0;
        block_on(poll_fn(|cx| {
            orders += queue.take(cx, &mut Vec::new()).len();
            match queue.close_if_idle() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        }));
        let is_accepted = other.join().unwrap();
        assert_eq!(orders, 1 + usize::from(is_accepted));
    });
}
