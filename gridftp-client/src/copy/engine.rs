//! Runs the connections of a copy: started as the work calls for them, replaced when they are lost.

use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use ftp_wire::command::Mode;
use tokio::task::JoinSet;

use super::job::Item;
use super::queue::Kind;
use super::state::CopyState;
use super::tuning::{self, Worker};
use super::window::COMMANDS;
use super::{Stop, local, pull, push, third, trees};
use crate::client::Client;
use crate::error::{ConnectError, TransferError};
use crate::explain::Role;
use crate::options::CopyOptions;
use crate::progress::Observer;
use crate::transfer::ACCOUNT;
use crate::url::Site;

/// Round trip up to which small files cost more work than waiting: connections beyond the
/// processors here then only take turns. Beyond it they wait, on links that one stream still fills
/// ([`super::widths::NEAR`]).
const AT_WORK: Duration = Duration::from_millis(1);
/// Files that wait, for each connection there is, before one more is made: twice as many as one has
/// under way. A new one needs six round trips and starts slowly, in which a distant one that is
/// there moves hundreds of small files.
const WAITING: usize = 2 * COMMANDS;
/// As [`WAITING`], in MODE S, where a file has the connection for itself for four round trips or
/// more.
const WAITING_ALONE: usize = 4;
/// Round trip for which one more connection is worth it in MODE S: they wait most of the time.
const FOR_ONE_MORE: Duration = Duration::from_micros(1500);
/// Connections at most in MODE S when the caller does not say; servers count those of an address.
const MOST: u32 = 32;

/// Pause before a server is asked for another session with a new stack.
const AGAIN: Duration = Duration::from_secs(1);

/// The sessions that one connection's worth of work needs.
#[derive(Debug)]
pub(crate) enum Session {
    /// Files come from this server.
    Pull(Box<Client>),
    /// Files go to this server.
    Push(Box<Client>),
    /// Files go from the first to the second, through this machine or not.
    Third(Box<Client>, Box<Client>),
    /// Files stay on this machine, and no server takes part.
    Local,
}

impl Session {
    /// The session of a copy between these servers, between one of them and this machine, or on this
    /// machine.
    pub(crate) fn of(source: Option<Box<Client>>, destination: Option<Box<Client>>) -> Self {
        match (source, destination) {
            (Some(source), Some(destination)) => Self::Third(source, destination),
            (Some(source), None) => Self::Pull(source),
            (None, Some(destination)) => Self::Push(destination),
            (None, None) => Self::Local,
        }
    }

    /// Has it left once data goes over another stack than that of its begin.
    pub(crate) fn of_copy(mut self, shared: &CopyState) -> Self {
        let (_, left) = shared.tuning.stack();
        match &mut self {
            Self::Pull(client) | Self::Push(client) => client.control.left = left,
            Self::Third(source, destination) => {
                (source.control.left, destination.control.left) = (left.clone(), left);
            }
            Self::Local => {}
        }
        self
    }

    /// The way of its data, of which the rules allow so many files at once.
    fn route(&self, shared: &CopyState, files: u32) -> tuning::Route {
        let (round_trip, mode, is_between) = match self {
            Self::Pull(client) | Self::Push(client) => {
                (client.round_trip(), shared.mode(client), false)
            }
            Self::Third(source, destination) => {
                let both = source.is_extended() && destination.is_extended();
                let mode = match both && !shared.relays() {
                    true => Mode::Extended,
                    false => Mode::Stream,
                };
                let round_trip = source.round_trip().max(destination.round_trip());
                (round_trip, mode, !shared.relays())
            }
            Self::Local => (Duration::ZERO, Mode::Extended, false),
        };
        let (is_offered, tells) = match self {
            // The sender there may change its congestion control.
            Self::Pull(client) => (client.abilities.udt && !client.abilities.adapts, true),
            // It keeps the bytes of a broken upload.
            Self::Push(client) => (client.abilities.udt && client.abilities.held, true),
            Self::Third(source, destination) if is_between => {
                // Data nodes are not measured.
                let tells = source.abilities.waits && !source.abilities.nodes;
                (tells && third::offer_udt(source, destination), tells)
            }
            Self::Third(..) | Self::Local => (false, true),
        };
        let told = |client: &Client| client.abilities.connections;
        let connections = match self {
            Self::Pull(client) | Self::Push(client) => told(client),
            Self::Third(source, destination) => [told(source), told(destination)]
                .into_iter()
                .flatten()
                .min(),
            Self::Local => None,
        };
        tuning::Route {
            round_trip,
            mode,
            is_between,
            tells,
            files,
            connections,
            over_udt: is_offered && shared.may_go_over_udt(round_trip),
        }
    }

