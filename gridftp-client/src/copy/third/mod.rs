//! Remote to remote: two control connections, the data goes from server to server.
//!
//! In MODE S the `STOR` goes first, since some servers lose data that is there before it. In MODE E it
//! is sent only when the source has said that the data of its file comes: a `RETR` that fails sends
//! none. Where both servers tag transfers, the destination knows each file's data by its tag and throws
//! away that of a `STOR` that fails, so retrievals may be pipelined; any other destination has to
//! accept each file before the next is asked for, lest it take one for another.

use std::net::SocketAddr;
use std::sync::Arc;

use byte_ranges::RangeSet;
use ftp_proto::client::FailureKind;
use ftp_wire::command::{BufferSide, Command, Mode, Spot};
use ftp_wire::path::FtpPath;
use gridftp_dsi::types::ChecksumAlgorithm;
use tokio::sync::mpsc;

use crate::abilities::{Abilities, Tags};
use crate::client::Client;
use crate::control::{Control, Replies, Step};
use crate::copy::Stop;
use crate::copy::alarm::Alarm;
use crate::copy::job::Item;
use crate::copy::kept::{Announced, Digest, Found};
use crate::copy::known::Known;
use crate::copy::look::Look;
use crate::copy::push::make_parents;
use crate::copy::queue::{Kind, Taken};
use crate::copy::shared::Shared;
use crate::copy::window::{COMMANDS, UnderWay, Window};
use crate::error::{ControlError, TransferError};
use crate::moving::EARLY_END;
use crate::names;
use crate::setup::{Ahead, active};
use crate::url::show;

mod begin;
mod confirm;
mod dirs;
mod growth;
mod resume;
#[cfg(test)]
mod tests;

use self::begin::Retrieve;
pub(crate) use self::dirs::list;
use self::resume::restart;

/// A retrieval that was asked for at the source.
struct Asked {
    taken: Taken,
    /// What the destination has and the source leaves out, in wire offsets.
    held: RangeSet,
    /// The source's digest, where it has to stand for that.
    proof: Option<Digest>,
    /// Algorithm to compare the copy with where it goes on unproven.
    after: Option<ChecksumAlgorithm>,
    /// The name it is written under until it is whole, where that is not its own.
    hidden: Option<FtpPath>,
    /// The source's facts, where the copy is to have those of what is read.
    look: Option<Look>,
    rest: Option<Replies>,
    retrieve: Retrieve,
    /// Tag of the data, where both servers know such.
    tag: Option<u64>,
    under_way: UnderWay,
}

/// A file on its way from server to server.
struct Moving {
    taken: Taken,
    retrieve: Replies,
    /// Whether the destination is to go on with what it has.
    resumes: bool,
    /// Algorithm to compare the copy with, although nobody asked for that.
    after: Option<ChecksumAlgorithm>,
    announced: Option<Announced>,
    store: Replies,
    /// Whether the data is tagged.
    tagged: bool,
    _under_way: UnderWay,
}

/// Copies files from the queue until nothing is left.
pub(crate) async fn run(
    source: &mut Client,
    destination: &mut Client,
    shared: &Arc<Shared>,
) -> Result<(), Stop> {
    let algorithm = shared
        .algorithm(&[source, destination])
        .await
        .map_err(Stop::of_digest)?;
    let mut told = Known::default();
    while let Some(first) = shared.queue.next_of(Kind::Files, |_| true).await {
        let both = source.is_extended() && destination.is_extended();
        let mode = if both { Mode::Extended } else { Mode::Stream };
        let streams = shared.streams(
            first.item(),
            source.round_trip().max(destination.round_trip()),
        );
        let port = match set_up(source, destination, mode, streams).await {
            Ok(port) => port,
            Err(error @ TransferError::Control(ControlError::Refused { .. })) => {
                shared.fail(first, &error);
                continue;
            }
            Err(error) => {
                shared.fail(first, &error);
                return Err(Stop::Lost(error));
            }
        };
        let tagged = both && source.abilities.tags && destination.abilities.tags;
        let pair = Pair {
            source: &source.control,
            destination: &destination.control,
            abilities: (&source.abilities, &destination.abilities),
            shared,
            algorithm,
            mode,
            tags: tagged.then_some(&source.state.tags),
            port,
        };
        match pair.copy(first, streams, tagged, &mut told).await {
            Ok(()) => {}
            Err(Stop::Channel) => {
                source.state.ready = None;
                destination.state.ready = None;
            }
            Err(stop) => return Err(stop),
        }
        shared.hiding.clean(&destination.control).await;
    }
    shared.hiding.clean(&destination.control).await;
    Ok(())
}

