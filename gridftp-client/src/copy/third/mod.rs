//! Remote to remote: two control connections, the data goes from server to server.
//!
//! In MODE S the `STOR` goes first, since some servers lose data that is there before it. In MODE E
//! it is sent only when the source has said that the data of its file comes: a `RETR` that fails
//! sends none. Before a handshake of Grid security the source cannot say so, and the `STOR` goes
//! first there too. Where both servers tag transfers, the destination knows each file's data by its tag
//! and throws away that of a `STOR` that fails, so retrievals may be pipelined in MODE E; any other
//! destination has to accept each file before the next is asked for, lest it take one for another.

use std::net::SocketAddr;
use std::sync::Arc;

use byte_ranges::RangeSet;
use ftp_wire::command::{Command, Mode, Spot, Tag};
use ftp_wire::path::FtpPath;
use gridftp_dsi::types::ChecksumAlgorithm;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::abilities::{Abilities, Tags};
use crate::client::Client;
use crate::control::{Control, Replies};
use crate::copy::Stop;
use crate::copy::facts_query::FactsQuery;
use crate::copy::hidden::StorePath;
use crate::copy::job::{FileJob, ReadBack};
use crate::copy::kept::{Announced, Digest};
use crate::copy::known::Known;
use crate::copy::making::make_parents;
use crate::copy::pipeline::{Pipeline, Route};
use crate::copy::queue::{Kind, Taken};
use crate::copy::read_back::read_back;
use crate::copy::state::CopyState;
use crate::copy::tuning::Worker;
use crate::copy::window::{UnderWay, Window};
use crate::error::{ControlError, TransferError};
use crate::names;
use crate::transfer::{Failure, SessionState};

mod begin;
mod check;
mod confirm;
mod growth;
mod protect;
mod rate;
mod relay;
mod resume;
mod set_up;
#[cfg(test)]
mod tests;
mod udt;

use self::begin::Retrieve;
use self::confirm::Step;
use self::rate::Rated;
pub(in crate::copy) use self::rate::{Sharers, check as check_rate, is_offered as offer_rate};
use self::set_up::{depth, set_up};
pub(in crate::copy) use self::udt::{is_offered as offer_udt, prove as prove_udt};

/// A retrieval that was asked for at the source.
struct Asked {
    taken: Taken,
    request: Request,
    /// The name it is written under until it is whole, where that is not its own.
    hidden: Option<FtpPath>,
    under_way: UnderWay,
}

/// The commands to the source.
struct Request {
    /// Ranges that the destination has and the source leaves out, in wire offsets.
    held: RangeSet,
    /// Whether the destination has no bytes behind them.
    ends: bool,
    /// The source's digest, where it has to stand for that.
    proof: Option<Digest>,
    /// Algorithm to compare the copy with where it goes on unproven.
    after: Option<ChecksumAlgorithm>,
    /// The source's facts, where the copy is to have those of the file that is read.
    look: Option<FactsQuery>,
    rest: Option<Replies>,
    retrieve: Retrieve,
    /// Tag of the data, where both servers know such.
    tag: Option<Tag>,
}

/// A file on its way from server to server.
struct Moving {
    taken: Taken,
    retrieve: Replies,
    /// Whether the destination is to go on with its bytes.
    resumes: bool,
    /// Algorithm to compare the copy with, beyond the options.
    after: Option<ChecksumAlgorithm>,
    announced: Option<Announced>,
    store: Replies,
    /// Whether the data is tagged.
    tagged: bool,
    /// The digest that both ends computed while the bytes passed.
    proven: Option<Digest>,
    under_way: UnderWay,
}

