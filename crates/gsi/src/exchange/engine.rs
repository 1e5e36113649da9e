//! A connection of rustls that is fed with whole tokens, and keeps decrypted data nowhere.

use std::fmt;

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError};
use rustls::{CommonState, Error};
use tls_secrets::records;
use zeroize::Zeroizing;

use super::tail::{BadTail, record_length};
use super::{ExchangeError, Fault};

/// Bound of a token in bytes: room for chains with attribute certificates, which have tens of
/// thousands of bytes.
pub const MAX_TOKEN: usize = 128 * 1024;

/// Records are decrypted in place, in memory that is overwritten: data may be a password or a key.
pub(super) struct Engine {
    connection: Connection,
    /// Received bytes, processed up to `seen`.
    incoming: Zeroizing<Vec<u8>>,
    seen: usize,
    /// Messages to send.
    outgoing: Vec<u8>,
}

pub(super) enum Connection {
    Client(Box<UnbufferedClientConnection>),
    Server(Box<UnbufferedServerConnection>),
}

/// The wish of the caller, carried out after the messages of the protocol.
#[derive(Clone, Copy)]
enum Intent<'a> {
    /// Only process the received bytes.
    Look,
    Encrypt(&'a [u8]),
    #[cfg(test)]
    Close,
}

/// The result of one step.
#[derive(PartialEq, Eq)]
enum Progress {
    /// More may be possible.
    Again,
    /// Data was decrypted.
    Data,
    /// The peer has closed the channel; told once.
    PeerClosed,
    /// The wish is carried out, or bytes of the peer are needed.
    Idle,
}

impl Engine {
    pub(super) fn new(connection: Connection) -> Self {
        Self {
            connection,
            incoming: Zeroizing::default(),
            seen: 0,
            outgoing: Vec::new(),
        }
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.connection().is_handshaking()
    }

    pub(super) fn connection(&self) -> &CommonState {
        match &self.connection {
            Connection::Client(connection) => connection,
            Connection::Server(connection) => connection,
        }
    }

    /// Reads a token and returns its data, which may be secret.
    pub(super) fn feed(&mut self, token: &[u8]) -> Result<Vec<u8>, ExchangeError> {
        check(token)?;
        self.receive(token);
        // Room for all of it, so that no copy of a secret is left behind by a reallocation.
        let mut data = Zeroizing::new(Vec::with_capacity(token.len()));
        let done = self.run(Intent::Look, &mut data);
        let closed = done.map_err(|error| self.failed(error))?;
        if closed && data.is_empty() {
            return Err(Fault::Closed.into());
        }
        Ok(std::mem::take(&mut data))
    }

    /// Takes the token that TLS has to send; empty if there is none.
    pub(super) fn pending(&mut self) -> Result<Vec<u8>, ExchangeError> {
        self.send(Intent::Look)
    }

    /// Encrypts data and returns the token.
    pub(super) fn wrap(&mut self, data: &[u8]) -> Result<Vec<u8>, ExchangeError> {
        let token = self.send(Intent::Encrypt(data))?;
        match token.is_empty() && !data.is_empty() {
            // There are no keys yet.
            true => Err(Fault::Misuse.into()),
            false => Ok(token),
        }
    }

    fn send(&mut self, intent: Intent<'_>) -> Result<Vec<u8>, ExchangeError> {
        let done = self.run(intent, &mut Vec::new());
        done.map_err(|error| self.failed(error))?;
        Ok(std::mem::take(&mut self.outgoing))
    }

    /// Returns the token that ends the channel, for peers in tests.
    #[cfg(test)]
    pub(super) fn close(&mut self) -> Vec<u8> {
        self.run(Intent::Close, &mut Vec::new()).unwrap();
        std::mem::take(&mut self.outgoing)
    }

    /// Takes bytes of the peer behind those that wait for the rest of a message.
    fn receive(&mut self, token: &[u8]) {
        let waiting = self.incoming.get(self.seen..).unwrap_or_default();
        let mut incoming = Zeroizing::new(Vec::with_capacity(waiting.len() + token.len()));
        incoming.extend_from_slice(waiting);
        incoming.extend_from_slice(token);
        (self.incoming, self.seen) = (incoming, 0);
    }

