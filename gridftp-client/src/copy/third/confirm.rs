//! Both servers' word on each file, and the check of the copy.

use std::future::pending;
use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};

use ftp_wire::command::{Command, Mode};
use ftp_wire::marker::Marker;
use ftp_wire::path::FtpPath;
use ftp_wire::receipt::Receipt;
use ftp_wire::reply::Reply;
use gridftp_data::Watch;
use gridftp_dsi::types::ChecksumAlgorithm;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::growth::Beside;
use super::{Moving, Pair};
use crate::control::Replies;
use crate::copy::Stop;
use crate::copy::attributes::must_fit;
use crate::copy::digests::DigestQuery;
use crate::copy::ending::Success;
use crate::copy::facts_query::FactsQuery;
use crate::copy::hidden::Hidden;
use crate::copy::job::{Facts, FileJob, Words};
use crate::copy::kept::{Digest, is_busy, judge};
use crate::copy::queue::Taken;
use crate::copy::waits::follow;
use crate::copy::window::UnderWay;
use crate::error::{ControlError, TransferError, lacks_channel};
use crate::explain::Way;
use crate::transfer::{ACCOUNT, Failure, SessionState};
use crate::verify;

/// The next step of a file.
pub(super) enum Step<T> {
    Transfer(Box<T>),
    /// Its copy is to be checked: the sessions before ended over that.
    Check(Taken, UnderWay),
}

impl<T> Step<T> {
    pub(super) fn transfer(of: T) -> Self {
        Self::Transfer(Box::new(of))
    }
}

/// A file that both ends say is copied, to be checked.
pub(super) struct Copied {
    pub(super) taken: Taken,
    pub(super) words: Words,
    /// The digest of all its bytes, where they passed this machine.
    pub(super) passed: Option<Digest>,
    pub(super) _under_way: UnderWay,
}

/// A copy that is whole.
#[derive(Debug)]
pub(super) struct Checked {
    /// The digest on which both ends agree.
    verified: Option<Digest>,
    /// Whether they agree on the size.
    sized: bool,
    /// Whether it has the attributes, the time and the mode of its source; its facts, where known.
    set: Result<Option<Facts>, TransferError>,
}

/// The word of one end on a transfer: its receipt, where the transfer was tagged.
type Word = Result<Option<Receipt>, ControlError>;

