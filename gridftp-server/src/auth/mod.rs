//! `Authenticator`: verifies logins, in the same time for known and unknown names.

mod hashing;
mod password;
mod throttle;
mod users;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ftp_proto::security::is_anonymous;
use ftp_wire::command::Secret;
use gridftp_dsi::{DsiPath, User};
use tokio::sync::oneshot;
use tokio::time::{self, Instant};

use self::hashing::{Hashing, Memory};
pub use self::password::{BadHash, Hashed, LONGEST};
use self::throttle::Throttle;
pub use self::users::{Account, BadUsers, Users, is_name};
use crate::admission::{self, Reservation};
use crate::config::{Access, Policy};

/// Failures remembered at a time; each costs some 50 bytes.
const REMEMBERED: usize = 10_000;

/// Home of anonymous sessions and of accounts without one.
const ROOT: &[u8] = b"/";

/// Verifies the logins of all sessions.
#[derive(Debug)]
pub(crate) struct Authenticator {
    throttle: Arc<Mutex<Throttle>>,
    hashing: Arc<Hashing>,
}

/// A successful login.
#[derive(Debug, Clone)]
pub(crate) struct Admitted {
    /// The user of the session.
    pub(crate) user: User,
    /// Whether a password was checked, or a certificate.
    pub(crate) by_password: bool,
}

/// The reason for a refused login; the peer is told no more than that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// Wrong name or password.
    #[error("wrong name or password")]
    Incorrect,
    /// Too many failures; the password was not verified.
    #[error("too many failures, try again later")]
    LockedOut,
    /// The limit on logged-in sessions is reached.
    #[error("all sessions are taken, try again later")]
    Full,
    /// There was no thread to verify the password.
    #[error("the password could not be checked, try again later")]
    Busy,
}

/// A name and a password to verify.
struct Try {
    policy: Arc<Policy>,
    name: String,
    password: Secret,
    from: IpAddr,
    throttle: Arc<Mutex<Throttle>>,
}

impl Authenticator {
    pub(crate) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            throttle: Arc::new(Mutex::new(Throttle::new(REMEMBERED))),
            hashing: Hashing::new(cores),
        }
    }

    /// Verifies a name and a password from an address; a successful login commits `reservation`.
    ///
    /// A refusal returns after the policy's delay, counted from the start, so that its time shows
    /// neither the cause nor whether the name exists.
    ///
    /// # Cancel safety
    /// Dropped before its turn, the password is not verified. A verification that has begun
    /// continues to its end, the count of a failure included.
    pub(crate) async fn login(
        &self,
        policy: Arc<Policy>,
        name: String,
        password: Secret,
        from: IpAddr,
        reservation: Reservation,
    ) -> Result<Admitted, Refused> {
        let (start, delay) = (Instant::now(), policy.login_delay);
        let result = match policy.anonymous.filter(|_| is_anonymous(&name)) {
            Some(access) => Ok(admit("anonymous", root(), access == Access::Rw, false)),
            None => self.check(policy, name, password, from).await,
        };
        match result {
            Ok(admitted) => match reservation.commit() {
                Ok(()) => Ok(admitted),
                Err(admission::Full) => Err(Refused::Full),
            },
            Err(refused) => {
                // A refused login reserves no session during the delay.
                drop(reservation);
                time::sleep_until(start + delay).await;
                Err(refused)
            }
        }
    }

    async fn check(
        &self,
        policy: Arc<Policy>,
        name: String,
        password: Secret,
        from: IpAddr,
    ) -> Result<Admitted, Refused> {
        let turn = self.hashing.turn(admission::host(from)).await;
        let turn = turn.ok_or(Refused::Busy)?;
        let (tell, told) = oneshot::channel();
        let this = Try {
            policy,
            name,
            password,
            from,
            throttle: Arc::clone(&self.throttle),
        };
        // The turn and the count of failures belong to the thread, so that both hold after a
        // hang-up.
        let work = move |memory: &mut Memory| {
            let verdict = this.verdict(memory);
            // The password is erased before the reply.
            drop(this);
            // The receiver is gone where the session has ended.
            let _ = tell.send(verdict);
        };
        if let Err(error) = turn.run(work) {
            tracing::error!(%error, "no thread to check a password on");
            return Err(Refused::Busy);
        }
        told.await.unwrap_or(Err(Refused::Busy))
    }
}

