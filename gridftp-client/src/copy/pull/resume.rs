//! Downloads that outlive a run: their bytes are recorded on disk, and the next run goes on with them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use byte_ranges::{Range64, RangeSet};
use ftp_wire::command::Tag;
use ftp_wire::receipt::Extent;
use gridftp_data::{Earlier, Watch};
use gridftp_dsi::types::{ChecksumAlgorithm, Create};
use gridftp_dsi::{ErrorKind, Result, Sink as _};
use gridftp_dsi_posix::kept::expire_in;
use gridftp_dsi_posix::{FileSink, Origin};
use tokio::time::{Instant, timeout, timeout_at};

use super::local;
use super::pace::Pace;
use crate::abilities::Abilities;
use crate::copy::job::FileJob;
use crate::copy::lock;
use crate::copy::state::CopyState;
use crate::names;
use crate::options::Resume;
use crate::partials::OLD;
use crate::running::RunningFile;
use crate::text::counted;
use crate::url::show;
use crate::verify;

/// Most bytes at the end of a held range that come again where no digest proves the copy.
const AGAIN: u64 = 8 << 20;
/// Longest wait for the disk when a transfer has failed.
const KEEPING: Duration = Duration::from_secs(60);
/// Longest search for old partial files, in all directories together.
const SWEEPING: Duration = Duration::from_secs(10);
/// Seconds since the last change of a source from which on its time tells a further one, for
/// clocks that differ as well.
const SETTLED: i64 = 3600;
/// Bytes that are received again of a file which is all there, so that there is a transfer.
const LAST: u64 = 1 << 20;

/// The version of its source that a file is a copy of, where a later run is to go on with it: its
/// size and time have to be known.
fn origin(shared: &CopyState, job: &FileJob) -> Option<Origin> {
    let size = job
        .facts
        .size
        .filter(|size| shared.options.resume.takes(*size))?;
    if shared.is_partial() || shared.through_layers() || shared.destination.is_some() {
        return None;
    }
    // An entity tag tells the version as well.
    let untimed = || job.validator.as_ref().map(|_| (0, 0));
    let modified = job.facts.modified.or_else(untimed)?;
    Origin::new(&shared.lasting_source(job)?, size, modified)
}

/// The digest that proves a copy which goes on with the bytes of an earlier run.
pub(super) fn proof(abilities: &Abilities) -> Option<ChecksumAlgorithm> {
    let mut proofs = verify::PROOFS.into_iter();
    proofs.find(|proof| abilities.cost(*proof).is_some())
}

/// Says whether a later run may go on: a digest proves the copy, or the source is so old that a change
/// would show in its time.
fn may_outlive(job: &FileJob, proves: bool) -> bool {
    let is_old = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        let (modified, _) = job.facts.modified?;
        let since = i64::try_from(since.as_secs()).ok()?;
        Some(since.saturating_sub(modified) > SETTLED)
    };
    proves || is_old().unwrap_or_default()
}