/// Makes the destination listen and the source connect to it; gives the port.
async fn set_up(
    source: &mut Client,
    destination: &mut Client,
    mode: Mode,
    streams: u32,
) -> Result<SocketAddr, TransferError> {
    let mut ahead = Ahead::default();
    destination.send_mode(mode, &mut ahead);
    source.send_mode(mode, &mut ahead);
    destination.tune(BufferSide::Receive).await?;
    destination.ask_for_markers();
    source.tune(BufferSide::Send).await?;
    if mode == Mode::Extended {
        source.send_streams(streams, &mut ahead);
    }
    let mut passive = destination.send_passive();
    ahead.settle().await?;
    let at = destination.listening(&mut passive).await?;
    let at = at
        .first()
        .copied()
        .ok_or_else(|| passive.misbehaved("no address in the reply"))?;
    source.ask(active(at)).await?;
    Ok(at)
}

/// The two conversations of one set-up.
struct Pair<'a> {
    source: &'a Control,
    destination: &'a Control,
    /// What the source can do, and the destination.
    abilities: (&'a Abilities, &'a Abilities),
    shared: &'a Arc<Shared>,
    algorithm: Option<ChecksumAlgorithm>,
    mode: Mode,
    /// The tags of the source's session, where both servers know such.
    tags: Option<&'a Tags>,
    /// Where the destination listens.
    port: SocketAddr,
}

