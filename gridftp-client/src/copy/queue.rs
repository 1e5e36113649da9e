//! `Queue`: the work that all connections of a copy share; it knows when nothing is left to come.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;

use super::job::{FileJob, Item};
use super::lock;

/// Files that wait before a walk or a listing must pause.
pub(crate) const ENOUGH: usize = 4096;
/// Items that wait before the names of a listing are kept elsewhere.
const CROWD: usize = 2 * ENOUGH;

const TAKEN: &str = "only `done` and `drop` take the item, and both consume";

const DIRECTORY: &str = "directories are listed or made, not transferred";

/// Work to do, shared by the connections of a copy.
#[derive(Debug, Clone, Default)]
pub(crate) struct Queue {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Directories to list or make: they bring more work, so they go first while files are few, the
    /// latest before the others, so that a tree without end costs no more than its depth.
    first: VecDeque<Item>,
    files: VecDeque<Item>,
    /// Items queued or taken, and producers at work: at zero nothing can come any more.
    open: usize,
    /// Those of them that may bring files: at zero all are found.
    finding: usize,
    closed: bool,
    /// Items that came back after the end.
    orphans: Vec<Item>,
}

/// Which items a taker wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Directories, then files.
    Any,
    /// Directories only.
    Dirs,
    /// Files only.
    Files,
}

/// Holds the queue open while more may come.
#[derive(Debug)]
pub(crate) struct Producer {
    queue: Queue,
    /// Whether it may bring files.
    finds: bool,
}

/// An item in someone's hands; put back when it is dropped before it is done.
#[derive(Debug)]
pub(crate) struct Taken {
    queue: Queue,
    item: Option<Item>,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.inner.state)
    }

    /// Promises more items until the producer is dropped.
    pub(crate) fn producer(&self) -> Producer {
        let mut state = self.state();
        state.open += 1;
        state.finding += 1;
        Producer {
            queue: self.clone(),
            finds: true,
        }
    }

    /// Adds an item.
    pub(crate) fn push(&self, item: Item) {
        let mut state = self.state();
        if state.closed {
            state.orphans.push(item);
            return;
        }
        state.open += 1;
        state.finding += usize::from(item.finds());
        state.put(item, false);
        drop(state);
        self.inner.changed.notify_waiters();
    }

    /// Waits until `check` has an answer.
    async fn when<T>(&self, mut check: impl FnMut(MutexGuard<'_, State>) -> Option<T>) -> T {
        loop {
            let changed = self.inner.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(answer) = check(self.state()) {
                return answer;
            }
            changed.await;
        }
    }

    /// Takes the next item that `fits`; `None` when the next does not fit or none will come.
    ///
    /// # Cancel safety
    /// Nothing is taken unless it is returned.
    pub(crate) async fn next(&self, fits: impl Fn(&Item) -> bool) -> Option<Taken> {
        self.next_of(Kind::Any, fits).await
    }

    /// As [`next`](Self::next), of one kind only.
    pub(crate) async fn next_of(&self, kind: Kind, fits: impl Fn(&Item) -> bool) -> Option<Taken> {
        self.when(|state| match state.peek(kind) {
            _ if state.is_over() => Some(None),
            Some(item) => Some(fits(item).then(|| self.take(state, kind))),
            None => None,
        })
        .await
    }

    /// Takes the next file if it waits already and `fits`, for a command of a connection that has `taken`
    /// some: of those that wait, as many are left for four commands of each of so many connections.
    pub(crate) fn next_file(
        &self,
        taken: usize,
        connections: u32,
        fits: impl Fn(&FileJob) -> bool,
    ) -> Option<Taken> {
        let state = self.state();
        let commands = connections.max(1).saturating_mul(4) as usize;
        if state.is_over() || state.files.len() / commands < taken {
            return None;
        }
        match state.files.front()? {
            Item::File(job) if fits(job) => Some(self.take(state, Kind::Files)),
            _ => None,
        }
    }

    fn take(&self, mut state: MutexGuard<'_, State>, kind: Kind) -> Taken {
        let item = state.take(kind);
        let space = state.files.len() + 1 == ENOUGH || state.waiting() + 1 == CROWD;
        drop(state);
        if space {
            self.inner.changed.notify_waiters();
        }
        Taken {
            queue: self.clone(),
            item,
        }
    }

    /// Waits until more than `depth` files wait; false when none will come any more.
    pub(crate) async fn deeper_than(&self, depth: usize) -> bool {
        self.when(|state| match state.files.len() > depth {
            _ if state.is_over() => Some(false),
            deeper => deeper.then_some(true),
        })
        .await
    }

    /// Waits until there is room for more files, or for more of `kind`.
    pub(crate) async fn room(&self, kind: Kind) {
        self.when(|state| {
            let room = kind == Kind::Files || state.waiting() < CROWD;
            (state.closed || (!state.is_full() && room)).then_some(())
        })
        .await;
    }

    /// Says whether so much waits that no more should be added.
    pub(crate) fn is_crowded(&self) -> bool {
        self.state().waiting() >= CROWD
    }

    /// Says whether one file is queued or under way, and no other will come.
    pub(crate) fn has_one_file(&self) -> bool {
        let state = self.state();
        state.open == 1 && state.finding == 0
    }

    /// Says whether a file waits.
    pub(crate) fn has_files(&self) -> bool {
        !self.state().files.is_empty()
    }

    /// Says whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.state().waiting() == 0
    }

    /// Says whether a directory waits.
    pub(crate) fn has_dirs(&self) -> bool {
        !self.state().first.is_empty()
    }

    /// Says whether files may still be found.
    pub(crate) fn finds(&self) -> bool {
        self.state().finding > 0
    }

    /// Says whether anything may still come.
    pub(crate) fn is_open(&self) -> bool {
        !self.state().is_over()
    }

    /// Waits for `pause`, or until the work has ended.
    pub(crate) async fn sleep(&self, pause: Duration) {
        let over = self.when(|state| state.is_over().then_some(()));
        let _either = tokio::time::timeout(pause, over).await;
    }

    /// Ends the work: takers get nothing more. Returns the items that were not done, when all are
    /// back.
    pub(crate) async fn close(&self) -> Vec<Item> {
        {
            let mut state = self.state();
            state.closed = true;
            state.open = state.open.saturating_sub(state.waiting());
        }
        self.inner.changed.notify_waiters();
        self.when(|mut state| {
            (state.open == 0).then(|| {
                let State {
                    first,
                    files,
                    orphans,
                    ..
                } = &mut *state;
                first
                    .drain(..)
                    .chain(files.drain(..))
                    .chain(orphans.drain(..))
                    .collect()
            })
        })
        .await
    }

    /// Waits until all files are found that ever will be.
    pub(crate) async fn all_found(&self) {
        self.when(|state| (state.closed || state.finding == 0).then_some(()))
            .await;
    }

    fn closed_one(&self, finds: bool) {
        let mut state = self.state();
        state.open = state.open.saturating_sub(1);
        state.finding = state.finding.saturating_sub(usize::from(finds));
        let last = state.open == 0 || (finds && state.finding == 0);
        drop(state);
        if last {
            self.inner.changed.notify_waiters();
        }
    }
}

