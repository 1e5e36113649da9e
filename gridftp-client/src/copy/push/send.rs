//! Begins stores and sends their data.

use std::sync::Arc;

use byte_ranges::RangeSet;
use ftp_wire::command::{Mode, Tag, Type};
use gridftp_data::{DataChannel, SendPlan};

use crate::copy::outlive::noted;
use crate::copy::pipeline::Route as _;
use crate::copy::{Stop, lock};
use crate::error::TransferError;
use crate::explain::Way;
use crate::transfer::{ACCOUNT, Failure, SessionState};

use super::ask::Asker;
use super::{Asked, Push, Sent, fail, judged, note_marker};

impl Push<'_> {
    /// Has a store begin, unless its data names it; `None` where the server refuses that one alone.
    pub(super) async fn begin_either(
        &self,
        channel: &mut DataChannel,
        asked: Asked,
    ) -> Result<Option<Asked>, Stop> {
        match (self.asker.mode, asked.tag) {
            (Mode::Stream, _) => self.begin_open(channel, asked).await,
            (_, None) if self.opens && !channel.is_cached() => {
                self.begin_open(channel, asked).await
            }
            (_, None) => tokio::select! {
                begun = self.begin(asked) => begun,
                never = self.watch(channel) => match never {},
            },
            (_, Some(_)) => Ok(Some(asked)),
        }
    }

    /// Waits until the server accepts a store; `None` where it refuses that one alone.
    async fn begin(&self, mut asked: Asked) -> Result<Option<Asked>, Stop> {
        let shared = self.asker.shared;
        let Err(error) = asked.transfer.begin().await else {
            return Ok(Some(asked));
        };
        if asked.is_refused_for_name(&error) {
            shared.go_straight(asked.taken);
            return Ok(None);
        }
        let failure = judged(shared, &asked, Failure::to_begin(error));
        let failure = shared.of_stack(self.asker.control, failure);
        fail(shared, asked.taken, failure, asked.resumes).map(|()| None)
    }

    /// Opens the connections of a store, unless they are open, and waits until the server accepts it.
    async fn begin_open(
        &self,
        channel: &mut DataChannel,
        mut asked: Asked,
    ) -> Result<Option<Asked>, Stop> {
        let shared = self.asker.shared;
        let open = channel.open(self.asker.mode, self.width.parallelism());
        let Err(failure) = asked.transfer.begin_with(self.reply_within, open).await else {
            return Ok(Some(asked));
        };
        if let TransferError::Control(error) = &failure.error
            && asked.is_refused_for_name(error)
        {
            shared.go_straight(asked.taken);
            return Err(Stop::Channel);
        }
        let failure = judged(shared, &asked, failure);
        let failure = shared.of_stack(self.asker.control, failure);
        fail(shared, asked.taken, failure, asked.resumes).map(|()| None)
    }

    /// The plan of a store that sends these ranges of its source.
    pub(super) fn plan(&self, ranges: RangeSet, tag: Option<Tag>) -> SendPlan {
        SendPlan::new(self.asker.mode, Type::Image, ranges)
            .parallelism(self.width.parallelism())
            .receivers(Some(self.width.stripes))
            .tag(tag)
    }

    /// Replaces the token of connections that were reset: others follow them.
    pub(super) async fn renew_reset(&self, channel: &mut DataChannel) {
        tokio::select! {
            biased;
            () = channel.reset_by_peer() => self.broke(),
            () = std::future::ready(()) => {}
        }
    }

    /// Sends the data of a store.
    pub(super) async fn send(
        &self,
        channel: &mut DataChannel,
        mut asked: Asked,
    ) -> Result<Option<Sent>, Stop> {
        let Asker {
            control,
            shared,
            mode,
            ..
        } = self.asker;
        let size = asked.ranges.total();
        let plan = self.plan(asked.ranges.clone(), asked.tag).base(asked.base);
        let watch = shared.watch(Way::Upload);
        let job = asked.taken.file_mut();
        let held = shared.expected(job).unwrap_or(size).saturating_sub(size);
        shared.show(job, held, Arc::downgrade(&watch));
        let earlier = asked.earlier.take();
        let groups = earlier.as_ref().and_then(|_| asked.taken.file().groups());
        if asked.resumes || earlier.is_some() {
            watch.go_on(earlier);
        }
        self.renew_reset(channel).await;
        let data = Box::pin(channel.send(&asked.source, &plan, &watch));
        let note = |reply: &_| note_marker(&mut asked.taken, reply);
        let work = asked.transfer.pass(&watch, data, note);
        let work = noted(groups, &watch, work);
        let passed = Box::pin(shared.watched(control, &watch, work)).await;
        let job = asked.taken.file_mut();
        job.counted = job.counted.saturating_add(watch.bytes());
        job.placed |= passed.is_ok() || watch.bytes() >= size;
        if let Err(failure) = passed {
            job.note_unplaced(failure.error.control());
            if failure.session != SessionState::Reusable {
                self.broke();
            }
            if failure.session == SessionState::Left {
                // The next session asks for the bytes that the server keeps behind its word.
                let note = |reply: &_| note_marker(&mut asked.taken, reply);
                asked.transfer.account(ACCOUNT, note).await;
            }
            let failure = judged(shared, &asked, failure);
            // A tagged store is refused when its data is on the way.
            let is_refused = asked.resumes && !asked.transfer.has_begun();
            return fail(shared, asked.taken, failure, is_refused).map(|()| None);
        }
        let ask_size = match (mode, asked.tag) {
            (Mode::Stream, None) => !shared.through_layers(),
            // The old file may have been longer, and without a receipt nothing tells of this one.
            _ => asked.resumes || (asked.tag.is_none() && !shared.through_layers()),
        };
        Ok(Some(Sent {
            store: asked,
            size,
            ask_size: ask_size && !shared.is_partial(),
            receipt: watch.receipt(),
            _watch: watch,
            reset: lock(&self.reset).clone(),
        }))
    }
}
