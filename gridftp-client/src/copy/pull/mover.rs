//! `Mover`: takes the data of one retrieval or listing after the other, and judges what came.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use ftp_proto::client::FailureKind;
use ftp_wire::command::{Command, Mode, Type};
use gridftp_data::{ErrorKind as DataErrorKind, ReceivePlan, Received, Watch};
use gridftp_dsi_posix::FileSink;

use crate::control::{Control, Step};
use crate::copy::job::Item;
use crate::copy::listing::{Lines, Sorter};
use crate::copy::queue::Taken;
use crate::copy::reach::Reach;
use crate::copy::rest::Rest;
use crate::copy::shared::Shared;
use crate::copy::{ACCOUNT, Moved, Stop, after_failure, move_data, settle_final};
use crate::error::{ControlError, TransferError};
use crate::ls::Form;
use crate::url::show;

use super::land::{open_sink, plan, whole};
use super::{Asked, Landed};

/// Takes the data of one transfer after the other.
pub(super) struct Mover<'a> {
    pub(super) control: &'a Control,
    pub(super) channel: &'a mut gridftp_data::DataChannel,
    pub(super) shared: &'a Arc<Shared>,
    /// How long to wait for a server of which it is not known whether it reaches us.
    pub(super) patience: Option<Duration>,
}

