//! The server as a process: its storage, signals, and warnings at the start.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use gridftp_dsi::{Dsi, DynDsi};
use gridftp_server::config::{ClusterOptions, Config, Options, Policy};
use gridftp_server::{Control, Server, serve_stdio};
use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::cluster;

/// Merges the flags over the file.
pub(crate) fn merge(file: Option<&Path>, flags: &Options) -> anyhow::Result<Options> {
    let file = match file {
        Some(path) => Options::read(path)?,
        None => Options::default(),
    };
    let cluster = flags
        .cluster
        .clone()
        .map(|flags| match file.cluster.clone() {
            Some(file) => flags.or(file),
            None => flags,
        });
    let mut merged = flags.clone().or(file);
    if cluster.is_some() {
        // A marker names ranges of many machines, and the front end publishes after the last sync.
        merged.sync_writes.get_or_insert(true);
    }
    merged.cluster = cluster.or(merged.cluster);
    Ok(merged)
}

/// The origin of the sessions.
pub(crate) enum Entry {
    /// Connections to the listening address; a reload reads this file and these flags.
    ///
    /// A front end has the options of its cluster besides.
    Listener(Option<PathBuf>, Box<Options>, Option<ClusterOptions>),
    /// Standard input and output, for one session.
    Stdio,
    /// Front ends, which place sessions here.
    Node(ClusterOptions),
}

/// Prints lines about the start; standard output may be closed.
pub(crate) fn announce(lines: &str) {
    let mut out = std::io::stdout();
    drop(out.write_all(lines.as_bytes()).and_then(|()| out.flush()));
}

/// Serves until a signal stops it, or the one session has ended.
pub(crate) async fn run(
    config: Config,
    entry: Entry,
    ready: impl FnOnce(SocketAddr, Option<SocketAddr>) + Send,
) -> anyhow::Result<()> {
    if let Entry::Listener(..) = entry {
        warn(&config);
    }
    // The default action of SIGXFSZ ends the process where a write reaches the limit of a file's
    // size; caught, the write fails, and the client gets a reply.
    let _too_large = signal(SignalKind::from_raw(Number::XFSZ.as_raw()))?;
    let mut config = config;
    config.policy = Arc::new(within_descriptors(Policy::clone(&config.policy)));
    // They end with this function.
    let mut members = JoinSet::new();
    if let Entry::Listener(_, _, Some(cluster)) = &entry {
        cluster::begin_front(&mut config, cluster, &mut members).await?;
    }
    let storage = config.open_storage().context("open the storage")?;
    let storage = storage.context("no tree to serve, say --root DIR or --storage NAME")?;
    if let Some(age) = config.partial_expiry {
        tokio::spawn(expire(Arc::clone(&storage), age));
    }
    serve(config, storage, entry, ready).await
}

async fn serve(
    config: Config,
    dsi: Arc<dyn DynDsi>,
    entry: Entry,
    ready: impl FnOnce(SocketAddr, Option<SocketAddr>) + Send,
) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let ((stop, stopped), (hurry, hurried)) = (oneshot::channel::<()>(), oneshot::channel::<()>());
    // One task for both, so that the first signal is never taken for the second.
    let signals = tokio::spawn(async move {
        for told in [stop, hurry] {
            tokio::select! {
                _ = terminate.recv() => drop(told),
                _ = interrupt.recv() => drop(told),
            }
        }
    });
    let (stopped, hurried) = (async { drop(stopped.await) }, async { drop(hurried.await) });
    let served = match entry {
        Entry::Stdio => serve_stdio(config, dsi, stopped, hurried)
            .await
            .context("serve standard input and output"),
        Entry::Node(cluster) => cluster::run_node(config, dsi, &cluster, stopped, hurried).await,
        Entry::Listener(file, flags, _) => {
            let (wanted, running) = (config.listen.first().copied(), config.clone());
            let server = Server::bind(config, Arc::clone(&dsi)).with_context(|| match wanted {
                Some(address) => format!("listen on {address}"),
                None => "listen".to_owned(),
            })?;
            let hangup = signal(SignalKind::hangup())?;
            let mut beside = JoinSet::new();
            if let Some(changes) = running.storage_changes() {
                beside.spawn(offer(changes, dsi, server.control()));
            }
            beside.spawn(reload(hangup, server.control(), running, file, *flags));
            ready(server.local_addr(), server.local_tls_addr());
            server.run(stopped, hurried).await;
            Ok(())
        }
    };
    signals.abort();
    served
}

/// Removes old partial uploads, once an hour.
async fn expire(storage: Arc<dyn DynDsi>, age: Duration) {
    let mut ticker = tokio::time::interval(age.min(Duration::from_secs(3600)));
    loop {
        ticker.tick().await;
        match storage.expire_dyn(age).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "expired partial uploads"),
            Err(error) => tracing::warn!(%error, "partial uploads could not be expired"),
        }
    }
}

