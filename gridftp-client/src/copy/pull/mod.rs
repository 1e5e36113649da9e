//! Remote to local over one control connection: retrievals pipelined, data taken in their order.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use ftp_wire::command::{Mode, Tag};
use gridftp_dsi::types::ChecksumAlgorithm;
use gridftp_dsi_posix::FileSink;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::control::Replies;
use crate::copy::Stop;
use crate::copy::digests::DigestQuery;
use crate::copy::facts_query::FactsQuery;
use crate::copy::kept::Digest;
use crate::copy::pipeline::{Depth, Pipeline, Route};
use crate::copy::queue::Taken;
use crate::copy::state::CopyState;
use crate::copy::tuning::Worker;
use crate::copy::window::{UnderWay, Window};
use crate::error::{ControlError, TransferError};
use crate::stripes::Width;
use crate::transfer::Transfer;

mod ask;
pub(super) mod land;
mod list;
mod pace;
mod pack;
mod probe;
mod receive;
pub(super) mod resume;
mod serial;
#[cfg(test)]
mod tests;

use self::ask::{Asker, has_arrived};
use self::land::publish;
use self::pack::Pack;
use self::probe::{patience, settle_reach};
use self::receive::Receiver;
use self::serial::{Channel, Serial};

pub(super) use self::ask::admit;
pub(crate) use self::land::{Arrived, make_dir};
pub(crate) use self::resume::{resumable, sweep, tell_kept};

/// Received files under check or rename, at most.
const LANDING: usize = 64;

/// The next step of an item.
enum Request {
    Transfer(Box<Asked>),
    /// Small files by one command.
    Pack(Box<Pack>),
    /// The facts, digest and attributes of a received file, before which a session ended.
    Words(Taken),
}

/// A transfer that was asked for.
struct Asked {
    taken: Taken,
    sent: Sent,
}

/// The commands that were sent for a transfer.
struct Sent {
    /// The object's facts, asked again after a failure.
    again: Option<FactsQuery>,
    rest: Option<Replies>,
    /// The part that the connection is closed behind, where no command tells the server its end.
    cut: Option<Cut>,
    transfer: Transfer,
    /// Tag by which the data names the transfer, where the server knows such.
    tag: Option<Tag>,
    checksum: Option<DigestQuery>,
    after: Option<After>,
    attributes: Option<Replies>,
    _under_way: UnderWay,
}

/// A part of a file that `RETR` brings: `REST` tells where it begins.
#[derive(Clone, Copy)]
struct Cut {
    offset: u64,
    length: u64,
}

/// A file with all its data received.
struct Landed {
    taken: Taken,
    sink: FileSink,
    size: u64,
    /// The digest that both ends computed while the bytes passed.
    proven: Option<Digest>,
    /// The BLAKE3 digest of the received bytes with those of earlier attempts, where it is known.
    received: Option<String>,
    checksum: Option<DigestQuery>,
    after: Option<After>,
    attributes: Option<Replies>,
    /// Whether a session before was lost over the facts, the digest or the attributes.
    asks_again: bool,
    /// Whether the session is of no use behind it.
    is_last: bool,
}

/// The question for the source's facts once it has been read.
struct After {
    look: FactsQuery,
    /// Whether a part of it had come before, so that an answer is needed.
    needed: bool,
}

/// Copies from the queue until nothing is left.
pub(crate) async fn run(client: &mut Client, worker: &Worker) -> Result<(), Stop> {
    let shared = &worker.shared;
    let algorithm = shared.algorithm(&[client]).await;
    let algorithm = algorithm.map_err(Stop::of_digest)?;
    while !worker.leaves()
        && let Some(first) = shared.queue.next(|_| true).await
    {
        if client.control.left.is_cancelled() {
            return Err(Stop::Replace);
        }
        let settled = settle_reach(client, shared).await;
        go_on(client, shared, settled)?;
        let ended = transfer(client, shared, first, algorithm, Depth::Window).await;
        go_on(client, shared, ended)?;
    }
    Ok(())
}

/// Decides whether the session can go on after a stop.
pub(crate) fn go_on(
    client: &mut Client,
    shared: &CopyState,
    ended: Result<(), Stop>,
) -> Result<(), Stop> {
    match ended {
        Ok(()) => Ok(()),
        Err(Stop::Channel) => {
            client.drop_channel();
            Ok(())
        }
        Err(Stop::Unreachable { fact, session }) => {
            client.drop_channel();
            if !shared.note_unreachable(&fact) {
                let remedy = "in MODE E the server connects to us for downloads: use --mode stream, \
                              or let it in";
                return Err(Stop::Fatal(TransferError::request(fact, remedy)));
            }
            if session { Ok(()) } else { Err(Stop::Replace) }
        }
        Err(stop) => Err(stop),
    }
}

