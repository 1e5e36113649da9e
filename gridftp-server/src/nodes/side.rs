//! `NodeSide`: the data connections of one session of a front end, on its data nodes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ftp_proto::security::DataProtection;
use ftp_wire::command::{Family, StackSide};
use futures_util::future::join_all;
use gridftp_cluster::{
    Connect, DataIdentity, Failed, Fault, FromNode, Listen, Open, PeerRule, ToNode,
};
use gridftp_cluster::{NodeHandle, NodeSession};
use gridftp_data::{Descriptors, Peers};
use tokio::time::{Instant, timeout_at};

use super::{AskedRate, Front};
use crate::data::{Buffers, Stacks, StripeBytes, admit};
use crate::error::{Error, NodeFault};

/// Time for a node to open a session, and to answer a request in it.
const ANSWER: Duration = Duration::from_secs(4);

/// The hosts of data connections, and their protection by the credential of a session.
pub(crate) struct NodeRule {
    pub(crate) peers: Peers,
    pub(crate) protection: DataProtection,
    pub(crate) identity: DataIdentity,
}

impl NodeRule {
    fn peers(&self) -> PeerRule {
        match &self.peers {
            Peers::Only(_) => PeerRule::Own,
            Peers::Among(_, networks) => {
                PeerRule::Among(networks.iter().map(ToString::to_string).collect())
            }
            Peers::AnyBeside(_) | Peers::Any => PeerRule::Any,
        }
    }
}

/// The data connections of one session, on nodes.
#[derive(Debug)]
pub(crate) struct NodeSide {
    front: Arc<Front>,
    opening: Open,
    /// Shared by the nodes.
    pub(super) rate: AskedRate,
    stacks: Arc<Stacks>,
    net: Option<String>,
    pub(super) disk: Option<String>,
    /// Whether the nodes do not know `disk` yet.
    is_disk_new: bool,
    /// The sessions with the nodes, in the order of the stripes.
    pub(super) stripes: Vec<NodeSession>,
    pub(super) bytes: StripeBytes,
    pub(super) descriptors: Descriptors,
    listens: bool,
    /// Whether connections of the last transfer serve the next one.
    pub(crate) is_cached: bool,
    /// Whether a transfer runs, or was given up.
    pub(super) is_running: bool,
}

impl NodeSide {
    /// Connects nothing yet; `opening` is the first message to each node.
    pub(crate) fn new(
        front: Arc<Front>,
        opening: Open,
        rate: AskedRate,
        stacks: Arc<Stacks>,
        descriptors: Descriptors,
    ) -> Self {
        Self {
            front,
            opening,
            rate,
            stacks,
            net: None,
            disk: None,
            is_disk_new: false,
            stripes: Vec::new(),
            bytes: Arc::new([]),
            descriptors,
            listens: false,
            is_cached: false,
            is_running: false,
        }
    }

    /// Says whether the sessions with the nodes serve one with this first message.
    pub(crate) fn opens_with(&self, opening: &Open) -> bool {
        // The task is for the log alone.
        let mut own = self.opening.clone();
        own.task.clone_from(&opening.task);
        own == *opening
    }

    /// Bytes moved by each stripe.
    pub(crate) fn stripe_bytes(&self) -> StripeBytes {
        Arc::clone(&self.bytes)
    }

    /// Listens on at most `stripes` nodes, and returns their addresses in the order of the stripes.
    ///
    /// # Errors
    /// No node could be reached, or one refused.
    pub(crate) async fn listen(
        &mut self,
        stripes: u32,
        family: Option<Family>,
        buffers: Buffers,
        rule: &NodeRule,
    ) -> Result<Vec<SocketAddr>, Error> {
        let request = |_: usize, _: usize| {
            ToNode::Listen(Box::new(Listen {
                family,
                send_buffer: buffers.send,
                receive_buffer: buffers.receive,
                peers: rule.peers(),
                protection: rule.protection.clone(),
                identity: rule.identity.clone(),
            }))
        };
        let answers = self.set_up(stripes, request).await?;
        self.listens = true;
        let addresses = answers.into_iter().zip(&self.stripes);
        let addresses: Result<Vec<_>, Error> = addresses
            .map(|(answer, node)| match answer {
                FromNode::Listening(address) => Ok(address),
                _ => Err(NodeFault::Protocol(node.node().to_owned()).into()),
            })
            .collect();
        if addresses.is_err() {
            self.close();
        }
        addresses
    }

