//! `Gate`: decides who comes in, at the same pace for names that exist and names that do not.

mod password;
mod throttle;
mod users;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use ftp_wire::command::Secret;
use gridftp_dsi::{DsiPath, User};
use tokio::sync::Semaphore;
use tokio::task;
use tokio::time::{self, Instant};

pub use self::password::{BadHash, Hashed};
use self::throttle::Throttle;
pub use self::users::{Account, BadUsers, Users, is_name};
use crate::config::{Access, Policy};

/// Failures remembered at a time; each costs some 50 bytes.
const REMEMBERED: usize = 10_000;

/// Where anonymous sessions and accounts without a home start.
const ROOT: &[u8] = b"/";

/// The server's door: one for all sessions.
#[derive(Debug)]
pub(crate) struct Gate {
    throttle: Mutex<Throttle>,
    /// Hashing takes tens of megabytes and a whole core: at most one try a core at a time.
    hashing: Semaphore,
}

/// Somebody who came in.
#[derive(Debug, Clone)]
pub(crate) struct Admitted {
    /// On whose behalf the session works.
    pub(crate) user: User,
    /// Whether a password was checked.
    pub(crate) by_password: bool,
}

/// Why somebody did not come in; the peer is told no more than that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum Refused {
    /// Wrong name or password.
    Incorrect,
    /// Too many failures; the password was not even looked at.
    LockedOut,
}

impl Gate {
    pub(crate) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            throttle: Mutex::new(Throttle::new(REMEMBERED)),
            hashing: Semaphore::new(cores),
        }
    }

    /// Checks a name and a password from an address.
    ///
    /// A refusal is answered when the policy's delay is over, counted from the start, so that neither its
    /// cause nor the existence of the name shows in the time it takes.
    ///
    /// # Cancel safety
    /// Dropped before a password was found wrong, no failure is counted; a hash being computed runs to its end on
    /// its thread.
    pub(crate) async fn login(
        &self,
        policy: &Arc<Policy>,
        name: &str,
        password: &Secret,
        from: IpAddr,
    ) -> Result<Admitted, Refused> {
        if let Some(access) = policy.anonymous.filter(|_| is_anonymous(name)) {
            return Ok(admit("anonymous", root(), access == Access::Rw, false));
        }
        let start = Instant::now();
        let refused = match self.check(policy, name, password, from).await {
            Ok(admitted) => return Ok(admitted),
            Err(refused) => refused,
        };
        time::sleep_until(start + policy.login_delay).await;
        Err(refused)
    }

    async fn check(
        &self,
        policy: &Arc<Policy>,
        name: &str,
        password: &Secret,
        from: IpAddr,
    ) -> Result<Admitted, Refused> {
        let rule = throttle::Policy {
            attempts: policy.login_attempts,
            lockout: policy.lockout,
        };
        let key = self.throttle().key(name, from);
        // Before the look at the table: tries that come all at once must not all be too early for it.
        let Ok(_turn) = self.hashing.acquire().await else {
            return Err(Refused::Incorrect);
        };
        if self
            .throttle()
            .is_locked(Instant::now().into_std(), key, rule)
        {
            tracing::warn!(user = ?name, peer = %from, "login refused: locked out");
            return Err(Refused::LockedOut);
        }
        if self.verify(policy, name, password).await
            && let Some(account) = policy.users.get(name)
        {
            self.throttle().succeeded(key);
            return Ok(admit(name, account.home.clone(), account.may_write, true));
        }
        let locked = self.throttle().failed(Instant::now().into_std(), key, rule);
        tracing::warn!(user = ?name, peer = %from, locked, "login refused: wrong name or password");
        Err(Refused::Incorrect)
    }

    /// Hashes on a thread of its own kind; for an unknown name, against another account's hash.
    async fn verify(&self, policy: &Arc<Policy>, name: &str, password: &Secret) -> bool {
        let account = policy.users.get(name);
        let known = account.is_some();
        let Some(hash) = account
            .map(|account| &account.hash)
            .or_else(|| policy.users.decoy())
            .cloned()
        else {
            return false;
        };
        let password = password.clone();
        let matches = task::spawn_blocking(move || hash.verify(password.reveal())).await;
        known && matches.unwrap_or(false)
    }

    fn throttle(&self) -> std::sync::MutexGuard<'_, Throttle> {
        self.throttle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_anonymous(name: &str) -> bool {
    name.eq_ignore_ascii_case("anonymous") || name.eq_ignore_ascii_case("ftp")
}

