//! Takes listings, and makes jobs of the names in them.

use std::collections::HashSet;

use ftp_wire::command::{Command, Mode, Type};
use gridftp_data::{ReceivePlan, Watch};

use crate::control::Control;
use crate::copy::Stop;
use crate::copy::job::Item;
use crate::copy::listing::{Lines, Sorter};
use crate::copy::queue::Taken;
use crate::copy::spool::SpoolReader;
use crate::error::{ControlError, TransferError};
use crate::ls::Form;
use crate::transfer::Failure;

use super::Asked;
use super::receive::Receiver;

impl Receiver<'_> {
    /// Takes a listing and makes jobs of it.
    pub(super) async fn list(&mut self, mut asked: Asked, mode: Mode) -> Result<(), Stop> {
        let Item::Dir(job) = asked.taken.item_mut() else {
            return Ok(());
        };
        let seen = std::mem::take(&mut job.seen);
        let job = &*job;
        let mut sorter = Sorter::new(self.shared, job, seen);
        let form = job.form;
        let each = |line: &[u8]| form.line(line, |line| sorter.line(line));
        let mut lines = Lines::new(each);
        let watch = Watch::new();
        let plan = ReceivePlan::new(mode, Type::Image);
        let data = Box::pin(self.channel.receive_chunks(&mut lines, &plan, &watch));
        let work = asked.sent.transfer.run(&watch, data);
        let ended = tokio::select! {
            biased;
            ended = work => ended,
            () = self.shared.left_udt(self.control) => Err(Failure::left()),
        };
        let ended = ended.map_err(|failure| self.shared.of_stack(self.control, failure));
        if ended.is_ok() {
            // Where it broke off, the last line may be a part of one: another name, other facts.
            lines.finish();
        }
        let listed = sorter.end(ended.is_ok()).await;
        if let Item::Dir(job) = asked.taken.item_mut() {
            job.facts = listed.own.unwrap_or(job.facts);
            job.seen = listed.seen;
        }
        if let Err(failure) = ended {
            if let TransferError::Control(error) = &failure.error
                && lists_otherwise(&mut asked.taken, error)
            {
                return Stop::of(failure).map_or(Ok(()), Err);
            }
            return self.shared.fail_transfer(asked.taken, failure);
        }
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
            (Ok(true), None) if form != Form::Facts && self.shared.options.manner.delete => {
                let what = "its server has no MLSD, and LIST does not show hidden names";
                let source = self.shared.name_item(asked.taken.item());
                let error = TransferError::source(source, what, "copy without --delete");
                self.shared.fail(asked.taken, &error);
            }
            (Ok(true), None) => self.listed(asked.taken, listed.rest),
        }
        Ok(())
    }

    /// Ends the listing of a directory; its job goes back while names of it wait.
    fn listed(&self, mut taken: Taken, rest: Option<SpoolReader>) {
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

/// Says whether a directory is to be listed in another form after this refusal; its job goes back
/// then.
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
    // Some servers list nothing where they may not. A relative path changes its meaning once it is
    // entered.
    if let (true, Some(path)) = (job.from.starts_with(b"/"), control.path(&job.from)) {
        control.send(Command::Cwd(path)).finish().await?;
    }
    Ok(true)
}
