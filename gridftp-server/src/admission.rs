//! `Admission`: limits on sessions, logged in or not, and the eviction of unauthenticated
//! connections.

use std::collections::HashMap;
use std::future::Future;
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

use self::shares::Shares;

mod shares;

/// Connections that may be closing while new ones are accepted.
const MAX_CLOSING: usize = 16;

/// Limits on the number of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionLimits {
    /// Sessions that are logged in.
    pub(crate) users: usize,
    /// Connections that are not.
    pub(crate) unauthenticated: usize,
    /// Connections of one host that are not logged in.
    pub(crate) per_host: usize,
}

/// The limit on logged-in sessions is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

/// Counts connections; all of them share it.
#[derive(Debug, Default)]
pub(crate) struct Admission(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    next: u64,
    connections: HashMap<u64, Connection>,
    users: usize,
    /// Connections whose password is being verified.
    authenticating: usize,
    /// Evicted connections, and those between two statuses.
    closing: usize,
    /// Unauthenticated connections.
    unauthenticated: usize,
    /// Those of each host.
    shares: Shares,
}

#[derive(Debug)]
struct Connection {
    host: IpAddr,
    limits: SessionLimits,
    status: Status,
    /// Tells the session to end.
    evict: Option<oneshot::Sender<()>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    /// May be evicted.
    Unauthenticated,
    /// Is not evicted while its password is verified.
    Authenticating,
    LoggedIn,
    /// Was evicted.
    Closing,
}

/// Counts one connection for as long as it lives.
#[derive(Debug)]
pub(crate) struct SessionPermit {
    admission: Arc<Admission>,
    id: u64,
    /// Completes when the connection is evicted; `None` once it no longer can.
    evicted: Option<oneshot::Receiver<()>>,
}

/// Reserves the session of a user while a password is verified: the connection is not evicted
/// meanwhile.
///
/// Dropped without [`Reservation::commit`], it makes the connection unauthenticated again.
#[derive(Debug)]
pub(crate) struct Reservation {
    admission: Arc<Admission>,
    id: u64,
}

/// The host that a connection counts for: an IPv4 address, or an IPv6 /64, all of whose addresses
/// one host may use.
pub(crate) fn host(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
        v4 => v4,
    }
}

impl Admission {
    /// Counts a new connection.
    ///
    /// At a limit on unauthenticated connections the oldest one of a host is evicted: of the same
    /// host at the limit of a host, else of the host that has most. Among hosts that have equally
    /// many one is picked at random: a client that logs in at once is hardly ever evicted, however
    /// many hosts a flood of idle connections comes from.
    ///
    /// # Errors
    /// [`Full`] at the limit on logged-in sessions: a login could not succeed.
    pub(crate) fn enter(
        self: &Arc<Self>,
        limits: SessionLimits,
        from: IpAddr,
    ) -> Result<SessionPermit, Full> {
        let mut table = self.lock();
        if table.users >= limits.users {
            return Err(Full);
        }
        let (evict, evicted) = oneshot::channel();
        let id = table.next;
        table.next += 1;
        let connection = Connection {
            host: host(from),
            limits,
            status: Status::Closing,
            evict: Some(evict),
        };
        table.connections.insert(id, connection);
        table.closing += 1;
        table.admit(id);
        Ok(SessionPermit {
            admission: Arc::clone(self),
            id,
            evicted: Some(evicted),
        })
    }

    /// Returns the number of connections.
    pub(crate) fn sessions(&self) -> usize {
        self.lock().connections.len()
    }

    /// Says whether accepting must pause: so many evicted connections still hold their
    /// descriptors.
    pub(crate) fn is_closing_many(&self) -> bool {
        self.lock().closing >= MAX_CLOSING
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Makes a connection unauthenticated, and evicts others at the limits.
    fn admit(&mut self, id: u64) {
        let Some((host, limits)) = self.connections.get(&id).map(|c| (c.host, c.limits)) else {
            return;
        };
        while let Some(oldest) = self.shares.oldest_of(host, limits.per_host.max(1)) {
            self.evict(oldest);
        }
        while self.unauthenticated >= limits.unauthenticated.max(1)
            && let Some(oldest) = self.shares.oldest_of_noisiest(self.next)
        {
            self.evict(oldest);
        }
        self.set_status(id, Status::Unauthenticated);
    }

    fn evict(&mut self, id: u64) {
        self.set_status(id, Status::Closing);
        if let Some(evict) = self.connections.get_mut(&id).and_then(|c| c.evict.take()) {
            // The receiver is gone where the session is ending by itself.
            let _ = evict.send(());
        }
    }

    /// Changes the status of a connection and the counts.
    fn set_status(&mut self, id: u64, status: Status) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let before = std::mem::replace(&mut connection.status, status);
        let host = connection.host;
        match before {
            Status::Unauthenticated => {
                self.unauthenticated -= 1;
                self.shares.change(host, |of_host| of_host.remove(&id));
            }
            Status::Authenticating => self.authenticating -= 1,
            Status::LoggedIn => self.users -= 1,
            Status::Closing => self.closing -= 1,
        }
        match status {
            Status::Unauthenticated => {
                self.unauthenticated += 1;
                self.shares.change(host, |of_host| of_host.insert(id));
            }
            Status::Authenticating => self.authenticating += 1,
            Status::LoggedIn => self.users += 1,
            Status::Closing => self.closing += 1,
        }
    }