/// Copies files from the queue until nothing is left.
pub(crate) async fn run(
    source: &mut Client,
    destination: &mut Client,
    worker: &Worker,
) -> Result<(), Stop> {
    let shared = &worker.shared;
    if shared.relays() {
        return relay::run(source, destination, worker).await;
    }
    secure(source, destination, shared).await?;
    let mut rated = Rated::of(shared, source, destination);
    let algorithm = shared.algorithm(&[source, destination]).await;
    let (algorithm, mut told) = (algorithm.map_err(Stop::of_digest)?, Known::default());
    while !worker.leaves()
        && let Some(first) = shared.queue.next_of(Kind::Files, |_| true).await
    {
        // Another stack may have come in force between the two logins too.
        let ends = [&source.control, &destination.control];
        if shared.relays() || ends.iter().any(|end| end.left.is_cancelled()) {
            return Err(Stop::Replace);
        }
        let _share = rate::begin(&mut rated).await?;
        let both = source.is_extended() && destination.is_extended();
        let mode = if both { Mode::Extended } else { Mode::Stream };
        let (to, from) = (&mut *destination, Some(&mut *source));
        let Some(first) = Box::pin(read_back(to, from, mode, shared, first)).await? else {
            continue;
        };
        let path = source.path_facts_between(destination, both);
        let width = shared.widest(first.item(), path).await;
        let layout = shared.options.stripe_layout;
        let (port, width) = match set_up(source, destination, mode, width, layout).await {
            Ok(set_up) => set_up,
            Err(error) if shared.is_left_without_channel(&source.control, &error) => {
                return shared.fail_transfer(first, Failure::left());
            }
            Err(error) if error.reply().is_none() => {
                shared.fail(first, &error);
                return Err(Stop::Lost(error));
            }
            // The file goes back.
            Err(error) if shared.is_for_relay(&error) => return Err(Stop::Replace),
            Err(error) => {
                shared.fail(first, &shared.with_relay_remedy(error));
                continue;
            }
        };
        // Servers that refuse the set-up have the data pass this machine, where it is bounded.
        rate::check(shared, source, destination).map_err(Stop::Fatal)?;
        let ends = [&source.abilities, &destination.abilities];
        let tags = shared.tags(mode, &ends, &source.state.tags);
        // A source without nodes sends to stripes as this end does.
        let tags = tags.filter(|_| destination.abilities.proves(width.is_striped()));
        let pair = Pair {
            source: &source.control,
            destination: &destination.control,
            abilities: (&source.abilities, &destination.abilities),
            shared,
            algorithm,
            mode,
            tags,
            handshake: source.guard.has_grid_handshake(),
            port: Some(port),
        };
        let window = Window::default();
        let pipeline = Pipeline {
            depth: depth(mode, tags.is_some()),
            kind: Kind::Files,
            width: Some(width),
            ..Pipeline::new(shared, &window, path)
        };
        let states = (&mut pipeline.window.clone(), &mut told);
        let moved = Box::pin(pipeline.run(&pair, states, async { Ok(()) }, first));
        let ended = tokio::select! {
            ended = moved => ended,
            never = rate::keep(&mut rated) => match never {},
        };
        if matches!(ended, Err(Stop::Channel)) {
            source.drop_channel();
            destination.drop_channel();
        } else {
            ended?;
        }
        shared.hiding.clean(&destination.control).await;
    }
    shared.hiding.clean(&destination.control).await;
    Ok(())
}

/// Protects the data between two servers. Those that cannot may have it pass this machine.
async fn secure(
    source: &mut Client,
    destination: &mut Client,
    shared: &CopyState,
) -> Result<(), Stop> {
    match protect::protect(source, destination).await {
        // What one of them was told of the other no longer holds. The way through this machine is as
        // private as the one that was asked for, or it is not chosen unasked.
        Err(Stop::Fatal(error @ TransferError::Request { .. }))
            if source.data_protection() == destination.data_protection()
                && shared.note_third_party_refused(&error) =>
        {
            Err(Stop::Replace)
        }
        protected => protected,
    }
}

/// The two conversations of one set-up.
struct Pair<'a> {
    source: &'a Control,
    destination: &'a Control,
    /// Features of the source, and of the destination.
    abilities: (&'a Abilities, &'a Abilities),
    shared: &'a Arc<CopyState>,
    algorithm: Option<ChecksumAlgorithm>,
    mode: Mode,
    /// The tags of the source's session, where both servers know such.
    tags: Option<&'a Tags>,
    /// Whether data connections begin with a handshake, for which a Globus server wants a `STOR`.
    handshake: bool,
    /// The address at which the destination listens for the source.
    port: Option<SocketAddr>,
}

