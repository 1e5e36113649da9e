//! Asks for stores: opens the source, makes directories, says what is held already.

use std::collections::HashSet;
use std::sync::Arc;

use byte_ranges::{Range64, RangeSet};
use ftp_proto::client::FailureKind;
use ftp_wire::command::{Command, Esto, Mode, Restart};
use gridftp_dsi::Source as _;
use gridftp_dsi_posix::FileSource;

use crate::control::{Control, Replies};
use crate::copy::Stop;
use crate::copy::job::Item;
use crate::copy::queue::Taken;
use crate::copy::shared::Shared;
use crate::copy::window::Window;
use crate::error::{ControlError, TransferError};
use crate::local::modified;
use crate::names;
use crate::url::show;

use super::{ANNOUNCED, Asked, local};

/// Asks for a store; `None` when there is nothing to store.
pub(super) async fn ask(
    control: &Control,
    shared: &Arc<Shared>,
    mut taken: Taken,
    mode: Mode,
    window: &Window,
    told: &mut HashSet<Vec<u8>>,
) -> Option<Asked> {
    if shared.options.dry_run {
        shared.plan(taken);
        return None;
    }
    let Item::File(job) = taken.item_mut() else {
        return None;
    };
    shared.start(job);
    let Some(to) = control.path(&job.to) else {
        let error = TransferError::BadName {
            name: show(&job.to),
            why: "no command to this server can carry it",
        };
        shared.fail(taken, &error);
        return None;
    };
    if shared.options.no_clobber {
        match control.exists(&to).await {
            Ok(false) => {}
            Ok(true) => {
                shared.skip(taken, "it exists");
                return None;
            }
            Err(error) => {
                shared.fail(taken, &error.into());
                return None;
            }
        }
    }
    let source = match FileSource::open(local(&job.from)).await {
        Ok(source) => source,
        Err(error) => {
            let error = TransferError::local("read", &job.from, error);
            shared.fail(taken, &error);
            return None;
        }
    };
    if !job.held.is_empty() {
        // What the server holds is of no use when the source has been written to since.
        let path = local(&job.from).to_owned();
        let look = tokio::task::spawn_blocking(move || std::fs::metadata(path)).await;
        let modified = look.ok().and_then(Result::ok).map(|meta| modified(&meta));
        if modified.is_none() || modified != job.facts.modified {
            job.forget();
            job.facts.modified = modified;
        }
    }
    if job.facts.size != Some(source.size()) {
        job.forget();
        job.facts.size = Some(source.size());
    }
    let offset = shared.options.offset.unwrap_or(0).min(source.size());
    let length = shared
        .options
        .length
        .unwrap_or(u64::MAX)
        .min(source.size() - offset);
    // What is held, the server tells in wire offsets; the source's begin at the part's offset.
    let held = if mode == Mode::Extended {
        job.held.shift_up(offset)
    } else {
        None
    }
    .unwrap_or_default();
    let whole: RangeSet = Range64::from_len(offset, length).into_iter().collect();
    let mut ranges = whole;
    for range in &held {
        ranges.remove(range);
    }
    drop(make_parents(control, shared, names::parent(&job.to), told));
    let restart = (!held.is_empty() && mode == Mode::Extended)
        .then(|| control.send(Command::Rest(Restart::Ranges(job.held.clone()))));
    if length >= ANNOUNCED {
        // A server that sees no use in it says so, and the store goes on.
        drop(control.send(Command::Allo(length)));
    }
    let command = if shared.is_partial() {
        Command::Esto(Esto::Adjusted { offset }, to)
    } else {
        Command::Stor(to)
    };
    let replies = control.send(command);
    let under_way = window.enter(length);
    Some(Asked {
        taken,
        source,
        ranges,
        base: offset,
        rest: restart,
        replies,
        under_way,
    })
}

/// Sends `MKD` for what is not known to be there, from the top; servers run commands in order, so
/// nothing need be awaited. Gives the reply for `dir` itself, when it was sent for.
pub(crate) fn make_parents(
    control: &Control,
    shared: &Shared,
    dir: &[u8],
    told: &mut HashSet<Vec<u8>>,
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
        told.insert(dir.to_vec());
    }
    last
}

/// Reads the reply to `MKD`; servers say in many ways that a directory is there already, so only a
/// refusal that names another cause is one.
pub(crate) async fn settle_dir(made: Option<Replies>) -> Result<(), TransferError> {
    let Some(mut made) = made else { return Ok(()) };
    match made.finish().await {
        Err(error)
            if matches!(
                error.kind(),
                Some(
                    FailureKind::Denied
                        | FailureKind::NoSpace
                        | FailureKind::NotADirectory
                        | FailureKind::NotFound
                )
            ) =>
        {
            Err(error.into())
        }
        Err(error @ (ControlError::Lost { .. } | ControlError::Misbehaved { .. })) => {
            Err(error.into())
        }
        _ => Ok(()),
    }
}

/// Makes a directory at the server.
pub(super) fn make_dir(
    control: &Control,
    shared: &Arc<Shared>,
    taken: Taken,
    told: &mut HashSet<Vec<u8>>,
) {
    let Item::Dir(job) = taken.item() else { return };
    let dir = names::trim_slashes(&job.to);
    // After a failure it may be known as told although it was never made.
    if job.failures > 0 {
        told.remove(dir);
    }
    if control.path(dir).is_none() {
        let error = TransferError::BadName {
            name: show(dir),
            why: "no command to this server can carry it",
        };
        shared.totals.found(None);
        return shared.fail(taken, &error);
    }
    let made = match shared.options.dry_run {
        true => None,
        false => make_parents(control, shared, dir, told),
    };
    let shared = Arc::clone(shared);
    // The item stays open until the reply is here; files need not wait for it.
    tokio::spawn(async move {
        match settle_dir(made).await {
            Ok(()) => {
                if let Item::Dir(job) = taken.done() {
                    shared.note_dir(*job);
                }
            }
            Err(error) => {
                shared.totals.found(None);
                shared.fail(taken, &error);
            }
        }
    });
}

/// Reads the reply to `REST`; false when the server does not hold what it said it held.
pub(super) async fn settle_rest(asked: &mut Asked) -> Result<bool, Stop> {
    let Some(mut rest) = asked.rest.take() else {
        return Ok(true);
    };
    match rest.finish().await {
        Ok(_) => Ok(true),
        Err(ControlError::Refused { .. }) => Ok(false),
        Err(error) => Err(Stop::Lost(error.into())),
    }
}
