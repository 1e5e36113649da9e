//! Local to remote over one control connection: stores pipelined, data sent in their order.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;

use byte_ranges::RangeSet;
use ftp_wire::command::{Mode, Tag};
use ftp_wire::marker::Marker;
use ftp_wire::path::FtpPath;
use ftp_wire::receipt::Receipt;
use ftp_wire::reply::Reply;
use gridftp_data::{DataChannel, Earlier, Watch};
use gridftp_dsi::types::ChecksumAlgorithm;
use gridftp_dsi_posix::FileSource;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::control::Replies;
use crate::copy::attributes::Settings;
use crate::copy::digests::DigestQuery;
use crate::copy::ending::Success;
use crate::copy::hidden::{Hidden, Renaming, may_be_for_name};
use crate::copy::job::Item;
use crate::copy::kept::{Announced, Digest, is_busy, judge};
use crate::copy::making::{Dirs, make_dir};
use crate::copy::pipeline::{Depth, Pipeline, Route};
use crate::copy::queue::Taken;
use crate::copy::read_back::read_back;
use crate::copy::state::CopyState;
use crate::copy::tuning::Worker;
use crate::copy::window::{COMMANDS, UnderWay, Window};
use crate::copy::{Stop, lock};
use crate::error::{ControlError, lacks_channel};
use crate::options::ConnectOptions;
use crate::stripes::Width;
use crate::transfer::{ACCOUNT, Failure, SessionState, Transfer};

mod ask;
mod confirm;
mod pack;
mod send;
mod serial;
#[cfg(test)]
mod tests;

use self::ask::{Asker, settle_rest};
use self::confirm::{confirm, follow};
use self::pack::Pack;
use self::serial::Serial;

/// Files at least this large are announced by `ALLO`, in bytes: smaller ones are not worth a
/// command.
const ANNOUNCED: u64 = 16 << 20;

/// The next step of an item.
enum Request {
    Store(Box<Asked>),
    /// Small files by one command.
    Pack(Box<Pack>),
}

/// A step with all its data sent.
enum Passed {
    Store(Box<Sent>),
    Pack(Box<Pack>),
}

/// A store that was asked for.
struct Asked {
    taken: Taken,
    source: FileSource,
    earlier: Option<Earlier>,
    /// Bytes of the source that are sent, in its own offsets.
    ranges: RangeSet,
    base: u64,
    rest: Option<Replies>,
    /// Whether the server is to go on with its bytes.
    resumes: bool,
    /// Algorithm to compare the copy with, beyond the options.
    after: Option<ChecksumAlgorithm>,
    announced: Option<Announced>,
    /// The name it is written under until it is whole, where that is not its own.
    hidden: Option<FtpPath>,
    transfer: Transfer,
    /// Tag of the data, which in MODE E is sent without waiting for the server's word.
    tag: Option<Tag>,
    _under_way: UnderWay,
}

impl Asked {
    /// Says whether it may be refused for its hidden name alone.
    fn is_refused_for_name(&self, refusal: &ControlError) -> bool {
        self.hidden.is_some() && !self.resumes && may_be_for_name(refusal)
    }
}

/// A store with all its data sent.
struct Sent {
    store: Asked,
    size: u64,
    /// Whether the server is asked how much it has: in MODE S without a tag a connection that was cut
    /// off looks to it like the end of the file.
    ask_size: bool,
    /// The receipt of the sent data, where it was tagged.
    receipt: Option<Receipt>,
    /// That of the data: its transfer runs until the final reply.
    _watch: Arc<Watch>,
    /// Cancelled once one of the connections of its data breaks.
    reset: CancellationToken,
}

/// A store that the server has confirmed, and its outstanding proofs.
struct Following {
    taken: Taken,
    size: u64,
    hidden: Option<Hidden>,
    /// The bytes that the server has.
    stored: Option<Replies>,
    /// Whether the server's receipt has confirmed the size already.
    sized: bool,
    checksum: Option<DigestQuery>,
    /// The digest that the server has compared already.
    verified: Option<Digest>,
    settings: Settings,
}

/// A store that is proven as far as was asked, and may still be under another name.
struct Publishing {
    taken: Taken,
    success: Success,
    renaming: Option<Renaming>,
    settings: Settings,
}

