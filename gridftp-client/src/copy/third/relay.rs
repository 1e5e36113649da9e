//! Remote to remote through this machine: each file is read from the source while it is written to
//! the destination, in MODE S, with a few blocks of it in memory.

use std::sync::Arc;
use std::time::Duration;

use byte_ranges::RangeSet;
use bytes::Bytes;
use ftp_wire::command::{BufferSide, Mode, Type};
use gridftp_data::{Chunks, DataChannel, ReceivePlan, SendPlan, Watch};
use gridftp_dsi::types::ChecksumAlgorithm;
use gridftp_dsi::{Error as StorageError, ErrorKind};
use gridftp_dsi_posix::checksum::Hasher;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::begin::Retrieve;
use super::check::Copied;
use super::{Asked, Pair};
use crate::client::Client;
use crate::control::Control;
use crate::copy::Stop;
use crate::copy::hidden::may_be_for_name;
use crate::copy::inlet::Inlet;
use crate::copy::job::Words;
use crate::copy::kept::{Announced, Digest, is_busy, judge};
use crate::copy::known::Known;
use crate::copy::queue::{Kind, Taken};
use crate::copy::read_back::read_back;
use crate::copy::state::CopyState;
use crate::copy::tuning::Worker;
use crate::copy::window::{UnderWay, Window};
use crate::error::{ControlError, TransferError};
use crate::explain::Way;
use crate::transfer::{ACCOUNT, Failure, SessionState, Transfer};

/// Bytes that wait in memory where they come faster than they go.
const AHEAD: usize = 1 << 20;

/// Copies files from the queue until nothing is left.
pub(super) async fn run(
    source: &mut Client,
    destination: &mut Client,
    worker: &Worker,
) -> Result<(), Stop> {
    let shared = &worker.shared;
    // The source's word on digests is needed only where a copy goes on with bytes that did not pass.
    let algorithm = match shared.algorithm(&[source, destination]).await {
        Ok(algorithm) => algorithm,
        Err(_) => {
            let algorithm = shared.algorithm(&[destination]).await;
            algorithm.map_err(Stop::of_digest)?
        }
    };
    source.channel.get().options_mut().ahead = AHEAD;
    let mut told = Known::default();
    while !worker.leaves()
        && let Some(taken) = shared.queue.next_of(Kind::Files, |_| true).await
    {
        let (to, from) = (&mut *destination, Some(&mut *source));
        let Some(taken) = Box::pin(read_back(to, from, Mode::Stream, shared, taken)).await? else {
            continue;
        };
        // A new session has new tickets.
        if source.guard.is_spent() || destination.guard.is_spent() {
            return Err(Stop::Replace);
        }
        match Box::pin(copy(
            source,
            destination,
            shared,
            algorithm,
            &mut told,
            taken,
        ))
        .await
        {
            Ok(()) => {}
            Err(Stop::Channel) => {
                source.drop_channel();
                destination.drop_channel();
            }
            Err(stop) => return Err(stop),
        }
        shared.hiding.clean(&destination.control).await;
    }
    shared.hiding.clean(&destination.control).await;
    Ok(())
}

/// Copies one file.
async fn copy(
    source: &mut Client,
    destination: &mut Client,
    shared: &Arc<CopyState>,
    algorithm: Option<ChecksumAlgorithm>,
    told: &mut Known,
    taken: Taken,
) -> Result<(), Stop> {
    let from = (&source.control, &source.abilities);
    let to = (&destination.control, &destination.abilities);
    let Some((mut taken, goal)) = shared.admit(taken, Some(from), to).await else {
        return Ok(());
    };
    let (read, written) = tokio::join!(
        source.set_up_stream(BufferSide::Send),
        destination.set_up_stream(BufferSide::Receive)
    );
    if let Err(error) = read.and(written) {
        return shared.fail_set_up(&destination.control, taken, error);
    }
    let within = source.options.reply_within;
    let pair = Pair {
        source: &source.control,
        destination: &destination.control,
        abilities: (&source.abilities, &destination.abilities),
        shared,
        algorithm,
        mode: Mode::Stream,
        tags: None,
        handshake: false,
        port: None,
    };
    // Bytes that are there already have to be the source's by its own digest.
    let unproven = algorithm.is_some_and(|algorithm| !source.abilities.knows(algorithm));
    let job = taken.file_mut();
    (job.anew, job.relayed) = (job.anew || unproven, true);
    let Some(asked) = pair.asked(&Window::default(), taken, goal).await else {
        return Ok(());
    };
    let mut relay = Relay {
        pair,
        within,
        source: source.channel.get(),
        destination: destination.channel.get(),
    };
    match relay.begin(asked, told).await? {
        Some(file) => relay.end(file).await,
        None => Ok(()),
    }
}

