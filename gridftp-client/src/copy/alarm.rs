//! `Alarm`: one stage of a pipeline tells the others that the channel is broken.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Rings once, for everyone who waits then or later.
#[derive(Debug, Default)]
pub(crate) struct Alarm {
    rung: AtomicBool,
    bell: Notify,
}

impl Alarm {
    /// Rings.
    pub(crate) fn ring(&self) {
        self.rung.store(true, Ordering::Release);
        self.bell.notify_waiters();
    }

    /// Waits until it has rung.
    pub(crate) async fn rung(&self) {
        let bell = self.bell.notified();
        tokio::pin!(bell);
        bell.as_mut().enable();
        if !self.rung.load(Ordering::Acquire) {
            bell.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn is_heard_before_and_after() {
        let alarm = Arc::new(Alarm::default());
        let early = tokio::spawn({
            let alarm = Arc::clone(&alarm);
            async move { alarm.rung().await }
        });
        tokio::task::yield_now().await;
        assert!(!early.is_finished());
        alarm.ring();
        early.await.unwrap();
        alarm.rung().await;
    }
}