impl Route for Pair<'_> {
    type Asked = Step<Asked>;
    type Passed = Step<Moving>;
    type Asking = Window;
    type Passing = Known;

    async fn ask(&self, window: &mut Window, taken: Taken) -> Result<Option<Step<Asked>>, Stop> {
        let shared = self.shared;
        if taken.file().words.is_some() {
            return Ok(Some(Step::Check(taken, window.enter(0))));
        }
        let source = Some((self.source, self.abilities.0));
        let server = (self.destination, self.abilities.1);
        let Some((taken, goal)) = shared.admit(taken, source, server).await else {
            return Ok(None);
        };
        let asked = self.asked(window, taken, goal).await;
        Ok(asked.map(Step::transfer))
    }

    async fn pass(&self, told: &mut Known, of: Step<Asked>) -> Result<Option<Self::Passed>, Stop> {
        let asked = match of {
            Step::Check(taken, under_way) => return Ok(Some(Step::Check(taken, under_way))),
            Step::Transfer(asked) => *asked,
        };
        let Some(asked) = self.retrieved(asked).await? else {
            return Ok(None);
        };
        let Some(file) = self.store(asked, told).await? else {
            return Ok(None);
        };
        let moving = match self.tags.filter(|_| self.mode == Mode::Extended) {
            Some(_) => Some(file),
            None => self.begin(file).await?,
        };
        Ok(moving.map(Step::transfer))
    }

    async fn confirm(
        &self,
        moved: mpsc::Receiver<Step<Moving>>,
        broken: &CancellationToken,
    ) -> Result<(), Stop> {
        self.confirm_all(moved, broken).await
    }
}

