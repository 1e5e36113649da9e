//! `Session`: one end of the protocol as steps over bytes, without stream or clock.

use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError};
use rustls::{ClientConfig, CommonState, Error, ServerConfig};
use tls_secrets::records;

use crate::buffer::Buffer;

/// Largest payload of a record (RFC 8446 §5.1).
pub(crate) const RECORD: usize = 16 * 1024;
/// Bound for header, nonce, content type and tag of a record in every supported suite.
const RECORD_EXTRA: usize = 64;

/// One end of the protocol.
pub(crate) enum Session {
    Initiator(UnbufferedClientConnection),
    Responder(UnbufferedServerConnection),
}

/// The wish of the caller, carried out after pending protocol messages.
#[derive(Clone, Copy)]
pub(crate) enum Intent<'a> {
    /// Only process received bytes.
    Look,
    /// Encrypt these bytes.
    Encrypt(&'a [u8]),
    /// Write the end mark.
    Close,
}

/// The result of one step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Progress was made, and more may be possible.
    Again,
    /// A record of payload went into the sink.
    Payload,
    /// The peer's close-notify was received; returned once.
    PeerClosed,
    /// The intent was carried out.
    Done,
    /// More bytes are needed.
    Starved,
}

impl Session {
    pub(crate) fn initiate(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Self, Error> {
        UnbufferedClientConnection::new(config, name).map(Self::Initiator)
    }

    pub(crate) fn respond(config: Arc<ServerConfig>) -> Result<Self, Error> {
        UnbufferedServerConnection::new(config).map(Self::Responder)
    }

    /// Takes one step: processes `incoming`, passes payload to `sink`, and appends messages to
    /// `outgoing`.
    ///
    /// `incoming` must be the whole buffer every time, since records are assembled in place there.
    pub(crate) fn step(
        &mut self,
        incoming: &mut Buffer,
        outgoing: &mut Buffer,
        intent: Intent<'_>,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<Step, Error> {
        let received = incoming.filled_mut();
        let (seen, step) = match self {
            Self::Initiator(conn) => records::step(
                received,
                move |received| conn.process_tls_records(received),
                sink,
                |state| act(state, outgoing, intent),
            ),
            Self::Responder(conn) => records::step(
                received,
                move |received| conn.process_tls_records(received),
                sink,
                |state| act(state, outgoing, intent),
            ),
        };
        incoming.consume(seen);
        Ok(step?.unwrap_or(Step::Payload))
    }
}

impl std::ops::Deref for Session {
    type Target = CommonState;

    fn deref(&self) -> &CommonState {
        match self {
            Self::Initiator(conn) => conn,
            Self::Responder(conn) => conn,
        }
    }
}

/// Acts on a state of rustls without data.
fn act<D>(
    state: ConnectionState<'_, '_, D>,
    outgoing: &mut Buffer,
    intent: Intent<'_>,
) -> Result<Step, Error> {
    match state {
        ConnectionState::EncodeTlsData(mut message) => fit(outgoing, RECORD_EXTRA, |room| {
            message.encode(room).map_err(|error| match error {
                EncodeError::InsufficientSize(short) => Misfit::Short(short.required_size),
                EncodeError::AlreadyEncoded => Misfit::Failed(Error::EncryptError),
            })
        })
        .map(|()| Step::Again),
        ConnectionState::TransmitTlsData(transmit) => {
            // The caller sends `outgoing`; rustls need not wait for that.
            transmit.done();
            Ok(Step::Again)
        }
        ConnectionState::WriteTraffic(mut traffic) => {
            let misfit = |error| match error {
                EncryptError::InsufficientSize(short) => Misfit::Short(short.required_size),
                EncryptError::EncryptExhausted => Misfit::Failed(Error::EncryptError),
            };
            match intent {
                Intent::Look => return Ok(Step::Starved),
                Intent::Encrypt(bytes) => fit(
                    outgoing,
                    bytes.len() + bytes.len().div_ceil(RECORD) * RECORD_EXTRA,
                    |room| traffic.encrypt(bytes, room).map_err(misfit),
                ),
                Intent::Close => fit(outgoing, RECORD_EXTRA, |room| {
                    traffic.queue_close_notify(room).map_err(misfit)
                }),
            }
            .map(|()| Step::Done)
        }
        ConnectionState::PeerClosed => Ok(Step::PeerClosed),
        // Early data is never enabled, and with both directions closed nothing is left to do.
        _ => Ok(Step::Starved),
    }
}

/// The reason that a message was not written.
enum Misfit {
    /// It needs this number of bytes.
    Short(usize),
    Failed(Error),
}

/// Appends a message to `outgoing`, with more room where `guess` was too small.
fn fit(
    outgoing: &mut Buffer,
    guess: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Misfit>,
) -> Result<(), Error> {
    let mut least = guess;
    // The required size is enough, so the second try is the last.
    for _ in 0..2 {
        match write(outgoing.room(least)) {
            Ok(n) => {
                outgoing.fill(n);
                return Ok(());
            }
            Err(Misfit::Short(needed)) => least = needed,
            Err(Misfit::Failed(error)) => return Err(error),
        }
    }
    Err(Error::EncryptError)
}
