//! Copies: many files over several connections, each pipelined, retried and checked.

mod admission;
mod algorithm;
mod attributes;
mod digests;
mod dir_attributes;
mod dirs;
mod done_record;
mod ending;
mod engine;
mod facts_query;
mod hidden;
mod inlet;
mod inventory;
mod job;
mod kept;
mod known;
mod links;
mod listing;
mod local;
mod making;
mod named;
pub(crate) mod notes;
mod outage;
mod outlive;
mod pipeline;
mod plan;
mod pull;
mod push;
mod queue;
mod reach;
mod read_back;
mod receipts;
mod resolve;
mod roots;
mod run_record;
mod same;
mod small;
mod source;
mod source_roots;
mod spool;
mod state;
mod stdio;
mod surplus;
mod targets;
mod third;
mod third_party;
mod trees;
mod tuning;
mod waits;
mod watched;
mod web;
mod widths;
mod window;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Class, ControlError, TransferError};
use crate::explain::{Explanation, Tuned};
use crate::options::{CopyOptions, RateLimit};
use crate::progress::{Counts, Observer, Totals};
use crate::transfer::{Failure, SessionState};
use crate::url::Location;
use tokio::task::JoinSet;

use done_record::DoneRecord;
pub(crate) use engine::connect_to;
pub(crate) use job::Facts;
pub(crate) use kept::Digest;
pub(crate) use listing::Lines;
pub(crate) use same::within;
pub(crate) use surplus::is_below;
use watched::BrokenOff;

/// Why work on a connection stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The data channel is of no use any more; the session is.
    Channel,
    /// The session has to be replaced; the failure has been told.
    Replace,
    /// The server cannot connect to us.
    Unreachable {
        /// The reply or the fact that tells it.
        fact: String,
        /// Whether the session still replies.
        session: bool,
    },
    /// The session ended.
    Lost(TransferError),
    /// Nothing can be copied this way.
    Fatal(TransferError),
}

impl Stop {
    /// The reason to stop that a failed transfer leaves; `None` where the next can follow.
    fn of(failure: Failure) -> Option<Self> {
        match failure.session {
            SessionState::Reusable => None,
            SessionState::ChannelBroken => Some(Self::Channel),
            SessionState::Left | SessionState::Unanswered => Some(Self::Replace),
            SessionState::Lost => Some(Self::Lost(failure.error)),
        }
    }

    /// No digest can be compared, unless it is only that the session ended over the question.
    fn of_digest(error: TransferError) -> Self {
        match error.is_gone() {
            true => Self::Lost(error),
            false => Self::Fatal(error),
        }
    }

    /// The server refused to connect to us, or could not.
    fn unreachable(error: &ControlError) -> Self {
        Self::Unreachable {
            fact: error.to_string(),
            session: true,
        }
    }

    /// The channel that the server was to connect to us for could not be set up.
    fn of_set_up(error: ControlError) -> Self {
        match error {
            ControlError::Refused { .. } => Self::unreachable(&error),
            error => Self::Lost(error.into()),
        }
    }
}

/// The warning about uploads that are to be synced, to a server without `DURABLE`.
const MAY_NOT_SYNC: &str =
    "the server does not tell that it syncs uploads to the medium (DURABLE in FEAT)";

/// The warning about holes, which are left by the end that writes, in uploads.
const NO_HOLES: &str = "--sparse is for files written here and has no effect on uploads; a \
                        gridftp-server leaves holes by its storage posix:sparse=yes";

/// Nothing panics in the middle of a change.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs work that may wait for a disk on a thread for such.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(std::io::Error::other)?
}

/// The outcome of a copy.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// Files and bytes.
    pub counts: Counts,
    /// Its duration.
    pub took: Duration,
    /// The class of the failures, if there were any.
    pub failed: Option<Class>,
    /// Where the time went, with [`CopyOptions::explain`]; `None` of a copy of less than a second,
    /// between two servers without `SITE WAITS`, or on this machine.
    pub explanation: Option<Explanation>,
    /// The numbers of streams and files that served best, of a copy that was long enough to be
    /// measured on a path of 2 ms or more.
    pub tuned: Option<Tuned>,
}

/// Copies `sources` to `destination`, each a place at a server or on this machine; standard input is
/// not copied to standard output.
///
/// Failures of single files are told to `observer` and counted; the others are still copied.
/// Downloads are published whole or not at all. `totals` may be read meanwhile.
///
/// # Errors
/// When nothing can be copied: a request that makes no sense, or a server that cannot be used.
///
/// # Cancel safety
/// Dropping the future closes every connection. Files that were not published are removed;
/// servers keep or discard theirs by their own rules, and those that may be left in part under their
/// own names are told to `observer` ([`Event::Incomplete`](crate::Event::Incomplete)). [`Totals::unfinished`]
/// tells with how many files the same copy goes on.
pub async fn copy(
    sources: &[Location],
    destination: &Location,
    mut options: CopyOptions,
    observer: Arc<dyn Observer>,
    totals: Arc<Totals>,
) -> Result<Summary, TransferError> {
    let begun = Instant::now();
    if options.polite {
        let limit = &mut options.connect.rate_limit;
        *limit = Some(match limit.take() {
            Some(bound) => bound.of_polite_copy(),
            None => RateLimit::of_polite_copy_alone(),
        });
    }
    // Ends with this call.
    let mut looking = JoinSet::new();
    if options.explain {
        totals.samples.limit(options.connect.rate_limit.clone());
        let totals = Arc::clone(&totals);
        looking.spawn(async move { totals.sample().await });
    }
    let done = DoneRecord::of_run(sources, destination, &options).await;
    let is_dry = options.dry_run;
    let run = (options, done.clone());
    let mut run = Box::pin(resolve::run(sources, destination, run, &observer, &totals));
    // Dropped before the run, and with it the files.
    let _broken_off = BrokenOff {
        totals: &totals,
        observer: &*observer,
    };
    let ended = run.as_mut().await;
    if let Some(done) = done {
        match ended {
            Ok(None) if !is_dry => done.remove().await,
            _ => done.keep().await,
        }
    }
    let failed = ended?;
    totals.all_found();
    Ok(Summary {
        counts: totals.counts(),
        took: begun.elapsed(),
        failed,
        explanation: totals.explanation(),
        tuned: *lock(&totals.tuned),
    })
}
