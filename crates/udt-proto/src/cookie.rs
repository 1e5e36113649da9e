//! `Cookies`: stateless proof that a peer receives packets at the address that it sends from.

use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use siphasher::sip::SipHasher24;

/// Time slot of a cookie, which is valid in the next slot too.
const SLOT: Duration = Duration::from_secs(60);

/// Creates cookies from an address, the time and a key, and verifies them.
#[derive(Debug, Clone)]
pub(crate) struct Cookies {
    key: [u8; 16],
    since: Instant,
}

impl Cookies {
    pub(crate) fn new(now: Instant, key: [u8; 16]) -> Self {
        Self { key, since: now }
    }

    /// Returns the cookie of an address for the current time.
    pub(crate) fn bake(&self, now: Instant, whose: SocketAddr) -> u32 {
        self.of_slot(self.slot(now), whose)
    }

    /// Whether this address was given this cookie in this time slot or the one before.
    pub(crate) fn is_good(&self, now: Instant, whose: SocketAddr, cookie: u32) -> bool {
        let slot = self.slot(now);
        cookie == self.of_slot(slot, whose)
            || slot
                .checked_sub(1)
                .is_some_and(|before| cookie == self.of_slot(before, whose))
    }

    fn slot(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.since).as_secs() / SLOT.as_secs()
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the wire has 32 bits for it"
    )]
    fn of_slot(&self, slot: u64, whose: SocketAddr) -> u32 {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write_u64(slot);
        hasher.write_u16(whose.port());
        match whose.ip() {
            IpAddr::V4(ip) => hasher.write(&ip.octets()),
            IpAddr::V6(ip) => hasher.write(&ip.octets()),
        }
        // 0 means no cookie in a request.
        (hasher.finish() as u32).max(1)
    }
}