/// Copies from the queue until nothing is left.
pub(crate) async fn run(client: &mut Client, worker: &Worker) -> Result<(), Stop> {
    let shared = &worker.shared;
    let algorithm = shared.algorithm(&[client]).await;
    let algorithm = algorithm.map_err(Stop::of_digest)?;
    let mut dirs = Dirs::default();
    while !worker.leaves()
        && let Some(first) = shared.queue.next(|_| true).await
    {
        if client.control.left.is_cancelled() {
            return Err(Stop::Replace);
        }
        // The replies for directories are not waited for here.
        if let Some(gone) = client.control.gone() {
            return Err(Stop::Lost(gone.into()));
        }
        let mode = shared.mode(client);
        let Some(first) = Box::pin(read_back(client, None, mode, shared, first)).await? else {
            continue;
        };
        let ended = match mode {
            Mode::Extended => extended(client, shared, first, algorithm, &mut dirs).await,
            _ => alone(client, shared, first, algorithm, &mut dirs).await,
        };
        match ended {
            Ok(()) => {}
            Err(Stop::Channel) => client.drop_channel(),
            Err(stop) => return Err(stop),
        }
        shared.hiding.clean(&client.control).await;
    }
    shared.hiding.clean(&client.control).await;
    Ok(())
}

/// Copies in MODE S: `first`, and from the queue until nothing is left.
async fn alone(
    client: &mut Client,
    shared: &Arc<CopyState>,
    first: Taken,
    algorithm: Option<ChecksumAlgorithm>,
    dirs: &mut Dirs,
) -> Result<(), Stop> {
    let window = Window::default();
    let pipeline = Pipeline::new(shared, &window, client.path_facts_to());
    let route = Serial {
        control: client.control.clone(),
        shared,
        algorithm,
        moving: Mutex::default(),
        unanswered: CancellationToken::new(),
    };
    let states = (&mut (), &mut (client, dirs));
    Box::pin(pipeline.run(&route, states, async { Ok(()) }, first)).await
}

/// Copies over one MODE E channel: `first`, and from the queue as long as the next item fits it.
async fn extended(
    client: &mut Client,
    shared: &Arc<CopyState>,
    first: Taken,
    algorithm: Option<ChecksumAlgorithm>,
    dirs: &mut Dirs,
) -> Result<(), Stop> {
    if matches!(first.item(), Item::Dir(_)) {
        // Needs no data channel, and may be all there is.
        make_dir((&client.control, &client.abilities), shared, first, dirs).await;
        return Ok(());
    }
    let width = shared.widest(first.item(), client.path_facts_to()).await;
    if !client.channel.get().is_cached() && client.guard.is_spent() {
        return Err(Stop::Replace);
    }
    if let Err(error) = client.set_up_push(width).await {
        return shared.fail_set_up(&client.control, first, error);
    }
    // It may have none after all.
    let width = Width {
        streams: width.streams,
        most: width.most,
        ..shared.width(first.item(), client.path_facts_to())
    };
    let tagged = client.abilities.proves(width.is_striped());
    if !tagged && !client.guard.has_grid_handshake() {
        // No data may be on the way before its store is accepted, so the connections come first.
        let channel = client.channel.get();
        let opened = channel.open(Mode::Extended, width.parallelism());
        let Some(opened) = client.control.left.run_until_cancelled(opened).await else {
            return shared.fail_transfer(first, Failure::left());
        };
        if let Err(cause) = opened {
            let error = client.data_error("data channel", cause);
            let failure = Failure {
                midway: false,
                ..Failure::midway(error, SessionState::ChannelBroken)
            };
            let failure = shared.of_stack(&client.control, failure);
            return shared.fail_transfer(first, failure);
        }
    }
    let most = shared.tuning.most_files(shared.connections());
    let window = Window::of_files(most, shared.tuning.under_way.clone());
    let pipeline = Pipeline {
        depth: Depth::Window,
        width: Some(width),
        ..Pipeline::new(shared, &window, client.path_facts_to())
    };
    let route = Push {
        asker: Asker {
            control: &client.control,
            abilities: &client.abilities,
            shared,
            algorithm,
            mode: Mode::Extended,
            tags: tagged.then_some(&client.state.tags),
            numbers: &client.state.tags,
            window: &window,
        },
        width,
        reply_within: client.options.reply_within,
        opens: client.guard.has_grid_handshake(),
        reset: StdMutex::default(),
        silence: silence(&client.options),
    };
    let states = (dirs, client.channel.get());
    Box::pin(pipeline.run(&route, states, async { Ok(()) }, first)).await
}

/// Uploads over one data channel.
struct Push<'a> {
    asker: Asker<'a>,
    width: Width,
    /// Time that the server has for a reply.
    reply_within: Duration,
    /// Whether connections are opened behind the first store: a Globus server does its part of the
    /// handshake when it has a transfer.
    opens: bool,
    /// Token of the present connections and of the stores sent over them; cancelled when one of the
    /// connections breaks.
    reset: StdMutex<CancellationToken>,
    /// Longest silence of the server about a store after the break of a connection.
    silence: Duration,
}

impl Push<'_> {
    /// Cancels the token of the present connections: one of them broke.
    fn broke(&self) {
        std::mem::take(&mut *lock(&self.reset)).cancel();
    }
}

