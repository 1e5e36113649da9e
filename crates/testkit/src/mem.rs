//! `Mem`: connections in memory with chosen chunk sizes, to test short reads and writes.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use xio_core::{
    ByteSize, Driver, DynStack, Error, ErrorKind, Incoming, Info, Listener, Operation, Passive,
    Result, Stream, Target, Transport, at_layer,
};

use crate::random::Random;

xio_core::options! {
    /// Options of a network in memory.
    #[derive(Copy)]
    struct MemOptions for "mem" {
        /// Most bytes in flight in each direction.
        capacity: ByteSize = ByteSize::new(64 << 10), "capacity";
        /// Most bytes of one read or write.
        chunk: ByteSize = ByteSize::new(u64::MAX), "chunk";
        /// Seed of random chunk sizes up to the largest; 0 for none.
        seed: u64 = 0, "seed";
    }
}

/// A network in memory, shared by its clones.
///
/// Addresses are ports of `127.0.0.1` within the network. The host of a target is ignored.
#[derive(Clone)]
pub struct Mem {
    net: Arc<Mutex<Net>>,
    options: MemOptions,
}

#[derive(Default)]
struct Net {
    listeners: BTreeMap<u16, mpsc::UnboundedSender<MemHandle>>,
    last_port: u16,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn address(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

impl Net {
    /// Returns an unused port.
    fn free_port(&mut self) -> u16 {
        loop {
            self.last_port = self.last_port.checked_add(1).unwrap_or(1);
            if !self.listeners.contains_key(&self.last_port) {
                return self.last_port;
            }
        }
    }
}

impl Default for Mem {
    fn default() -> Self {
        Self::new()
    }
}

impl Mem {
    /// Creates a network with unlimited chunks and 64 KiB in each direction.
    #[must_use]
    pub fn new() -> Self {
        Self {
            net: Arc::default(),
            options: MemOptions::default(),
        }
    }

    /// Limits reads and writes to `chunk` bytes.
    #[must_use]
    pub fn chunks(mut self, chunk: usize) -> Self {
        self.options.chunk = ByteSize::new(chunk.max(1) as u64);
        self
    }

    /// Draws the size of each chunk from 1 to the largest.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.options.seed = seed;
        self
    }

    /// Limits the bytes in flight in each direction.
    #[must_use]
    pub fn capacity(mut self, capacity: usize) -> Self {
        self.options.capacity = ByteSize::new(capacity.max(1) as u64);
        self
    }

    /// Returns two connected handles.
    #[must_use]
    pub fn pair(&self) -> (MemHandle, MemHandle) {
        let mut net = lock(&self.net);
        let (near, far) = (net.free_port(), net.free_port());
        self.connected(near, far)
    }

    fn connected(&self, near: u16, far: u16) -> (MemHandle, MemHandle) {
        let out = Arc::new(Mutex::new(Pipe::new(self.options.capacity.in_memory())));
        let back = Arc::new(Mutex::new(Pipe::new(self.options.capacity.in_memory())));
        let handle = |incoming: &Arc<_>, outgoing: &Arc<_>, local, peer, turn| MemHandle {
            incoming: Arc::clone(incoming),
            outgoing: Arc::clone(outgoing),
            local: address(local),
            peer: address(peer),
            chunk: self.options.chunk.in_memory(),
            random: (self.options.seed > 0).then(|| Random::new(self.options.seed ^ turn)),
            shut: false,
        };
        (
            handle(&back, &out, near, far, 0),
            handle(&out, &back, far, near, 1 << 32),
        )
    }
}

impl fmt::Debug for Mem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("mem")
    }
}

impl Transport for Mem {
    type Handle = MemHandle;

    async fn connect(&self, to: &Target) -> Result<MemHandle> {
        let refused = || {
            let fact = format!("no listener at `{to:?}`");
            Error::new(ErrorKind::Refused, "mem", Operation::Connect, fact)
        };
        let port = to.port.ok_or_else(refused)?;
        let (listener, near) = {
            let mut net = lock(&self.net);
            let listener = net.listeners.get(&port).cloned().ok_or_else(refused)?;
            (listener, net.free_port())
        };
        let (near, far) = self.connected(near, port);
        // If the listener was dropped meanwhile, `far` is dropped and the next read fails.
        listener.send(far).map_err(|_| refused())?;
        Ok(near)
    }
}

impl Passive for Mem {
    type Listener = MemListener;

    async fn listen(&self, at: &Target) -> Result<MemListener> {
        let mut net = lock(&self.net);
        let port = match at.port {
            Some(port) if port > 0 => port,
            _ => net.free_port(),
        };
        if net.listeners.contains_key(&port) {
            let fact = format!("port {port} is in use");
            return Err(Error::new(
                ErrorKind::AddressInUse,
                "mem",
                Operation::Listen,
                fact,
            ));
        }
        let (sender, queue) = mpsc::unbounded_channel();
        net.listeners.insert(port, sender);
        Ok(MemListener {
            net: Arc::clone(&self.net),
            port,
            queue,
        })
    }
}

