//! `Reporter`: runs a transfer beside its markers and its cancellation.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use byte_ranges::RangeSet;
use ftp_proto::types::{Event, Transfer};
use gridftp_data::Watch;
use tokio::net::UnixStream;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Interval;
use tokio_util::sync::CancellationToken;

use super::ticker::{every, tick};
use super::waits::waits_of;
use crate::error::{AbortedBy, Error, NodeFault};

/// Interval of recording an upload, whatever that of its restart markers.
const RECORD: Duration = Duration::from_secs(1);

/// Fewest bytes that are worth a record between two markers: with those of the interval behind them
/// they are 64 MiB, or the data of one interval where that is more.
const STEP: u64 = 32 << 20;

/// Longest interval of the signs of life while a file is opened; a client that asks for markers more
/// often gets signs as often.
const SIGN: Duration = Duration::from_secs(10);

/// Bytes moved so far by each stripe of a transfer.
pub(crate) type StripeBytes = Arc<[AtomicU64]>;

/// Asks the front end of a transfer on a node for its consent to a publication; dropped without an
/// answer, the transfer is aborted.
pub(crate) type Consent = mpsc::Sender<oneshot::Sender<()>>;

/// The other end of [`Consent`].
type Publications = mpsc::Receiver<oneshot::Sender<()>>;

/// The events of a running transfer, and its cancellation.
#[derive(Debug)]
pub(crate) struct Reporter {
    events: mpsc::Sender<Event>,
    cancel: oneshot::Receiver<AbortedBy>,
    /// The side that cancelled.
    cancelled: Option<AbortedBy>,
    /// Stops work that is not to be dropped, since its end tells the state of other hosts.
    stop: Option<CancellationToken>,
    /// Set where the session is on another host.
    consent: Option<Consent>,
    /// Publications on other hosts that wait for consent.
    publications: Option<Publications>,
    perf: Option<Duration>,
    restart: Option<Duration>,
    /// Whether recorded ranges are sent to the client.
    tells: bool,
    /// Whether uploads of many bytes are recorded between two markers.
    journals: bool,
    /// Received ranges that are not recorded yet.
    unrecorded: RangeSet,
    /// Recorded ranges that no marker has named yet.
    untold: RangeSet,
    started: bool,
    /// Set to report the opening before it begins; the value tells whether connections serve again.
    ahead: Option<bool>,
    /// Bytes moved by each stripe of a transfer on several nodes.
    stripes: Option<StripeBytes>,
    /// Whether markers tell where the time of the transfer goes.
    tells_waits: bool,
}

impl Reporter {
    pub(crate) fn new(
        events: mpsc::Sender<Event>,
        cancel: oneshot::Receiver<AbortedBy>,
        transfer: &Transfer,
    ) -> Self {
        let (perf, restart) = (transfer.perf_every, transfer.restart_every);
        let mut reporter = Self::at(events, cancel, perf, restart);
        if !transfer.is_sending() {
            reporter.restart.get_or_insert(RECORD);
        }
        reporter
    }

    /// Reports at these intervals; `tells` says whether the receiver of the events takes ranges.
    pub(crate) fn at(
        events: mpsc::Sender<Event>,
        cancel: oneshot::Receiver<AbortedBy>,
        perf: Option<Duration>,
        restart: Option<Duration>,
    ) -> Self {
        Self {
            events,
            cancel,
            cancelled: None,
            stop: None,
            consent: None,
            publications: None,
            perf,
            restart,
            tells: restart.is_some(),
            journals: false,
            unrecorded: RangeSet::new(),
            untold: RangeSet::new(),
            started: false,
            ahead: None,
            stripes: None,
            tells_waits: false,
        }
    }

    /// Has markers tell where the time of the transfer goes.
    pub(crate) const fn tell_waits(&mut self) {
        self.tells_waits = true;
    }

    /// Has a cancellation stop the work of [`run`](Self::run) by this token, and awaits its end.
    pub(crate) fn set_stop(&mut self, stop: CancellationToken) {
        self.stop = Some(stop);
    }

    /// Asks for consent before a file is published whose end may be that of the client.
    pub(crate) fn set_consent(&mut self, consent: Consent) {
        self.consent = Some(consent);
    }

    /// Takes requests for consent during [`run`](Self::run), by the returned end.
    pub(crate) fn take_publications(&mut self) -> Consent {
        let (consent, publications) = mpsc::channel(1);
        self.publications = Some(publications);
        consent
    }

    /// Records an upload each second where it is fast, apart from its markers: after a kill at most the
    /// data of a second or 64 MiB is sent again, whichever is more.
    pub(crate) const fn record_between_markers(&mut self) {
        self.journals = true;
    }

    /// Records no ranges and sends none, since nothing is kept of a failed transfer.
    pub(crate) const fn keep_nothing(&mut self) {
        self.restart = None;
        self.tells = false;
        self.journals = false;
    }

    /// The way of events to the session.
    pub(crate) fn events(&self) -> mpsc::Sender<Event> {
        self.events.clone()
    }