impl Route for Push<'_> {
    type Asked = Request;
    type Passed = Passed;
    type Asking = Dirs;
    type Passing = DataChannel;

    async fn ask(&self, dirs: &mut Dirs, taken: Taken) -> Result<Option<Request>, Stop> {
        let Asker {
            control, shared, ..
        } = self.asker;
        if matches!(taken.item(), Item::File(_)) {
            let asked = match Box::pin(self.asker.ask_pack(taken, dirs)).await {
                Ok(pack) => pack.map(|pack| Request::Pack(Box::new(pack))),
                Err(taken) => {
                    let asked = self.asker.ask(taken, dirs).await;
                    asked.map(|asked| Request::Store(Box::new(asked)))
                }
            };
            return Ok(asked);
        }
        if let Some(gone) = control.gone() {
            return Err(Stop::Lost(gone.into()));
        }
        make_dir((control, self.asker.abilities), shared, taken, dirs).await;
        Ok(None)
    }

    async fn pass(
        &self,
        channel: &mut DataChannel,
        asked: Request,
    ) -> Result<Option<Passed>, Stop> {
        let mut asked = match asked {
            Request::Store(asked) => *asked,
            Request::Pack(pack) => {
                let sent = Box::pin(self.send_pack(channel, *pack)).await?;
                return Ok(sent.map(|sent| Passed::Pack(Box::new(sent))));
            }
        };
        // The server replies in order; a connection of an earlier store may break meanwhile.
        let settled = tokio::select! {
            settled = settle_rest(&mut asked) => settled?,
            never = self.watch(channel) => match never {},
        };
        if let Some(refused) = settled {
            let failure = Failure {
                midway: asked.transfer.has_begun(),
                ..Failure::midway(refused, SessionState::ChannelBroken)
            };
            return fail(self.asker.shared, asked.taken, failure, true).map(|()| None);
        }
        let begun = tokio::select! {
            biased;
            begun = self.begin_either(channel, asked) => begun?,
            // The job goes back.
            () = self.asker.control.left.cancelled() => {
                self.broke();
                return Err(Stop::Replace);
            }
        };
        match begun {
            Some(asked) => {
                let sent = self.send(channel, asked).await?;
                Ok(sent.map(|sent| Passed::Store(Box::new(sent))))
            }
            None => Ok(None),
        }
    }

    async fn watch(&self, channel: &mut DataChannel) -> Infallible {
        channel.reset_by_peer().await;
        self.broke();
        std::future::pending().await
    }

    async fn confirm(
        &self,
        sent: mpsc::Receiver<Passed>,
        broken: &CancellationToken,
    ) -> Result<(), Stop> {
        let (following, followed) = mpsc::channel(COMMANDS);
        let confirmed = confirm(&self.asker, sent, following, (broken, self.silence));
        let settled = Box::pin(follow(self.asker.control, self.asker.shared, followed));
        tokio::join!(confirmed, settled).0
    }
}

/// Notes the ranges or the bytes of a preliminary reply that is a marker.
fn note_marker(taken: &mut Taken, reply: &Reply) {
    match Marker::from_reply(reply) {
        Some(Ok(Marker::Restart(ranges))) => taken.file_mut().hold(&ranges),
        Some(Ok(Marker::Perf(perf))) => {
            taken.file_mut().stripes.note(&perf);
        }
        _ => {}
    }
}

/// Longest silence of a server about a sent store after the break of a connection.
fn silence(options: &ConnectOptions) -> Duration {
    options.stall.clamp(ACCOUNT, Duration::from_secs(60))
}

/// Ends an attempt at a store that did not begin; one that was to go on with the server's bytes may
/// have been refused for that, so the next begins at the start.
fn fail(
    shared: &CopyState,
    mut taken: Taken,
    mut failure: Failure,
    resumes: bool,
) -> Result<(), Stop> {
    if failure.session == SessionState::Left {
        return shared.fail_transfer(taken, failure);
    }
    let job = taken.file_mut();
    let refusal = failure.error.reply();
    let busy = is_busy(refusal, job.failures, &shared.options);
    // A broken connection tells nothing of the server's bytes.
    let broken = failure.error.control().is_some_and(lacks_channel);
    if resumes && refusal.is_some() && !busy && !broken {
        job.anew = true;
        job.forget();
        failure.midway = true;
    }
    shared.fail_transfer(taken, failure)
}

/// The failure of a store, which may have been refused for the digest that was announced.
fn judged(shared: &CopyState, asked: &Asked, failure: Failure) -> Failure {
    let copy = || shared.name_destination(asked.taken.file());
    Failure {
        error: judge(failure.error, asked.announced.as_ref(), copy),
        ..failure
    }
}

fn local(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}
