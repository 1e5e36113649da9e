//! Takes listings, and makes jobs of the names in them.

use std::collections::HashSet;

use ftp_wire::command::{Command, Mode, Type};
use gridftp_data::{ReceivePlan, Watch};

use crate::control::Control;
use crate::copy::Stop;
use crate::copy::job::Item;
use crate::copy::listing::{Lines, Sorter};
use crate::copy::queue::Taken;
use crate::copy::rest::Rest;
use crate::error::{ControlError, TransferError};
use crate::ls::Form;
use crate::transfer::{ACCOUNT, Failure, Session, move_data, settle_final};
use crate::url::show;

use super::Asked;
use super::mover::Mover;

impl Mover<'_> {
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
        let moved = move_data(&watch, ACCOUNT, work, asked.sent.replies.ended()).await;
        let end = match moved.end {
            Some(end) => end,
            None => settle_final(&mut asked.sent.replies, matches!(moved.data, Some(Ok(_)))).await,
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
                return Err(match answered {
                    true => Stop::Channel,
                    false => Stop::Replace,
                });
            }
            (_, Err(error)) => error.into(),
            (None, Ok(())) => asked
                .sent
                .replies
                .misbehaved("the listing did not come")
                .into(),
        };
        let failure = Failure::of(&asked.sent.replies, error, Session::after_data(answered));
        self.shared.fail_transfer(asked.taken, failure)
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
}

/// Says whether a directory is to be listed in another form after this refusal; its job goes back then.
pub(super) fn lists_otherwise(taken: &mut Taken, refusal: &ControlError) -> bool {
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