/// The conversations and the data connections of one file.
struct Relay<'a> {
    pair: Pair<'a>,
    /// Time that a server has for a reply.
    within: Duration,
    source: &'a mut DataChannel,
    destination: &'a mut DataChannel,
}

/// A file that both servers have accepted.
struct Passing {
    taken: Taken,
    retrieve: Transfer,
    store: Transfer,
    /// Bytes that are to come, where that is known.
    expected: Option<u64>,
    /// Whether the destination is to go on with its bytes.
    resumes: bool,
    /// Algorithm to compare the copy with, beyond the options.
    after: Option<ChecksumAlgorithm>,
    announced: Option<Announced>,
    under_way: UnderWay,
}

/// The failure of one end, and whether that is only of the other's.
type Ended<T> = Result<T, (Failure, bool)>;

impl Relay<'_> {
    /// Has the source send a file and the destination store it. The source goes first: a file that
    /// it refuses touches nothing at the destination.
    async fn begin(&mut self, asked: Asked, told: &mut Known) -> Result<Option<Passing>, Stop> {
        let Some(mut asked) = self.pair.retrieved(asked).await? else {
            return Ok(None);
        };
        let (shared, job) = (self.pair.shared, asked.taken.file());
        let held = asked.request.held.total();
        let expected = shared.expected(job).map(|all| all.saturating_sub(held));
        let retrieve = match asked.request.retrieve {
            Retrieve::Sent(retrieve) => retrieve,
            Retrieve::Later(command) => self.pair.source.send(command),
        };
        let (from, to) = (job.from.clone(), job.to.clone());
        let mut retrieve = Transfer::download(retrieve, &from);
        let open = self.source.open(Mode::Stream, 1);
        if let Err(failure) = retrieve.begin_with(self.within, open).await {
            return shared.fail_transfer(asked.taken, failure).map(|()| None);
        }
        asked.request.retrieve = Retrieve::Sent(retrieve.into_replies());
        // The source owes the reply to what it sends.
        let stored = self.pair.store(asked, told).await?;
        let file = stored.ok_or(Stop::Replace)?;
        let mut file = Passing {
            taken: file.taken,
            retrieve: Transfer::download(file.retrieve, &from),
            store: Transfer::upload(file.store, &to),
            expected,
            resumes: file.resumes,
            after: file.after,
            announced: file.announced,
            under_way: file.under_way,
        };
        let open = self.destination.open(Mode::Stream, 1);
        match file.store.begin_with(self.within, open).await {
            Ok(()) => Ok(Some(file)),
            Err(failure) => self.refused(file, failure).await,
        }
    }

    /// Ends an attempt that the destination refused, and frees the source.
    async fn refused(
        &mut self,
        mut file: Passing,
        failure: Failure,
    ) -> Result<Option<Passing>, Stop> {
        self.source.reset();
        let freed = match file.retrieve.account(ACCOUNT, |_| ()).await {
            Some(Err(ControlError::Lost { .. })) => SessionState::Lost,
            told => SessionState::after_data(told.is_some()),
        };
        let (shared, job) = (self.pair.shared, file.taken.file_mut());
        let refusal = failure.error.control();
        job.note_unplaced(refusal);
        let refused = matches!(refusal, Some(ControlError::Refused { .. }));
        let told = refusal.and_then(ControlError::reply);
        let anew = refused && file.resumes && !is_busy(told, job.failures, &shared.options);
        job.anew |= anew;
        let for_name = job.hidden.is_some() && !anew && refusal.is_some_and(may_be_for_name);
        let copy = || shared.name_destination(file.taken.file());
        let failure = Failure {
            error: judge(failure.error, file.announced.as_ref(), copy),
            session: failure.session.max(freed),
            midway: failure.midway || anew,
        };
        if for_name {
            shared.go_straight(file.taken);
            return Stop::of(failure).map_or(Ok(None), Err);
        }
        shared.fail_transfer(file.taken, failure).map(|()| None)
    }

    /// Moves the bytes of a file, and checks the copy.
    async fn end(&mut self, mut file: Passing) -> Result<(), Stop> {
        let shared = self.pair.shared;
        let moved = match self.pass(&mut file).await {
            Ok(passed) => file.store.end(|_| ()).await.map(|_| passed),
            Err(failure) => Err(failure),
        };
        match moved {
            Ok(passed) => {
                let copied = Copied {
                    taken: file.taken,
                    words: Words {
                        after: file.after,
                        sized: false,
                        proven: None,
                    },
                    passed,
                    _under_way: file.under_way,
                };
                self.pair.settle(copied, &CancellationToken::new()).await
            }
            Err(failure) => {
                let (error, announced) = (failure.error, file.announced.as_ref());
                let job = file.taken.file_mut();
                job.note_unplaced(error.control());
                let error = judge(error, announced, || shared.name_destination(job));
                shared.fail_transfer(file.taken, Failure { error, ..failure })
            }
        }
    }

    /// Moves the bytes of a file; gives their digest where one is to be compared.
    async fn pass(&mut self, file: &mut Passing) -> Result<Option<Digest>, Failure> {
        let Pair {
            shared,
            destination,
            ..
        } = self.pair;
        let offered = [(destination, self.pair.abilities.1)];
        let algorithm = match (file.resumes, self.pair.algorithm) {
            // Not all bytes pass here.
            (true, _) => None,
            (false, None) => shared.without_receipt(&offered),
            (false, needed) => needed,
        };
        let (to, from) = mpsc::channel(1);
        let inlet = Inlet {
            to,
            hasher: algorithm.and_then(Hasher::new),
        };
        let path = shared.name_source(file.taken.file());
        let transfer = (&mut file.retrieve, file.expected);
        let watch = shared.watch(Way::Download);
        let sending = shared.watch(Way::Upload);
        let job = file.taken.file_mut();
        let ends = shared.expected(job).zip(file.expected);
        let held = ends.map_or(0, |(all, rest)| all.saturating_sub(rest));
        shared.show(job, held, Arc::downgrade(&sending));
        let read = read(
            self.pair.source,
            (self.source, &watch),
            transfer,
            path,
            inlet,
        );
        let written = async {
            let mut outlet = Outlet { from, cut: false };
            let plan = SendPlan::new(Mode::Stream, Type::Image, RangeSet::new());
            let data = self.destination.send_chunks(&mut outlet, &plan, &sending);
            let work = file.store.pass(&sending, Box::pin(data), |_| ());
            let sent = shared.watched(destination, &sending, work).await;
            sent.map_err(|failure| (failure, outlet.cut))
        };
        let (read, written) = tokio::join!(Box::pin(read), Box::pin(written));
        shared.note_moved(file.taken.file(), sending.bytes());
        let hasher = both(read, written.map(drop))?;
        Ok(algorithm.zip(hasher.map(Hasher::finish)))
    }
}

