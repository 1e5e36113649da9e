//! The end marks of a stripe wait for the front end. The front end joins the digests of all stripes, and
//! the last stripe tells the receiver the digest of the file.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::SetOnce;
use tokio::time::timeout;

use super::{Told, Watch};

/// Longest wait for the front end. It answers at once, or the session with it ends; behind the wait the
/// receiver is told no digest.
const ANSWER: Duration = Duration::from_secs(10);

/// The question before the end marks, and its answer.
#[derive(Debug, Default)]
pub(super) struct Ending {
    /// Whether the end marks wait for an answer.
    asks: AtomicBool,
    /// Set once all data is on the connections.
    sent: SetOnce<()>,
    /// The digest that goes ahead of the end marks.
    answer: SetOnce<Option<Told>>,
}

impl Watch {
    /// Has the end marks of the stripe that is sent next wait for [`end_stripe`](Self::end_stripe).
    pub fn ask_before_end(&self) {
        self.ending.asks.store(true, Ordering::Relaxed);
    }

    /// Waits until all data of a stripe that [asks](Self::ask_before_end) is on the connections; never
    /// returns for any other.
    ///
    /// # Cancel safety
    /// Nothing is lost: behind that moment every call returns at once.
    pub async fn stripe_sent(&self) {
        self.ending.sent.wait().await;
    }

    /// Has the stripe end, and tell the receiver this digest of the whole file ahead of its end marks; the
    /// first call counts.
    pub fn end_stripe(&self, told: Option<Told>) {
        // A later answer comes too late.
        let _ = self.ending.answer.set(told);
    }

    /// Whether the end marks wait for an answer.
    pub(crate) fn asks_before_end(&self) -> bool {
        self.ending.asks.load(Ordering::Relaxed)
    }

    /// Says that all data is on the connections, and waits for the answer.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(crate) async fn await_end(&self) {
        // Set before, if it was cancelled.
        let _ = self.ending.sent.set(());
        if timeout(ANSWER, self.ending.answer.wait()).await.is_err() {
            tracing::warn!("the front end does not end a stripe: its receiver is told no digest");
        }
    }

    /// The answer, once it is there: the digest to tell the receiver.
    pub(crate) fn told_at_end(&self) -> Option<&Told> {
        self.ending.answer.get()?.as_ref()
    }
}
