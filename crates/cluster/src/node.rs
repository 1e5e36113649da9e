//! `Node`: the node's end, which dials front ends or listens for them, and serves their calls.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use gridftp_dsi::{Dsi as _, DynDsi};
use gridftp_dsi_rpc::Served;
use gridftp_dsi_rpc::proto::Description;
use gridftp_dsi_rpc::proto::storage_server::StorageServer;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::time::{Interval, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_stream::Stream;
use tokio_util::task::TaskTracker;
use tonic::{Request, Response, Status, Streaming};
use tracing::{info, warn};

use crate::authority::random;
use crate::connections::{self, Registration, State, connect};
use crate::error::{Error, Result};
use crate::identity::{Peer, Role};
use crate::link::{self, BEAT, Beats, Io, MEMBERS, OPENING, SILENCE, Work};
use crate::member::Member;
use crate::message::{self, FromNode, MAX_MESSAGE, Open, ToNode, text};
use crate::proto::node_server::{Node as Service, NodeServer};
use crate::proto::{self, from_node};
use crate::report::{Report, Version};
use crate::services::Services;

/// Requests that a session has not taken yet.
const REQUESTS: usize = 16;
/// Answers and events that the connection has not taken yet.
const REPLIES: usize = 64;

/// The work of a node, which a server implements.
pub trait Serve: Send + Sync + 'static {
    /// Serves one client's session, until the requests end.
    ///
    /// # Cancel safety
    ///
    /// The future is dropped when the front end breaks the session off, freezes or is lost. Data
    /// connections and uploads that it holds must end with it.
    fn session(
        &self,
        open: Open,
        requests: Requests,
        replies: Replies,
    ) -> impl Future<Output = ()> + Send;

    /// Returns the capacity and the present use; asked every second, it must not block.
    fn report(&self) -> Report;

    /// The storage that front ends use through this node; `None` for none.
    fn storage(&self) -> Option<Arc<dyn DynDsi>> {
        None
    }

    /// Takes no new sessions from now on, or takes them again. Later reports must tell it.
    fn drain(&self, draining: bool);
}

/// The requests of a session.
#[derive(Debug)]
pub struct Requests {
    queue: mpsc::Receiver<ToNode>,
    front: String,
}

impl Requests {
    /// Receives the next request; `None` when the front end has ended the session.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn recv(&mut self) -> Option<ToNode> {
        self.queue.recv().await
    }

    /// Returns the name of the front end.
    pub fn front(&self) -> &str {
        &self.front
    }
}

/// Sends the answers and events of a session.
#[derive(Debug, Clone)]
pub struct Replies(mpsc::Sender<Result<proto::FromNode, Status>>);

impl Replies {
    /// Sends an answer or an event. After the session has ended it goes nowhere.
    ///
    /// # Cancel safety
    ///
    /// The message is sent whole or not at all.
    pub async fn send(&self, message: FromNode) {
        // The session's future is about to be dropped.
        let _ = self.0.send(Ok(message.into())).await;
    }
}

/// A data node.
#[derive(Debug)]
pub struct Node<S> {
    member: Arc<Member>,
    serve: Arc<S>,
    pub(crate) version: Version,
    /// A random number, by which front ends tell this process from another one of the same name.
    process: u64,
    /// The identity of the storage; empty without one.
    identity: String,
    /// Calls and open files of the storage.
    storage_uses: TaskTracker,
}

impl<S> Clone for Node<S> {
    fn clone(&self) -> Self {
        Self {
            member: Arc::clone(&self.member),
            serve: Arc::clone(&self.serve),
            version: self.version.clone(),
            process: self.process,
            identity: self.identity.clone(),
            storage_uses: self.storage_uses.clone(),
        }
    }
}

impl<S: Serve> Node<S> {
    /// Makes a node; `program` is its name and version for the front end's lists.
    ///
    /// # Errors
    ///
    /// The member is not a node.
    pub fn new(member: Arc<Member>, serve: Arc<S>, program: &str) -> Result<Self> {
        if member.identity().role != Role::Node {
            return Err(Error::Role {
                found: member.identity().to_string(),
                expected: Role::Node,
            });
        }
        let storage = serve.storage().and_then(|storage| storage.identity());
        Ok(Self {
            identity: storage.unwrap_or_default(),
            member,
            serve,
            version: Version::of_program(program),
            process: u64::from_ne_bytes(random()?),
            storage_uses: TaskTracker::new(),
        })
    }

