//! UDT 4, reliable streams and messages over datagrams, as a state machine without I/O.
#![forbid(unsafe_code)]

mod assemble;
mod connection;
mod control;
mod cookie;
mod endpoint;
mod error;
mod estimate;
mod greeting;
mod handshake;
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
mod tests;
mod timer;

pub use connection::{Connection, Event, MessageOptions, Stats, Transmit};
pub use endpoint::{ConnectionId, Endpoint, Routed};
pub use error::{ConnectionError, PeerMisbehaved};
pub use options::{Congestion, Options, Service};
