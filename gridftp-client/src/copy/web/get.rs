//! From a web server to this machine: a broken transfer goes on behind the stored bytes, in a later
//! run too.

use std::sync::{Arc, Weak};

use byte_ranges::{Range64, RangeSet};
use gridftp_data::Watch;
use gridftp_dsi::Sink as _;
use gridftp_dsi_posix::FileSink;
use gridftp_dsi_posix::checksum::Hasher;

use super::no_parts;
use crate::copy::job::FileJob;
use crate::copy::outlive::leaves_bytes;
use crate::copy::pull::land::{Digests, land, open_sink, whole};
use crate::copy::pull::{admit, resume};
use crate::copy::queue::Taken;
use crate::copy::state::CopyState;
use crate::copy::tuning::Worker;
use crate::error::TransferError;
use crate::options::Verify;
use crate::web::{Answer, Head, Part, WebError};

/// Requests for one attempt, of which the last ones are for a file that changes.
const REQUESTS: usize = 4;

/// The server does not have the bytes that were asked for.
const OUT_OF_RANGE: u16 = 416;

/// The reason to begin a file anew.
const CHANGED: &str = "the source has changed since its first bytes came";

/// Copies from the queue until nothing is left.
pub(super) async fn run(worker: &Worker) {
    let shared = &worker.shared;
    while !worker.leaves()
        && let Some(taken) = shared.queue.next(|_| true).await
    {
        Box::pin(copy(shared, taken)).await;
    }
}

/// Copies a file.
async fn copy(shared: &Arc<CopyState>, taken: Taken) {
    let Some(mut taken) = admit(shared, taken, None).await else {
        return;
    };
    if shared.carries_attributes() {
        shared.warn_unkept("a web server");
    }
    let job = taken.file_mut();
    shared.start(job);
    let (mut answer, sink) = match open(shared, job).await {
        Ok(opened) => opened,
        Err(error) => return shared.fail(taken, &error),
    };
    match receive(shared, job, (&mut answer, &sink)).await {
        Ok(digests) => {
            let size = job.held.end();
            land(shared, (taken, sink), size, digests, Ok(Vec::new())).await;
        }
        // The file is queued again, without a failed attempt.
        Err(_) if sink.differs() => resume::begin_anew(shared, job, sink).await,
        Err(error) => {
            if leaves_bytes(&error) {
                resume::keep(shared, job, &sink).await;
            }
            job.sink = Some(sink);
            shared.fail(taken, &error);
        }
    }
}

/// Asks for the bytes that are not held, and opens the file for them.
async fn open(shared: &CopyState, job: &mut FileJob) -> Result<(Answer, FileSink), TransferError> {
    for _ in 0..REQUESTS {
        if job.sink.is_none() || job.validator.is_none() {
            job.forget();
        }
        let held = job.held.first_hole();
        job.held = RangeSet::up_to(held);
        if held == 0 {
            // Any version will do.
            job.validator = None;
        }
        let begin = shared.options.offset.unwrap_or(0).saturating_add(held);
        let answer = match shared.ask_web(job, begin).await {
            Err(TransferError::Web(WebError::Refused { status, .. }))
                if held > 0 && status == OUT_OF_RANGE =>
            {
                begin_anew(shared, job, CHANGED);
                continue;
            }
            answer => answer?,
        };
        if held > 0 {
            match answer.head.part(begin, &job.facts, job.validator.as_ref()) {
                Part::Rest => {
                    if job.facts.size.is_none() {
                        shared.update(job, Some(answer.head.facts));
                    }
                    let sink = open_sink(shared, job, true).await?;
                    return Ok((answer, sink));
                }
                Part::All if answer.head.validator == job.validator => {
                    begin_anew(shared, job, "the web server sends no parts of it");
                }
                Part::All | Part::Other => begin_anew(shared, job, CHANGED),
            }
            continue;
        }
        if !answer.head.begins_at(begin) {
            return Err(no_parts(answer, begin));
        }
        // The word of before may be old, and the copy is to have the facts of the file that is read.
        shared.update(job, Some(answer.head.facts));
        job.validator.clone_from(&answer.head.validator);
        let sink = open_sink(shared, job, Head::is_tagged(job.validator.as_ref())).await?;
        if job.held.is_empty() {
            return Ok((answer, sink));
        }
        // An earlier run has stored the first ones.
        job.sink = Some(sink);
    }
    let path = shared.name_source(job);
    Err(TransferError::Changed { path })
}

fn begin_anew(shared: &CopyState, job: &mut FileJob, why: &str) {
    job.forget();
    shared.warn(&format!(
        "{}: begun anew: {why}",
        shared.name_destination(job)
    ));
}

/// Receives the bytes that are not held.
async fn receive(
    shared: &CopyState,
    job: &mut FileJob,
    (answer, sink): (&mut Answer, &FileSink),
) -> Result<Digests, TransferError> {
    let source = shared.web_digest(answer)?;
    let held = job.held.first_hole();
    let hashed = source.as_ref().filter(|_| held == 0);
    let mut hasher = hashed.and_then(|(algorithm, _)| Hasher::new(*algorithm));
    let watch = Watch::new();
    shared.show(job, held, Weak::new());
    let before = resume::before(shared, job, sink);
    let running = job.running.clone();
    let work = move_bytes(shared, job, (answer, sink), &watch, &mut hasher);
    let moved = resume::recorded(shared, (running, before), (sink, &watch), work).await;
    let received = watch.received();
    job.counted = job.counted.saturating_add(received.total());
    job.held.extend(&received);
    moved?;
    whole(shared, job)?;
    let passed = hasher.map(Hasher::finish);
    let is_same = source.as_ref().map(|(_, told)| told) == passed.as_ref();
    Ok(Digests {
        // What was hashed on its way is not read again; where it does not agree, all of it is.
        is_read: source.is_some() && (!is_same || shared.options.verify == Verify::Disk),
        source,
        proven: None,
    })
}

/// Writes the bytes that come.
async fn move_bytes(
    shared: &CopyState,
    job: &FileJob,
    (answer, sink): (&mut Answer, &FileSink),
    watch: &Watch,
    hasher: &mut Option<Hasher>,
) -> Result<(), TransferError> {
    let offset = shared.options.offset.unwrap_or(0);
    let most = shared.expected(job).or(shared.options.length);
    let most = most.unwrap_or(u64::MAX);
    let mut at = job.held.first_hole();
    loop {
        let piece = answer.piece(most.saturating_sub(at)).await?;
        let Some(range) = Range64::from_len(at, piece.len() as u64) else {
            return Ok(());
        };
        if let Some(hasher) = hasher {
            hasher.update(&piece);
        }
        shared.limit(piece.len()).await;
        let written = sink
            .write_at(offset.saturating_add(at), piece.freeze())
            .await;
        written.map_err(|error| TransferError::local("write", &job.to, error))?;
        shared.count(job, range.len());
        // They are one range.
        let _few = watch.record(&std::iter::once(range).collect());
        at = range.end();
    }
}