    /// Returns how many connections are worth it, all in all, where the caller does not say, and
    /// how many files are to wait for each of them before there is one more.
    fn worth(&self, shared: &CopyState) -> (u32, usize) {
        let most = shared.connections();
        match self {
            Self::Pull(client) | Self::Push(client) => {
                worth(shared.mode(client), client.round_trip(), most)
            }
            Self::Third(source, destination) if shared.relays() => {
                let round_trip = source.round_trip().max(destination.round_trip());
                worth(Mode::Stream, round_trip, most)
            }
            // Those of others do the work, or wait for it.
            Self::Third(..) => (most, WAITING),
            // A worker without a session costs nothing.
            Self::Local => (worth(Mode::Extended, Duration::ZERO, most).0, 1),
        }
    }
}

/// As [`Session::worth`], of a server at this distance.
fn worth(mode: Mode, round_trip: Duration, most: u32) -> (u32, usize) {
    if mode != Mode::Extended {
        let more = round_trip.as_micros() / FOR_ONE_MORE.as_micros();
        let more = u32::try_from(more).unwrap_or(MOST);
        return (more.clamp(most, MOST), WAITING_ALONE);
    }
    if round_trip > AT_WORK {
        return (most, WAITING);
    }
    let processors = available_parallelism().map_or(2, NonZero::get);
    let processors = u32::try_from(processors).unwrap_or(u32::MAX).max(2);
    (most.min(processors), WAITING)
}

/// The work of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    Copy,
    /// Lists for third-party copies: their own sessions never send data to us.
    List,
}

/// Works until the queue is done, and accounts for everything in it; `last` says that no other
/// queue follows.
pub(crate) async fn run(shared: &Arc<CopyState>, session: Session, last: bool) {
    let mut workers = JoinSet::new();
    if matches!(session, Session::Third(..)) && shared.queue.has_dirs() {
        workers.spawn(worker(Arc::clone(shared), None, Task::List));
    }
    let (limit, each) = match shared.options.concurrency {
        Some(all) => (all, 0),
        None => session.worth(shared),
    };
    let route = session.route(shared, limit);
    if !matches!(session, Session::Local) {
        shared.begin_tuning(route).await;
    }
    workers.spawn(worker(Arc::clone(shared), Some(session), Task::Copy));
    let mut started: u32 = 1;
    let mut copying: u32 = 1;
    let mut failure = None;
    let mut finding = last;
    let tuned = shared.tune(route);
    tokio::pin!(tuned);
    loop {
        let depth = each.saturating_mul(started as usize);
        let ruled = shared.tuning.files().is_none();
        tokio::select! {
            never = &mut tuned => match never {},
            () = shared.tuning.lacks(&shared.queue) => {
                workers.spawn(worker(Arc::clone(shared), None, Task::Copy));
                started += 1;
                copying += 1;
            }
            joined = workers.join_next() => match joined {
                None => break,
                Some(Ok(Ended { task, left, done })) => {
                    copying -= u32::from(task == Task::Copy);
                    // The rules may want it again.
                    started = started.saturating_sub(u32::from(left));
                    if let Err(error) = done {
                        if !workers.is_empty() {
                            shared.note(&format!("one connection less: {error}"));
                        }
                        shared.tuning.note_refused();
                        if task == Task::List {
                            workers.spawn(list_no_more(Arc::clone(shared), error));
                        } else {
                            failure = Some(error);
                        }
                    }
                    if copying == 0 {
                        break;
                    }
                }
                Some(Err(panicked)) if panicked.is_panic() => std::panic::resume_unwind(panicked.into_panic()),
                Some(Err(_)) => {}
            },
            () = shared.stopped.cancelled() => break,
            () = shared.queue.all_found(), if finding => {
                finding = false;
                shared.totals.all_found();
            }
            deeper = shared.queue.deeper_than(depth), if ruled && started < limit => {
                if deeper && shared.tuning.files().is_some() {
                    // The rules have ended meanwhile.
                } else if deeper {
                    workers.spawn(worker(Arc::clone(shared), None, Task::Copy));
                    started += 1;
                    copying += 1;
                } else {
                    started = started.max(limit);
                }
            }
        }
    }
    shared.end_tuning(route).await;
    for item in close(shared, workers, &failure).await {
        if shared.stopped.is_cancelled() {
            shared.leave_untried(&item);
            continue;
        }
        let left = TransferError::request("transfer: no connection is left to copy it", "");
        shared.end_for_good(item, failure.as_ref().unwrap_or(&left));
    }
}

