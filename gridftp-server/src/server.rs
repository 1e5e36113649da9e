//! `Server`: accepts connections, limits them, runs their sessions, and drains them at its end.

use std::fs::File;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ftp_proto::security::{Demands, Mechanism};
use ftp_proto::server::{Limits, ServerSession, Settings};
use ftp_wire::memory::MemoryLimits;
use gridftp_cluster::Open;
use gridftp_data::{Descriptors, Options, PartMemory};
use gridftp_dsi::Dsi;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{self, MissedTickBehavior};
use xio::{BoxStream, Pool};

use crate::accept::{accept, is_about_the_peer, listen_at_one, refuse_connection};
use crate::action::{Client, Executor};
use crate::admission::{Admission, Full, SessionLimits, SessionPermit};
use crate::auth::{Admitted, Authenticator};
use crate::config::{Config, Policy, ThirdParty};
use crate::control::ControlStream;
use crate::data::{DataSide, Ends, FILE, Measurements, SentGroups, Stacks, offers_udt};
use crate::grid::GridSession;
use crate::nodes::{AskedRate, Front, NodeSide};
use crate::owners::Owners;
use crate::session::Session;

/// Memory for blocks of data, all sessions together.
const POOL: usize = 64 << 20;

/// Divisor for the share of one session in the blocks and the descriptors for data.
const SHARE: usize = 8;

/// Descriptors that one session may always hold: a port, a file, and four connections with their
/// pipes.
const LEAST: usize = 1 + FILE + 4 * 3;

/// Most bytes of an upload out of order, where it is written in order.
const AHEAD: usize = 16 << 10;

/// Most separate ranges of the blocks of one upload.
const RANGES: usize = 2048;

/// Most bytes of a measurement from or to memory.
const MEASURED: u64 = 1 << 40;

/// Interval of returning memory of the pool to the kernel.
const TRIM: Duration = Duration::from_secs(2);

/// Time for sessions to abort their actions after the drain timeout.
const ABORT_TIMEOUT: Duration = Duration::from_secs(3);

/// Time for dropping sessions after that, which may wait for a stuck storage.
const DROP_TIMEOUT: Duration = Duration::from_millis(500);

/// Pause before the next accept when the process is out of descriptors or memory.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Time that a 226 waits for the client to close the data connection of a download, as clients do
/// at its end: aria2 waits for ever if it reads the 226 together with the 150.
const LINGER: Duration = Duration::from_millis(250);

/// A GridFTP server on one address.
///
/// Dropping it, or the future of [`run`](Self::run), ends all its sessions.
pub struct Server<D: Dsi> {
    listener: TcpListener,
    /// For TLS from the first byte.
    tls_listener: Option<TcpListener>,
    address: SocketAddr,
    shared: Arc<Shared<D>>,
}

/// The state shared by all sessions of a server.
pub(crate) struct Shared<D: Dsi> {
    pub(crate) dsi: D,
    pub(crate) config: Config,
    pub(crate) owners: Owners,
    pub(crate) authenticator: Authenticator,
    admission: Arc<Admission>,
    stacks: Arc<Stacks>,
    pool: Pool,
    /// For uploads to storages that take whole parts.
    parts: PartMemory,
    /// For data connections and the files they serve.
    pub(crate) descriptors: Descriptors,
    /// Values of files that were sent in part.
    pub(crate) sent: SentGroups,
    pub(crate) measurements: Measurements,
    rules: Mutex<Rules>,
}

/// The policy of new sessions; replaced as a whole by a reload.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) policy: Arc<Policy>,
    settings: Arc<Settings>,
}

/// The origin of a connected stream.
pub(crate) enum Entry {
    /// The network, with this handshake before the greeting.
    Network(Option<Mechanism>),
    /// Somebody to whom it belongs already: the account of every login.
    Given(Admitted),
}

/// Changes the policy of a running server.
#[derive(Clone)]
pub struct Control<D: Dsi> {
    shared: Arc<Shared<D>>,
}

impl<D: Dsi> Control<D> {
    /// Puts a new policy in force, for sessions that begin after it.
    pub fn set_policy(&self, policy: Arc<Policy>) {
        self.shared.set_policy(policy);
    }

