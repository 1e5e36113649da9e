//! `Acceptor`: the end of the exchange that is connected to.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::UnbufferedServerConnection;
use rustls::{Error, ServerConfig};

use super::engine::{Connection, Engine};
use super::{ExchangeError, Fault, Mode, Session, Step};
use crate::certificate::{Certificate, KeyAlgorithm, Kind};
use crate::credential::Credential;
use crate::der;
use crate::key::{KeyPair, KeySize};
use crate::request::Request;
use crate::verify::{Peer, Verifier};

/// The acceptor of an exchange, made for each connection.
///
/// Pass each token to [`step`](Self::step) and do what it returns. After an error the acceptor is
/// of no further use, and the connection is to be closed, with the error's text in the reply.
#[derive(Debug)]
pub struct Acceptor {
    verifier: Arc<dyn Verifier>,
    mode: Mode,
    /// `None` after the end.
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    engine: Engine,
    phase: Phase,
}

/// The token that is expected.
#[derive(Debug)]
enum Phase {
    Handshake,
    Flag(Option<Peer>),
    /// None: first the caller has to supply a key.
    Key(Box<Peer>),
    Certificate(Box<Peer>, KeyPair),
}

impl Acceptor {
    /// Starts with a connection of which no token was read. The configuration and the verifier are
    /// of one [`Tls`](crate::tls::Tls).
    ///
    /// # Errors
    ///
    /// The configuration is of no use.
    pub fn new(
        config: Arc<ServerConfig>,
        verifier: Arc<dyn Verifier>,
        mode: Mode,
    ) -> Result<Self, Error> {
        let connection = UnbufferedServerConnection::new(config)?;
        let engine = Engine::new(Connection::Server(Box::new(connection)));
        let running = Running {
            engine,
            phase: Phase::Handshake,
        };
        Ok(Self {
            verifier,
            mode,
            running: Some(running),
        })
    }

    /// Takes a token of the peer.
    ///
    /// # Errors
    ///
    /// The peer breaks the protocol or is refused; see [`Fault`].
    pub fn step(&mut self, token: &[u8], now: UnixTime) -> Result<Step, ExchangeError> {
        let Running { mut engine, phase } = self.running.take().ok_or(Fault::Misuse)?;
        match phase {
            Phase::Handshake => {
                let data = engine.feed(token)?;
                self.on_handshake(engine, &data, now)
            }
            Phase::Flag(peer) => {
                let flag = engine.feed(token)?;
                self.on_flag(engine, peer, &flag)
            }
            Phase::Key(_) => Err(Fault::Misuse.into()),
            Phase::Certificate(peer, key) => {
                let certificate = engine.feed(token)?;
                let delegated = self.on_certificate(&peer, key, &certificate, now)?;
                let session = Session::new(engine, Some(*peer), Some(delegated));
                let session = Box::new(session);
                Ok(Step::Done {
                    token: None,
                    session,
                })
            }
        }
    }

    /// Returns the peer behind the handshake, until the end of the exchange; `None` if it is
    /// anonymous.
    pub fn peer(&self) -> Option<&Peer> {
        match &self.running.as_ref()?.phase {
            Phase::Handshake => None,
            Phase::Flag(peer) => peer.as_ref(),
            Phase::Key(peer) | Phase::Certificate(peer, _) => Some(peer),
        }
    }

    /// Returns the engine, for peers in tests that break the protocol.
    #[cfg(test)]
    pub(super) fn engine(&mut self) -> &mut Engine {
        &mut self.running.as_mut().expect("the exchange runs").engine
    }

