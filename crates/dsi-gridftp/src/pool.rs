//! `Upstream`: the server behind the gateway, with a pool of sessions for each credential.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use gridftp_client::error::TransferError;
use gridftp_client::url::{Remote, Scheme};
use gridftp_client::{Client, ConnectOptions, Site};
use gridftp_dsi::{Delegated, DsiPath, Error, ErrorKind, Result, User};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::config::Config;
use crate::entry::join;
use crate::error::{is_refusal, kind, refused, words};
use crate::probe::Probe;
use crate::uploads::{Uploads, hidden};

/// Idle time after which a session is asked for a sign of life before its next use.
const STALE: Duration = Duration::from_secs(5);

/// The server behind the gateway.
pub(crate) struct Upstream {
    pub(crate) site: Site,
    /// The directory there.
    base: Vec<u8>,
    options: ConnectOptions,
    delegated: bool,
    /// The name of this gateway in those of hidden files.
    name: String,
    /// The hidden files in use.
    pub(crate) uploads: Arc<Uploads>,
    /// Age of hidden files that are swept.
    pub(crate) keep: Duration,
    sessions: usize,
    idle: Duration,
    pub(crate) streams: u32,
    pub(crate) end_timeout: Duration,
    pub(crate) probe: Probe,
    /// Whether files can be appended to, once it is known.
    pub(crate) appends: OnceLock<bool>,
    pools: Mutex<Pools>,
}

#[derive(Default)]
struct Pools {
    all: Vec<Arc<Pool>>,
    /// Whether a task closes idle sessions, and removes pools that have none.
    is_reaped: bool,
}

/// The sessions with one credential.
struct Pool {
    /// The user's own credential; `None` for that of the service.
    who: Option<Delegated>,
    options: Arc<ConnectOptions>,
    free: Arc<Semaphore>,
    idle: Mutex<Vec<(Instant, Client)>>,
}

/// The place of a session in its pool.
pub(crate) struct Place {
    up: Arc<Upstream>,
    pool: Arc<Pool>,
    _permit: OwnedSemaphorePermit,
}

/// A session that is taken out of the pool; dropped, it is closed.
pub(crate) struct Session {
    client: Client,
    place: Place,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Upstream {
    pub(crate) fn open(config: &Config) -> Result<Self> {
        let (Remote { site, path, .. }, options) = config.open()?;
        let own = || {
            let system = rustix::system::uname();
            system.nodename().to_string_lossy().into_owned()
        };
        Ok(Self {
            name: config.name.clone().unwrap_or_else(own),
            uploads: Uploads::at(&site.to_string()),
            keep: config.keep,
            site,
            base: path,
            options,
            delegated: config.delegated,
            sessions: config.sessions.max(1),
            idle: config.idle,
            streams: config.streams.max(1),
            end_timeout: config.end_timeout,
            probe: Probe::new()?,
            appends: OnceLock::new(),
            pools: Mutex::default(),
        })
    }

    /// The path at the upstream.
    pub(crate) fn path(&self, path: &DsiPath) -> Vec<u8> {
        join(&self.base, path)
    }

    /// The hidden file of a user's upload.
    pub(crate) fn hidden(&self, user: &User, path: &DsiPath) -> Option<DsiPath> {
        hidden(&self.name, user, path)
    }

    /// Whether users act with the credential that they delegated.
    pub(crate) fn acts_for_users(&self) -> bool {
        self.delegated && self.site.scheme == Scheme::Grid
    }

    /// Whether files can be appended to. Servers other than ours do.
    pub(crate) fn appends(&self) -> bool {
        self.appends.get().copied().unwrap_or(true)
    }

    /// The error of the upstream, in its words.
    pub(crate) fn failed(
        &self,
        op: &'static str,
        path: &DsiPath,
        error: impl Into<TransferError>,
    ) -> Error {
        let error = error.into();
        self.told(kind(&error), op, path, &error)
    }

    /// The same as an error of another kind.
    pub(crate) fn told(
        &self,
        kind: ErrorKind,
        op: &'static str,
        path: &DsiPath,
        error: &TransferError,
    ) -> Error {
        let scheme = self.site.scheme.name();
        refused(kind, op, path, words(scheme, &self.site.to_string(), error))
    }

    /// The pool of the user's credential.
    fn pool(self: &Arc<Self>, user: &User) -> Result<Arc<Pool>, String> {
        let is_grid = self.site.scheme == Scheme::Grid;
        let own = user.credential.as_ref();
        let who = own.filter(|_| self.acts_for_users()).cloned();
        if is_grid && who.is_none() && self.options.grid.credential.is_none() {
            return Err(
                "the session has no delegated credential: log in with one, or give the storage its \
                 cred"
                .to_owned(),
            );
        }
        let mut pools = lock(&self.pools);
        if let Some(pool) = pools.all.iter().find(|pool| pool.who == who) {
            return Ok(Arc::clone(pool));
        }
        let mut options = self.options.clone();
        if let Some(own) = &who {
            let taken = options.grid.use_pem(own.reveal());
            taken.map_err(|error| format!("the delegated credential: {error}"))?;
        }
        let pool = Arc::new(Pool {
            who,
            options: Arc::new(options),
            free: Arc::new(Semaphore::new(self.sessions)),
            idle: Mutex::default(),
        });
        pools.all.push(Arc::clone(&pool));
        // Also without any session: a pool has a credential.
        if !std::mem::replace(&mut pools.is_reaped, true) {
            let every = (self.idle / 2).max(Duration::from_millis(100));
            tokio::spawn(reap(Arc::downgrade(self), every));
        }
        Ok(pool)
    }

    /// A session on behalf of the user: an idle one, or a new one.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] while all are in use, and those of connecting.
    ///
    /// # Cancel safety
    /// Dropping the future closes a session that is being opened.
    pub(crate) async fn session(
        self: &Arc<Self>,
        user: &User,
        op: &'static str,
        path: &DsiPath,
    ) -> Result<Session> {
        let place = self.place(user, op, path).await?;
        loop {
            let idle = lock(&place.pool.idle).pop();
            let Some((since, client)) = idle else { break };
            let is_fresh = since.elapsed() < STALE && !client.is_gone();
            if is_fresh || client.is_alive(STALE).await {
                return Ok(place.session(client));
            }
        }
        let session = self.connect(place, op, path).await?;
        let probed = self.probe.run(&session, &self.base).await;
        probed.map_err(|why| refused(ErrorKind::Denied, op, path, why))?;
        Ok(session)
    }

    /// A new session in place of an idle one, for a probe of another gateway; it is not put back.
    pub(crate) async fn fresh(
        self: &Arc<Self>,
        user: &User,
        op: &'static str,
        path: &DsiPath,
    ) -> Result<Session> {
        let place = self.place(user, op, path).await?;
        drop(lock(&place.pool.idle).pop());
        self.connect(place, op, path).await
    }

    async fn place(
        self: &Arc<Self>,
        user: &User,
        op: &'static str,
        path: &DsiPath,
    ) -> Result<Place> {
        let denied = |why| refused(ErrorKind::Denied, op, path, why);
        let pool = self.pool(user).map_err(denied)?;
        let permit = Arc::clone(&pool.free).acquire_owned();
        let Ok(Ok(permit)) = timeout(self.options.connect_within, permit).await else {
            let (sessions, site) = (self.sessions, &self.site);
            let why = format!("all {sessions} sessions with {site} are in use");
            return Err(refused(ErrorKind::Busy, op, path, why));
        };
        Ok(Place {
            up: Arc::clone(self),
            pool,
            _permit: permit,
        })
    }

    async fn connect(&self, place: Place, op: &'static str, path: &DsiPath) -> Result<Session> {
        let options = Arc::clone(&place.pool.options);
        let connected = Box::pin(Client::connect(&self.site, options)).await;
        let client = connected.map_err(|error| self.failed(op, path, error))?;
        Ok(place.session(client))
    }

    /// Closes sessions that were idle for long; says whether any are left.
    fn reap(&self) -> bool {
        let mut pools = lock(&self.pools);
        pools.all.retain(|pool| {
            let mut idle = lock(&pool.idle);
            idle.retain(|(since, _)| since.elapsed() < self.idle);
            !idle.is_empty() || Arc::strong_count(pool) > 1
        });
        pools.is_reaped = !pools.all.is_empty();
        pools.is_reaped
    }
}

/// Closes idle sessions until no pool is left.
async fn reap(up: Weak<Upstream>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        if !up.upgrade().is_some_and(|up| up.reap()) {
            return;
        }
    }
}

