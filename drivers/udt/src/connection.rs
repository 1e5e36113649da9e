//! `ConnectionInner`: a connection, shared by its handle and the task of its socket; `TaskQueue`: work for that task.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tokio::sync::oneshot;
use udt_proto::{Connection, ConnectionError, ConnectionId, Options};
use xio_core::{Error, ErrorKind, Info, Operation, PathStats};

use crate::error::error;

/// The time by the clock of the runtime.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// A request to the task of a socket.
pub(crate) enum Order {
    /// Begin a connection.
    Connect {
        peer: std::net::SocketAddr,
        options: Box<Options>,
        rendezvous: bool,
        reply: oneshot::Sender<ConnectionRef>,
    },
    /// A connection waits in the backlog no longer.
    Taken(ConnectionId),
    /// The listener is gone.
    StopListening,
}

/// Queued the task of a socket.
#[derive(Default)]
pub(crate) struct TaskQueue(Mutex<Queued>);

#[derive(Default)]
struct Queued {
    connections: Vec<Arc<ConnectionInner>>,
    orders: VecDeque<Order>,
    task: Option<Waker>,
    /// Whether an order was ever queued.
    was_used: bool,
    is_closed: bool,
}

impl TaskQueue {
    fn lock(&self) -> MutexGuard<'_, Queued> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an order; returns it when the task has ended.
    pub(crate) fn order(&self, order: Order) -> Result<(), Order> {
        let mut queued = self.lock();
        if queued.is_closed {
            return Err(order);
        }
        queued.orders.push_back(order);
        queued.was_used = true;
        let task = queued.task.take();
        drop(queued);
        task.into_iter().for_each(Waker::wake);
        Ok(())
    }

    fn schedule(&self, conn: Arc<ConnectionInner>) {
        let mut queued = self.lock();
        if queued.is_closed {
            return;
        }
        queued.connections.push(conn);
        let task = queued.task.take();
        drop(queued);
        task.into_iter().for_each(Waker::wake);
    }

    /// Takes the queued work, and registers the task to be woken for more.
    pub(crate) fn take(
        &self,
        cx: &Context<'_>,
        connections: &mut Vec<Arc<ConnectionInner>>,
    ) -> VecDeque<Order> {
        let mut queued = self.lock();
        connections.append(&mut queued.connections);
        if !queued
            .task
            .as_ref()
            .is_some_and(|task| task.will_wake(cx.waker()))
        {
            queued.task = Some(cx.waker().clone());
        }
        std::mem::take(&mut queued.orders)
    }

    /// Closes the queue if it is empty and was used; says whether it is closed.
    pub(crate) fn close_if_idle(&self) -> bool {
        let mut queued = self.lock();
        let is_idle = queued.orders.is_empty() && queued.connections.is_empty();
        queued.is_closed |= is_idle && queued.was_used;
        queued.is_closed
    }

    /// Closes the queue and drops the work in it.
    pub(crate) fn close(&self) {
        let mut queued = self.lock();
        queued.is_closed = true;
        let left = (
            std::mem::take(&mut queued.orders),
            std::mem::take(&mut queued.connections),
        );
        drop(queued);
        drop(left);
    }
}

/// Why a connection is lost that the machine knows nothing about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Nobody has the port that the peer had.
    Gone,
    /// The task of the socket has ended before the connection.
    Abandoned,
}

impl Lost {
    #[cold]
    fn error(self, op: Operation) -> Error {
        let (kind, fact) = match self {
            Self::Gone => (ErrorKind::Reset, "the peer's port is closed"),
            Self::Abandoned => (ErrorKind::Io, "the runtime ended the socket's task"),
        };
        Error::new(kind, "udt", op, fact)
    }
}

/// One connection.
pub(crate) struct ConnectionInner {
    pub(crate) id: ConnectionId,
    state: Mutex<State>,
    to_task: Arc<TaskQueue>,
    /// What the socket says of itself.
    below: Arc<Info>,
}

/// State of a connection, with the wakers of its handle.
pub(crate) struct State {
    pub(crate) machine: Connection,
    /// Our address, as the peer knows it.
    pub(crate) local: Option<IpAddr>,
    pub(crate) reader: Option<Waker>,
    /// Who writes, or waits for the handshake or the end.
    pub(crate) writer: Option<Waker>,
    /// Whether the writer waits until there is less that was never sent.
    pub(crate) waits_for_sending: bool,
    pub(crate) is_connected: bool,
    /// How it ended, once the peer was told.
    pub(crate) closed: Option<Option<ConnectionError>>,
    pub(crate) lost: Option<Lost>,
    /// Since when the peer's port has been refusing what we send.
    pub(crate) refused_since: Option<Instant>,
    /// When the task looks at it next by itself.
    pub(crate) looks_at: Option<Instant>,
    /// Whether the connection is in the queue of the task.
    pub(crate) is_scheduled: bool,
    is_closing: bool,
}

/// Registers the waker of `cx`.
fn wait(place: &mut Option<Waker>, cx: &Context<'_>) {
    match place {
        Some(waker) if waker.will_wake(cx.waker()) => {}
        _ => *place = Some(cx.waker().clone()),
    }
}

