//! `Admission`: the places of users, those of strangers apart from them, and which stranger gives way in a crowd.

use std::collections::HashMap;
use std::future::Future;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

/// Connections that may be on their way out while new ones are taken.
const LEAVING: usize = 16;

/// How many places there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Places {
    /// For sessions that are logged in.
    pub(crate) users: usize,
    /// For connections that are not.
    pub(crate) strangers: usize,
    /// Those of strangers that one host may have.
    pub(crate) per_host: usize,
}

/// All places of users are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

/// Counts connections; shared by all of them.
#[derive(Debug, Default)]
pub(crate) struct Admission(Mutex<Everybody>);

#[derive(Debug, Default)]
struct Everybody {
    next: u64,
    connections: HashMap<u64, Connection>,
    users: usize,
    /// Those whose password is looked at.
    candidates: usize,
    /// Those asked to go, and those that are between two standings.
    leaving: usize,
    strangers: Crowd,
    /// The same by their hosts.
    hosts: HashMap<IpAddr, Crowd>,
    random: RandomState,
}

#[derive(Debug)]
struct Connection {
    host: IpAddr,
    places: Places,
    standing: Standing,
    /// Ends it.
    bell: Option<oneshot::Sender<()>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// May have to give way.
    Stranger,
    /// Keeps its place while its password is looked at.
    Candidate,
    User,
    /// Was asked to go.
    Leaving,
}

/// Connections from which one is drawn.
#[derive(Debug, Default)]
struct Crowd {
    /// In no order; an index is drawn from here.
    order: Vec<u64>,
    /// Where each stands in `order`.
    places: HashMap<u64, usize>,
}

/// A connection's place; given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    admission: Arc<Admission>,
    id: u64,
    /// Rings when the connection has to give way; `None` once it no longer can.
    bell: Option<oneshot::Receiver<()>>,
}

/// The claim to a user's place while a password is looked at: the connection does not give way
/// meanwhile.
///
/// Dropped without [`Claim::settle`], it makes the connection a stranger again.
#[derive(Debug)]
pub(crate) struct Claim {
    admission: Arc<Admission>,
    id: u64,
}

/// The host that a connection is charged to: an IPv4 address, or a /64 of IPv6, since one host has
/// that many.
pub(crate) fn host(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
        v4 => v4,
    }
}

impl Admission {
    /// Takes a place for a new connection.
    ///
    /// In a crowd of strangers one of the older ones, picked at random, gives way: of the same host
    /// when that has as many as it may, else of all. Who logs in at once is hardly ever hit,
    /// however many idle connections somebody opens.
    ///
    /// # Errors
    /// [`Full`] when all places of users are taken: there is no use in a login.
    pub(crate) fn enter(self: &Arc<Self>, places: Places, from: IpAddr) -> Result<Place, Full> {
        let mut all = self.everybody();
        if all.users >= places.users {
            return Err(Full);
        }
        let (ring, bell) = oneshot::channel();
        let id = all.next;
        all.next += 1;
        let connection = Connection {
            host: host(from),
            places,
            standing: Standing::Leaving,
            bell: Some(ring),
        };
        all.connections.insert(id, connection);
        all.leaving += 1;
        all.admit(id);
        Ok(Place {
            admission: Arc::clone(self),
            id,
            bell: Some(bell),
        })
    }

    /// How many connections there are.
    pub(crate) fn sessions(&self) -> usize {
        self.everybody().connections.len()
    }

    /// Whether so many were asked to go and have not gone yet that no more should come: each still
    /// has its descriptor.
    pub(crate) fn is_crowded(&self) -> bool {
        self.everybody().leaving >= LEAVING
    }

    fn everybody(&self) -> MutexGuard<'_, Everybody> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Everybody {
    /// Makes a connection a stranger, for which others may have to go.
    fn admit(&mut self, id: u64) {
        let Some((host, places)) = self.connections.get(&id).map(|c| (c.host, c.places)) else {
            return;
        };
        while let Some(of_host) = self.hosts.get(&host)
            && of_host.order.len() >= places.per_host.max(1)
        {
            let victim = of_host.draw(&self.random, self.next);
            self.evict(victim);
        }
        while self.strangers.order.len() >= places.strangers.max(1) {
            let victim = self.strangers.draw(&self.random, self.next);
            self.evict(victim);
        }
        self.stand(id, Standing::Stranger);
    }

    fn evict(&mut self, id: u64) {
        self.stand(id, Standing::Leaving);
        if let Some(bell) = self.connections.get_mut(&id).and_then(|c| c.bell.take()) {
            // Nobody listens any more where the session is ending by itself.
            let _ = bell.send(());
        }
    }

