//! `Relay`: forwards one server's control and data connections, and breaks them after some bytes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rustix::net::sockopt::set_socket_linger;

use crate::rewrite;

/// The fault that a relay injects once; afterwards it forwards everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Break {
    /// Resets all data connections.
    Data {
        /// Payload bytes of all connections before the fault.
        after: u64,
    },
    /// Resets all data and control connections.
    Everything {
        /// Payload bytes of all connections before the fault.
        after: u64,
    },
    /// Flips one bit of the data.
    Flip {
        /// Payload bytes of all connections before the fault.
        after: u64,
    },
    /// Forwards no more data, and keeps every connection open.
    Stall {
        /// Payload bytes of all connections before the fault.
        after: u64,
    },
    /// Injects no fault.
    Never,
}

/// Longest wait of a test for the fault or for payload bytes.
const LIMIT: Duration = Duration::from_secs(120);

/// A relay in front of one server. Connect to [`Relay::addr`] instead of the server.
#[derive(Debug)]
pub struct Relay(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    addr: SocketAddr,
    plan: Break,
    /// Bytes per second of a data connection before the fault; 0 is unlimited.
    rate: u64,
    /// Payload bytes forwarded so far.
    passed: AtomicU64,
    broken: AtomicBool,
    stopped: AtomicBool,
    /// Whether commands wait after the fault.
    holds: Mutex<bool>,
    released: Condvar,
    /// Forwarded lines of the client.
    commands: Mutex<Vec<String>>,
    control: Mutex<Vec<TcpStream>>,
    data: Mutex<Vec<TcpStream>>,
    listeners: Mutex<Vec<SocketAddr>>,
    /// Hosts whose data connections carry nothing more.
    cut: Mutex<Vec<IpAddr>>,
    mark: Mutex<Option<Mark>>,
}

/// A moment, and the first byte of a data connection that was opened after it.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Instant,
    first_byte: Option<Instant>,
}

impl Relay {
    /// Starts a relay in front of `server`.
    pub fn start(server: SocketAddr, plan: Break) -> Result<Self> {
        Self::paced(server, plan, 0)
    }

    /// Starts a relay that limits each data connection to `rate` bytes per second until the fault.
    pub fn paced(server: SocketAddr, plan: Break, rate: u64) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared {
            addr,
            plan,
            rate,
            passed: AtomicU64::new(0),
            broken: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            holds: Mutex::new(false),
            released: Condvar::new(),
            commands: Mutex::default(),
            control: Mutex::default(),
            data: Mutex::default(),
            listeners: Mutex::new(vec![addr]),
            cut: Mutex::default(),
            mark: Mutex::default(),
        });
        shared.clone().accept(listener, server, Shared::control);
        Ok(Self(shared))
    }

    /// Returns the relay's control address.
    pub fn addr(&self) -> SocketAddr {
        self.0.addr
    }

    /// Makes commands after the fault wait for [`release`](Self::release), so that a test can act
    /// before the client retries.
    pub fn hold(&self) {
        *lock(&self.0.holds) = true;
    }

    /// Forwards commands again.
    pub fn release(&self) {
        *lock(&self.0.holds) = false;
        self.0.released.notify_all();
    }

    /// Returns whether the fault was injected.
    pub fn broke(&self) -> bool {
        self.0.broken.load(Ordering::SeqCst)
    }

    /// Opens a port whose connections are forwarded to `to` as data connections.
    pub fn forward(&self, to: SocketAddr) -> Result<SocketAddr> {
        Ok(self.0.clone().data_port(to)?)
    }

    /// Forwards no more data from and to a host, as if its network were cut off: its connections
    /// stay open.
    pub fn cut(&self, host: IpAddr) {
        lock(&self.0.cut).push(host);
    }

    /// Begins to wait for a byte of a data connection that is opened from now on.
    pub fn mark(&self) {
        let (at, first_byte) = (Instant::now(), None);
        *lock(&self.0.mark) = Some(Mark { at, first_byte });
    }

    /// Returns the time from the mark to that byte.
    pub fn resumed(&self) -> Option<Duration> {
        let mark = (*lock(&self.0.mark))?;
        Some(mark.first_byte?.duration_since(mark.at))
    }

    /// Waits until the fault was injected.
    pub fn wait_until_broken(&self) -> Result<()> {
        self.wait(Self::broke)
    }

    /// Waits until `bytes` of payload were forwarded.
    pub fn wait_until_passed(&self, bytes: u64) -> Result<()> {
        self.wait(|relay| relay.passed() >= bytes)
    }

    fn wait(&self, done: impl Fn(&Self) -> bool) -> Result<()> {
        let begun = Instant::now();
        while !done(self) {
            let passed = self.passed();
            ensure!(begun.elapsed() < LIMIT, "only {passed} bytes passed");
            thread::yield_now();
        }
        Ok(())
    }

    /// Returns the commands of the client so far, without line ends.
    pub fn commands(&self) -> Vec<String> {
        lock(&self.0.commands).clone()
    }

    /// Returns the number of payload bytes forwarded in both directions.
    pub fn passed(&self) -> u64 {
        self.0.passed.load(Ordering::SeqCst)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.0.stopped.store(true, Ordering::SeqCst);
        self.release();
        for addr in lock(&self.0.listeners).drain(..) {
            // Wakes the thread that waits in accept.
            let _ = TcpStream::connect_timeout(&addr, Duration::from_secs(1));
        }
        reset_all(&self.0.control);
        reset_all(&self.0.data);
    }
}

