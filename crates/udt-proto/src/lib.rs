//! UDT 4 as a state machine: reliable streams and messages over datagrams, without I/O and without
//! a clock.
//!
//! Everything on the wire is as libudt 4.11 has it: the handshake with its cookie, rendezvous, the
//! acknowledgement in its three lengths and its confirmation, loss reports, keep-alive, shutdown,
//! drop requests, and numbers that wrap around. Where the protocol leaves freedom, this crate does
//! better:
//!
//! - acknowledgements are sent when they are due, and loss reports are repeated until the hole is
//!   filled;
//! - silence is answered with a probe after a round trip or two, not after 300 milliseconds;
//! - cookies are keyed and valid for one to two minutes; a listener keeps no state of peers without
//!   one;
//! - a close waits until both ends know that everything has arrived, and its shutdown is repeated;
//! - the end of a stream, an abort of the peer, and a peer out of reach are told apart: after an
//!   [`abort`](Connection::abort) the shutdown has a reason in its otherwise unused word.
//!
//! Three controls decide how fast to send ([`Congestion`]): a model of the path, which random loss
//! does not slow down, CUBIC, and UDT's own.
//!
//! # Driving it
//!
//! An [`Endpoint`] belongs to a socket and finds the [`Connection`] of a datagram. A connection can
//! be behind its own lock. After every call drain [`Connection::poll_transmit`] and
//! [`Connection::poll_event`], then wait for a datagram, or for [`Connection::poll_timeout`].
//!
//! ```
//! use std::net::SocketAddr;
//! use std::task::Poll;
//! use std::time::Instant;
//!
//! use udt_proto::{Connection, Endpoint, Options, Routed};
//!
//! /// Returns all datagrams of a connection.
//! fn said(connection: &mut Connection, now: Instant) -> Vec<Vec<u8>> {
//!     let mut datagrams = Vec::new();
//!     while let Some(transmit) = connection.poll_transmit(now, 1) {
//!         datagrams.push(transmit.contents.to_vec());
//!         connection.on_transmitted(now);
//!     }
//!     datagrams
//! }
//!
//! let now = Instant::now(); // a driver's clock
//! let [near, far]: [SocketAddr; 2] = ["192.0.2.1:5000".parse()?, "192.0.2.2:5000".parse()?];
//! let (mut ours, mut theirs) = (Endpoint::new(now, [1; 16]), Endpoint::new(now, [2; 16]));
//! theirs.listen(Options::default(), 10);
//!
//! let mut here = ours.connect(now, far, Options::default());
//! let mut there = None;
//! while !here.is_connected() {
//!     let mut answers = Vec::new();
//!     for datagram in said(&mut here, now) {
//!         match theirs.route(now, near, &datagram, datagram.len()).0 {
//!             Routed::Reply(bytes) => answers.push(bytes.to_vec()),
//!             Routed::Incoming(connection) => answers.extend(said(there.insert(*connection), now)),
//!             _ => {}
//!         }
//!     }
//!     for datagram in answers {
//!         if let (Routed::Connection(_), len) = ours.route(now, far, &datagram, datagram.len()) {
//!             here.handle_datagrams(now, &datagram[..len], len);
//!         }
//!     }
//! }
//!
//! let mut there = there.expect("the listener has created a connection");
//! assert_eq!(here.write(now, b"hello"), Poll::Ready(Ok(5)));
//! for datagram in said(&mut here, now) {
//!     there.handle_datagrams(now, &datagram, datagram.len());
//! }
//! let mut text = [0; 5];
//! assert_eq!(there.read(now, &mut text), Poll::Ready(Ok(5)));
//! assert_eq!(&text, b"hello");
//! # Ok::<(), std::net::AddrParseError>(())
//! ```
#![forbid(unsafe_code)]

mod assemble;
mod connection;
mod control;
mod cookie;
mod delivery;
mod endpoint;
mod error;
mod estimate;
mod expiry;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
#[expect(clippy::indexing_slicing, reason = "there are two ends")]
pub mod fuzzing;
mod handshake;
mod handshake_state;
mod head;
mod loss;
mod options;
mod packet;
mod receive_buffer;
mod recv;
mod rtt;
mod send;
mod send_buffer;
mod seq;
#[cfg(test)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "small numbers, chosen here"
)]
mod tests;
mod timer;

pub use connection::{Connection, Event, MessageOptions, Stats, Transmit};
pub use endpoint::{ConnectionId, Endpoint, Routed};
pub use error::{ConnectionError, PeerMisbehaved};
pub use options::{Congestion, Options, Service};
