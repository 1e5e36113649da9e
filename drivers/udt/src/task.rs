//! `Task`: owns a socket and the clock; receives datagrams, and sends those of its connections.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread::panicking;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Sleep;
use udt_proto::{Connection, ConnectionId, Endpoint, Options, Routed};
use xio_core::{Datagram, Error, ErrorKind, Info, Operation, Received, Result, Transmit};

use crate::connection::{ConnectionInner, ConnectionRef, Lost, Order, TaskQueue, now};

/// Buffers of one receive call, and bytes of each: the kernel joins datagrams up to that size.
const BUFFERS: usize = 8;
const BUFFER: usize = 1 << 16;
/// Bursts of a connection's turn.
const BURSTS: usize = 8;
/// Rounds before the task yields to other tasks of the thread.
const ROUNDS: usize = 32;
/// Failures to receive in a row after which the task ends.
const FAILURES: usize = 64;
/// Retry interval while the socket is not writable, in addition to its own wake-up.
const BLOCKED: Duration = Duration::from_millis(10);
/// Time for which the peer's port refuses our packets before the connection is lost.
const REFUSALS: Duration = Duration::from_secs(1);
/// Shutdown packets sent when the task ends before the connection.
const LAST_SHUTDOWNS: usize = 3;
/// Unsent bytes above which a writer waits.
pub(crate) const UNSENT: usize = 1 << 20;