    /// Has nodes connect to these addresses, one a stripe, when a transfer begins.
    ///
    /// # Errors
    /// No node could be reached, or one refused.
    pub(crate) async fn connect_to(
        &mut self,
        to: &[SocketAddr],
        rule: &NodeRule,
    ) -> Result<(), Error> {
        admit(&rule.peers, to)?;
        let request = |index: usize, count: usize| {
            let own = to.iter().skip(index).step_by(count.max(1));
            ToNode::Connect(Box::new(Connect {
                addresses: own.copied().collect(),
                peers: rule.peers(),
                protection: rule.protection.clone(),
                identity: rule.identity.clone(),
            }))
        };
        let most = u32::try_from(to.len()).unwrap_or(u32::MAX);
        self.set_up(most, request).await?;
        self.listens = false;
        Ok(())
    }

    /// Chooses nodes and sends each its request; those that do not answer are replaced by others.
    async fn set_up(
        &mut self,
        stripes: u32,
        request: impl Fn(usize, usize) -> ToNode,
    ) -> Result<Vec<FromNode>, Error> {
        let mut avoid = Vec::new();
        let mut last = None;
        // A node that fails is not asked again, so the nodes bound the attempts.
        loop {
            if let Err(error) = self
                .place(stripes.min(self.front.stripes), &mut avoid)
                .await
            {
                return Err(last.unwrap_or(error));
            }
            let (answers, failures) = self.ask_all(&request).await;
            if failures.is_empty() {
                return Ok(answers);
            }
            for (name, error) in failures {
                if !is_of_the_node(&error) {
                    // The other nodes wait for data that nobody sends.
                    self.close();
                    return Err(error);
                }
                tracing::warn!(node = %name, error = %crate::error::chain(&error), "data node does not answer, trying another");
                avoid.push(name);
                last = Some(error);
            }
        }
    }

    /// Sends every node its share of the rate and its request. Returns the answers in the order of the
    /// stripes, and the failures by node; the session of a node that failed ends.
    async fn ask_all(
        &mut self,
        request: &impl Fn(usize, usize) -> ToNode,
    ) -> (Vec<FromNode>, Vec<(String, Error)>) {
        let (count, until) = (self.stripes.len(), Instant::now() + ANSWER);
        // Ahead of the connections, which else have no bound.
        let share = self.rate.share(count);
        let asking = self.stripes.drain(..).enumerate();
        let asking = asking.map(|(index, mut node)| {
            let requests = share.clone().into_iter().chain([request(index, count)]);
            async move {
                let answered = ask(&mut node, requests, until).await;
                (node, answered)
            }
        });
        let (mut answers, mut failures) = (Vec::with_capacity(count), Vec::new());
        for (node, answered) in join_all(asking).await {
            match answered {
                Ok(answer) => {
                    self.stripes.push(node);
                    answers.push(answer);
                }
                Err(error) => failures.push((node.node().to_owned(), error)),
            }
        }
        (answers, failures)
    }

    /// Makes sure of sessions with this number of nodes, or with all there are: keeps those that are
    /// open and well placed, and opens the others at the same time.
    async fn place(&mut self, stripes: u32, avoid: &mut Vec<String>) -> Result<(), Error> {
        let stripes = usize::try_from(stripes.max(1)).unwrap_or(usize::MAX);
        if self.is_running {
            self.close();
        }
        let nodes = &self.front.nodes;
        self.stripes
            .retain(|session| session.is_open() && nodes.places_on(session));
        self.stripes.truncate(stripes);
        // One at a time: others of these may fit then.
        if let Some(index) = nodes.misplaced(&self.stripes).filter(|_| avoid.is_empty()) {
            self.stripes.remove(index);
        }
        self.is_cached = false;
        while self.stripes.len() < stripes {
            let missing = stripes - self.stripes.len();
            let taken = self.stripes.iter().map(NodeSession::node);
            let names: Vec<&str> = avoid.iter().map(String::as_str).chain(taken).collect();
            let chosen = self.front.nodes.choose(missing, &names);
            if chosen.is_empty() {
                break;
            }
            // Nodes that take all of their time leave the next ones theirs.
            let until = Instant::now() + ANSWER;
            let opened = join_all(chosen.iter().map(|node| self.open(node, until))).await;
            for (node, opened) in chosen.iter().zip(opened) {
                match opened {
                    Ok(session) => self.stripes.push(session),
                    Err(error) => {
                        avoid.push(node.name().to_owned());
                        tracing::warn!(node = node.name(), error = %crate::error::chain(&error), "data node does not answer, trying another");
                    }
                }
            }
        }
        if self.stripes.is_empty() {
            return Err(NodeFault::NoNode.into());
        }
        self.bytes = self.stripes.iter().map(|_| AtomicU64::new(0)).collect();
        Ok(())
    }

