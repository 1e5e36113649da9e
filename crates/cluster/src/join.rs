//! Joining a cluster with a token, and renewing the certificate of a member.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use gridftp_dsi_rpc::Caller;
use rustls::ClientConfig;
use tokio::time::{sleep, timeout};
use tonic::codegen::http::Uri;
use tracing::{info, warn};

use crate::authority::{Authority, LIFETIME, key_pair, pem, request, sha256};
use crate::connections::{connect, jittered};
use crate::error::{Error, Result};
use crate::folder::{Folder, certificates};
use crate::identity::{Identity, Peer};
use crate::link;
use crate::member::Member;
use crate::message::text;
use crate::nodes::NodeInfo;
use crate::proto;
use crate::proto::authority_client::AuthorityClient;
use crate::report::{Report, Version};
use crate::tls;
use crate::token::JoinToken;

/// Part of the validity that is left when a certificate is renewed.
const RENEWED_BEFORE: Duration = Duration::from_secs(LIFETIME.as_secs() / 3);
/// Longest pause between looks at the clock, which may be set.
const LOOK: Duration = Duration::from_secs(3600);
/// Pauses between attempts to renew.
const RETRIES: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(600));
/// Longest time of a call.
const CALL: Duration = Duration::from_secs(10);

/// Joins the cluster of a token under this name, and writes the files of the new member to `folder`.
///
/// The front end must hold the authority that the token names; nothing else is trusted before.
///
/// # Errors
///
/// The folder holds a member already, the front end is not reached, is another one, or refuses.
///
/// # Cancel safety
///
/// The token may have been used up.
pub async fn join(folder: impl Into<PathBuf>, token: &JoinToken, name: &str) -> Result<Identity> {
    let folder = Folder::new(folder);
    folder.check_empty()?;
    folder.create()?;
    let key = rcgen::KeyPair::generate().map_err(|error| Error::certificate("key", error))?;
    let message = proto::JoinRequest {
        secret: token.secret.to_vec(),
        name: name.into(),
        request: request(&key)?,
    };
    let issued = call(
        token.front(),
        tls::pinned(token.authority)?,
        async |mut client| client.join(message).await,
    )
    .await?;
    let trust = certificates(issued.trust.as_bytes());
    let trust = trust.map_err(|fact| Error::certificate(token.front(), fact))?;
    if !trust.iter().any(|root| sha256(root) == token.authority) {
        let fact = "trusts other authorities than the token";
        return Err(Error::certificate(token.front(), fact));
    }
    let identity = identity_of(&issued)?;
    if identity.name != name {
        let fact = format!("issued the certificate of {identity}");
        return Err(Error::certificate(token.front(), fact));
    }
    folder.write("key.pem", key.serialize_pem().as_bytes(), 0o600)?;
    write(&folder, &issued)?;
    Member::load(folder.path(""))?;
    Ok(identity)
}

impl Member {
    /// Gets a new certificate for the same key: from the own authority if there is one, else from
    /// the front end at `address` (`HOST:PORT`), and uses it from now on.
    ///
    /// # Errors
    ///
    /// The front end is not reached or refuses, or the files cannot be written. The old certificate
    /// stays in force.
    ///
    /// # Cancel safety
    ///
    /// The old certificate stays in force, or the new one is.
    pub async fn renew(&self, address: &str) -> Result<()> {
        let current = self.for_handshake().await;
        let key = key_pair(&current.credentials.key)?;
        let message = request(&key)?;
        let issued = match Authority::load(&self.folder)? {
            Some(authority) => proto::Issued {
                chain: authority.issue(&message, &self.identity, LIFETIME)?,
                trust: pem(&self.folder.certificates("ca.pem")?),
            },
            None => {
                let message = proto::RenewRequest { request: message };
                call(address, Arc::clone(&current.renew), async |mut client| {
                    client.renew(message).await
                })
                .await?
            }
        };
        let identity = identity_of(&issued)?;
        if identity != self.identity {
            let fact = format!("issued the certificate of {identity}");
            return Err(Error::certificate(address, fact));
        }
        write(&self.folder, &issued)?;
        self.reload()?;
        info!(%identity, "certificate renewed");
        Ok(())
    }