/// Offers clients what the storage can do, as its data nodes come and go.
async fn offer<D: Dsi>(
    mut changes: watch::Receiver<()>,
    storage: Arc<dyn DynDsi>,
    control: Control<D>,
) {
    // The nodes may have come or gone since the server was bound.
    let mut offered = None;
    loop {
        let can = Some(storage.capabilities());
        if can != offered {
            control.examine_storage();
            offered = can;
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// Reads the file, the accounts and the certificates again after each signal; a mistake changes nothing.
async fn reload<D: Dsi>(
    mut signal: Signal,
    control: Control<D>,
    running: Config,
    file: Option<PathBuf>,
    flags: Options,
) {
    while signal.recv().await.is_some() {
        let (file, flags) = (file.clone(), flags.clone());
        let read = tokio::task::spawn_blocking(move || -> anyhow::Result<Config> {
            Ok(Config::check(&merge(file.as_deref(), &flags)?)?)
        });
        match read.await {
            Ok(Ok(config)) => {
                let ignored = running.needs_restart(&config).join(", ");
                if !ignored.is_empty() {
                    tracing::warn!(options = ignored, "changed, and held back until a restart");
                }
                let policy = Policy::clone(&config.policy);
                control.set_policy(Arc::new(within_descriptors(policy)));
                tracing::info!(
                    "configuration read again: limits, accounts and certificates hold for new sessions"
                );
            }
            Ok(Err(error)) => {
                tracing::error!(error = %format!("{error:#}"), "configuration kept as it was")
            }
            Err(error) => tracing::error!(%error, "configuration kept as it was"),
        }
    }
}

/// Raises the limit of open descriptors as far as allowed, and lowers the number of sessions to fit
/// it: refusing with 421 is better than failing in the middle of a transfer.
fn within_descriptors(mut policy: Policy) -> Policy {
    if let Some(descriptors) = gridftp_data::raise_descriptors() {
        let shares = share_out(descriptors, policy.max_sessions, policy.max_unauthenticated);
        if (shares.users, shares.unauthenticated)
            != (policy.max_sessions, policy.max_unauthenticated)
        {
            tracing::warn!(
                descriptors,
                max_sessions = shares.users,
                max_unauthenticated = shares.unauthenticated,
                "too few descriptors for as many sessions and connections as configured, raise the limit (ulimit -n)"
            );
        }
        policy.max_sessions = shares.users;
        policy.max_unauthenticated = shares.unauthenticated;
        policy.max_data_descriptors = shares.data;
    }
    policy
}

/// The shares of descriptors.
#[derive(Debug, PartialEq, Eq)]
struct Shares {
    /// Control connections of users.
    users: usize,
    /// Unauthenticated connections.
    unauthenticated: usize,
    /// For ports, data connections, pipes and files.
    data: usize,
}

/// Shares out descriptors: unauthenticated connections leave three quarters, and users two thirds
/// of that for data.
fn share_out(descriptors: u64, users: usize, unauthenticated: usize) -> Shares {
    /// For the listener, the log, the runtime, the tree, and calls of the storage.
    const OURS: u64 = 32;
    let left = usize::try_from(descriptors.saturating_sub(OURS)).unwrap_or(usize::MAX);
    let unauthenticated = unauthenticated.min((left / 4).max(1));
    let left = left.saturating_sub(unauthenticated);
    let users = users.min((left / 3).max(1));
    Shares {
        users,
        unauthenticated,
        data: left.saturating_sub(users),
    }
}

fn warn(config: &Config) {
    if !config.policy.admits_anybody() {
        tracing::warn!("nobody can log in: neither --anonymous nor --users names anybody");
    }
    if config.policy.needs_tls() {
        tracing::warn!(
            "users of other hosts cannot log in: passwords need TLS; name a certificate by --tls-cert, or see --allow-clear-passwords"
        );
    }
    if rustix::process::geteuid().is_root() {
        tracing::warn!(
            "running as root: files are read and written as root, better start it as a user of its own"
        );
    }
    if let Some(advertise) = config.advertise
        && advertise.is_loopback()
        && config
            .listen
            .iter()
            .any(|address| !address.ip().is_loopback())
    {
        tracing::warn!(%advertise, "clients elsewhere cannot connect to the advertised address");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_cluster_sync_unless_told_otherwise() {
        let synced = |cluster: Option<ClusterOptions>, given| {
            let mut flags = Options::default();
            (flags.cluster, flags.sync_writes) = (cluster, given);
            Config::check(&merge(None, &flags).unwrap())
                .unwrap()
                .sync_writes
        };
        assert!(synced(Some(ClusterOptions::default()), None));
        assert!(!synced(Some(ClusterOptions::default()), Some(false)));
        assert!(!synced(None, None));
    }

    #[test]
    fn few_descriptors_are_shared_between_users_and_unauthenticated() {
        let shared = |descriptors, users, unauthenticated| {
            let Shares {
                users,
                unauthenticated,
                data,
            } = share_out(descriptors, users, unauthenticated);
            (users, unauthenticated, data)
        };
        assert_eq!(shared(524_288, 1000, 200), (1000, 200, 523_056));
        assert_eq!(shared(20_000, 4000, 200), (4000, 200, 15_768));
        assert_eq!(shared(1024, 1000, 200), (264, 200, 528));
        assert_eq!(shared(64, 1000, 200), (8, 8, 16));
        assert_eq!(shared(128, 1000, 2), (31, 2, 63));
        assert_eq!(shared(8, 1000, 200), (1, 1, 0));
    }
}
