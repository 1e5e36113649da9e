//! Runs the connections of a copy: started as the work calls for them, replaced when they are lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::job::Item;
use super::queue::Kind;
use super::state::CopyState;
use super::tuning::Worker;
use super::{Stop, local, pull, push, third, trees, web};
use crate::client::Client;
use crate::error::{ConnectError, TransferError};
use crate::explain::Role;
use crate::options::CopyOptions;
use crate::progress::Observer;
use crate::transfer::ACCOUNT;
use crate::url::Site;

mod session;

pub(crate) use session::Session;

/// Pause before a server is asked for another session with a new stack.
const AGAIN: Duration = Duration::from_secs(1);

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
        Some(_) => (shared.connections(), 0),
        None => session.worth(shared),
    };
    let route = session.route(shared, limit);
    if !matches!(session, Session::Local | Session::Web(_)) {
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
    let session = connect(shared).await;
    if let Ok(Session::Push(to) | Session::Third(_, to) | Session::Web(Some(to))) = session {
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
        open(
            shared,
            shared.source.as_ref().filter(|site| !site.scheme.is_web())
        ),
        open(shared, shared.destination.as_ref())
    )?;
    if let Some(destination) = &destination {
        shared.warn_of_links_to(destination);
    }
    Ok(Session::of(shared, source, destination))
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
            shared.begin_session(&client, Role::Sender);
            let ended = pull::run(&mut client, worker).await;
            shared.end(client, Role::Sender, ended).await?;
        }
        Session::Push(mut client) => {
            shared.begin_session(&client, Role::Receiver);
            let ended = push::run(&mut client, worker).await;
            shared.end(client, Role::Receiver, ended).await?;
        }
        Session::Local => local::run(worker).await?,
        Session::Web(client) => web::run(client, worker).await?,
        Session::Third(mut source, mut destination) => {
            shared.begin_session(&source, Role::Sender);
            shared.begin_session(&destination, Role::Receiver);
            let ended = match worker.task {
                Task::Copy => third::run(&mut source, &mut destination, worker).await,
                Task::List => trees::list(&mut source, &destination, shared).await,
            };
            shared.end_both(source, destination, ended).await?;
        }
    }
    Ok(())
}