    /// Changes the standing of a connection, and the counts with it.
    fn stand(&mut self, id: u64, standing: Standing) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let before = std::mem::replace(&mut connection.standing, standing);
        let host = connection.host;
        match before {
            Standing::Stranger => {
                self.strangers.remove(id);
                if let Some(of_host) = self.hosts.get_mut(&host) {
                    of_host.remove(id);
                    if of_host.order.is_empty() {
                        self.hosts.remove(&host);
                    }
                }
            }
            Standing::Candidate => self.candidates -= 1,
            Standing::User => self.users -= 1,
            Standing::Leaving => self.leaving -= 1,
        }
        match standing {
            Standing::Stranger => {
                self.strangers.add(id);
                self.hosts.entry(host).or_default().add(id);
            }
            Standing::Candidate => self.candidates += 1,
            Standing::User => self.users += 1,
            Standing::Leaving => self.leaving += 1,
        }
    }

    fn standing(&self, id: u64) -> Option<(Standing, Places)> {
        let connection = self.connections.get(&id)?;
        Some((connection.standing, connection.places))
    }
}

impl Crowd {
    fn add(&mut self, id: u64) {
        self.places.insert(id, self.order.len());
        self.order.push(id);
    }

    fn remove(&mut self, id: u64) {
        let Some(place) = self.places.remove(&id) else {
            return;
        };
        self.order.swap_remove(place);
        if let Some(moved) = self.order.get(place) {
            self.places.insert(*moved, place);
        }
    }

    /// One of them, of whom there must be some.
    fn draw(&self, random: &RandomState, seed: u64) -> u64 {
        let draw = random.hash_one((seed, self.order.len())) % (self.order.len().max(1) as u64);
        usize::try_from(draw)
            .ok()
            .and_then(|draw| self.order.get(draw).copied())
            .unwrap_or_default()
    }
}

