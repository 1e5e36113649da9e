//! `DataChannel`: the data connections of one end of a session.

mod send;

use std::net::{IpAddr, SocketAddr};
use std::num::NonZero;

use ftp_wire::command::{Mode, Type};
use ftp_wire::opts::Parallelism;
use gridftp_dsi::{Error as StorageError, ErrorKind as StorageKind, Sink, WriteModel};
use mode_e::Gather;
use tokio::task::JoinSet;
use xio_core::{DynStack, Listener as _, Passive as _, Pool, Target};

use crate::conn::Draining;
use crate::descriptors::Descriptors;
use crate::error::{Error, ErrorKind, Result};
use crate::listener::DataListener;
use crate::memory::PartMemory;
use crate::options::{Options, Peers};
use crate::plan::{ReceivePlan, Received};
use crate::receive::{self, Consumer, Delivery, InOrder, Job, Payload, TextInto};
use crate::refused::Refused;
use crate::setup::{Direction, Idle, Setup, Used};
use crate::trailer::LEAST_BLOCK;
use crate::watch::Watch;

/// The data connections of one end of a session.
///
/// [`listen`](Self::listen) or [`connect_to`](Self::connect_to) sets it up; then each transfer
/// opens its connections. In MODE S the connection ends with the file, and the channel must be set
/// up again; in MODE E the connections stay and serve the next transfer.
///
/// # Cancel safety
/// Dropping the future of a transfer before its connections are open leaves the channel unchanged.
/// A later drop, or a failure, resets the connections, so that a truncated file never looks whole,
/// and the channel must be set up again.
#[derive(Debug)]
pub struct DataChannel {
    options: Options,
    pool: Pool,
    descriptors: Descriptors,
    /// The memory for parts that all sessions share.
    pub(crate) parts: Option<PartMemory>,
    setup: Setup,
    idle: Idle,
    /// The task that attends the listener in `setup`, or an ending one.
    attending: JoinSet<()>,
    refused: Refused,
    draining: Draining,
}

impl DataChannel {
    /// Creates a channel that is not set up, with the block pool that all sessions share.
    pub fn new(options: Options, pool: Pool) -> Self {
        Self {
            options,
            pool,
            descriptors: Descriptors::default(),
            parts: None,
            setup: Setup::None,
            idle: Idle::default(),
            attending: JoinSet::new(),
            refused: Refused::default(),
            draining: Draining::default(),
        }
    }

    /// Counts the descriptors of ports, connections and pipes in a count shared by all sessions.
    #[must_use]
    pub fn with_descriptors(mut self, descriptors: Descriptors) -> Self {
        self.descriptors = descriptors;
        self
    }

    /// Takes the memory for parts from the bytes that all sessions share.
    #[must_use]
    pub fn with_part_memory(mut self, parts: PartMemory) -> Self {
        self.parts = Some(parts);
        self
    }

    /// The count of descriptors, also for the files of its transfers.
    pub const fn descriptors(&self) -> &Descriptors {
        &self.descriptors
    }

    pub(crate) const fn options(&self) -> &Options {
        &self.options
    }

    /// The limits of the connections; a change applies from the next transfer on.
    pub fn options_mut(&mut self) -> &mut Options {
        &mut self.options
    }

    /// Listens for the peer, in place of an earlier set-up, and returns the address to send it.
    ///
    /// # Errors
    /// [`ErrorKind::Open`] when no port is free, [`ErrorKind::Full`] when no descriptor is.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the channel not set up.
    pub async fn listen(
        &mut self,
        stack: &DynStack,
        at: &Target,
        peers: Peers,
    ) -> Result<SocketAddr> {
        self.reset();
        // The released port may be the only one in the range.
        self.attending.shutdown().await;
        let port = self.descriptors.take(1)?;
        let fail = |e| Error::open("listen", "cannot open a data port", e);
        let listener = stack.listen(at).await.map_err(fail)?;
        let local = listener.info().local.ok_or_else(|| {
            Error::new(
                ErrorKind::Open,
                "listen",
                "the stack has no local address to send to the peer",
            )
        })?;
        let tasks = &mut self.attending;
        let peers = (peers, self.refused.clone());
        let listener = DataListener::new((listener, port), peers, &self.options, tasks);
        self.setup = Setup::Passive(listener);
        Ok(local)
    }

    /// Connects to these addresses, one a stripe, when a transfer begins, in place of an earlier
    /// set-up.
    pub fn connect_to(&mut self, stack: DynStack, to: Vec<SocketAddr>) {
        self.reset();
        self.setup = Setup::Active(stack, to);
    }

    /// Closes the listener and idle connections, and drops addresses.
    pub fn reset(&mut self) {
        self.setup = Setup::None;
        self.refused = Refused::default();
        std::mem::take(&mut self.idle).retire();
    }