impl Mover<'_> {
    /// Takes one transfer in MODE E; gives the file when its data is here.
    pub(super) async fn take(&mut self, mut asked: Asked) -> Result<Option<Landed>, Stop> {
        Self::settle_before(self.shared, &mut asked).await?;
        let first = match self.patience {
            Some(patience) => match tokio::time::timeout(patience, asked.replies.next()).await {
                Ok(first) => first,
                Err(_) if self.shared.reach() == Reach::Trusted => asked.replies.next().await,
                Err(_) => {
                    self.shared.note_reach(Reach::Doubted);
                    return Err(Stop::Replace);
                }
            },
            None => asked.replies.next().await,
        };
        match first {
            Ok(Step::Preliminary(_)) => {
                self.patience = None;
                self.shared.note_reach(Reach::Trusted);
            }
            Ok(Step::Done(_)) => {
                let error = asked
                    .replies
                    .misbehaved("the transfer ended before it began")
                    .into();
                self.shared.fail(asked.taken, &error);
                return Err(Stop::Channel);
            }
            Err(error @ ControlError::Refused { .. }) => {
                let of_data = error.kind() == Some(FailureKind::DataChannel);
                // It may have had none left for a moment.
                if of_data && self.patience.is_some() && self.shared.reach() != Reach::Trusted {
                    self.shared.note_reach(Reach::Doubted);
                    return Err(Stop::Channel);
                }
                if lists_otherwise(&mut asked.taken, &error) {
                    return Ok(None);
                }
                self.shared.fail(asked.taken, &error.into());
                return if of_data {
                    Err(Stop::Channel)
                } else {
                    Ok(None)
                };
            }
            Err(error) => {
                let error = error.into();
                self.shared.fail(asked.taken, &error);
                return Err(Stop::Lost(error));
            }
        }
        let Item::File(job) = asked.taken.item_mut() else {
            return Box::pin(self.list(asked, Mode::Extended))
                .await
                .map(|()| None);
        };
        // It was opened before the file was asked for, unless the server does not go on with it.
        let sink = match open_sink(self.shared, job).await {
            Ok(sink) => sink,
            Err(error) => {
                self.shared.fail(asked.taken, &error);
                return Err(Stop::Replace);
            }
        };
        let plan = plan(self.shared, Mode::Extended, 0).tag(asked.tag);
        let watch = Watch::new();
        let work = Box::pin(self.channel.receive(&sink, &plan, &watch));
        let work = move_data(&watch, ACCOUNT, work, asked.replies.ended());
        let moved = self.shared.watched(self.control, &watch, work).await;
        match Self::end(self.control, self.shared, asked, sink, &watch, moved).await {
            Ok(landed) => Ok(Some(landed)),
            Err(None) => Ok(None),
            Err(Some(stop)) => Err(stop),
        }
    }

    /// Reads the replies to what was sent before the transfer command.
    pub(super) async fn settle_before(shared: &Shared, asked: &mut Asked) -> Result<(), Stop> {
        if let Some(again) = asked.again.take() {
            let now = match again.facts().await {
                Ok(now) => now,
                Err(error) => return Err(Stop::Lost(error.into())),
            };
            if let Item::File(job) = asked.taken.item_mut() {
                let same = now.is_some_and(|now| now.is_same_as(&job.facts));
                job.changed |= !job.held.is_empty() && !same;
                shared.update(job, now);
            }
        }
        if let Some(mut rest) = asked.rest.take() {
            match rest.finish().await {
                Ok(_) => {}
                Err(ControlError::Refused { .. }) => {
                    // All of it comes then.
                    if let Item::File(job) = asked.taken.item_mut() {
                        job.forget();
                    }
                }
                Err(error) => return Err(Stop::Lost(error.into())),
            }
        }
        Ok(())
    }

    /// Takes a listing and makes jobs of it.
    pub(super) async fn list(&mut self, mut asked: Asked, mode: Mode) -> Result<(), Stop> {
        let Item::Dir(job) = asked.taken.item_mut() else {
            return Ok(());
        };
        let seen = std::mem::take(&mut job.seen);
        let job = &*job;
        let path = show(&job.from);
        let mut sorter = Sorter::new(self.shared, job, seen);
        let form = job.form;
        let each = |line: &[u8]| form.line(line, |line| sorter.line(line));
        let mut lines = Lines::new(each);
        let watch = Watch::new();
        let plan = ReceivePlan::new(mode, Type::Image);
        let work = Box::pin(self.channel.receive_chunks(&mut lines, &plan, &watch));
        let moved = move_data(&watch, ACCOUNT, work, asked.replies.ended()).await;
        let end = match moved.end {
            Some(end) => end,
            None => settle_final(&mut asked.replies, matches!(moved.data, Some(Ok(_)))).await,
        };
        // Where it broke off, the last line may be a part of one: another name, other facts.
        if matches!((&moved.data, &end), (Some(Ok(_)), Ok(()))) {
            lines.finish();
        }
        let answered = !matches!(end, Err(ControlError::Misbehaved { .. }));
        let whole = matches!((&moved.data, &end), (Some(Ok(_)), Ok(())));
        let listed = sorter.end(whole).await;
        if let Item::Dir(job) = asked.taken.item_mut() {
            job.facts = listed.own.unwrap_or(job.facts);
            job.seen = listed.seen;
        }
        let error = match (moved.data, end) {
            (Some(Ok(_)), Ok(())) => {
                let nothing = form != Form::Facts && watch.bytes() == 0;
                let empty = match nothing {
                    true => is_empty(self.control, &mut asked.taken).await,
                    false => Ok(true),
                };
                match (empty, listed.error) {
                    // It goes back.
                    (Ok(false), _) => {}
                    (Err(error), _) => self.shared.fail(asked.taken, &error.into()),
                    (Ok(true), Some(error)) => self.shared.fail(asked.taken, &error),
                    (Ok(true), None) => self.listed(asked.taken, listed.rest),
                }
                return Ok(());
            }
            (Some(Err(cause)), Ok(()) | Err(ControlError::Misbehaved { .. })) => {
                let site = self.control.site().to_string();
                TransferError::Data { site, path, cause }
            }
            (_, Err(error)) if lists_otherwise(&mut asked.taken, &error) => {
                return Err(after_failure(answered));
            }
            (_, Err(error)) => error.into(),
            (None, Ok(())) => asked.replies.misbehaved("the listing did not come").into(),
        };
        match asked.replies.has_begun() {
            true => self.shared.fail_midway(asked.taken, &error),
            false => self.shared.fail(asked.taken, &error),
        }
        Err(after_failure(answered))
    }

    /// Ends the listing of a directory, whose job goes back while names of it wait.
    fn listed(&self, mut taken: Taken, rest: Option<Rest>) {
        if let Item::Dir(job) = taken.item_mut() {
            job.seen = HashSet::new();
            job.rest = rest;
            if job.rest.is_some() {
                return;
            }
        }
        taken.done(|item| {
            if let Item::Dir(job) = item {
                self.shared.note_dir(*job);
            }
        });
    }

    /// Judges what came of a file.
    pub(super) async fn end(
        control: &Control,
        shared: &Arc<Shared>,
        mut asked: Asked,
        sink: FileSink,
        watch: &Watch,
        moved: Moved<gridftp_data::Result<Received>>,
    ) -> Result<Landed, Option<Stop>> {
        let end = match moved.end {
            Some(end) => end,
            None => settle_final(&mut asked.replies, matches!(moved.data, Some(Ok(_)))).await,
        };
        let answered = !matches!(end, Err(ControlError::Misbehaved { .. }));
        let end = match (end, &moved.data) {
            // It could not send what follows the part.
            (Err(ControlError::Refused { .. }), Some(Ok(_))) if asked.cut.is_some() => Ok(()),
            (end, _) => end,
        };
        let Item::File(job) = asked.taken.item_mut() else {
            return Err(None);
        };
        job.held.extend(&watch.received());
        let source = shared.name_source(job);
        let broken = !matches!(moved.data, Some(Ok(_))) || end.is_err();
        let error = match (moved.data, end) {
            (Some(Err(cause)), _) if cause.kind() == DataErrorKind::Storage => {
                Some(TransferError::local("write", &job.to, cause))
            }
            (_, Err(error @ ControlError::Refused { .. })) => Some(error.into()),
            (Some(Err(cause)), _) => {
                let site = control.site().to_string();
                Some(TransferError::Data {
                    site,
                    path: show(&job.from),
                    cause,
                })
            }
            (_, Err(error)) => Some(error.into()),
            (_, Ok(())) if job.changed => Some(TransferError::Changed { path: source }),
            (_, Ok(())) => whole(shared, job).err(),
        };
        let Some(error) = error else {
            let size = job.held.end();
            return Ok(Landed {
                taken: asked.taken,
                sink,
                size,
                checksum: asked.checksum,
                after: asked.after,
            });
        };
        // The same open file goes on at the next attempt.
        job.sink = Some(sink);
        job.changed = false;
        shared.fail_midway(asked.taken, &error);
        Err(broken.then(|| after_failure(answered)))
    }
}

/// Says whether a directory is to be listed in another form after this refusal; its job goes back then.
fn lists_otherwise(taken: &mut Taken, refusal: &ControlError) -> bool {
    let Item::Dir(job) = taken.item_mut() else {
        return false;
    };
    let next = job.form.after(refusal);
    job.form = next.unwrap_or(job.form);
    next.is_some()
}

/// Says whether a directory of which nothing came is empty; otherwise it is listed in another form.
async fn is_empty(control: &Control, taken: &mut Taken) -> Result<bool, ControlError> {
    let Item::Dir(job) = taken.item_mut() else {
        return Ok(true);
    };
    if job.form == Form::All {
        job.form = Form::Plain;
        return Ok(false);
    }
    // Some list nothing where they cannot; a relative path is one no more once it is entered.
    if let (true, Some(path)) = (job.from.starts_with(b"/"), control.path(&job.from)) {
        control.send(Command::Cwd(path)).finish().await?;
    }
    Ok(true)
}