impl State {
    /// Waits until there is more to read, unless nothing can come any more.
    pub(crate) fn wait_to_read<T>(&mut self, cx: &Context<'_>) -> Poll<Result<T, Error>> {
        wait(&mut self.reader, cx);
        self.check(Operation::Read)
            .map_or(Poll::Pending, |lost| Poll::Ready(Err(lost)))
    }

    /// Waits until there is room, or for what `op` waits for, unless that cannot come any more.
    pub(crate) fn wait_to_write<T>(
        &mut self,
        cx: &Context<'_>,
        op: Operation,
    ) -> Poll<Result<T, Error>> {
        wait(&mut self.writer, cx);
        self.check(op)
            .map_or(Poll::Pending, |lost| Poll::Ready(Err(lost)))
    }

    /// What the machine does not know of.
    pub(crate) fn check(&self, op: Operation) -> Option<Error> {
        self.lost.map(|lost| lost.error(op))
    }

    /// The failure of the machine, or what is known better.
    #[cold]
    pub(crate) fn error(&self, why: ConnectionError, op: Operation) -> Error {
        self.lost
            .map_or_else(|| error(why, op), |lost| lost.error(op))
    }

    /// Gives the connection up, for a reason that the machine does not know.
    pub(crate) fn lose(&mut self, now: Instant, lost: Lost) {
        self.lost.get_or_insert(lost);
        self.machine.abort(now);
    }
}

impl ConnectionInner {
    /// A conn that the task knows of already.
    pub(crate) fn new(
        machine: Connection,
        local: Option<IpAddr>,
        to_task: Arc<TaskQueue>,
        below: Arc<Info>,
    ) -> Arc<Self> {
        let state = State {
            local,
            reader: None,
            writer: None,
            waits_for_sending: false,
            is_connected: false,
            closed: None,
            lost: None,
            refused_since: None,
            looks_at: None,
            is_scheduled: true,
            is_closing: false,
            machine,
        };
        Arc::new(Self {
            id: state.machine.id(),
            state: Mutex::new(state),
            to_task,
            below,
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the connection, and queued the task where that leaves it something to do.
    pub(crate) fn with<T>(self: &Arc<Self>, act: impl FnOnce(&mut State, Instant) -> T) -> T {
        let now = now();
        let mut state = self.lock();
        let done = act(&mut state, now);
        let due = state.machine.poll_timeout();
        let is_sooner = due.is_some_and(|due| state.looks_at.is_none_or(|looks| due < looks));
        self.call(state, is_sooner);
        done
    }

    fn call(self: &Arc<Self>, mut state: MutexGuard<'_, State>, is_needed: bool) {
        let schedules = is_needed && !state.is_scheduled;
        state.is_scheduled |= schedules;
        drop(state);
        if schedules {
            self.to_task.schedule(Arc::clone(self));
        }
    }

    /// Waits for the handshake.
    pub(crate) fn poll_connected(
        &self,
        cx: &Context<'_>,
        op: Operation,
    ) -> Poll<Result<(), Error>> {
        let mut state = self.lock();
        match state.closed {
            // What ended in good order in the meantime was connected.
            _ if state.is_connected => Poll::Ready(Ok(())),
            Some(why) => {
                let why = why.unwrap_or(ConnectionError::Closed);
                Poll::Ready(Err(state.error(why, op)))
            }
            None => state.wait_to_write(cx, op),
        }
    }

    /// Ends it well: waits until the peer has acknowledged everything and was told.
    pub(crate) fn poll_close(self: &Arc<Self>, cx: &Context<'_>) -> Poll<Result<(), Error>> {
        let mut state = self.lock();
        match state.closed {
            Some(None) => return Poll::Ready(Ok(())),
            Some(Some(why)) => return Poll::Ready(Err(state.error(why, Operation::Shutdown))),
            None => {}
        }
        let begins = !std::mem::replace(&mut state.is_closing, true);
        if begins {
            state.machine.close(now());
        }
        let pending = state.wait_to_write(cx, Operation::Shutdown);
        self.call(state, begins);
        pending
    }

    /// Says what is known of the connection.
    pub(crate) fn describe(&self, info: &mut Info) {
        let state = self.lock();
        self.below
            .chain
            .iter()
            .for_each(|name| info.layer(name.clone()));
        info.layer("udt");
        info.local = self.below.local;
        if let (Some(local), Some(ip)) = (&mut info.local, state.local) {
            local.set_ip(ip);
        }
        info.peer = Some(state.machine.peer());
        info.mtu = Some(state.machine.datagram_size().saturating_sub(16));
        info.ends_together = true;
        let stats = state.machine.stats();
        let mut path = PathStats::new();
        path.round_trip = Some(stats.rtt);
        path.sent = Some(stats.sent);
        path.retransmitted = Some(stats.retransmitted);
        path.lost = Some(stats.lost);
        info.insert(path);
        info.insert(stats);
    }
}

/// Owner of a connection: dropped before the end, it aborts the connection.
pub(crate) struct ConnectionRef(pub(crate) Arc<ConnectionInner>);

impl Drop for ConnectionRef {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        // One that ended in good order has nothing left to give up.
        state.machine.abort(now());
        self.0.call(state, true);
    }
}
