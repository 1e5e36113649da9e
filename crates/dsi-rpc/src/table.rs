//! `Table`: the open files of one connection, by the handles that the caller chose.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gridftp_dsi::{BoxSink, BoxSource, Error, ErrorKind, Result};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Most open files of one connection.
pub const MAX_HANDLES: usize = 4096;

/// A file, or `None` before it is open and after it is closed. Calls share the lock; opening and
/// closing hold it alone.
type Slot = Arc<RwLock<Option<Open>>>;

/// An open file, locked by a call.
type Locked<T> = OwnedRwLockReadGuard<Option<Open>, T>;

/// An open file.
pub(crate) enum Open {
    Source(BoxSource),
    Sink(BoxSink),
}

/// The open files.
#[derive(Default)]
pub(crate) struct Table {
    slots: Mutex<BTreeMap<u64, (Slot, TaskTrackerToken)>>,
    /// Counts the files.
    pub(crate) uses: TaskTracker,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table({} files)", self.lock().len())
    }
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, (Slot, TaskTrackerToken)>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves a handle for a file that is about to be opened.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] with too many, [`ErrorKind::Exists`] for one in use.
    pub(crate) fn reserve(&self, handle: u64) -> Result<Opening<'_>> {
        let slot = Slot::default();
        let file = Arc::clone(&slot).try_write_owned();
        let file = file.map_err(|_| Error::new(ErrorKind::Busy, "open"))?;
        let mut slots = self.lock();
        if slots.len() >= MAX_HANDLES {
            let why = format!("{MAX_HANDLES} files are open on this connection");
            return Err(Error::new(ErrorKind::Busy, "open").because(why));
        }
        let Entry::Vacant(entry) = slots.entry(handle) else {
            return Err(Error::new(ErrorKind::Exists, "open").because("the handle is in use"));
        };
        entry.insert((slot, self.uses.token()));
        Ok(Opening {
            table: self,
            handle,
            file,
        })
    }

    /// The file of a handle, once it is open.
    ///
    /// # Errors
    /// [`ErrorKind::Changed`] if it is closed.
    pub(crate) async fn file(&self, handle: u64) -> Result<Locked<Open>> {
        let slot = self.lock().get(&handle).map(|(slot, _)| Arc::clone(slot));
        let file = slot.ok_or_else(closed)?.read_owned().await;
        OwnedRwLockReadGuard::try_map(file, Option::as_ref).map_err(|_| closed())
    }

    /// The file of a handle, open for writing.
    ///
    /// # Errors
    /// [`ErrorKind::Changed`] if it is closed, [`ErrorKind::Unsupported`] if it is open for reading.
    pub(crate) async fn sink(&self, handle: u64) -> Result<Locked<BoxSink>> {
        let sink = OwnedRwLockReadGuard::try_map(self.file(handle).await?, |file| match file {
            Open::Sink(sink) => Some(sink),
            Open::Source(_) => None,
        });
        sink.map_err(|_| Error::new(ErrorKind::Unsupported, "write"))
    }

    /// Closes a handle, once its opening and its calls have ended.
    ///
    /// # Cancel safety
    /// The file is closed all the same.
    pub(crate) async fn close(&self, handle: u64) -> Option<Open> {
        let (slot, _token) = self.lock().remove(&handle)?;
        slot.write().await.take()
    }
}

/// A reserved handle, without its file yet. Dropped so, the handle is free again.
pub(crate) struct Opening<'a> {
    table: &'a Table,
    handle: u64,
    file: OwnedRwLockWriteGuard<Option<Open>>,
}

impl Opening<'_> {
    /// Gives the handle its file.
    pub(crate) fn fill(mut self, file: Open) {
        *self.file = Some(file);
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        if self.file.is_none() {
            self.table.lock().remove(&self.handle);
        }
    }
}

/// The error of a file that is closed.
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Changed, "use").because("the file is closed")
}