fn root() -> DsiPath {
    DsiPath::new(ROOT).expect("`/` is absolute")
}

fn admit(name: &str, home: DsiPath, may_write: bool, by_password: bool) -> Admitted {
    Admitted {
        user: User::new(name, home, may_write),
        by_password,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::{Config, Options};

    /// A policy with the account `ann`, password `open sesame`, and the given options.
    fn policy(change: impl FnOnce(&mut Options)) -> Arc<Policy> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("users");
        let hash = "$6$rounds=1000$salt$c/rx876elUtSjHtqzbR4t4bBD/c0LZyMkaP8WcR76l0qH4uuR/u2OObFJW77Apnmy6G3yYLi4kU2yXpy3CXj60";
        std::fs::write(&path, format!("ann:{hash}:ro:/data\n")).unwrap();
        let mut options = Options {
            users: Some(path),
            ..Options::default()
        };
        change(&mut options);
        Config::check(&options).unwrap().policy
    }

    async fn try_login(
        gate: &Gate,
        policy: &Arc<Policy>,
        name: &str,
        password: &str,
    ) -> Result<Admitted, Refused> {
        gate.login(policy, name, &Secret::new(password), [127, 0, 0, 1].into())
            .await
    }

    #[tokio::test]
    async fn the_right_password_gives_the_account() {
        let (gate, policy) = (Gate::new(), policy(|_| ()));
        let admitted = try_login(&gate, &policy, "ann", "open sesame")
            .await
            .unwrap();
        assert!(admitted.by_password && !admitted.user.may_write);
        assert_eq!(admitted.user.home.as_bytes(), b"/data");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_takes_the_delay_whatever_its_cause() {
        let (gate, policy) = (Gate::new(), policy(|o| o.login_delay = Some(7)));
        for (name, password) in [
            ("ann", "wrong"),
            ("nobody", "open sesame"),
            ("anonymous", "a@b"),
        ] {
            let start = Instant::now();
            let refused = try_login(&gate, &policy, name, password).await.unwrap_err();
            assert_eq!(refused, Refused::Incorrect);
            assert!(
                start.elapsed() >= Duration::from_secs(7),
                "{name}: {:?}",
                start.elapsed()
            );
        }
    }

    #[tokio::test]
    async fn failures_lock_out_even_the_right_password() {
        let (gate, policy) = (
            Gate::new(),
            policy(|o| {
                o.login_delay = Some(0);
                o.login_attempts = Some(2);
            }),
        );
        for _ in 0..2 {
            assert_eq!(
                try_login(&gate, &policy, "ann", "x").await.unwrap_err(),
                Refused::Incorrect
            );
        }
        assert_eq!(
            try_login(&gate, &policy, "ann", "open sesame")
                .await
                .unwrap_err(),
            Refused::LockedOut
        );
    }

    #[tokio::test]
    async fn tries_all_at_once_are_locked_out_too() {
        let gate = Arc::new(Gate::new());
        let policy = policy(|o| {
            o.login_delay = Some(0);
            o.login_attempts = Some(2);
        });
        let tries: Vec<_> = (0..40)
            .map(|_| {
                let (gate, policy) = (Arc::clone(&gate), Arc::clone(&policy));
                task::spawn(async move { try_login(&gate, &policy, "ann", "x").await })
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
        let gate = Gate::new();
        let open = policy(|o| o.anonymous = Some(Access::Ro));
        let admitted = try_login(&gate, &open, "ftp", "guest@").await.unwrap();
        assert!(!admitted.by_password && !admitted.user.may_write);
        assert_eq!(admitted.user.name, "anonymous");
        let closed = policy(|o| o.login_delay = Some(0));
        assert!(
            try_login(&gate, &closed, "anonymous", "guest@")
                .await
                .is_err()
        );
    }
}