/// Reads a file, and hands its bytes over; the end only when the source has said that it sent all.
async fn read(
    control: &Control,
    (channel, watch): (&mut DataChannel, &Watch),
    (retrieve, expected): (&mut Transfer, Option<u64>),
    path: String,
    mut inlet: Inlet,
) -> Ended<Option<Hasher>> {
    let plan = ReceivePlan::new(Mode::Stream, Type::Image);
    let data = channel.receive_chunks(&mut inlet, &plan, watch);
    let work = retrieve.run(watch, Box::pin(data));
    let received = control.watched(watch, |_| (), work).await;
    let whole = received.and_then(|received| {
        let got = received.bytes;
        let error = match expected {
            Some(expected) if got != expected => TransferError::Size {
                path,
                expected,
                got,
            },
            None if received.ended_unmarked => TransferError::Unmarked { path, got },
            _ => return Ok(()),
        };
        Err(Failure::midway(error, SessionState::ChannelBroken))
    });
    whole.map_err(|failure| (failure, inlet.to.is_closed()))?;
    // A destination that is gone has its own failure.
    let _gone = inlet.to.send(None).await;
    Ok(inlet.hasher)
}

/// The outcome of both ends: the failure that came first is the one of the file.
fn both<T>(read: Ended<T>, written: Ended<()>) -> Result<T, Failure> {
    match (read, written) {
        (Ok(read), Ok(())) => Ok(read),
        (Ok(_), Err((failure, _))) | (Err((failure, _)), Ok(())) => Err(failure),
        (Err((source, of_other)), Err((destination, cut))) => {
            let session = source.session.max(destination.session);
            let error = match (of_other, cut) {
                (true, false) => destination.error,
                (false, true) => source.error,
                _ => TransferError::Both {
                    source: Box::new(source.error),
                    destination: Box::new(destination.error),
                },
            };
            Err(Failure::midway(error, session))
        }
    }
}

/// The producer of the bytes for the destination. Without the end the file is not whole, and its
/// connection is reset.
struct Outlet {
    from: mpsc::Receiver<Option<Bytes>>,
    /// Whether the source failed.
    cut: bool,
}

impl Chunks for Outlet {
    async fn next(&mut self) -> Result<Option<Bytes>, StorageError> {
        let next = self.from.recv().await;
        self.cut = next.is_none();
        next.ok_or_else(|| StorageError::new(ErrorKind::Io, "read"))
    }
}
