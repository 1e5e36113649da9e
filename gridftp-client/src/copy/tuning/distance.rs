//! `Distances`: the least round trip of each peer and way, of the last minute.
//!
//! A path may become longer for good, so that an old round trip tells nothing.

use std::net::IpAddr;
use std::time::Duration;

use crate::explain::Way;

/// Each of the two parts of the time whose least round trip counts.
const PART: Duration = Duration::from_secs(30);
/// Peers and ways that are kept; a server chooses the peers.
const MOST: usize = 64;

/// A round trip of a period, and the least one of its peer and way.
pub(super) type RoundTrip = (Duration, Duration);

#[derive(Debug)]
struct Distance {
    way: Way,
    peer: Option<IpAddr>,
    /// The longest of this period.
    longest: Option<Duration>,
    /// The least of this part of the time, and of the one before.
    least: [Option<Duration>; 2],
}

/// The round trips of all peers.
#[derive(Debug, Default)]
pub(super) struct Distances {
    of: Vec<Distance>,
    /// Time of the present part.
    age: Duration,
}

impl Distances {
    /// Adds a measurement of this period.
    pub(super) fn add(&mut self, way: Way, peer: Option<IpAddr>, round_trip: Duration) {
        let known = |it: &Distance| (it.way, it.peer) == (way, peer);
        let at = match self.of.iter().position(known) {
            Some(at) => at,
            None if self.of.len() >= MOST => return,
            None => {
                self.of.push(Distance {
                    way,
                    peer,
                    longest: None,
                    least: [None; 2],
                });
                self.of.len() - 1
            }
        };
        let Some(Distance { longest, least, .. }) = self.of.get_mut(at) else {
            return;
        };
        *longest = (*longest).max(Some(round_trip));
        let [now, _] = least;
        *now = Some(now.map_or(round_trip, |now| now.min(round_trip)));
    }

    /// Ends a period that `took` so long; gives its round trips.
    pub(super) fn take(&mut self, took: Duration) -> Vec<RoundTrip> {
        let told = self.of.iter_mut().filter_map(|it| {
            let least = it.least.into_iter().flatten().min()?;
            Some((it.longest.take()?, least))
        });
        let told = told.collect();
        self.age += took;
        if self.age >= PART {
            self.age = Duration::ZERO;
            for it in &mut self.of {
                let [now, before] = &mut it.least;
                *before = now.take();
            }
            self.of.retain(|it| it.least != [None; 2]);
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn peers_and_ways_have_their_own_least_round_trips() {
        let mut distances = Distances::default();
        let [near, far] = [1, 2].map(|n| Some(IpAddr::from([192, 0, 2, n])));
        for now in [10, 12] {
            distances.add(Way::Download, near, MS(now));
            distances.add(Way::Download, far, MS(10 * now));
            distances.add(Way::Upload, near, MS(5 * now));
        }
        let told = [(12, 10), (120, 100), (60, 50)];
        assert_eq!(
            distances.take(MS(1000)),
            told.map(|(now, least)| (MS(now), MS(least)))
        );
        assert!(distances.take(MS(1000)).is_empty());
    }

    #[test]
    fn a_least_round_trip_is_forgotten_within_a_minute() {
        // The periods of data that passes this machine, and of data between servers.
        for (period, periods) in [(MS(1000), 30), (MS(10_000), 3)] {
            let mut distances = Distances::default();
            distances.add(Way::Upload, None, MS(10));
            distances.take(period);
            let mut least = Vec::new();
            for _ in 0..2 * periods {
                distances.add(Way::Upload, None, MS(40));
                least.extend(distances.take(period).into_iter().map(|(_, least)| least));
            }
            assert!(least.iter().take(periods).all(|least| *least == MS(10)));
            assert_eq!(least.last(), Some(&MS(40)));
            for _ in 0..2 * periods {
                assert!(distances.take(period).is_empty());
            }
            assert!(distances.of.is_empty());
        }
    }

    #[test]
    fn a_server_cannot_name_too_many_peers() {
        let mut distances = Distances::default();
        for n in 0..2000_u32 {
            distances.add(Way::Upload, Some(IpAddr::from(n.to_be_bytes())), MS(1));
        }
        assert_eq!(distances.of.len(), MOST);
    }
}
