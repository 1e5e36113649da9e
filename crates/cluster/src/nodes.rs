//! `Nodes`: the connected nodes of a front end, and the choice among them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tonic::codegen::http::Uri;
use tracing::{info, warn};

use crate::choice::{self, Candidate};
use crate::connections::{Registration, State};
use crate::error::{Error, Result};
use crate::handshakes::Rate;
use crate::identity::{Peer, Role};
use crate::link::{self, BEAT, Caller, Io, OPENING, SILENCE};
use crate::member::Member;
use crate::message::{MAX_MESSAGE, Open};
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
    version: Version,
    table: Mutex<BTreeMap<String, Arc<Connected>>>,
    changes: watch::Sender<()>,
    /// Limits requests for certificates.
    pub(crate) requests: Rate,
}

/// One registered connection of a node.
struct Connected {
    peer: Peer,
    address: String,
    version: Version,
    client: Client,
    usage: Mutex<Use>,
    placed: AtomicU32,
}

/// The last report of a node, and the placements since.
#[derive(Debug, Clone, Copy)]
struct Use {
    report: Report,
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
            .map(|(node, usage)| Candidate {
                name: &node.peer.identity.name,
                report: &usage.report,
                late: usage.is_late(),
                recent: usage.recent,
                placed: node.placed.load(Ordering::Relaxed),
            })
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

    /// Calls the node at the other end of a connection: registers it and keeps it until it is
    /// lost, or replaced and no longer used.
    ///
    /// # Errors
    ///
    /// The connection broke, or the node was silent or refused.
    pub(crate) async fn attend(
        &self,
        stream: impl Io,
        peer: Peer,
        address: &str,
        state: State,
    ) -> Result<()> {
        let name = peer.identity.name.clone();
        let lost = |error: hyper::Error| Error::connection(&name, error);
        let (caller, connection) = link::call(stream).await.map_err(lost)?;
        let mut connection = std::pin::pin!(connection);
        let kept = self.shared.keep(caller, peer, address, &state);
        tokio::select! {
            end = &mut connection => return end.map_err(lost),
            kept = kept => kept?,
        }
        // Its sessions go on until they end.
        connection.await.map_err(lost)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Connected>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn snapshot(&self) -> Vec<Arc<Connected>> {
        self.lock().values().cloned().collect()
    }

    /// Checks that a peer is a node of this cluster with a valid certificate.
    fn check(&self, peer: &Peer) -> Result<()> {
        peer.check(self.member.identity(), Role::Node, SystemTime::now())
    }

    /// Registers the node of a connection, and follows its reports until another connection of the
    /// same node replaces this one.
    async fn keep(
        self: &Arc<Self>,
        caller: Caller,
        peer: Peer,
        address: &str,
        state: &State,
    ) -> Result<()> {
        self.check(&peer)?;
        let name = peer.identity.name.clone();
        let mut changes = self.member.changes();
        let mut client = NodeClient::with_origin(caller, Uri::from_static("http://node"))
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        let request = proto::RegisterRequest {
            front: self.member.identity().name.clone(),
            version: Some(self.version.clone().into()),
        };
        let reports = timeout(SILENCE, client.register(request)).await;
        let reports = reports.map_err(|_| silent(&name))?;
        let reports = reports.map_err(|status| Error::of_call(&name, status))?;
        let mut reports = Reports {
            stream: reports.into_inner(),
            name: &name,
        };
        let first = reports.next().await?;
        let (report, version) = first.ok_or_else(|| Error::Ended { peer: name.clone() })?;
        let version = Version::try_from(version).map_err(|source| Error::Malformed {
            peer: name.clone(),
            source,
        })?;
        if let Err(error) = self.check_version(&mut client, &name, &version).await {
            state.send_replace(Registration::Refused);
            return Err(error);
        }
        info!(node = name, address, %version, "node registered");
        state.send_replace(Registration::Registered);
        let registered = self.register(Connected {
            peer: peer.clone(),
            address: address.into(),
            version,
            client,
            usage: Mutex::new(Use::new(report)),
            placed: AtomicU32::new(0),
        });
        loop {
            let next = tokio::select! {
                next = reports.next() => next?,
                // The own certificate is new, and needs a new connection.
                _ = changes.changed() => None,
            };
            let Some((report, _)) = next else { break };
            self.check(&peer)?;
            if !registered.update(report) {
                return Ok(());
            }
        }
        // The end that dials makes another connection, which replaces this one.
        drop(reports);
        Registration::release(state);
        let mut changes = self.changes.subscribe();
        let replaced =
            async { while registered.is_current() && changes.changed().await.is_ok() {} };
        // Without another one in time, the node is lost.
        let _ = timeout(2 * OPENING, replaced).await;
        Ok(())
    }

    /// Refuses a node of another major version, and tells it.
    async fn check_version(
        &self,
        client: &mut Client,
        name: &str,
        version: &Version,
    ) -> Result<()> {
        let ours = self.version.major;
        if version.major == ours {
            return Ok(());
        }
        let reason = format!(
            "node {name} speaks version {} of the service, and the front end {ours}: run the same \
             release on every member",
            version.major
        );
        warn!(node = name, %version, reason, "node refused");
        // The connection is closed in any case.
        let _ = timeout(SILENCE, client.refuse(proto::RefuseRequest { reason })).await;
        Err(Error::Version {
            peer: name.into(),
            theirs: version.major,
            ours,
        })
    }

    /// Enters a node in the table, in place of an earlier connection of the same name.
    fn register(self: &Arc<Self>, node: Connected) -> Registered {
        let node = Arc::new(node);
        self.lock()
            .insert(node.peer.identity.name.clone(), Arc::clone(&node));
        self.changes.send_replace(());
        Registered {
            shared: Arc::clone(self),
            node,
        }
    }
}

/// An entry of the table, removed when dropped.
struct Registered {
    shared: Arc<Shared>,
    node: Arc<Connected>,
}

impl Registered {
    /// Says whether no other connection has replaced this one.
    fn is_current(&self) -> bool {
        let table = self.shared.lock();
        let entry = table.get(&self.node.peer.identity.name);
        entry.is_some_and(|entry| Arc::ptr_eq(entry, &self.node))
    }