impl Shared {
    fn accept(
        self: Arc<Self>,
        listener: TcpListener,
        to: SocketAddr,
        serve: fn(Arc<Self>, TcpStream, TcpStream),
    ) {
        thread::spawn(move || {
            for near in listener.incoming() {
                if self.stopped.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(near) = near else { return };
                match TcpStream::connect(to) {
                    Ok(far) => serve(self.clone(), near, far),
                    Err(_) => reset(&near),
                }
            }
        });
    }

    fn control(self: Arc<Self>, near: TcpStream, far: TcpStream) {
        remember(&self.control, &near);
        remember(&self.control, &far);
        for (from, to, waits) in [(&near, &far, true), (&far, &near, false)] {
            let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else {
                return;
            };
            let _ = from.set_nodelay(true);
            let shared = self.clone();
            thread::spawn(move || {
                let _ = shared.lines(&from, &to, waits);
                let _ = to.shutdown(Shutdown::Write);
            });
        }
    }

    fn lines(self: Arc<Self>, from: &TcpStream, mut to: &TcpStream, waits: bool) -> io::Result<()> {
        let mut reader = BufReader::new(from);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 {
            if waits && self.broken.load(Ordering::SeqCst) {
                let held = self.released.wait_while(lock(&self.holds), |holds| *holds);
                drop(held);
            }
            if waits {
                let text = String::from_utf8_lossy(&line);
                lock(&self.commands).push(text.trim_end().to_owned());
            }
            match std::str::from_utf8(&line) {
                Ok(text) => {
                    let swapped = rewrite::addresses(text, Ipv4Addr::LOCALHOST, |addr| {
                        self.clone().data_port(addr).unwrap_or(addr)
                    });
                    to.write_all(swapped.as_bytes())?;
                }
                Err(_) => to.write_all(&line)?,
            }
            line.clear();
        }
        Ok(())
    }

    /// Opens a listener whose connections are forwarded to the data address `to`.
    fn data_port(self: Arc<Self>, to: SocketAddr) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let addr = listener.local_addr()?;
        lock(&self.listeners).push(addr);
        self.accept(listener, to, Self::data);
        Ok(addr)
    }

    fn data(self: Arc<Self>, near: TcpStream, far: TcpStream) {
        remember(&self.data, &near);
        remember(&self.data, &far);
        let opened = Instant::now();
        for (from, to) in [(&near, &far), (&far, &near)] {
            let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else {
                return;
            };
            let shared = self.clone();
            let ends = [ends(&from), ends(&to)];
            thread::spawn(move || {
                if shared.bytes(&from, &to, opened).is_err() {
                    reset(&from);
                    reset(&to);
                    // The reset is sent when nothing holds the connection any more.
                    lock(&shared.data).retain(|twin| !ends.contains(&self::ends(twin)));
                }
                let _ = to.shutdown(Shutdown::Write);
            });
        }
    }

    fn bytes(&self, mut from: &TcpStream, mut to: &TcpStream, opened: Instant) -> io::Result<()> {
        let hosts = [from.peer_addr()?.ip(), to.peer_addr()?.ip()];
        let mut block = vec![0; 16 << 10];
        loop {
            if let Break::Stall { after } = self.plan
                && self.passed.load(Ordering::SeqCst) >= after
            {
                self.stand_still();
                return Ok(());
            }
            let read = from.read(&mut block);
            if lock(&self.cut).iter().any(|host| hosts.contains(host)) {
                self.stand_still();
                return Ok(());
            }
            let n = read?;
            if n == 0 {
                return Ok(());
            }
            if let Some(mark) = &mut *lock(&self.mark)
                && opened > mark.at
            {
                mark.first_byte.get_or_insert_with(Instant::now);
            }
            if !self.broken.load(Ordering::SeqCst)
                && let Some(pause) = (n as u64 * 1_000_000).checked_div(self.rate)
            {
                thread::sleep(Duration::from_micros(pause));
            }
            if let Break::Flip { after } = self.plan
                && self.passed.load(Ordering::SeqCst) >= after
                && !self.broken.swap(true, Ordering::SeqCst)
                // The last byte lies behind any header; headers of MODE E take 17 bytes.
                && let Some(byte) = block.get_mut(n - 1)
            {
                *byte ^= 1;
            }
            to.write_all(block.get(..n).unwrap_or_default())?;
            let passed = self.passed.fetch_add(n as u64, Ordering::SeqCst) + n as u64;
            if let Break::Data { after } | Break::Everything { after } = self.plan
                && passed >= after
                && !self.broken.swap(true, Ordering::SeqCst)
            {
                reset_all(&self.data);
                if matches!(self.plan, Break::Everything { .. }) {
                    reset_all(&self.control);
                }
                return Err(io::ErrorKind::ConnectionReset.into());
            }
        }
    }

    /// Waits for the end of the relay.
    fn stand_still(&self) {
        let goes_on = |_: &mut bool| !self.stopped.load(Ordering::SeqCst);
        drop(self.released.wait_while(lock(&self.holds), goes_on));
    }
}

fn lock<T>(list: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    list.lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn remember(list: &Mutex<Vec<TcpStream>>, stream: &TcpStream) {
    if let Ok(twin) = stream.try_clone() {
        lock(list).push(twin);
    }
}

/// The addresses of a connection, which no other one has.
fn ends(stream: &TcpStream) -> Option<[SocketAddr; 2]> {
    Some([stream.local_addr().ok()?, stream.peer_addr().ok()?])
}

fn reset_all(list: &Mutex<Vec<TcpStream>>) {
    for stream in lock(list).drain(..) {
        reset(&stream);
    }
}

/// Closes a connection by a reset.
fn reset(stream: &TcpStream) {
    let _ = set_socket_linger(stream, Some(Duration::ZERO));
    let _ = stream.shutdown(Shutdown::Both);
}
