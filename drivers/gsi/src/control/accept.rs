//! `GssapiAcceptor`: the server's end of the exchange over `ADAT` lines.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use base64ct::{Base64, Encoding};
use gsi::credential::Credential;
use gsi::exchange::{Acceptor, ExchangeError, Mode, Session, Step};
use gsi::gridmap::Unmapped;
use gsi::key::KeySize;
use gsi::tls::Clients;
use gsi::vhost::{Choice, Hosts};
use rustls::pki_types::UnixTime;
use tokio::time::{Instant, timeout_at};
use xio_core::Stream;
use xio_tls::off_reactor;

use crate::control::lines::{LineBuffer, printable, send};
use crate::control::stream::Role;
use crate::control::{AdatError, Established, Refused};
use crate::gridmap::GridMapFile;
use crate::keys::KeyPool;
use crate::trust::Judge;

/// Most commands other than `ADAT` before the connection is given up.
const MAX_STRAYS: usize = 8;

/// The server's end of the exchange, for all connections.
#[derive(Clone)]
pub struct GssapiAcceptor {
    hosts: Hosts,
    judge: Judge,
    keys: Arc<KeyPool>,
    map: Option<Arc<GridMapFile>>,
}

impl GssapiAcceptor {
    /// Takes the credential of the host, the judge of clients, and keys for delegated credentials.
    ///
    /// # Errors
    /// The provider of cryptography lacks something.
    pub fn new(
        credential: &Credential,
        judge: Judge,
        keys: Arc<KeyPool>,
    ) -> Result<Self, rustls::Error> {
        judge.tls().server(credential, Clients::Certified)?;
        Ok(Self {
            hosts: Hosts::new(credential.clone()),
            judge,
            keys,
            map: None,
        })
    }

    /// Adds credentials for further host names: a client that asks for a name in one of these
    /// certificates (RFC 6066 §3) meets this one.
    #[must_use]
    pub fn further_hosts(mut self, credentials: impl IntoIterator<Item = Credential>) -> Self {
        self.hosts = self.hosts.further(credentials);
        self
    }

    /// Lets clients delegate only if this file has a line for them: a key for a stranger would cost
    /// the time of others.
    #[must_use]
    pub fn mapped_by(mut self, map: Arc<GridMapFile>) -> Self {
        self.map = Some(map);
        self
    }

    /// Runs the exchange on a connection after the reply `334` to `AUTH GSSAPI`.
    ///
    /// Commands other than `ADAT` and `QUIT` are refused and passed over. A refused client gets the
    /// reason in a reply `530`, after which the connection is to be closed.
    ///
    /// # Errors
    /// The client is refused, breaks the protocol, gives up, or is not done at the deadline.
    ///
    /// # Cancel safety
    /// The connection is closed when the future is dropped.
    pub async fn accept<S: Stream>(
        &self,
        mut stream: S,
        deadline: Instant,
    ) -> Result<Established<S>, Refused<S>> {
        let mut lines = LineBuffer::default();
        let choice = self.hosts.choice();
        let exchange = self.exchange(&mut stream, &mut lines, &choice);
        let exchange = timeout_at(deadline, exchange).await;
        let refused = match exchange {
            Ok(Ok(session)) => match session.peer().cloned() {
                Some(peer) => {
                    let role = Role::Acceptor;
                    let own = choice.credential().clone();
                    return Ok(Established::new(stream, session, peer, role, own, lines));
                }
                None => AdatError::Anonymous,
            },
            Ok(Err(error)) => error,
            Err(_) => AdatError::TimedOut,
        };
        Err(Refused {
            stream,
            error: refused,
        })
    }

