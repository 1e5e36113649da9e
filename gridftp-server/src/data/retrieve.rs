//! RETR, ERET and listings: from the storage to the client.

use std::time::Duration;

use byte_ranges::RangeSet;
use ftp_proto::types::ListForm;
use ftp_wire::command::Type;
use ftp_wire::opts::Parallelism;
use ftp_wire::receipt::Extent;
use gridftp_data::{Chunks, Earlier, SendPlan};
use gridftp_dsi::{Dsi, DsiPath, Source, Version};

use super::{Buffers, Context, Mover};
use crate::error::Error;
use crate::listing::Lister;

/// Smallest file, in bytes, that may take more connections while it is sent, and of which the values
/// are kept when the transfer breaks off: a smaller one is read again.
const WORTH: u64 = 64 << 20;

/// Time between two notes of the values of a file that is sent.
const NOTING: Duration = Duration::from_secs(1);

impl<D: Dsi> Mover<'_, D> {
    /// Sends a file, or a region of it, less the ranges that the client holds; returns the bytes
    /// sent.
    ///
    /// # Errors
    /// Before the data connection is used, those of opening; after it, those of the transfer, and
    /// the storage's when the file changed meanwhile.
    pub(super) async fn retrieve(
        &mut self,
        path: &DsiPath,
        region: Option<(u64, Option<u64>)>,
        held: &RangeSet,
    ) -> Result<u64, Error> {
        let reading = self.context.shared.dsi.read(self.context.user, path);
        let source = self.context.reporter.run_patiently(reading).await?;
        if let Some(disk) = &self.side.disk {
            if region.is_some() || !held.is_empty() || self.context.channel.ty == Type::Ascii {
                return Err(Error::NotThroughLayers);
            }
            let mut chunks = self.context.reporter.run_quietly(disk.read(source)).await?;
            return self.send_all(&mut chunks).await;
        }
        let size = source.size();
        let (base, length) = match region {
            None => (0, size),
            Some((offset, length)) => {
                let rest = size.saturating_sub(offset);
                (offset, length.map_or(rest, |length| length.min(rest)))
            }
        };
        if held.end() > length {
            return Err(Error::RestartBeyondEnd {
                held: held.end(),
                length,
            });
        }
        let mut ranges = held.complement(length);
        if base > 0 {
            // The region lies within the file, so moving its ranges cannot overflow.
            ranges = ranges.shift_up(base).unwrap_or_default();
        }
        let version = self.context.go_on_digest(&source, region, held).await?;
        let channel = self.context.channel;
        // A smaller file is over before more connections could help it.
        let most = match ranges.total() {
            WORTH.. => channel.most_parallelism,
            _ => channel.parallelism,
        };
        let parallelism = Parallelism::up_to(channel.parallelism, most);
        let plan = self.plan(channel.ty, ranges).parallelism(parallelism);
        let plan = plan.base(base).stripe(self.stripe);
        let watch = self.context.watch;
        let sending = self.side.channel.send(&source, &plan, watch);
        let done = self.context.run_noted(version, sending).await?;
        Ok(done.bytes)
    }

    /// Sends a listing; returns the bytes sent.
    ///
    /// # Errors
    /// As [`retrieve`](Self::retrieve).
    pub(super) async fn list(&mut self, path: &DsiPath, form: ListForm) -> Result<u64, Error> {
        let opening = Lister::open(
            &self.context.shared.dsi,
            self.context.user,
            &self.context.shared.owners,
            path,
            form,
        );
        let mut lister = self.context.reporter.run_quietly(opening).await?;
        self.send_all(&mut lister).await
    }

    /// Sends bytes of unknown number; returns the number.
    ///
    /// They are sent unchanged: lines of a listing end in CRLF already, and the output of layers is
    /// no text.
    pub(super) async fn send_all<C: Chunks>(&mut self, chunks: &mut C) -> Result<u64, Error> {
        let plan = self.plan(Type::Image, RangeSet::new());
        let sending = self
            .side
            .channel
            .send_chunks(chunks, &plan, self.context.watch);
        let recorded = |_| std::future::ready(Ok(()));
        let sent = self
            .context
            .reporter
            .run(self.context.watch, sending, recorded)
            .await?;
        Ok(sent.bytes)
    }

    pub(super) fn plan(&mut self, ty: Type, ranges: RangeSet) -> SendPlan {
        self.side.settle(Buffers::from(self.context.channel));
        SendPlan::new(self.context.channel.mode, ty, ranges)
            .parallelism(self.context.channel.parallelism)
            .tag(self.context.tag)
    }
}

impl<D: Dsi> Context<'_, D> {
    /// Has the digest of a tagged transfer of a file, or of a region of it, count the ranges `held`,
    /// which it leaves out. Gives the version of the file where its values are kept for the case that
    /// this transfer breaks off.
    pub(crate) async fn go_on_digest<S: Source>(
        &mut self,
        source: &S,
        region: Option<(u64, Option<u64>)>,
        held: &RangeSet,
    ) -> Result<Option<Version>, Error> {
        if self.watch.hands_on() {
            return Ok(None);
        }
        let is_whole = region.is_none() && self.channel.ty == Type::Image;
        let tag = self.tag.filter(|_| is_whole);
        if tag.is_none_or(|tag| tag.extent != Extent::Whole) {
            if !held.is_empty() {
                self.watch.go_on(None);
            }
            return Ok(None);
        }
        let version = source.version().filter(|_| source.size() >= WORTH);
        if version.is_none() && held.is_empty() {
            return Ok(None);
        }
        let groups = version.map_or_else(Vec::new, |version| self.shared.sent.of(version, held));
        let earlier = async { Ok::<_, Error>(Earlier::of_source(source, groups, held).await) };
        let earlier = self.reporter.run_patiently(earlier).await?;
        self.watch.go_on(Some(earlier));
        Ok(version)
    }

    /// Runs the transfer `sending` of this `version` of a file, and keeps the values of its groups for
    /// the case that it breaks off.
    ///
    /// # Errors
    /// Those of `sending`, and [`Error::Aborted`].
    pub(crate) async fn run_noted<T, E: Into<Error>>(
        &mut self,
        version: Option<Version>,
        sending: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Error> {
        let (watch, sent) = (self.watch, &self.shared.sent);
        let note = |values| {
            if let Some(version) = version {
                sent.note(version, values);
            }
        };
        let noted = |values| async move { note(values) };
        let sending = watch.with_groups(NOTING, sending, noted);
        let recorded = |_| std::future::ready(Ok(()));
        let done = self.reporter.run(watch, sending, recorded).await;
        // One that was aborted was dropped.
        note(watch.take_groups());
        if let (Some(version), true) = (version, done.is_ok()) {
            sent.forget(version);
        }
        done
    }
}
