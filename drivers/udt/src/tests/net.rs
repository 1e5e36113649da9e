//! `Net`: datagram sockets in memory, on a network with delay, loss and cuts, in the runtime's
//! time.

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Instant;
use xio_core::{Bind, Datagram, Info, Received, Result, SocketHints, Target, Transmit};
use xio_testkit::Random;

/// A network; clones are handles of the same.
#[derive(Clone)]
pub(super) struct Net(Arc<Mutex<State>>);

struct State {
    boxes: HashMap<SocketAddr, Mailbox>,
    next_port: u16,
    random: Random,
    /// Loss in percent.
    pub(super) loss: u8,
    delay: Duration,
    /// Whether nothing arrives at all.
    is_cut: bool,
    /// Send calls; every so often one is pending.
    sent: u64,
    /// Time until which no socket is writable, and the send calls until then.
    blocked: Option<Instant>,
    asked: u64,
    /// Whether receiving fails, and the number of attempts.
    is_broken: bool,
    tried: u64,
    /// Whether connected sockets hear of closed ports.
    refuses: bool,
    /// Shutdown packets still to be lost.
    lost_ends: u32,
}

#[derive(Default)]
struct Mailbox {
    waiting: VecDeque<(SocketAddr, Vec<u8>)>,
    reader: Option<Waker>,
    /// Whether the network has a closed port to report.
    is_refused: bool,
}

impl Net {
    pub(super) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            boxes: HashMap::new(),
            next_port: 1,
            random: Random::new(seed),
            loss: 0,
            delay: Duration::ZERO,
            is_cut: false,
            sent: 0,
            blocked: None,
            asked: 0,
            is_broken: false,
            tried: 0,
            refuses: false,
            lost_ends: 0,
        })))
    }

    /// Sets the loss in percent.
    pub(super) fn lose(&self, percent: u8) {
        self.0.lock().unwrap().loss = percent;
    }

    /// Sets the delay.
    pub(super) fn delay(&self, time: Duration) {
        self.0.lock().unwrap().delay = time;
    }

    /// Delivers nothing from now on, or everything again.
    pub(super) fn cut(&self, is_cut: bool) {
        self.0.lock().unwrap().is_cut = is_cut;
    }

    /// Makes no socket writable for a time.
    pub(super) fn block(&self, time: Duration) {
        self.0.lock().unwrap().blocked = Some(Instant::now() + time);
    }

    /// Number of send calls while no socket was writable.
    pub(super) fn asked(&self) -> u64 {
        self.0.lock().unwrap().asked
    }

    /// Makes every attempt to receive fail from now on.
    pub(super) fn spoil(&self) {
        let mut state = self.0.lock().unwrap();
        state.is_broken = true;
        let waiting = state.boxes.values_mut();
        let readers: Vec<_> = waiting.filter_map(|one| one.reader.take()).collect();
        drop(state);
        readers.into_iter().for_each(Waker::wake);
    }

    /// Reports closed ports to connected sockets from now on.
    pub(super) fn refuse(&self) {
        self.0.lock().unwrap().refuses = true;
    }

    /// Loses the next shutdown packets.
    pub(super) fn lose_ends(&self, count: u32) {
        self.0.lock().unwrap().lost_ends = count;
    }

    /// Number of attempts to receive from a broken socket.
    pub(super) fn tried(&self) -> u64 {
        self.0.lock().unwrap().tried
    }

    /// Number of sockets.
    pub(super) fn sockets(&self) -> usize {
        self.0.lock().unwrap().boxes.len()
    }

    fn deliver(&self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        let mut state = self.0.lock().unwrap();
        if let Some(mailbox) = state.boxes.get_mut(&to) {
            mailbox.waiting.push_back((from, bytes));
            if let Some(reader) = mailbox.reader.take() {
                drop(state);
                reader.wake();
            }
        } else if let (true, Some(sender)) = (state.refuses, state.boxes.get_mut(&from)) {
            sender.is_refused = true;
            let reader = sender.reader.take();
            drop(state);
            reader.into_iter().for_each(Waker::wake);
        }
    }
}

impl Bind for Net {
    type Socket = Port;

    async fn bind(&self, at: &Target) -> Result<Port> {
        let mut state = self.0.lock().unwrap();
        let port = match at.port {
            Some(port) if port > 0 => port,
            _ => {
                state.next_port += 1;
                state.next_port
            }
        };
        let local = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 1), port));
        state.boxes.insert(local, Mailbox::default());
        Ok(Port {
            net: self.clone(),
            local,
            peer: at.hint::<SocketHints>().and_then(|hints| hints.peer),
        })
    }
}

/// A socket on the network.
pub(super) struct Port {
    net: Net,
    local: SocketAddr,
    peer: Option<SocketAddr>,
}

impl Drop for Port {
    fn drop(&mut self) {
        self.net.0.lock().unwrap().boxes.remove(&self.local);
    }
}

impl Datagram for Port {
    fn describe(&self, info: &mut Info) {
        info.layer("net");
        info.local = Some(self.local);
        info.peer = self.peer;
    }

    fn poll_send(&self, cx: &mut Context<'_>, message: &Transmit<'_>) -> Poll<io::Result<()>> {
        let to = message.to.or(self.peer).unwrap();
        let size = message.segment.unwrap_or(usize::MAX);
        let mut state = self.net.0.lock().unwrap();
        if let Some(until) = state.blocked.filter(|until| Instant::now() < *until) {
            state.asked += 1;
            let asked = state.asked;
            drop(state);
            assert!(asked < 10_000, "what takes nothing is asked all the time");
            let waker = cx.waker().clone();
            tokio::spawn(async move {
                tokio::time::sleep_until(until).await;
                waker.wake();
            });
            return Poll::Pending;
        }
        // As in a kernel, the first call gets the report.
        let own = state.boxes.get_mut(&self.local).unwrap();
        if std::mem::take(&mut own.is_refused) && self.peer.is_some() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionRefused.into()));
        }
        state.sent += 1;
        if state.sent.is_multiple_of(50) {
            // As a socket with a full buffer.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let (delay, loss, is_cut) = (state.delay, state.loss, state.is_cut);
        for part in message.payload.chunks(size) {
            if is_cut || state.random.percent(loss) {
                continue;
            }
            if state.lost_ends > 0 && part.starts_with(&[0x80, 0x05]) {
                state.lost_ends -= 1;
                continue;
            }
            let (net, from, bytes) = (self.net.clone(), self.local, part.to_vec());
            if delay.is_zero() {
                drop(state);
                net.deliver(from, to, bytes);
                state = self.net.0.lock().unwrap();
            } else {
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    net.deliver(from, to, bytes);
                });
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        received: &mut [Option<Received>],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.net.0.lock().unwrap();
        if state.is_broken {
            state.tried += 1;
            let tried = state.tried;
            drop(state);
            assert!(tried < 10_000, "what is broken is asked all the time");
            return Poll::Ready(Err(io::Error::other("broken")));
        }
        let mailbox = state.boxes.get_mut(&self.local).unwrap();
        if std::mem::take(&mut mailbox.is_refused) && self.peer.is_some() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionRefused.into()));
        }
        let mut filled = 0;
        for (buf, met) in bufs.iter_mut().zip(received) {
            let Some((from, bytes)) = mailbox.waiting.pop_front() else {
                break;
            };
            buf[..bytes.len()].copy_from_slice(&bytes);
            *met = Some(Received::new(from, bytes.len()));
            filled += 1;
        }
        if filled == 0 {
            mailbox.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(filled))
    }

    fn max_batch(&self) -> usize {
        8
    }
}
