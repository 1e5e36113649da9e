//! `Shares`: the unauthenticated connections of each host, and the host that has most.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, Ipv6Addr};

/// The unauthenticated connections of all hosts.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// Those of each host, the oldest first.
    hosts: HashMap<IpAddr, BTreeSet<u64>>,
    /// Hosts by the number of theirs.
    by_number: BTreeMap<usize, Hosts>,
    random: RandomState,
}

/// A set of hosts from which one is drawn at random.
#[derive(Debug, Default)]
struct Hosts {
    /// In no order: a random index is drawn.
    hosts: Vec<IpAddr>,
    /// The index of each host in `hosts`.
    positions: HashMap<IpAddr, usize>,
}

impl Shares {
    /// The oldest connection of a host that has `limit` or more.
    pub(super) fn oldest_of(&self, host: IpAddr, limit: usize) -> Option<u64> {
        let of_host = self.hosts.get(&host)?;
        let oldest = of_host.first().copied();
        oldest.filter(|_| of_host.len() >= limit)
    }

    /// The oldest connection of the host that has most; of several one is drawn, with another `seed`
    /// another one.
    pub(super) fn oldest_of_noisiest(&self, seed: u64) -> Option<u64> {
        let (_, noisiest) = self.by_number.last_key_value()?;
        let of_host = self.hosts.get(&noisiest.draw(&self.random, seed))?;
        of_host.first().copied()
    }

    /// Changes the unauthenticated connections of a host.
    pub(super) fn change(&mut self, host: IpAddr, change: impl FnOnce(&mut BTreeSet<u64>) -> bool) {
        let of_host = self.hosts.entry(host).or_default();
        let before = of_host.len();
        change(of_host);
        let after = of_host.len();
        if after == 0 {
            self.hosts.remove(&host);
        }
        if let Some(equals) = self.by_number.get_mut(&before) {
            equals.remove(host);
            if equals.hosts.is_empty() {
                self.by_number.remove(&before);
            }
        }
        if after > 0 {
            self.by_number.entry(after).or_default().add(host);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.by_number.is_empty()
    }
}

impl Hosts {
    fn add(&mut self, host: IpAddr) {
        self.positions.insert(host, self.hosts.len());
        self.hosts.push(host);
    }

    fn remove(&mut self, host: IpAddr) {
        let Some(position) = self.positions.remove(&host) else {
            return;
        };
        self.hosts.swap_remove(position);
        if let Some(moved) = self.hosts.get(position) {
            self.positions.insert(*moved, position);
        }
    }

    /// Returns one of the hosts, of which there must be some.
    fn draw(&self, random: &RandomState, seed: u64) -> IpAddr {
        let draw = random.hash_one((seed, self.hosts.len())) % (self.hosts.len().max(1) as u64);
        let drawn = usize::try_from(draw).ok();
        let drawn = drawn.and_then(|draw| self.hosts.get(draw).copied());
        drawn.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED))
    }
}