    /// Offers what the storage can do now, to sessions that begin after it.
    pub fn examine_storage(&self) {
        // Under one lock, so that a reload meanwhile stays in force.
        let mut rules = self.shared.lock_rules();
        let shared = &self.shared;
        rules.settings = Arc::new(shared.settings(&rules.policy));
    }

    /// Returns the number of sessions.
    pub fn sessions(&self) -> usize {
        self.shared.admission.sessions()
    }
}

impl<D: Dsi> std::fmt::Debug for Server<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Server({})", self.address)
    }
}

impl<D: Dsi> std::fmt::Debug for Control<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Control({} sessions)", self.sessions())
    }
}

impl<D: Dsi> Server<D> {
    /// Listens at the first address of the configuration that can be bound, and serves `dsi` from
    /// there.
    ///
    /// # Errors
    /// Those of binding the last address that was tried.
    pub fn bind(config: Config, dsi: D) -> io::Result<Self> {
        let listener = listen_at_one(&config.listen)?;
        let address = listener.local_addr()?;
        let tls_listener = match config.listen_tls.as_slice() {
            [] => None,
            addresses => Some(listen_at_one(addresses)?),
        };
        Ok(Self {
            listener,
            tls_listener,
            address,
            shared: Shared::new(config, dsi),
        })
    }

    /// The listening address with its port.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The address for TLS from the first byte, with its port.
    pub fn local_tls_addr(&self) -> Option<SocketAddr> {
        self.tls_listener.as_ref()?.local_addr().ok()
    }

    /// Returns a handle to change the running server.
    pub fn control(&self) -> Control<D> {
        Control {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Serves until `shutdown` completes. Then accepts no more connections and lets transfers end
    /// within the configuration's `drain_timeout`, or until `hurry` completes as well. Aborts the
    /// others; their uploads are kept for a restart.
    ///
    /// # Cancel safety
    /// Dropped, all sessions end at once; incomplete uploads never show under their names.
    pub async fn run(self, shutdown: impl Future<Output = ()>, hurry: impl Future<Output = ()>) {
        let Self {
            listener,
            tls_listener,
            shared,
            ..
        } = self;
        let (mut shutdown, hurry) = (pin!(shutdown), pin!(hurry));
        let (stop, stopping) = watch::channel(0);
        let mut sessions = JoinSet::new();
        let mut trim = time::interval(TRIM);
        trim.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Closed to make room for a connection that is answered 421 when no descriptors are left.
        let mut spare = File::open("/dev/null").ok();
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                _ = trim.tick() => shared.pool.trim(),
                Some(ended) = sessions.join_next(), if !sessions.is_empty() => report(ended),
                (accepted, handshake) = accept(&listener, tls_listener.as_ref()), if !shared.admission.is_closing_many() => match accepted {
                    Ok((stream, _)) => {
                        if let Some(session) = shared.receive(stream, handshake, &stopping) {
                            sessions.spawn(session.run());
                        }
                    }
                    Err(error) if is_about_the_peer(&error) => {}
                    Err(error) => {
                        tracing::error!(%error, "accept failed, trying again");
                        drop(spare.take());
                        let next = time::timeout(Duration::ZERO, listener.accept()).await;
                        match next {
                            Ok(Ok((stream, _))) => refuse_connection(&stream),
                            _ => time::sleep(ACCEPT_RETRY).await,
                        }
                        spare = File::open("/dev/null").ok();
                    }
                },
            }
        }
        drop((listener, tls_listener));
        drain(sessions, shared.config.drain_timeout, &stop, hurry).await;
    }
}

/// Lets the actions of `sessions` end within `timeout` or until `hurry` completes, then aborts them.
async fn drain(
    mut sessions: JoinSet<()>,
    timeout: Duration,
    stop: &watch::Sender<u8>,
    mut hurry: Pin<&mut impl Future<Output = ()>>,
) {
    tracing::info!(
        sessions = sessions.len(),
        "stopping: waiting for running transfers"
    );
    for (times, within) in [(1, timeout), (2, ABORT_TIMEOUT)] {
        // Fails where there is no session.
        let _ = stop.send(times);
        let all = async {
            while let Some(ended) = sessions.join_next().await {
                report(ended);
            }
        };
        tokio::select! {
            biased;
            () = all => return,
            () = time::sleep(within) => {}
            () = &mut hurry, if times == 1 => {}
        }
        tracing::warn!(
            sessions = sessions.len(),
            "stopping: aborting running transfers"
        );
    }
    let dropped = time::timeout(DROP_TIMEOUT, sessions.shutdown());
    if dropped.await.is_err() {
        tracing::warn!("stopping: some storage does not answer");
    }
}

