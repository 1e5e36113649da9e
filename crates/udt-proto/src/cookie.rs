//! `Cookies`: proof that whoever asks for a connection can be reached where it says it is, without memory of it.

use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use siphasher::sip::SipHasher24;

/// How long a cookie is given out; it is accepted for as long again.
const SLOT: Duration = Duration::from_secs(60);

/// Makes cookies of an address, the time and a key, and knows them again.
#[derive(Debug, Clone)]
pub(crate) struct Cookies {
    key: [u8; 16],
    since: Instant,
}

impl Cookies {
    pub(crate) fn new(now: Instant, key: [u8; 16]) -> Self {
        Self { key, since: now }
    }

    /// The cookie for an address now.
    pub(crate) fn bake(&self, now: Instant, whose: SocketAddr) -> u32 {
        self.of_slot(self.slot(now), whose)
    }

    /// Whether this address was given this cookie lately. What is given out just before a slot ends
    /// stays good in the next one.
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
        // 0 is what one sends who has none.
        (hasher.finish() as u32).max(1)
    }
}
