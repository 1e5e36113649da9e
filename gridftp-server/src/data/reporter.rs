//! `Reporter`: runs a transfer beside its markers and its cancellation.

use std::future::Future;
use std::pin::pin;
use std::time::{Duration, SystemTime};

use byte_ranges::RangeSet;
use ftp_proto::types::{Event, Transfer};
use gridftp_data::Watch;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{self, Instant, Interval, MissedTickBehavior};

use crate::error::{AbortedBy, Error};

/// How often an upload whose client wants no markers is recorded all the same: so much of it comes
/// again at most when this process is killed.
const RECORD: Duration = Duration::from_secs(5);

/// What a transfer tells the session while it runs, and how the session stops it.
#[derive(Debug)]
pub(crate) struct Reporter {
    events: mpsc::Sender<Event>,
    cancel: oneshot::Receiver<AbortedBy>,
    perf: Option<Duration>,
    restart: Option<Duration>,
    /// Whether the client is told of what is recorded.
    tells: bool,
    started: bool,
}

impl Reporter {
    pub(crate) fn new(
        events: mpsc::Sender<Event>,
        cancel: oneshot::Receiver<AbortedBy>,
        transfer: &Transfer,
    ) -> Self {
        Self {
            events,
            cancel,
            perf: transfer.perf_every,
            restart: match transfer.restart_every {
                None if !transfer.is_sending() => Some(RECORD),
                every => every,
            },
            tells: transfer.restart_every.is_some(),
            started: false,
        }
    }

    /// Runs `work` to its end, telling of its opening and, every so often, of its progress.
    ///
    /// `kept` makes what has been received so far safe; only what it was given is named by a 111.
    ///
    /// # Errors
    /// Those of `work`, and [`Error::Aborted`] when the session cancelled: `work` is dropped then.
    pub(crate) async fn run<T, E, K>(
        &mut self,
        watch: &Watch,
        work: impl Future<Output = Result<T, E>>,
        mut kept: impl FnMut(RangeSet) -> K,
    ) -> Result<T, Error>
    where
        E: Into<Error>,
        K: Future<Output = gridftp_dsi::Result<()>>,
    {
        let mut work = pin!(work);
        let mut perf = self.perf.map(every);
        let mut restart = self.restart.map(every);
        loop {
            tokio::select! {
                biased;
                reused = watch.opened(), if !self.started => self.opened(reused).await,
                result = &mut work => {
                    // A short transfer may be over before anybody asked whether it had begun.
                    if !self.started && watch.is_open() {
                        let reused = watch.opened().await;
                        self.opened(reused).await;
                    }
                    return result.map_err(Into::into);
                }
                by = &mut self.cancel => return Err(aborted(by)),
                () = tick(&mut restart), if self.started => {
                    let new = watch.take_received();
                    if new.is_empty() {
                        continue;
                    }
                    // Beside the transfer, not in its way: saving may wait for a disk.
                    let mut saving = pin!(kept(new.clone()));
                    let ended = tokio::select! {
                        biased;
                        saved = &mut saving => { self.received(saved, new).await; None }
                        result = &mut work => {
                            let saved = tokio::select! {
                                biased;
                                saved = saving => saved,
                                by = &mut self.cancel => return Err(aborted(by)),
                            };
                            self.received(saved, new).await;
                            Some(result)
                        }
                        by = &mut self.cancel => return Err(aborted(by)),
                    };
                    if let Some(result) = ended {
                        return result.map_err(Into::into);
                    }
                }
                () = tick(&mut perf), if self.started => self.moved(watch).await,
            }
        }
    }