    fn on_handshake(
        &mut self,
        mut engine: Engine,
        data: &[u8],
        now: UnixTime,
    ) -> Result<Step, ExchangeError> {
        if !data.is_empty() {
            return Err(Fault::EarlyData.into());
        }
        let mut token = engine.pending()?;
        if engine.is_handshaking() {
            if token.is_empty() {
                return Err(Fault::Incomplete.into());
            }
            self.running = Some(Running {
                engine,
                phase: Phase::Handshake,
            });
            return Ok(Step::Send(token));
        }
        let chain = engine.connection().peer_certificates();
        let peer = chain
            .map(|chain| self.verifier.verify(chain, now))
            .transpose();
        let peer = peer.map_err(Fault::Refused)?;
        if self.mode == Mode::Plain {
            let token = (!token.is_empty()).then_some(token);
            let session = Box::new(Session::new(engine, peer, None));
            return Ok(Step::Done { token, session });
        }
        if token.is_empty() {
            // Under TLS 1.3 the handshake ends with the peer, which still waits for a token.
            token = engine.wrap(b"\0")?;
        }
        self.running = Some(Running {
            engine,
            phase: Phase::Flag(peer),
        });
        Ok(Step::Send(token))
    }

    fn on_flag(
        &mut self,
        engine: Engine,
        peer: Option<Peer>,
        data: &[u8],
    ) -> Result<Step, ExchangeError> {
        match (data, peer) {
            (b"0", peer) => {
                let session = Box::new(Session::new(engine, peer, None));
                Ok(Step::Done {
                    token: None,
                    session,
                })
            }
            (b"D", Some(peer)) => {
                let size = key_size(&peer);
                let phase = Phase::Key(Box::new(peer));
                self.running = Some(Running { engine, phase });
                Ok(Step::NeedKey(size))
            }
            (b"D", None) => Err(Fault::AnonymousDelegation.into()),
            _ => Err(Fault::Flag.into()),
        }
    }

    /// Takes the fresh key that [`Step::NeedKey`] asked for, which no other session may have got,
    /// and returns the token with the request for a proxy.
    ///
    /// # Errors
    ///
    /// No key was asked for, or it does not sign.
    pub fn supply(&mut self, key: KeyPair) -> Result<Step, ExchangeError> {
        let Some(Running {
            mut engine,
            phase: Phase::Key(peer),
        }) = self.running.take()
        else {
            return Err(Fault::Misuse.into());
        };
        let token = engine.wrap(&Request::write(&key).map_err(Fault::Key)?)?;
        let phase = Phase::Certificate(peer, key);
        self.running = Some(Running { engine, phase });
        Ok(Step::Send(token))
    }

    /// Checks the delegated certificate and puts it together with the key and the peer's chain.
    fn on_certificate(
        &self,
        peer: &Peer,
        key: KeyPair,
        data: &[u8],
        now: UnixTime,
    ) -> Result<Credential, Fault> {
        // GCT reads further certificates and has no use for them.
        let (first, _) = der::expect(data, der::SEQUENCE).ok_or(Fault::Delegated("malformed"))?;
        let first = CertificateDer::from(first.whole.to_vec());
        let certificate =
            Certificate::parse(first.clone()).map_err(|error| Fault::Credential(error.into()))?;
        if !matches!(certificate.kind(), Kind::Proxy(_)) {
            return Err(Fault::Delegated("no proxy"));
        }
        if certificate.issuer() != &peer.subject {
            return Err(Fault::Delegated(
                "not issued by the client's own certificate",
            ));
        }
        if !key.matches(certificate.public_key()) {
            return Err(Fault::Delegated("not for the requested key"));
        }
        let mut chain = vec![first];
        chain.extend(peer.chain.iter().cloned());
        self.verifier
            .verify(&chain, now)
            .map_err(Fault::DelegatedRefused)?;
        Credential::new(chain, key).map_err(Fault::Credential)
    }
}

/// Returns the size of the peer's own key, which GCT takes for the fresh one too.
fn key_size(peer: &Peer) -> KeySize {
    let leaf = peer
        .chain
        .first()
        .map(|der| Certificate::parse(der.clone()));
    match leaf {
        Some(Ok(leaf)) if leaf.key_algorithm() == KeyAlgorithm::Rsa => {
            KeySize::at_least(leaf.key_bits())
        }
        _ => KeySize::default(),
    }
}
