//! `Closing`: closes of files in progress; calls at a file or at a directory above it wait for them.

use std::sync::{Mutex, MutexGuard, PoisonError};

use gridftp_dsi::DsiPath;
use tokio::sync::watch;

/// Closes on their way. A dropped sink ends its upload only then.
#[derive(Debug, Default)]
pub(crate) struct Closing(Mutex<Vec<(DsiPath, watch::Receiver<()>)>>);

impl Closing {
    fn lock(&self) -> MutexGuard<'_, Vec<(DsiPath, watch::Receiver<()>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a close, which ends when the value is dropped.
    pub(crate) fn begin(&self, path: &DsiPath) -> watch::Sender<()> {
        let (ending, ended) = watch::channel(());
        let mut closing = self.lock();
        closing.retain(|(_, ended)| ended.has_changed().is_ok());
        closing.push((path.clone(), ended));
        ending
    }

    /// Waits for the closes at `path` and below it that have begun.
    pub(crate) async fn wait(&self, path: &DsiPath) {
        let begun: Vec<_> = {
            let closing = self.lock();
            let here = closing.iter().filter(|(at, _)| at.below(path).is_some());
            here.map(|(_, ended)| ended.clone()).collect()
        };
        for mut ended in begun {
            // Nothing is sent: it returns when the sender is gone.
            drop(ended.changed().await);
        }
    }
}
