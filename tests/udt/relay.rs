//! `Relay`: passes datagrams between two ends, and loses some by a seed.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::net::sockopt;
use xio_testkit::Random;

/// First word of the packet that ends a connection, which the reference says once and never again:
/// when it is lost, the other end waits for three quarters of a minute.
const SHUTDOWN: [u8; 4] = [0x80, 0x05, 0, 0];

/// First word of a handshake packet.
const HANDSHAKE: [u8; 4] = [0x80, 0, 0, 0];

/// A relay with a port for either end; it lives as long as this.
#[derive(Debug)]
pub(crate) struct Relay {
    /// Where our end sends to.
    pub(crate) near: SocketAddr,
    /// Where the other end sends to.
    pub(crate) far: SocketAddr,
    ends: Ends,
    began: Began,
    stops: UdpSocket,
}

/// The sequence numbers that the ends' first handshake packets said, ours before the other's.
type Began = Arc<Mutex<[Option<u32>; 2]>>;

/// Who is where: what is not known is learnt from the first datagram.
type Ends = Arc<Mutex<[Option<SocketAddr>; 2]>>;

impl Relay {
    /// Starts a relay that loses `loss` datagrams of a thousand each way.
    pub(crate) fn start(loss: u64, seed: u64) -> Self {
        let socket = || {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            sockopt::set_socket_recv_buffer_size(&socket, 4 << 20).unwrap();
            socket
        };
        let sockets = [socket(), socket()];
        let places = [0, 1].map(|at: usize| sockets[at].local_addr().unwrap());
        let (ends, began) = (Ends::default(), Began::default());
        for side in [0, 1] {
            let (from, to) = (
                sockets[side].try_clone().unwrap(),
                sockets[1 - side].try_clone().unwrap(),
            );
            let (ends, began) = (Arc::clone(&ends), Arc::clone(&began));
            thread::spawn(move || {
                let began = |number| {
                    began.lock().unwrap()[side].get_or_insert(number);
                };
                pass(&from, &to, side, &ends, began, loss, seed + side as u64);
            });
        }
        let stops = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        Self {
            near: places[0],
            far: places[1],
            ends,
            began,
            stops,
        }
    }

    /// The sequence numbers with which our end and the other said that they begin.
    pub(crate) fn began(&self) -> [Option<u32>; 2] {
        *self.began.lock().unwrap()
    }

    /// Says where the other end listens.
    pub(crate) fn lead_to(&self, far: SocketAddr) {
        self.ends.lock().unwrap()[1] = Some(far);
    }

    /// Says where our end listens.
    pub(crate) fn lead_from(&self, near: SocketAddr) {
        self.ends.lock().unwrap()[0] = Some(near);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // An empty datagram, which no end sends, ends the thread that gets it.
        for place in [self.near, self.far] {
            let _ = self.stops.send_to(&[], place);
        }
    }
}

fn pass(
    from: &UdpSocket,
    to: &UdpSocket,
    side: usize,
    ends: &Ends,
    began: impl Fn(u32),
    loss: u64,
    seed: u64,
) {
    let mut random = Random::new(seed);
    let mut room = vec![0; 65_536];
    // A refusal of an earlier datagram comes up here, and says nothing about the next.
    loop {
        let Ok((len, who)) = from.recv_from(&mut room) else {
            continue;
        };
        if len == 0 {
            return;
        }
        let target = {
            let mut ends = ends.lock().unwrap();
            ends[side].get_or_insert(who);
            ends[1 - side]
        };
        if len == 64 && room.starts_with(&HANDSHAKE) {
            began(u32::from_be_bytes(room[24..28].try_into().unwrap()));
        }
        let is_lost = random.number() % 1000 < loss && !room.starts_with(&SHUTDOWN);
        if let (Some(target), false) = (target, is_lost) {
            let _ = to.send_to(&room[..len], target);
        }
    }
}
