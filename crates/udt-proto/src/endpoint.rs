//! `Endpoint`: all connections over one socket: routes datagrams, and creates connections.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::Hasher;
use std::net::SocketAddr;
use std::time::Instant;

use siphasher::sip::SipHasher24;

use crate::Connection;
use crate::cookie::Cookies;
use crate::handshake::{Handshake, Request, VERSION, address_words, service_word};
use crate::handshake_state::{Role, is_usable};
use crate::options::Options;
use crate::packet::{Control, Packet, destination, write_control};

/// Bound of socket ids: the reference takes larger ones for negative or drops them.
const ID_END: u32 = 1 << 30;
/// Request type that rejects a handshake.
const REFUSED: i32 = 1002;

/// Socket id of a connection at this end: 1 to 2^30, drawn at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(u32);

impl ConnectionId {
    /// The id as it is on the wire.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Destination of datagrams.
#[derive(Debug)]
#[non_exhaustive]
pub enum Routed {
    /// None: drop them.
    Nobody,
    /// This connection: pass them to [`Connection::handle_datagrams`].
    Connection(ConnectionId),
    /// Answer these bytes to their source; never more bytes than were received.
    Reply([u8; 64]),
    /// A new connection, which has packets to transmit.
    Incoming(Box<Connection>),
}

/// Address of a connection's peer, and its other key.
#[derive(Debug)]
struct Entry {
    peer: SocketAddr,
    /// Key of a listener's connection, for a peer that repeats its handshake.
    accepted: Option<Accepted>,
    is_rendezvous: bool,
}

/// Address, socket id and initial sequence number of the peer that requested a connection.
type Accepted = (SocketAddr, u32, u32);

/// Options of a listener, and its backlog.
#[derive(Debug)]
struct Listening {
    options: Options,
    backlog: usize,
    waiting: HashSet<ConnectionId>,
}

/// All connections over one socket.
///
/// It keeps no state of a peer that has not returned a valid cookie.
#[derive(Debug)]
pub struct Endpoint {
    seed: [u8; 16],
    drawn: u64,
    cookies: Cookies,
    listening: Option<Listening>,
    connections: HashMap<ConnectionId, Entry>,
    accepted: HashMap<Accepted, ConnectionId>,
    rendezvous: HashMap<SocketAddr, ConnectionId>,
}

impl Endpoint {
    /// Creates an endpoint without connections. `seed` must be secret: cookies and ids follow from
    /// it.
    pub fn new(now: Instant, seed: [u8; 16]) -> Self {
        Self {
            seed,
            drawn: 0,
            cookies: Cookies::new(now, seed),
            listening: None,
            connections: HashMap::new(),
            accepted: HashMap::new(),
            rendezvous: HashMap::new(),
        }
    }

    /// Accepts connections; at most `backlog` of them wait for [`taken`](Self::taken).
    pub fn listen(&mut self, options: Options, backlog: usize) {
        self.listening = Some(Listening {
            options: options.checked(),
            backlog,
            waiting: HashSet::new(),
        });
    }

    /// Accepts no more connections; established ones stay.
    pub fn stop_listening(&mut self) {
        self.listening = None;
    }

    /// Removes an accepted connection from the backlog.
    ///
    /// A connection that has ended counts until then, since it is still accepted.
    pub fn taken(&mut self, id: ConnectionId) {
        if let Some(listening) = &mut self.listening {
            listening.waiting.remove(&id);
        }
    }

    /// Starts a connection to a listener.
    pub fn connect(&mut self, now: Instant, peer: SocketAddr, options: Options) -> Connection {
        self.begin(now, peer, options, Role::Initiator)
    }

    /// Starts a rendezvous, in which the peer connects as well. It fails while listening, since the
    /// peer's packets go to the listener then.
    pub fn rendezvous(&mut self, now: Instant, peer: SocketAddr, options: Options) -> Connection {
        self.begin(now, peer, options, Role::Rendezvous)
    }

    fn begin(
        &mut self,
        now: Instant,
        peer: SocketAddr,
        options: Options,
        role: Role,
    ) -> Connection {
        let options = options.checked();
        let id = self.new_id();
        let drawn = self.draw();
        let is_rendezvous = role == Role::Rendezvous;
        let ours = Handshake {
            version: VERSION,
            service: service_word(options.service),
            initial: options.initial_sequence.unwrap_or(drawn) & crate::seq::MAX_SEQUENCE,
            mss: options.mss_to(peer),
            window: options.receive_buffer,
            request: if is_rendezvous {
                Request::Meet
            } else {
                Request::Ask
            },
            id: id.0,
            cookie: 0,
            address: address_words(peer.ip()),
        };
        let entry = Entry {
            peer,
            accepted: None,
            is_rendezvous,
        };
        if is_rendezvous {
            self.rendezvous.insert(peer, id);
        }
        self.connections.insert(id, entry);
        Connection::start(now, id, peer, options, role, ours)
    }