impl Place {
    /// Waits until the connection has to give way.
    pub(crate) fn poll_give_way(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(bell) = &mut self.bell else {
            return Poll::Pending;
        };
        let rang = ready!(Pin::new(bell).poll(cx));
        self.bell = None;
        if rang.is_ok() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Claims a user's place for as long as a password is looked at.
    ///
    /// Where all of them are claimed or taken, the connection remains a stranger meanwhile: it may
    /// have to give way, and gets its answer all the same when it does not.
    pub(crate) fn claim(&self) -> Claim {
        let mut all = self.admission.everybody();
        if let Some((Standing::Stranger, places)) = all.standing(self.id)
            && all.users + all.candidates < places.users
        {
            all.stand(self.id, Standing::Candidate);
        }
        Claim {
            admission: Arc::clone(&self.admission),
            id: self.id,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.admission.everybody();
        all.stand(self.id, Standing::Leaving);
        all.leaving -= 1;
        all.connections.remove(&self.id);
    }
}

impl Claim {
    /// The login succeeded: the connection has a user's place from here on.
    ///
    /// # Errors
    /// [`Full`] when users took all of them meanwhile, or the connection was asked to go.
    pub(crate) fn settle(&self) -> Result<(), Full> {
        let mut all = self.admission.everybody();
        match all.standing(self.id) {
            Some((Standing::Candidate, places)) if all.users < places.users => {
                all.stand(self.id, Standing::User);
                Ok(())
            }
            // The places that passwords wait for are theirs.
            Some((Standing::Stranger, places)) if all.users + all.candidates < places.users => {
                all.stand(self.id, Standing::User);
                Ok(())
            }
            _ => Err(Full),
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut all = self.admission.everybody();
        if let Some((Standing::Candidate, _)) = all.standing(self.id) {
            all.stand(self.id, Standing::Leaving);
            all.admit(self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: Places = Places {
        users: 1000,
        strangers: 8,
        per_host: 4,
    };

    fn admission() -> Arc<Admission> {
        Arc::new(Admission::default())
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Connections from as many hosts.
    fn crowd(admission: &Arc<Admission>, places: Places, many: u8) -> Vec<Place> {
        (0..many)
            .map(|n| admission.enter(places, [192, 0, 2, n].into()).unwrap())
            .collect()
    }

    fn rang(place: &mut Place) -> bool {
        place
            .poll_give_way(&mut Context::from_waker(std::task::Waker::noop()))
            .is_ready()
    }

    fn staying(crowd: &mut [Place]) -> usize {
        crowd
            .iter_mut()
            .filter_map(|place| (!rang(place)).then_some(()))
            .count()
    }

    #[test]
    fn places_of_users_run_out_and_come_back() {
        let (admission, places) = (admission(), Places { users: 2, ..PLACES });
        let users = crowd(&admission, places, 2);
        for user in &users {
            user.claim().settle().unwrap();
        }
        assert_eq!(admission.enter(places, ip("::1")).unwrap_err(), Full);
        drop(users);
        assert_eq!(admission.sessions(), 0);
        assert!(admission.enter(places, ip("::1")).is_ok());
    }

    /// Fifty idle connections locked users out of a server of fifty sessions.
    #[test]
    fn strangers_take_no_place_of_users() {
        let (admission, places) = (admission(), Places { users: 2, ..PLACES });
        let strangers = crowd(&admission, places, 100);
        let user = admission.enter(places, ip("2001:db8::1")).unwrap();
        user.claim().settle().unwrap();
        drop(strangers);
    }

    #[test]
    fn in_a_crowd_a_stranger_gives_way_and_nobody_who_logged_in() {
        let admission = admission();
        let mut known = admission.enter(PLACES, ip("::1")).unwrap();
        known.claim().settle().unwrap();
        let mut crowd = crowd(&admission, PLACES, 100);
        assert!(!rang(&mut known));
        assert!(
            !rang(crowd.last_mut().unwrap()),
            "the newest always has its chance"
        );
        assert_eq!(staying(&mut crowd[..99]), 7);
        assert!(
            admission.is_crowded(),
            "until those who were asked to go are gone"
        );
        drop(crowd);
        assert!(!admission.is_crowded());
        let all = admission.everybody();
        assert!(all.strangers.order.is_empty() && all.hosts.is_empty());
        assert_eq!(all.leaving, 0);
    }

    #[test]
    fn a_host_with_too_many_connections_gives_way_to_itself() {
        let admission = admission();
        let mut other = admission.enter(PLACES, ip("192.0.2.1")).unwrap();
        // All of one host: the same address mapped into IPv6, and one /64.
        for addresses in [
            ["192.0.2.2", "::ffff:192.0.2.2"],
            ["2001:db8::1", "2001:db8::2:3:4:5"],
        ] {
            let mut flood: Vec<Place> = (0..50)
                .map(|n| admission.enter(PLACES, ip(addresses[n % 2])).unwrap())
                .collect();
            assert_eq!(staying(&mut flood), 4);
            assert!(!rang(&mut other));
        }
    }

    #[test]
    fn while_its_password_is_looked_at_a_connection_is_no_stranger() {
        let admission = admission();
        let mut asking = admission.enter(PLACES, ip("::1")).unwrap();
        let claim = asking.claim();
        let flood = crowd(&admission, PLACES, 200);
        assert!(!rang(&mut asking));
        // Wrong: from here on it may have to go like any other.
        drop(claim);
        drop(flood);
        let _flood = crowd(&admission, PLACES, 200);
        assert!(rang(&mut asking));
        assert_eq!(asking.claim().settle(), Err(Full), "it was asked to go");
    }

    #[test]
    fn a_place_that_a_password_waits_for_goes_to_no_other_login() {
        let (admission, places) = (admission(), Places { users: 1, ..PLACES });
        let crowd = crowd(&admission, places, 2);
        let (first, second) = (crowd[0].claim(), crowd[1].claim());
        assert_eq!(second.settle(), Err(Full));
        // It was wrong.
        drop(first);
        assert_eq!(second.settle(), Ok(()));
        assert_eq!(crowd[0].claim().settle(), Err(Full));
    }

    #[test]
    fn claims_are_no_more_than_there_are_places_of_users() {
        let (admission, places) = (admission(), Places { users: 3, ..PLACES });
        let mut crowd = crowd(&admission, places, 8);
        let claims: Vec<Claim> = crowd.iter().map(Place::claim).collect();
        assert_eq!(admission.everybody().candidates, 3);
        // The other five are strangers still, of whom any may go.
        let more: Vec<Place> = (0..100)
            .map(|n| admission.enter(places, [198, 51, 100, n].into()).unwrap())
            .collect();
        assert_eq!(staying(&mut crowd[..3]), 3);
        assert!(staying(&mut crowd[3..]) < 5);
        let settled = claims.iter().filter(|claim| claim.settle().is_ok());
        assert_eq!(settled.count(), 3);
        drop((claims, more));
        assert_eq!(admission.everybody().users, 3);
    }
}