    /// Stores a report; false if another connection has replaced this one.
    fn update(&self, report: Report) -> bool {
        let before = std::mem::replace(&mut *self.node.lock(), Use::new(report));
        if before.report != report {
            self.shared.changes.send_replace(());
        }
        self.is_current()
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let name = &self.node.peer.identity.name;
        let mut table = self.shared.lock();
        if table
            .get(name)
            .is_some_and(|entry| Arc::ptr_eq(entry, &self.node))
        {
            table.remove(name);
            drop(table);
            warn!(node = name, "node lost");
            self.shared.changes.send_replace(());
        }
    }
}

/// The reports of a node.
struct Reports<'a> {
    stream: tonic::Streaming<proto::Report>,
    name: &'a str,
}

impl Reports<'_> {
    /// The next report, with the version in the first; `None` if the node ends the registration.
    async fn next(&mut self) -> Result<Option<(Report, Option<proto::Version>)>> {
        let message = timeout(SILENCE, self.stream.message()).await;
        let message = message.map_err(|_| silent(self.name))?;
        let message = message.map_err(|status| Error::of_call(self.name, status))?;
        let Some(message) = message else {
            return Ok(None);
        };
        let report = Report::of_message(&message, self.name);
        let report = report.map_err(|source| Error::Malformed {
            peer: self.name.into(),
            source,
        })?;
        Ok(Some((report, message.version)))
    }
}

impl Connected {
    fn lock(&self) -> MutexGuard<'_, Use> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn usage(&self) -> Use {
        *self.lock()
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
    fn new(report: Report) -> Self {
        Self {
            report,
            at: Instant::now(),
            recent: 0,
        }
    }

    fn is_late(&self) -> bool {
        self.at.elapsed() > 2 * BEAT
    }
}

impl NodeHandle {
    /// Returns the name of the node.
    pub fn name(&self) -> &str {
        &self.node().peer.identity.name
    }

    fn node(&self) -> &Connected {
        &self.placement.0.0
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
