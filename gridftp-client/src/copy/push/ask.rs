//! Asks for stores: opens the source, names the held bytes.

use std::sync::Arc;

use byte_ranges::{Range64, RangeSet};
use ftp_wire::command::{Command, Mode, Restart, Spot};
use ftp_wire::path::FtpPath;
use ftp_wire::receipt::Extent;
use gridftp_data::Earlier;
use gridftp_dsi::types::ChecksumAlgorithm;
use gridftp_dsi_posix::FileSource;

use crate::abilities::{Abilities, Tags};
use crate::control::{Control, Replies};
use crate::copy::Stop;
use crate::copy::hidden::StorePath;
use crate::copy::job::{FileJob, ReadBack};
use crate::copy::kept::{Announced, Copy, Digest, Kept, Original, restart_of};
use crate::copy::making::{Dirs, make_parents};
use crate::copy::queue::Taken;
use crate::copy::source::LocalSource;
use crate::copy::state::CopyState;
use crate::copy::window::Window;
use crate::error::{ControlError, TransferError};
use crate::names;
use crate::transfer::Transfer;
use crate::verify;

use super::{ANNOUNCED, Asked, local};

/// Asks for stores on one connection.
pub(super) struct Asker<'a> {
    pub(super) control: &'a Control,
    pub(super) abilities: &'a Abilities,
    pub(super) shared: &'a Arc<CopyState>,
    pub(super) algorithm: Option<ChecksumAlgorithm>,
    pub(super) mode: Mode,
    /// The tags of the session, where stores have one.
    pub(super) tags: Option<&'a Tags>,
    /// Their numbers, also where stores of one file have none.
    pub(super) numbers: &'a Tags,
    pub(super) window: &'a Window,
}

