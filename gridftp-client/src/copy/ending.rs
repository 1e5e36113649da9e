//! The end of an attempt at a job: it is done, left out, tried again or given up.

use std::time::{Duration, Instant};

use super::job::{Facts, FileJob, Item};
use super::kept::Digest;
use super::outlive::leaves_bytes;
use super::pull::tell_kept;
use super::queue::Taken;
use super::state::CopyState;
use super::{Stop, lock};
use crate::control::Control;
use crate::error::{Class, TransferError};
use crate::names;
use crate::progress::{Event, UNTRIED, Verification};
use crate::transfer::{Failure, SessionState};
use crate::url::url_path;

/// The outcome of a job that did not fail.
#[derive(Debug, Clone, Default)]
pub(crate) struct Success {
    pub(crate) bytes: u64,
    pub(crate) verified: Option<Digest>,
    /// Whether both ends have told the same size.
    pub(crate) sized: bool,
    /// The facts that the destination tells of it, where they are known.
    pub(crate) there: Option<Facts>,
}

impl Success {
    fn verification(&self) -> Verification {
        match (&self.verified, self.sized) {
            (Some(_), _) => Verification::Digest,
            (None, true) => Verification::Size,
            (None, false) => Verification::None,
        }
    }
}

impl CopyState {
    /// Ends a job well.
    pub(crate) fn succeed(&self, taken: Taken, success: &Success) {
        taken.done(|item| {
            let Item::File(mut job) = item else {
                return;
            };
            self.totals.done();
            self.totals.ended(job.found, job.counted);
            self.record_done(&job, success.there);
            let (source, destination) = (self.name_source(&job), self.name_destination(&job));
            job.forget_note();
            let took = job.started.map(|at| at.elapsed()).unwrap_or_default();
            let verification = success.verification();
            // There is nothing in an empty file that a digest could prove.
            if success.bytes > 0 {
                self.tell_undigested(verification);
            }
            let verified = success
                .verified
                .as_ref()
                .map(|(a, d)| (a.name(), d.as_str()));
            self.observer.event(&Event::Finished {
                source: &source,
                destination: &destination,
                bytes: success.bytes,
                stripes: &job.stripes.told(),
                took,
                retries: job.retries,
                verification,
                verified,
                relayed: job.relayed,
            });
        });
    }

    /// Leaves a file out on purpose.
    pub(crate) fn skip(&self, taken: Taken, why: &str) {
        taken.done(|item| {
            let Item::File(job) = item else {
                return;
            };
            self.totals.ended(job.found, job.counted);
            self.totals.skipped();
            self.tell_skipped(&job, why);
        });
    }

    /// Leaves a file with an equal copy out: `why` tells the proof.
    pub(crate) fn leave_same(&self, taken: Taken, why: &str) {
        taken.done(|item| {
            let Item::File(job) = item else {
                return;
            };
            self.totals.same();
            self.totals.ended(job.found, job.counted);
            self.tell_skipped(&job, why);
        });
    }

    /// Leaves a source out on purpose that was not counted before.
    pub(crate) fn leave_out(&self, source: &str, why: &str) {
        self.totals.found(None);
        self.totals.skipped();
        self.tell_left((source, None), why);
    }

    fn tell_skipped(&self, job: &FileJob, why: &str) {
        let (source, destination) = (self.name_source(job), self.name_destination(job));
        self.tell_left((&source, Some(&destination)), why);
    }

    /// Tells that a file or a link is left as it is.
    pub(super) fn tell_left(&self, (source, destination): (&str, Option<&str>), why: &str) {
        self.observer.event(&Event::Skipped {
            source,
            destination,
            why,
        });
    }

    /// Notes a failed attempt; the job is tried again after a pause when that may help.
    pub(crate) fn fail(&self, taken: Taken, error: &TransferError) {
        self.settle_failure(taken, error, error.is_transient());
    }

    /// As [`fail`](Self::fail), of a transfer; gives the reason to stop where the session, or its
    /// data channel, is of no more use.
    pub(crate) fn fail_transfer(&self, mut taken: Taken, failure: Failure) -> Result<(), Stop> {
        if failure.session == SessionState::Left {
            if let Item::File(job) = taken.item_mut() {
                job.stripes.begin();
                job.left = true;
            }
            // The file is queued again, without a failed attempt.
            return Err(Stop::Replace);
        }
        self.settle_failure(taken, &failure.error, failure.is_transient());
        Stop::of(failure).map_or(Ok(()), Err)
    }

    /// Ends an attempt without a data channel; a refusal leaves the session to the next item.
    pub(crate) fn fail_set_up(
        &self,
        control: &Control,
        taken: Taken,
        error: TransferError,
    ) -> Result<(), Stop> {
        if self.is_left_without_channel(control, &error) {
            return self.fail_transfer(taken, Failure::left());
        }
        if error.reply().is_none() {
            return Err(Stop::Lost(error));
        }
        self.fail(taken, &error);
        Ok(())
    }

