//! `Relay`: forwards datagrams between two ends, and drops some by a seed.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::net::sockopt;
use xio_testkit::Random;

/// First word of a shutdown packet. libudt sends it once; if it is lost, the other end waits for
/// three quarters of a minute.
const SHUTDOWN: [u8; 4] = [0x80, 0x05, 0, 0];

/// First word of a handshake packet.
const HANDSHAKE: [u8; 4] = [0x80, 0, 0, 0];

/// A relay with a port for each end; dropping the value ends it.
#[derive(Debug)]
pub(crate) struct Relay {
    /// The port for our end.
    pub(crate) near: SocketAddr,
    /// The port for the other end.
    pub(crate) far: SocketAddr,
    ends: Ends,
    first_sequences: FirstSequences,
    stops: UdpSocket,
}

/// Sequence numbers of the first handshake packet of our end and of the other.
type FirstSequences = Arc<Mutex<[Option<u32>; 2]>>;

/// Addresses of our end and of the other; an unknown one is taken from the first datagram.
type Ends = Arc<Mutex<[Option<SocketAddr>; 2]>>;

impl Relay {
    /// Starts a relay that drops `loss` datagrams of a thousand each way.
    pub(crate) fn start(loss: u64, seed: u64) -> Self {
        let socket = || {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            sockopt::set_socket_recv_buffer_size(&socket, 4 << 20).unwrap();
            socket
        };
        let sockets = [socket(), socket()];
        let addrs = [0, 1].map(|at: usize| sockets[at].local_addr().unwrap());
        let (ends, first_sequences) = (Ends::default(), FirstSequences::default());
        for side in [0, 1] {
            let (from, to) = (
                sockets[side].try_clone().unwrap(),
                sockets[1 - side].try_clone().unwrap(),
            );
            let (ends, first_sequences) = (Arc::clone(&ends), Arc::clone(&first_sequences));
            thread::spawn(move || {
                let on_handshake = |number| {
                    first_sequences.lock().unwrap()[side].get_or_insert(number);
                };
                forward(
                    &from,
                    &to,
                    side,
                    &ends,
                    on_handshake,
                    loss,
                    seed + side as u64,
                );
            });
        }
        let stops = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        Self {
            near: addrs[0],
            far: addrs[1],
            ends,
            first_sequences,
            stops,
        }
    }

    /// Returns the sequence numbers of the first handshake packets.
    pub(crate) fn first_sequences(&self) -> [Option<u32>; 2] {
        *self.first_sequences.lock().unwrap()
    }

    /// Sets the address of the other end.
    pub(crate) fn set_far(&self, far: SocketAddr) {
        self.ends.lock().unwrap()[1] = Some(far);
    }

    /// Sets the address of our end.
    pub(crate) fn set_near(&self, near: SocketAddr) {
        self.ends.lock().unwrap()[0] = Some(near);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // An empty datagram, which no end sends, ends the thread that receives it.
        for addr in [self.near, self.far] {
            let _ = self.stops.send_to(&[], addr);
        }
    }
}

fn forward(
    from: &UdpSocket,
    to: &UdpSocket,
    side: usize,
    ends: &Ends,
    on_handshake: impl Fn(u32),
    loss: u64,
    seed: u64,
) {
    let mut random = Random::new(seed);
    let mut room = vec![0; 65_536];
    // An error here refers to an earlier datagram.
    loop {
        let Ok((len, sender)) = from.recv_from(&mut room) else {
            continue;
        };
        if len == 0 {
            return;
        }
        let target = {
            let mut ends = ends.lock().unwrap();
            ends[side].get_or_insert(sender);
            ends[1 - side]
        };
        if len == 64 && room.starts_with(&HANDSHAKE) {
            on_handshake(u32::from_be_bytes(room[24..28].try_into().unwrap()));
        }
        let is_lost = random.number() % 1000 < loss && !room.starts_with(&SHUTDOWN);
        if let (Some(target), false) = (target, is_lost) {
            let _ = to.send_to(&room[..len], target);
        }
    }
}
