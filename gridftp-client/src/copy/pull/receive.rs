//! `Receiver`: takes the data of one retrieval after the other, and judges it.

use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use byte_ranges::RangeSet;
use ftp_proto::client::FailureKind;
use ftp_wire::command::Mode;
use ftp_wire::marker::Marker;
use ftp_wire::receipt::Receipt;
use ftp_wire::reply::Reply;
use gridftp_data::Watch;
use gridftp_dsi::Sink as _;
use gridftp_dsi_posix::FileSink;
use tokio::time::timeout;

use crate::abilities::Abilities;
use crate::control::Control;
use crate::copy::Stop;
use crate::copy::digests::DigestQuery;
use crate::copy::job::{Agreement, FileJob, Item};
use crate::copy::kept::{Digest, has_gaps};
use crate::copy::outlive::leaves_bytes;
use crate::copy::reach::Reach;
use crate::copy::receipts::Proof;
use crate::copy::state::CopyState;
use crate::copy::waits::follow;
use crate::error::{Chain, ControlError, TransferError};
use crate::explain::Way;
use crate::transfer::{Failure, QUIET, SessionState, Transfer};

use super::ask::Asker;
use super::land::{open_sink, plan, whole};
use super::list::lists_otherwise;
use super::resume::proof;
use super::{Asked, Cut, Landed, Sent, resume};

/// Takes the data of one transfer after the other.
pub(super) struct Receiver<'a> {
    pub(super) control: &'a Control,
    pub(super) channel: &'a mut gridftp_data::DataChannel,
    pub(super) shared: &'a Arc<CopyState>,
    pub(super) abilities: &'a Abilities,
    /// Stripes that send to us.
    pub(super) stripes: Option<NonZero<u32>>,
    /// Wait for the connection of a server that has not yet shown that it can connect to us.
    pub(super) patience: Option<Duration>,
}

