//! `Refused`: the hosts that a data port has refused.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most hosts that are remembered. The first ones are: the peer of a transfer connects as soon as it
/// is told of the port.
const MOST: usize = 3;

/// The hosts that a port has refused since its last complete transfer. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refused(Arc<Mutex<Vec<IpAddr>>>);

impl Refused {
    pub(crate) fn note(&self, host: IpAddr) {
        let (host, mut hosts) = (host.to_canonical(), self.lock());
        if hosts.len() < MOST && !hosts.contains(&host) {
            hosts.push(host);
        }
    }

    pub(crate) fn hosts(&self) -> Vec<IpAddr> {
        self.lock().clone()
    }

    /// Forgets them: the peer was another.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<IpAddr>> {
        // Nothing panics in the middle of a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