/// Copies `first`, and from the queue as deep as the mode and `depth` allow.
async fn transfer(
    client: &mut Client,
    shared: &Arc<CopyState>,
    first: Taken,
    algorithm: Option<ChecksumAlgorithm>,
    depth: Depth,
) -> Result<(), Stop> {
    let mode = shared.mode(client);
    let width = shared.widest(first.item(), client.path_facts()).await;
    let most = shared.tuning.most_files(shared.connections());
    let window = Window::of_files(most, shared.tuning.under_way.clone());
    let mut pipeline = Pipeline {
        depth,
        width: Some(width),
        backlog: LANDING.min(window.most()),
        ..Pipeline::new(shared, &window, client.path_facts())
    };
    if mode != Mode::Extended {
        pipeline.width = None;
        if depth == Depth::Window {
            pipeline.depth = Depth::InStep;
        }
        let route = Serial {
            shared,
            algorithm,
            window: &window,
        };
        let states = (&mut (), &mut Channel::new(client));
        return Box::pin(pipeline.run(&route, states, async { Ok(()) }, first)).await;
    }
    let fresh = client.state.ready.is_none();
    let layout = shared.options.stripe_layout;
    let ahead = match client.set_up_pull(width, layout).await {
        Ok(ahead) => ahead,
        Err(error) if shared.is_left_without_channel(&client.control, &error) => {
            return Err(Stop::Replace);
        }
        Err(error) => return Err(Stop::Lost(error)),
    };
    // It may have no stripes after all.
    pipeline.path = client.path_facts();
    pipeline.width = Some(Width {
        streams: width.streams,
        most: width.most,
        ..shared.width(first.item(), pipeline.path)
    });
    let stripes = client.state.sending;
    let tagged = client.abilities.proves(stripes.is_some());
    let route = Asker {
        control: &client.control,
        abilities: &client.abilities,
        tags: tagged.then_some(&client.state.tags),
        numbers: &client.state.tags,
        shared,
        algorithm,
        mode,
        window: &window,
    };
    let mut receiver = Receiver {
        abilities: &client.abilities,
        control: &client.control,
        channel: client.channel.get(),
        shared,
        stripes,
        patience: fresh.then(|| patience(&client.options)),
    };
    let left = &client.control.left;
    let ready = async {
        ahead.settle().await.map_err(|error| match &error {
            ControlError::Refused { .. } if shared.lose_udt(left, &error) => Stop::Replace,
            _ => Stop::of_set_up(error),
        })
    };
    let states = (&mut (), &mut receiver);
    Box::pin(pipeline.run(&route, states, ready, first)).await
}

impl<'a> Route for Asker<'a> {
    type Asked = Request;
    type Passed = Landed;
    type Asking = ();
    type Passing = Receiver<'a>;

    async fn ask(&self, (): &mut (), taken: Taken) -> Result<Option<Request>, Stop> {
        let server = Some((self.control, self.abilities));
        Ok(match admit(self.shared, taken, server).await {
            Some(taken) if has_arrived(&taken) => Some(Request::Words(taken)),
            Some(taken) => match self.ask_pack(taken).await {
                Ok(pack) => pack.map(|pack| Request::Pack(Box::new(pack))),
                Err(taken) => {
                    let asked = self.send(taken).await;
                    asked.map(|asked| Request::Transfer(Box::new(asked)))
                }
            },
            None => None,
        })
    }

    async fn pass(
        &self,
        receiver: &mut Receiver<'a>,
        request: Request,
    ) -> Result<Option<Landed>, Stop> {
        match request {
            Request::Transfer(asked) => receiver.take(*asked).await,
            Request::Words(taken) => self.ask_words(taken),
            Request::Pack(pack) => {
                let landed = Box::pin(receiver.take_pack(*pack, Mode::Extended));
                landed.await.map(|()| None)
            }
        }
    }

    async fn confirm(
        &self,
        landed: mpsc::Receiver<Landed>,
        _broken: &CancellationToken,
    ) -> Result<(), Stop> {
        publish_all(self.shared, landed).await
    }
}

/// Publishes each received file.
async fn publish_all(
    shared: &Arc<CopyState>,
    mut landed: mpsc::Receiver<Landed>,
) -> Result<(), Stop> {
    let mut ended = Ok(());
    while let Some(file) = landed.recv().await {
        if file.is_last {
            ended = Err(Stop::Replace);
        }
        publish(shared, file).await;
    }
    ended
}

/// Lists one directory, and makes jobs of its entries.
pub(crate) async fn list_one(
    client: &mut Client,
    shared: &Arc<CopyState>,
    taken: Taken,
) -> Result<(), Stop> {
    settle_reach(client, shared).await?;
    transfer(client, shared, taken, None, Depth::One).await
}

pub(super) fn local(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}