    fn settle_failure(&self, mut taken: Taken, error: &TransferError, again: bool) {
        if let Item::File(job) = taken.item()
            && self.options.no_clobber
            && error.is_taken()
            && (job.exclusive || matches!(error, TransferError::Local { .. }))
            && !job.placed
        {
            return self.skip(taken, "it exists");
        }
        let (failures, since) = match taken.item_mut() {
            Item::File(job) => {
                job.note_failure(Instant::now());
                // A short file keeps its bytes: the next attempt asks first whether the source is
                // still the same.
                match error {
                    TransferError::Size { expected, got, .. } if got < expected => {}
                    TransferError::Size { .. }
                    | TransferError::Changed { .. }
                    | TransferError::Unset { .. } => job.forget(),
                    error if error.is_corrupt() => job.forget_different(),
                    _ => {}
                }
                (job.failures, job.failed_first)
            }
            Item::Dir(job) => {
                job.failures += 1;
                (job.failures, None)
            }
        };
        let since = since.map(|at| at.elapsed()).unwrap_or_default();
        if again && self.options.goes_on(failures, since, error.is_gone()) {
            self.observer.event(&Event::Retrying {
                source: &self.name_item(taken.item()),
                error,
                attempt: failures,
            });
            let pause = match taken.item() {
                Item::File(job) if job.resumes_at_once() => Duration::ZERO,
                _ => self.options.pause(failures).max(error.asked_pause()),
            };
            if let Item::File(job) = taken.item() {
                job.pause();
            }
            let queue = self.queue.clone();
            tokio::spawn(async move {
                queue.sleep(pause).await;
                drop(taken);
            });
            return;
        }
        taken.done(|item| self.end_for_good(item, error));
    }

    /// Ends an item that has failed for good, and tells what is kept of it.
    pub(super) fn end_for_good(&self, mut item: Item, error: &TransferError) {
        self.give_up_item(&item, error);
        if let Item::File(job) = &mut item {
            match &self.destination {
                Some(_) => self.keep_upload(job, error),
                None => tell_kept(self, job),
            }
        }
    }

    /// Counts and tells the failure of an item for good, and the part of it that may be left.
    pub(crate) fn give_up_item(&self, item: &Item, error: &TransferError) {
        let name = self.name_item(item);
        match item {
            Item::File(job) => {
                self.totals.ended(job.found, job.counted);
                let destination = self.name_destination(job);
                let below = self.below(&job.from, &job.to);
                self.end_failed((name.as_str(), Some(destination.as_str())), below, error);
                if !leaves_bytes(error) {
                    job.leaves_no_part();
                }
                self.tell_incomplete(job);
            }
            // Directories count only where they fail.
            Item::Dir(job) => self.give_up_found(&name, self.below_root(&job.to), error),
        }
    }

    /// Leaves out an item that is not copied since another has failed.
    pub(crate) fn leave_untried(&self, item: &Item) {
        if let Item::File(job) = item {
            self.totals.ended(job.found, job.counted);
            self.totals.skipped();
            self.tell_skipped(job, UNTRIED);
            self.tell_incomplete(job);
        }
    }

    /// The name of a file below the destination, or its own where it is copied to another.
    pub(crate) fn below<'a>(&self, from: &'a [u8], to: &'a [u8]) -> &'a [u8] {
        match to == self.root {
            // A query is no part of the name.
            true if self.is_of_web() => names::last(url_path(from)),
            true => names::last(from),
            false => self.below_root(to),
        }
    }

    /// The path of an object of the destination below that.
    pub(crate) fn below_root<'a>(&self, path: &'a [u8]) -> &'a [u8] {
        let below = path
            .strip_prefix(&*self.root)
            .unwrap_or_else(|| names::last(path));
        below.strip_prefix(b"/").unwrap_or(below)
    }

    /// As [`give_up`](Self::give_up), of a source that was not counted before.
    pub(crate) fn give_up_found(&self, source: &str, name: &[u8], error: &TransferError) {
        self.totals.found(None);
        self.give_up(source, name, error);
    }

    /// Counts and tells a failure for good, of an object with this name below the destination.
    pub(crate) fn give_up(&self, source: &str, name: &[u8], error: &TransferError) {
        self.end_failed((source, None), name, error);
    }

    /// As [`give_up`](Self::give_up), of a file or a link with a known source and destination.
    pub(super) fn end_failed(
        &self,
        (source, destination): (&str, Option<&str>),
        name: &[u8],
        error: &TransferError,
    ) {
        if self.options.fail_fast {
            self.stopped.cancel();
        }
        self.totals.failed();
        let mut worst = lock(&self.worst);
        let class = error.class();
        if !matches!(*worst, Some(Class::Verify)) && (worst.is_none() || class == Class::Verify) {
            *worst = Some(class);
        }
        drop(worst);
        self.observer.event(&Event::Failed {
            source,
            destination,
            name,
            error,
        });
    }

    /// The class of the failures, if there were any; a copy that differs outweighs the others.
    pub(crate) fn worst(&self) -> Option<Class> {
        *lock(&self.worst)
    }
}
