//! `Initiator`: the end of the exchange that connects.

use std::fmt;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::{ServerName, UnixTime};

use super::engine::{Connection, Engine};
use super::{ExchangeError, Fault, Mode, Session, Step};
use crate::certificate::ProxyRights;
use crate::credential::Credential;
use crate::proxy::ProxyOptions;
use crate::request::Request;
use crate::verify::{Peer, Verifier};

/// The rights that the initiator passes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delegation {
    /// None: the peer gets no credential.
    None,
    /// A limited proxy, as GridFTP clients delegate.
    #[default]
    Limited,
    /// A proxy with all rights.
    Full,
}

/// The check of the server's name, made when the handshake is complete and before anything is
/// delegated; see [`Expected`](crate::host::Expected). Its error becomes [`Fault::Unexpected`].
pub type Expectation =
    Box<dyn FnOnce(&Peer) -> Result<(), Box<dyn std::error::Error + Send + Sync>> + Send>;

/// The choices for an [`Initiator`].
#[non_exhaustive]
pub struct InitiatorOptions {
    /// The configuration, see [`Tls::client`](crate::tls::Tls::client).
    pub config: Arc<ClientConfig>,
    /// The verifier of the configuration.
    pub verifier: Arc<dyn Verifier>,
    /// The name that the server is told; an address is not told.
    pub name: ServerName<'static>,
    /// The check of the server's name.
    pub expect: Expectation,
    /// The credential of the configuration; anonymous by default.
    pub credential: Option<Credential>,
    /// The rights that are passed on; none by default.
    pub delegation: Delegation,
    /// The part of the exchange after the handshake.
    pub mode: Mode,
}

impl InitiatorOptions {
    /// Takes the choices without a default. The configuration and the verifier are of one
    /// [`Tls`](crate::tls::Tls).
    pub fn new(
        config: Arc<ClientConfig>,
        verifier: Arc<dyn Verifier>,
        name: ServerName<'static>,
        expect: Expectation,
    ) -> Self {
        Self {
            config,
            verifier,
            name,
            expect,
            credential: None,
            delegation: Delegation::None,
            mode: Mode::Gsi,
        }
    }
}

impl fmt::Debug for InitiatorOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InitiatorOptions")
            .field("name", &self.name)
            .field("credential", &self.credential)
            .field("delegation", &self.delegation)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

/// The initiator of an exchange, made for each connection.
///
/// Send the first token, pass each answer to [`step`](Self::step), and do what it returns. After
/// an error the initiator is of no further use, and the connection is to be closed.
#[derive(Debug)]
pub struct Initiator {
    verifier: Arc<dyn Verifier>,
    mode: Mode,
    delegate: Option<(Credential, ProxyOptions)>,
    /// `None` after the end.
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    engine: Engine,
    phase: Phase,
}

/// The token that is expected.
enum Phase {
    Handshake(Expectation),
    /// The one that ends the handshake of TLS 1.3, whatever it holds.
    Resync(Peer),
    Request(Peer),
}

impl fmt::Debug for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Handshake(_) => "Handshake",
            Self::Resync(_) => "Resync",
            Self::Request(_) => "Request",
        })
    }
}

impl Initiator {
    /// Starts, and returns the first token too.
    ///
    /// # Errors
    ///
    /// The credential is missing or forbids the wished delegation, or the configuration is of no
    /// use.
    pub fn new(options: InitiatorOptions, now: UnixTime) -> Result<(Self, Vec<u8>), ExchangeError> {
        let rights = match options.delegation {
            Delegation::None => None,
            Delegation::Limited => Some(ProxyRights::Limited),
            Delegation::Full => Some(ProxyRights::Full),
        };
        let delegate = match (rights, options.credential) {
            (None, _) => None,
            (Some(_), None) => return Err(Fault::NothingToDelegate.into()),
            (Some(rights), Some(credential)) => {
                let proxy = ProxyOptions {
                    rights,
                    ..ProxyOptions::default()
                };
                credential.check_proxy(&proxy, now).map_err(Fault::Proxy)?;
                Some((credential, proxy))
            }
        };
        let connection = UnbufferedClientConnection::new(options.config, options.name);
        let connection = connection.map_err(|error| ExchangeError::tls(error, Vec::new()))?;
        let mut engine = Engine::new(Connection::Client(Box::new(connection)));
        let token = engine.pending()?;
        let phase = Phase::Handshake(options.expect);
        let running = Some(Running { engine, phase });
        let (verifier, mode) = (options.verifier, options.mode);
        Ok((
            Self {
                verifier,
                mode,
                delegate,
                running,
            },
            token,
        ))
    }

    /// Takes a token of the peer.
    ///
    /// # Errors
    ///
    /// The peer breaks the protocol or is refused; see [`Fault`].
    pub fn step(&mut self, token: &[u8], now: UnixTime) -> Result<Step, ExchangeError> {
        let Running { mut engine, phase } = self.running.take().ok_or(Fault::Misuse)?;
        let data = engine.feed(token)?;
        match phase {
            Phase::Handshake(expect) => self.on_handshake(engine, expect, &data, now),
            // Old acceptors send session tickets here, others a zero byte.
            Phase::Resync(peer) => self.flag(engine, peer),
            Phase::Request(peer) => {
                let (credential, proxy) = self.delegate.take().ok_or(Fault::Misuse)?;
                let request = Request::parse(&data).map_err(Fault::Request)?;
                let proxy = credential.issue_proxy(request.public_key(), &proxy, now);
                let token = engine.wrap(&proxy.map_err(Fault::Proxy)?)?;
                Ok(done(engine, peer, Some(token)))
            }
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
        expect: Expectation,
        data: &[u8],
        now: UnixTime,
    ) -> Result<Step, ExchangeError> {
        if !data.is_empty() {
            return Err(Fault::EarlyData.into());
        }
        let token = engine.pending()?;
        if engine.is_handshaking() {
            if token.is_empty() {
                return Err(Fault::Incomplete.into());
            }
            self.running = Some(Running {
                engine,
                phase: Phase::Handshake(expect),
            });
            return Ok(Step::Send(token));
        }
        let chain = engine.connection().peer_certificates().unwrap_or_default();
        let peer = self.verifier.verify(chain, now).map_err(Fault::Refused)?;
        expect(&peer).map_err(Fault::Unexpected)?;
        let pending = !token.is_empty();
        match self.mode {
            Mode::Plain => Ok(done(engine, peer, pending.then_some(token))),
            Mode::Gsi if pending => {
                self.running = Some(Running {
                    engine,
                    phase: Phase::Resync(peer),
                });
                Ok(Step::Send(token))
            }
            Mode::Gsi => self.flag(engine, peer),
        }
    }

    /// Sends the flag, which ends the exchange unless something is delegated.
    fn flag(&mut self, mut engine: Engine, peer: Peer) -> Result<Step, ExchangeError> {
        if self.delegate.is_none() {
            let token = engine.wrap(b"0")?;
            return Ok(done(engine, peer, Some(token)));
        }
        let token = engine.wrap(b"D")?;
        self.running = Some(Running {
            engine,
            phase: Phase::Request(peer),
        });
        Ok(Step::Send(token))
    }
}

fn done(engine: Engine, peer: Peer, token: Option<Vec<u8>>) -> Step {
    let session = Box::new(Session::new(engine, Some(peer), None));
    Step::Done { token, session }
}
