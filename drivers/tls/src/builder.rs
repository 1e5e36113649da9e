//! `TlsBuilder`: a layer built step by step, with the steps for its roles.

use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, ServerConfig, SupportedProtocolVersion, version};
use tls_secrets::records;
use xio_core::{ErrorKind, Result};

use crate::credentials::{Identity, Roots, refused};
use crate::end::TlsEnd;
use crate::options::{DEFAULT_HANDSHAKE_TIMEOUT, MinVersion};
use crate::paired::TlsServer;
use crate::sessions::Tickets;
use crate::{Active, Tls};

/// Marks a layer that is the client of its handshakes.
#[derive(Debug)]
#[non_exhaustive]
pub enum Client {}

/// Marks a layer that is the server of its handshakes.
#[derive(Debug)]
#[non_exhaustive]
pub enum Server {}

/// Marks a layer for both roles, as data channels between two servers need it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Both {}

/// A role that connects, and so trusts authorities.
pub trait Initiates {}
impl Initiates for Client {}
impl Initiates for Both {}

/// A role that accepts connections, and so has a certificate.
pub trait Responds {}
impl Responds for Server {}
impl Responds for Both {}

/// Builds a [`Tls`]; its steps depend on its roles.
///
/// ```compile_fail,E0599
/// # fn example(identity: xio_tls::Identity) {
/// // A server has no name of a peer to expect.
/// xio_tls::Tls::server(identity).server_name("dtn.example.org");
/// # }
/// ```
#[derive(Debug)]
#[must_use = "it becomes a layer with `build`"]
pub struct TlsBuilder<Role> {
    roots: Option<Roots>,
    name: Option<String>,
    /// The certificate of this end as a client.
    own: Option<Identity>,
    identity: Option<Identity>,
    clients: Option<(Roots, bool)>,
    shared: Shared,
    role: PhantomData<fn() -> Role>,
}

/// Settings of both roles.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    pub(crate) alpn: Vec<String>,
    pub(crate) min: MinVersion,
    pub(crate) resume: bool,
    pub(crate) handshake_timeout: Duration,
    pub(crate) unmarked_end: bool,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            alpn: Vec::new(),
            min: MinVersion::default(),
            resume: true,
            handshake_timeout: DEFAULT_HANDSHAKE_TIMEOUT,
            unmarked_end: false,
        }
    }
}

impl<Role> TlsBuilder<Role> {
    pub(crate) fn new(roots: Option<Roots>, identity: Option<Identity>) -> Self {
        Self {
            roots,
            name: None,
            own: None,
            identity,
            clients: None,
            shared: Shared::default(),
            role: PhantomData,
        }
    }

    pub(crate) fn shared(mut self, shared: Shared) -> Self {
        self.shared = shared;
        self
    }

    /// Sets the application protocols, the preferred first (RFC 7301).
    pub fn alpn<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.shared.alpn = names.into_iter().map(Into::into).collect();
        self
    }

    /// Refuses versions below this one.
    pub fn min_version(mut self, min: MinVersion) -> Self {
        self.shared.min = min;
        self
    }

    /// Whether an earlier session may be resumed without certificates; yes by default.
    pub fn resume(mut self, resume: bool) -> Self {
        self.shared.resume = resume;
        self
    }

    /// Time limit of the whole handshake; 30 seconds by default.
    pub fn handshake_timeout(mut self, time: Duration) -> Self {
        self.shared.handshake_timeout = time;
        self
    }

    /// Accepts the end of the stream below as close-notify, for peers known not to send it.
    ///
    /// An attacker that can cut the connection can then truncate the received bytes unnoticed.
    pub fn close_notify_optional(mut self) -> Self {
        self.shared.unmarked_end = true;
        self
    }

    /// Makes the layer.
    ///
    /// # Errors
    /// A key that does not belong to its certificate, or a bad name.
    pub fn build(self) -> Result<Tls> {
        let passive = match self.identity.clone() {
            Some(identity) => Some(responder(identity, self.clients, &self.shared)?),
            None => None,
        };
        let active = match self.roots {
            None => None,
            Some(roots) => {
                let name = self.name.map(server_name).transpose()?;
                let active = Active {
                    roots,
                    // A layer with one certificate uses it in both roles.
                    identity: self.own.or(self.identity),
                    shared: self.shared.clone(),
                    name,
                    config: OnceLock::new(),
                };
                if !active.roots.is_system() {
                    active.config()?;
                }
                Some(active)
            }
        };
        Ok(Tls {
            active,
            passive,
            handshake_timeout: self.shared.handshake_timeout,
            unmarked_end: self.shared.unmarked_end,
        })
    }
}

impl<Role: Initiates> TlsBuilder<Role> {
    /// The name that the peer's certificate must have, where it is not the target's host.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The certificate for peers that ask for one.
    pub fn client_identity(mut self, identity: Identity) -> Self {
        self.own = Some(identity);
        self
    }
}

