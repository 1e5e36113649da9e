//! `Recalls`: the retrievals that are under way, by file and task.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gridftp_dsi::DsiPath;
use tokio::sync::watch;

/// A retrieval's end: nothing while it goes on, then the reason of its failure, if it failed.
type End = Option<Result<(), Arc<str>>>;

/// A file, the user and the task for which it is retrieved.
type Key = (DsiPath, String, String);

/// The retrievals under way, which go on without their clients. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recalls(Arc<Mutex<BTreeMap<Key, watch::Receiver<End>>>>);

/// A retrieval under way.
#[derive(Debug)]
pub(crate) struct Recall(watch::Receiver<End>);

impl Recalls {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, watch::Receiver<End>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The retrieval of a file for any user and task.
    pub(crate) fn of_file(&self, path: &DsiPath) -> Option<Recall> {
        let first = (path.clone(), String::new(), String::new());
        let under_way = self.lock();
        let (key, end) = under_way.range(first..).next()?;
        (key.0 == *path).then(|| Recall(end.clone()))
    }

    /// Joins the retrieval of a key, or begins it by `work`; `None` where `most` are under way.
    pub(crate) fn join<W>(&self, key: Key, most: usize, work: impl FnOnce() -> W) -> Option<Recall>
    where
        W: Future<Output = Result<(), Arc<str>>> + Send + 'static,
    {
        let mut under_way = self.lock();
        let is_full = under_way.len() >= most;
        let entry = match under_way.entry(key) {
            Entry::Occupied(entry) => return Some(Recall(entry.get().clone())),
            Entry::Vacant(_) if is_full => return None,
            Entry::Vacant(entry) => entry,
        };
        let (told, end) = watch::channel(None);
        let ending = Ending {
            recalls: self.clone(),
            key: entry.key().clone(),
        };
        entry.insert(end.clone());
        let work = work();
        tokio::spawn(async move {
            let ended = work.await;
            // Behind the end a new request begins anew.
            drop(ending);
            told.send_replace(Some(ended));
        });
        Some(Recall(end))
    }
}

/// Removes a retrieval when its task ends, in whatever way.
struct Ending {
    recalls: Recalls,
    key: Key,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.recalls.lock().remove(&self.key);
    }
}

impl Recall {
    /// Waits for the end, at most `within`; `None` while the retrieval goes on.
    pub(crate) async fn ended(mut self, within: Duration) -> End {
        let ended = tokio::time::timeout(within, self.0.wait_for(Option::is_some)).await;
        match ended {
            Err(_) => None,
            Ok(Ok(end)) => end.clone(),
            Ok(Err(_)) => Some(Err("the retrieval was given up".into())),
        }
    }
}
