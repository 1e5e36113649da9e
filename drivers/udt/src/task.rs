//! `Task`: owns a socket and the clock; takes in what arrives, and sends what the connections have to send.

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
use udt_proto::{Connection, ConnectionId, Endpoint, Event, Options, Routed};
use xio_core::{Datagram, Error, ErrorKind, Info, Operation, Received, Result, Transmit};

use crate::connection::{ConnectionInner, ConnectionRef, Lost, Order, TaskQueue, now};

/// Buffers that one call fills, and bytes of each: what the kernel joins at most.
const BUFFERS: usize = 8;
const BUFFER: usize = 1 << 16;
/// Bursts that a connection sends before the next has its turn.
const BURSTS: usize = 8;
/// Rounds before other tasks of the thread have theirs.
const ROUNDS: usize = 32;
/// Failures to receive, one after another, that make a socket useless.
const FAILURES: usize = 64;
/// How often a connection is looked at whose socket takes nothing; that calls by itself once it does.
const BLOCKED: Duration = Duration::from_millis(10);
/// How long the peer's port may refuse what we send before we believe that nobody is there.
const REFUSALS: Duration = Duration::from_secs(1);
/// How often the end is told when the task ends before it.
const LAST_WORDS: usize = 3;
/// A writer goes on when there are no more bytes than this that were never sent.
pub(crate) const UNSENT: usize = 1 << 20;

thread_local! {
    /// Where datagrams arrive. They are taken in before the task waits, so a thread needs it once.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Who a listener's task hands new connections to.
pub(crate) struct Listening {
    pub(crate) options: Options,
    pub(crate) backlog: usize,
    pub(crate) queue: UnboundedSender<ConnectionRef>,
}

/// Everything that happens at one socket.
pub(crate) struct Task<D: Datagram> {
    socket: D,
    below: Arc<Info>,
    /// Whether the socket has several addresses, so that each answer names the one it leaves from.
    has_many_addresses: bool,
    endpoint: Endpoint,
    queue: Option<UnboundedSender<ConnectionRef>>,
    connections: HashMap<ConnectionId, Arc<ConnectionInner>>,
    /// Whose turn it is; `is_scheduled` is set in each.
    due: Vec<Arc<ConnectionInner>>,
    timers: BTreeSet<(Instant, ConnectionId)>,
    sleep: Pin<Box<Sleep>>,
    to_task: Arc<TaskQueue>,
    /// Failures to receive since something was, or nothing was there.
    failures: usize,
    /// Whether the network said to who was sending that nobody is there.
    is_refused: bool,
}

impl<D: Datagram> Task<D> {
    /// Takes a socket into service; the task ends when nobody needs it any more.
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

    /// Does what it was called for.
    fn take_calls(&mut self, cx: &Context<'_>, now: Instant) {
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
                    // Whoever does not wait any more drops it, which gives it up.
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

    /// Takes in what has arrived, one call's worth; pending when there is nothing.
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
                    // A peer that does not get it asks again.
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

    /// Lets a connection send, and tells those who wait; whether it has had its turn for now.
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
                // What the socket fails to send is lost, as on any link, and as if it had been sent.
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
        let (mut to_read, mut to_write) = (false, false);
        while let Some(event) = state.machine.poll_event() {
            to_read |= matches!(event, Event::Readable | Event::Closed(_));
            to_write |= !matches!(event, Event::Readable);
            match event {
                Event::Connected => state.is_connected = true,
                Event::Closed(why) => state.closed = Some(why),
                _ => {}
            }
        }
        if state.waits_for_sending && state.machine.unsent() <= UNSENT / 2 {
            state.waits_for_sending = false;
            to_write = true;
        }
        let wakes = [
            state.reader.take_if(|_| to_read),
            state.writer.take_if(|_| to_write),
        ];
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

    /// Gives every connection its turn that has something to do; whether one has more to do at once.
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

    /// The network says that nobody has the port that something was sent to.
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

/// Whether the network says that nobody has the port that something was sent to.
fn is_refusal(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

/// What became of a connection's turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// It has nothing to send now.
    Over,
    /// It has more to send.
    Again,
    /// It has more to send, which the socket does not take now.
    Blocked,
}

impl<D: Datagram> Future for Task<D> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        for _ in 0..ROUNDS {
            let now = now();
            this.take_calls(cx, now);
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

/// Whoever still holds a connection must not wait for a task that is no more, nor must its peer, which would
/// take three quarters of a minute to notice, and a failure for the end of one that has just been closed.
impl<D: Datagram> Drop for Task<D> {
    fn drop(&mut self) {
        self.to_task.close();
        let now = now();
        let mut cx = Context::from_waker(Waker::noop());
        for conn in self.connections.values() {
            let mut state = conn.lock();
            state.lost.get_or_insert(Lost::Abandoned);
            let (peer, local) = (state.machine.peer(), state.local);
            // Where the machine itself has failed, it is not to be asked again.
            let words = if panicking() { 0 } else { LAST_WORDS };
            for _ in 0..words {
                state.machine.last_words();
                while let Some(words) = state.machine.poll_transmit(now, 1) {
                    let mut message = Transmit::new(words.contents).to(peer);
                    message.from = local;
                    // Who cannot be told now is not told.
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

/// Numbers that nobody else can guess, from the system: cookies and connection numbers are made of them.
fn seed(op: Operation) -> Result<[u8; 16]> {
    let mut seed = [0; 16];
    getrandom::fill(&mut seed).map_err(|error| {
        let fact = format!("the system gives no random numbers: {error}");
        Error::new(ErrorKind::Io, "udt", op, fact)
    })?;
    Ok(seed)
}