impl State {
    fn put(&mut self, item: Item, back: bool) {
        match item {
            Item::Dir(_) => self.first.push_back(item),
            Item::File(_) if back => self.files.push_front(item),
            Item::File(_) => self.files.push_back(item),
        }
    }

    fn waiting(&self) -> usize {
        self.first.len() + self.files.len()
    }

    /// Whether nothing more will be taken.
    fn is_over(&self) -> bool {
        self.closed || self.open == 0
    }

    /// Whether files go before directories, which would only bring more of them.
    fn is_full(&self) -> bool {
        self.files.len() >= ENOUGH
    }

    fn peek(&self, kind: Kind) -> Option<&Item> {
        match kind {
            Kind::Any if self.is_full() => self.files.front(),
            Kind::Any => self.first.back().or_else(|| self.files.front()),
            Kind::Dirs => self.first.back(),
            Kind::Files => self.files.front(),
        }
    }

    fn take(&mut self, kind: Kind) -> Option<Item> {
        match kind {
            Kind::Any if self.is_full() => self.files.pop_front(),
            Kind::Any => self.first.pop_back().or_else(|| self.files.pop_front()),
            Kind::Dirs => self.first.pop_back(),
            Kind::Files => self.files.pop_front(),
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.queue.closed_one(self.finds);
    }
}

impl Item {
    /// Says whether files may come of it.
    fn finds(&self) -> bool {
        matches!(self, Self::Dir(_))
    }
}

impl Taken {
    /// The item.
    pub(crate) fn item(&self) -> &Item {
        self.item.as_ref().expect(TAKEN)
    }

    /// The item, to be changed.
    pub(crate) fn item_mut(&mut self) -> &mut Item {
        self.item.as_mut().expect(TAKEN)
    }

    /// The file, where only files are taken.
    pub(crate) fn file(&self) -> &FileJob {
        match self.item() {
            Item::File(job) => job,
            Item::Dir(_) => unreachable!("{DIRECTORY}"),
        }
    }

    /// The file, to be changed, where only files are taken.
    pub(crate) fn file_mut(&mut self) -> &mut FileJob {
        match self.item_mut() {
            Item::File(job) => job,
            Item::Dir(_) => unreachable!("{DIRECTORY}"),
        }
    }

    /// Takes the item out for good. The work has not ended before it is accounted for: whoever
    /// waits for the end reads the accounts then.
    pub(crate) fn done<T>(mut self, account: impl FnOnce(Item) -> T) -> T {
        let item = self.item.take().expect(TAKEN);
        let _open = Producer {
            queue: self.queue.clone(),
            finds: item.finds(),
        };
        account(item)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let Some(item) = self.item.take() else { return };
        let mut state = self.queue.state();
        if state.closed {
            let finds = item.finds();
            state.orphans.push(item);
            drop(state);
            return self.queue.closed_one(finds);
        }
        if let Item::File(job) = &item {
            job.pause();
        }
        state.put(item, true);
        drop(state);
        self.queue.inner.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