    /// Begins a session with a node, with the stacks that the client chose.
    async fn open(&self, node: &NodeHandle, until: Instant) -> Result<NodeSession, Error> {
        let opening = timeout_at(until, node.session(self.opening.clone())).await;
        let mut session = match opening {
            Ok(opened) => opened.map_err(|error| lost(node.name(), error))?,
            Err(_) => return Err(NodeFault::Silent(node.name().to_owned()).into()),
        };
        for (side, stack) in [(StackSide::Net, &self.net), (StackSide::Disk, &self.disk)] {
            if let Some(stack) = stack {
                let request = ToNode::Stack(side, Some(stack.clone()));
                ask(&mut session, [request], until).await?;
            }
        }
        Ok(session)
    }

    /// Builds data connections or files with this stack from now on; `None` for the nodes' choice.
    ///
    /// # Errors
    /// A stack that this server does not allow.
    pub(crate) fn set_stack(&mut self, side: StackSide, text: Option<&str>) -> Result<(), Error> {
        match side {
            StackSide::Net => {
                text.map(|text| self.stacks.net(text)).transpose()?;
                self.net = text.map(str::to_owned);
            }
            StackSide::Disk => {
                let layers = text.map(|text| self.stacks.disk(text)).transpose()?;
                self.disk = layers.flatten().and(text).map(str::to_owned);
            }
        }
        match side {
            // Nodes learn it when their sessions begin.
            StackSide::Net => self.close(),
            StackSide::Disk => self.is_disk_new = true,
        }
        Ok(())
    }

    /// Tells the nodes of the layers over files, if the client has changed them.
    pub(super) async fn settle_disk(&mut self) -> Result<(), Error> {
        if std::mem::take(&mut self.is_disk_new) {
            let disk = self.disk.clone();
            let request = |_: usize, _: usize| ToNode::Stack(StackSide::Disk, disk.clone());
            let (_, failures) = self.ask_all(&request).await;
            if let Some((_, error)) = failures.into_iter().next() {
                // The stripes are no more those that the client knows.
                self.close();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Closes the data connections, and keeps the nodes.
    pub(crate) fn drop_data(&mut self) {
        self.listens = false;
        self.is_cached = false;
        if self.is_running {
            self.close();
        }
        for node in &mut self.stripes {
            node.drop_data();
        }
    }

    /// Ends the sessions with the nodes.
    pub(super) fn close(&mut self) {
        self.stripes.clear();
        self.listens = false;
        self.is_cached = false;
        self.is_running = false;
    }

    /// Says whether a port is open without a connection.
    pub(crate) fn has_unused_port(&self) -> bool {
        self.listens && !self.is_cached
    }

    /// Counts the bytes of a transfer that starts.
    pub(super) fn start_counts(&mut self) {
        self.is_running = true;
        for bytes in &*self.bytes {
            bytes.store(0, Ordering::Relaxed);
        }
    }
}

/// The failure of a node's connection.
pub(super) fn lost(node: &str, why: gridftp_cluster::Error) -> Error {
    let (node, why, at) = (node.to_owned(), Box::new(why), Instant::now());
    NodeFault::Lost { node, why, at }.into()
}

/// Sends a node these requests, the last of which is answered, and waits for the answer.
async fn ask(
    node: &mut NodeSession,
    requests: impl IntoIterator<Item = ToNode>,
    until: Instant,
) -> Result<FromNode, Error> {
    let asking = async {
        for request in requests {
            node.send(request).await?;
        }
        node.recv().await
    };
    match timeout_at(until, asking).await {
        Ok(Ok(FromNode::Failed(failed))) => Err(refused(node.node(), *failed)),
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(lost(node.node(), error)),
        Err(_) => Err(NodeFault::Silent(node.node().to_owned()).into()),
    }
}

/// Says whether another node might succeed.
fn is_of_the_node(error: &Error) -> bool {
    match error {
        Error::Node(NodeFault::Refused { failed, .. }) => failed.fault == Fault::Node,
        _ => true,
    }
}

/// The failure that a node reports.
pub(super) fn refused(node: &str, failed: Failed) -> Error {
    let (node, failed) = (node.to_owned(), Box::new(failed));
    NodeFault::Refused { node, failed }.into()
}
