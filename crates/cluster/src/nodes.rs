//! `Nodes`: the connected nodes of a front end, and the choice among them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use gridftp_dsi_rpc::Caller;
use gridftp_dsi_rpc::proto::Description;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::choice::{self, Candidate};
use crate::error::{Error, Result};
use crate::handshakes::Rate;
use crate::identity::{Peer, Role};
use crate::link::{BEAT, SILENCE};
use crate::member::Member;
use crate::message::Open;
use crate::proto;
use crate::proto::node_client::NodeClient;
use crate::report::{Report, Version};
use crate::session::{NodeSession, silent};

/// Calls the node of one connection.
pub(crate) type Client = NodeClient<Caller>;

/// The connected nodes of a front end. Clones are the same registry.
#[derive(Debug, Clone)]
pub struct Nodes {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) member: Arc<Member>,
    pub(crate) version: Version,
    table: Mutex<BTreeMap<String, Arc<Connected>>>,
    pub(crate) changes: watch::Sender<()>,
    /// The identity of the front end's own storage.
    pub(crate) storage: OnceLock<String>,
    /// Limits requests for certificates.
    pub(crate) requests: Rate,
}

/// One registered connection of a node.
pub(crate) struct Connected {
    pub(crate) peer: Peer,
    pub(crate) address: String,
    pub(crate) version: Version,
    /// A number of the process.
    pub(crate) process: u64,
    pub(crate) client: Client,
    /// Calls of its storage, over the same connection.
    pub(crate) storage: gridftp_dsi_rpc::Peer,
    /// What the storage can do; `None` for a node without one.
    pub(crate) description: Option<Description>,
    pub(crate) usage: Mutex<Use>,
    pub(crate) placed: AtomicU32,
}

/// The last report of a node, and the placements since.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Use {
    pub(crate) report: Report,
    at: Instant,
    /// Placements since.
    recent: u32,
}

impl fmt::Debug for Connected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connected")
            .field("peer", &self.peer.identity.name)
            .field("use", &self.usage())
            .finish_non_exhaustive()
    }
}

/// One connected node, for lists.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct NodeInfo {
    /// Its name.
    pub name: String,
    /// The address of its end of the connection.
    pub address: String,
    /// Its version.
    pub version: Version,
    /// Its last report.
    pub report: Report,
    /// Whether the last report is overdue.
    pub late: bool,
    /// Handles and sessions of this front end on it.
    pub placed: u32,
}

/// A node chosen for a session. It counts as placed there until it and its sessions are dropped.
#[derive(Debug, Clone)]
pub struct NodeHandle {
    shared: Arc<Shared>,
    placement: Placement,
}

/// Counts as one placement on a node, with all its clones.
#[derive(Debug, Clone)]
pub(crate) struct Placement(Arc<Placed>);

#[derive(Debug)]
struct Placed(Arc<Connected>);

