//! Records of the partial file of an upload that failed, for a restart.

use byte_ranges::RangeSet;
use gridftp_data::Watch;
use gridftp_dsi::{ErrorKind, Finish, Sink};
use tokio::time::{Instant, timeout_at};

use super::store::{Store, Verdict};
use crate::error::{Error, KEEPING};

impl Store {
    /// Keeps the received data for a restart; says whether it is recorded in time.
    pub(super) async fn keep<S: Sink>(
        &self,
        sink: &S,
        base: u64,
        watch: &Watch,
        until: Instant,
    ) -> bool {
        let mut here = self.held.clone();
        here.extend(&watch.received());
        if here.is_empty() || self.proof.is_some() {
            return false;
        }
        let here = here.shift_up(base).unwrap_or_default();
        sink.note_groups(watch.take_groups());
        self.record(sink, &here, until).await == Recorded::Whole
    }

    /// Records of a corrupt upload exactly the bytes on which this end and the sender agree, where
    /// `examining` finds them in the sink: with a false report nothing. Gives the failure, that of the
    /// report first.
    pub(super) async fn keep_agreed<S: Sink>(
        &self,
        (sink, watch): (&S, &Watch),
        error: Error,
        examining: impl Future<Output = Result<Verdict, Error>>,
    ) -> Error {
        let until = error.record_until();
        let examined = timeout_at(until, examining).await;
        let is_sound = matches!(examined, Ok(Ok(Verdict::Sound)));
        // Others cannot forget their earlier records.
        let records = sink.groups(&RangeSet::new()).await;
        let records = is_sound && self.into.is_whole() && matches!(records, Ok(Some(_)));
        let mut agreed = RangeSet::new();
        if let Some(differing) = watch.differing().filter(|_| records) {
            agreed = self.held.clone();
            agreed.extend(&watch.received());
            differing.iter().for_each(|range| agreed.remove(range));
            sink.note_groups(watch.take_groups());
        }
        let recorded = self.record(sink, &agreed, until).await;
        if recorded == Recorded::Unknown && !agreed.is_empty() {
            self.record(sink, &RangeSet::new(), until).await;
        }
        match examined {
            Ok(Ok(Verdict::False(report))) => report,
            _ => error,
        }
    }

    /// The verdict on bytes of a shared upload that came again from `at` on, of which values are
    /// recorded: nothing is held from now on, since the process may be killed before the end of the
    /// upload, and the next attempt would take these values for those of the new bytes.
    pub(crate) async fn repeated<S: Sink>(&self, sink: &S, at: u64) -> Verdict {
        let until = Instant::now() + KEEPING;
        self.record(sink, &RangeSet::new(), until).await;
        Verdict::False(Error::Repeated { at })
    }

    /// As [`prove`](Self::prove), with the digests of a transfer; its data is kept for a restart where
    /// it is not proven.
    pub(crate) async fn prove_or_keep<S: Sink>(
        &self,
        (sink, base): (&S, u64),
        watch: &Watch,
        finish: &mut Finish,
    ) -> Result<(), Error> {
        let digests = (watch.file_digest(), watch.told_digest());
        let proven = self.prove(digests, finish);
        if proven.is_err() {
            let until = Instant::now() + KEEPING;
            self.keep(sink, base, watch, until).await;
        }
        proven
    }

    /// Records exactly these ranges of a failed upload.
    pub(super) async fn record<S: Sink>(
        &self,
        sink: &S,
        here: &RangeSet,
        until: Instant,
    ) -> Recorded {
        match timeout_at(until, sink.checkpoint(here, self.rules.durable)).await {
            Ok(Ok(())) => return Recorded::Whole,
            Ok(Err(error)) if error.kind() == ErrorKind::Incomplete => {
                tracing::debug!(path = %self.path, %error, "the partial file of a failed upload is recorded in part");
                return Recorded::InPart;
            }
            Ok(Err(error)) => {
                tracing::warn!(path = %self.path, %error, "the partial file of a failed upload could not be recorded");
            }
            Err(_) => {
                tracing::warn!(path = %self.path, "the storage takes long to record the partial file of a failed upload");
            }
        }
        Recorded::Unknown
    }
}

/// The extent of the record of a failed upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recorded {
    Whole,
    /// Only the ranges with which a restart continues, as whole parts of an object.
    InPart,
    /// An earlier record may still be there.
    Unknown,
}
