//! Goes on with the bytes that the destination has of a file after a broken copy.

use byte_ranges::RangeSet;
use ftp_wire::command::{Command, Mode};
use ftp_wire::path::FtpPath;
use ftp_wire::receipt::Extent;

use super::Pair;
use crate::control::Replies;
use crate::copy::job::{Agreement, FileJob, ReadBack};
use crate::copy::kept::{Announced, Copy, Digest, Kept, Original, awake, restart_of};
use crate::error::ControlError;

impl Pair<'_> {
    /// The destination's bytes of a file with an unchanged source: by its markers, by its reply, or
    /// read back before. Where they have to be read back first, the job returns to the queue.
    pub(super) async fn kept(
        &self,
        job: &mut FileJob,
        from: &FtpPath,
        to: &FtpPath,
    ) -> Option<Kept> {
        let mut copy = Copy {
            control: self.destination,
            abilities: self.abilities.1,
            path: to,
            part: (
                self.shared.options.offset.unwrap_or(0),
                self.shared.expected(job)?,
            ),
            whole: !self.shared.is_partial(),
            goes_on: true,
            recalled: job.recalled,
            shared: self.shared,
        };
        if let ReadBack::Done { ends } = job.read_back {
            return copy.compared(job, self.mode, ends).await;
        }
        // The destination publishes such a copy only with the digest that the source tells behind the
        // data; the source has the values of earlier ranges in memory, or reads them. After a
        // mismatch, or without a told digest, the digest is announced.
        let tells = job.agreement != Agreement::AtServer;
        let tells = tells && self.tags.is_some() && self.shared.extent() == Extent::Whole;
        let original = Original::There(self.source, self.abilities.0, from);
        let gaps = self.has_gaps();
        if gaps {
            copy.take_recorded(job, &original, self.mode).await;
        }
        if tells && copy.whole && self.abilities.1.held {
            return Kept::of_proven(&job.held);
        }
        let kept = match gaps {
            true => copy.told(&job.held, &original).await,
            false => copy.kept(&original).await,
        };
        let is_readable = self.reads_back() && copy.is_readable(job, self.mode, &original);
        if kept.is_none() && is_readable {
            job.read_back = ReadBack::Due;
        }
        kept
    }

    /// Whether the bytes of the destination can be sent to this machine: servers with Grid security of
    /// data may have been told to accept nobody but each other.
    pub(super) fn reads_back(&self) -> bool {
        !self.handshake
    }

    /// Whether the data leaves out all ranges that the destination tells to hold.
    fn has_gaps(&self) -> bool {
        let tagged = self.tags.is_some();
        let destination = self.abilities.1;
        self.shared.has_gaps_at(destination, self.mode, tagged)
    }

    /// The `REST` for the held ranges, if there are any.
    pub(super) fn restart(&self, held: &RangeSet) -> Option<Command> {
        let rest = || Command::Rest(restart_of(held, self.has_gaps()));
        (!held.is_empty()).then(rest)
    }

    /// Waits for the source's first reply, while NOOPs keep the destination's session: the source may
    /// read the held ranges first.
    pub(super) async fn begun(&self, retrieve: &mut Replies) -> Result<(), ControlError> {
        awake(self.destination, retrieve.begin()).await
    }

    /// Has the destination go on with its bytes, which `ends` says to be all; says whether it adds to
    /// the end instead, because it knows no `REST`.
    pub(super) async fn go_on(
        &self,
        held: &RangeSet,
        ends: bool,
        proof: Option<Digest>,
    ) -> Result<(Option<Announced>, bool), ControlError> {
        let Some(rest) = self.restart(held) else {
            return Ok((None, false));
        };
        let mut announced = None;
        if let Some(digest) = proof {
            announced = Some(Announced::send(self.destination, digest).taken().await?);
        }
        // What is added to the end is not the whole file, whose digest the source tells.
        let may_append = ends && self.mode == Mode::Stream && self.tags.is_none();
        let append = may_append && announced.is_none() && !self.shared.is_partial();
        match self.destination.send(rest).finish().await {
            Err(ControlError::Refused { .. }) if append => Ok((None, true)),
            Err(error) => Err(error),
            Ok(_) => Ok((announced, false)),
        }
    }
}