    fn status(&self, id: u64) -> Option<(Status, SessionLimits)> {
        let connection = self.connections.get(&id)?;
        Some((connection.status, connection.limits))
    }
}

impl SessionPermit {
    /// Waits until the connection is evicted.
    pub(crate) fn poll_evicted(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(evicted) = &mut self.evicted else {
            return Poll::Pending;
        };
        let told = ready!(Pin::new(evicted).poll(cx));
        self.evicted = None;
        if told.is_ok() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Reserves the session of a user while a password is verified.
    ///
    /// Where all are reserved or in use, the connection remains unauthenticated meanwhile: it may
    /// be evicted, and gets its answer if it is not.
    pub(crate) fn reserve(&self) -> Reservation {
        let mut table = self.admission.lock();
        if let Some((Status::Unauthenticated, limits)) = table.status(self.id)
            && table.users + table.authenticating < limits.users
        {
            table.set_status(self.id, Status::Authenticating);
        }
        Reservation {
            admission: Arc::clone(&self.admission),
            id: self.id,
        }
    }
}

impl Drop for SessionPermit {
    fn drop(&mut self) {
        let mut table = self.admission.lock();
        table.set_status(self.id, Status::Closing);
        table.closing -= 1;
        table.connections.remove(&self.id);
    }
}

impl Reservation {
    /// Makes the connection a logged-in session.
    ///
    /// # Errors
    /// [`Full`] when the limit was reached meanwhile, or the connection was evicted.
    pub(crate) fn commit(&self) -> Result<(), Full> {
        let mut table = self.admission.lock();
        match table.status(self.id) {
            Some((Status::Authenticating, limits)) if table.users < limits.users => {
                table.set_status(self.id, Status::LoggedIn);
                Ok(())
            }
            // Reserved sessions are left to their connections.
            Some((Status::Unauthenticated, limits))
                if table.users + table.authenticating < limits.users =>
            {
                table.set_status(self.id, Status::LoggedIn);
                Ok(())
            }
            _ => Err(Full),
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut table = self.admission.lock();
        if let Some((Status::Authenticating, _)) = table.status(self.id) {
            table.set_status(self.id, Status::Closing);
            table.admit(self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: SessionLimits = SessionLimits {
        users: 1000,
        unauthenticated: 8,
        per_host: 4,
    };

    fn admission() -> Arc<Admission> {
        Arc::new(Admission::default())
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Returns connections from `many` hosts.
    fn crowd(admission: &Arc<Admission>, limits: SessionLimits, many: u8) -> Vec<SessionPermit> {
        (0..many)
            .map(|n| admission.enter(limits, [192, 0, 2, n].into()).unwrap())
            .collect()
    }

    fn evicted(permit: &mut SessionPermit) -> bool {
        permit
            .poll_evicted(&mut Context::from_waker(std::task::Waker::noop()))
            .is_ready()
    }

    fn remaining(crowd: &mut [SessionPermit]) -> usize {
        crowd
            .iter_mut()
            .filter_map(|permit| (!evicted(permit)).then_some(()))
            .count()
    }

    #[test]
    fn user_sessions_run_out_and_are_released() {
        let (admission, limits) = (admission(), SessionLimits { users: 2, ..LIMITS });
        let users = crowd(&admission, limits, 2);
        for user in &users {
            user.reserve().commit().unwrap();
        }
        assert_eq!(admission.enter(limits, ip("::1")).unwrap_err(), Full);
        drop(users);
        assert_eq!(admission.sessions(), 0);
        assert!(admission.enter(limits, ip("::1")).is_ok());
    }

    /// Fifty idle connections locked users out of a server of fifty sessions.
    #[test]
    fn unauthenticated_connections_do_not_count_as_users() {
        let (admission, limits) = (admission(), SessionLimits { users: 2, ..LIMITS });
        let unauthenticated = crowd(&admission, limits, 100);
        let user = admission.enter(limits, ip("2001:db8::1")).unwrap();
        user.reserve().commit().unwrap();
        drop(unauthenticated);
    }

    #[test]
    fn at_the_limit_unauthenticated_connections_are_evicted_and_no_users() {
        let admission = admission();
        let mut known = admission.enter(LIMITS, ip("::1")).unwrap();
        known.reserve().commit().unwrap();
        let mut crowd = crowd(&admission, LIMITS, 100);
        assert!(!evicted(&mut known));
        assert!(
            !evicted(crowd.last_mut().unwrap()),
            "the newest is not evicted"
        );
        assert_eq!(remaining(&mut crowd[..99]), 7);
        assert!(
            admission.is_closing_many(),
            "until the evicted ones are gone"
        );
        drop(crowd);
        assert!(!admission.is_closing_many());
        let table = admission.lock();
        assert!(table.unauthenticated == 0 && table.shares.is_empty());
        assert_eq!(table.closing, 0);
    }

    #[test]
    fn a_host_at_its_limit_evicts_its_own_connections() {
        let admission = admission();
        let mut other = admission.enter(LIMITS, ip("192.0.2.1")).unwrap();
        // All of one host: the same address mapped into IPv6, and one /64.
        for addresses in [
            ["192.0.2.2", "::ffff:192.0.2.2"],
            ["2001:db8::1", "2001:db8::2:3:4:5"],
        ] {
            let mut flood: Vec<SessionPermit> = (0..50)
                .map(|n| admission.enter(LIMITS, ip(addresses[n % 2])).unwrap())
                .collect();
            assert_eq!(remaining(&mut flood), 4);
            assert!(!evicted(&mut other));
        }
    }

    /// Row 6 of the hostile input: the host that has most makes room, and its oldest goes first.
    #[test]
    fn the_oldest_connections_of_the_noisiest_host_go_first() {
        let admission = admission();
        let mut noisy: Vec<SessionPermit> = (0..4)
            .map(|_| admission.enter(LIMITS, ip("198.51.100.1")).unwrap())
            .collect();
        let mut quiet = crowd(&admission, LIMITS, 4);
        for next in 0..3 {
            assert!(noisy[next..].iter_mut().all(|permit| !evicted(permit)));
            let more = [203, 0, 113, u8::try_from(next).unwrap()];
            quiet.push(admission.enter(LIMITS, more.into()).unwrap());
            assert!(evicted(&mut noisy[next]), "{next}");
        }
        assert!(!evicted(&mut noisy[3]));
        assert_eq!(remaining(&mut quiet), 7);
    }

    /// Were the oldest of all to go, a flood of enough hosts would leave nobody the time to log in.
    #[test]
    fn a_client_may_outlast_a_flood_of_many_hosts() {
        let outlasts = |hosts: u8| {
            let admission = admission();
            let mut honest = admission.enter(LIMITS, ip("::1")).unwrap();
            let flood: Vec<SessionPermit> = (0..24)
                .map(|n| {
                    admission
                        .enter(LIMITS, [192, 0, 2, n % hosts].into())
                        .unwrap()
                })
                .collect();
            let outlasts = !evicted(&mut honest);
            drop(flood);
            outlasts
        };
        let lucky = (0..400).filter(|_| outlasts(24)).count();
        assert!((1..200).contains(&lucky), "{lucky} of 400");
        // Hosts that have more give way to it.
        assert!((0..10).all(|_| outlasts(4)));
    }

    #[test]
    fn a_connection_is_not_evicted_while_its_password_is_verified() {
        let admission = admission();
        let mut asking = admission.enter(LIMITS, ip("::1")).unwrap();
        let reservation = asking.reserve();
        let flood = crowd(&admission, LIMITS, 200);
        assert!(!evicted(&mut asking));
        // The password was wrong.
        drop(reservation);
        drop(flood);
        let _flood = crowd(&admission, LIMITS, 200);
        assert!(evicted(&mut asking));
        assert_eq!(asking.reserve().commit(), Err(Full), "it was evicted");
    }

    #[test]
    fn a_reserved_session_goes_to_no_other_login() {
        let (admission, limits) = (admission(), SessionLimits { users: 1, ..LIMITS });
        let crowd = crowd(&admission, limits, 2);
        let (first, second) = (crowd[0].reserve(), crowd[1].reserve());
        assert_eq!(second.commit(), Err(Full));
        // The password was wrong.
        drop(first);
        assert_eq!(second.commit(), Ok(()));
        assert_eq!(crowd[0].reserve().commit(), Err(Full));
    }

    #[test]
    fn reservations_are_bounded_by_the_limit_on_users() {
        let (admission, limits) = (admission(), SessionLimits { users: 3, ..LIMITS });
        let mut crowd = crowd(&admission, limits, 8);
        let reservations: Vec<Reservation> = crowd.iter().map(SessionPermit::reserve).collect();
        assert_eq!(admission.lock().authenticating, 3);
        // The other five remain unauthenticated, and any of them may be evicted.
        let more: Vec<SessionPermit> = (0..100)
            .map(|n| admission.enter(limits, [198, 51, 100, n].into()).unwrap())
            .collect();
        assert_eq!(remaining(&mut crowd[..3]), 3);
        assert!(remaining(&mut crowd[3..]) < 5);
        let settled = reservations
            .iter()
            .filter(|reservation| reservation.commit().is_ok());
        assert_eq!(settled.count(), 3);
        drop((reservations, more));
        assert_eq!(admission.lock().users, 3);
    }
}
