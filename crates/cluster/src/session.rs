//! `NodeSession`: the front end's half of one session on a node.

use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::{Request, Streaming};

use crate::error::{Error, Result};
use crate::link::{Beats, SILENCE, Work};
use crate::message::{self, FromNode, Open, ToNode};
use crate::nodes::{Client, Placement};
use crate::proto::{self, to_node};

/// Requests that the connection has not taken yet.
const REQUESTS: usize = 16;
/// Answers and events that the session has not taken yet.
const REPLIES: usize = 64;

/// A session on a node. Dropping it breaks the session off, with its transfer.
///
/// Heartbeats pass both ways every second while it is open, whether or not anyone receives.
#[derive(Debug)]
pub struct NodeSession {
    node: String,
    requests: Option<mpsc::Sender<proto::ToNode>>,
    replies: mpsc::Receiver<Result<FromNode>>,
    /// Receives the messages of the node.
    _work: Work,
    placement: Placement,
}

impl NodeSession {
    /// Opens a session.
    pub(crate) async fn open(
        node: &str,
        mut client: Client,
        open: Open,
        placement: Placement,
    ) -> Result<Self> {
        let (requests, outbound) = mpsc::channel(REQUESTS);
        let first = requests.try_send(open.into());
        first.map_err(|_| ended(node))?;
        let call = client.session(Request::new(Beats::new(outbound, heartbeat, None)));
        let inbound = timeout(SILENCE, call)
            .await
            .map_err(|_| silent(node))?
            .map_err(|status| Error::of_call(node, status))?;
        let (sender, replies) = mpsc::channel(REPLIES);
        let work = receive(node.to_owned(), inbound.into_inner(), sender);
        Ok(Self {
            node: node.into(),
            requests: Some(requests),
            replies,
            _work: Work::spawn(work),
            placement,
        })
    }

    /// Returns the name of the node.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The placement that it counts for.
    pub(crate) const fn placement(&self) -> &Placement {
        &self.placement
    }

    /// Sends a request.
    ///
    /// # Errors
    ///
    /// The session has ended; [`Self::recv`] returns the reason.
    ///
    /// # Cancel safety
    ///
    /// The request is sent whole or not at all.
    pub async fn send(&self, request: ToNode) -> Result<()> {
        let requests = self.requests.as_ref().ok_or_else(|| ended(&self.node))?;
        let sent = requests.send(request.into()).await;
        sent.map_err(|_| ended(&self.node))
    }

    /// Closes the data connections and listeners of the session, if the connection can take the
    /// request now; else breaks the session off, which closes them as well.
    pub fn drop_data(&mut self) {
        let sent = self
            .requests
            .as_ref()
            .is_some_and(|requests| requests.try_send(ToNode::DropData.into()).is_ok());
        if !sent {
            self.requests = None;
        }
    }

    /// Whether the session takes requests.
    pub fn is_open(&self) -> bool {
        let requests = self.requests.as_ref();
        requests.is_some_and(|requests| !requests.is_closed()) && !self.replies.is_closed()
    }

    /// Receives the next answer or event.
    ///
    /// # Errors
    ///
    /// The node broke the session off, was silent for 3.5 s, sent nonsense, or was lost. After that,
    /// and after a proper end, every call returns [`Error::Ended`].
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn recv(&mut self) -> Result<FromNode> {
        match self.replies.recv().await {
            Some(reply) => reply,
            None => Err(ended(&self.node)),
        }
    }

    /// Tells the node that no request follows; it ends the session when its work is done.
    pub fn finish(&mut self) {
        self.requests = None;
    }
}

const fn heartbeat() -> proto::ToNode {
    proto::ToNode {
        kind: Some(to_node::Kind::Alive(proto::Empty {})),
    }
}

fn ended(node: &str) -> Error {
    Error::Ended { peer: node.into() }
}

pub(crate) fn silent(node: &str) -> Error {
    Error::Silent {
        peer: node.into(),
        after: SILENCE,
    }
}

/// Receives the messages of a node until the session ends.
async fn receive(
    node: String,
    mut inbound: Streaming<proto::FromNode>,
    queue: mpsc::Sender<Result<FromNode>>,
) {
    loop {
        let reply = match timeout(SILENCE, inbound.message()).await {
            Ok(Ok(Some(message))) => match message::reply(message) {
                Ok(None) => continue,
                Ok(Some(reply)) => Ok(reply),
                Err(source) => Err(Error::Malformed {
                    peer: node.clone(),
                    source,
                }),
            },
            Ok(Ok(None)) => return,
            Ok(Err(status)) => Err(Error::of_call(&node, status)),
            Err(_) => Err(silent(&node)),
        };
        let last = reply.is_err();
        if queue.send(reply).await.is_err() || last {
            return;
        }
    }
}
