//! `ConnectionInner`: a connection, shared by its handle and the task of its socket.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tokio::sync::oneshot;
use udt_proto::{Connection, ConnectionError, ConnectionId, Event, Options};
use xio_core::{Error, ErrorKind, Info, Operation, PathStats};

use crate::error::error;
use crate::queue::Queue;
use crate::task::UNSENT;

/// Returns the time of the runtime's clock.
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
    /// A connection was accepted from the backlog.
    Taken(ConnectionId),
    /// The listener was dropped.
    StopListening,
}

/// Queue of work for the task of a socket.
pub(crate) type TaskQueue = Queue<Arc<ConnectionInner>, Order>;

/// Loss of a connection that the machine cannot detect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The peer's port is closed.
    Gone,
    /// The task of the socket ended before the connection.
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

/// A connection.
pub(crate) struct ConnectionInner {
    pub(crate) id: ConnectionId,
    state: Mutex<State>,
    to_task: Arc<TaskQueue>,
    /// Description of the socket.
    below: Arc<Info>,
}

/// State of a connection, with the wakers of its handle.
pub(crate) struct State {
    pub(crate) machine: Connection,
    /// Local address, as the peer sees it.
    pub(crate) local: Option<IpAddr>,
    pub(crate) reader: Option<Waker>,
    /// Waker of the task that writes, or waits for the handshake or the end.
    pub(crate) writer: Option<Waker>,
    /// Whether the writer waits until fewer bytes are unsent.
    pub(crate) waits_for_sending: bool,
    pub(crate) is_connected: bool,
    /// Result of the connection, once it has ended.
    pub(crate) closed: Option<Option<ConnectionError>>,
    pub(crate) lost: Option<Lost>,
    /// Time since which the peer's port refuses our packets.
    pub(crate) refused_since: Option<Instant>,
    /// Next time at which the task serves the connection by itself.
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
    /// Waits for data to read, unless the connection is lost.
    pub(crate) fn wait_to_read<T>(&mut self, cx: &Context<'_>) -> Poll<Result<T, Error>> {
        wait(&mut self.reader, cx);
        self.check(Operation::Read)
            .map_or(Poll::Pending, |lost| Poll::Ready(Err(lost)))
    }

    /// Waits for room, or for the event of `op`, unless the connection is lost.
    pub(crate) fn wait_to_write<T>(
        &mut self,
        cx: &Context<'_>,
        op: Operation,
    ) -> Poll<Result<T, Error>> {
        wait(&mut self.writer, cx);
        self.check(op)
            .map_or(Poll::Pending, |lost| Poll::Ready(Err(lost)))
    }

    /// Returns the loss that the machine cannot detect, as an error.
    pub(crate) fn check(&self, op: Operation) -> Option<Error> {
        self.lost.map(|lost| lost.error(op))
    }

    /// Returns the machine's failure as an error, or the loss behind it.
    #[cold]
    pub(crate) fn error(&self, why: ConnectionError, op: Operation) -> Error {
        self.lost
            .map_or_else(|| error(why, op), |lost| lost.error(op))
    }

    /// Takes in the machine's events, and returns the wakers of the tasks that wait for them.
    pub(crate) fn take_wakes(&mut self) -> [Option<Waker>; 2] {
        let (mut to_read, mut to_write) = (false, false);
        while let Some(event) = self.machine.poll_event() {
            to_read |= matches!(event, Event::Readable | Event::Closed(_));
            to_write |= !matches!(event, Event::Readable);
            match event {
                Event::Connected => self.is_connected = true,
                Event::Closed(why) => self.closed = Some(why),
                _ => {}
            }
        }
        if self.waits_for_sending && self.machine.unsent() <= UNSENT / 2 {
            self.waits_for_sending = false;
            to_write = true;
        }
        [
            self.reader.take_if(|_| to_read),
            self.writer.take_if(|_| to_write),
        ]
    }

    /// Aborts the connection for a reason that the machine cannot detect.
    pub(crate) fn lose(&mut self, now: Instant, lost: Lost) {
        self.lost.get_or_insert(lost);
        self.machine.abort(now);
    }
}

impl ConnectionInner {
    /// Creates a connection that the task serves already.
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

    /// Calls `act`, and wakes the task if the connection is due earlier than the task expects.
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
            // A connection that has ended in order by now was connected.
            _ if state.is_connected => Poll::Ready(Ok(())),
            Some(why) => {
                let why = why.unwrap_or(ConnectionError::Closed);
                Poll::Ready(Err(state.error(why, op)))
            }
            None => state.wait_to_write(cx, op),
        }
    }

    /// Closes the connection: waits until the peer has acknowledged everything and was told.
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

    /// Describes the connection and its path.
    pub(crate) fn describe(&self, info: &mut Info) {
        let state = self.lock();
        describe(&self.below, info);
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

/// Describes a socket with UDT over it.
pub(crate) fn describe(below: &Info, info: &mut Info) {
    below.chain.iter().for_each(|name| info.layer(name.clone()));
    info.layer("udt");
    info.local = below.local;
}

/// Owner of a connection: dropped before the end, it aborts the connection.
pub(crate) struct ConnectionRef(pub(crate) Arc<ConnectionInner>);

impl Drop for ConnectionRef {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        // Without effect on a connection that has ended in order.
        state.machine.abort(now());
        self.0.call(state, true);
    }
}