/// Ends the work and gives the items that are left; a lister gets a moment for its directory.
async fn close<T: 'static>(
    shared: &CopyState,
    mut workers: JoinSet<T>,
    failure: &Option<TransferError>,
) -> Vec<Item> {
    let closing = shared.queue.close();
    tokio::pin!(closing);
    if let Ok(left) = tokio::time::timeout(ACCOUNT, &mut closing).await {
        workers.shutdown().await;
        return left;
    }
    workers.shutdown().await;
    let left = closing.await;
    // It may have listed the directory and not have heard whether that was made.
    if let (true, Some(error)) = (left.is_empty(), failure) {
        shared.give_up(&shared.describe_source(b""), b"", error);
    }
    left
}

/// The end of a worker.
struct Ended {
    task: Task,
    /// Whether it left for others to have less.
    left: bool,
    done: Result<(), TransferError>,
}

/// One worker, counted from now on.
fn worker(
    shared: Arc<CopyState>,
    session: Option<Session>,
    task: Task,
) -> impl Future<Output = Ended> + Send {
    let worker = Worker::of(shared, task);
    async move {
        let done = work(&worker, session).await;
        let left = worker.has_left();
        drop(worker);
        Ended { task, left, done }
    }
}

/// Gives up every directory, now that nobody can list them: the copying of files must not wait for
/// lists that will not come.
async fn list_no_more(shared: Arc<CopyState>, error: TransferError) -> Ended {
    while let Some(taken) = shared.queue.next_of(Kind::Dirs, |_| true).await {
        taken.done(|item| shared.give_up_item(&item, &error));
    }
    Ended {
        task: Task::List,
        left: false,
        done: Ok(()),
    }
}

/// One worker: connects, works, and connects again when the session is lost.
async fn work(worker: &Worker, mut session: Option<Session>) -> Result<(), TransferError> {
    let shared = &worker.shared;
    let mut failures = 0;
    let mut since = Instant::now();
    loop {
        if !shared.queue.is_open() {
            clean(shared).await;
            return Ok(());
        }
        let ended = || {
            let counts = shared.totals.counts();
            counts.files_done + counts.files_failed
        };
        let before = ended();
        let error = match next_session(shared, session.take()).await {
            Ok(session) => {
                worker.begin();
                let ended = Box::pin(run_session(session, worker)).await;
                if ended.is_err() {
                    worker.end();
                }
                match ended {
                    Ok(()) => {
                        clean(shared).await;
                        return Ok(());
                    }
                    Err(Stop::Fatal(error)) => return Err(error),
                    Err(Stop::Lost(error)) => error,
                    // A file has failed for it and has its own tries, or the mode is another now.
                    Err(Stop::Replace | Stop::Channel | Stop::Unreachable { .. }) => continue,
                }
            }
            Err(error) if !error.is_transient() => return Err(error.into()),
            // The server may still count the sessions with the stack before.
            Err(_) if shared.tuning.has_new_stack() => {
                if worker.leaves() {
                    return Ok(());
                }
                shared.queue.sleep(AGAIN).await;
                continue;
            }
            Err(error) => error.into(),
        };
        if failures == 0 || ended() > before {
            (failures, since) = (0, Instant::now());
        }
        failures += 1;
        if !shared
            .options
            .goes_on(failures, since.elapsed(), error.is_gone())
        {
            clean(shared).await;
            return Err(error);
        }
        shared.note_gone(&error);
        if worker.leaves() {
            return Ok(());
        }
        // Others may end the work meanwhile.
        shared.queue.sleep(shared.options.pause(failures)).await;
    }
}

