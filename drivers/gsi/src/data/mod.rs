//! `Gsi`: the layer of data channels, by which both ends prove who they are.

mod setup;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ftp_proto::security::{DataProtection, Level as Protection};
use ftp_wire::command::Dcau;
use gsi::credential::Credential;
use gsi::exchange::{DataChannel, Fault, Mode};
use gsi::host::{Expected, Host, Names};
use gsi::name::Name;
use gsi::sni::NameFilter;
use gsi::tls::Tls;
use gsi::verify::{Peer, Verifier};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{ClientConfig, ServerConfig};
use xio_core::{
    BoxStream, Error, ErrorKind, Info, Observer, Operation, Result, Stream, Tap, Target, Transform,
};
use xio_tls::{Filter, TlsEnd, TlsInfo};

use crate::LAYER;
use crate::control::unnamed;
use crate::info::{GsiInfo, Level};
use crate::trust::Judge;

/// Time limit of a handshake.
pub(crate) const DEFAULT_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// The peer that is accepted, besides being of a trusted authority.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expect {
    /// The identity of one's own credential (`DCAU A`).
    #[default]
    Own,
    /// An identity in its form of one line, compared exactly (`DCAU S`).
    Subject(String),
    /// The host that was connected to.
    Host,
    /// Anybody.
    Any,
}

/// The layer: a handshake with certificates on both ends, then bytes with the wanted protection.
///
/// The end that connects is the client of TLS. Under [`Level::Clear`] both ends go on in clear on
/// the same stream after the handshake, so that files are still sent by the kernel; otherwise they
/// go on in TLS, where the end of the stream below is a proper end, since the Globus programs send
/// no close-notify: the length of a file must be known otherwise.
#[derive(Clone)]
pub struct Gsi {
    credential: Credential,
    judge: Judge,
    own: Name,
    expect: Expect,
    level: Level,
    handshake_timeout: Duration,
}

impl Gsi {
    /// A layer with this credential, for peers of the same identity, with private bytes.
    ///
    /// # Errors
    /// The provider of cryptography lacks something.
    pub fn new(credential: &Credential, judge: Judge) -> Result<Self> {
        client(&judge.tls(), credential)?;
        server(&judge.tls(), credential)?;
        Ok(Self {
            credential: credential.clone(),
            judge,
            own: credential.identity(),
            expect: Expect::Own,
            level: Level::Private,
            handshake_timeout: DEFAULT_HANDSHAKE_TIMEOUT,
        })
    }

