//! Downloads that outlive a run: their bytes are recorded on disk, and the next run goes on with them.

use std::convert::Infallible;
use std::time::Duration;

use byte_ranges::{Range64, RangeSet};
use gridftp_data::Watch;
use gridftp_dsi::types::Create;
use gridftp_dsi::{ErrorKind, Result, Sink as _};
use gridftp_dsi_posix::{FileSink, Origin};
use tokio::time::{MissedTickBehavior, interval};

use super::local;
use crate::copy::job::FileJob;
use crate::copy::state::CopyState;

/// Shortest time between two records of a file.
const EVERY: Duration = Duration::from_secs(1);
/// Fewest new bytes that are worth a record.
const STEP: u64 = 64 << 20;
/// Bytes that are received again of a file which is all there, so that there is a transfer.
const LAST: u64 = 1 << 20;

/// The version of its source that a file is a copy of, where a later run is to go on with it: only a
/// server that tells the time of the source lets it be recognized.
fn origin(shared: &CopyState, job: &FileJob) -> Option<Origin> {
    let size = job
        .facts
        .size
        .filter(|size| shared.options.resume.takes(*size))?;
    if shared.is_partial() || shared.through_layers() || shared.destination.is_some() {
        return None;
    }
    let host = &shared.source.as_ref()?.host;
    let name = [host.as_bytes(), job.from.as_slice()].concat();
    Origin::new(&name, size, job.facts.modified?)
}

/// Opens the file of a download, with the bytes that an earlier run stored of the same source.
pub(super) async fn open(shared: &CopyState, job: &mut FileJob) -> Result<FileSink> {
    let (path, size) = (local(&job.to), job.facts.size);
    let anew = Create::Whole { size };
    let (Some(origin), Some(size)) = (origin(shared, job), size) else {
        return FileSink::create(path, anew, false).await;
    };
    let sink = match FileSink::resume(path, origin, false).await {
        // Another process downloads to the same name.
        Err(error) if error.kind() == ErrorKind::Busy => {
            return FileSink::create(path, anew, false).await;
        }
        sink => sink?,
    };
    if sink.is_other_removed() {
        let what = "the source is not the one of the bytes that an earlier run stored";
        shared.warn(&format!(
            "{}: begun anew: {what}",
            shared.name_destination(job)
        ));
    }
    job.held = worth(sink.held(), size);
    if !job.held.is_empty() {
        shared.tell_continuing(job, job.held.total(), size);
    }
    Ok(sink)
}

/// The held bytes of a file of `size` bytes, but for the last ones where nothing is missing.
fn worth(held: RangeSet, size: u64) -> RangeSet {
    let Some(all) = Range64::new(0, size) else {
        return RangeSet::new();
    };
    let mut held = held.clip(all);
    if let Some(last) = Range64::new(size.saturating_sub(LAST), size).filter(|_| held.covers(all)) {
        held.remove(last);
    }
    held
}

/// The bytes that are held before a transfer, of a file that outlives the run.
pub(super) fn before(shared: &CopyState, job: &FileJob) -> Option<RangeSet> {
    origin(shared, job).map(|_| job.held.clone())
}

/// Runs the transfer `work` to a file that held the bytes `before`, and records those that arrive:
/// at most those of the last second, or the last 64 MiB, are not recorded where that is more.
pub(super) async fn recorded<T>(
    shared: &CopyState,
    before: Option<RangeSet>,
    (sink, watch): (&FileSink, &Watch),
    work: impl Future<Output = T>,
) -> T {
    let Some(before) = before else {
        return work.await;
    };
    let mut recorder = Recorder {
        recorded: before.total(),
        before,
        sink,
        watch,
    };
    tokio::select! {
        biased;
        done = work => done,
        never = recorder.run(shared) => match never {},
    }
}

/// Records the received bytes of one file.
struct Recorder<'a> {
    sink: &'a FileSink,
    watch: &'a Watch,
    /// Bytes held before the transfer.
    before: RangeSet,
    /// Number of bytes of the last record.
    recorded: u64,
}

impl Recorder<'_> {
    async fn run(&mut self, shared: &CopyState) -> Infallible {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            let mut held = self.before.clone();
            held.extend(&self.watch.received());
            let bytes = held.total();
            if bytes < self.recorded.saturating_add(STEP) {
                continue;
            }
            match self.sink.checkpoint(&held, true).await {
                Ok(()) => self.recorded = bytes,
                // The transfer itself tells what is wrong with the disk.
                Err(error) => {
                    shared.note(&format!("the received bytes are not recorded: {error}"));
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

/// Records what is held of a file whose transfer has failed, for another attempt or another run.
pub(super) async fn keep(shared: &CopyState, job: &FileJob, sink: &FileSink) {
    if job.held.is_empty() || origin(shared, job).is_none() {
        return;
    }
    if let Err(error) = sink.checkpoint(&job.held, true).await {
        shared.note(&format!("the received bytes are not kept: {error}"));
    }
}

/// Tells how much is kept of a download that has failed for good.
pub(crate) fn tell_kept(shared: &CopyState, job: &FileJob) {
    if origin(shared, job).is_some() && job.sink.as_ref().is_some_and(FileSink::keeps) {
        shared.tell_kept(job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_all_there_is_asked_for_its_end() {
        let size = 3 * LAST;
        assert_eq!(worth(RangeSet::up_to(size), size).end(), size - LAST);
        assert_eq!(worth(RangeSet::up_to(size + 9), size).end(), size - LAST);
        assert_eq!(worth(RangeSet::up_to(LAST), size).end(), LAST);
        assert!(worth(RangeSet::up_to(5), 5).is_empty());
        assert!(worth(RangeSet::up_to(5), 0).is_empty());
    }
}
