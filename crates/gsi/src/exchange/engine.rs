//! A connection of rustls that is fed with whole tokens.

use std::io::{Read, Write};

use rustls::Connection;

use super::tail::{BadTail, record_length};
use super::{ExchangeError, Fault};

/// Bound of a token in bytes: room for chains with attribute certificates, which have tens of
/// thousands of bytes.
pub const MAX_TOKEN: usize = 128 * 1024;

#[derive(Debug)]
pub(super) struct Engine {
    connection: Connection,
}

impl Engine {
    pub(super) fn new(mut connection: Connection) -> Self {
        // Tokens are taken out at once, so nothing piles up.
        connection.set_buffer_limit(None);
        Self { connection }
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Reads a token and returns its data.
    pub(super) fn feed(&mut self, token: &[u8]) -> Result<Vec<u8>, ExchangeError> {
        check(token)?;
        // Room for all of it, so that no copy of a secret is left behind by a reallocation.
        let mut data = Vec::with_capacity(token.len());
        let mut rest = token;
        while !rest.is_empty() {
            match self.connection.read_tls(&mut rest) {
                // What follows the end means nothing.
                Ok(0) => break,
                Ok(_) => {}
                // A message of the handshake over the bound of rustls.
                Err(_) => return Err(Fault::TooLong(token.len()).into()),
            }
            let state = self.connection.process_new_packets();
            let state = state.map_err(|error| ExchangeError::tls(error, self.pending()))?;
            let length = state.plaintext_bytes_to_read() as u64;
            let read = self.connection.reader().take(length).read_to_end(&mut data);
            read.map_err(|_| Fault::Truncated)?;
            if state.peer_has_closed() && data.is_empty() {
                return Err(Fault::Closed.into());
            }
        }
        Ok(data)
    }

    /// Takes the token that TLS has to send; empty if there is none.
    pub(super) fn pending(&mut self) -> Vec<u8> {
        let mut token = Vec::new();
        while self.connection.wants_write() {
            if self.connection.write_tls(&mut token).is_err() {
                break;
            }
        }
        token
    }

    /// Returns the token that ends the channel, for peers in tests.
    #[cfg(test)]
    pub(super) fn close(&mut self) -> Vec<u8> {
        self.connection.send_close_notify();
        self.pending()
    }

    /// Encrypts data and returns the token.
    pub(super) fn wrap(&mut self, data: &[u8]) -> Vec<u8> {
        // A buffer without a limit takes everything.
        let _ = self.connection.writer().write_all(data);
        self.pending()
    }
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
