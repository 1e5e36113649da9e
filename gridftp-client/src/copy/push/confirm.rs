//! The server's word on each stored file, and the steps behind a good one: digests, times, modes.

use std::sync::Arc;
use std::time::Duration;

use ftp_wire::attribute::Attribute;
use ftp_wire::command::{Command, Mode};
use ftp_wire::path::FtpPath;
use ftp_wire::receipt::Receipt;
use ftp_wire::reply::Reply;
use gridftp_dsi::Source as _;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::control::Control;
use crate::copy::Stop;
use crate::copy::digests::DigestQuery;
use crate::copy::ending::Success;
use crate::copy::hidden::Hidden;
use crate::copy::job::FileJob;
use crate::copy::kept::Digest;
use crate::copy::receipts::Proof;
use crate::copy::state::CopyState;
use crate::copy::window::COMMANDS;
use crate::error::{ControlError, TransferError, lacks_channel};
use crate::transfer::{Failure, SessionState};
use crate::url::show;
use crate::verify;

use super::ask::Asker;
use super::{Asked, Following, Passed, Publishing, Sent, fail, judged, local, note_marker};

/// Waits for the server's word on each file, and sends the commands behind a good one.
pub(super) async fn confirm(
    asker: &Asker<'_>,
    mut sent: mpsc::Receiver<Passed>,
    following: mpsc::Sender<Following>,
    (broken, silence): (&CancellationToken, Duration),
) -> Result<(), Stop> {
    let (mut ended, mut is_lost) = (Ok(()), false);
    while let Some(mut next) = sent.recv().await {
        let silence = if is_lost {
            // Replies that are here already count.
            next.reset().cancel();
            Duration::ZERO
        } else {
            silence
        };
        let word = next.settle(silence).await;
        // It waited behind the one that broke the channel, or the session, which pays for it.
        let broke = |failure: &Failure| match failure.error.control() {
            Some(ControlError::Lost { .. }) => is_lost,
            Some(error) => lacks_channel(error),
            None => false,
        };
        let waited = word.as_ref().is_err_and(broke);
        if ended.is_err() && waited && !next.has_begun() {
            continue;
        }
        let error = word
            .as_ref()
            .err()
            .and_then(|failure| failure.error.control());
        is_lost |= matches!(error, Some(ControlError::Lost { .. }));
        match confirm_one(asker, next, word).await {
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

impl Passed {
    /// Cancelled once one of the connections of its data breaks.
    fn reset(&self) -> &CancellationToken {
        match self {
            Self::Store(sent) => &sent.reset,
            Self::Pack(pack) => &pack.reset,
        }
    }

    /// Says whether the server has accepted it.
    fn has_begun(&self) -> bool {
        match self {
            Self::Store(sent) => sent.store.transfer.has_begun(),
            Self::Pack(pack) => pack.transfer.has_begun(),
        }
    }

    /// Waits for the server's word; where a connection of its data broke, until the server has been
    /// silent for so long.
    pub(super) async fn settle(&mut self, silence: Duration) -> Result<Reply, Failure> {
        let reset = self.reset().clone();
        match self {
            Self::Store(sent) => {
                let Asked {
                    taken, transfer, ..
                } = &mut sent.store;
                let note = |reply: &_| note_marker(taken, reply);
                transfer.end_or_reset(&reset, silence, note).await
            }
            Self::Pack(pack) => pack.transfer.end_or_reset(&reset, silence, |_| ()).await,
        }
    }
}

/// Judges a file by the server's word on it; small files of one command end with it.
pub(super) async fn confirm_one(
    asker: &Asker<'_>,
    passed: Passed,
    word: Result<Reply, Failure>,
) -> Result<Option<Following>, Stop> {
    let shared = asker.shared;
    let mut file = match passed {
        Passed::Store(file) => *file,
        Passed::Pack(pack) => return asker.confirm_pack(*pack, word).map(|()| None),
    };
    let taken = match word {
        // Its receipt, where the store was tagged.
        Ok(reply) => Receipt::parse(&reply.text()),
        Err(failure) => return refused(asker, file, failure).map(|()| None),
    };
    let proof = match compare(asker, &file, taken) {
        Ok(proof) => proof,
        Err(error) => {
            let job = file.store.taken.file_mut();
            shared.remove_bad(asker.control, job, &error).await;
            let failure = Failure::midway(error, SessionState::ChannelBroken);
            return shared
                .fail_transfer(file.store.taken, failure)
                .map(|()| None);
        }
    };
    file.store.after = file.store.after.or(proof.beside);
    if file.store.source.unchanged().await.is_err() {
        let path = show(&file.store.taken.file().from);
        shared.fail(file.store.taken, &TransferError::Changed { path });
        return Ok(None);
    }
    let (job, at) = (file.store.taken.file(), file.store.hidden.as_ref());
    let at = at.map_or(job.to.as_slice(), FtpPath::as_bytes);
    let (source, server) = (&file.store.source, (asker.control, asker.abilities));
    let attributes = shared.local_attributes((source, &job.from), (server, at));
    let attributes = attributes.await;
    Ok(prove(asker, file, proof.digest, attributes).await)
}

/// Ends the attempt at a file that the server did not take.
fn refused(asker: &Asker<'_>, file: Sent, failure: Failure) -> Result<(), Stop> {
    let shared = asker.shared;
    let (mut store, error) = (file.store, failure.error.control());
    let job = store.taken.file_mut();
    job.note_unplaced(error);
    let session = session_behind(asker, error, file.receipt.is_some());
    let midway = store.transfer.has_begun();
    if !midway && matches!(error, Some(ControlError::Refused { .. })) && job.retries == 0 {
        job.leaves_no_part();
    }
    let failure = Failure {
        session,
        midway,
        ..judged(shared, &store, failure)
    };
    let failure = of_stack(asker, &file.reset, failure);
    fail(shared, store.taken, failure, store.resumes && !midway)
}

/// The session behind a store that the server did not take. A server that knows data by its tag keeps
/// the connections; any other drops them, and MODE S has none to keep.
fn session_behind(
    asker: &Asker<'_>,
    error: Option<&ControlError>,
    is_tagged: bool,
) -> SessionState {
    let keeps = is_tagged && asker.mode == Mode::Extended;
    let of_data = !keeps || error.is_some_and(lacks_channel);
    match (error, of_data) {
        (Some(ControlError::Lost { .. }), _) => SessionState::Lost,
        (_, true) => SessionState::ChannelBroken,
        (_, false) => SessionState::Reusable,
    }
}

/// The failure of a store behind its data, for which the stack may be left.
fn of_stack(asker: &Asker<'_>, reset: &CancellationToken, failure: Failure) -> Failure {
    let (control, shared) = (asker.control, asker.shared);
    // The server sends no reply after a lost end of data.
    let is_lost = failure.session == SessionState::Lost && reset.is_cancelled();
    if is_lost && control.gone().is_none() {
        let _is_left = shared.lose_udt(&control.left, &failure.error);
    }
    shared.of_stack(control, failure)
}

/// The failure of a sent store of small files.
pub(super) fn of_word(asker: &Asker<'_>, reset: &CancellationToken, failure: Failure) -> Failure {
    let session = session_behind(asker, failure.error.control(), true);
    of_stack(asker, reset, Failure { session, ..failure })
}

/// Compares the receipts of a store, where it was tagged.
fn compare(asker: &Asker<'_>, file: &Sent, taken: Option<Receipt>) -> Result<Proof, TransferError> {
    if file.receipt.is_none() {
        return Ok(Proof::default());
    }
    let copy = || asker.shared.name_destination(file.store.taken.file());
    asker.shared.judge_receipts(
        [file.receipt.as_ref(), taken.as_ref()],
        &[asker.abilities],
        file.store.transfer.replies(),
        copy,
    )
}

/// Asks for the proofs of a store, and has its attributes, its time and its mode set.
async fn prove(
    asker: &Asker<'_>,
    mut file: Sent,
    proven: Option<Digest>,
    attributes: Result<Vec<Attribute>, TransferError>,
) -> Option<Following> {
    let Asker {
        control, shared, ..
    } = *asker;
    let announced = file.store.announced.take();
    let (store, job) = (&file.store, file.store.taken.file());
    let to = FtpPath::new(job.to.clone())?;
    // It is judged under the name that it has, and gets its own when it is good.
    let at = store.hidden.clone().unwrap_or_else(|| to.clone());
    let knows = !shared.options.keeps_existing() && shared.hiding.is_new(&to);
    let hidden = store.hidden.clone().map(|at| match knows {
        true => Hidden::new(at, to),
        false => Hidden::ask(control, asker.abilities.mlst, at, to),
    });
    let stored = (file.ask_size).then(|| control.send(Command::Size(at.clone())));
    let (mut after, mut verified) = (store.after, proven);
    if let Some(announced) = announced {
        let algorithm = announced.digest.0;
        match announced.taken().await {
            Ok(taken) => verified = Some(taken.digest),
            // A digest that it has not looked at is still to be proven.
            Err(_) if store.resumes => after = Some(algorithm),
            Err(_) => {}
        }
    }
    let done = verified.as_ref().map(|(algorithm, _)| *algorithm);
    let size = shared.expected(job).unwrap_or(file.size);
    let wanted = asker.algorithm.or(after);
    let needed = wanted.filter(|wanted| done != Some(*wanted));
    let optional = match (&file.receipt, done) {
        (None, None) if size > 0 => shared.without_receipt(&[(control, asker.abilities)]),
        _ => None,
    };
    let part = (store.base, shared.is_partial().then_some(size));
    let checksum = DigestQuery::send(control, needed, optional, part, at.clone());
    Some(Following {
        settings: shared.send_settings((control, asker.abilities), job, at, attributes),
        taken: file.store.taken,
        size,
        hidden,
        stored,
        sized: file.receipt.is_some(),
        checksum,
        verified,
    })
}

/// Reads the proofs and ends the jobs. Renames are sent without waiting for those before them.
pub(super) async fn follow(
    control: &Control,
    shared: &Arc<CopyState>,
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

/// Reads the proofs of a store; gives it when they are good, and its own name is asked for.
pub(super) async fn settle_following(
    control: &Control,
    shared: &Arc<CopyState>,
    next: Following,
) -> Option<Publishing> {
    let Following {
        mut taken,
        size,
        hidden,
        stored,
        mut sized,
        checksum,
        verified,
        mut settings,
    } = next;
    let job = taken.file();
    let named = async {
        if let Some(mut replies) = stored {
            let copy = || shared.name_destination(job);
            sized |= verify::stored(&mut replies, size..=size, copy).await?;
        }
        job.leaves_no_part();
        let digest = match checksum {
            Some(asked) => compare_digests(shared, job, size, asked).await?,
            None => verified,
        };
        // The commands that follow have the name of now.
        shared.settle_attributes(job, &mut settings).await;
        let renaming = match hidden {
            Some(hidden) => Some(
                hidden
                    .rename(control, shared.options.keeps_existing())
                    .await?,
            ),
            None => None,
        };
        Ok::<_, TransferError>((digest, sized, renaming))
    };
    match named.await {
        Ok((verified, sized, renaming)) => Some(Publishing {
            taken,
            success: Success {
                bytes: size,
                verified,
                sized,
                there: None,
            },
            renaming,
            settings,
        }),
        Err(error) => {
            let job = taken.file_mut();
            shared.remove_bad(control, job, &error).await;
            shared.fail(taken, &error);
            None
        }
    }
}

/// Compares the digests of both ends.
async fn compare_digests(
    shared: &CopyState,
    job: &FileJob,
    size: u64,
    asked: DigestQuery,
) -> Result<Option<Digest>, TransferError> {
    let offset = shared.options.offset.unwrap_or(0);
    let length = shared.is_partial().then_some(size);
    let algorithm = asked.algorithm();
    let source = verify::local(local(&job.from), algorithm, offset, length);
    let copy = asked.digest(shared, Some(size));
    tokio::pin!(source, copy);
    let (copy, source) = tokio::select! {
        // Without the server's there is nothing to wait for.
        copy = &mut copy => match copy? {
            Some(copy) => (Some(copy), source.await?),
            None => return Ok(None),
        },
        source = &mut source => (copy.await?, source?),
    };
    let Some((_, copy)) = copy else {
        return Ok(None);
    };
    match source == copy {
        true => Ok(Some((algorithm, source))),
        false => {
            let path = shared.name_destination(job);
            Err(verify::mismatch(path, algorithm, &source, &copy))
        }
    }
}

/// Waits until a store has its own name, its times and its mode, and ends its job.
pub(super) async fn publish(control: &Control, shared: &CopyState, next: Publishing) {
    let Publishing {
        mut taken,
        mut success,
        renaming,
        settings,
    } = next;
    if let Some(renaming) = renaming {
        match renaming.publish(control, shared, taken).await {
            Some(published) => taken = published,
            None => return,
        }
    }
    match shared.settle_settings(taken.file(), settings).await {
        Ok(there) => {
            success.there = there;
            shared.succeed(taken, &success);
        }
        Err(error) => shared.fail(taken, &error),
    }
}
