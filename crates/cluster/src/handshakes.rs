//! `Handshakes`: limits on the handshakes of peers that are not yet known, by address and in total.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Handshakes in progress of one host.
const PER_HOST: u32 = 16;
/// Handshakes in progress in total.
const TOTAL: u32 = 256;

/// Counts the handshakes in progress; all connections of a listener share it.
#[derive(Debug, Default, Clone)]
pub(crate) struct Handshakes(Arc<Mutex<HashMap<IpAddr, u32>>>);

/// The right to one handshake, given back when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    table: Handshakes,
    host: IpAddr,
}

impl Handshakes {
    /// Begins a handshake; `None` at a limit.
    pub(crate) fn begin(&self, address: IpAddr) -> Option<Permit> {
        let host = host(address);
        let mut table = self.lock();
        let of_host = table.get(&host).copied().unwrap_or_default();
        if of_host >= PER_HOST || table.values().sum::<u32>() >= TOTAL {
            return None;
        }
        table.insert(host, of_host + 1);
        drop(table);
        Some(Permit {
            table: self.clone(),
            host,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut table = self.table.lock();
        if let Some(count) = table.get_mut(&self.host) {
            *count -= 1;
            if *count == 0 {
                table.remove(&self.host);
            }
        }
    }
}

/// Requests for certificates of one host in a [`WINDOW`].
const REQUESTS: u32 = 30;
const WINDOW: Duration = Duration::from_secs(60);
/// Most hosts counted in a window.
const HOSTS: usize = 4096;

/// Limits the requests of each host in a minute.
#[derive(Debug, Default)]
pub(crate) struct Rate(Mutex<Option<(Instant, HashMap<IpAddr, u32>)>>);

impl Rate {
    /// Counts a request; false at the limit.
    pub(crate) fn admit(&self, address: IpAddr, now: Instant) -> bool {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let window = match &mut *window {
            Some(window) if now.duration_since(window.0) < WINDOW => window,
            other => other.insert((now, HashMap::new())),
        };
        let host = host(address);
        if window.1.len() >= HOSTS && !window.1.contains_key(&host) {
            return false;
        }
        let count = window.1.entry(host).or_default();
        *count += 1;
        *count <= REQUESTS
    }
}

/// The part of an address that stands for one host: an IPv6 host may use all of its /64.
fn host(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_may_ask_again_after_a_minute() {
        let (rate, now) = (Rate::default(), Instant::now());
        let hosts: [IpAddr; 2] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().unwrap());
        assert_eq!((0..99).filter(|_| rate.admit(hosts[0], now)).count(), 30);
        assert!(rate.admit(hosts[1], now));
        assert!(rate.admit(hosts[0], now + WINDOW));
    }

    #[test]
    fn one_host_does_not_use_up_the_handshakes_of_others() {
        let table = Handshakes::default();
        let hosts: [IpAddr; 3] =
            ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"].map(|text| text.parse().unwrap());
        let held: Vec<_> = (0..PER_HOST)
            .filter_map(|_| table.begin(hosts[0]))
            .collect();
        assert_eq!(held.len(), 16);
        assert!(table.begin(hosts[1]).is_none());
        assert!(table.begin(hosts[2]).is_some());
        drop(held);
        assert!(table.begin(hosts[1]).is_some());
        assert!(table.lock().is_empty());
    }
}