impl TlsBuilder<Client> {
    /// Makes the client of control connections to the server of this name, and of the data
    /// connections that resume their sessions, whichever end connected (RFC 4217 §7).
    ///
    /// Clones share their sessions, which the tickets tell of. The authorities of the system are read now.
    ///
    /// # Errors
    /// A key that does not belong to its certificate, a bad name, or unreadable authorities.
    pub fn build_client(self, name: impl Into<String>) -> Result<(TlsEnd, Tickets)> {
        let roots = self.roots.unwrap_or(Roots::system());
        let config = initiator(&roots, self.own, &self.shared)?;
        let mut config = Arc::unwrap_or_clone(config);
        let tickets = Tickets(Arc::default());
        if self.shared.resume {
            config.resumption = Resumption::store(Arc::clone(&tickets.0) as Arc<_>);
        }
        let end = TlsEnd::client(Arc::new(config), server_name(name.into())?)
            .handshake_timeout(self.shared.handshake_timeout);
        let end = match self.shared.unmarked_end {
            true => end.close_notify_optional(),
            false => end,
        };
        Ok((end, tickets))
    }
}

impl TlsBuilder<Server> {
    /// Makes the server of control connections whose data connections resume their sessions.
    ///
    /// # Errors
    /// A key that does not belong to its certificate.
    pub fn build_server(mut self) -> Result<TlsServer> {
        // Sessions are remembered by control connection, and not in tickets of the whole server.
        self.shared.resume = false;
        let identity = self
            .identity
            .ok_or_else(|| refused("a server needs a certificate"))?;
        let config = responder(identity, self.clients, &self.shared)?;
        Ok(TlsServer::new(Arc::unwrap_or_clone(config)))
    }
}

impl<Role: Responds> TlsBuilder<Role> {
    /// Refuses peers without a certificate of these authorities.
    pub fn require_client_certificates(mut self, of: Roots) -> Self {
        self.clients = Some((of, true));
        self
    }

    /// Asks peers for a certificate of these authorities, and accepts those without one too.
    pub fn request_client_certificates(mut self, of: Roots) -> Self {
        self.clients = Some((of, false));
        self
    }
}

/// Reads a host name or address.
pub(crate) fn server_name(name: String) -> Result<ServerName<'static>> {
    ServerName::try_from(name.clone()).map_err(|_| {
        refused(format!(
            "{name:?} is neither a host name nor an address that a certificate is for"
        ))
    })
}

fn versions(min: MinVersion) -> &'static [&'static SupportedProtocolVersion] {
    static ONLY_13: [&SupportedProtocolVersion; 1] = [&version::TLS13];
    match min {
        MinVersion::Tls12 => rustls::ALL_VERSIONS,
        MinVersion::Tls13 => &ONLY_13,
    }
}

fn unfit(error: &rustls::Error) -> xio_core::Error {
    refused(format!("certificate and key: {error}"))
}

fn names(alpn: &[String]) -> Vec<Vec<u8>> {
    alpn.iter().map(|name| name.as_bytes().to_vec()).collect()
}

/// The configuration of rustls for the client.
pub(crate) fn initiator(
    roots: &Roots,
    identity: Option<Identity>,
    shared: &Shared,
) -> Result<Arc<ClientConfig>> {
    let provider = Arc::new(records::provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions(shared.min))
        .map_err(|e| unfit(&e))?
        .with_root_certificates(roots.store()?);
    let mut config = match identity {
        Some(identity) => {
            builder.with_client_cert_resolver(identity.certified().map_err(|e| unfit(&e))?)
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = names(&shared.alpn);
    if !shared.resume {
        config.resumption = Resumption::disabled();
    }
    Ok(Arc::new(config))
}

/// The configuration of rustls for the server.
fn responder(
    identity: Identity,
    clients: Option<(Roots, bool)>,
    shared: &Shared,
) -> Result<Arc<ServerConfig>> {
    let provider = Arc::new(records::provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions(shared.min))
        .map_err(|e| unfit(&e))?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some((roots, required)) => {
            let mut verifier =
                WebPkiClientVerifier::builder_with_provider(roots.store()?, provider);
            if !required {
                verifier = verifier.allow_unauthenticated();
            }
            builder.with_client_cert_verifier(verifier.build().map_err(|e| refused(e.to_string()))?)
        }
    };
    let mut config = builder.with_cert_resolver(identity.certified().map_err(|e| unfit(&e))?);
    config.alpn_protocols = names(&shared.alpn);
    if shared.resume {
        config.ticketer = aws_lc_rs::Ticketer::new().map_err(|e| {
            xio_core::Error::new(
                ErrorKind::Exhausted,
                crate::error::LAYER,
                xio_core::Operation::Plan,
                e.to_string(),
            )
        })?;
    } else {
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(Arc::new(config))
}
