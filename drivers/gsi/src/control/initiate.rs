//! `GssapiInitiator`: the client's end of the exchange over `ADAT` lines.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use base64ct::{Base64, Encoding};
use gsi::credential::Credential;
use gsi::exchange::{Delegation, Initiator, InitiatorOptions, Session, Step};
use gsi::host::{Expected, Names};
use rustls::pki_types::{ServerName, UnixTime};
use tokio::time::{Instant, timeout_at};
use xio_core::Stream;

use crate::control::lines::{LineBuffer, printable, send};
use crate::control::stream::Role;
use crate::control::{AdatError, Established, Refused};
use crate::trust::Judge;

/// Most lines of one reply.
const MAX_LINES: usize = 64;

/// The client's end of the exchange, for connections with one credential.
#[derive(Clone)]
pub struct GssapiInitiator {
    judge: Judge,
    credential: Credential,
    delegation: Delegation,
    names: Names,
}

impl GssapiInitiator {
    /// Takes the credential of the user and the judge of servers. A limited proxy is delegated.
    ///
    /// # Errors
    /// The provider of cryptography lacks something.
    pub fn new(credential: Credential, judge: Judge) -> Result<Self, rustls::Error> {
        judge.tls().client(Some(&credential))?;
        Ok(Self {
            judge,
            credential,
            delegation: Delegation::Limited,
            names: Names::default(),
        })
    }

    /// Sets the rights that are delegated.
    #[must_use]
    pub fn delegation(mut self, delegation: Delegation) -> Self {
        self.delegation = delegation;
        self
    }

    /// Sets the rules for names of hosts.
    #[must_use]
    pub fn names(mut self, names: Names) -> Self {
        self.names = names;
        self
    }

    /// Runs the exchange on a connection after the reply `334` to `AUTH GSSAPI`. The server is told
    /// the name `host`, and must prove to be the expected one before anything is delegated.
    ///
    /// # Errors
    /// One end refuses the other, the server breaks the protocol, or is not done at the deadline.
    ///
    /// # Cancel safety
    /// The connection is closed when the future is dropped.
    pub async fn initiate<S: Stream>(
        &self,
        mut stream: S,
        host: &str,
        expected: Expected,
        deadline: Instant,
    ) -> Result<Established<S>, Refused<S>> {
        let mut lines = LineBuffer::default();
        let exchange = self.exchange(&mut stream, &mut lines, host, expected);
        let refused = match timeout_at(deadline, exchange).await {
            Ok(Ok(session)) => match session.peer().cloned() {
                Some(peer) => {
                    let role = Role::Initiator;
                    let own = self.credential.clone();
                    return Ok(Established::new(stream, session, peer, role, own, lines));
                }
                None => AdatError::BadReply("the server has no certificate"),
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
        host: &str,
        expected: Expected,
    ) -> Result<Box<Session>, AdatError> {
        self.judge.refreshed().await;
        let names = self.names;
        let check = Box::new(move |peer: &gsi::verify::Peer| {
            expected.check(peer, names).map_err(Into::into)
        });
        let tls = self.judge.tls().once();
        let config = Arc::new(tls.client(Some(&self.credential))?);
        let verifier = Arc::clone(tls.verifier());
        let mut options = InitiatorOptions::new(config, verifier, told(host), check);
        options.credential = Some(self.credential.clone());
        options.delegation = self.delegation;
        let (mut initiator, mut token) = Initiator::new(options, UnixTime::now())?;
        let mut done = None;
        loop {
            let line = format!("ADAT {}\r\n", Base64::encode_string(&token));
            send(stream, &line).await?;
            let answer = reply(stream, lines).await?;
            match (done.take(), answer) {
                (Some(session), Answer::Done) => return Ok(session),
                (None, Answer::Continue(answer)) => {
                    match initiator.step(&answer, UnixTime::now())? {
                        Step::Send(next) => token = next,
                        Step::Done {
                            token: Some(last),
                            session,
                        } => {
                            token = last;
                            done = Some(session);
                        }
                        _ => return Err(AdatError::BadReply("the exchange ends without a token")),
                    }
                }
                (Some(_), Answer::Continue(_)) => {
                    return Err(AdatError::BadReply(
                        "the server goes on after the last token",
                    ));
                }
                (None, Answer::Done) => {
                    return Err(AdatError::BadReply(
                        "the server accepts before the exchange is complete",
                    ));
                }
            }
        }
    }
}

/// The name for the server; an address is not told.
fn told(host: &str) -> ServerName<'static> {
    ServerName::try_from(host.to_owned()).unwrap_or_else(|_| unnamed())
}

/// An address, which TLS does not tell the server.
pub(crate) fn unnamed() -> ServerName<'static> {
    ServerName::IpAddress(IpAddr::V4(Ipv4Addr::UNSPECIFIED).into())
}

/// The reply to a token.
enum Answer {
    /// `335 ADAT=`, with the token.
    Continue(Vec<u8>),
    /// `235`
    Done,
}

/// Reads a reply.
async fn reply<S: Stream>(stream: &mut S, lines: &mut LineBuffer) -> Result<Answer, AdatError> {
    let first = lines.next(stream).await?;
    let code = first.get(..3).unwrap_or_default().to_vec();
    let mut text = vec![printable(&String::from_utf8_lossy(&first))];
    if first.get(3) == Some(&b'-') {
        for _ in 0..MAX_LINES {
            let line = lines.next(stream).await?;
            text.push(printable(&String::from_utf8_lossy(&line)));
            if line.starts_with(&code) && line.get(3) != Some(&b'-') {
                break;
            }
        }
    }
    match first.strip_prefix(b"335 ADAT=") {
        Some(token) => {
            let token = std::str::from_utf8(token).unwrap_or_default().trim_end();
            let token = Base64::decode_vec(token);
            let token = token.map_err(|_| AdatError::BadReply("the token is no base64"))?;
            Ok(Answer::Continue(token))
        }
        None if code == b"235" => Ok(Answer::Done),
        None => Err(AdatError::Reply(text.join(" / "))),
    }
}

impl fmt::Debug for GssapiInitiator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GssapiInitiator")
            .field("credential", &self.credential)
            .field("delegation", &self.delegation)
            .field("judge", &self.judge)
            .finish_non_exhaustive()
    }
}
