//! `Recalls`: the retrievals that are under way, by file and task.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gridftp_dsi::{DsiPath, ErrorKind};
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// The kind and the reason of a failure, for all who wait for the same retrieval.
pub(crate) type Failure = (ErrorKind, Arc<str>);

/// A retrieval's end: nothing while it goes on, then its failure, if it failed.
type End = Option<Result<(), Failure>>;

/// A file, the user and the task for which it is retrieved.
type Key = (DsiPath, String, String);

/// The retrievals under way, which go on without their clients. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recalls(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    under_way: BTreeMap<Key, UnderWay>,
    /// The number of the next retrieval.
    next: u64,
}

#[derive(Debug)]
struct UnderWay {
    end: watch::Receiver<End>,
    number: u64,
    task: AbortHandle,
}

/// A retrieval under way.
#[derive(Debug)]
pub(crate) struct Recall(watch::Receiver<End>);

/// The most retrievals under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Of all users.
    pub(crate) all: usize,
    /// Of one user.
    pub(crate) of_user: usize,
}

impl Table {
    /// Retrievals of a user.
    fn count(&self, user: &str) -> usize {
        self.under_way.keys().filter(|key| key.1 == user).count()
    }

    /// Ends the youngest retrieval of the user with the most, if that has many more than `user`.
    fn evict_for(&mut self, user: &str) -> Option<UnderWay> {
        let mut counts = BTreeMap::<&str, usize>::new();
        for key in self.under_way.keys() {
            *counts.entry(&key.1).or_default() += 1;
        }
        let own = counts.get(user).copied().unwrap_or_default();
        let (largest, most) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        let of_largest = self.under_way.iter().filter(|(key, _)| key.1 == largest);
        let youngest = of_largest
            .max_by_key(|(_, recall)| recall.number)?
            .0
            .clone();
        match most > own + 1 {
            true => self.under_way.remove(&youngest),
            false => None,
        }
    }
}

impl Recalls {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The retrieval of a file for any user and task.
    pub(crate) fn of_file(&self, path: &DsiPath) -> Option<Recall> {
        let first = (path.clone(), String::new(), String::new());
        let table = self.lock();
        let (key, recall) = table.under_way.range(first..).next()?;
        (key.0 == *path).then(|| Recall(recall.end.clone()))
    }

    /// Joins the retrieval of a key, or begins it by `work`; `None` beyond the limits. Where all have
    /// reached theirs, the user with the most gives way.
    pub(crate) fn join<W>(
        &self,
        key: Key,
        limits: Limits,
        work: impl FnOnce() -> W,
    ) -> Option<Recall>
    where
        W: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let mut table = self.lock();
        if let Some(recall) = table.under_way.get(&key) {
            return Some(Recall(recall.end.clone()));
        }
        if table.count(&key.1) >= limits.of_user {
            return None;
        }
        if table.under_way.len() >= limits.all {
            table.evict_for(&key.1)?.task.abort();
        }
        let (told, end) = watch::channel(None);
        let number = table.next;
        table.next += 1;
        let ending = Ending {
            recalls: self.clone(),
            key: key.clone(),
            number,
        };
        let work = work();
        let task = tokio::spawn(async move {
            let ended = work.await;
            // Behind the end a new request begins anew.
            drop(ending);
            told.send_replace(Some(ended));
        });
        let recall = UnderWay {
            end: end.clone(),
            number,
            task: task.abort_handle(),
        };
        table.under_way.insert(key, recall);
        Some(Recall(end))
    }
}

/// Removes a retrieval when its task ends, in whatever way.
struct Ending {
    recalls: Recalls,
    key: Key,
    number: u64,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let mut table = self.recalls.lock();
        // An evicted one may have a successor.
        let own = table.under_way.get(&self.key);
        if own.is_some_and(|recall| recall.number == self.number) {
            table.under_way.remove(&self.key);
        }
    }
}

impl Recall {
    /// Waits for the end, at most `within`; `None` while the retrieval goes on.
    pub(crate) async fn ended(mut self, within: Duration) -> End {
        let ended = tokio::time::timeout(within, self.0.wait_for(Option::is_some)).await;
        match ended {
            Err(_) => None,
            Ok(Ok(end)) => end.clone(),
            Ok(Err(_)) => {
                let why = "the retrieval was given up for those of other users, try again later";
                Some(Err((ErrorKind::Busy, why.into())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { all: 6, of_user: 5 };

    fn begin(recalls: &Recalls, user: &str, task: usize) -> Option<Recall> {
        let key = (DsiPath::root(), user.to_owned(), task.to_string());
        recalls.join(key, LIMITS, std::future::pending)
    }

    #[tokio::test]
    async fn a_user_with_many_tasks_leaves_others_their_retrievals() {
        let recalls = Recalls::default();
        let mut ann: Vec<_> = (0..5).map(|task| begin(&recalls, "ann", task)).collect();
        assert!(begin(&recalls, "ann", 5).is_none(), "a user has a bound");
        assert!(begin(&recalls, "ann", 0).is_some(), "it is joined");
        let _bob: Vec<_> = (0..3).map(|task| begin(&recalls, "bob", task)).collect();
        // The table was full with the first of them: ann's youngest two gave way.
        let given_up = ann.split_off(3);
        for recall in given_up {
            let end = recall.unwrap().ended(Duration::from_secs(60)).await;
            let is_told = |why: &str| why.contains("given up");
            assert!(matches!(end, Some(Err((ErrorKind::Busy, why))) if is_told(&why)));
        }
        for recall in ann {
            assert_eq!(recall.unwrap().ended(Duration::ZERO).await, None);
        }
        assert!(begin(&recalls, "bob", 3).is_none(), "both have as many");
        assert_eq!(recalls.lock().under_way.len(), LIMITS.all);
    }
}
