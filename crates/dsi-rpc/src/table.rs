//! `Table`: the open files of one connection, by their handles.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gridftp_dsi::{BoxSink, BoxSource, Error, ErrorKind, Result};
use tokio::sync::RwLock;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Most open files of one connection.
pub const MAX_HANDLES: usize = 4096;

/// A file open for writing, which is gone once it is finished. Its other calls share the lock, for
/// which the last one waits.
pub(crate) type OpenSink = Arc<RwLock<Option<BoxSink>>>;

/// An open file.
#[derive(Clone)]
pub(crate) enum Open {
    Source(Arc<BoxSource>),
    Sink(OpenSink),
}

/// The open files.
#[derive(Default)]
pub(crate) struct Table {
    open: Mutex<BTreeMap<u64, (Open, TaskTrackerToken)>>,
    last: AtomicU64,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table({} files)", self.lock().len())
    }
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, (Open, TaskTrackerToken)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a file its handle, and counts it with this token.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] with too many.
    pub(crate) fn insert(&self, file: Open, token: TaskTrackerToken) -> Result<u64> {
        let mut open = self.lock();
        if open.len() >= MAX_HANDLES {
            let why = format!("{MAX_HANDLES} files are open on this connection");
            return Err(Error::new(ErrorKind::Busy, "open").because(why));
        }
        let handle = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        open.insert(handle, (file, token));
        Ok(handle)
    }

    /// The file of a handle.
    ///
    /// # Errors
    /// [`ErrorKind::Changed`] if it is closed.
    pub(crate) fn get(&self, handle: u64) -> Result<Open> {
        let open = self.lock();
        let file = open.get(&handle).map(|(file, _)| file.clone());
        file.ok_or_else(closed)
    }

    /// The file of a handle, open for writing.
    pub(crate) fn sink(&self, handle: u64) -> Result<OpenSink> {
        match self.get(handle)? {
            Open::Sink(sink) => Ok(sink),
            Open::Source(_) => Err(Error::new(ErrorKind::Unsupported, "write")),
        }
    }

    /// Closes a handle.
    pub(crate) fn remove(&self, handle: u64) -> Option<(Open, TaskTrackerToken)> {
        self.lock().remove(&handle)
    }
}

/// The error of a file that is closed.
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Changed, "use").because("the file is closed")
}