impl Placement {
    fn node(&self) -> &Arc<Connected> {
        &self.0.0
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        self.0.placed.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Nodes {
    /// Makes an empty registry; `program` is the name and version for the nodes' logs.
    ///
    /// # Errors
    ///
    /// The member is not a front end.
    pub fn new(member: Arc<Member>, program: &str) -> Result<Self> {
        if member.identity().role != Role::Front {
            return Err(Error::Role {
                found: member.identity().to_string(),
                expected: Role::Front,
            });
        }
        Ok(Self {
            shared: Arc::new(Shared {
                member,
                version: Version::of_program(program),
                table: Mutex::default(),
                changes: watch::Sender::new(()),
                storage: OnceLock::new(),
                requests: Rate::default(),
            }),
        })
    }

    /// The member that this front end is.
    pub(crate) fn member(&self) -> &Arc<Member> {
        &self.shared.member
    }

    /// Lists the connected nodes by name.
    pub fn list(&self) -> Vec<NodeInfo> {
        let nodes = self.shared.snapshot();
        nodes.iter().map(|node| node.info()).collect()
    }

    /// Sets the identity of the front end's own storage, once: nodes with another storage are
    /// refused.
    pub fn expect_storage(&self, identity: String) {
        let own = self.shared.storage.get_or_init(|| identity);
        // A node in the table already is dropped, and refused when it dials again.
        let mut table = self.shared.lock();
        table.retain(|_, node| !node.has_other_storage(own));
        drop(table);
        self.shared.changes.send_replace(());
    }

    /// Tells of every node that comes, goes or reports something else.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.shared.changes.subscribe()
    }

    /// Chooses at most `n` distinct nodes whose names are not in `exclude`, the best first.
    ///
    /// The best node has the least running transfers for its capacity, with those of this front end
    /// counted at once, then the least load. A draining node is not chosen, and one whose report is
    /// overdue comes last.
    pub fn choose(&self, n: usize, exclude: &[&str]) -> Vec<NodeHandle> {
        // The lock keeps two choices at the same time from the same idle node.
        let table = self.shared.lock();
        let nodes: Vec<(&Arc<Connected>, Use)> = table
            .iter()
            .filter(|(name, _)| !exclude.contains(&name.as_str()))
            .map(|(_, node)| (node, node.usage()))
            .collect();
        let candidates: Vec<Candidate<'_>> = nodes
            .iter()
            .map(|(node, usage)| node.candidate(usage))
            .collect();
        choice::choose(&candidates, n)
            .into_iter()
            .filter_map(|index| nodes.get(index))
            .map(|(node, _)| self.place(node))
            .collect()
    }

    /// Returns a handle on the node of this name, chosen by the caller.
    pub fn named(&self, name: &str) -> Option<NodeHandle> {
        self.shared.lock().get(name).map(|node| self.place(node))
    }

    fn place(&self, node: &Arc<Connected>) -> NodeHandle {
        node.placed.fetch_add(1, Ordering::Relaxed);
        node.lock().recent += 1;
        NodeHandle {
            shared: Arc::clone(&self.shared),
            placement: Placement(Arc::new(Placed(Arc::clone(node)))),
        }
    }

    /// Places no new sessions on a node from now on, on any front end, or places them again.
    ///
    /// # Errors
    ///
    /// The node is not connected, or does not answer.
    pub async fn drain(&self, name: &str, draining: bool) -> Result<()> {
        let node = self.shared.lock().get(name).cloned();
        let node = node.ok_or_else(|| Error::NoNode(name.into()))?;
        self.shared.check(&node.peer)?;
        let mut client = node.client.clone();
        timeout(SILENCE, client.drain(proto::DrainRequest { draining }))
            .await
            .map_err(|_| silent(name))?
            .map_err(|status| Error::of_call(name, status))?;
        // The next report says so too, a second later.
        node.lock().report.draining = draining;
        self.shared.changes.send_replace(());
        Ok(())
    }

    /// Says whether sessions are placed where this one is: its connection is the registered one of
    /// its node, which reports and does not drain.
    pub fn places_on(&self, session: &NodeSession) -> bool {
        let own = session.placement().node();
        let table = self.shared.lock();
        table.get(session.node()).is_some_and(|node| {
            let usage = node.usage();
            Arc::ptr_eq(node, own) && usage.report.takes_sessions() && !usage.is_late()
        })
    }

    /// Returns the index of a session that is better placed anew: its node is clearly busier than
    /// one with none of these sessions.
    pub fn misplaced(&self, sessions: &[NodeSession]) -> Option<usize> {
        let nodes = self.shared.snapshot();
        let nodes: Vec<_> = nodes.iter().map(|node| (node, node.usage())).collect();
        let has =
            |node: &Arc<Connected>| sessions.iter().any(|session| session.node() == node.name());
        let others = nodes.iter().filter(|(node, _)| !has(node));
        let others: Vec<_> = others.map(|(node, usage)| node.candidate(usage)).collect();
        sessions.iter().position(|session| {
            let own = session.placement().node();
            choice::is_outdone(&own.candidate(&own.usage()), &others)
        })
    }
}

impl Shared {
    pub(crate) fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Connected>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn snapshot(&self) -> Vec<Arc<Connected>> {
        self.lock().values().cloned().collect()
    }

    /// Checks that a peer is a node of this cluster with a valid certificate.
    pub(crate) fn check(&self, peer: &Peer) -> Result<()> {
        self.member.check(peer, Role::Node)
    }
}

impl Connected {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Use> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn usage(&self) -> Use {
        *self.lock()
    }

    pub(crate) fn name(&self) -> &str {
        &self.peer.identity.name
    }

    /// The identity of its storage; empty if it has none.
    pub(crate) fn storage_identity(&self) -> &str {
        let description = self.description.as_ref();
        description.map_or("", |storage| &storage.identity)
    }

    /// Whether its storage and the one of this identity differ, as far as both have identities.
    pub(crate) fn has_other_storage(&self, identity: &str) -> bool {
        let own = self.storage_identity();
        !own.is_empty() && !identity.is_empty() && own != identity
    }

    fn candidate<'a>(&'a self, usage: &'a Use) -> Candidate<'a> {
        Candidate {
            name: self.name(),
            report: &usage.report,
            late: usage.is_late(),
            recent: usage.recent,
            placed: self.placed.load(Ordering::Relaxed),
        }
    }

    fn info(&self) -> NodeInfo {
        let usage = self.usage();
        NodeInfo {
            name: self.peer.identity.name.clone(),
            address: self.address.clone(),
            version: self.version.clone(),
            report: usage.report,
            late: usage.is_late(),
            placed: self.placed.load(Ordering::Relaxed),
        }
    }
}

impl Use {
    pub(crate) fn new(report: Report) -> Self {
        Self {
            report,
            at: Instant::now(),
            recent: 0,
        }
    }

    pub(crate) fn is_late(&self) -> bool {
        self.at.elapsed() > 2 * BEAT
    }
}

impl NodeHandle {
    /// Returns the name of the node.
    pub fn name(&self) -> &str {
        self.node().name()
    }

    fn node(&self) -> &Connected {
        self.placement.node()
    }

    /// Opens a session on the node.
    ///
    /// # Errors
    ///
    /// The node is lost, frozen or refuses; another one may serve.
    ///
    /// # Cancel safety
    ///
    /// Dropping it opens no session.
    pub async fn session(&self, open: Open) -> Result<NodeSession> {
        let node = self.node();
        self.shared.check(&node.peer)?;
        let placement = self.placement.clone();
        NodeSession::open(self.name(), node.client.clone(), open, placement).await
    }
}