impl<D: Dsi> Shared<D> {
    pub(crate) fn new(config: Config, dsi: D) -> Arc<Self> {
        let stacks = Arc::new(Stacks::new(&config));
        let rules = Rules {
            settings: Arc::new(settings(&config, &config.policy, &dsi, &stacks)),
            policy: Arc::clone(&config.policy),
        };
        Arc::new(Self {
            owners: Owners::load(),
            authenticator: Authenticator::new(),
            admission: Arc::new(Admission::default()),
            stacks,
            pool: Pool::new(config.block_size, (POOL / config.block_size).max(8)),
            parts: PartMemory::new(config.part_memory as u64),
            descriptors: Descriptors::new(config.policy.max_data_descriptors),
            sent: SentGroups::default(),
            measurements: Measurements::default(),
            rules: Mutex::new(rules),
            dsi,
            config,
        })
    }

    /// Makes a session of an accepted connection, or refuses it.
    fn receive(
        self: &Arc<Self>,
        stream: TcpStream,
        handshake: Option<Mechanism>,
        stopping: &watch::Receiver<u8>,
    ) -> Option<Box<Session<D>>> {
        // An error here means that the connection has ended.
        let peer = stream.peer_addr().ok()?.ip().to_canonical();
        let here = stream.local_addr().ok()?;
        let ends = Ends {
            local: here.ip().to_canonical(),
            peer,
            link: match here {
                SocketAddr::V6(here) => here.scope_id(),
                SocketAddr::V4(_) => 0,
            },
            advertise: self.config.advertise,
        };
        let rules = self.rules();
        let Ok(permit) = self.admit(&rules.policy, peer) else {
            let limit = rules.policy.max_sessions;
            tracing::warn!(%peer, limit, "connection refused: too many sessions");
            if handshake.is_none() {
                refuse_connection(&stream);
            }
            return None;
        };
        let stream = Box::new(ControlStream::new(stream).ok()?);
        tracing::debug!(%peer, "connection");
        let entry = Entry::Network(handshake);
        Some(self.session(stream, ends, (rules, permit), entry, stopping.clone()))
    }

    /// Counts a connection.
    pub(crate) fn admit(&self, policy: &Policy, peer: IpAddr) -> Result<SessionPermit, Full> {
        let limits = SessionLimits {
            users: policy.max_sessions,
            unauthenticated: policy.max_unauthenticated,
            per_host: match policy.max_per_address {
                Some(most) => most,
                None if peer.is_loopback() => usize::MAX,
                None => policy.max_unauthenticated.div_ceil(4),
            },
        };
        self.admission.enter(limits, peer)
    }

    /// A session on a connected stream.
    pub(crate) fn session(
        self: &Arc<Self>,
        stream: BoxStream,
        ends: Ends,
        (rules, permit): (Rules, SessionPermit),
        entry: Entry,
        stopping: watch::Receiver<u8>,
    ) -> Box<Session<D>> {
        let mut settings = rules.settings;
        if matches!(entry, Entry::Given(_)) {
            // Credentials may cross a channel that belongs to one person.
            Arc::make_mut(&mut settings).dcsc = true;
        }
        let mut machine = ServerSession::new(Instant::now(), settings, ends.peer);
        let person = match entry {
            Entry::Network(handshake) => {
                machine = machine.with_demands(rules.policy.requirements.on(ends.peer));
                if let Some(mechanism) = handshake {
                    machine = machine.with_handshake(mechanism);
                }
                None
            }
            // Nothing crosses a network in clear here.
            Entry::Given(person) => {
                machine = machine.with_demands(Demands::default());
                Some(person)
            }
        };
        let executor = Executor {
            shared: Arc::clone(self),
            grid: GridSession::new(rules.policy.grid.clone()),
            policy: rules.policy,
            ends,
            person,
            account: None,
            side: None,
            stacks: Vec::new(),
            tls: None,
            client: Client::default(),
            waits: None,
            rate: watch::Sender::default(),
            permit,
        };
        Box::new(Session::new(machine, stream, executor, stopping))
    }

