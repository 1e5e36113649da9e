//! The server's word on each stored file, and what follows a good one: digests, times, modes.

use std::sync::Arc;

use ftp_wire::command::{Command, Site};
use ftp_wire::path::FtpPath;
use gridftp_dsi::Source as _;
use gridftp_dsi::types::ChecksumAlgorithm;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::abilities::Abilities;
use crate::control::Control;
use crate::copy::Stop;
use crate::copy::ending::Success;
use crate::copy::kept::judge;
use crate::copy::shared::Shared;
use crate::copy::window::COMMANDS;
use crate::error::{ControlError, TransferError, lacks_channel};
use crate::transfer::{Failure, Session};
use crate::url::show;
use crate::verify;

use super::{Following, Hidden, Publishing, Sending, Told, fail, file, local, markers};

/// Waits for the server's word on each file, and sends what follows a good one.
pub(super) async fn confirm(
    server: (&Control, &Abilities),
    shared: &Arc<Shared>,
    mut sent: mpsc::Receiver<Sending>,
    following: mpsc::Sender<Following>,
    algorithm: Option<ChecksumAlgorithm>,
    broken: &CancellationToken,
) -> Result<(), Stop> {
    let mut ended = Ok(());
    while let Some(mut file) = sent.recv().await {
        if ended.is_err() {
            let told = settle(&mut file).await;
            let lacks = told.as_ref().is_err_and(lacks_channel);
            // It waited behind the one that broke the channel, which pays for it.
            if lacks && !file.replies.has_begun() {
                continue;
            }
            file.ended = Some(told);
        }
        match confirm_one(server, shared, file, algorithm).await {
            Ok(Some(next)) => {
                let _gone = following.send(next).await;
            }
            Ok(None) => {}
            Err(stop) => {
                broken.cancel();
                if !matches!(ended, Err(Stop::Lost(_))) {
                    ended = Err(stop);
                }
            }
        }
    }
    ended
}

/// The server's word on one file.
async fn settle(file: &mut Sending) -> Result<Told, ControlError> {
    match file.ended.take() {
        Some(told) => told,
        None => markers(&mut file.taken, &mut file.replies).await,
    }
}

/// Waits for the server's word on one file.
pub(super) async fn confirm_one(
    (control, abilities): (&Control, &Abilities),
    shared: &Arc<Shared>,
    mut sending: Sending,
    algorithm: Option<ChecksumAlgorithm>,
) -> Result<Option<Following>, Stop> {
    let told = settle(&mut sending).await;
    let Sending {
        taken,
        source,
        base,
        size,
        resumes,
        mut after,
        announced,
        hidden,
        replies,
        ask_size,
        sent,
        ..
    } = sending;
    let told = match told {
        Ok(told) => told,
        Err(error) => {
            let lost = matches!(error, ControlError::Lost { .. });
            // A server that knows data by its tag keeps the connections; any other drops them.
            let of_data = sent.is_none() || lacks_channel(&error);
            let copy = || shared.name_destination(file(&taken));
            let session = match (lost, of_data) {
                (true, _) => Session::Lost,
                (false, true) => Session::ChannelBroken,
                (false, false) => Session::Reusable,
            };
            let error = judge(error, announced.as_ref(), copy);
            let failure = Failure::of(&replies, error, session);
            let resumes = resumes && !replies.has_begun();
            return fail(shared, taken, failure, resumes).map(|()| None);
        }
    };
    if let Some(sent) = sent {
        let checked = match told {
            Some(told) => verify::receipt(&sent, &told, || shared.name_destination(file(&taken))),
            None => Err(replies.misbehaved("no receipt in the reply").into()),
        };
        match checked {
            Ok(true) => {}
            Ok(false) => after = after.or(Some(ChecksumAlgorithm::Crc32c)),
            Err(error) => {
                let failure = Failure::midway(error, Session::ChannelBroken);
                return shared.fail_transfer(taken, failure).map(|()| None);
            }
        }
    }
    if source.unchanged().await.is_err() {
        let error = TransferError::Changed {
            path: show(&file(&taken).from),
        };
        shared.fail(taken, &error);
        return Ok(None);
    }
    let job = file(&taken);
    let Some(to) = FtpPath::new(job.to.clone()) else {
        return Ok(None);
    };
    // It is judged under the name that it has, and gets its own when it is good.
    let at = hidden.clone().unwrap_or_else(|| to.clone());
    let knows = !shared.options.no_clobber && shared.hiding.is_new(&to);
    let hidden = hidden.map(|at| match knows {
        true => Hidden::new(at, to),
        false => Hidden::ask(control, abilities.mlst, at, to),
    });
    let stored = ask_size.then(|| control.send(Command::Size(at.clone())));
    let mut verified = None;
    if let Some(announced) = announced {
        let algorithm = announced.digest.0;
        match announced.taken().await {
            Ok(taken) => verified = Some(taken.digest),
            // What it has not looked at is still to be proven.
            Err(_) if resumes => after = Some(algorithm),
            Err(_) => {}
        }
    }
    let done = verified.as_ref().map(|(algorithm, _)| *algorithm);
    let partial = shared.is_partial();
    let checksum = algorithm
        .or(after)
        .filter(|wanted| done != Some(*wanted))
        .map(|algorithm| {
            let length = partial.then(|| shared.expected(job).unwrap_or(size));
            (
                algorithm,
                verify::ask(control, algorithm, base, length, at.clone()),
            )
        });
    let mut meta = Vec::new();
    if shared.preserves() {
        if let Some(mode) = job.facts.mode {
            meta.push(control.send(Command::Site(Site::Chmod(mode, at.clone()))));
        }
        if let Some(time) = job.facts.time_val() {
            meta.push(control.send_modified(time, at));
        }
    }
    let size = shared.expected(job).unwrap_or(size);
    Ok(Some(Following {
        taken,
        size,
        hidden,
        stored,
        checksum,
        verified,
        meta,
    }))
}