    /// Asks the front end at `address` (`HOST:PORT`) for its nodes.
    ///
    /// # Errors
    ///
    /// It is not reached, or refuses: this member is no front end.
    pub async fn nodes_of(&self, address: &str) -> Result<Vec<NodeInfo>> {
        let config = Arc::clone(&self.for_handshake().await.renew);
        let reply = call(address, config, async |mut client| {
            client.nodes(proto::NodesRequest {}).await
        })
        .await?;
        let nodes = reply.nodes.into_iter().map(|node| {
            Ok(NodeInfo {
                report: Report::of_message(&node.report.unwrap_or_default(), &node.name)?,
                name: text(node.name, "name")?,
                address: text(node.address, "address")?,
                version: Version::try_from(node.version)?,
                late: node.late,
                placed: node.placed,
            })
        });
        let nodes: Result<_, _> = nodes.collect();
        nodes.map_err(|source| Error::Malformed {
            peer: address.to_owned(),
            source,
        })
    }

    /// Has the front end at `address` (`HOST:PORT`) place no more sessions on a node, or place them
    /// again.
    ///
    /// # Errors
    ///
    /// As [`Self::nodes_of`], and no such node is connected to it.
    pub async fn drain_at(&self, address: &str, name: &str, draining: bool) -> Result<()> {
        let name = name.to_owned();
        let config = Arc::clone(&self.for_handshake().await.renew);
        let drained = call(address, config, async |mut client| {
            let drain = proto::DrainNodeRequest { name, draining };
            client.drain_node(drain).await
        });
        drained.await.map(drop)
    }

    /// Renews the certificate whenever a third of its validity is left, for ever.
    ///
    /// # Cancel safety
    ///
    /// As [`Self::renew`].
    pub async fn keep_renewed(&self, address: &str) {
        let mut retry = RETRIES.0;
        loop {
            let left = self.not_after().duration_since(SystemTime::now());
            let left = left.unwrap_or_default();
            if let Some(early) = left
                .checked_sub(RENEWED_BEFORE)
                .filter(|early| !early.is_zero())
            {
                sleep(early.min(LOOK)).await;
                continue;
            }
            match self.renew(address).await {
                Ok(()) => retry = RETRIES.0,
                Err(error) => {
                    warn!(%error, seconds_left = left.as_secs(), "certificate not renewed");
                    sleep(jittered(retry)).await;
                    retry = (retry * 2).min(RETRIES.1);
                }
            }
        }
    }
}

/// Makes one call at the front end with the authority.
async fn call<T>(
    address: &str,
    config: Arc<ClientConfig>,
    call: impl AsyncFnOnce(AuthorityClient<Caller>) -> Result<tonic::Response<T>, tonic::Status>,
) -> Result<T> {
    let stream = connect(address, config).await?;
    let lost = |error: hyper::Error| Error::connection(address, error);
    let (caller, connection) = link::call(stream).await.map_err(lost)?;
    let client = AuthorityClient::with_origin(caller, Uri::from_static("http://authority"));
    tokio::select! {
        issued = timeout(CALL, call(client)) => match issued {
            Ok(Ok(issued)) => Ok(issued.into_inner()),
            Ok(Err(status)) => Err(Error::of_call(address, status)),
            Err(elapsed) => Err(Error::connection(address, elapsed)),
        },
        end = connection => match end {
            Ok(()) => Err(Error::connection(address, "closed by the front end")),
            Err(error) => Err(lost(error)),
        },
    }
}

/// The identity in an issued certificate.
fn identity_of(issued: &proto::Issued) -> Result<Identity> {
    let bad = |fact: String| Error::certificate("issued certificate", fact);
    let chain = certificates(issued.chain.as_bytes()).map_err(bad)?;
    let leaf = chain.first().ok_or_else(|| bad("is missing".into()))?;
    Ok(Peer::of_certificate(leaf)?.identity)
}

/// Writes the certificates; the authorities first, as the chain may lead to a new one.
fn write(folder: &Folder, issued: &proto::Issued) -> Result<()> {
    folder.write("ca.pem", issued.trust.as_bytes(), 0o644)?;
    folder.write("cert.pem", issued.chain.as_bytes(), 0o644)
}