    /// The policy in force.
    pub(crate) fn rules(&self) -> Rules {
        self.lock_rules().clone()
    }

    fn lock_rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A data side with the limits of this policy, for a user.
    pub(crate) fn data_side(&self, policy: &Policy, user: &str) -> DataSide {
        let mut options = Options::default();
        options.open_within = policy.connect_timeout;
        options.stall = policy.stall_timeout;
        options.connections = policy.max_streams;
        options.linger = LINGER;
        // The bounds on memory beside the pool.
        (options.ahead, options.ranges) = (AHEAD, RANGES);
        options.parts = self.config.part_memory;
        let share = (self.pool.blocks() / SHARE).max(2);
        DataSide::new(
            Arc::clone(&self.stacks),
            options,
            (self.pool.share(share), self.parts.of(user)),
            self.descriptors.share(SHARE, LEAST),
        )
    }

    /// A data side on nodes: their sessions begin with the message `open`, and keep to `rate`.
    pub(crate) fn node_side(&self, front: Arc<Front>, open: Open, rate: AskedRate) -> NodeSide {
        let descriptors = self.descriptors.share(SHARE, LEAST);
        NodeSide::new(front, open, rate, Arc::clone(&self.stacks), descriptors)
    }

    /// The settings of the protocol machine with this policy.
    fn settings(&self, policy: &Policy) -> Settings {
        settings(&self.config, policy, &self.dsi, &self.stacks)
    }

    fn set_policy(&self, policy: Arc<Policy>) {
        let mut rules = self.lock_rules();
        let settings = Arc::new(self.settings(&policy));
        self.descriptors.set_limit(policy.max_data_descriptors);
        *rules = Rules { policy, settings };
    }
}

/// The settings of the protocol machine.
fn settings<D: Dsi>(config: &Config, policy: &Policy, dsi: &D, stacks: &Stacks) -> Settings {
    let system = rustix::system::uname();
    let capabilities = dsi.capabilities();
    let version = env!("CARGO_PKG_VERSION");
    let mut settings = Settings::new(&system.nodename().to_string_lossy(), version);
    settings.dsi = Some(format!("{}-{version}", capabilities.name));
    settings.checksums = capabilities
        .checksums
        .iter()
        .map(|(algorithm, cost)| (algorithm.to_string(), *cost))
        .collect();
    settings.keeps = capabilities.resume && !config.in_place;
    settings.times = capabilities.times;
    // The setting of the front end holds for its nodes; writes in place sync no directory.
    let syncs = config.front.is_none() || config.sync_writes;
    settings.durable = capabilities.durable && syncs && !config.in_place;
    settings.boot = capabilities.boot.filter(|_| !settings.durable);
    settings.exclusive = capabilities.exclusive && !config.in_place;
    settings.space = capabilities.tells_space;
    settings.attributes = capabilities.attributes;
    (settings.tls, settings.gssapi) = (policy.tls.is_some(), policy.grid.is_some());
    if let Some(front) = &config.front {
        settings.stripes = Some(front.stripes);
        settings.shares_uploads = capabilities.shares_uploads;
        settings.data_elsewhere = !front.hybrid;
    }
    settings.rates = true;
    // On nodes the kernel may be another.
    settings.udt = config.front.is_none() && offers_udt(&config.net_stacks);
    settings.adapts = stacks.adapts();
    // The data connections of a front end are on nodes.
    let measured = policy.max_measurement.filter(|_| config.front.is_none());
    settings.memory = measured.map(|most| MemoryLimits::new(MEASURED, most.as_secs()));
    // Data that has to be retrieved first keeps the other files waiting.
    settings.files = config.front.is_none() && !capabilities.stages;
    settings.third_party = config.third_party != ThirdParty::Off;
    let mut limits = Limits::default();
    limits.login = policy.login_timeout;
    limits.idle = policy.idle_timeout;
    limits.parallelism = policy.max_streams;
    settings.limits = limits;
    settings
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a session failed; this is a defect of the server");
    }
}
