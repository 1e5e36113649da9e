//! The handshakes of a session's control connection, and the protection that they give.

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ftp_proto::security::{Mechanism, Protection};
use ftp_proto::server::{Input, UpgradeFailure};
use gridftp_dsi::Dsi;
use tokio::io::AsyncWriteExt as _;
use tokio::time;
use xio::BoxStream;
use xio::tls::TlsInfo;

use xio_gsi::Established;

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
        let Executor {
            policy,
            permit,
            tls: session,
            grid,
            ..
        } = &mut self.executor;
        let out = &mut self.out;
        let handshake = async {
            stream.write_all(out.rest()).await?;
            out.clear();
            stream.flush().await?;
            match (mechanism, &policy.tls) {
                (Mechanism::Tls, Some(tls)) => {
                    let started = tls.server.session();
                    let stream = started.control(stream, HANDSHAKE).await?;
                    let protection = tls.protection(peer, stream.tls_info());
                    tracing::debug!(%peer, tls = %stream.tls_info(), "handshake");
                    *session = Some(Arc::new(started));
                    Ok((Box::new(stream) as BoxStream, protection))
                }
                (Mechanism::Gssapi, _) => {
                    let done = accept_gssapi(policy, stream, within).await?;
                    let mut protection = Protection::new(mechanism);
                    protection.identity = Some(done.peer.identity.to_string());
                    protection.delegated = done.delegated.is_some();
                    tracing::debug!(%peer, identity = %done.peer.identity, "handshake");
                    grid.authenticated(done.peer, done.delegated);
                    Ok((Box::new(done.stream) as BoxStream, protection))
                }
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
            Ok(Ok((stream, protection))) => {
                self.stream = Some(stream);
                if mechanism == Mechanism::Gssapi {
                    self.lines.allow_credentials();
                }
                Input::Upgraded(protection)
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

impl TlsPolicy {
    /// The protection behind a handshake, with the users of the client's certificate.
    fn protection(&self, peer: IpAddr, info: &TlsInfo) -> Protection {
        let mut protection = Protection::new(Mechanism::Tls);
        match self.map.find(info) {
            Ok(Some((identity, users))) => {
                (protection.identity, protection.users) = (Some(identity), users);
            }
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%peer, %error, "the client's certificate logs in nobody");
            }
        }
        protection
    }
}

/// Runs the exchange of Grid security; a client that is refused gets its reply before the end.
async fn accept_gssapi(
    policy: &Policy,
    stream: BoxStream,
    within: time::Instant,
) -> io::Result<Established<BoxStream>> {
    let acceptor = policy.grid.as_ref().map(|grid| grid.acceptor());
    let acceptor = acceptor.ok_or_else(|| io::Error::other("the server has no credential"))?;
    match acceptor.accept(stream, within).await {
        Ok(done) => Ok(done),
        Err(mut refused) => {
            refused.stream.shutdown().await?;
            Err(io::Error::other(refused.error))
        }
    }
}