thread_local! {
    /// Receive buffers of the thread: a task empties them before it waits.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The listening side of a task.
pub(crate) struct Listening {
    pub(crate) options: Options,
    pub(crate) backlog: usize,
    pub(crate) queue: UnboundedSender<ConnectionRef>,
}

/// State of one socket and its connections.
pub(crate) struct Task<D: Datagram> {
    socket: D,
    below: Arc<Info>,
    /// Whether the socket has several addresses, so that each answer names the one it leaves from.
    has_many_addresses: bool,
    endpoint: Endpoint,
    queue: Option<UnboundedSender<ConnectionRef>>,
    connections: HashMap<ConnectionId, Arc<ConnectionInner>>,
    /// Connections to serve; `is_scheduled` is set in each.
    due: Vec<Arc<ConnectionInner>>,
    timers: BTreeSet<(Instant, ConnectionId)>,
    sleep: Pin<Box<Sleep>>,
    to_task: Arc<TaskQueue>,
    /// Failures to receive in a row.
    failures: usize,
    /// Whether sending has reported a closed port.
    is_refused: bool,
}

impl<D: Datagram> Task<D> {
    /// Spawns the task of a socket; it ends with the last connection and the listener.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub(crate) fn spawn(
        socket: D,
        below: Arc<Info>,
        listening: Option<Listening>,
    ) -> Result<Arc<TaskQueue>> {
        let op = match listening {
            Some(_) => Operation::Listen,
            None => Operation::Connect,
        };
        let to_task = Arc::new(TaskQueue::default());
        let mut endpoint = Endpoint::new(now(), seed(op)?);
        let queue = listening.map(|listening| {
            endpoint.listen(listening.options, listening.backlog);
            listening.queue
        });
        let many = below.local.is_some_and(|local| local.ip().is_unspecified());
        let task = Self {
            socket,
            below,
            has_many_addresses: many,
            endpoint,
            queue,
            connections: HashMap::new(),
            due: Vec::new(),
            timers: BTreeSet::new(),
            sleep: Box::pin(tokio::time::sleep(Duration::ZERO)),
            to_task: Arc::clone(&to_task),
            failures: 0,
            is_refused: false,
        };
        tokio::spawn(task);
        Ok(to_task)
    }

    /// Carries out the queued orders.
    fn take_orders(&mut self, cx: &Context<'_>, now: Instant) {
        let to_task = Arc::clone(&self.to_task);
        for order in to_task.take(cx, &mut self.due) {
            match order {
                Order::Connect {
                    peer,
                    options,
                    rendezvous,
                    reply,
                } => {
                    let machine = match rendezvous {
                        true => self.endpoint.rendezvous(now, peer, *options),
                        false => self.endpoint.connect(now, peer, *options),
                    };
                    let conn = self.add(machine, None);
                    // If the caller was dropped, this aborts the connection.
                    let _ = reply.send(ConnectionRef(conn));
                }
                Order::Taken(id) => self.endpoint.taken(id),
                Order::StopListening => {
                    self.endpoint.stop_listening();
                    self.queue = None;
                }
            }
        }
    }

    fn add(&mut self, machine: Connection, local: Option<IpAddr>) -> Arc<ConnectionInner> {
        let to_task = Arc::clone(&self.to_task);
        let conn = ConnectionInner::new(machine, local, to_task, Arc::clone(&self.below));
        self.connections.insert(conn.id, Arc::clone(&conn));
        self.due.push(Arc::clone(&conn));
        conn
    }

    /// Receives datagrams by one call; pending when there are none.
    fn receive(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<io::Result<()>> {
        ROOM.with_borrow_mut(|room| {
            room.resize(BUFFERS * BUFFER, 0);
            let mut met = [None; BUFFERS];
            let filled = {
                let mut parts = room.chunks_exact_mut(BUFFER);
                let mut bufs: [_; BUFFERS] =
                    std::array::from_fn(|_| IoSliceMut::new(parts.next().unwrap_or_default()));
                std::task::ready!(self.socket.poll_recv(cx, &mut bufs, &mut met))?
            };
            for (bytes, met) in room.chunks_exact(BUFFER).zip(met).take(filled) {
                if let Some(met) = met {
                    let bytes = bytes.get(..met.len).unwrap_or_default();
                    self.take_in(cx, now, bytes, &met);
                }
            }
            Poll::Ready(Ok(()))
        })
    }

    fn take_in(&mut self, cx: &mut Context<'_>, now: Instant, bytes: &[u8], met: &Received) {
        let local = met.to.filter(|_| self.has_many_addresses);
        let mut rest = bytes;
        while !rest.is_empty() {
            let (routed, taken) = self.endpoint.route(now, met.from, rest, met.segment);
            let (these, after) = rest.split_at(taken.clamp(1, rest.len()));
            rest = after;
            match routed {
                Routed::Connection(id) => {
                    let Some(conn) = self.connections.get(&id) else {
                        continue;
                    };
                    let mut state = conn.lock();
                    state.local = local.or(state.local);
                    state.refused_since = None;
                    state.machine.handle_datagrams(now, these, met.segment);
                    if !std::mem::replace(&mut state.is_scheduled, true) {
                        drop(state);
                        self.due.push(Arc::clone(conn));
                    }
                }
                Routed::Reply(answer) => {
                    let mut message = Transmit::new(&answer).to(met.from);
                    message.from = local;
                    // Best effort: the peer repeats its request.
                    let _ = self.socket.poll_send(cx, &message);
                }
                Routed::Incoming(machine) => {
                    let conn = self.add(*machine, local);
                    if let Some(queue) = &self.queue {
                        let _ = queue.send(ConnectionRef(conn));
                    }
                }
                _ => {}
            }
        }
    }

    /// Serves a connection: sends its packets, and wakes its handle.
    fn serve(&mut self, cx: &mut Context<'_>, now: Instant, conn: &Arc<ConnectionInner>) -> Turn {
        let segments = self.socket.max_batch();
        let mut turn = Turn::Again;
        let mut state = conn.lock();
        if state.machine.poll_timeout().is_some_and(|at| at <= now) {
            state.machine.handle_timeout(now);
        }
        let (peer, local) = (state.machine.peer(), state.local);
        for _ in 0..BURSTS {
            let Some(burst) = state.machine.poll_transmit(now, segments) else {
                turn = Turn::Over;
                break;
            };
            let mut message = Transmit::new(burst.contents).to(peer);
            message.segment = burst.segment_size;
            message.from = local;
            match self.socket.poll_send(cx, &message) {
                // A packet that the socket fails to send counts as lost on the way.
                Poll::Ready(sent) => {
                    self.is_refused |= sent.is_err_and(|error| is_refusal(&error));
                    state.machine.on_transmitted(now);
                }
                Poll::Pending => {
                    turn = Turn::Blocked;
                    break;
                }
            }
        }
        let wakes = state.take_wakes();
        let due = match state.machine.is_over() {
            true => None,
            false => state.machine.poll_timeout(),
        };
        let due = match turn {
            Turn::Blocked => due.map(|at| at.max(now + BLOCKED)),
            Turn::Over | Turn::Again => due,
        };
        if due != state.looks_at {
            if let Some(at) = std::mem::replace(&mut state.looks_at, due) {
                self.timers.remove(&(at, conn.id));
            }
            self.timers.extend(due.map(|at| (at, conn.id)));
        }
        state.is_scheduled = turn != Turn::Over;
        if state.machine.is_over() {
            self.endpoint.forget(conn.id);
            self.connections.remove(&conn.id);
        }
        drop(state);
        wakes.into_iter().flatten().for_each(Waker::wake);
        turn
    }

    /// Serves all connections that are due; returns whether one has more to send at once.
    fn serve_all(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        while let Some((at, id)) = self.timers.first().copied() {
            if at > now {
                break;
            }
            self.timers.pop_first();
            if let Some(conn) = self.connections.get(&id) {
                let mut state = conn.lock();
                state.looks_at = None;
                if !std::mem::replace(&mut state.is_scheduled, true) {
                    self.due.push(Arc::clone(conn));
                }
            }
        }
        let mut again = false;
        for conn in std::mem::take(&mut self.due) {
            match self.serve(cx, now, &conn) {
                Turn::Over => {}
                Turn::Again => {
                    again = true;
                    self.due.push(conn);
                }
                Turn::Blocked => self.due.push(conn),
            }
        }
        again
    }

    /// Reacts to the network's report of a closed port.
    fn on_refusal(&mut self, now: Instant) {
        for conn in self.connections.values() {
            let mut state = conn.lock();
            if !state.is_connected {
                state.machine.on_unreachable();
            } else if now - *state.refused_since.get_or_insert(now) >= REFUSALS {
                state.lose(now, Lost::Gone);
            }
            if !std::mem::replace(&mut state.is_scheduled, true) {
                self.due.push(Arc::clone(conn));
            }
        }
    }

    fn is_needed(&self) -> bool {
        !self.connections.is_empty() || self.queue.is_some()
    }
}

/// Whether the network reports a closed port.
fn is_refusal(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

/// Result of a connection's turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// It has nothing to send now.
    Over,
    /// It has more to send.
    Again,
    /// It has more to send, and the socket is not writable.
    Blocked,
}

impl<D: Datagram> Future for Task<D> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        for _ in 0..ROUNDS {
            let now = now();
            this.take_orders(cx, now);
            let received = this.receive(cx, now);
            this.failures = match received {
                Poll::Ready(Err(_)) => this.failures + 1,
                _ => 0,
            };
            let mut again = match received {
                Poll::Pending => false,
                Poll::Ready(Ok(())) => true,
                Poll::Ready(Err(error)) => {
                    if is_refusal(&error) {
                        this.is_refused = true;
                    } else if this.failures >= FAILURES {
                        return Poll::Ready(());
                    }
                    true
                }
            };
            if std::mem::take(&mut this.is_refused) {
                this.on_refusal(now);
            }
            again |= this.serve_all(cx, now) || this.is_refused;
            if again {
                continue;
            }
            if !this.is_needed() && this.to_task.close_if_idle() {
                return Poll::Ready(());
            }
            let Some((at, _)) = this.timers.first() else {
                return Poll::Pending;
            };
            let at = tokio::time::Instant::from_std(*at);
            if this.sleep.deadline() != at || this.sleep.is_elapsed() {
                this.sleep.as_mut().reset(at);
            }
            std::task::ready!(this.sleep.as_mut().poll(cx));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Ends the connections that are left: neither their handles nor their peers must wait for a task
/// that has ended. A peer would notice after 46 seconds only, and a closed connection would end in
/// an error.
impl<D: Datagram> Drop for Task<D> {
    fn drop(&mut self) {
        self.to_task.close();
        let now = now();
        let mut cx = Context::from_waker(Waker::noop());
        for conn in self.connections.values() {
            let mut state = conn.lock();
            state.lost.get_or_insert(Lost::Abandoned);
            let (peer, local) = (state.machine.peer(), state.local);
            // The machine itself may have panicked.
            let shutdowns = if panicking() { 0 } else { LAST_SHUTDOWNS };
            for _ in 0..shutdowns {
                state.machine.end_now();
                while let Some(packet) = state.machine.poll_transmit(now, 1) {
                    let mut message = Transmit::new(packet.contents).to(peer);
                    message.from = local;
                    // Best effort.
                    let _ = self.socket.poll_send(&mut cx, &message);
                    state.machine.on_transmitted(now);
                }
            }
            let wakes = [state.reader.take(), state.writer.take()];
            drop(state);
            wakes.into_iter().flatten().for_each(Waker::wake);
        }
    }
}

/// Returns secret random bytes of the system, from which cookies and socket ids are made.
fn seed(op: Operation) -> Result<[u8; 16]> {
    let mut seed = [0; 16];
    getrandom::fill(&mut seed).map_err(|error| {
        let fact = format!("the system gives no random numbers: {error}");
        Error::new(ErrorKind::Io, "udt", op, fact)
    })?;
    Ok(seed)
}
