//! UDT 4, reliable streams and messages over datagrams, as a state machine without I/O.
#![forbid(unsafe_code)]

mod connection;
mod endpoint;
mod error;
mod options;

pub use connection::{Connection, Event, MessageOptions, Stats, Transmit};
pub use endpoint::{ConnectionId, Endpoint, Routed};
pub use error::{ConnectionError, PeerMisbehaved};
pub use options::{Congestion, Options, Service};