impl Pair<'_> {
    async fn copy(
        &self,
        first: Taken,
        streams: u32,
        pipelined: bool,
        told: &mut Known,
    ) -> Result<(), Stop> {
        let shared = self.shared;
        let round_trip = self.source.round_trip().max(self.destination.round_trip());
        let window = Window::default();
        let alarm = Alarm::default();
        let (asked, mut asking) = mpsc::channel::<Asked>(COMMANDS);
        let (moving, moved) = mpsc::channel::<Moving>(COMMANDS);
        // Where nothing is pipelined, the next file is asked for when the last one was accepted.
        let accepted = tokio::sync::Semaphore::new(usize::from(!pipelined));
        let feed = async {
            let mut next = Some(first);
            loop {
                window.room().await;
                if !pipelined && let Ok(permit) = accepted.acquire().await {
                    permit.forget();
                }
                let Ok(slot) = asked.reserve().await else {
                    return;
                };
                let taken = match next.take() {
                    Some(taken) => taken,
                    None if self.mode == Mode::Stream => break,
                    None => {
                        let fits = |item: &Item| shared.fits(item, streams, round_trip);
                        let Some(taken) = shared.queue.next_of(Kind::Files, fits).await else {
                            break;
                        };
                        taken
                    }
                };
                match self.ask(taken, &window).await {
                    Some(request) => slot.send(request),
                    None => accepted.add_permits(usize::from(!pipelined)),
                }
            }
            drop(asked);
        };
        let pass = async {
            while let Some(request) = asking.recv().await {
                if let Some(mut file) = self.pass(request, told).await? {
                    if !pipelined {
                        file = self.begin(file).await?;
                    }
                    let _gone = moving.send(file).await;
                }
                accepted.add_permits(usize::from(!pipelined));
            }
            drop(moving);
            Ok(())
        };
        let passed = async {
            tokio::pin!(feed, pass);
            let mut feeding = true;
            loop {
                tokio::select! {
                    ended = &mut pass => return ended,
                    () = alarm.rung() => return Err(Stop::Replace),
                    () = &mut feed, if feeding => feeding = false,
                }
            }
        };
        let (passed, confirmed) = tokio::join!(passed, self.confirm(moved, &alarm));
        passed.and(confirmed)
    }

    /// Asks the source for a file.
    async fn ask(&self, mut taken: Taken, window: &Window) -> Option<Asked> {
        let shared = self.shared;
        let Item::File(job) = taken.item_mut() else {
            return None;
        };
        if !shared.options.dry_run {
            shared.start(job);
        }
        let (Some(from), Some(to)) = (self.source.path(&job.from), self.destination.path(&job.to))
        else {
            let error = TransferError::BadName {
                name: show(&job.from),
                why: "no command to this server can carry it",
            };
            shared.fail(taken, &error);
            return None;
        };
        // What an earlier attempt began is no file to be left alone.
        if shared.options.no_clobber && !job.begun {
            let there = Found::at(self.destination, self.abilities.1, &to).await;
            if !matches!(there, Found::Nothing) {
                there.leave(shared, taken);
                return None;
            }
        }
        if shared.options.dry_run {
            shared.plan(taken);
            return None;
        }
        let hidden = shared.hide(self.destination, self.abilities.1, job).await;
        let to = hidden.clone().unwrap_or(to);
        let mut same = true;
        if job.begun {
            // What the destination holds is of no use when the source has been written to since.
            let look = Look::send(self.source, self.abilities.0, from.clone());
            let now = look.facts().await.ok().flatten();
            if let Some(now) = now.filter(|now| job.has_shrunk(now)) {
                let error = shared.shrunk(job, &now);
                shared.fail(taken, &error);
                return None;
            }
            same = now.is_some_and(|now| now.is_same_as(&job.facts)) && !shared.through_layers();
            if !same {
                job.forget();
            }
            shared.update(job, now);
        }
        if shared.through_layers() {
            job.facts.size = None;
        } else if job.facts.size.is_none() {
            let mut size = self.source.send(Command::Size(from.clone()));
            job.facts.size = size.size().await.ok().flatten();
        }
        let mut kept = None;
        if same && job.begun && !job.anew {
            kept = self.kept(job, &from, &to).await;
        }
        let (held, proof, after) = match kept {
            Some(kept) => (kept.held, kept.announce, kept.after),
            None => Default::default(),
        };
        // What was listed may be long ago; after a failure it has just been asked.
        let look = (shared.preserves() && !job.begun)
            .then(|| Look::send(self.source, self.abilities.0, from.clone()));
        let rest = restart(self.mode, &held).map(|rest| self.source.send(rest));
        let tag = self.tags.map(Tags::next);
        let command = Command::retrieve(from, shared.region(job), tag);
        let bytes = job.facts.size.unwrap_or(1 << 20);
        let retrieve = match self.mode {
            Mode::Stream => Retrieve::Later(command),
            _ => Retrieve::Sent(self.source.send(command)),
        };
        Some(Asked {
            taken,
            held,
            proof,
            after,
            hidden,
            look,
            rest,
            retrieve,
            tag,
            under_way: window.enter(bytes),
        })
    }

    /// Waits for the source's word that data comes, and asks the destination to store it.
    async fn pass(&self, mut asked: Asked, told: &mut Known) -> Result<Option<Moving>, Stop> {
        let shared = self.shared;
        if let Some(look) = asked.look.take()
            && let Ok(now) = look.facts().await
            && let Item::File(job) = asked.taken.item_mut()
        {
            shared.update(job, now);
        }
        if let Some(mut rest) = asked.rest.take()
            && rest.finish().await.is_err()
            && let Item::File(job) = asked.taken.item_mut()
        {
            // All of it comes then.
            job.forget();
            asked.held = RangeSet::new();
        }
        if let Retrieve::Sent(retrieve) = &mut asked.retrieve {
            match retrieve.next().await {
                Ok(Step::Preliminary(_)) => {}
                Ok(Step::Done(_)) => {
                    let error = retrieve.misbehaved(EARLY_END);
                    shared.fail(asked.taken, &error.into());
                    return Err(Stop::Channel);
                }
                Err(error @ ControlError::Refused { .. }) => {
                    let of_data = error.kind() == Some(FailureKind::DataChannel);
                    shared.fail(asked.taken, &error.into());
                    return if of_data {
                        Err(Stop::Channel)
                    } else {
                        Ok(None)
                    };
                }
                Err(error) => {
                    let error = error.into();
                    shared.fail(asked.taken, &error);
                    return Err(Stop::Lost(error));
                }
            }
        }
        let Item::File(job) = asked.taken.item_mut() else {
            return Ok(None);
        };
        let Some(to) = FtpPath::new(job.to.clone()) else {
            return Ok(None);
        };
        drop(make_parents(
            self.destination,
            shared,
            names::parent(&job.to),
            told,
        ));
        if self.mode == Mode::Stream
            && self.abilities.1.held
            && let Some(length) = shared.expected(job)
        {
            // A connection that is cut off looks like the end of the file.
            drop(self.destination.send(Command::Allo(length)));
        }
        let (announced, append) = match self.go_on(&asked.held, asked.proof).await {
            Ok(how) => how,
            Err(error) => {
                // The source leaves out what is held, so a destination that does not go on with it
                // must not store the rest as the whole.
                job.forget();
                job.anew = true;
                let lost = matches!(error, ControlError::Lost { .. });
                let error = error.into();
                shared.fail_midway(asked.taken, &error);
                return Err(if lost {
                    Stop::Lost(error)
                } else {
                    Stop::Replace
                });
            }
        };
        job.begun = true;
        job.hidden.clone_from(&asked.hidden);
        let to = asked.hidden.unwrap_or(to);
        let spot = match shared.options.offset {
            _ if append => Spot::End,
            offset if shared.is_partial() => Spot::At(offset.unwrap_or(0)),
            _ => Spot::Whole,
        };
        let store = Command::store(to, spot, asked.tag);
        let store = self.destination.send(store);
        let retrieve = match asked.retrieve {
            Retrieve::Sent(retrieve) => retrieve,
            Retrieve::Later(command) => {
                self.destination.flush().await;
                self.source.send(command)
            }
        };
        Ok(Some(Moving {
            taken: asked.taken,
            retrieve,
            resumes: !asked.held.is_empty(),
            after: asked.after.filter(|_| !asked.held.is_empty()),
            announced,
            store,
            tagged: asked.tag.is_some(),
            _under_way: asked.under_way,
        }))
    }
}
