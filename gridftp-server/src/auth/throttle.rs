//! `Throttle`: failed logins per user and network, and the lockouts after them.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// A bounded table of recent failures. Time is an argument.
#[derive(Debug)]
pub(crate) struct Throttle {
    entries: HashMap<Key, Entry>,
    capacity: usize,
    hasher: RandomState,
}

/// A user and a network: a keyed hash of the name, so that names of any length cost the same
/// memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    name: u64,
    network: Network,
}

/// The part of an address that one site is taken to own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Network {
    V4([u8; 3]),
    V6([u16; 4]),
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    failures: u32,
    last: Instant,
}

/// The limits on failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    /// Failures in a row before a lockout; 0 for no lockout.
    pub(crate) attempts: u32,
    /// Duration of a lockout, and of the memory of failures.
    pub(crate) lockout: Duration,
}

impl Throttle {
    /// Makes a table of at most `capacity` entries.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            entries: HashMap::new(),
            capacity,
            hasher: RandomState::new(),
        }
    }

    /// Returns the key of a name and an address: an IPv4 /24 or an IPv6 /64 counts as one network.
    pub(crate) fn key(&self, name: &str, from: IpAddr) -> Key {
        let network = match from.to_canonical() {
            IpAddr::V4(v4) => {
                let [a, b, c, _] = v4.octets();
                Network::V4([a, b, c])
            }
            IpAddr::V6(v6) => {
                let [a, b, c, d, ..] = v6.segments();
                Network::V6([a, b, c, d])
            }
        };
        Key {
            name: self.hasher.hash_one(name),
            network,
        }
    }

    /// Says whether logins of this key are locked out now.
    pub(crate) fn is_locked(&self, now: Instant, key: Key, policy: Policy) -> bool {
        policy.attempts > 0
            && self.entries.get(&key).is_some_and(|entry| {
                entry.failures >= policy.attempts && !expired(now, entry, policy)
            })
    }

    /// Counts a failure; says whether it is the one that locks out.
    pub(crate) fn failed(&mut self, now: Instant, key: Key, policy: Policy) -> bool {
        if self.entries.len() >= self.capacity && !self.entries.contains_key(&key) {
            self.make_room(now, policy);
        }
        let entry = self.entries.entry(key).or_insert(Entry {
            failures: 0,
            last: now,
        });
        if expired(now, entry, policy) {
            entry.failures = 0;
        }
        entry.failures = entry.failures.saturating_add(1);
        entry.last = now;
        policy.attempts > 0 && entry.failures == policy.attempts
    }

    /// Forgets a key's failures.
    pub(crate) fn succeeded(&mut self, key: Key) {
        self.entries.remove(&key);
    }

    /// Drops the expired entries, or else the older half, so that the cost per failure stays
    /// constant.
    fn make_room(&mut self, now: Instant, policy: Policy) {
        self.entries.retain(|_, entry| !expired(now, entry, policy));
        if self.entries.len() >= self.capacity {
            let mut times: Vec<Instant> = self.entries.values().map(|entry| entry.last).collect();
            let middle = times.len() / 2;
            let (_, median, _) = times.select_nth_unstable(middle);
            let median = *median;
            self.entries.retain(|_, entry| entry.last > median);
        }
    }
}

fn expired(now: Instant, entry: &Entry, policy: Policy) -> bool {
    now.saturating_duration_since(entry.last) >= policy.lockout
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: Policy = Policy {
        attempts: 3,
        lockout: Duration::from_secs(60),
    };

    fn key(table: &Throttle, name: &str, ip: &str) -> Key {
        table.key(name, ip.parse().unwrap())
    }

    #[test]
    fn three_failures_lock_out_that_user_from_that_network_only() {
        let (mut table, now) = (Throttle::new(100), Instant::now());
        let eve = key(&table, "ann", "192.0.2.1");
        assert!(!table.failed(now, eve, POLICY));
        assert!(!table.failed(now, eve, POLICY));
        assert!(!table.is_locked(now, eve, POLICY));
        assert!(table.failed(now, eve, POLICY), "the third locks");
        assert!(table.is_locked(now, eve, POLICY));
        assert!(
            table.is_locked(now, key(&table, "ann", "192.0.2.77"), POLICY),
            "same network"
        );
        assert!(
            table.is_locked(now, key(&table, "ann", "::ffff:192.0.2.1"), POLICY),
            "mapped"
        );
        assert!(!table.is_locked(now, key(&table, "ann", "192.0.3.1"), POLICY));
        assert!(!table.is_locked(now, key(&table, "bob", "192.0.2.1"), POLICY));
    }

    #[test]
    fn a_lockout_ends_and_success_forgets() {
        let (mut table, now) = (Throttle::new(100), Instant::now());
        let ann = key(&table, "ann", "2001:db8::1");
        for _ in 0..3 {
            table.failed(now, ann, POLICY);
        }
        assert!(table.is_locked(now + Duration::from_secs(59), ann, POLICY));
        assert!(!table.is_locked(now + Duration::from_secs(60), ann, POLICY));
        table.succeeded(ann);
        assert!(!table.is_locked(now, ann, POLICY));
    }

    #[test]
    fn the_table_is_bounded_and_keeps_the_newest() {
        let (mut table, start) = (Throttle::new(10), Instant::now());
        for second in 0..1000u64 {
            let at = start + Duration::from_millis(second);
            let key = key(&table, &second.to_string(), "192.0.2.1");
            table.failed(at, key, POLICY);
            assert!(table.entries.len() <= 10);
            assert!(table.entries.contains_key(&key));
        }
    }
}