impl Asker<'_> {
    /// Asks for a store; `None` when there is nothing to store, or something comes before it.
    pub(super) async fn ask(&self, taken: Taken, dirs: &mut Dirs) -> Option<Asked> {
        let (mut taken, goal) = self
            .shared
            .admit(taken, None, (self.control, self.abilities))
            .await?;
        let prepared = match self.prepare(taken.file_mut(), &goal.path, dirs).await {
            Ok(Some(prepared)) => prepared,
            Ok(None) => return None,
            Err(error) => {
                self.shared.fail(taken, &error);
                return None;
            }
        };
        Some(self.store(taken, goal, prepared).await)
    }

    /// Opens a source and learns which bytes of it the server has; `None` where the job goes back,
    /// for another hidden name or to have its bytes read back.
    async fn prepare(
        &self,
        job: &mut FileJob,
        to: &FtpPath,
        dirs: &mut Dirs,
    ) -> Result<Option<Prepared>, TransferError> {
        let (control, shared) = (self.control, self.shared);
        let source = shared.open_source(job).await?;
        if !source.is_same
            && let Some(at) = job.hidden.take()
        {
            shared.leave_version(job, at).await;
            return Ok(None);
        }
        let whole = !shared.is_partial();
        let (kept, earlier) = self.kept(job, to, &source).await;
        if job.read_back == ReadBack::Due {
            return Ok(None);
        }
        let parent = names::parent(&job.to);
        drop(make_parents(control, shared, parent, &mut dirs.told));
        let proof = kept.as_ref().and_then(|kept| kept.announce.clone());
        let digest = match (proof, self.algorithm) {
            (None, Some(algorithm)) if whole && self.abilities.held => {
                let path = local(&job.from);
                let _hashing = shared.totals.hash_here();
                Some((algorithm, verify::local(path, algorithm, 0, None).await?))
            }
            (proof, _) => proof,
        };
        Ok(Some(Prepared {
            source: source.file,
            part: source.part,
            kept,
            digest,
            earlier,
        }))
    }

    /// The bytes of a source that the server has, and their values, where a tagged store is to tell
    /// the digest of the whole file.
    async fn kept(
        &self,
        job: &mut FileJob,
        to: &FtpPath,
        source: &LocalSource,
    ) -> (Option<Kept>, Option<Earlier>) {
        let shared = self.shared;
        let whole = !shared.is_partial();
        let gaps = self.has_gaps();
        let goes_on = source.is_same && job.begun && !job.anew && !shared.through_layers();
        let from = job.from.clone();
        let original = Original::Here(local(&from));
        let mut copy = Copy {
            control: self.control,
            abilities: self.abilities,
            path: to,
            part: source.part,
            whole,
            goes_on,
            recalled: job.recalled,
            shared,
        };
        if let ReadBack::Done { ends } = job.read_back {
            return (copy.compared(job, self.mode, ends).await, None);
        }
        let proves = self.tags.is_some() && shared.extent() == Extent::Whole && whole;
        if gaps {
            copy.take_recorded(job, &original, self.mode).await;
        }
        let earlier = match proves {
            true => job.earlier(&source.file).await,
            false => None,
        };
        let is_known = earlier.as_ref().is_some_and(Earlier::is_known);
        let kept = if is_known && !job.held.is_empty() {
            Kept::of_proven(&job.held)
        } else if gaps {
            copy.told(&job.held, &original).await
        } else if goes_on {
            copy.kept(&original).await
        } else {
            None
        };
        if kept.is_none() && goes_on && copy.is_readable(job, self.mode, &original) {
            job.read_back = ReadBack::Due;
        }
        // They are those of the bytes that the transfer leaves out.
        let left_out = kept.as_ref().map(|kept| &kept.held);
        let is_all = left_out.unwrap_or(&RangeSet::new()) == &job.held;
        (kept, earlier.filter(|_| is_all))
    }

    /// Whether the data leaves out all ranges that the server tells to hold.
    fn has_gaps(&self) -> bool {
        let tagged = self.tags.is_some();
        self.shared.has_gaps_at(self.abilities, self.mode, tagged)
    }

    /// Sends for the store, with all that goes before it.
    async fn store(&self, mut taken: Taken, goal: StorePath, prepared: Prepared) -> Asked {
        let (control, whole) = (self.control, !self.shared.is_partial());
        let (offset, length) = prepared.part;
        // In MODE S without a tag a connection that is cut off looks like the end of the file. A tag
        // tells the size along.
        let worth = length >= ANNOUNCED || (self.mode == Mode::Stream && self.abilities.held);
        if worth && (self.tags.is_none() || !whole) {
            // A server that sees no use in it says so, and the store goes on.
            drop(control.send(Command::Allo(length)));
        }
        let mut announced = prepared
            .digest
            .map(|digest| Announced::send(control, digest));
        let server = (control, self.abilities);
        let is_hidden = goal.hidden.is_some();
        (self.shared).keep_existing(server, taken.file_mut(), is_hidden);
        // RFC 959 §4.1.3: nothing comes between REST and the store.
        let was_kept = prepared.kept.is_some();
        let how = match prepared.kept {
            None => How::default(),
            Some(kept) if self.mode == Mode::Extended => How {
                rest: Some(control.send(Command::Rest(Restart::Ranges(kept.held.clone())))),
                held: kept.held,
                after: kept.after,
                append: false,
            },
            Some(kept) => self.go_on(kept, &mut announced).await,
        };
        // The server tells held ranges in wire offsets; the source's begin at the part's offset.
        let mut ranges: RangeSet = Range64::from_len(offset, length).into_iter().collect();
        for range in &how.held.shift_up(offset).unwrap_or_default() {
            ranges.remove(range);
        }
        let job = taken.file_mut();
        self.shared.tell_recalled(job, how.held.total());
        job.begun = true;
        job.hidden.clone_from(&goal.hidden);
        self.shared
            .renew_note(job, self.abilities, (None, true))
            .await;
        let tag = self.tags.map(|tags| tags.next(self.shared.extent()));
        // All bytes are sent where the server does not go on with those that it has.
        let goes_on = !was_kept || !how.held.is_empty();
        let spot = match whole {
            _ if how.append => Spot::End,
            true => Spot::Sized(length),
            false => Spot::At(offset),
        };
        let replies = control.send(Command::store(goal.path, spot, tag));
        let job = taken.file();
        let transfer = Transfer::upload(replies, &job.to).with_file(&job.from);
        Asked {
            taken,
            source: prepared.source,
            earlier: prepared.earlier.filter(|_| goes_on),
            ranges,
            base: offset,
            rest: how.rest,
            resumes: !how.held.is_empty(),
            after: how.after,
            announced,
            hidden: goal.hidden,
            transfer,
            tag,
            _under_way: self.window.enter(length),
        }
    }

    /// Has the server go on in MODE S with the bytes that it kept, if it will.
    async fn go_on(&self, kept: Kept, announced: &mut Option<Announced>) -> How {
        if kept.announce.is_some()
            && let Some(sent) = announced.take()
        {
            match sent.taken().await {
                Ok(taken) => *announced = Some(taken),
                Err(_) => return How::default(),
            }
        }
        let rest = restart_of(&kept.held, self.has_gaps());
        let may_append = kept.ends && !self.shared.is_partial() && self.tags.is_none();
        let append = match self.control.send(Command::Rest(rest)).finish().await {
            Ok(_) => false,
            Err(ControlError::Refused { .. }) if may_append && announced.is_none() => true,
            Err(_) => return How::default(),
        };
        How {
            held: kept.held,
            rest: None,
            after: kept.after,
            append,
        }
    }
}

/// A source that is open, and the state of its copy.
struct Prepared {
    source: FileSource,
    /// Offset and length of the copied part.
    part: (u64, u64),
    kept: Option<Kept>,
    /// Digest that is announced to the server.
    digest: Option<Digest>,
    /// The values of the source's bytes that the server has, for the digest of a tagged store.
    earlier: Option<Earlier>,
}

/// The way a store continues behind the server's bytes.
#[derive(Default)]
struct How {
    /// The held ranges, in wire offsets.
    held: RangeSet,
    rest: Option<Replies>,
    /// Algorithm to compare the copy with afterwards.
    after: Option<ChecksumAlgorithm>,
    /// Whether the server adds to the end, and knows no `REST`.
    append: bool,
}

/// Reads the reply to `REST`; gives the refusal when the server does not hold the ranges after all.
pub(super) async fn settle_rest(asked: &mut Asked) -> Result<Option<ControlError>, Stop> {
    let Some(mut rest) = asked.rest.take() else {
        return Ok(None);
    };
    match rest.finish().await {
        Ok(_) => Ok(None),
        Err(refused @ ControlError::Refused { .. }) => Ok(Some(refused)),
        Err(error) => Err(Stop::Lost(error.into())),
    }
}