impl Try {
    /// Verifies the password, and counts a failure.
    fn verdict(&self, memory: &mut Memory) -> Result<Admitted, Refused> {
        let (name, peer) = (&self.name, self.from);
        let rule = throttle::Policy {
            attempts: self.policy.login_attempts,
            lockout: self.policy.lockout,
        };
        let key = self.throttle().key(name, peer);
        // After the wait for a turn: simultaneous attempts must not all pass the check.
        let now = Instant::now().into_std();
        if self.throttle().is_locked(now, key, rule) {
            tracing::warn!(user = ?name, %peer, "login refused: locked out");
            return Err(Refused::LockedOut);
        }
        let account = self.policy.users.get(name);
        let hash = account.and_then(|account| account.hash.as_ref());
        if let (Some(account), Some(hash)) = (account, hash)
            && self.matches(hash, memory)
        {
            self.throttle().succeeded(key);
            return Ok(admit(name, account.home.clone(), account.may_write, true));
        }
        if hash.is_none()
            && let Some(decoy) = self.policy.users.decoy(name)
        {
            self.matches(decoy, memory);
        }
        let now = Instant::now().into_std();
        let locked = self.throttle().failed(now, key, rule);
        tracing::warn!(user = ?name, %peer, locked, "login refused: wrong name or password");
        Err(Refused::Incorrect)
    }

    fn matches(&self, hash: &Hashed, memory: &mut Memory) -> bool {
        let password = self.password.reveal();
        let matches = password.len() <= LONGEST && hash.verify(password, memory);
        overwrite_stack();
        matches
    }

    fn throttle(&self) -> MutexGuard<'_, Throttle> {
        self.throttle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Overwrites the part of this thread's stack below the caller: hashing leaves copies of the
/// password there.
#[inline(never)]
fn overwrite_stack() {
    std::hint::black_box(&mut [0u8; 16 << 10]);
}

/// Logs in a user whose certificate was verified; the account gives home and access.
pub(crate) fn certified(
    policy: &Policy,
    name: &str,
    reservation: Reservation,
) -> Result<Admitted, Refused> {
    let account = policy.users.get(name).ok_or(Refused::Incorrect)?;
    given(
        admit(name, account.home.clone(), account.may_write, true),
        reservation,
    )
}

/// Logs in a user of the grid-mapfile: an account of the same name gives home and access; without
/// one it is the root, with the access of `gridmap-access`.
pub(crate) fn mapped(
    policy: &Policy,
    name: &str,
    reservation: Reservation,
) -> Result<Admitted, Refused> {
    let admitted = match policy.users.get(name) {
        Some(account) => admit(name, account.home.clone(), account.may_write, true),
        None => admit(name, root(), policy.gridmap_access == Access::Rw, true),
    };
    given(admitted, reservation)
}

/// Logs in the person to whom the control connection belongs.
pub(crate) fn given(person: Admitted, reservation: Reservation) -> Result<Admitted, Refused> {
    reservation
        .commit()
        .map_err(|admission::Full| Refused::Full)?;
    Ok(person)
}

fn root() -> DsiPath {
    DsiPath::new(ROOT).expect("`/` is absolute")
}

pub(crate) fn admit(name: &str, home: DsiPath, may_write: bool, by_password: bool) -> Admitted {
    Admitted {
        user: User::new(name, home, may_write),
        by_password,
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};
    use std::time::Duration;

    use argon2::Argon2;
    use argon2::password_hash::PasswordHasher as _;
    use tokio::task;

    use super::*;
    use crate::admission::{Admission, SessionLimits};
    use crate::config::{Config, Options};

    const OPEN_SESAME: &str = "$6$rounds=1000$salt$c/rx876elUtSjHtqzbR4t4bBD/c0LZyMkaP8WcR76l0qH4uuR/u2OObFJW77Apnmy6G3yYLi4kU2yXpy3CXj60";

    /// A policy with the account `ann`, password `open sesame`, and the given options.
    fn policy(change: impl FnOnce(&mut Options)) -> Arc<Policy> {
        policy_of(OPEN_SESAME, change)
    }

    /// The same with another hash.
    fn policy_of(hash: &str, change: impl FnOnce(&mut Options)) -> Arc<Policy> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("users");
        std::fs::write(&path, format!("ann:{hash}:ro:/data\n")).unwrap();
        let mut options = Options {
            users: Some(path),
            ..Options::default()
        };
        change(&mut options);
        Config::check(&options).unwrap().policy
    }