    /// Returns the number of open files and calls in progress of front ends at the storage: they
    /// fail when the node ends before them.
    pub fn storage_uses(&self) -> usize {
        self.storage_uses.len()
    }

    /// Keeps a connection to the front end at `address` (`HOST:PORT`), dialled again for ever.
    ///
    /// # Cancel safety
    ///
    /// Dropping it ends the membership and the sessions of this front end.
    pub async fn dial(&self, address: &str) {
        connections::dial(address, |state| {
            let (node, address) = (self.clone(), address.to_owned());
            async move { node.dial_once(&address, state).await }
        })
        .await;
    }

    /// Makes one connection and serves it until it ends.
    pub(crate) async fn dial_once(&self, address: &str, state: State) -> Result<()> {
        let current = self.member.for_handshake().await;
        let stream = connect(address, Arc::clone(&current.dial)).await?;
        let peer = Peer::of_certificates(stream.get_ref().1.peer_certificates())?;
        self.serve(stream, peer, state).await
    }

    /// Accepts front ends that dial, for ever.
    ///
    /// # Cancel safety
    ///
    /// Dropping it ends the connections that it accepted.
    pub async fn listen(&self, listener: TcpListener) {
        connections::accept(listener, |stream, address, permit| {
            let node = self.clone();
            async move {
                let current = node.member.for_handshake().await;
                let acceptor = TlsAcceptor::from(Arc::clone(&current.accept));
                let stream = timeout(OPENING, acceptor.accept(stream))
                    .await
                    .map_err(|elapsed| Error::connection(address.to_string(), elapsed))?
                    .map_err(|error| Error::connection(address.to_string(), error))?;
                drop(permit);
                let peer = Peer::of_certificates(stream.get_ref().1.peer_certificates())?;
                node.serve(stream, peer, State::default()).await
            }
        })
        .await;
    }

    /// Serves the calls of a front end over one connection, until it ends or the front end's
    /// certificate is revoked.
    pub(crate) async fn serve(&self, stream: impl Io, peer: Peer, state: State) -> Result<()> {
        let calls = Calls {
            node: self.clone(),
            peer: peer.clone(),
            state,
        };
        let storage = self.serve.storage().map(|storage| {
            let (node, peer) = (self.clone(), peer.clone());
            StorageServer::with_interceptor(
                Served::new(storage)
                    .without_bytes()
                    .counted_by(self.storage_uses.clone()),
                move |request: Request<()>| match node.check(&peer) {
                    Ok(()) => Ok(request),
                    Err(why) => Err(gridftp_dsi_rpc::refused(why.message())),
                },
            )
        });
        let service = NodeServer::new(calls).max_decoding_message_size(MAX_MESSAGE);
        let service = Services::new(service, storage, self.storage_uses.clone());
        let served = tokio::select! {
            served = link::serve(stream, service, &MEMBERS) => served,
            // Calls in progress end with the connection.
            revoked = self.member.until_revoked(&peer) => return Err(revoked),
        };
        served.map_err(|error| Error::connection(&peer.identity.name, error))
    }
}

impl<S> Node<S> {
    /// Checks at each call that the peer is a front end of this cluster, with a valid certificate.
    fn check(&self, peer: &Peer) -> Result<(), Status> {
        let checked = self.member.check(peer, Role::Front);
        checked.map_err(|error| Status::permission_denied(error.to_string()))
    }
}

/// The calls of one front end over one connection.
#[derive(Debug)]
struct Calls<S> {
    node: Node<S>,
    peer: Peer,
    state: State,
}

impl<S: Serve> Calls<S> {
    fn check(&self) -> Result<(), Status> {
        self.node.check(&self.peer)
    }
}

#[tonic::async_trait]
impl<S: Serve> Service for Calls<S> {
    type RegisterStream = Reports<S>;
    type SessionStream = Beats<Result<proto::FromNode, Status>>;

    async fn register(
        &self,
        request: Request<proto::RegisterRequest>,
    ) -> Result<Response<Reports<S>>, Status> {
        self.check()?;
        let version = Version::try_from(request.into_inner().version).map_err(malformed)?;
        self.state.send_replace(Registration::Registered);
        info!(front = self.peer.identity.name, %version, "registered with a front end");
        Ok(Response::new(Reports {
            node: self.node.clone(),
            beat: tokio::time::interval(BEAT),
            first: true,
            changes: self.node.member.changes(),
            state: Arc::clone(&self.state),
        }))
    }

