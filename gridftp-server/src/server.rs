//! `Server`: accepts, limits, hands over to sessions, and drains them when it is to stop.

use std::fs::File;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ftp_proto::server::{Limits, ServerSession, Settings};
use gridftp_data::{Descriptors, Options};
use gridftp_dsi::Dsi;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{self, MissedTickBehavior};
use xio::Pool;

use crate::action::{Executor, FILE};
use crate::admission::{Admission, SessionLimits};
use crate::auth::Authenticator;
use crate::config::{Config, Policy, ThirdParty};
use crate::control::ControlStream;
use crate::data::{DataSide, Ends, Stacks};
use crate::owners::Owners;
use crate::session::Session;

/// Connections the kernel may hold for us until they are accepted.
const BACKLOG: u32 = 1024;

/// Memory for blocks of data, all sessions together.
const POOL: usize = 64 << 20;

/// The part of the blocks, and of the descriptors for data, that one session may hold: one in so
/// many.
const SHARE: usize = 8;

/// Descriptors that one session may hold whatever its share: a port, a file, and four connections
/// with their pipes.
const LEAST: usize = 1 + FILE + 4 * 3;

/// Bytes of an upload that may wait for those in front of them, where it is written in order.
const AHEAD: usize = 16 << 10;

/// Separate ranges that the blocks of one upload may form.
const RANGES: usize = 2048;

/// How often it is looked whether memory of the pool can go back to the kernel.
const TRIM: Duration = Duration::from_secs(2);

/// How long sessions get to stop what they still do when their time to end by themselves is over.
const ABORT_TIMEOUT: Duration = Duration::from_secs(3);

/// How long sessions may take to be dropped after that; one waits for storage that does not answer.
const DROP_TIMEOUT: Duration = Duration::from_millis(500);

/// How long to leave the listener alone when the process is out of descriptors or memory.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// How long a 226 waits for the client to close the data connection that it was sent a file over:
/// aria2 waits for ever for a 226 that it reads together with the 150. Clients close when they have
/// read all.
const LINGER: Duration = Duration::from_millis(250);

/// A GridFTP server on one address.
///
/// Dropping it, or the future of [`run`](Self::run), ends all its sessions.
pub struct Server<D: Dsi> {
    listener: TcpListener,
    address: SocketAddr,
    shared: Arc<Shared<D>>,
}

/// What every session of a server works with.
pub(crate) struct Shared<D: Dsi> {
    pub(crate) dsi: D,
    pub(crate) config: Config,
    pub(crate) owners: Owners,
    pub(crate) authenticator: Authenticator,
    admission: Arc<Admission>,
    stacks: Arc<Stacks>,
    pool: Pool,
    /// For data connections and the files they serve.
    pub(crate) descriptors: Descriptors,
    rules: Mutex<Rules>,
}

/// What new sessions get; replaced as a whole by a reload.
#[derive(Debug, Clone)]
struct Rules {
    policy: Arc<Policy>,
    settings: Arc<Settings>,
}

/// Changes what a running server allows.
#[derive(Clone)]
pub struct Control<D: Dsi> {
    shared: Arc<Shared<D>>,
}

impl<D: Dsi> Control<D> {
    /// Puts a new policy in force, for sessions that begin after it.
    pub fn set_policy(&self, policy: Arc<Policy>) {
        self.shared.set_policy(policy);
    }