    async fn exchange<S: Stream>(
        &self,
        stream: &mut S,
        lines: &mut LineBuffer,
        choice: &Arc<Choice>,
    ) -> Result<Box<Session>, AdatError> {
        self.judge.refreshed().await;
        let tls = self.judge.tls().once();
        let config = Arc::new(tls.server_of(Arc::clone(choice), Clients::Certified)?);
        let mut acceptor = Acceptor::new(config, Arc::clone(tls.verifier()), Mode::Gsi)?;
        let host = stream.info().peer.map(|peer| peer.ip());
        let host = host.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let mut strays = 0;
        loop {
            let line = lines.next(stream).await?;
            let Some(token) = self.token(stream, &line).await? else {
                strays += 1;
                if strays == MAX_STRAYS {
                    return Err(AdatError::Strays(strays));
                }
                continue;
            };
            let stepped;
            (acceptor, stepped) = self.step(acceptor, token, host).await;
            match stepped {
                Ok(Step::Done { token, session }) => {
                    let text = match token {
                        Some(token) => format!("235 ADAT={}\r\n", Base64::encode_string(&token)),
                        None => "235 GSSAPI Authentication successful.\r\n".to_owned(),
                    };
                    send(stream, &text).await?;
                    return Ok(session);
                }
                Ok(Step::Send(token)) => {
                    let text = format!("335 ADAT={}\r\n", Base64::encode_string(&token));
                    send(stream, &text).await?;
                }
                // The key was supplied.
                Ok(_) => return Err(AdatError::BadReply("the exchange asks for a second key")),
                Err(error) => {
                    send(stream, &refusal(&error)).await?;
                    return Err(error);
                }
            }
        }
    }

    /// Reads the token of a command; answers other commands.
    async fn token<S: Stream>(
        &self,
        stream: &mut S,
        line: &[u8],
    ) -> Result<Option<Vec<u8>>, AdatError> {
        let (verb, argument) = match line.iter().position(|byte| *byte == b' ') {
            Some(place) => line.split_at(place),
            None => (line, &b""[..]),
        };
        let argument = argument.trim_ascii();
        if verb.eq_ignore_ascii_case(b"QUIT") {
            send(stream, "211 Goodbye.\r\n").await?;
            return Err(AdatError::Quit);
        }
        if !verb.eq_ignore_ascii_case(b"ADAT") || argument.is_empty() {
            send(stream, "530 Must perform GSSAPI authentication.\r\n").await?;
            return Ok(None);
        }
        let mut token = vec![0; argument.len()];
        let Ok(decoded) = Base64::decode(argument, &mut token).map(<[u8]>::len) else {
            send(stream, "530 globus_xio: Error encoding.\r\n").await?;
            return Ok(None);
        };
        token.truncate(decoded);
        Ok(Some(token))
    }

    /// Takes a token, off the reactor: a stranger chooses the cost of the certificates in it.
    async fn step(
        &self,
        mut acceptor: Acceptor,
        token: Vec<u8>,
        host: IpAddr,
    ) -> (Acceptor, Result<Step, AdatError>) {
        let stepped;
        (acceptor, stepped) = off_reactor(move || {
            let stepped = acceptor.step(&token, UnixTime::now());
            (acceptor, stepped)
        })
        .await;
        let step = match stepped {
            Ok(Step::NeedKey(size)) => self.supply(&mut acceptor, host, size).await,
            stepped => stepped.map_err(AdatError::from),
        };
        (acceptor, step)
    }

    /// Supplies a key for delegation, if the client may log in.
    async fn supply(
        &self,
        acceptor: &mut Acceptor,
        host: IpAddr,
        size: KeySize,
    ) -> Result<Step, AdatError> {
        if let (Some(map), Some(peer)) = (&self.map, acceptor.peer()) {
            map.refreshed().await;
            match map.map().local_name(&peer.identity, None) {
                // The client may name an account of its own.
                Ok(_) | Err(Unmapped::Pool { .. }) => {}
                Err(unmapped) => return Err(unmapped.into()),
            }
        }
        Ok(acceptor.supply(self.keys.take(host, size).await?)?)
    }
}

/// The reply to a client that is refused, in the form of GCT.
fn refusal(error: &AdatError) -> String {
    let reason = match error {
        AdatError::Exchange(error) => ExchangeError::to_string(error),
        error => error.to_string(),
    };
    format!(
        "530-globus_xio: Authentication Error\r\n\
         530-GSS failure: \r\n\
         530-GSS Major Status: Authentication Failed\r\n\
         530-GSS Minor Status Error Chain:\r\n\
         530-{}\r\n\
         530-\r\n\
         530 End.\r\n",
        printable(&reason)
    )
}

impl fmt::Debug for GssapiAcceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GssapiAcceptor")
            .field("judge", &self.judge)
            .finish_non_exhaustive()
    }
}
