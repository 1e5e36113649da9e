//! The calls of programs at a front end: for a certificate, for a new one, and about its nodes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use tokio::time::{Instant, timeout};
use tokio_rustls::server::TlsStream;
use tonic::{Request, Response, Status};
use tracing::{info, warn};

use crate::authority::{Authority, LIFETIME, pem};
use crate::error::{Error, Result};
use crate::handshakes::Permit;
use crate::identity::{Identity, Peer, Role};
use crate::link::{self, Io, STRANGERS};
use crate::member::Member;
use crate::nodes::Nodes;
use crate::proto;
use crate::proto::authority_server::{Authority as Service, AuthorityServer};
use crate::token;

/// Longest life of a connection of this kind.
const CONNECTION: Duration = Duration::from_secs(10);
/// Longest message in bytes.
const MAX_REQUEST: usize = 16 << 10;

/// Serves one call for a certificate over a connection.
///
/// # Errors
///
/// The connection broke, or took too long.
pub(crate) async fn serve(
    nodes: Nodes,
    stream: TlsStream<impl Io>,
    address: SocketAddr,
    permit: Permit,
) -> Result<()> {
    let leaf = stream.get_ref().1.peer_certificates();
    let peer = match leaf.and_then(<[_]>::first) {
        Some(leaf) => Some(Peer::of_certificate(leaf)?),
        None => None,
    };
    let calls = Calls {
        nodes,
        peer,
        address,
        used: AtomicBool::new(false),
        permit: Arc::new(permit),
    };
    let service = AuthorityServer::new(calls).max_decoding_message_size(MAX_REQUEST);
    timeout(CONNECTION, link::serve(stream, service, &STRANGERS))
        .await
        .map_err(|elapsed| Error::connection(address.to_string(), elapsed))?
        .map_err(|error| Error::connection(address.to_string(), error))
}

/// The calls of one connection.
#[derive(Debug)]
struct Calls {
    nodes: Nodes,
    /// The member at the other end; `None` of a program without a certificate.
    peer: Option<Peer>,
    address: SocketAddr,
    used: AtomicBool,
    /// Held by the work, which may outlive the connection.
    permit: Arc<Permit>,
}

impl Calls {
    /// Does the work of the only call on a thread for files and signatures.
    async fn issue(
        &self,
        work: impl FnOnce(&Member, &Authority) -> Result<(Identity, String)> + Send + 'static,
    ) -> Result<Response<proto::Issued>, Status> {
        if self.used.swap(true, Ordering::Relaxed) {
            return Err(Status::resource_exhausted("one call a connection"));
        }
        let requests = &self.nodes.shared.requests;
        if !requests.admit(self.address.ip(), Instant::now()) {
            warn!(address = %self.address, "certificate refused: too many requests");
            let reason = "too many requests for certificates from this host: try again in a minute";
            return Err(Status::resource_exhausted(reason));
        }
        let (member, permit) = (Arc::clone(self.nodes.member()), Arc::clone(&self.permit));
        let work = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let authority = Authority::load(&member.folder)?.ok_or_else(|| {
                let fact = "holds no authority: ask the front end that made the cluster";
                Error::certificate(format!("front end {}", member.identity.name), fact)
            })?;
            let (identity, chain) = work(&member, &authority)?;
            let trust = pem(&member.folder.certificates("ca.pem")?);
            Ok::<_, Error>((identity, proto::Issued { chain, trust }))
        });
        match work.await {
            Ok(Ok((identity, issued))) => {
                info!(address = %self.address, %identity, "certificate issued");
                Ok(Response::new(issued))
            }
            Ok(Err(error)) => {
                warn!(address = %self.address, %error, "certificate refused");
                Err(Status::permission_denied(error.to_string()))
            }
            Err(error) => Err(Status::internal(error.to_string())),
        }
    }
}

impl Calls {
    /// Checks that the peer is a front end of this cluster.
    fn check_front(&self) -> Result<(), Status> {
        let denied = || Status::permission_denied("needs the certificate of a front end");
        let peer = self.peer.as_ref().ok_or_else(denied)?;
        let checked = self.nodes.member().check(peer, Role::Front);
        checked.map_err(|error| Status::permission_denied(error.to_string()))
    }
}

#[tonic::async_trait]
impl Service for Calls {
    async fn nodes(
        &self,
        _: Request<proto::NodesRequest>,
    ) -> Result<Response<proto::NodesReply>, Status> {
        self.check_front()?;
        let nodes = self.nodes.list().into_iter().map(|node| proto::NodeState {
            report: Some(node.report.into_message(&node.name)),
            name: node.name,
            address: node.address,
            version: Some(node.version.into()),
            late: node.late,
            placed: node.placed,
        });
        let nodes = nodes.collect();
        Ok(Response::new(proto::NodesReply { nodes }))
    }

    async fn drain_node(
        &self,
        request: Request<proto::DrainNodeRequest>,
    ) -> Result<Response<proto::DrainReply>, Status> {
        self.check_front()?;
        let drain = request.into_inner();
        let drained = self.nodes.drain(&drain.name, drain.draining).await;
        drained.map_err(|error| Status::not_found(error.to_string()))?;
        Ok(Response::new(proto::DrainReply {}))
    }

    async fn join(
        &self,
        request: Request<proto::JoinRequest>,
    ) -> Result<Response<proto::Issued>, Status> {
        let join = request.into_inner();
        self.issue(move |member, authority| {
            let now = SystemTime::now();
            let known = token::look_up(&member.folder, &join.secret, &join.name, now)?;
            let identity = authority.member(known.role, &join.name)?;
            // A request that cannot be signed does not use the token up.
            let chain = authority.issue(&join.request, &identity, LIFETIME)?;
            known.use_up()?;
            Ok((identity, chain))
        })
        .await
    }

    async fn renew(
        &self,
        request: Request<proto::RenewRequest>,
    ) -> Result<Response<proto::Issued>, Status> {
        let denied = "a certificate is renewed by its holder: join with a token";
        let peer = self.peer.clone();
        let peer = peer.ok_or_else(|| Status::unauthenticated(denied))?;
        let request = request.into_inner().request;
        self.issue(move |member, authority| {
            member.check(&peer, peer.identity.role)?;
            let chain = authority.issue(&request, &peer.identity, LIFETIME)?;
            Ok((peer.identity, chain))
        })
        .await
    }
}