    async fn try_login(
        authenticator: &Authenticator,
        policy: &Arc<Policy>,
        name: &str,
        password: &str,
    ) -> Result<Admitted, Refused> {
        let limits = SessionLimits {
            users: 1,
            unauthenticated: 1,
            per_host: 1,
        };
        let from = [127, 0, 0, 1].into();
        let permit = Arc::new(Admission::default()).enter(limits, from).unwrap();
        authenticator
            .login(
                Arc::clone(policy),
                name.to_owned(),
                Secret::new(password),
                from,
                permit.reserve(),
            )
            .await
    }

    /// Waits until no password is being verified.
    async fn nobody_hashes(authenticator: &Authenticator) {
        let mut turns = Vec::new();
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            turns.push(
                authenticator
                    .hashing
                    .turn([127, 0, 0, 1].into())
                    .await
                    .unwrap(),
            );
        }
    }

    #[tokio::test]
    async fn the_right_password_gives_the_account() {
        let (authenticator, policy) = (Authenticator::new(), policy(|_| ()));
        let admitted = try_login(&authenticator, &policy, "ann", "open sesame")
            .await
            .unwrap();
        assert!(admitted.by_password && !admitted.user.may_write);
        assert_eq!(admitted.user.home.as_bytes(), b"/data");
    }

    /// Row 12 of the hostile input.
    #[tokio::test(start_paused = true)]
    async fn a_refusal_takes_the_delay_whatever_its_cause() {
        let (authenticator, policy) = (Authenticator::new(), policy(|o| o.login_delay = Some(7)));
        for (name, password) in [
            ("ann", "wrong"),
            ("nobody", "open sesame"),
            ("anonymous", "a@b"),
        ] {
            let start = Instant::now();
            let refused = try_login(&authenticator, &policy, name, password)
                .await
                .unwrap_err();
            assert_eq!(refused, Refused::Incorrect);
            assert!(
                start.elapsed() >= Duration::from_secs(7),
                "{name}: {:?}",
                start.elapsed()
            );
        }
    }

    /// Row 12 of the hostile input.
    #[tokio::test]
    async fn failures_lock_out_even_the_right_password() {
        let (authenticator, policy) = (
            Authenticator::new(),
            policy(|o| {
                o.login_delay = Some(0);
                o.login_attempts = Some(2);
            }),
        );
        for _ in 0..2 {
            assert_eq!(
                try_login(&authenticator, &policy, "ann", "x")
                    .await
                    .unwrap_err(),
                Refused::Incorrect
            );
        }
        assert_eq!(
            try_login(&authenticator, &policy, "ann", "open sesame")
                .await
                .unwrap_err(),
            Refused::LockedOut
        );
    }

    #[tokio::test]
    async fn tries_all_at_once_are_locked_out_too() {
        let authenticator = Arc::new(Authenticator::new());
        let policy = policy(|o| {
            o.login_delay = Some(0);
            o.login_attempts = Some(2);
        });
        let tries: Vec<_> = (0..40)
            .map(|_| {
                let (authenticator, policy) = (Arc::clone(&authenticator), Arc::clone(&policy));
                task::spawn(async move { try_login(&authenticator, &policy, "ann", "x").await })
            })
            .collect();
        let mut looked_at = 0;
        for one in tries {
            looked_at += usize::from(one.await.unwrap().unwrap_err() == Refused::Incorrect);
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        assert!(
            looked_at < 2 + cores,
            "{looked_at} passwords were looked at"
        );
    }

    #[tokio::test]
    async fn anonymous_comes_in_only_where_allowed() {
        let authenticator = Authenticator::new();
        let open = policy(|o| o.anonymous = Some(Access::Ro));
        let admitted = try_login(&authenticator, &open, "ftp", "guest@")
            .await
            .unwrap();
        assert!(!admitted.by_password && !admitted.user.may_write);
        assert_eq!(admitted.user.name, "anonymous");
        let closed = policy(|o| o.login_delay = Some(0));
        assert!(
            try_login(&authenticator, &closed, "anonymous", "guest@")
                .await
                .is_err()
        );
    }

    /// A client that hangs up during the verification cannot try the next password at once.
    #[tokio::test]
    async fn a_try_that_is_given_up_keeps_its_turn_and_is_counted() {
        let (authenticator, policy) =
            (Authenticator::new(), policy(|o| o.login_attempts = Some(1)));
        let mut cx = Context::from_waker(Waker::noop());
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let started = {
            // The threads wait while this is held.
            let _held = authenticator.throttle.lock().unwrap();
            for _ in 0..50 {
                let given_up = pin!(try_login(&authenticator, &policy, "ann", "wrong"));
                assert!(given_up.poll(&mut cx).is_pending());
            }
            Arc::strong_count(&authenticator.throttle) - 1
        };
        assert_eq!(started, cores, "tries that are being looked at");
        nobody_hashes(&authenticator).await;
        let refused = try_login(&authenticator, &policy, "ann", "open sesame").await;
        assert_eq!(refused.unwrap_err(), Refused::LockedOut, "it was counted");
    }

    #[tokio::test(start_paused = true)]
    async fn a_password_over_the_bound_is_refused_like_a_wrong_one() {
        let long = "x".repeat(LONGEST + 1);
        let hash = Argon2::default().hash_password(long.as_bytes()).unwrap();
        let authenticator = Authenticator::new();
        let policy = policy_of(&hash.to_string(), |o| {
            o.login_delay = Some(7);
            o.login_attempts = Some(1);
        });
        for refused in [Refused::Incorrect, Refused::LockedOut] {
            let start = Instant::now();
            let result = try_login(&authenticator, &policy, "ann", &long).await;
            assert_eq!(result.unwrap_err(), refused);
            assert!(start.elapsed() >= Duration::from_secs(7));
        }
    }

    /// Row 12 of the hostile input: the work is counted, since times vary.
    #[test]
    fn an_unknown_name_costs_the_hash_that_a_known_one_does() {
        let hash = Hashed::new("open sesame").unwrap();
        let mut used = ["ann", "nobody"].map(|name| {
            let this = Try {
                policy: policy_of(hash.as_str(), |_| ()),
                name: name.to_owned(),
                password: Secret::new("wrong"),
                from: [127, 0, 0, 1].into(),
                throttle: Authenticator::new().throttle,
            };
            let mut memory = Memory::default();
            assert_eq!(this.verdict(&mut memory).unwrap_err(), Refused::Incorrect);
            memory
        });
        let [known, unknown] = used.each_mut().map(|memory| memory.blocks(0).len());
        assert!(known > 0 && known == unknown, "{known}, {unknown} blocks");
    }
}
