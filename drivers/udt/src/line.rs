//! `Line`: one connection, shared by its handle and the task of its socket; and `Bell`, which calls the task.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tokio::sync::oneshot;
use udt_proto::{Connection, ConnectionError, ConnectionId, Options};
use xio_core::{Error, ErrorKind, Info, Operation, PathStats};

use crate::error::error;

/// The time, as the runtime sees it.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// What the task of a socket is asked to do.
pub(crate) enum Order {
    /// Begin a connection.
    Connect {
        peer: std::net::SocketAddr,
        options: Box<Options>,
        rendezvous: bool,
        reply: oneshot::Sender<Hold>,
    },
    /// A connection waits in the backlog no longer.
    Taken(ConnectionId),
    /// Nobody waits for peers any more.
    StopListening,
}

/// Calls the task of a socket.
#[derive(Default)]
pub(crate) struct Bell(Mutex<Calls>);

#[derive(Default)]
struct Calls {
    lines: Vec<Arc<Line>>,
    orders: VecDeque<Order>,
    task: Option<Waker>,
    /// Whether anything was ever asked of the task.
    was_asked: bool,
    is_over: bool,
}

impl Bell {
    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives an order, unless the task is over.
    pub(crate) fn order(&self, order: Order) -> Result<(), Order> {
        let mut calls = self.lock();
        if calls.is_over {
            return Err(order);
        }
        calls.orders.push_back(order);
        calls.was_asked = true;
        let task = calls.task.take();
        drop(calls);
        task.into_iter().for_each(Waker::wake);
        Ok(())
    }

    fn ring(&self, line: Arc<Line>) {
        let mut calls = self.lock();
        if calls.is_over {
            return;
        }
        calls.lines.push(line);
        let task = calls.task.take();
        drop(calls);
        task.into_iter().for_each(Waker::wake);
    }

    /// What the task was called for; it is called again from now on.
    pub(crate) fn answer(&self, cx: &Context<'_>, lines: &mut Vec<Arc<Line>>) -> VecDeque<Order> {
        let mut calls = self.lock();
        lines.append(&mut calls.lines);
        if !calls
            .task
            .as_ref()
            .is_some_and(|task| task.will_wake(cx.waker()))
        {
            calls.task = Some(cx.waker().clone());
        }
        std::mem::take(&mut calls.orders)
    }

    /// Whether the task may end: nobody has called it, and from now on nobody can.
    pub(crate) fn rest(&self) -> bool {
        let mut calls = self.lock();
        let is_idle = calls.orders.is_empty() && calls.lines.is_empty();
        calls.is_over |= is_idle && calls.was_asked;
        calls.is_over
    }

    /// Says that the task is over, whatever is left to do.
    pub(crate) fn silence(&self) {
        let mut calls = self.lock();
        calls.is_over = true;
        let left = (
            std::mem::take(&mut calls.orders),
            std::mem::take(&mut calls.lines),
        );
        drop(calls);
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
pub(crate) struct Line {
    pub(crate) id: ConnectionId,
    state: Mutex<State>,
    bell: Arc<Bell>,
    /// What the socket says of itself.
    below: Arc<Info>,
}

/// A connection, and who waits for what.
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
    /// Whether the task is called already.
    pub(crate) is_rung: bool,
    is_closing: bool,
}

/// Remembers whom to wake.
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

impl Line {
    /// A line that the task knows of already.
    pub(crate) fn new(
        machine: Connection,
        local: Option<IpAddr>,
        bell: Arc<Bell>,
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
            is_rung: true,
            is_closing: false,
            machine,
        };
        Arc::new(Self {
            id: state.machine.id(),
            state: Mutex::new(state),
            bell,
            below,
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the connection, and calls the task where that leaves it something to do.
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
        let rings = is_needed && !state.is_rung;
        state.is_rung |= rings;
        drop(state);
        if rings {
            self.bell.ring(Arc::clone(self));
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

/// A connection in somebody's hands: dropping it unfinished gives it up, and the peer is told so.
pub(crate) struct Hold(pub(crate) Arc<Line>);

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        // One that ended in good order has nothing left to give up.
        state.machine.abort(now());
        self.0.call(state, true);
    }
}
