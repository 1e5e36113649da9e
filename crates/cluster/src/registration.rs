//! Registrations at a front end: a node is in the table as long as its reports arrive.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};

use gridftp_dsi_rpc::{Caller, Peer as StoragePeer, VERSION};
use tokio::time::timeout;
use tonic::codegen::http::Uri;
use tracing::{info, warn};

use crate::connections::{Registration, State};
use crate::error::{Error, Result};
use crate::identity::Peer;
use crate::link::{self, Io, OPENING, SILENCE};
use crate::message::{MAX_MESSAGE, Malformed, text};
use crate::nodes::{Connected, Nodes, Shared, Use};
use crate::proto;
use crate::proto::node_client::NodeClient;
use crate::report::{Report, Version};
use crate::session::silent;

impl Nodes {
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
        let lost = |error: hyper::Error| Error::connection(&peer.identity.name, error);
        let (caller, connection) = link::call(stream).await.map_err(lost)?;
        let mut connection = std::pin::pin!(connection);
        let attended = async {
            tokio::select! {
                end = &mut connection => return end.map_err(lost),
                kept = self.shared.keep(caller, &peer, address, &state) => kept?,
            }
            // Its sessions go on until they end.
            connection.await.map_err(lost)
        };
        tokio::select! {
            end = attended => end,
            // A connection that was replaced has sessions, too.
            revoked = self.shared.member.until_revoked(&peer) => Err(revoked),
        }
    }
}

