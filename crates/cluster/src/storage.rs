//! `Nodes` as the peers of the storage that they share.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::sync::Arc;

use gridftp_dsi::{Capabilities, WriteModel};
use gridftp_dsi_rpc::{Choice, Peer, Peers};

use crate::nodes::{Connected, Nodes};

/// The name of the storage in replies to FEAT.
const NAME: &str = "nodes";

impl Peers for Nodes {
    /// The capabilities that all connected nodes have; the least ones while none is connected.
    fn capabilities(&self) -> Capabilities {
        let nodes = self.shared.snapshot();
        let all = nodes.iter().filter_map(|node| node.description.as_ref());
        let all = all.map(|described| described.capabilities(NAME));
        let none = || Capabilities::new(NAME, WriteModel::Random).with_updates(false);
        all.reduce(both).unwrap_or_else(none)
    }

    async fn peer(&self, by: Choice<'_>, tried: &[Peer]) -> io::Result<Peer> {
        let tried: Vec<&str> = tried.iter().map(Peer::name).collect();
        let found = match by {
            Choice::Load => {
                let node = self.choose(1, &tried);
                let found = node.first().and_then(|node| self.storage_of(node.name()));
                found.or_else(|| self.best_for("", &tried))
            }
            Choice::Place(user, path) => self.best_for((&user.name, path.as_bytes()), &tried),
        };
        found.ok_or_else(|| io::Error::other("no data node with the storage is connected"))
    }
}

impl Nodes {
    fn storage_of(&self, name: &str) -> Option<Peer> {
        let table = self.shared.lock();
        let node = table.get(name).filter(|node| self.may_call(node));
        node.map(|node| node.storage.clone())
    }

    /// Whether the node has a storage, and a valid certificate.
    fn may_call(&self, node: &Connected) -> bool {
        node.description.is_some() && self.shared.check(&node.peer).is_ok()
    }

    /// The node of the highest digest of its name and the place, of those that are healthy if there
    /// are any: a place changes its node only when this one comes or goes.
    fn best_for(&self, place: impl std::hash::Hash, tried: &[&str]) -> Option<Peer> {
        let nodes = self.shared.snapshot().into_iter();
        let nodes = nodes.filter(|node| !tried.contains(&node.name()) && self.may_call(node));
        let rank = |node: &Arc<Connected>| {
            let mut hasher = DefaultHasher::new();
            (node.name(), &place).hash(&mut hasher);
            let usage = node.usage();
            let is_healthy = usage.report.takes_sessions() && !usage.is_late();
            (is_healthy, hasher.finish())
        };
        nodes.max_by_key(rank).map(|node| node.storage.clone())
    }
}

/// The capabilities that two nodes have both.
fn both(one: Capabilities, other: Capabilities) -> Capabilities {
    let has = |(algorithm, _): &&(_, u8)| other.checksums.iter().any(|(has, _)| has == algorithm);
    let checksums: Vec<_> = one.checksums.iter().filter(has).copied().collect();
    let writes = match one.writes == other.writes {
        true => one.writes,
        false => WriteModel::Sequential,
    };
    Capabilities::new(NAME, writes)
        .with_checksums(checksums)
        .with_symlinks(one.symlinks && other.symlinks)
        .with_resume(one.resume && other.resume)
        .with_keeps(one.keeps && other.keeps)
        .with_modes(one.modes && other.modes)
        .with_shared_uploads(one.shares_uploads && other.shares_uploads)
        .with_updates(one.updates && other.updates)
        .with_times(one.times && other.times)
        .with_time_grain(one.time_grain.max(other.time_grain))
        .with_stages(one.stages && other.stages)
        .with_exclusive(one.exclusive && other.exclusive)
        .with_durable(one.durable && other.durable)
        .with_space(one.tells_space && other.tells_space)
        .with_attributes(one.attributes && other.attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_the_abilities_that_all_of_them_have() {
        let able = || {
            Capabilities::new(NAME, WriteModel::Random)
                .with_symlinks(true)
                .with_resume(true)
                .with_modes(true)
                .with_shared_uploads(true)
                .with_stages(true)
                .with_exclusive(true)
                .with_durable(true)
                .with_space(true)
                .with_attributes(true)
        };
        assert_eq!(both(able(), able()), able());
        let less = || {
            let plain = able().with_exclusive(false).with_durable(false);
            plain.with_space(false).with_attributes(false)
        };
        assert_eq!(both(able(), less()), less());
        assert_eq!(both(less(), able()), less());
    }
}