impl Pair<'_> {
    /// Asks the source for a file that is stored at `goal`; `None` when its job has ended or goes
    /// back.
    async fn asked(&self, window: &Window, mut taken: Taken, goal: StorePath) -> Option<Asked> {
        let job = taken.file_mut();
        match self.request(job, &goal).await {
            Ok(None) => None,
            Ok(Some(request)) => Some(Asked {
                under_way: window.enter(job.facts.size.unwrap_or(1 << 20)),
                hidden: goal.hidden,
                request,
                taken,
            }),
            Err(error) => {
                self.shared.fail(taken, &error);
                None
            }
        }
    }

    /// Ends an attempt at a file, which goes back where it is to pass this machine, or to go over
    /// another stack.
    fn fail(&self, taken: Taken, failure: Failure) -> Result<(), Stop> {
        let mut failure = self.shared.of_stack(self.source, failure);
        if self.shared.is_for_relay(&failure.error) {
            return Err(Stop::Replace);
        }
        failure.error = self.shared.with_relay_remedy(failure.error);
        self.shared.fail_transfer(taken, failure)
    }

    /// Asks the source for a file, without the bytes that the destination has; `None` where the job goes
    /// back, for another hidden name or to have those bytes read back.
    async fn request(
        &self,
        job: &mut FileJob,
        goal: &StorePath,
    ) -> Result<Option<Request>, TransferError> {
        let shared = self.shared;
        let from = self.source.path(&job.from);
        let from = from.ok_or_else(|| TransferError::unsendable(&job.from))?;
        let mut same = true;
        if job.begun {
            // Held bytes are of no use when the source has been written to since.
            let look = FactsQuery::send(self.source, self.abilities.0, from.clone());
            let now = look.facts().await.ok().flatten();
            if let Some(now) = now.filter(|now| job.has_shrunk(now)) {
                return Err(shared.shrunk(job, &now));
            }
            same = now.is_some_and(|now| now.is_same_as(&job.facts)) && !shared.through_layers();
            // A listing may have told no time of the version before.
            let is_other =
                now.is_some_and(|now| now.modified.is_some() && !now.is_same_as(&job.facts));
            if !same {
                job.forget();
            }
            shared.update(job, now);
            if is_other && let Some(at) = job.hidden.take() {
                shared.leave_version(job, at).await;
                return Ok(None);
            }
        }
        if shared.through_layers() {
            job.facts.size = None;
        } else if job.facts.size.is_none() {
            let mut size = self.source.send(Command::Size(from.clone()));
            job.facts.size = size.size().await.ok().flatten();
        }
        let mut kept = None;
        if same && job.begun && !job.anew {
            kept = self.kept(job, &from, &goal.path).await;
        }
        if job.read_back == ReadBack::Due {
            return Ok(None);
        }
        let (held, ends, proof, after) = match kept {
            Some(kept) => (kept.held, kept.ends, kept.announce, kept.after),
            None => Default::default(),
        };
        // The listing may be old; after a failure the source has just been asked.
        let look = (shared.preserves() && !job.begun)
            .then(|| FactsQuery::send(self.source, self.abilities.0, from.clone()));
        let rest = self.restart(&held).map(|rest| self.source.send(rest));
        let tag = self.tags.map(|tags| tags.next(shared.extent()));
        let command = Command::retrieve(from, shared.region(job), tag);
        let retrieve = match self.mode {
            Mode::Stream => Retrieve::Later(command),
            _ if self.handshake => Retrieve::Later(command),
            _ => Retrieve::Sent(self.source.send(command)),
        };
        Ok(Some(Request {
            held,
            ends,
            proof,
            after,
            look,
            rest,
            retrieve,
            tag,
        }))
    }

    /// Waits for the source's word that data comes, where it goes first.
    async fn retrieved(&self, mut asked: Asked) -> Result<Option<Asked>, Stop> {
        let shared = self.shared;
        let request = &mut asked.request;
        let job = asked.taken.file_mut();
        if let Some(look) = request.look.take()
            && let Ok(now) = look.facts().await
        {
            shared.update(job, now);
        }
        if let Some(mut rest) = request.rest.take()
            && rest.finish().await.is_err()
        {
            // All of it comes then.
            job.forget();
            request.held = RangeSet::new();
        }
        let Retrieve::Sent(retrieve) = &mut request.retrieve else {
            return Ok(Some(asked));
        };
        match self.begun(retrieve).await {
            Ok(()) => Ok(Some(asked)),
            Err(error) => {
                let failure = Failure::to_begin(error);
                self.fail(asked.taken, failure).map(|()| None)
            }
        }
    }

    /// Asks the destination to store a file.
    async fn store(&self, mut asked: Asked, told: &mut Known) -> Result<Option<Moving>, Stop> {
        let (shared, request) = (self.shared, asked.request);
        let job = asked.taken.file_mut();
        let Some(to) = FtpPath::new(job.to.clone()) else {
            return Ok(None);
        };
        let parent = names::parent(&job.to);
        drop(make_parents(self.destination, shared, parent, told));
        if self.mode == Mode::Stream
            && self.abilities.1.held
            && let Some(length) = shared.expected(job)
        {
            // A connection that is cut off looks like the end of the file.
            drop(self.destination.send(Command::Allo(length)));
        }
        let server = (self.destination, self.abilities.1);
        shared.keep_existing(server, job, asked.hidden.is_some());
        let (announced, append) = match self.go_on(&request.held, request.ends, request.proof).await
        {
            Ok(how) => how,
            Err(error) => {
                // The source leaves out held bytes, so a destination that does not go on with them
                // must not store the rest as the whole.
                job.forget();
                job.anew = true;
                let session = match error {
                    ControlError::Lost { .. } => SessionState::Lost,
                    _ => SessionState::Unanswered,
                };
                let failure = Failure::midway(error, session);
                return shared.fail_transfer(asked.taken, failure).map(|()| None);
            }
        };
        shared.tell_recalled(job, request.held.total());
        (job.begun, job.words) = (true, None);
        // The data passes without a look from here.
        job.placed = true;
        job.hidden.clone_from(&asked.hidden);
        let (source, abilities) = self.abilities;
        shared
            .renew_note(job, abilities, (Some(source), self.reads_back()))
            .await;
        let to = asked.hidden.unwrap_or(to);
        let spot = match shared.options.offset {
            _ if append => Spot::End,
            offset if shared.is_partial() => Spot::At(offset.unwrap_or(0)),
            _ => Spot::Whole,
        };
        let store = Command::store(to, spot, request.tag);
        let store = self.destination.send(store);
        let retrieve = match request.retrieve {
            Retrieve::Sent(retrieve) => retrieve,
            Retrieve::Later(command) => {
                self.destination.flush().await;
                self.source.send(command)
            }
        };
        Ok(Some(Moving {
            taken: asked.taken,
            retrieve,
            resumes: !request.held.is_empty(),
            after: request.after.filter(|_| !request.held.is_empty()),
            announced,
            store,
            tagged: request.tag.is_some(),
            proven: None,
            under_way: asked.under_way,
        }))
    }
}