impl Shared {
    /// Registers the node of a connection, and follows its reports until another connection of the
    /// same node replaces this one.
    async fn keep(
        self: &Arc<Self>,
        caller: Caller,
        peer: &Peer,
        address: &str,
        state: &State,
    ) -> Result<()> {
        self.check(peer)?;
        let name = peer.identity.name.clone();
        let mut changes = self.member.changes();
        let storage = StoragePeer::new(&name, caller.clone());
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
        let (report, first) = first.ok_or_else(|| Error::Ended { peer: name.clone() })?;
        let version = Version::try_from(first.version);
        let version = version.map_err(|source| malformed(&name, source))?;
        let description = first.storage.filter(|storage| is_spoken(&name, storage));
        if let Some(storage) = &description {
            let text = text(storage.identity.clone(), "report.storage.identity");
            text.map_err(|source| malformed(&name, source))?;
        }
        let node = Connected {
            peer: peer.clone(),
            address: address.into(),
            version: version.clone(),
            process: first.process,
            client: client.clone(),
            storage,
            description,
            usage: Mutex::new(Use::new(report)),
            placed: AtomicU32::new(0),
        };
        let admitted = self.check_version(&name, &version);
        let registered = match admitted.and_then(|()| self.register(node)) {
            Ok(registered) => registered,
            Err(error) => {
                warn!(node = name, address, %version, %error, "node refused");
                state.send_replace(Registration::Refused);
                let reason = error.to_string();
                // The connection is closed in any case.
                let _ = timeout(SILENCE, client.refuse(proto::RefuseRequest { reason })).await;
                return Err(error);
            }
        };
        info!(node = name, address, %version, "node registered");
        state.send_replace(Registration::Registered);
        loop {
            let next = tokio::select! {
                next = reports.next() => next?,
                // The own certificate is new, and needs a new connection.
                _ = changes.changed() => None,
            };
            let Some((report, _)) = next else { break };
            self.check(peer)?;
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

    /// Refuses a node of another major version.
    fn check_version(&self, name: &str, version: &Version) -> Result<()> {
        let ours = self.version.major;
        match version.major == ours {
            true => Ok(()),
            false => Err(Error::Version {
                peer: name.into(),
                theirs: version.major,
                ours,
            }),
        }
    }

    /// Enters a node in the table, in place of an earlier connection of the same process, or of
    /// another one of the same name that is silent. Its storage must be that of the front end and of the other nodes.
    fn register(self: &Arc<Self>, node: Connected) -> Result<Registered> {
        let (name, node) = (node.peer.identity.name.clone(), Arc::new(node));
        let mut table = self.lock();
        if let Some(first) = table.get(&name)
            && first.process != node.process
            && !first.usage().is_late()
        {
            let address = first.address.clone();
            return Err(Error::Rival { name, address });
        }
        let others = table.values().filter(|other| other.name() != name);
        let others = others.map(|other| (other.storage_identity(), other.name()));
        let own = self.storage.get().map_or("", String::as_str);
        let mut all = std::iter::once((own, "the front end")).chain(others);
        if let Some((_, other)) = all.find(|(identity, _)| node.has_other_storage(identity)) {
            let other = other.to_owned();
            return Err(Error::Storage { name, other });
        }
        table.insert(name, Arc::clone(&node));
        drop(table);
        self.changes.send_replace(());
        Ok(Registered {
            shared: Arc::clone(self),
            node,
        })
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
    /// The next report, also as it came; `None` if the node ends the registration.
    async fn next(&mut self) -> Result<Option<(Report, proto::Report)>> {
        let message = timeout(SILENCE, self.stream.message()).await;
        let message = message.map_err(|_| silent(self.name))?;
        let message = message.map_err(|status| Error::of_call(self.name, status))?;
        let Some(message) = message else {
            return Ok(None);
        };
        let report = Report::of_message(&message, self.name);
        let report = report.map_err(|source| malformed(self.name, source))?;
        Ok(Some((report, message)))
    }
}

fn malformed(peer: &str, source: Malformed) -> Error {
    let peer = peer.into();
    Error::Malformed { peer, source }
}

/// Whether this end speaks the version of a node's storage; else the node only moves data.
fn is_spoken(node: &str, storage: &gridftp_dsi_rpc::proto::Description) -> bool {
    let (is_spoken, own) = (storage.version == VERSION, VERSION);
    if !is_spoken {
        let version = storage.version;
        warn!(
            node,
            version, own, "storage of a node not used: another version"
        );
    }
    is_spoken
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use tokio::io::duplex;
    use tokio::time::advance;

    use super::*;
    use crate::identity::{Identity, Role};
    use crate::link::Work;
    use crate::member::Member;

    /// Two that connect at the same time would otherwise replace each other.
    #[test]
    fn only_this_version_of_the_storage_is_used() {
        let mut storage = gridftp_dsi_rpc::proto::Description::default();
        assert!(!is_spoken("node", &storage));
        storage.version = VERSION;
        assert!(is_spoken("node", &storage));
    }

    #[tokio::test(start_paused = true)]
    async fn the_table_takes_one_process_of_a_name() {
        let folder = tempfile::tempdir().unwrap();
        crate::init(folder.path().join("front"), "front").unwrap();
        let member = Member::load(folder.path().join("front")).unwrap();
        let nodes = Nodes::new(member, "test").unwrap();
        let (here, _there) = duplex(1 << 10);
        let (caller, connection) = link::call(here).await.unwrap();
        let _connection = Work::spawn(async { drop(connection.await) });
        let node = |process: u64| Connected {
            peer: Peer {
                identity: Identity::new("a", Role::Node, "one").unwrap(),
                issued: SystemTime::now(),
                not_after: SystemTime::now(),
            },
            address: process.to_string(),
            version: Version::of_program("test"),
            process,
            client: NodeClient::with_origin(caller.clone(), Uri::from_static("http://node")),
            storage: StoragePeer::new("one", caller.clone()),
            description: None,
            usage: Mutex::new(Use::new(Report::default())),
            placed: AtomicU32::new(0),
        };
        let first = nodes.shared.register(node(1)).unwrap();
        let rival = nodes.shared.register(node(2)).err().unwrap();
        assert!(matches!(rival, Error::Rival { address, .. } if address == "1"));
        let again = nodes.shared.register(node(1)).unwrap();
        assert!(again.is_current() && !first.is_current());
        advance(SILENCE).await;
        let second = nodes.shared.register(node(2)).unwrap();
        assert!(second.is_current() && !again.is_current());
    }
}
