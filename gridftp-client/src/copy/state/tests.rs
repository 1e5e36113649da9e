//! Counts of files and bytes of a copy.

use super::*;
use crate::copy::ending::Success;
use crate::progress::{Counts, Silent};

impl CopyState {
    /// The state of a copy without any option, of which nothing is told.
    pub(crate) fn plain() -> Self {
        Self::new(
            CopyOptions::default(),
            Arc::new(Silent),
            Arc::new(Totals::default()),
            None,
            None,
            None,
        )
    }
}

#[tokio::test]
async fn ended_files_and_moved_bytes_are_not_left() {
    let shared = CopyState::plain();
    for name in ["/a", "/b", "/c"] {
        let name = name.as_bytes().to_vec();
        let facts = Facts {
            size: Some(100),
            ..Facts::default()
        };
        shared.found(FileJob::new(name.clone(), name).with_facts(facts));
    }
    assert_eq!(shared.totals.left(), 300);
    let same = shared.queue.next(|_| true).await.unwrap();
    shared.leave_same(same, "");
    assert_eq!(shared.totals.left(), 200);
    // A part of it came again.
    let mut copied = shared.queue.next(|_| true).await.unwrap();
    shared.totals.moved(150);
    copied.file_mut().counted = 150;
    shared.succeed(copied, &Success::default());
    assert_eq!(shared.totals.left(), 100);
    shared.totals.moved(30);
    assert_eq!(shared.totals.left(), 70);
}

#[tokio::test(start_paused = true)]
async fn a_retried_source_is_counted_once() {
    let shared = CopyState::plain();
    let [from, to] = ["/a", "/b"].map(|name| name.as_bytes().to_vec());
    let dir = DirJob::new(from.clone(), to.clone());
    shared.queue.push(Item::Dir(Box::new(dir)));
    shared.found(FileJob::new(from, to));
    let error = TransferError::Changed {
        path: String::new(),
    };
    let mut attempts = 0;
    while let Some(taken) = shared.queue.next(|_| true).await {
        shared.fail(taken, &error);
        attempts += 1;
    }
    assert_eq!(attempts, 2 * (1 + shared.options.retries));
    let expected = Counts {
        files_found: 2,
        files_failed: 2,
        ..Counts::default()
    };
    assert_eq!(shared.totals.counts(), expected);
}
