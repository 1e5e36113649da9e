//! Both servers' word on each file.

use std::future::pending;
use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};

use ftp_wire::command::Mode;
use ftp_wire::marker::Marker;
use ftp_wire::receipt::Receipt;
use ftp_wire::reply::Reply;
use gridftp_data::Watch;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::check::Copied;
use super::growth::Beside;
use super::{Moving, Pair};
use crate::control::Replies;
use crate::copy::Stop;
use crate::copy::job::Words;
use crate::copy::kept::{is_busy, judge};
use crate::copy::queue::Taken;
use crate::copy::waits::follow;
use crate::copy::window::UnderWay;
use crate::error::{ControlError, TransferError, lacks_channel};
use crate::explain::Way;
use crate::transfer::{ACCOUNT, Failure, SessionState};

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
            let mut ended = Ok(());
            while let Some(file) = settling.recv().await {
                if let Err(stop) = self.settle(file, broken).await {
                    // The others go back, to be checked by the next sessions.
                    broken.cancel();
                    ended = Err(stop);
                }
            }
            ended
        };
        let (confirmed, settled) = tokio::join!(confirm, settle);
        confirmed.and(settled)
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
