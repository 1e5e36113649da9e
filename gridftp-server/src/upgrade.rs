//! The handshakes of a session's control connection, and the protection that they give.

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ftp_proto::security::{Mechanism, Protection};
use ftp_proto::server::{Input, UpgradeFailure};
use gridftp_dsi::Dsi;
use gsi::credential::Credential;
use gsi::verify::Peer;
use tokio::io::AsyncWriteExt as _;
use tokio::time;
use xio::BoxStream;
use xio::tls::TlsSession;

use crate::action::Executor;
use crate::config::{Policy, TlsPolicy};
use crate::error::chain;
use crate::session::{Session, asked};

/// Longest handshake, where the login may take longer.
const HANDSHAKE: Duration = Duration::from_secs(30);

impl<D: Dsi> Session<D> {
    /// Sends the replies so far, runs the handshake, and returns its result for the machine.
    ///
    /// Bytes that arrived in clear behind `AUTH` are never read as protected ones: they end the
    /// session.
    ///
    /// # Cancel safety
    /// Dropped, the control connection closes.
    pub(crate) async fn upgrade(&mut self, mechanism: Mechanism) -> Input<'static> {
        let peer = self.executor.ends.peer;
        let failed = |reply| Input::UpgradeFailed(UpgradeFailure::Handshake(reply));
        if self.lines.buffered() > 0 {
            tracing::warn!(%peer, "bytes in clear behind AUTH: connection closed");
            return Input::UpgradeFailed(UpgradeFailure::Injected);
        }
        let Some(mut stream) = self.stream.take() else {
            return failed(None);
        };
        let stop = asked(self.stopping.clone(), self.heard);
        let within = self.deadline.map(Into::into);
        let within = within.unwrap_or_else(|| time::Instant::now() + HANDSHAKE);
        let Executor { policy, permit, .. } = &mut self.executor;
        let (policy, out) = (Arc::clone(policy), &mut self.out);
        let handshake = async {
            stream.write_all(out.rest()).await?;
            out.clear();
            stream.flush().await?;
            match (mechanism, &policy.tls) {
                (Mechanism::Tls, Some(tls)) => accept_tls(tls, stream, peer).await,
                (Mechanism::Gssapi, _) => accept_gssapi(&policy, stream, within).await,
                (Mechanism::Tls, None) => Err(io::Error::other(
                    "the server no longer has a certificate; see its --tls-cert",
                )),
            }
        };
        // The connection counts as one that has not logged in: their number is bounded, and a new
        // one evicts an older one at the bound.
        let done = tokio::select! {
            biased;
            () = stop => return failed(None),
            () = poll_fn(|cx| permit.poll_evicted(cx)) => return Input::Evict,
            done = time::timeout_at(within, handshake) => done,
        };
        match done {
            Ok(Ok(secured)) => {
                tracing::debug!(%peer, identity = secured.identity.as_deref(), "handshake");
                self.stream = Some(secured.stream);
                self.executor.client.identity = secured.identity;
                match secured.by {
                    By::Tls(session) => self.executor.tls = Some(session),
                    By::Gssapi(proof) => {
                        let (client, delegated, host) = *proof;
                        self.executor.grid.authenticated(client, delegated, host);
                        self.lines.allow_credentials();
                    }
                }
                Input::Upgraded(secured.protection)
            }
            Ok(Err(error)) => {
                tracing::info!(%peer, error = %chain(&error), "handshake failed");
                failed(None)
            }
            Err(_) => {
                tracing::info!(%peer, "handshake not done within the time for a login");
                Input::Timeout
            }
        }
    }
}

/// A control connection behind its handshake.
struct Secured {
    stream: BoxStream,
    protection: Protection,
    /// The verified name of the client.
    identity: Option<String>,
    by: By,
}

/// The facts of a handshake for data connections.
enum By {
    Tls(Arc<TlsSession>),
    /// The client, the credential that it delegated, and that of the host.
    Gssapi(Box<(Peer, Option<Credential>, Credential)>),
}

/// Runs the handshake of TLS, whose certificate may log in users.
async fn accept_tls(tls: &TlsPolicy, stream: BoxStream, peer: IpAddr) -> io::Result<Secured> {
    let session = tls.server.session();
    let stream = session.control(stream, HANDSHAKE).await?;
    let info = stream.tls_info();
    tracing::debug!(%peer, tls = %info, "handshake");
    let mut protection = Protection::new(Mechanism::Tls);
    let mut identity = None;
    match tls.map.find(info) {
        Ok(Some((name, users))) => (identity, protection.users) = (Some(name), users),
        Ok(None) => {}
        Err(error) => {
            tracing::warn!(%peer, %error, "the client's certificate logs in nobody");
        }
    }
    Ok(Secured {
        stream: Box::new(stream),
        protection,
        identity,
        by: By::Tls(Arc::new(session)),
    })
}

/// Runs the exchange of Grid security; a client that is refused gets its reply before the end.
async fn accept_gssapi(
    policy: &Policy,
    stream: BoxStream,
    within: time::Instant,
) -> io::Result<Secured> {
    let acceptor = policy.grid.as_ref().map(|grid| grid.acceptor());
    let acceptor = acceptor.ok_or_else(|| io::Error::other("the server has no credential"))?;
    match acceptor.accept(stream, within).await {
        Ok(done) => Ok(Secured {
            stream: Box::new(done.stream),
            protection: Protection::new(Mechanism::Gssapi),
            identity: Some(done.peer.identity.to_string()),
            by: By::Gssapi(Box::new((done.peer, done.delegated, done.own))),
        }),
        Err(mut refused) => {
            refused.stream.shutdown().await?;
            Err(io::Error::other(refused.error))
        }
    }
}