    /// Goes on until the wish is carried out or bytes of the peer are needed; returns whether the
    /// peer has closed the channel.
    fn run(&mut self, intent: Intent<'_>, data: &mut Vec<u8>) -> Result<bool, Error> {
        let mut closed = false;
        loop {
            match self.step(intent, data)? {
                Progress::Again | Progress::Data => {}
                Progress::PeerClosed => closed = true,
                Progress::Idle => break,
            }
        }
        if self.seen == self.incoming.len() {
            (self.incoming, self.seen) = (Zeroizing::default(), 0);
        }
        Ok(closed)
    }

    fn step(&mut self, intent: Intent<'_>, data: &mut Vec<u8>) -> Result<Progress, Error> {
        let incoming = self.incoming.get_mut(self.seen..).unwrap_or_default();
        let out = &mut self.outgoing;
        let sink = &mut |bytes: &[u8]| data.extend_from_slice(bytes);
        let (seen, progress) = match &mut self.connection {
            Connection::Client(connection) => records::step(
                incoming,
                move |incoming| connection.process_tls_records(incoming),
                sink,
                |state| act(state, out, intent),
            ),
            Connection::Server(connection) => records::step(
                incoming,
                move |incoming| connection.process_tls_records(incoming),
                sink,
                |state| act(state, out, intent),
            ),
        };
        self.seen += seen;
        Ok(progress?.unwrap_or(Progress::Data))
    }

    /// The failure of TLS, with its alert, which is the last message to send.
    fn failed(&mut self, error: Error) -> ExchangeError {
        let data = &mut Vec::new();
        while self.connection().wants_write() && self.step(Intent::Look, data).is_ok() {}
        ExchangeError::tls(error, std::mem::take(&mut self.outgoing))
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

/// Acts on a state of rustls without data.
fn act<D>(
    state: ConnectionState<'_, '_, D>,
    out: &mut Vec<u8>,
    intent: Intent<'_>,
) -> Result<Progress, Error> {
    match state {
        ConnectionState::EncodeTlsData(mut message) => append(out, |room| {
            message.encode(room).map_err(|error| match error {
                EncodeError::InsufficientSize(short) => Some(short.required_size),
                EncodeError::AlreadyEncoded => None,
            })
        })
        .map(|()| Progress::Again),
        ConnectionState::TransmitTlsData(transmit) => {
            // The caller sends the token; rustls need not wait for that.
            transmit.done();
            Ok(Progress::Again)
        }
        ConnectionState::WriteTraffic(mut traffic) => {
            let short = |error| match error {
                EncryptError::InsufficientSize(short) => Some(short.required_size),
                EncryptError::EncryptExhausted => None,
            };
            match intent {
                Intent::Look => Ok(()),
                Intent::Encrypt(data) => {
                    append(out, |room| traffic.encrypt(data, room).map_err(short))
                }
                #[cfg(test)]
                Intent::Close => {
                    append(out, |room| traffic.queue_close_notify(room).map_err(short))
                }
            }
            .map(|()| Progress::Idle)
        }
        ConnectionState::PeerClosed => Ok(Progress::PeerClosed),
        // It waits for the peer, or both directions are closed; early data is never enabled.
        _ => Ok(Progress::Idle),
    }
}

/// Appends a message, which tells the room that it needs where there is too little.
fn append(
    out: &mut Vec<u8>,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>,
) -> Result<(), Error> {
    let start = out.len();
    let needed = match write(&mut []) {
        Err(Some(needed)) => needed,
        Ok(_) => return Ok(()),
        Err(None) => return Err(Error::EncryptError),
    };
    out.resize(start + needed, 0);
    let written = write(out.get_mut(start..).unwrap_or_default());
    out.truncate(start + written.unwrap_or_default());
    written.map(drop).map_err(|_| Error::EncryptError)
}

/// Checks that a token is made of whole records. The rest is up to rustls.
fn check(token: &[u8]) -> Result<(), Fault> {
    if token.is_empty() {
        return Err(Fault::Empty);
    }
    if token.len() > MAX_TOKEN {
        return Err(Fault::TooLong(token.len()));
    }
    let mut rest = token;
    while !rest.is_empty() {
        let length = match record_length(rest) {
            Ok(length) => length.ok_or(Fault::Truncated)?,
            Err(BadTail::NotTls(kind)) => return Err(Fault::NotTls(kind)),
            Err(_) => return Err(Fault::TooLong(token.len())),
        };
        rest = rest.get(length..).ok_or(Fault::Truncated)?;
    }
    Ok(())
}