impl Receiver<'_> {
    /// Takes one transfer in MODE E; gives the file when its data is here.
    pub(super) async fn take(&mut self, asked: Asked) -> Result<Option<Landed>, Stop> {
        let asked = settle_before(self.shared, self.control, asked).await?;
        let left = &self.control.left;
        let begun = tokio::select! {
            biased;
            begun = self.begin(asked) => begun?,
            // The job goes back.
            () = left.cancelled() => return Err(Stop::Replace),
        };
        let Some(mut asked) = begun else {
            return Ok(None);
        };
        let Item::File(job) = asked.taken.item_mut() else {
            let listed = Box::pin(self.list(asked, Mode::Extended));
            return listed.await.map(|()| None);
        };
        // It was opened before the file was asked for, unless the server does not go on with it.
        let sink = match open_sink(self.shared, job, proof(self.abilities).is_some()).await {
            Ok(sink) => sink,
            Err(error) => {
                self.shared.fail(asked.taken, &error);
                return Err(Stop::Replace);
            }
        };
        let plan = plan(self.shared, Mode::Extended, job.held.clone())
            .tag(asked.sent.tag)
            .stripes(self.stripes);
        let watch = self.watch(job);
        let before = resume::before(self.shared, job, &sink);
        let running = job.running.clone();
        let held = (&job.held, before.as_ref());
        resume::go_on((&sink, &watch), held, asked.sent.tag).await;
        let data = Box::pin(self.channel.receive(&sink, &plan, &watch));
        let (transfer, stripes) = (&mut asked.sent.transfer, &mut job.stripes);
        let work = transfer.run_with(&watch, data, |reply| {
            follow(&watch, reply);
            if let Some(Ok(Marker::Perf(perf))) = Marker::from_reply(reply) {
                stripes.note(&perf);
            }
        });
        let work = resume::recorded(self.shared, (running, before), (&sink, &watch), work);
        let ended = Box::pin(self.shared.watched(self.control, &watch, work)).await;
        let proven = ended.and_then(|(_, reply)| {
            let told = Receipt::parse(&reply.text());
            self.prove(&mut asked.sent, job, &watch, told)
        });
        end(self.shared, asked, sink, &watch, proven).await
    }

    /// Compares the receipts of both ends, where the transfer was tagged, and asks for a digest where
    /// they have none; gives the one that they agree on.
    fn prove(
        &self,
        sent: &mut Sent,
        job: &FileJob,
        watch: &Watch,
        told: Option<Receipt>,
    ) -> Result<Option<Digest>, Failure> {
        let proof = match watch.receipt() {
            Some(taken) => self.shared.judge_receipts(
                [told.as_ref(), Some(&taken)],
                &[self.abilities],
                sent.transfer.replies(),
                || self.shared.name_source(job),
            ),
            None => Ok(Proof::default()),
        };
        let proof = proof.map_err(|error| Failure::midway(error, SessionState::Reusable))?;
        if let (Some(_), None, Some(from)) =
            (proof.beside, &sent.checksum, self.control.path(&job.from))
        {
            let options = &self.shared.options;
            let part = (options.offset.unwrap_or(0), options.length);
            sent.checksum = DigestQuery::send(self.control, proof.beside, None, part, from);
        }
        Ok(proof.digest)
    }

    /// The watch of a file's transfer.
    fn watch(&self, job: &mut FileJob) -> Arc<Watch> {
        // All of it would come again over another stack.
        if job.facts.modified.is_none() {
            self.shared.tuning.stay();
        }
        let watch = self.shared.watch(Way::Download);
        let held = job.held.total();
        self.shared.show(job, held, Arc::downgrade(&watch));
        watch
    }

    /// Waits until the server begins; `None` where it refuses this transfer alone.
    async fn begin(&mut self, mut asked: Asked) -> Result<Option<Asked>, Stop> {
        let Err(error) = self.has_begun(&mut asked.sent.transfer).await? else {
            return Ok(Some(asked));
        };
        let refused = matches!(error, ControlError::Refused { .. });
        if !refused || !lists_otherwise(&mut asked.taken, &error) {
            let failure = Failure::to_begin(error);
            let failure = self.shared.of_stack(self.control, failure);
            self.shared.fail_transfer(asked.taken, failure)?;
        }
        Ok(None)
    }

    /// Waits until the server begins a transfer, or refuses it.
    pub(super) async fn has_begun(
        &mut self,
        transfer: &mut Transfer,
    ) -> Result<Result<(), ControlError>, Stop> {
        let first = match self.patience {
            Some(patience) => match timeout(patience, transfer.begin()).await {
                Ok(first) => first,
                Err(_) if self.shared.reach() == Reach::Trusted => transfer.begin().await,
                Err(_) => {
                    self.shared.note_reach(Reach::Doubted);
                    return Err(Stop::Replace);
                }
            },
            None => transfer.begin().await,
        };
        let Err(error) = first else {
            self.patience = None;
            self.shared.note_reach(Reach::Trusted);
            return Ok(Ok(()));
        };
        let of_data = error.kind() == Some(FailureKind::DataChannel);
        // It may have had none left for a moment.
        if of_data && self.patience.is_some() && self.shared.reach() != Reach::Trusted {
            self.shared.note_reach(Reach::Doubted);
            return Err(Stop::Channel);
        }
        Ok(Err(error))
    }

    /// Takes one transfer in MODE S, over a connection of its own.
    pub(super) async fn take_alone(
        &mut self,
        asker: &Asker<'_>,
        asked: Asked,
    ) -> Result<Option<Landed>, Stop> {
        let mut asked = settle_before(self.shared, self.control, asked).await?;
        let Item::File(job) = asked.taken.item_mut() else {
            let listed = Box::pin(self.list(asked, Mode::Stream));
            return listed.await.map(|()| None);
        };
        // The bytes behind the first hole come again, but where the data may have gaps.
        let left_out = match has_gaps(Mode::Stream, asked.sent.tag.is_some()) {
            true => job.held.clone(),
            false => RangeSet::up_to(job.held.first_hole()),
        };
        // A digest tells a part from the whole.
        let is_provable = self.shared.expected(job).is_some()
            || asked
                .sent
                .checksum
                .as_ref()
                .is_some_and(DigestQuery::is_needed);
        let source = self.shared.name_source(job);
        let sink = match open_sink(self.shared, job, proof(self.abilities).is_some()).await {
            Ok(sink) => sink,
            Err(error) => {
                self.shared.fail(asked.taken, &error);
                // The server waits for a connection that will not come.
                return Err(Stop::Replace);
            }
        };
        let cut = asked.sent.cut.map(|cut| cut.length);
        let plan = plan(self.shared, Mode::Stream, left_out.clone()).until(cut);
        let plan = plan.tag(asked.sent.tag);
        let watch = self.watch(job);
        let before = resume::before(self.shared, job, &sink);
        let running = job.running.clone();
        let known = before.as_ref().map(|before| before.intersect(&left_out));
        let held = (&left_out, known.as_ref());
        resume::go_on((&sink, &watch), held, asked.sent.tag).await;
        let data = Box::pin(self.channel.receive(&sink, &plan, &watch));
        let transfer = &mut asked.sent.transfer;
        let work = async {
            let told = |reply: &Reply| follow(&watch, reply);
            let received = transfer.pass(&watch, data, told).await?;
            match cut {
                None => {
                    let reply = transfer.end(|_| ()).await?;
                    if received.ended_unmarked && !is_provable {
                        let (path, got) = (source, received.bytes);
                        return Err(TransferError::Unmarked { path, got }.into());
                    }
                    Ok((false, Receipt::parse(&reply.text())))
                }
                Some(length) => {
                    let is_whole = received.ranges.end().max(left_out.end()) >= length;
                    Ok((cut_off(transfer, is_whole).await?, None))
                }
            }
        };
        let work = resume::recorded(self.shared, (running, before), (&sink, &watch), work);
        let ended = Box::pin(self.shared.watched(self.control, &watch, work)).await;
        let ended = ended.map_err(|failure| self.unconnected(&watch, transfer, failure));
        let is_last = matches!(ended, Ok((true, _)));
        let proven = ended.and_then(|(_, told)| self.prove(&mut asked.sent, job, &watch, told));
        match end(self.shared, asked, sink, &watch, proven).await {
            Ok(Some(mut landed)) => {
                if cut.is_some() && !is_last {
                    landed.after = asker.look_after(&landed.taken, !left_out.is_empty());
                }
                if !is_last && landed.checksum.is_none() && landed.proven.is_none() {
                    landed.checksum = asker.digest_after(&landed.taken, landed.size);
                }
                landed.is_last = is_last;
                Ok(Some(landed))
            }
            _ if is_last => Err(Stop::Replace),
            ended => ended,
        }
    }

    /// The failure of an attempt without a connection: the server, which owes no reply then, counts
    /// as gone.
    fn unconnected(&self, watch: &Watch, transfer: &Transfer, failure: Failure) -> Failure {
        match &failure.error {
            TransferError::Data { site, cause, .. }
                if !watch.is_open() && failure.session == SessionState::Unanswered =>
            {
                let why = Chain(cause).to_string();
                self.shared.note(&format!("{site}: data connection: {why}"));
                Failure::midway(
                    transfer.replies().unanswered(&why),
                    SessionState::Unanswered,
                )
            }
            _ => failure,
        }
    }
}

