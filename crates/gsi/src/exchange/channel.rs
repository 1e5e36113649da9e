//! `DataChannel`: the set-up of a data channel, a record at a time.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, Connection, Error, ProtocolVersion, ServerConfig,
    ServerConnection,
};

use super::tail::{Tail, TailStep, record_length};
use super::{ExchangeError, Fault, Mode};
use crate::sni::NameFilter;

/// The set-up of a data channel, over the bytes of a connection.
///
/// Send what [`take_output`](Self::take_output) returns; while the channel is not
/// [open](Self::is_open), read exactly one record, whose end
/// [`record_length`] tells, and pass it to [`receive`](Self::receive). In [`Mode::Gsi`] both ends
/// then go on in clear on the same connection (`PROT C`); in [`Mode::Plain`] they go on in TLS,
/// see [`into_connection`](Self::into_connection) (`PROT S` and `PROT P`).
#[derive(Debug)]
pub struct DataChannel {
    connection: Box<Connection>,
    filter: NameFilter,
    mode: Mode,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Handshake,
    Tail(Tail),
    Open,
}

impl DataChannel {
    /// Starts at the end that connected, with a configuration of
    /// [`Tls::client`](crate::tls::Tls::client).
    ///
    /// # Errors
    ///
    /// The configuration is of no use.
    pub fn initiate(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        mode: Mode,
    ) -> Result<Self, Error> {
        Ok(Self::new(ClientConnection::new(config, name)?.into(), mode))
    }

    /// Starts at the end that was connected to, with a configuration of
    /// [`Tls::data_server`](crate::tls::Tls::data_server).
    ///
    /// # Errors
    ///
    /// The configuration is of no use.
    pub fn respond(config: Arc<ServerConfig>, mode: Mode) -> Result<Self, Error> {
        Ok(Self::new(ServerConnection::new(config)?.into(), mode))
    }

    fn new(connection: Connection, mode: Mode) -> Self {
        let filter = NameFilter::new();
        Self {
            connection: Box::new(connection),
            filter,
            mode,
            phase: Phase::Handshake,
        }
    }

    /// Takes the bytes to send.
    pub fn take_output(&mut self) -> Vec<u8> {
        let mut output = Vec::new();
        while self.connection.wants_write() {
            if self.connection.write_tls(&mut output).is_err() {
                break;
            }
        }
        output
    }