/// Removes the hidden files of uploads that were given up, over a session for that: theirs ended.
pub(super) async fn clean(shared: &CopyState) {
    if !shared.hiding.has_left() {
        return;
    }
    if let Ok(Session::Push(to) | Session::Third(_, to)) = connect(shared).await {
        shared.hiding.clean(&to.control).await;
        to.close().await;
    }
}

async fn next_session(
    shared: &CopyState,
    session: Option<Session>,
) -> Result<Session, ConnectError> {
    match session {
        Some(session) => Ok(session),
        None => {
            let session = connect(shared).await?;
            shared.note_back();
            Ok(session)
        }
    }
}

/// Opens the sessions for one more worker.
pub(crate) async fn connect(shared: &CopyState) -> Result<Session, ConnectError> {
    let (source, destination) = tokio::try_join!(
        open(shared, shared.source.as_ref()),
        open(shared, shared.destination.as_ref())
    )?;
    if let Some(destination) = &destination {
        shared.warn_of_links_to(destination);
    }
    Ok(Session::of(source, destination))
}

/// Connects to a server, before anything was copied.
pub(crate) async fn connect_to(
    site: &Site,
    options: &CopyOptions,
    observer: &Arc<dyn Observer>,
) -> Result<Box<Client>, ConnectError> {
    let connect = Arc::new(options.connect.clone());
    let mut failures = 0;
    loop {
        match Box::pin(Client::connect_with(
            site,
            Arc::clone(&connect),
            Arc::clone(observer),
        ))
        .await
        {
            Ok(client) => return Ok(Box::new(client)),
            // Only a server that is there but busy is worth waiting for, before anything was
            // copied.
            Err(error @ ConnectError::Busy { .. })
                if error.is_transient() && failures < options.retries =>
            {
                failures += 1;
                tokio::time::sleep(options.pause(failures)).await;
            }
            Err(error) => return Err(error),
        }
    }
}

async fn open(
    shared: &CopyState,
    site: Option<&Site>,
) -> Result<Option<Box<Client>>, ConnectError> {
    let Some(site) = site else { return Ok(None) };
    loop {
        let mut options = shared.options.connect.clone();
        let (stack, left) = shared.tuning.stack();
        if let Some(stack) = stack {
            stack.clone_into(&mut options.stack);
        }
        let observer = Arc::clone(&shared.observer);
        match Box::pin(Client::connect_with(site, Arc::new(options), observer)).await {
            Ok(mut client) => {
                client.control.left = left;
                return Ok(Some(Box::new(client)));
            }
            // The server may have been told otherwise meanwhile.
            Err(error @ ConnectError::StackRefused { .. })
                if stack.is_some() && shared.lose_udt(&left, &error) => {}
            Err(error) => return Err(error),
        }
    }
}

async fn run_session(session: Session, worker: &Worker) -> Result<(), Stop> {
    let shared = &worker.shared;
    match session {
        Session::Pull(mut client) => {
            shared.have_measured(&client, Role::Sender);
            let ended = pull::run(&mut client, worker).await;
            shared.end(client, Role::Sender, ended).await?;
        }
        Session::Push(mut client) => {
            shared.have_measured(&client, Role::Receiver);
            let ended = push::run(&mut client, worker).await;
            shared.end(client, Role::Receiver, ended).await?;
        }
        Session::Local => local::run(worker).await?,
        Session::Third(mut source, mut destination) => {
            shared.have_measured(&source, Role::Sender);
            shared.have_measured(&destination, Role::Receiver);
            let ended = match worker.task {
                Task::Copy => third::run(&mut source, &mut destination, worker).await,
                Task::List => trees::list(&mut source, &destination, shared).await,
            };
            shared.end_both(source, destination, ended).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