    /// A layer with the protection that a GridFTP session agreed on; `None` under `DCAU N`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn agreed(
        credential: &Credential,
        judge: Judge,
        protection: &DataProtection,
    ) -> Result<Option<Self>> {
        let expect = match &protection.authentication {
            Dcau::None => return Ok(None),
            Dcau::Own => Expect::Own,
            Dcau::Subject(subject) => Expect::Subject(subject.clone()),
        };
        let level = match protection.level {
            Protection::Clear => Level::Clear,
            Protection::Integrity => Level::Safe,
            Protection::Private => Level::Private,
        };
        let layer = Self::new(credential, judge)?;
        Ok(Some(layer.expect(expect).level(level)))
    }

    /// Sets the peer that is accepted; that of one's own identity by default.
    #[must_use]
    pub fn expect(mut self, expect: Expect) -> Self {
        self.expect = expect;
        self
    }

    /// Sets the protection of the bytes; private by default. Both ends must have the same.
    #[must_use]
    pub fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// Time limit of the whole handshake; 30 seconds by default.
    #[must_use]
    pub fn handshake_timeout(mut self, time: Duration) -> Self {
        self.handshake_timeout = time;
        self
    }

    async fn open<S: Stream>(&self, inner: S, to: Option<&Target>) -> Result<BoxStream> {
        let op = match to {
            Some(_) => Operation::Connect,
            None => Operation::Open,
        };
        if to.is_none() && self.expect == Expect::Host {
            let fact = "an end that is connected to knows no name of its peer; set auth or subject";
            return Err(Error::new(ErrorKind::Unsupported, LAYER, op, fact));
        }
        self.judge.refreshed().await;
        let tls = self.judge.tls().once();
        let verifier = tls.verifier();
        match self.level {
            Level::Clear => {
                let made = match to {
                    Some(_) => {
                        let config = client(&tls, &self.credential)?;
                        DataChannel::initiate(config, unnamed(), Mode::Gsi)
                    }
                    None => DataChannel::respond(server(&tls, &self.credential)?, Mode::Gsi),
                };
                let channel = made.map_err(|error| setup::blame(&Fault::Tls(error).into(), op))?;
                let (inner, channel) =
                    setup::clear(inner, channel, self.handshake_timeout, op).await?;
                let chain = channel.peer_certificates().unwrap_or_default();
                let peer = self.check(verifier, chain, to, op)?;
                let version = channel.into_connection().protocol_version();
                let info = GsiInfo::new(&peer, self.level, version);
                Ok(Box::new(Tap::new(inner, Described(info))))
            }
            Level::Safe | Level::Private => {
                let end = match to {
                    Some(_) => TlsEnd::client(client(&tls, &self.credential)?, unnamed()),
                    None => {
                        TlsEnd::server(server(&tls, &self.credential)?).filtered(Filtered::default)
                    }
                };
                // A stranger chooses the cost of the certificates.
                let end = end
                    .off_reactor()
                    .close_notify_optional()
                    .handshake_timeout(self.handshake_timeout);
                let handle = end.open(inner, op).await?;
                let info = handle.info();
                let tls = info.get::<TlsInfo>().cloned().unwrap_or_default();
                let chain: Vec<_> = tls
                    .peer_certificates
                    .iter()
                    .map(|der| CertificateDer::from(der.as_slice()))
                    .collect();
                let peer = self.check(verifier, &chain, to, op)?;
                let mut info = GsiInfo::new(&peer, self.level, None);
                info.version = tls.version;
                Ok(Box::new(Tap::new(handle, Described(info))))
            }
        }
    }

    /// Checks that the peer is the expected one.
    fn check(
        &self,
        verifier: &Arc<dyn Verifier>,
        chain: &[CertificateDer<'_>],
        to: Option<&Target>,
        op: Operation,
    ) -> Result<Peer> {
        let refused = |fact| Error::new(ErrorKind::Security, LAYER, op, fact);
        let verdict = verifier.verify(chain, UnixTime::now());
        let peer = verdict.map_err(|refusal| refused(refusal.to_string()))?;
        let expected = match &self.expect {
            Expect::Any => return Ok(peer),
            Expect::Own if peer.identity == self.own => return Ok(peer),
            Expect::Subject(subject) if peer.identity.to_string() == *subject => return Ok(peer),
            Expect::Host => {
                let checked = host(to).check(&peer, Names::default());
                return match checked {
                    Ok(()) => Ok(peer),
                    Err(wrong) => Err(refused(wrong.to_string())),
                };
            }
            Expect::Own => self.own.to_string(),
            Expect::Subject(subject) => subject.clone(),
        };
        // The words of GCT.
        Err(refused(format!(
            "the peer authenticated as {}. Expected the peer to authenticate as {expected}",
            peer.identity
        )))
    }
}

fn client(tls: &Tls, credential: &Credential) -> Result<Arc<ClientConfig>> {
    tls.client(Some(credential)).map(Arc::new).map_err(unfit)
}

fn server(tls: &Tls, credential: &Credential) -> Result<Arc<ServerConfig>> {
    tls.data_server(credential).map(Arc::new).map_err(unfit)
}

fn unfit(error: rustls::Error) -> Error {
    let fact = format!("the credential cannot be used: {error}");
    Error::new(ErrorKind::Security, LAYER, Operation::Plan, fact)
}

/// The host of a target, or the subject that its contact string demands.
fn host(to: Option<&Target>) -> Expected {
    if let Some(subject) = to.and_then(|to| to.subject.as_deref()) {
        return Expected::subject(subject);
    }
    let host = to.and_then(|to| to.host.clone()).unwrap_or_default();
    Expected::Host(Host::new(host))
}

impl<S: Stream> Transform<S> for Gsi {
    type Handle = BoxStream;

    async fn initiate(&self, inner: S, to: &Target) -> Result<BoxStream> {
        self.open(inner, Some(to)).await
    }

    async fn respond(&self, inner: S) -> Result<BoxStream> {
        self.open(inner, None).await
    }

    fn describe(&self, info: &mut Info) {
        info.layer(LAYER);
    }
}

impl fmt::Debug for Gsi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(LAYER)
    }
}

/// Adds the peer to the description of a handle.
struct Described(GsiInfo);

impl Observer for Described {
    fn describe(&self, info: &mut Info) {
        if self.0.level != Level::Clear {
            // The layer `tls` is a part of this one.
            info.chain.pop();
            info.security = Some(self.0.to_string());
        }
        info.layer(LAYER);
        info.insert(self.0.clone());
    }
}

/// The filter for names of persons in the greeting of Globus programs.
#[derive(Default)]
struct Filtered(NameFilter);

impl Filter for Filtered {
    fn admit(&mut self, incoming: &mut [u8]) {
        self.0.admit(incoming);
    }

    fn scope(&self, process: &mut dyn FnMut()) {
        self.0.scope(process);
    }
}
