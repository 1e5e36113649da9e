//! The exchange of tokens: a handshake of TLS, then the steps of delegation inside it.
//!
//! A token is the exact bytes that TLS writes in one flight; GridFTP carries them in `ADAT` and in
//! its replies. When the handshake is complete, the acceptor has sent a last token, under TLS 1.3
//! a record with one zero byte; the initiator discards its content and sends a flag, `D` to
//! delegate or `0`. After `D` the acceptor sends a certificate request, and the initiator a proxy
//! for it. Each of these is one token: nothing is put together from two.
//!
//! [`Initiator`] and [`Acceptor`] take whole tokens and return tokens; the end is a [`Session`].

mod acceptor;
mod channel;
mod engine;
mod error;
mod initiator;
mod session;
mod tail;
#[cfg(test)]
mod tests;

pub use acceptor::Acceptor;
pub use channel::DataChannel;
pub use engine::MAX_TOKEN;
pub use error::{ExchangeError, Fault, Party};
pub use initiator::{Delegation, Expectation, Initiator, InitiatorOptions};
pub use session::Session;
pub use tail::{BadTail, MAX_RECORD, Tail, TailStep, record_length};

use crate::key::KeySize;

/// The part of the exchange after the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// The flag, and delegation if it says so: the control channel, and data channels under
    /// `PROT C`.
    #[default]
    Gsi,
    /// Nothing, as in any use of TLS: data channels under `PROT S` and `PROT P`.
    Plain,
}

/// The next thing the caller must do.
#[derive(Debug)]
#[non_exhaustive]
pub enum Step {
    /// Send this token, and pass the peer's answer to the next step.
    Send(Vec<u8>),
    /// Supply a fresh key of at least this size, see [`Acceptor::supply`].
    NeedKey(KeySize),
    /// The exchange is complete.
    Done {
        /// The last token, to be sent to the peer.
        token: Option<Vec<u8>>,
        /// The secure channel.
        session: Box<Session>,
    },
}