    /// Interval of restart markers, if the client asks for them.
    pub(crate) fn restart_every(&self) -> Option<Duration> {
        self.restart.filter(|_| self.tells)
    }

    /// Reports the bytes of each stripe from now on.
    pub(crate) fn set_stripes(&mut self, stripes: StripeBytes) {
        self.stripes = Some(stripes);
    }

    /// Reports the opening of the data connections before it begins: clients of FTP over TLS begin
    /// the handshake of a data connection after the 150.
    pub(crate) const fn announce(&mut self, reused: bool) {
        self.ahead = Some(reused);
    }

    /// Runs `work` to its end, and reports its opening and, at intervals, its progress.
    ///
    /// `kept` makes received ranges durable; a 111 names only such ranges.
    ///
    /// # Errors
    /// Those of `work`, and [`Error::Aborted`] when the session cancelled: `work` is dropped then,
    /// or it has failed after [`set_stop`](Self::set_stop), with a known outcome and no lost node.
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
        let mut record = self.journals.then(|| every(RECORD));
        let mut publications = self.publications.take();
        if let Some(reused) = self.ahead.take() {
            self.opened(reused).await;
        }
        let result = loop {
            tokio::select! {
                biased;
                reused = watch.opened(), if !self.started => self.opened(reused).await,
                result = &mut work => {
                    // A short transfer may end before its opening was reported.
                    if !self.started && watch.is_open() {
                        let reused = watch.opened().await;
                        self.opened(reused).await;
                    }
                    break result;
                }
                by = self.cancellation(), if self.cancelled.is_none() => self.stop(by)?,
                Some(agree) = asked(&mut publications) => match self.cancelled().await {
                    // The work may have ended.
                    None => drop(agree.send(())),
                    Some(by) => self.stop(by)?,
                },
                marks = due(&mut restart, &mut record), if self.started && self.cancelled.is_none() => {
                    self.unrecorded.extend(&watch.take_received());
                    let least = if marks { 1 } else { STEP };
                    let mut ended = None;
                    if self.unrecorded.total() >= least {
                        let saving = kept(self.unrecorded.clone());
                        ended = self.save(saving, work.as_mut(), watch, &mut perf, marks).await?;
                        // A disk that took long rests as long as one that did not.
                        record.iter_mut().for_each(Interval::reset);
                        restart.iter_mut().filter(|_| marks).for_each(Interval::reset);
                    }
                    if marks {
                        self.mark().await;
                    }
                    if let Some(result) = ended {
                        break result;
                    }
                }
                () = tick(&mut perf), if self.started => self.moved(watch).await,
            }
        };
        result.map_err(|error| match (self.cancelled, error.into()) {
            (None, error) | (_, error @ Error::Node(NodeFault::Unknown(_))) => error,
            // A client may abort because its connections to the node broke.
            (_, error) if error.is_lost_node() => error,
            (Some(by), _) => Error::Aborted(by),
        })
    }

    /// Records the unrecorded ranges by `saving`, beside the transfer, since that may wait for a disk;
    /// returns the result of a transfer that ends meanwhile. `marks` says whether a marker is due.
    ///
    /// # Errors
    /// [`Error::Aborted`] as [`run`](Self::run).
    async fn save<T, E>(
        &mut self,
        saving: impl Future<Output = gridftp_dsi::Result<()>>,
        mut work: Pin<&mut impl Future<Output = Result<T, E>>>,
        watch: &Watch,
        perf: &mut Option<Interval>,
        marks: bool,
    ) -> Result<Option<Result<T, E>>, Error> {
        let mut saving = pin!(saving);
        let mut ended = None;
        loop {
            tokio::select! {
                biased;
                saved = &mut saving => {
                    self.recorded(saved, marks);
                    return Ok(ended);
                }
                result = &mut work, if ended.is_none() => {
                    let has_failed = result.is_err();
                    ended = Some(result);
                    // The failed upload is recorded as a whole, within a limit.
                    if has_failed {
                        return Ok(ended);
                    }
                }
                by = self.cancellation(), if self.cancelled.is_none() => {
                    self.stop(by)?;
                    // The disk may not answer.
                    return Ok(ended);
                }
                () = tick(perf) => self.moved(watch).await,
            }
        }
    }

    /// Waits for the session to cancel; one that ended without a word lost its client.
    async fn cancellation(&mut self) -> AbortedBy {
        if let Some(by) = self.cancelled {
            return by;
        }
        let by = (&mut self.cancel).await.unwrap_or(AbortedBy::Client);
        *self.cancelled.insert(by)
    }

    /// Stops the work that is cancelled, or has it dropped.
    fn stop(&self, by: AbortedBy) -> Result<(), Error> {
        let stop = self.stop.as_ref().ok_or(Error::Aborted(by))?;
        stop.cancel();
        Ok(())
    }

    /// Runs the completion of a receive, which is not cancelled, and reports progress at intervals:
    /// the data may have to be flushed and hashed.
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

    /// The last markers of a receive whose data is all recorded.
    pub(crate) async fn last_marks(&mut self, watch: &Watch) {
        if self.perf.is_some() {
            self.moved(watch).await;
        }
        self.unrecorded.extend(&watch.take_received());
        self.recorded(Ok(()), true);
        self.mark().await;
    }

    /// Returns the side that cancelled, after a chance for the session to cancel.
    ///
    /// The end of a MODE S upload and the death of the client look the same on the data connection;
    /// a client that died has lost its control connection too.
    pub(crate) async fn cancelled(&mut self) -> Option<AbortedBy> {
        if self.cancelled.is_some() {
            return self.cancelled;
        }
        let Some(consent) = self.consent.clone() else {
            // It fails where no descriptor is left; the session may then learn too late.
            let _ = earlier_events().await;
            tokio::task::yield_now().await;
            let by = match self.cancel.try_recv() {
                Ok(by) => by,
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Closed) => AbortedBy::Client,
            };
            return Some(*self.cancelled.insert(by));
        };
        let (give, given) = oneshot::channel();
        let asking = async {
            // The session ends without an answer.
            drop(consent.send(give).await);
            given.await.err().map(|_| AbortedBy::Client)
        };
        tokio::select! {
            biased;
            by = self.cancellation() => Some(by),
            refused = asking => refused,
        }
    }

    /// Runs `work` without reports, unless the session cancels it.
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
            by = self.cancellation() => Err(Error::Aborted(by)),
        }
    }

    /// As [`run_quietly`](Self::run_quietly), for the opening of a file: a storage that takes long is
    /// reported at intervals, so that the client goes on waiting.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) async fn run_patiently<T, E: Into<Error>>(
        &mut self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Error> {
        let mut work = pin!(work);
        let mut signs = Some(every(self.perf.map_or(SIGN, |perf| perf.min(SIGN))));
        loop {
            tokio::select! {
                biased;
                result = &mut work => return result.map_err(Into::into),
                by = self.cancellation() => return Err(Error::Aborted(by)),
                () = tick(&mut signs) => self.send(Event::Waiting).await,
            }
        }
    }

    /// Notes that ranges were recorded. After a failure to record, which does not end the transfer,
    /// they wait for the next time.
    fn recorded(&mut self, saved: gridftp_dsi::Result<()>, marks: bool) {
        match saved {
            Ok(()) => self.untold.extend(&std::mem::take(&mut self.unrecorded)),
            Err(error) if !self.tells || !marks => {
                tracing::debug!(%error, "an upload could not be recorded while it goes on");
            }
            Err(error) => {
                tracing::warn!(%error, "no restart marker: the received ranges could not be recorded");
            }
        }
    }

    /// Tells the client of the ranges that were recorded since the last marker.
    async fn mark(&mut self) {
        let recorded = std::mem::take(&mut self.untold);
        if self.tells && !recorded.is_empty() {
            self.send(Event::Received(recorded)).await;
        }
    }

    async fn opened(&mut self, reused: bool) {
        self.started = true;
        self.send(Event::Opened { reused }).await;
        // At the begin there are no waits to tell, and small files need no marker at all.
        if self.perf.is_some() && !self.tells_waits {
            self.moved(&Watch::new()).await;
        }
        // The session runs first, so that the client reads the 150 before the 226.
        tokio::task::yield_now().await;
    }

    async fn moved(&self, watch: &Watch) {
        let single = [AtomicU64::new(watch.bytes())];
        let stripes = self.stripes.as_deref().unwrap_or(&single);
        let count = u32::try_from(stripes.len()).unwrap_or(u32::MAX);
        let waits = self.tells_waits.then(|| Box::new(waits_of(watch)));
        for (stripe, bytes) in (0..).zip(stripes) {
            let bytes = bytes.load(Ordering::Relaxed);
            self.send(Event::Moved {
                at: tenths(),
                stripe,
                stripes: count,
                bytes,
                waits: waits.clone(),
            })
            .await;
        }
    }

    async fn send(&self, event: Event) {
        // The receiver lives as long as the session that polls this future.
        drop(self.events.send(event).await);
    }
}

/// The wall clock in tenths of a second since 1970.
pub(crate) fn tenths() -> u64 {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis() / 100).unwrap_or(u64::MAX)
}

/// Waits until the runtime has taken in all events that its sockets had before the call.
///
/// Events are reported in their order, so the last one to come is that of a socket closed here.
async fn earlier_events() -> io::Result<()> {
    let (here, there) = std::os::unix::net::UnixStream::pair()?;
    here.set_nonblocking(true)?;
    drop(there);
    UnixStream::from_std(here)?.readable().await
}

/// The next publication that waits for consent; never, without any.
async fn asked(publications: &mut Option<Publications>) -> Option<oneshot::Sender<()>> {
    match publications {
        Some(publications) => publications.recv().await,
        None => std::future::pending().await,
    }
}

/// Waits until ranges are to be recorded; says whether a marker is due.
async fn due(restart: &mut Option<Interval>, record: &mut Option<Interval>) -> bool {
    tokio::select! {
        biased;
        () = tick(restart) => true,
        () = tick(record) => false,
    }
}

#[cfg(test)]
#[path = "reporter_tests.rs"]
mod tests;