    /// How many sessions there are now.
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
        let mut result = Err(io::ErrorKind::AddrNotAvailable.into());
        for address in &config.listen {
            result = listen(*address);
            if result.is_ok() {
                break;
            }
        }
        let listener = result?;
        let address = listener.local_addr()?;
        let rules = Rules {
            settings: Arc::new(settings(&config, &config.policy, &dsi)),
            policy: Arc::clone(&config.policy),
        };
        let shared = Shared {
            owners: Owners::load(),
            authenticator: Authenticator::new(),
            admission: Arc::new(Admission::default()),
            stacks: Arc::new(Stacks::new(&config)),
            pool: Pool::new(config.block_size, (POOL / config.block_size).max(8)),
            descriptors: Descriptors::new(config.policy.max_data_descriptors),
            rules: Mutex::new(rules),
            dsi,
            config,
        };
        Ok(Self {
            listener,
            address,
            shared: Arc::new(shared),
        })
    }

    /// The address it listens at, the port filled in.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// A handle to change the running server with.
    pub fn control(&self) -> Control<D> {
        Control {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Serves until `shutdown` is over; then takes no more connections, lets what runs come to its
    /// end within the configuration's `drain_timeout`, or until `hurry` is over as well, and aborts
    /// what is left: what came of uploads is kept for a restart.
    ///
    /// # Cancel safety
    /// Dropped, all sessions end at once: uploads that are not whole never show under their names.
    pub async fn run(self, shutdown: impl Future<Output = ()>, hurry: impl Future<Output = ()>) {
        let Self {
            listener, shared, ..
        } = self;
        let (mut shutdown, mut hurry) = (pin!(shutdown), pin!(hurry));
        let (stop, stopping) = watch::channel(0);
        let mut sessions = JoinSet::new();
        let mut trim = time::interval(TRIM);
        trim.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Given up to tell a connection that there are no descriptors left.
        let mut spare = File::open("/dev/null").ok();
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                _ = trim.tick() => shared.pool.trim(),
                Some(ended) = sessions.join_next(), if !sessions.is_empty() => report(ended),
                accepted = listener.accept(), if !shared.admission.is_closing_many() => match accepted {
                    Ok((stream, _)) => {
                        if let Some(session) = shared.receive(stream, &stopping) {
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
        drop(listener);
        tracing::info!(
            sessions = sessions.len(),
            "stopping: waiting for running transfers"
        );
        // First to let transfers end, then to abort them.
        for (times, within) in [(1, shared.config.drain_timeout), (2, ABORT_TIMEOUT)] {
            // Nobody listens where there is no session.
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
                "stopping: ending what still runs"
            );
        }
        if time::timeout(DROP_TIMEOUT, sessions.shutdown())
            .await
            .is_err()
        {
            tracing::warn!("stopping: some storage does not answer");
        }
    }
}

impl<D: Dsi> Shared<D> {
    /// Makes a session of a connection, or turns it away.
    fn receive(
        self: &Arc<Self>,
        stream: TcpStream,
        stopping: &watch::Receiver<u8>,
    ) -> Option<Box<Session<D>>> {
        let rules = self
            .rules
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        // An error here is a connection that is gone already.
        let peer = stream.peer_addr().ok()?.ip().to_canonical();
        let here = stream.local_addr().ok()?;
        let local = here.ip().to_canonical();
        let policy = rules.policy;
        let limits = SessionLimits {
            users: policy.max_sessions,
            unauthenticated: policy.max_unauthenticated,
            per_host: match policy.max_per_address {
                Some(most) => most,
                None if peer.is_loopback() => usize::MAX,
                None => policy.max_unauthenticated.div_ceil(4),
            },
        };
        let Ok(permit) = self.admission.enter(limits, peer) else {
            tracing::warn!(%peer, limit = policy.max_sessions, "connection refused: too many sessions");
            refuse_connection(&stream);
            return None;
        };
        let stream = Box::new(ControlStream::new(stream).ok()?);
        tracing::debug!(%peer, "connection");
        let machine = ServerSession::new(Instant::now(), rules.settings, peer);
        let ends = Ends {
            local,
            peer,
            link: match here {
                SocketAddr::V6(here) => here.scope_id(),
                SocketAddr::V4(_) => 0,
            },
            advertise: self.config.advertise,
        };
        let executor = Executor {
            shared: Arc::clone(self),
            policy,
            ends,
            who: None,
            side: None,
            task: "".into(),
            permit,
        };
        Some(Box::new(Session::new(
            machine,
            stream,
            executor,
            stopping.clone(),
        )))
    }

    /// A data side with the limits of this policy.
    pub(crate) fn data_side(&self, policy: &Policy) -> DataSide {
        let mut options = Options::default();
        options.open_within = policy.connect_timeout;
        options.stall = policy.stall_timeout;
        options.connections = policy.max_streams;
        options.linger = LINGER;
        // What a peer can have this server remember beside blocks of the pool.
        (options.ahead, options.ranges) = (AHEAD, RANGES);
        let share = (self.pool.blocks() / SHARE).max(2);
        DataSide::new(
            Arc::clone(&self.stacks),
            options,
            self.pool.share(share),
            self.descriptors.share(SHARE, LEAST),
        )
    }

    fn set_policy(&self, policy: Arc<Policy>) {
        let settings = Arc::new(settings(&self.config, &policy, &self.dsi));
        self.descriptors.set_limit(policy.max_data_descriptors);
        *self.rules.lock().unwrap_or_else(PoisonError::into_inner) = Rules { policy, settings };
    }
}

/// What the protocol machine is to know of this server.
fn settings<D: Dsi>(config: &Config, policy: &Policy, dsi: &D) -> Settings {
    let system = rustix::system::uname();
    let capabilities = dsi.capabilities();
    let mut settings = Settings::new(
        &system.nodename().to_string_lossy(),
        env!("CARGO_PKG_VERSION"),
    );
    settings.dsi = Some(format!(
        "{}-{}",
        capabilities.name,
        env!("CARGO_PKG_VERSION")
    ));
    settings.checksums = capabilities
        .checksums
        .iter()
        .map(|(algorithm, cost)| (algorithm.to_string(), *cost))
        .collect();
    settings.keeps = capabilities.resume && !config.in_place;
    settings.third_party = config.third_party != ThirdParty::Off;
    let mut limits = Limits::default();
    limits.login = policy.login_timeout;
    limits.idle = policy.idle_timeout;
    limits.parallelism = policy.max_streams;
    settings.limits = limits;
    settings
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_reuseaddr(true)?;
    if let IpAddr::V6(ip) = address.ip()
        && ip.is_unspecified()
    {
        SockRef::from(&socket).set_only_v6(false)?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Says 421 as far as the socket takes it at once: no session, no wait for somebody who is refused,
/// and no look at whether the runtime has heard of the socket yet.
fn refuse_connection(stream: &TcpStream) {
    const WORDS: &[u8] = b"421 Service busy: Connection limit exceeded. Please try again later. Closing control connection.\r\n";
    drop(SockRef::from(stream).send(WORDS));
}

/// Errors of one connection, which the next one does not have.
fn is_about_the_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a session failed; this is a defect of the server");
    }
}