/// Reads what follows and ends the jobs. Renames are sent for without waiting for those before them.
pub(super) async fn follow(
    control: &Control,
    shared: &Arc<Shared>,
    mut followed: mpsc::Receiver<Following>,
) {
    let (proven, mut publishing) = mpsc::channel(COMMANDS);
    let prove = async move {
        while let Some(next) = followed.recv().await {
            if let Some(next) = settle_following(control, shared, next).await {
                let _gone = proven.send(next).await;
            }
        }
    };
    let publish = async {
        while let Some(next) = publishing.recv().await {
            publish(control, shared, next).await;
        }
    };
    tokio::join!(prove, publish);
}

/// Reads what proves a store; gives it when that is good, and its own name is asked for.
pub(super) async fn settle_following(
    control: &Control,
    shared: &Arc<Shared>,
    next: Following,
) -> Option<Publishing> {
    let fail = |taken, error: &TransferError| {
        shared.fail(taken, error);
        None
    };
    let Following {
        taken,
        size,
        hidden,
        stored,
        checksum,
        mut verified,
        meta,
    } = next;
    if let Some(mut replies) = stored {
        let copy = || shared.name_destination(file(&taken));
        if let Err(error) = verify::stored(&mut replies, size..=size, copy).await {
            return fail(taken, &error);
        }
    }
    if let Some((algorithm, mut replies)) = checksum {
        let job = file(&taken);
        let offset = shared.options.offset.unwrap_or(0);
        let length = shared.is_partial().then_some(size);
        let (remote, local) = tokio::join!(
            replies.digest(),
            verify::local(local(&job.from), algorithm, offset, length)
        );
        match (remote, local) {
            (Ok(remote), Ok(local)) if remote == local => verified = Some((algorithm, local)),
            (Ok(remote), Ok(local)) => {
                let error =
                    verify::mismatch(shared.name_destination(job), algorithm, &local, &remote);
                return fail(taken, &error);
            }
            (Err(error), _) => return fail(taken, &error.into()),
            (_, Err(error)) => return fail(taken, &error),
        }
    }
    let renaming = match hidden {
        Some(hidden) => match hidden.rename(control, shared.options.no_clobber).await {
            Ok(renaming) => Some(renaming),
            Err(error) => return fail(taken, &error),
        },
        None => None,
    };
    let success = Success {
        bytes: size,
        verified,
    };
    Some(Publishing {
        taken,
        success,
        renaming,
        meta,
    })
}

/// Waits until a store has its own name and what else it is to have, and ends its job.
pub(super) async fn publish(control: &Control, shared: &Shared, next: Publishing) {
    let Publishing {
        mut taken,
        success,
        renaming,
        meta,
    } = next;
    if let Some(renaming) = renaming {
        match renaming.publish(control, shared, taken).await {
            Some(published) => taken = published,
            None => return,
        }
    }
    for mut replies in meta {
        if let Err(error) = replies.finish().await {
            return shared.fail(taken, &error.into());
        }
    }
    shared.succeed(taken, &success);
}