    /// Runs `work` that completes a receive and is not stopped any more, and tells every so often
    /// that it goes on: the data may have to be flushed and hashed.
    pub(crate) async fn complete<T>(&self, watch: &Watch, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        let mut perf = self.perf.map(every);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = tick(&mut perf) => self.moved(watch).await,
            }
        }
    }

    /// The last markers of a receive that ended well and is safely stored.
    pub(crate) async fn last_marks(&self, watch: &Watch) {
        if self.perf.is_some() {
            self.moved(watch).await;
        }
        if self.tells {
            let new = watch.take_received();
            if !new.is_empty() {
                self.send(Event::Received(new)).await;
            }
        }
    }

    /// Says who has cancelled, after giving the session the chance to.
    ///
    /// The end of a MODE S upload and the death of the client look the same on the data connection;
    /// a client that died has lost its control connection too.
    pub(crate) async fn cancelled(&mut self) -> Option<AbortedBy> {
        for _ in 0..2 {
            tokio::task::yield_now().await;
        }
        self.cancel.try_recv().ok()
    }

    /// Runs `work` without telling anybody of it, as long as the session does not cancel.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) async fn run_quietly<T, E: Into<Error>>(
        &mut self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Error> {
        tokio::select! {
            biased;
            result = work => result.map_err(Into::into),
            by = &mut self.cancel => Err(aborted(by)),
        }
    }

    /// Tells of what is safe; what could not be made safe is no reason to end a transfer that goes
    /// on.
    async fn received(&self, saved: gridftp_dsi::Result<()>, new: RangeSet) {
        match saved {
            Ok(()) if self.tells => self.send(Event::Received(new)).await,
            Ok(()) => {}
            Err(error) if !self.tells => {
                tracing::debug!(%error, "an upload could not be recorded while it goes on");
            }
            Err(error) => {
                tracing::warn!(%error, "no restart marker: what came could not be made safe")
            }
        }
    }

    async fn opened(&mut self, reused: bool) {
        self.started = true;
        self.send(Event::Opened { reused }).await;
        if self.perf.is_some() {
            self.send(perf_event(0)).await;
        }
        // The session has its turn, so that the client reads of the beginning before there is an
        // end.
        tokio::task::yield_now().await;
    }

    async fn moved(&self, watch: &Watch) {
        self.send(perf_event(watch.bytes())).await;
    }

    async fn send(&self, event: Event) {
        // The receiver lives as long as the session that polls this future.
        drop(self.events.send(event).await);
    }
}

/// Why work was cancelled; a session that is gone without a word went with its client.
fn aborted(by: Result<AbortedBy, oneshot::error::RecvError>) -> Error {
    Error::Aborted(by.unwrap_or(AbortedBy::Client))
}

/// A 112 marker of a server of one stripe.
fn perf_event(bytes: u64) -> Event {
    Event::Moved {
        at: tenths(),
        stripe: 0,
        stripes: 1,
        bytes,
    }
}

/// The wall clock in tenths of a second since 1970.
pub(crate) fn tenths() -> u64 {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis() / 100).unwrap_or(u64::MAX)
}

/// A ticker whose first tick comes after one period.
pub(crate) fn every(period: Duration) -> Interval {
    let period = period.max(Duration::from_millis(100));
    let mut ticker = time::interval_at(Instant::now() + period, period);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticker
}

/// The next tick; never, without a ticker.
pub(crate) async fn tick(ticker: &mut Option<Interval>) {
    match ticker {
        Some(ticker) => {
            ticker.tick().await;
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn completing_gives_signs_of_life() {
        let (events, mut told) = mpsc::channel(64);
        let (_never, cancel) = oneshot::channel();
        let reporter = Reporter {
            events,
            cancel,
            perf: Some(Duration::from_secs(5)),
            restart: None,
            tells: false,
            started: true,
        };
        let work = time::sleep(Duration::from_secs(61));
        reporter.complete(&Watch::new(), work).await;
        drop(reporter);
        let mut signs = 0;
        while let Some(event) = told.recv().await {
            assert!(matches!(event, Event::Moved { .. }));
            signs += 1;
        }
        assert_eq!(signs, 12);
    }
}
