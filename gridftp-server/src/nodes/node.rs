//! `DataNode`: serves the sessions that front ends place on this host.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gridftp_cluster::Open;
use gridftp_cluster::{Replies, Report, Requests, Serve};
use gridftp_dsi::{Dsi, DynDsi};

use super::served::Served;
use crate::config::Config;
use crate::data::Ends;
use crate::server::Shared;

/// The data connections and the storage of a data node.
pub struct DataNode<D: Dsi> {
    shared: Arc<Shared<D>>,
    capacity: u32,
    /// Our address for data connections; `None` for the one of the route to the client.
    address: Option<IpAddr>,
    running: Arc<AtomicU32>,
    draining: AtomicBool,
    free: Arc<FreeSpace>,
    /// For front ends that have none.
    storage: Option<Arc<dyn DynDsi>>,
}

/// The free bytes of the storage, measured beside the reports: a file system may not answer.
#[derive(Debug, Default)]
struct FreeSpace {
    bytes: Mutex<Option<u64>>,
    is_measured: AtomicBool,
}

impl FreeSpace {
    /// Returns the last measure, and begins another unless one is under way.
    fn of(self: &Arc<Self>, root: PathBuf) -> Option<u64> {
        if !self.is_measured.swap(true, Ordering::Relaxed) {
            let own = Arc::clone(self);
            tokio::task::spawn_blocking(move || {
                if let Ok(space) = rustix::fs::statvfs(&root) {
                    *own.bytes() = space.f_bavail.checked_mul(space.f_frsize);
                }
                own.is_measured.store(false, Ordering::Relaxed);
            });
        }
        *self.bytes()
    }

    fn bytes(&self) -> MutexGuard<'_, Option<u64>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Dsi> std::fmt::Debug for DataNode<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DataNode({} transfers)", self.running())
    }
}

impl<D: Dsi> DataNode<D> {
    /// Serves `dsi` by the data options of a configuration; `capacity` is the number of transfers
    /// that it is meant to run at a time, by which front ends compare nodes.
    pub fn new(config: Config, dsi: D, capacity: u32) -> Self {
        let address = config.listen.first().map(|address| address.ip());
        Self {
            address: address.filter(|address| !address.is_unspecified()),
            shared: Shared::new(config, dsi),
            capacity: capacity.max(1),
            running: Arc::default(),
            draining: AtomicBool::new(false),
            free: Arc::default(),
            storage: None,
        }
    }

    /// Lets front ends without a storage of their own use this one, which is the same.
    #[must_use]
    pub fn with_storage(mut self, storage: Arc<dyn DynDsi>) -> Self {
        self.storage = Some(storage);
        self
    }

    /// Transfers that run.
    pub fn running(&self) -> u32 {
        self.running.load(Ordering::Relaxed)
    }
}

impl<D: Dsi> Serve for DataNode<D> {
    async fn session(&self, open: Open, requests: Requests, replies: Replies) {
        let advertise = self.shared.config.advertise;
        let ends = Ends::towards(open.client.ip(), self.address, advertise);
        let (shared, running) = (Arc::clone(&self.shared), Arc::clone(&self.running));
        let served = Served::new(shared, running, &open, ends);
        served.run(requests, replies).await;
    }

    fn report(&self) -> Report {
        let root = self.shared.config.storages.root();
        Report {
            capacity: self.capacity,
            running: self.running(),
            load: load(),
            free_space: root.and_then(|root| self.free.of(root)),
            draining: self.draining.load(Ordering::Relaxed),
        }
    }

    fn storage(&self) -> Option<Arc<dyn DynDsi>> {
        self.storage.clone()
    }

    fn drain(&self, draining: bool) {
        self.draining.store(draining, Ordering::Relaxed);
    }
}

/// The load average of the last minute.
fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split_whitespace().next();
    first.and_then(|load| load.parse().ok()).unwrap_or(0.0)
}