    /// Whether there is a listener, an address or an idle connection for the next transfer.
    pub fn is_set(&self) -> bool {
        !matches!(self.setup, Setup::None) || !self.idle.conns.is_empty()
    }

    /// Whether connections of an earlier transfer will serve the next one.
    pub fn is_cached(&self) -> bool {
        self.idle.served.is_some() && !self.idle.conns.is_empty()
    }

    /// The hosts that the data port has refused since it is open, or since its last complete
    /// transfer: the first three. The peer of a failed transfer may be among them.
    pub fn refused(&self) -> Vec<IpAddr> {
        self.refused.hosts()
    }

    /// Waits until the peer resets an idle connection of the last send: it lost bytes of it, or
    /// ended without closing its files. Waits for ever where it closes them all.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn reset_by_peer(&mut self) {
        self.idle.reset_by_peer().await;
    }

    /// Opens the connections of the next send in advance.
    ///
    /// # Errors
    /// As [`send`](Self::send), before any data.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the channel unchanged.
    pub async fn open(&mut self, mode: Mode, parallelism: impl Into<Parallelism>) -> Result<()> {
        if self.idle.conns.is_empty() {
            let (options, descriptors) = (&self.options, &self.descriptors);
            let parallelism = parallelism.into();
            let opening = self.setup.open(mode, parallelism, options, descriptors);
            self.idle = opening.await?;
        }
        Ok(())
    }

    /// Receives a file into a sink, which the caller finishes.
    ///
    /// A sequential sink gets the bytes in order, and one of parts gets whole ones. If the storage
    /// fails in a tagged transfer, the connections are kept for the next one.
    ///
    /// # Errors
    /// Errors of the peer, the storage or a deadline; see [`ErrorKind`]. [`Watch::received`] then
    /// has the written ranges.
    ///
    /// # Cancel safety
    /// As the type says.
    pub async fn receive<K: Sink>(
        &mut self,
        sink: &K,
        plan: &ReceivePlan,
        watch: &Watch,
    ) -> Result<Received> {
        let text = plan.ty == Type::Ascii;
        if let (false, WriteModel::Parts(size)) = (text, sink.order()) {
            return Box::pin(self.receive_parts(sink, size, plan, watch)).await;
        }
        if text || sink.order() != WriteModel::Random {
            let _room = self.part_room(sink.order()).await?;
            let start = plan.base.saturating_add(plan.first());
            let mut into = TextInto::new(sink, start, text);
            let mut received = self.receive_chunks(&mut into, plan, watch).await?;
            received.end = into.end_offset();
            return Ok(received);
        }
        let write = |offset: u64, payload| async move {
            let at = offset.saturating_add(plan.base);
            let _storing = watch.storing();
            match payload {
                Payload::Block(data) => sink.write_at(at, data).await,
                Payload::Again(data, stored) => {
                    receive::again(sink, plan.base, offset, data, &stored).await
                }
                Payload::Pipe(pipe, len) => sink.take_pipe(pipe, at, len).await,
            }
        };
        let delivery = Delivery::Direct {
            pipes: sink.takes_pipes(),
        };
        let ended_unmarked = self.receive_with(write, delivery, plan, watch).await?;
        Ok(Received::of(plan, watch, ended_unmarked))
    }

    /// Receives a sequence of bytes, sorted by offset in MODE E: a listing, standard output.
    ///
    /// # Errors
    /// As [`receive`](Self::receive), and [`ErrorKind::Protocol`] if the peer leaves a gap.
    ///
    /// # Cancel safety
    /// As the type says.
    pub async fn receive_chunks<C: Consumer>(
        &mut self,
        consumer: &mut C,
        plan: &ReceivePlan,
        watch: &Watch,
    ) -> Result<Received> {
        let order = InOrder::new(plan.first(), self.options.ahead, consumer.is_patient());
        let stall = self.options.stall;
        let moved = async {
            let order = &order;
            let write = |offset, payload| async move {
                match payload {
                    Payload::Block(data) => order.write(offset, data).await,
                    Payload::Again(..) | Payload::Pipe(..) => {
                        Err(StorageError::new(StorageKind::Unsupported, "write"))
                    }
                }
            };
            let done = self
                .receive_with(write, Delivery::Queued(order), plan, watch)
                .await;
            order.complete().and(done)
        };
        // Wire offsets of text are not offsets in the file, so they are not recorded.
        let account = plan.ty != Type::Ascii;
        let taken = order.hand_over(consumer, stall, watch, account);
        let (ended_unmarked, _) = tokio::try_join!(moved, taken)?;
        Ok(Received::of(plan, watch, ended_unmarked))
    }

    /// Receives and discards one MODE E transfer, so that the connections can serve the next one.
    ///
    /// # Errors
    /// As [`receive`](Self::receive).
    ///
    /// # Cancel safety
    /// As the type says.
    pub async fn discard(&mut self, plan: &ReceivePlan, watch: &Watch) -> Result<Received> {
        let forget = |_, _| std::future::ready(Ok(()));
        let delivery = Delivery::Direct { pipes: false };
        let ended_unmarked = self.receive_with(forget, delivery, plan, watch).await?;
        Ok(Received::of(plan, watch, ended_unmarked))
    }

    /// Receives, and returns the [`Received::ended_unmarked`].
    pub(crate) async fn receive_with<W, F>(
        &mut self,
        write: W,
        delivery: Delivery<'_>,
        plan: &ReceivePlan,
        watch: &Watch,
    ) -> Result<bool>
    where
        W: Fn(u64, Payload) -> F,
        F: Future<Output = Result<(), StorageError>>,
    {
        let extended = plan.mode == Mode::Extended;
        let senders = plan.stripes.unwrap_or(NonZero::<u32>::MIN);
        *watch.arrived() = Gather::new(self.options.limits()).with_senders(senders);
        watch.prove(plan.tag, plan.first(), 0);
        if plan.stripes.is_some() {
            watch.join_parts();
        }
        let mut pool = self.pool.clone();
        // In smaller blocks there is no room behind the bytes that may be a trailer.
        if plan.has_trailer() && pool.block_size() < LEAST_BLOCK {
            pool = Pool::new(LEAST_BLOCK, 2);
        }
        let job = Job::new(write, delivery, &pool, watch);
        let mut used = self.open_to_receive(plan.mode, watch).await?;
        let mut ended_unmarked = false;
        if extended {
            let reused = used.idle.served.is_some();
            let conns = std::mem::take(&mut used.idle.conns);
            let conns = conns.into_iter().map(|conn| (conn, reused)).collect();
            let listener = match &mut used.setup {
                Setup::Passive(listener) => Some(listener),
                _ => None,
            };
            let (conns, done) =
                receive::extended(conns, listener, job, plan.tag, &self.options).await;
            if let Err(error) = done {
                // The tag separates the rest of this transfer from the next one.
                if plan.tag.is_some() && error.kind() == ErrorKind::Storage {
                    used.idle.conns = conns;
                    self.keep(used, plan.mode, Direction::Receive);
                }
                return Err(error);
            }
            used.idle.conns = conns;
        } else {
            let received = receive::plain(used.only()?, plan, job, &self.options).await;
            match received {
                Ok(unmarked) => ended_unmarked = unmarked,
                Err((error, conn)) => {
                    let within = self.options.draining;
                    if error.kind() == ErrorKind::Storage && !within.is_zero() {
                        self.draining.replace(conn, within);
                    }
                    return Err(error);
                }
            }
        }
        watch.end(|| None);
        self.keep(used, plan.mode, Direction::Receive);
        watch.compare()?;
        Ok(ended_unmarked)
    }

    /// Moves the connections out of the channel, so that dropping the transfer resets them.
    ///
    /// Opens `watch` before the first byte moves.
    async fn take(&mut self, idle: Idle, watch: &Watch) -> Used {
        watch.connected(u32::try_from(idle.conns.len()).unwrap_or(u32::MAX));
        let reused = idle.served.is_some();
        let used = Used {
            setup: std::mem::take(&mut self.setup),
            idle,
        };
        watch.open(reused);
        tokio::task::yield_now().await;
        used
    }

    async fn open_to_receive(&mut self, mode: Mode, watch: &Watch) -> Result<Used> {
        let one = Parallelism::of(1);
        let idle = self.ready(mode, one, Direction::Receive).await?;
        Ok(self.take(idle, watch).await)
    }

    /// Connections for a transfer: the idle ones, or new ones.
    async fn ready(
        &mut self,
        mode: Mode,
        parallelism: Parallelism,
        direction: Direction,
    ) -> Result<Idle> {
        if self.idle.conns.is_empty() {
            let (options, descriptors) = (&self.options, &self.descriptors);
            let opening = self.setup.open(mode, parallelism, options, descriptors);
            return opening.await;
        }
        match self.idle.served {
            // Kept connections carry extended blocks, and a peer that sends never reads.
            Some(before) if mode != Mode::Extended || before != direction => {
                let fact =
                    "the kept data connections do not fit this transfer, send PASV or PORT first";
                Err(Error::new(ErrorKind::NoChannel, "open", fact))
            }
            _ => {
                self.setup.forget_failures();
                Ok(std::mem::take(&mut self.idle))
            }
        }
    }

    /// Puts the connections back for the next transfer; MODE S keeps none.
    fn keep(&mut self, used: Used, mode: Mode, direction: Direction) {
        self.refused.clear();
        if mode == Mode::Extended {
            self.setup = used.setup;
            self.idle = used.idle;
            self.idle.served = Some(direction);
        }
    }
}

impl Drop for DataChannel {
    fn drop(&mut self) {
        self.reset();
    }
}