impl Place {
    /// The session that has this place.
    pub(crate) fn session(self, client: Client) -> Session {
        Session {
            client,
            place: self,
        }
    }

    /// Puts a session back, unless it has ended.
    pub(crate) fn put(self, client: Client) {
        if client.is_gone() {
            return;
        }
        lock(&self.pool.idle).push((Instant::now(), client));
    }
}

impl Session {
    /// Takes the session apart, for a transfer.
    pub(crate) fn split(self) -> (Client, Place) {
        (self.client, self.place)
    }

    /// Puts the session back.
    pub(crate) fn put(self) {
        self.place.put(self.client);
    }

    /// Keeps the session for more after a success, and puts it back unless the failure has ended it.
    pub(crate) fn and<T, E: Into<TransferError>>(
        self,
        done: Result<T, E>,
    ) -> Result<(Self, T), TransferError> {
        match done {
            Ok(done) => Ok((self, done)),
            Err(error) => self.end(Err(error)),
        }
    }

    /// Puts the session back unless the failure has ended it.
    pub(crate) fn end<T, E: Into<TransferError>>(
        self,
        done: Result<T, E>,
    ) -> Result<T, TransferError> {
        let done = done.map_err(Into::into);
        if done.as_ref().err().is_none_or(is_refusal) {
            self.put();
        }
        done
    }
}

impl Deref for Session {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for Session {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Upstream({})", self.site.url(&self.base))
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Session").field(&self.place.up).finish()
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Place").field(&self.up).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A credential does not stay in memory because its sessions could not be opened.
    #[tokio::test(start_paused = true)]
    async fn a_pool_without_sessions_is_removed() {
        // Nobody listens there.
        let config = Config::new("ftp://127.0.0.1:1/");
        let up = Arc::new(Upstream::open(&config).unwrap());
        let (user, root) = (User::new("ann", DsiPath::root(), true), DsiPath::root());
        for _ in 0..2 {
            assert!(up.session(&user, "stat", &root).await.is_err());
            assert_eq!(lock(&up.pools).all.len(), 1);
            tokio::time::sleep(up.idle).await;
            assert!(lock(&up.pools).all.is_empty());
        }
    }
}