    async fn refuse(
        &self,
        request: Request<proto::RefuseRequest>,
    ) -> Result<Response<proto::RefuseReply>, Status> {
        self.check()?;
        let reason = text(request.into_inner().reason, "reason").map_err(malformed)?;
        self.state.send_replace(Registration::Refused);
        warn!(
            front = self.peer.identity.name,
            reason, "refused by a front end"
        );
        Ok(Response::new(proto::RefuseReply {}))
    }

    async fn drain(
        &self,
        request: Request<proto::DrainRequest>,
    ) -> Result<Response<proto::DrainReply>, Status> {
        self.check()?;
        self.node.serve.drain(request.into_inner().draining);
        Ok(Response::new(proto::DrainReply {}))
    }

    async fn session(
        &self,
        request: Request<Streaming<proto::ToNode>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        self.check()?;
        let mut inbound = request.into_inner();
        let first = timeout(SILENCE, inbound.message())
            .await
            .map_err(|_| silent())??
            .ok_or_else(|| Status::invalid_argument("the session has no first message"))?;
        let open = message::open(first).map_err(malformed)?;
        let (replies, outbound) = mpsc::channel(REPLIES);
        let serve = Arc::clone(&self.node.serve);
        let front = self.peer.identity.name.clone();
        let work = Work::spawn(drive(serve, open, front, inbound, replies));
        Ok(Response::new(Beats::new(outbound, heartbeat, Some(work))))
    }
}

#[expect(clippy::unnecessary_wraps, reason = "an item of the stream")]
fn heartbeat() -> Result<proto::FromNode, Status> {
    Ok(proto::FromNode {
        kind: Some(from_node::Kind::Alive(proto::Empty {})),
    })
}

fn malformed(error: message::Malformed) -> Status {
    Status::invalid_argument(error.to_string())
}

fn silent() -> Status {
    Status::deadline_exceeded("the front end sent nothing")
}

/// Runs one session beside the reception of its requests; the end of either ends it.
async fn drive<S: Serve>(
    serve: Arc<S>,
    open: Open,
    front: String,
    inbound: Streaming<proto::ToNode>,
    replies: mpsc::Sender<Result<proto::FromNode, Status>>,
) {
    let (sender, queue) = mpsc::channel(REQUESTS);
    let requests = Requests { queue, front };
    let task = open.task.clone();
    let session = serve.session(open, requests, Replies(replies.clone()));
    tokio::select! {
        () = session => {}
        status = receive(inbound, sender) => {
            warn!(task, %status, "session of a front end broken off");
            // Nobody may be there to read it.
            let _ = replies.try_send(Err(status));
        }
    }
}

/// Receives the requests of a session; returns only when it is broken off.
async fn receive(mut inbound: Streaming<proto::ToNode>, queue: mpsc::Sender<ToNode>) -> Status {
    loop {
        let message = match timeout(SILENCE, inbound.message()).await {
            Ok(Ok(Some(message))) => message,
            Ok(Ok(None)) => break,
            Ok(Err(status)) => return status,
            Err(_) => return silent(),
        };
        match message::request(message) {
            // A session that takes no more requests ends by itself.
            Ok(Some(request)) => drop(queue.send(request).await),
            Ok(None) => {}
            Err(error) => return malformed(error),
        }
    }
    drop(queue);
    std::future::pending().await
}

/// The reports of a node, one every second.
#[derive(Debug)]
struct Reports<S> {
    node: Node<S>,
    beat: Interval,
    first: bool,
    /// Tells of a new certificate, which needs a new connection.
    changes: watch::Receiver<()>,
    state: State,
}

impl<S> Drop for Reports<S> {
    fn drop(&mut self) {
        Registration::release(&self.state);
    }
}

impl<S: Serve> Stream for Reports<S> {
    type Item = Result<proto::Report, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        ready!(self.beat.poll_tick(cx));
        if self.changes.has_changed().unwrap_or_default() {
            return Poll::Ready(None);
        }
        let name = &self.node.member.identity().name;
        let mut report = self.node.serve.report().into_message(name);
        if std::mem::take(&mut self.first) {
            report.version = Some(self.node.version.clone().into());
            report.process = self.node.process;
            let storage = self.node.serve.storage();
            report.storage = storage.map(|storage| Description {
                identity: self.node.identity.clone(),
                ..Description::from(&storage.capabilities())
            });
        }
        Poll::Ready(Some(Ok(report)))
    }
}