/// A listener in memory.
pub struct MemListener {
    net: Arc<Mutex<Net>>,
    port: u16,
    queue: mpsc::UnboundedReceiver<MemHandle>,
}

impl Listener for MemListener {
    type Handle = MemHandle;
    type Incoming = MemIncoming;

    async fn accept(&mut self) -> Result<MemIncoming> {
        let gone = || {
            Error::new(
                ErrorKind::Io,
                "mem",
                Operation::Accept,
                "the network is gone",
            )
        };
        Ok(MemIncoming(self.queue.recv().await.ok_or_else(gone)?))
    }

    fn describe(&self, info: &mut Info) {
        info.layer("mem");
        info.local = Some(address(self.port));
    }
}

impl Drop for MemListener {
    fn drop(&mut self) {
        lock(&self.net).listeners.remove(&self.port);
    }
}

impl fmt::Debug for MemListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

/// An accepted peer in memory.
#[derive(Debug)]
pub struct MemIncoming(MemHandle);

impl Incoming for MemIncoming {
    type Handle = MemHandle;

    fn describe(&self, info: &mut Info) {
        self.0.describe(info);
    }

    async fn open(self) -> Result<MemHandle> {
        Ok(self.0)
    }
}

/// One direction of a connection.
struct Pipe {
    bytes: VecDeque<u8>,
    capacity: usize,
    /// The writer has shut down.
    ended: bool,
    /// The writer was dropped without a shutdown.
    broken: bool,
    /// The reader was dropped.
    unread: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    fn new(capacity: usize) -> Self {
        Self {
            bytes: VecDeque::new(),
            capacity,
            ended: false,
            broken: false,
            unread: false,
            reader: None,
            writer: None,
        }
    }

    fn wake(&mut self) {
        for waker in [self.reader.take(), self.writer.take()]
            .into_iter()
            .flatten()
        {
            waker.wake();
        }
    }
}

/// An open connection in memory.
pub struct MemHandle {
    incoming: Arc<Mutex<Pipe>>,
    outgoing: Arc<Mutex<Pipe>>,
    local: SocketAddr,
    peer: SocketAddr,
    chunk: usize,
    random: Option<Random>,
    shut: bool,
}

impl MemHandle {
    fn chunk(&mut self) -> usize {
        match &mut self.random {
            Some(random) => random.up_to(self.chunk),
            None => self.chunk,
        }
    }
}

fn failed(kind: io::ErrorKind, op: Operation) -> io::Error {
    at_layer(kind.into(), "mem", op)
}

impl AsyncRead for MemHandle {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let chunk = self.chunk().min(buf.remaining());
        let mut pipe = lock(&self.incoming);
        if pipe.bytes.is_empty() && chunk > 0 {
            if pipe.ended {
                return Poll::Ready(Ok(()));
            }
            if pipe.broken {
                return Poll::Ready(Err(failed(io::ErrorKind::ConnectionReset, Operation::Read)));
            }
            pipe.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let n = chunk.min(pipe.bytes.len());
        for byte in pipe.bytes.drain(..n) {
            buf.put_slice(&[byte]);
        }
        pipe.wake();
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for MemHandle {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let chunk = self.chunk();
        let mut pipe = lock(&self.outgoing);
        if pipe.unread || self.shut {
            return Poll::Ready(Err(failed(io::ErrorKind::BrokenPipe, Operation::Write)));
        }
        let want: usize = bufs.iter().map(|b| b.len()).sum();
        let n = want.min(chunk).min(pipe.capacity - pipe.bytes.len());
        if n == 0 && want > 0 {
            pipe.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        pipe.bytes
            .extend(bufs.iter().flat_map(|b| b.iter()).take(n));
        pipe.wake();
        Poll::Ready(Ok(n))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shut = true;
        let mut pipe = lock(&self.outgoing);
        pipe.ended = true;
        pipe.wake();
        Poll::Ready(Ok(()))
    }
}

impl Stream for MemHandle {
    fn describe(&self, info: &mut Info) {
        info.layer("mem");
        info.local = Some(self.local);
        info.peer = Some(self.peer);
    }
}

impl Drop for MemHandle {
    fn drop(&mut self) {
        let mut out = lock(&self.outgoing);
        out.broken = !self.shut;
        out.wake();
        drop(out);
        let mut back = lock(&self.incoming);
        back.unread = true;
        back.wake();
    }
}

impl fmt::Debug for MemHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.info())
    }
}

/// Returns the driver for a registry; all its stacks share one network.
#[must_use]
pub fn driver() -> Driver {
    let net = Mem::new();
    Driver::base(
        "mem",
        "connections in memory, for tests",
        move |options: MemOptions, entry| {
            let mem = Mem {
                options,
                ..net.clone()
            };
            Ok(DynStack::new(mem, &entry.to_string()))
        },
    )
}
