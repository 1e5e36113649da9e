//! `Relay`: passes one server's control and data connections on, and breaks them after so many bytes.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use rustix::net::sockopt::set_socket_linger;

use crate::rewrite;

/// What breaks once the byte budget is used up; after that the relay passes everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Break {
    /// All data connections are reset after so many payload bytes in sum.
    Data {
        /// Bytes passed before the break.
        after: u64,
    },
    /// All data connections and all control connections are reset.
    Everything {
        /// Bytes passed before the break.
        after: u64,
    },
    /// One byte of the data is changed, and everything goes on.
    Flip {
        /// Bytes passed before it.
        after: u64,
    },
    /// No more data passes, and every connection stays.
    Stall {
        /// Bytes passed before it.
        after: u64,
    },
    /// Nothing breaks.
    Never,
}

/// A relay in front of one server. Connect to [`Relay::addr`] instead of the server.
#[derive(Debug)]
pub struct Relay(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    addr: SocketAddr,
    plan: Break,
    rate: u64,
    /// Payload bytes passed so far.
    passed: AtomicU64,
    broken: AtomicBool,
    stopped: AtomicBool,
    /// Whether commands wait once the break has happened.
    holds: Mutex<bool>,
    released: Condvar,
    /// Lines of the client, as they were passed on.
    commands: Mutex<Vec<String>>,
    control: Mutex<Vec<TcpStream>>,
    data: Mutex<Vec<TcpStream>>,
    listeners: Mutex<Vec<SocketAddr>>,
}

impl Relay {
    /// Starts a relay before `server`.
    pub fn start(server: SocketAddr, plan: Break) -> Result<Self> {
        Self::paced(server, plan, 0)
    }

    /// Starts a relay whose data connections pass so many bytes per second each until the break; 0 is without limit.
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
        });
        shared.clone().accept(listener, server, Shared::control);
        Ok(Self(shared))
    }

    /// Returns the address that stands for the server's control port.
    pub fn addr(&self) -> SocketAddr {
        self.0.addr
    }

    /// Has commands wait from the break on until [`release`](Self::release), so that what is done
    /// between the two is done before the client tries again.
    pub fn hold(&self) {
        *lock(&self.0.holds) = true;
    }

    /// Lets commands pass again.
    pub fn release(&self) {
        *lock(&self.0.holds) = false;
        self.0.released.notify_all();
    }

    /// Returns whether the break has happened.
    pub fn broke(&self) -> bool {
        self.0.broken.load(Ordering::SeqCst)
    }

    /// Returns the commands of the client so far, without their line ends.
    pub fn commands(&self) -> Vec<String> {
        lock(&self.0.commands).clone()
    }

    /// Returns how many payload bytes have passed in both directions.
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

    /// Opens a port that stands for the data address `to`.
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
        for (from, to) in [(&near, &far), (&far, &near)] {
            let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else {
                return;
            };
            let shared = self.clone();
            thread::spawn(move || {
                if shared.bytes(&from, &to).is_err() {
                    reset(&from);
                    reset(&to);
                }
                let _ = to.shutdown(Shutdown::Write);
            });
        }
    }

    fn bytes(&self, mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
        let mut block = vec![0; 16 << 10];
        loop {
            if let Break::Stall { after } = self.plan
                && self.passed.load(Ordering::SeqCst) >= after
            {
                let goes_on = |_: &mut bool| !self.stopped.load(Ordering::SeqCst);
                drop(self.released.wait_while(lock(&self.holds), goes_on));
                return Ok(());
            }
            let n = from.read(&mut block)?;
            if n == 0 {
                return Ok(());
            }
            if !self.broken.load(Ordering::SeqCst)
                && let Some(pause) = (n as u64 * 1_000_000).checked_div(self.rate)
            {
                thread::sleep(Duration::from_micros(pause));
            }
            if let Break::Flip { after } = self.plan
                && self.passed.load(Ordering::SeqCst) >= after
                && !self.broken.swap(true, Ordering::SeqCst)
                // Behind any header: those of MODE E are 17 bytes long.
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

fn reset_all(list: &Mutex<Vec<TcpStream>>) {
    for stream in lock(list).drain(..) {
        reset(&stream);
    }
}

/// Ends a connection so that the peer sees a reset and no orderly end.
fn reset(stream: &TcpStream) {
    let _ = set_socket_linger(stream, Some(Duration::ZERO));
    let _ = stream.shutdown(Shutdown::Both);
}