/// Waits for the server's word on a connection that was closed on it, after the whole part or after
/// less. Says whether there was none: the next reply may be that.
pub(super) async fn cut_off(transfer: &mut Transfer, is_whole: bool) -> Result<bool, Failure> {
    match timeout(QUIET, transfer.end(|_| ())).await {
        Err(_) => Ok(true),
        Ok(Ok(_)) => Ok(false),
        // It could not send the data behind the part.
        Ok(Err(failure)) if is_whole && failure.error.reply().is_some() => Ok(false),
        Ok(Err(failure)) => Err(failure),
    }
}

/// Reads the replies to the commands before the transfer command.
async fn settle_before(
    shared: &CopyState,
    control: &Control,
    mut asked: Asked,
) -> Result<Asked, Stop> {
    if let Some(again) = asked.sent.again.take() {
        let now = again
            .facts()
            .await
            .map_err(|error| Stop::Lost(error.into()))?;
        if let Item::File(job) = asked.taken.item_mut() {
            let same = now.is_some_and(|now| now.is_same_as(&job.facts));
            job.changed |= !job.held.is_empty() && !same;
            shared.update(job, now);
        }
    }
    let Some(mut rest) = asked.sent.rest.take() else {
        return Ok(asked);
    };
    let Err(error) = rest.finish().await else {
        return Ok(asked);
    };
    let refused = error.reply().is_some();
    match asked.sent.cut {
        // The file from its start would not do.
        Some(Cut { offset: 1.., .. }) => {
            let session = match refused {
                true => SessionState::Unanswered,
                false => SessionState::Lost,
            };
            let failure = Failure {
                midway: asked.sent.transfer.has_begun(),
                ..Failure::midway(error, session)
            };
            let failure = shared.of_stack(control, failure);
            shared.fail_transfer(asked.taken, failure)?;
            Err(Stop::Replace)
        }
        _ if refused => {
            // All of it comes then.
            if let Item::File(job) = asked.taken.item_mut() {
                job.forget();
            }
            Ok(asked)
        }
        _ => Err(Stop::Lost(error.into())),
    }
}

/// Judges the received bytes of a file.
pub(super) async fn end(
    shared: &CopyState,
    mut asked: Asked,
    sink: FileSink,
    watch: &Watch,
    ended: Result<Option<Digest>, Failure>,
) -> Result<Option<Landed>, Stop> {
    let job = asked.taken.file_mut();
    job.held.extend(&watch.received());
    job.counted = job.counted.saturating_add(watch.bytes());
    sink.note_groups(watch.take_groups());
    let judged = ended.and_then(|proven| {
        let path = shared.name_source(job);
        let judged = match job.changed {
            true => Err(TransferError::Changed { path }),
            false => whole(shared, job),
        };
        judged.map_err(|error| Failure::midway(error, SessionState::Reusable))?;
        Ok(proven)
    });
    let failure = match judged {
        Err(failure) => failure,
        Ok(proven) => {
            let size = job.held.end();
            return Ok(Some(Landed {
                taken: asked.taken,
                sink,
                size,
                proven,
                received: watch.file_digest(),
                checksum: asked.sent.checksum,
                after: asked.sent.after,
                attributes: asked.sent.attributes,
                asks_again: false,
                is_last: false,
            }));
        }
    };
    if sink.differs() {
        resume::begin_anew(shared, job, sink).await;
        // The file is queued again, without a failed attempt.
        return Stop::of(failure).map_or(Ok(None), Err);
    }
    if failure.error.is_corrupt()
        && let Some(differing) = watch.differing()
    {
        job.agree(&differing);
    }
    // The same open file goes on at the next attempt, or a later run with it.
    if leaves_bytes(&failure.error) || job.agreement == Agreement::Held {
        let is_kept = resume::keep(shared, job, &sink).await;
        if !is_kept && job.agreement == Agreement::Held {
            // The record of before may name bytes that differ.
            job.agreement = Agreement::None;
        }
    }
    job.sink = Some(sink);
    shared.fail_transfer(asked.taken, failure).map(|()| None)
}