    /// Tells whether the set-up is complete once the output is sent.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Returns the chain of the peer, to be judged by the verifier; `None` during the handshake.
    pub fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        self.connection.peer_certificates()
    }

    /// Takes one whole record.
    ///
    /// # Errors
    ///
    /// The peer breaks the protocol or is refused; [`take_output`](Self::take_output) then has the
    /// alert.
    pub fn receive(&mut self, record: &mut [u8]) -> Result<(), ExchangeError> {
        if self.is_open() || record_length(record).map_err(Fault::Tail)? != Some(record.len()) {
            return Err(Fault::Misuse.into());
        }
        let data = self.process(record)?;
        match &mut self.phase {
            Phase::Handshake if !data.is_empty() => return Err(Fault::EarlyData.into()),
            Phase::Handshake if self.connection.is_handshaking() => return Ok(()),
            Phase::Handshake => {
                self.phase = match (self.mode, self.connection.protocol_version()) {
                    (Mode::Gsi, Some(version)) => Phase::Tail(self.tail(version)),
                    (Mode::Gsi, None) | (Mode::Plain, _) => Phase::Open,
                };
            }
            Phase::Tail(tail) => tail.receive(&data).map_err(Fault::Tail)?,
            Phase::Open => return Err(Fault::Misuse.into()),
        }
        self.advance()
    }

    fn tail(&self, version: ProtocolVersion) -> Tail {
        match *self.connection {
            Connection::Client(_) => Tail::initiator(version),
            Connection::Server(_) => Tail::acceptor(version),
        }
    }

    /// Passes a record to TLS and returns its data.
    fn process(&mut self, record: &mut [u8]) -> Result<Vec<u8>, ExchangeError> {
        let Self {
            connection, filter, ..
        } = self;
        if matches!(**connection, Connection::Server(_)) {
            filter.admit(record);
        }
        let mut rest = &*record;
        let mut data = Vec::new();
        filter.scope(|| {
            while !rest.is_empty() {
                let read = connection.read_tls(&mut rest);
                if !read.is_ok_and(|length| length > 0) {
                    return Err(Fault::Closed.into());
                }
                let state = connection.process_new_packets();
                let state = state.map_err(|error| ExchangeError::tls(error, Vec::new()))?;
                let length = state.plaintext_bytes_to_read() as u64;
                let read = connection.reader().take(length).read_to_end(&mut data);
                read.map_err(|_| Fault::Truncated)?;
            }
            Ok(data)
        })
    }

    /// Writes the record of the tail.
    fn advance(&mut self) -> Result<(), ExchangeError> {
        let Phase::Tail(tail) = &mut self.phase else {
            return Ok(());
        };
        while let TailStep::Send(data) = tail.next() {
            // One byte fits the buffer of rustls.
            let _ = self.connection.writer().write_all(data);
            tail.sent().map_err(Fault::Tail)?;
        }
        if tail.next() == TailStep::Done {
            self.phase = Phase::Open;
        }
        Ok(())
    }

    /// Returns the connection, on which both ends go on in TLS. GCT ends without a close-notify.
    pub fn into_connection(self) -> Connection {
        *self.connection
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::Lab;
    use crate::tls::Versions;

    fn ends(versions: Versions, mode: Mode) -> (DataChannel, DataChannel) {
        let (tls, lab) = (Lab::tls(versions), Lab::get());
        let client = Arc::new(tls.client(Some(&lab.user)).unwrap());
        let server = Arc::new(tls.data_server(&lab.host).unwrap());
        let name = ServerName::try_from("host.example").unwrap();
        let near = DataChannel::initiate(client, name, mode).unwrap();
        (near, DataChannel::respond(server, mode).unwrap())
    }

    /// Carries the output of one end to the other, a record at a time; returns the bytes that
    /// follow when the channel is open.
    fn carry(from: &mut DataChannel, to: &mut DataChannel, then: &[u8]) -> Vec<u8> {
        let mut bytes = from.take_output();
        if from.is_open() {
            bytes.extend_from_slice(then);
        }
        let mut rest = bytes.as_mut_slice();
        while !rest.is_empty() && !to.is_open() {
            let length = record_length(rest).unwrap().unwrap();
            let (record, after) = rest.split_at_mut(length);
            to.receive(record).unwrap();
            rest = after;
        }
        rest.to_vec()
    }

    /// Traps 2 and 3: the tail under `PROT C`, with clear bytes right behind
    /// it, and no session ticket that would be taken for one of them.
    #[test]
    fn clear_bytes_begin_behind_the_last_record() {
        for versions in [Versions::Tls12, Versions::Tls13] {
            let (mut near, mut far) = ends(versions, Mode::Gsi);
            let mut clear = Vec::new();
            for _ in 0..4 {
                clear.extend(carry(&mut near, &mut far, b"\x08block"));
                let behind = carry(&mut far, &mut near, b"");
                assert!(behind.is_empty(), "{versions:?}: {behind:?}");
                if near.is_open() && far.is_open() && !clear.is_empty() {
                    break;
                }
            }
            assert_eq!(clear, b"\x08block", "{versions:?}");
            assert!(far.peer_certificates().is_some());
            let mut late = [23, 3, 3, 0, 1, 0];
            assert!(matches!(
                far.receive(&mut late).unwrap_err().fault(),
                Fault::Misuse
            ));
        }
    }

    /// Trap 2: no tail under `PROT S` and `PROT P`.
    #[test]
    fn private_channels_have_no_tail() {
        for versions in [Versions::Tls12, Versions::Tls13] {
            let (mut near, mut far) = ends(versions, Mode::Plain);
            for _ in 0..2 {
                carry(&mut near, &mut far, b"");
                carry(&mut far, &mut near, b"");
            }
            assert!(near.is_open() && far.is_open(), "{versions:?}");
            let (mut near, mut far) = (near.into_connection(), far.into_connection());
            near.writer().write_all(b"block").unwrap();
            let mut bytes = Vec::new();
            near.write_tls(&mut bytes).unwrap();
            far.read_tls(&mut bytes.as_slice()).unwrap();
            far.process_new_packets().unwrap();
            let mut data = [0; 5];
            far.reader().read_exact(&mut data).unwrap();
            assert_eq!(&data, b"block");
        }
    }

    #[test]
    fn a_channel_takes_one_record_and_no_other_protocol() {
        let (mut near, mut far) = ends(Versions::All, Mode::Gsi);
        let mut hello = near.take_output();
        hello.push(0);
        assert!(matches!(
            far.receive(&mut hello).unwrap_err().fault(),
            Fault::Misuse
        ));
        let clear = far.receive(&mut b"\0\0\0\x01 block".to_vec()).unwrap_err();
        assert!(matches!(clear.fault(), Fault::Tail(_)), "{clear}");
    }
}