/// Opens the file of a download, with the bytes that an earlier run stored of the same source.
pub(super) async fn open(shared: &CopyState, job: &mut FileJob, proves: bool) -> Result<FileSink> {
    let (path, size) = (local(&job.to), job.facts.size);
    let anew = Create::Whole { size };
    let sync = shared.options.syncs();
    let origin = origin(shared, job).filter(|_| may_outlive(job, proves));
    let (Some(origin), Some(size)) = (origin, size) else {
        return FileSink::create(path, anew, sync).await;
    };
    let begins = std::mem::take(&mut job.anew);
    let sink = match FileSink::resume(path, origin, sync).await {
        // Another process downloads to the same name.
        Err(error) if error.kind() == ErrorKind::Busy => {
            return FileSink::create(path, anew, sync).await;
        }
        // They could not be removed.
        Ok(sink) if begins && !sink.held().is_empty() => {
            return FileSink::create(path, anew, sync).await;
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
    let held = sink.held();
    // Also those that come again: a hole of the source is not written over them.
    job.recalled = !held.is_empty();
    job.held = resumable(held, size);
    if !proves {
        let again = ends(&job.held);
        again.iter().for_each(|range| job.held.remove(range));
        sink.expect_again(again);
    }
    let held = job.held.total();
    if held > 0 {
        shared.tell_continuing(job, held, size);
    }
    Ok(sink)
}

/// The bytes of a file that come again where no digest proves those before them: the end of each held
/// range, an eighth of it from 1 to 8 MiB.
fn ends(held: &RangeSet) -> RangeSet {
    let end = |range: Range64| {
        let again = (range.len() / 8).clamp(LAST, AGAIN).min(range.len());
        Range64::new(range.end() - again, range.end())
    };
    held.iter().filter_map(end).collect()
}

/// Removes the bytes of an earlier run, of which some came again and were others.
pub(in crate::copy) async fn begin_anew(shared: &CopyState, job: &mut FileJob, sink: FileSink) {
    let what = "the source has other bytes than an earlier run stored, and the same size and time";
    shared.warn(&format!(
        "{}: begun anew: {what}",
        shared.name_destination(job)
    ));
    sink.give_up();
    // The next attempt opens the name again.
    drop(tokio::task::spawn_blocking(|| drop(sink)).await);
    job.forget();
    (job.anew, job.left) = (true, true);
}

/// Has the directory of a download searched for old partial files at the end of the run.
pub(super) fn sweep_later(shared: &CopyState, job: &FileJob) {
    shared.sweep_later(match names::parent(&job.to) {
        b"" => b".",
        dir => dir,
    });
}

/// Removes the old partial files in the directories of this run's downloads, at its end: those that
/// it has gone on with are new.
pub(crate) async fn sweep(shared: &CopyState) {
    let dirs: Vec<_> = lock(&shared.swept).drain().collect();
    let until = Instant::now() + SWEEPING;
    for dir in dirs {
        match timeout_at(until, expire_in(local(&dir), OLD)).await {
            Ok(Ok(removed @ 1..)) => {
                let files = counted(removed, "partial file", "partial files");
                let dir = show(&dir);
                shared.note(&format!("{dir}: removed {files} older than a week"));
            }
            Ok(_) => {}
            // The next run has time for the others.
            Err(_) => break,
        }
    }
}

/// The bytes of a file of `size` bytes that another attempt need not move: those that are held, but
/// for the last ones where all are.
pub(crate) fn resumable(held: RangeSet, size: u64) -> RangeSet {
    let Some(all) = Range64::new(0, size) else {
        return RangeSet::new();
    };
    let mut held = held.clip(all);
    if let Some(last) = Range64::new(size.saturating_sub(LAST), size).filter(|_| held.covers(all)) {
        held.remove(last);
    }
    held
}

/// Says whether the bytes of a file are those of the source that its records name.
fn is_true(shared: &CopyState, job: &FileJob, sink: &FileSink) -> bool {
    let origin = origin(shared, job);
    !job.changed && origin.is_some() && origin.as_ref() == sink.origin()
}

/// The bytes that are held before a transfer, of a file that outlives the run.
pub(in crate::copy) fn before(
    shared: &CopyState,
    job: &FileJob,
    sink: &FileSink,
) -> Option<RangeSet> {
    is_true(shared, job, sink).then(|| {
        job.note_kept(sink.keeps());
        job.held.clone()
    })
}

/// The bytes on disk that a later run may go on with: the `held` ones, and those that are still to
/// come again, up to their ends. A later run compares the end of each range alone, which new bytes
/// behind them would be.
fn stored(held: &RangeSet, sink: &FileSink) -> RangeSet {
    let mut awaited = sink.expected();
    held.iter().for_each(|range| awaited.remove(range));
    let mut all = held.clone();
    all.extend(&awaited);
    let known = |range: Range64| {
        let first = awaited.clip(range).first();
        Range64::new(
            range.start(),
            first.map_or_else(|| range.end(), Range64::end),
        )
    };
    all.iter().filter_map(known).collect()
}

/// Has a tagged transfer go on with the bytes `held`, whose values the sink knows where they are those
/// `before` it, of a file that outlives the run.
pub(super) async fn go_on(
    (sink, watch): (&FileSink, &Watch),
    (held, before): (&RangeSet, Option<&RangeSet>),
    tag: Option<Tag>,
) {
    let proves = tag.is_some_and(|tag| tag.extent == Extent::Whole);
    let earlier = match before.filter(|_| proves) {
        Some(before) => Earlier::of_sink(sink, before).await,
        None => None,
    };
    if earlier.is_some() || !held.is_empty() {
        watch.go_on(earlier);
    }
}

/// Runs the transfer `work` to the `running` file, which held the bytes `before`, and records those that
/// arrive, at its [`Pace`]; with [`Resume::All`] each second.
pub(in crate::copy) async fn recorded<T>(
    shared: &CopyState,
    (running, before): (Option<Arc<RunningFile>>, Option<RangeSet>),
    (sink, watch): (&FileSink, &Watch),
    work: impl Future<Output = T>,
) -> T {
    let Some(before) = before else {
        return work.await;
    };
    let takes_any = shared.options.resume == Resume::All;
    let mut recorder = Recorder {
        running,
        pace: Pace::new(stored(&before, sink).total(), takes_any),
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
    running: Option<Arc<RunningFile>>,
    sink: &'a FileSink,
    watch: &'a Watch,
    /// Bytes held before the transfer.
    before: RangeSet,
    pace: Pace,
}

impl Recorder<'_> {
    async fn run(&mut self, shared: &CopyState) -> Infallible {
        loop {
            self.pace.look().await;
            let mut held = self.before.clone();
            held.extend(&self.watch.received());
            let held = stored(&held, self.sink);
            let bytes = held.total();
            // In this order: the values of all groups in those ranges are there.
            self.sink.note_groups(self.watch.take_groups());
            if !self.pace.begins(bytes) {
                continue;
            }
            // A local copy needs no sync here: a crash of the machine costs only another reading.
            match self.sink.checkpoint(&held, !shared.is_local()).await {
                Ok(()) => {
                    self.pace.recorded(bytes);
                    if let Some(running) = &self.running {
                        running.note_kept(true);
                    }
                }
                // The transfer itself tells what is wrong with the disk; this may pass.
                Err(error) => {
                    shared.note(&format!("the received bytes are not recorded: {error}"));
                }
            }
        }
    }
}

/// Records the held bytes of a file after a failed transfer, for another attempt or another run; says
/// whether no record tells otherwise.
pub(in crate::copy) async fn keep(shared: &CopyState, job: &FileJob, sink: &FileSink) -> bool {
    let held = stored(&job.held, sink);
    if held.is_empty() || !is_true(shared, job, sink) {
        return !sink.keeps();
    }
    let why = match timeout(KEEPING, sink.checkpoint(&held, true)).await {
        Ok(Ok(())) => {
            job.note_kept(true);
            return true;
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the disk does not answer".to_owned(),
    };
    shared.note(&format!("the received bytes are not kept: {why}"));
    false
}

/// Tells how much is kept of a download that has failed for good.
pub(crate) fn tell_kept(shared: &CopyState, job: &FileJob) {
    if job.sink.as_ref().is_some_and(FileSink::keeps) {
        shared.tell_kept(job);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use super::*;
    use crate::copy::job::Facts;
    use crate::copy::pull::land::open_sink;

    #[test]
    fn a_file_that_is_all_there_is_asked_for_its_end() {
        let size = 3 * LAST;
        assert_eq!(resumable(RangeSet::up_to(size), size).end(), size - LAST);
        assert_eq!(
            resumable(RangeSet::up_to(size + 9), size).end(),
            size - LAST
        );
        assert_eq!(resumable(RangeSet::up_to(LAST), size).end(), LAST);
        assert!(resumable(RangeSet::up_to(5), 5).is_empty());
        assert!(resumable(RangeSet::up_to(5), 0).is_empty());
    }

    #[test]
    fn an_eighth_of_what_is_held_comes_again() {
        for (held, again) in [(1, 1), (4, 1), (16, 2), (1000, 8)] {
            let ends = ends(&RangeSet::up_to(held << 20));
            let end = Range64::new((held - again) << 20, held << 20);
            assert_eq!(ends, end.into_iter().collect(), "{held}");
        }
        assert!(ends(&RangeSet::new()).is_empty());
        assert_eq!(ends(&RangeSet::up_to(5)), RangeSet::up_to(5));
    }

    #[tokio::test]
    async fn a_settled_source_needs_no_digest() {
        let dir = tempfile::tempdir().unwrap();
        let shared = CopyState::plain();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let now = i64::try_from(now.as_secs()).unwrap();
        for (modified, is_kept) in [
            (Some((now - 2 * SETTLED, 0)), true),
            (Some((now, 0)), false),
            (None, false),
        ] {
            let to = dir.path().join("to").into_os_string().into_encoded_bytes();
            let mut job = FileJob::new(b"/from".to_vec(), to).with_facts(Facts {
                size: Some(65 << 20),
                modified,
                mode: None,
            });
            let sink = open_sink(&shared, &mut job, false).await.unwrap();
            assert_eq!(sink.origin().is_some(), is_kept, "{modified:?}");
        }
    }

    #[tokio::test]
    async fn bytes_that_have_not_come_again_stay_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("to").into_os_string().into_encoded_bytes();
        let mut shared = CopyState::plain();
        shared.options.resume = Resume::All;
        let job = || {
            FileJob::new(b"/from".to_vec(), to.clone()).with_facts(Facts {
                size: Some(8 << 20),
                modified: Some((1, 0)),
                mode: None,
            })
        };
        let mut first = job();
        let sink = open_sink(&shared, &mut first, false).await.unwrap();
        sink.write_at(0, vec![1_u8; 4 << 20].into()).await.unwrap();
        first.held = RangeSet::up_to(4 << 20);
        assert!(keep(&shared, &first, &sink).await);
        drop((first, sink));
        for _ in 0..2 {
            let mut next = job();
            let sink = open_sink(&shared, &mut next, false).await.unwrap();
            assert_eq!(next.held, RangeSet::up_to(3 << 20));
            // Bytes behind those that have yet to come again.
            let behind = sink.write_at(4 << 20, vec![2_u8; 1 << 20].into());
            behind.await.unwrap();
            next.held.extend(Range64::new(4 << 20, 5 << 20));
            assert!(keep(&shared, &next, &sink).await);
        }
        // As where they could not be removed.
        let mut anew = job();
        anew.anew = true;
        let sink = open_sink(&shared, &mut anew, false).await.unwrap();
        assert!(anew.held.is_empty() && sink.held().is_empty());
        drop(sink);
        let mut last = job();
        let sink = open_sink(&shared, &mut last, false).await.unwrap();
        let other = sink.write_at(3 << 20, vec![2_u8; 1 << 20].into()).await;
        assert!(other.is_err() && sink.differs());
        begin_anew(&shared, &mut last, sink).await;
        let sink = open_sink(&shared, &mut last, false).await.unwrap();
        assert!(last.held.is_empty() && sink.held().is_empty());
    }

    #[tokio::test]
    async fn a_small_file_that_is_all_there_needs_a_proof() {
        let dir = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| dir.path().join(name));
        std::fs::write(&from, b"bytes").unwrap();
        let [from, to] = [from, to].map(|path| path.into_os_string().into_encoded_bytes());
        let mut shared = CopyState::plain();
        shared.options.resume = Resume::All;
        let job = || {
            FileJob::new(from.clone(), to.clone()).with_facts(Facts {
                size: Some(5),
                modified: Some((1, 0)),
                mode: None,
            })
        };
        let mut first = job();
        let sink = open_sink(&shared, &mut first, true).await.unwrap();
        assert!(!first.recalled);
        let unfinished = |job: &mut FileJob, sink: &FileSink| {
            shared.show(job, 0, Weak::new());
            before(&shared, job, sink).unwrap();
            shared.totals.running.break_off();
            let unfinished = shared.totals.unfinished();
            [unfinished.kept, unfinished.lost]
        };
        assert_eq!(unfinished(&mut first, &sink), [0, 1]);
        sink.write_at(0, b"bytes".as_slice().into()).await.unwrap();
        first.held = RangeSet::up_to(5);
        assert!(keep(&shared, &first, &sink).await);
        shared.totals.running.break_off();
        assert_eq!(shared.totals.unfinished().kept, 1);
        drop((first, sink));
        let mut next = job();
        let sink = open_sink(&shared, &mut next, true).await.unwrap();
        assert!(next.held.is_empty() && next.recalled);
        assert_eq!(unfinished(&mut next, &sink), [1, 0]);
    }
}