impl Pair<'_> {
    /// Waits for both servers' word on each file, and checks the copies.
    ///
    /// Digests come behind the transfers that were asked for before, of which one may hang that the
    /// destination has refused: once the files are out of step they are not waited for.
    pub(super) async fn confirm_all(
        &self,
        moved: mpsc::Receiver<Step<Moving>>,
        broken: &CancellationToken,
    ) -> Result<(), Stop> {
        // Bounded by the window, which the files hold.
        let (copied, mut settling) = mpsc::unbounded_channel();
        let confirm = async {
            let ended = self.confirm_each(moved, copied).await;
            if ended.is_err() {
                broken.cancel();
            }
            ended
        };
        let settle = async {
            while let Some(file) = settling.recv().await {
                self.settle(file, broken).await;
            }
        };
        tokio::join!(confirm, settle).0
    }

    /// Waits for both servers' word on each file; gives those that were `copied`.
    async fn confirm_each(
        &self,
        mut moved: mpsc::Receiver<Step<Moving>>,
        copied: mpsc::UnboundedSender<Copied>,
    ) -> Result<(), Stop> {
        let left = &self.source.left;
        loop {
            let Some(next) = left.run_until_cancelled(moved.recv()).await else {
                // The files that no data has come of go back.
                return Err(Stop::Replace);
            };
            let mut file = match next {
                None => break,
                Some(Step::Transfer(file)) => *file,
                Some(Step::Check(mut taken, under_way)) => {
                    if let Some(words) = taken.file_mut().words.take() {
                        let _gone = copied.send(Copied {
                            taken,
                            words,
                            passed: None,
                            _under_way: under_way,
                        });
                    }
                    continue;
                }
            };
            let Err(failure) = self.confirm_one(&mut file).await else {
                self.shared.note_third_party_works();
                let _gone = copied.send(Copied {
                    taken: file.taken,
                    words: Words {
                        after: file.after,
                        sized: file.tagged,
                        proven: file.proven,
                    },
                    passed: None,
                    _under_way: file.under_way,
                });
                continue;
            };
            let refused = failure.session == SessionState::Reusable && !file.store.has_begun();
            let job = file.taken.file_mut();
            let busy = is_busy(failure.error.reply(), job.failures, &self.shared.options);
            if refused && file.resumes && !busy {
                // It may have been refused for the bytes that it was to go on with.
                job.anew = true;
                job.forget();
            }
            // Whatever follows on connections out of step cannot be told apart any more, not even
            // by servers that call it well: it is copied again.
            self.fail(file.taken, failure)?;
        }
        Ok(())
    }

    /// Waits for both ends and keeps both words; one that failed gives the other a moment. The
    /// session is reusable where the files behind are in step all the same.
    pub(super) async fn confirm_one(&self, file: &mut Moving) -> Result<(), Failure> {
        let job = file.taken.file();
        let copy = self.shared.name_destination(job);
        // A bad copy is removed also where the sessions are left behind both words.
        let words = Box::pin(self.words(file));
        let Some((source, destination)) = self.source.left.run_until_cancelled(words).await else {
            return Err(Failure::left());
        };
        if let Some(Err(error)) = &destination {
            file.taken.file_mut().note_unplaced(Some(error));
        }
        let Moving {
            taken: item,
            announced,
            store,
            tagged,
            after,
            resumes,
            proven,
            ..
        } = file;
        match (source, destination) {
            (Some(Ok(sent)), Some(Ok(taken))) if *tagged => {
                let receipts = [sent.as_ref(), taken.as_ref()];
                let ends = &[self.abilities.0, self.abilities.1];
                let judged = (self.shared).judge_receipts(receipts, ends, store, || copy);
                match judged {
                    Ok(proof) => {
                        *after = after.or(proof.beside);
                        *proven = proof.digest;
                        Ok(())
                    }
                    Err(error) => {
                        let job = item.file_mut();
                        self.shared.remove_bad(self.destination, job, &error).await;
                        Err(out_of_step(error))
                    }
                }
            }
            (Some(Ok(_)), Some(Ok(_))) => Ok(()),
            (Some(Err(source)), Some(Err(destination))) => {
                let destination = judge(destination.into(), announced.as_ref(), || copy);
                let error = TransferError::Both {
                    source: Box::new(source.into()),
                    destination: Box::new(destination),
                };
                Err(out_of_step(error))
            }
            (Some(Err(error)), _) => Err(out_of_step(error.into())),
            (source, Some(Err(error))) => {
                // The source has sent data that nobody took, and the next file has a tag of its
                // own.
                let refused = matches!(error, ControlError::Refused { .. });
                let is_next = *tagged && self.mode == Mode::Extended;
                let in_step = is_next && source.is_some() && refused && !lacks_channel(&error);
                let error = judge(error.into(), announced.as_ref(), || copy);
                if !in_step {
                    return Err(out_of_step(error));
                }
                Err(Failure {
                    error,
                    session: SessionState::Reusable,
                    midway: store.has_begun() || *resumes,
                })
            }
            (None, Some(Ok(_)) | None) | (Some(Ok(_)), None) => {
                unreachable!("only the end beside one that failed has no word")
            }
        }
    }

    /// Waits for both ends; one that says nothing in time beside one that failed has no word.
    async fn words(&self, file: &mut Moving) -> (Option<Word>, Option<Word>) {
        let Moving {
            taken,
            retrieve,
            store,
            ..
        } = file;
        let job = taken.file();
        // All of it would come again over another stack.
        if job.facts.modified.is_none() {
            self.shared.tuning.stay();
        }
        let (told, first) = (AtomicU64::new(0), job.held.total());
        let data = self.shared.watch(Way::Between);
        if store.has_begun() {
            data.open(false);
        }
        let beside = Beside::of(self.shared, job);
        let growth = async {
            match beside {
                Some(beside) => self.watch(&told, first, beside).await,
                None => pending().await,
            }
        };
        {
            let stored = self.markers(taken, store, (&told, first, &data));
            let retrieved = async {
                let told = |reply: &Reply| follow(&data, reply);
                let reply = retrieve.finish_with(told).await?;
                Ok(Receipt::parse(&reply.text()))
            };
            tokio::pin!(stored, retrieved, growth);
            let words = async {
                tokio::select! {
                    source = &mut retrieved => match source {
                        Ok(sent) => (Some(Ok(sent)), Some(stored.await)),
                        Err(error) => {
                            let account = self.account(&error, stored, &data).await;
                            (Some(Err(error)), account)
                        }
                    },
                    destination = &mut stored => match destination {
                        Ok(taken) => (Some(retrieved.await), Some(Ok(taken))),
                        Err(error) => (timeout(ACCOUNT, retrieved).await.ok(), Some(Err(error))),
                    },
                }
            };
            let words = tokio::select! {
                words = words => words,
                never = growth => match never {},
            };
            self.shared.tuning.note_end(&data);
            words
        }
    }

    async fn markers(
        &self,
        taken: &mut Taken,
        store: &mut Replies,
        (told, held, data): (&AtomicU64, u64, &Watch),
    ) -> Result<Option<Receipt>, ControlError> {
        let mut is_shown = store.has_begun();
        if is_shown {
            self.shared.show(taken.file_mut(), held, Weak::new());
        }
        let note = |reply: &Reply| {
            data.open(false);
            let job = taken.file_mut();
            if !std::mem::replace(&mut is_shown, true) {
                self.shared.show(job, held, Weak::new());
            }
            match Marker::from_reply(reply) {
                Some(Ok(Marker::Restart(ranges))) => job.hold(&ranges),
                Some(Ok(Marker::Perf(perf))) => {
                    let bytes = job.stripes.note(&perf);
                    self.shared.note_moved(job, bytes);
                    let before = told.fetch_max(bytes, Ordering::Relaxed);
                    self.shared.totals.moved(bytes.saturating_sub(before));
                    self.source.moved();
                }
                _ => {}
            }
        };
        let receipt = Receipt::parse(&store.finish_with(note).await?.text());
        let told = told.load(Ordering::Relaxed);
        let bytes = self.shared.expected(taken.file()).unwrap_or(told);
        self.shared.totals.moved(bytes.saturating_sub(told));
        let job = taken.file();
        self.shared.note_moved(job, bytes.saturating_sub(held));
        Ok(receipt)
    }

    /// Checks a copy and gives it its times and modes. Where the check is `broken` off, or a session
    /// ends over it, the next sessions begin with it.
    pub(super) async fn settle(&self, file: Copied, broken: &CancellationToken) {
        let shared = self.shared;
        let Copied {
            mut taken,
            words,
            passed,
            _under_way,
        } = file;
        let (after, told, proven) = (words.after, words.sized, words.proven.clone());
        taken.file_mut().words = Some(words);
        let job = taken.file();
        job.leaves_no_part();
        let bytes = shared.expected(job).unwrap_or(0);
        let hidden = job.hidden.clone().zip(FtpPath::new(job.to.clone()));
        let source = (self.source, self.abilities.0);
        let destination = (self.destination, self.abilities.1);
        let optional = match &passed {
            _ if told || job.facts.size == Some(0) => None,
            Some((algorithm, _)) => Some(*algorithm),
            None => shared.without_receipt(&[source, destination]),
        };
        let checked = self.check(job, after, optional, passed);
        let Some(checked) = broken.run_until_cancelled(checked).await else {
            return;
        };
        // A session that ended over the check has told nothing of the copy: the next asks again.
        if !checked.as_ref().is_err_and(TransferError::is_gone) {
            taken.file_mut().words = None;
        }
        let Checked {
            verified,
            sized,
            set,
        } = match checked {
            Ok(checked) => checked,
            Err(error) => {
                let job = taken.file_mut();
                shared.remove_bad(self.destination, job, &error).await;
                return shared.fail(taken, &error);
            }
        };
        let published = match hidden {
            None => Some(taken),
            Some((at, to)) => {
                let hidden = Hidden::ask(self.destination, self.abilities.1.mlst, at, to);
                hidden.publish(self.destination, shared, taken).await
            }
        };
        match (published, set) {
            (Some(taken), Ok(there)) => {
                let success = Success {
                    bytes,
                    verified: verified.or(proven),
                    sized: sized || told,
                    there,
                };
                shared.succeed(taken, &success);
            }
            (Some(taken), Err(error)) => shared.fail(taken, &error),
            (None, _) => {}
        }
    }

    /// Compares the digests of both files where one is needed or to be had, else the sizes, and has
    /// the attributes, the time and the mode set; the digest of bytes which `passed` here stands for
    /// the source's.
    pub(super) async fn check(
        &self,
        job: &FileJob,
        after: Option<ChecksumAlgorithm>,
        optional: Option<ChecksumAlgorithm>,
        passed: Option<Digest>,
    ) -> Result<Checked, TransferError> {
        let shared = self.shared;
        let (mut verified, mut sized) = (None, false);
        let (Some(from), Some(to)) = (FtpPath::new(job.from.clone()), FtpPath::new(job.to.clone()))
        else {
            return Err(TransferError::unsendable(&job.to));
        };
        let to = job.hidden.clone().unwrap_or(to);
        let again = (job.facts.lasts() && !shared.through_layers())
            .then(|| FactsQuery::send(self.source, self.abilities.0, from.clone()));
        let needed = self.algorithm.or(after);
        let length = shared.is_partial().then(|| shared.expected(job)).flatten();
        let part = (shared.options.offset.unwrap_or(0), length);
        let expected = job.facts.size.filter(|_| !shared.is_partial());
        let size = (needed.is_none() && expected.is_some())
            .then(|| self.destination.send(Command::Size(to.clone())));
        let destination = (self.destination, self.abilities.1);
        let is_asked = !shared.keeps_times() && shared.asks_of_done(destination);
        let asked_for =
            is_asked.then(|| FactsQuery::send(destination.0, destination.1, to.clone()));
        let attributes = shared.ask_attributes((self.source, self.abilities.0), from.clone());
        let ask = |control, path| DigestQuery::send(control, needed, optional, part, path);
        let asked = match passed {
            Some(_) => None,
            None => ask(self.source, from),
        };
        if let Some(copy) = ask(self.destination, to.clone()) {
            let source = async {
                match asked {
                    Some(asked) => asked.digest(shared, None).await,
                    None => Ok(passed),
                }
            };
            let copy = copy.digest(shared, length.or(expected));
            let (source, copy) = tokio::try_join!(source, copy)?;
            if let (Some((algorithm, source)), Some((_, copy))) = (&source, &copy)
                && source != copy
            {
                let path = shared.name_destination(job);
                return Err(verify::mismatch(path, *algorithm, source, copy));
            }
            verified = source.filter(|_| copy.is_some());
        }
        if let (Some(mut size), Some(expected)) = (size, expected) {
            let path = || shared.name_source(job);
            sized = verify::stored(&mut size, expected..=expected, path).await?;
        }
        if let Some(again) = again
            && let Some(now) = again.facts().await?
            && now.differs_from(&job.facts)
        {
            let path = shared.name_source(job);
            return Err(TransferError::Changed { path });
        }
        let there = match asked_for {
            // Only a later run misses them.
            Some(asked) => asked.facts().await.ok().flatten(),
            None => None,
        };
        let attributes = shared.told_attributes(attributes).await.and_then(|all| {
            must_fit(&all, destination, to.as_bytes())?;
            Ok(all)
        });
        let settings = shared.send_settings(destination, job, to, attributes);
        let set = match shared.settle_settings(job, settings).await {
            Err(error) if !matches!(error, TransferError::Unset { .. }) => return Err(error),
            set => set.map(|told| told.or(there)),
        };
        Ok(Checked {
            verified,
            sized,
            set,
        })
    }
}

/// The failure of a file behind which the data of the others cannot be told apart.
fn out_of_step(error: TransferError) -> Failure {
    let session = match is_lost(&error) {
        true => SessionState::Lost,
        false => SessionState::Unanswered,
    };
    Failure::midway(error, session)
}

fn is_lost(error: &TransferError) -> bool {
    match error {
        TransferError::Control(error) => matches!(error, ControlError::Lost { .. }),
        TransferError::Both {
            source,
            destination,
        } => is_lost(source) || is_lost(destination),
        _ => false,
    }
}
