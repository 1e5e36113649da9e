//! Asks for stores: opens the source, makes directories, says what is held already.

use std::sync::Arc;

use byte_ranges::{Range64, RangeSet};
use ftp_proto::client::FailureKind;
use ftp_wire::command::{Command, Mode, Restart, Spot};
use ftp_wire::facts::EntryKind;
use ftp_wire::path::FtpPath;
use gridftp_dsi::Source as _;
use gridftp_dsi::types::ChecksumAlgorithm;
use gridftp_dsi_posix::FileSource;

use crate::abilities::{Abilities, Tags};
use crate::client::parse_mlst;
use crate::control::{Control, Replies};
use crate::copy::Stop;
use crate::copy::hidden::Goal;
use crate::copy::job::{Facts, FileJob, Item};
use crate::copy::kept::{Announced, Copy, Digest, Kept, Original};
use crate::copy::known::Known;
use crate::copy::queue::Taken;
use crate::copy::shared::Shared;
use crate::copy::window::Window;
use crate::error::{ControlError, TransferError};
use crate::names;
use crate::verify;

use super::{ANNOUNCED, Asked, local};

/// The directories of one connection.
#[derive(Default)]
pub(super) struct Dirs {
    /// Those that it has sent for.
    told: Known,
    /// Counts those whose replies are not here: a session takes only so many commands, and a tree has
    /// as many directories as it likes.
    making: Window,
}

/// Asks for stores on one connection.
pub(super) struct Asker<'a> {
    pub(super) control: &'a Control,
    pub(super) abilities: &'a Abilities,
    pub(super) shared: &'a Arc<Shared>,
    pub(super) algorithm: Option<ChecksumAlgorithm>,
    pub(super) mode: Mode,
    /// The tags of the session, where stores have one.
    pub(super) tags: Option<&'a Tags>,
    pub(super) window: &'a Window,
}

