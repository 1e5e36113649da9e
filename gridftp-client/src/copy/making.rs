//! Makes directories at a server, ahead of the files that are stored in them.

use std::sync::Arc;

use ftp_proto::client::FailureKind;
use ftp_wire::command::Command;
use ftp_wire::facts::EntryKind;

use super::admission::Server;
use super::job::Item;
use super::known::Known;
use super::queue::Taken;
use super::state::CopyState;
use super::window::Window;
use crate::client::parse_mlst;
use crate::control::{Control, Replies};
use crate::error::{ControlError, TransferError};
use crate::names;

/// The directories of one connection.
#[derive(Default)]
pub(crate) struct Dirs {
    /// Those that it has sent for.
    pub(crate) told: Known,
    /// Counts those without a reply: a session takes only so many commands, and a tree has
    /// as many directories as it likes.
    making: Window,
}

/// Sends `MKD` for the directories that are not known, from the top; servers run commands in order,
/// so nothing need be awaited. Gives the reply for `dir` itself, when it was sent for.
pub(crate) fn make_parents(
    control: &Control,
    shared: &CopyState,
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

/// The making of a directory.
pub(crate) struct Making(Result<Option<Sent>, TransferError>);

/// The commands that make a directory.
struct Sent {
    made: Replies,
    /// The object that is there then.
    look: Replies,
}

impl Making {
    /// Makes nothing.
    pub(crate) fn nothing() -> Self {
        Self(Ok(None))
    }

    /// Sends the commands for `dir`, and the question for its facts: only those tell a directory
    /// that was there from a file. Nothing need be sent for one that is known, or in a dry run.
    pub(crate) fn send(
        control: &Control,
        shared: &CopyState,
        dir: &[u8],
        told: &mut Known,
    ) -> Self {
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

    /// Reads the replies; servers say in many ways that a directory is there already, so a refusal
    /// is one that names another cause, or that is not followed by the word that a directory is
    /// there. Gives whether it is new.
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

/// Tells a directory that would be made at the server.
async fn plan_dir(server: Server<'_>, shared: &CopyState, dir: &[u8]) -> Result<(), TransferError> {
    let dir = names::trim_slashes(dir);
    shared.check_parents(dir, Some(server)).await?;
    shared.plan_dirs(dir, Some(server)).await
}

/// Makes a directory at the server, or tells it in a dry run, once few enough others are under way.
pub(crate) async fn make_dir(
    server: Server<'_>,
    shared: &Arc<CopyState>,
    taken: Taken,
    dirs: &mut Dirs,
) {
    let (control, _) = server;
    let Item::Dir(job) = taken.item() else { return };
    if shared.options.dry_run {
        return match plan_dir(server, shared, &job.to).await {
            Ok(()) => taken.done(drop),
            Err(error) => shared.fail(taken, &error),
        };
    }
    dirs.making.room().await;
    let dir = names::trim_slashes(&job.to);
    // After a failure it may be noted although it was never made.
    if job.failures > 0 {
        dirs.told.remove(dir);
    }
    if let Err(error) = shared.check_parents(dir, Some(server)).await {
        return shared.fail(taken, &error);
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