    /// Returns the destination of the first of these datagrams of `stride` bytes, and their bytes:
    /// call it again for the rest.
    pub fn route(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagrams: &[u8],
        stride: usize,
    ) -> (Routed, usize) {
        let stride = stride.clamp(1, datagrams.len().max(1));
        let Some((first, _)) = datagrams.split_at_checked(stride) else {
            return (Routed::Nobody, datagrams.len());
        };
        let Some(to) = destination(first) else {
            return (Routed::Nobody, stride);
        };
        if to == 0 {
            return (self.route_greeting(now, from, first), stride);
        }
        let same = datagrams
            .chunks(stride)
            .take_while(|datagram| destination(datagram) == Some(to))
            .map(<[u8]>::len)
            .sum();
        let id = ConnectionId(to);
        // A packet from another address is not the peer's.
        let is_peer = self.connections.get(&id).is_some_and(|c| c.peer == from);
        let routed = if is_peer {
            Routed::Connection(id)
        } else {
            Routed::Nobody
        };
        (routed, same)
    }

    /// Routes datagrams with socket id 0.
    fn route_greeting(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) -> Routed {
        let Some(Packet::Control(Control::Handshake(theirs))) = Packet::parse(datagram) else {
            return Routed::Nobody;
        };
        if self.listening.is_some() {
            return self.on_request(now, from, theirs);
        }
        let to = |id: &ConnectionId| Routed::Connection(*id);
        self.rendezvous.get(&from).map_or(Routed::Nobody, to)
    }

    fn on_request(&mut self, now: Instant, from: SocketAddr, theirs: Handshake) -> Routed {
        if theirs.id.cast_signed() <= 0 {
            return Routed::Nobody;
        }
        if theirs.request == Request::Ask {
            let cookie = self.cookies.bake(now, from);
            return reply(Handshake { cookie, ..theirs });
        }
        if !self.cookies.is_good(now, from, theirs.cookie) {
            return Routed::Nobody;
        }
        let accepted = (from, theirs.id, theirs.initial);
        if let Some(id) = self.accepted.get(&accepted) {
            return Routed::Connection(*id);
        }
        let refuse = || {
            reply(Handshake {
                request: Request::Refuse(REFUSED),
                ..theirs
            })
        };
        let Some(listening) = &self.listening else {
            return Routed::Nobody;
        };
        let options = listening.options.clone();
        let fits = theirs.version == VERSION
            && theirs.service == service_word(options.service)
            && theirs.initial <= crate::seq::MAX_SEQUENCE
            && is_usable(&theirs);
        if !fits || listening.waiting.len() >= listening.backlog {
            return refuse();
        }
        let id = self.new_id();
        let ours = Handshake {
            mss: theirs.mss.min(options.mss_to(from)),
            window: options.receive_buffer,
            request: Request::Confirm,
            id: id.0,
            address: address_words(from.ip()),
            ..theirs
        };
        if let Some(listening) = &mut self.listening {
            listening.waiting.insert(id);
        }
        self.accepted.insert(accepted, id);
        let entry = Entry {
            peer: from,
            accepted: Some(accepted),
            is_rendezvous: false,
        };
        self.connections.insert(id, entry);
        let connection = Connection::respond(now, id, from, options, theirs, ours);
        Routed::Incoming(Box::new(connection))
    }

    /// Removes a connection; its datagrams have no destination from now on.
    pub fn forget(&mut self, id: ConnectionId) {
        let Some(entry) = self.connections.remove(&id) else {
            return;
        };
        if let Some(accepted) = entry.accepted {
            self.accepted.remove(&accepted);
        }
        if entry.is_rendezvous && self.rendezvous.get(&entry.peer) == Some(&id) {
            self.rendezvous.remove(&entry.peer);
        }
    }

    /// Number of connections.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Whether there is no connection.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Returns a secret number.
    #[expect(clippy::cast_possible_truncation, reason = "any 32 bits will do")]
    fn draw(&mut self) -> u32 {
        let mut hasher = SipHasher24::new_with_key(&self.seed);
        // Cookies have the same key and longer input.
        hasher.write_u64(self.drawn);
        self.drawn += 1;
        hasher.finish() as u32
    }

    /// Returns an unused socket id that does not follow from others, as it does in the reference:
    /// with the id and the addresses anyone can end the connection.
    fn new_id(&mut self) -> ConnectionId {
        loop {
            let id = ConnectionId(self.draw() % ID_END);
            let is_waiting = |listening: &Listening| listening.waiting.contains(&id);
            let is_known = self.listening.as_ref().is_some_and(is_waiting);
            if id.0 > 0 && !is_known && !self.connections.contains_key(&id) {
                return id;
            }
        }
    }
}

/// Returns the answer to a handshake packet, of the same length.
fn reply(handshake: Handshake) -> Routed {
    let mut out = Vec::with_capacity(64);
    write_control(&mut out, &Control::Handshake(handshake), handshake.id);
    out.try_into().map_or(Routed::Nobody, Routed::Reply)
}