impl Asker<'_> {
    /// Asks for a store; `None` when there is nothing to store.
    pub(super) async fn ask(&self, taken: Taken, dirs: &mut Dirs) -> Option<Asked> {
        let (mut taken, goal) = self
            .shared
            .admit(taken, (self.control, self.abilities))
            .await?;
        let Item::File(job) = taken.item_mut() else {
            return None;
        };
        let prepared = match self.prepare(job, &goal.path, dirs).await {
            Ok(prepared) => prepared,
            Err(error) => {
                self.shared.fail(taken, &error);
                return None;
            }
        };
        Some(self.store(taken, goal, prepared).await)
    }

    /// Opens a source and learns what the server has of it.
    async fn prepare(
        &self,
        job: &mut FileJob,
        to: &FtpPath,
        dirs: &mut Dirs,
    ) -> Result<Prepared, TransferError> {
        let (control, shared) = (self.control, self.shared);
        let path = local(&job.from);
        let source = FileSource::open(path).await;
        let source = source.map_err(|error| TransferError::local("read", &job.from, error))?;
        // What was found may be long ago, and what is carried over is to be what is read.
        let now = Facts::of_source(&source);
        match source.size() {
            _ if job.has_shrunk(&now) => return Err(shared.shrunk(job, &now)),
            0 => crate::local::check_empty(path).await?,
            _ => {}
        }
        let same = now.is_same_as(&job.facts);
        job.facts = now;
        if !same || (job.begun && shared.through_layers()) {
            job.forget();
        }
        let options = &shared.options;
        let offset = options.offset.unwrap_or(0).min(source.size());
        let length = options
            .length
            .unwrap_or(u64::MAX)
            .min(source.size() - offset);
        let whole = !shared.is_partial();
        let copy = Copy {
            control,
            abilities: self.abilities,
            path: to,
            part: (offset, length),
            whole,
        };
        let path = local(&job.from);
        let original = Original::Here(path);
        let kept = if self.mode == Mode::Extended {
            copy.told(&job.held, &original).await
        } else if same && job.begun && !job.anew && !shared.through_layers() {
            copy.kept(&original).await
        } else {
            None
        };
        let parent = names::parent(&job.to);
        drop(make_parents(control, shared, parent, &mut dirs.told));
        let proof = kept.as_ref().and_then(|kept| kept.announce.clone());
        let digest = match (proof, self.algorithm) {
            (None, Some(algorithm)) if whole && self.abilities.held => {
                Some((algorithm, verify::local(path, algorithm, 0, None).await?))
            }
            (proof, _) => proof,
        };
        Ok(Prepared {
            source,
            part: (offset, length),
            kept,
            digest,
        })
    }

    /// Sends for the store, with all that goes before it.
    async fn store(&self, mut taken: Taken, goal: Goal, prepared: Prepared) -> Asked {
        let (control, whole) = (self.control, !self.shared.is_partial());
        let (offset, length) = prepared.part;
        // In MODE S a connection that is cut off looks like the end of the file. A tag tells the size along.
        let worth = length >= ANNOUNCED || (self.mode == Mode::Stream && self.abilities.held);
        if worth && (self.tags.is_none() || !whole) {
            // A server that sees no use in it says so, and the store goes on.
            drop(control.send(Command::Allo(length)));
        }
        let mut announced = prepared
            .digest
            .map(|digest| Announced::send(control, digest));
        // RFC 959 §4.1.3: nothing comes between REST and the store.
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
        // What is held, the server tells in wire offsets; the source's begin at the part's offset.
        let mut ranges: RangeSet = Range64::from_len(offset, length).into_iter().collect();
        for range in &how.held.shift_up(offset).unwrap_or_default() {
            ranges.remove(range);
        }
        if let Item::File(job) = taken.item_mut() {
            job.begun = true;
            job.hidden.clone_from(&goal.hidden);
        }
        let tag = self.tags.map(Tags::next);
        let spot = match whole {
            _ if how.append => Spot::End,
            true => Spot::Sized(length),
            false => Spot::At(offset),
        };
        let replies = control.send(Command::store(goal.path, spot, tag));
        Asked {
            taken,
            source: prepared.source,
            ranges,
            base: offset,
            rest: how.rest,
            resumes: !how.held.is_empty(),
            after: how.after,
            announced,
            hidden: goal.hidden,
            replies,
            tag,
            under_way: self.window.enter(length),
        }
    }

    /// Has the server go on in MODE S with what it kept, if it will.
    async fn go_on(&self, kept: Kept, announced: &mut Option<Announced>) -> How {
        if kept.announce.is_some()
            && let Some(sent) = announced.take()
        {
            match sent.taken().await {
                Ok(taken) => *announced = Some(taken),
                Err(_) => return How::default(),
            }
        }
        let rest = Command::Rest(Restart::Offset(kept.held.first_hole()));
        let append = match self.control.send(rest).finish().await {
            Ok(_) => false,
            Err(ControlError::Refused { .. })
                if !self.shared.is_partial() && announced.is_none() =>
            {
                true
            }
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

/// A source that is open, and what is known of its copy.
struct Prepared {
    source: FileSource,
    /// Where the copied part begins, and its length.
    part: (u64, u64),
    kept: Option<Kept>,
    /// Digest that is announced to the server.
    digest: Option<Digest>,
}

/// How a store goes on with what the server has.
#[derive(Default)]
struct How {
    /// What is there, in wire offsets.
    held: RangeSet,
    rest: Option<Replies>,
    /// Algorithm to compare the copy with afterwards.
    after: Option<ChecksumAlgorithm>,
    /// Whether the server adds to the end, and knows no `REST`.
    append: bool,
}

/// Sends `MKD` for what is not known to be there, from the top; servers run commands in order, so
/// nothing need be awaited. Gives the reply for `dir` itself, when it was sent for.
pub(crate) fn make_parents(
    control: &Control,
    shared: &Shared,
    dir: &[u8],
    told: &mut Known,
) -> Option<Replies> {
    let mut missing = Vec::new();
    let mut at = dir;
    while !at.is_empty() && at != b"/" && at != b"~" && !told.contains(at) && !shared.is_made(at) {
        missing.push(at);
        at = names::parent(at);
    }
    let mut last = None;
    for dir in missing.into_iter().rev() {
        last = control
            .path(dir)
            .map(|path| control.send(Command::Mkd(path)));
        told.insert(dir);
    }
    last
}

/// What was done to make a directory.
pub(crate) struct Making(Result<Option<Sent>, TransferError>);

/// What was sent to make a directory.
struct Sent {
    made: Replies,
    /// What is there then.
    look: Replies,
}

impl Making {
    /// Makes nothing.
    pub(crate) fn nothing() -> Self {
        Self(Ok(None))
    }

    /// Sends what makes `dir`, and the question what it is then: only that tells a directory that
    /// was there from a file. Nothing need be sent for one that is known, or in a dry run.
    pub(crate) fn send(control: &Control, shared: &Shared, dir: &[u8], told: &mut Known) -> Self {
        let Some(path) = control.path(dir) else {
            return Self(Err(TransferError::unsendable(dir)));
        };
        if shared.options.dry_run {
            return Self::nothing();
        }
        Self(Ok(make_parents(control, shared, dir, told).map(|made| {
            let look = control.send(Command::Mlst(Some(path)));
            Sent { made, look }
        })))
    }

    /// Reads the replies; servers say in many ways that a directory is there already, so a refusal is
    /// one that names another cause, or that is not followed by the word that a directory is there.
    /// Gives whether it is new.
    pub(crate) async fn settle(self) -> Result<bool, TransferError> {
        let Some(Sent { mut made, mut look }) = self.0? else {
            return Ok(false);
        };
        let error = match made.finish().await {
            // RFC 959 §4.2: 257 alone says that it was created.
            Ok(reply) => return Ok(reply.code().number() == 257),
            Err(error @ ControlError::Refused { .. }) => error,
            Err(error) => return Err(error.into()),
        };
        let other = matches!(
            error.kind(),
            Some(
                FailureKind::Denied
                    | FailureKind::NoSpace
                    | FailureKind::NotADirectory
                    | FailureKind::NotFound
            )
        );
        let there = match look.finish().await {
            Ok(reply) => parse_mlst(&reply).is_none_or(|(entry, _)| entry.kind != EntryKind::File),
            // One that cannot tell is believed.
            Err(refused @ ControlError::Refused { .. }) => {
                refused.kind() == Some(FailureKind::Unsupported)
            }
            Err(lost) => return Err(lost.into()),
        };
        if other || !there {
            return Err(error.into());
        }
        Ok(false)
    }
}

/// Makes a directory at the server, once few enough others are under way.
pub(super) async fn make_dir(
    control: &Control,
    shared: &Arc<Shared>,
    taken: Taken,
    dirs: &mut Dirs,
) {
    let Item::Dir(job) = taken.item() else { return };
    dirs.making.room().await;
    let dir = names::trim_slashes(&job.to);
    // After a failure it may be known as told although it was never made.
    if job.failures > 0 {
        dirs.told.remove(dir);
    }
    let made = Making::send(control, shared, dir, &mut dirs.told);
    let under_way = dirs.making.enter(0);
    let shared = Arc::clone(shared);
    // The item stays open until the reply is here; files need not wait for it.
    tokio::spawn(async move {
        let made = made.settle().await;
        drop(under_way);
        match made {
            Ok(new) => taken.done(|item| {
                if let Item::Dir(job) = item {
                    if new {
                        shared.hiding.note_new(names::trim_slashes(&job.to));
                    }
                    shared.note_dir(*job);
                }
            }),
            Err(error) => shared.fail(taken, &error),
        }
    });
}

/// Reads the reply to `REST`; gives the refusal when the server does not hold what it said it held.
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
