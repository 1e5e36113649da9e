//! `Uploads`: the hidden files at an upstream that uploads of this process are using.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use gridftp_dsi::hasher::Hasher;
use gridftp_dsi::{ChecksumAlgorithm, DsiPath, User};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::entry::HIDDEN;

/// Longest wait for the end of an upload that was given up.
const ENDING: Duration = Duration::from_secs(30);

/// Interval of the sweeps of one directory behind uploads.
const SWEEPING: Duration = Duration::from_secs(3600);
/// Most directories that are swept in that time.
const DIRS: usize = 1000;

/// End of the name of a hidden file that is no upload, and the last copy of a file's old bytes.
const REPLACED: &[u8] = b"-replaced";

/// The hidden files in use, by all storages of this process with one upstream.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    used: Mutex<HashMap<Vec<u8>, Use>>,
    released: Notify,
    /// The directories that were swept lately.
    swept: Mutex<HashMap<Vec<u8>, Instant>>,
}

/// The use of a hidden file.
#[derive(Debug)]
enum Use {
    /// A sink writes to it.
    Writing(Recorded),
    /// The upload was given up, and its end is being settled with the upstream.
    Ending,
}

/// The number of bytes that a restart finds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recorded(Arc<AtomicU64>);

impl Recorded {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Release);
    }
}

/// The right to a hidden file, which ends with this value.
#[derive(Debug)]
pub(crate) struct Lease {
    uploads: Arc<Uploads>,
    file: Vec<u8>,
    pub(crate) recorded: Recorded,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Uploads {
    /// Those at the server `site`.
    pub(crate) fn at(site: &str) -> Arc<Self> {
        static ALL: Mutex<Vec<(String, Weak<Uploads>)>> = Mutex::new(Vec::new());
        let mut all = lock(&ALL);
        all.retain(|(_, uploads)| uploads.strong_count() > 0);
        let known = all.iter().find(|(name, _)| name == site);
        if let Some(uploads) = known.and_then(|(_, uploads)| uploads.upgrade()) {
            return uploads;
        }
        let uploads = Arc::default();
        all.push((site.to_owned(), Arc::downgrade(&uploads)));
        uploads
    }

    fn used(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Use>> {
        lock(&self.used)
    }

    /// Whether a directory is to be swept now.
    pub(crate) fn is_due(&self, dir: &[u8]) -> bool {
        let mut swept = lock(&self.swept);
        swept.retain(|_, at| at.elapsed() < SWEEPING);
        let is_due = swept.len() < DIRS && !swept.contains_key(dir);
        if is_due {
            swept.insert(dir.to_vec(), Instant::now());
        }
        is_due
    }

    /// Takes a hidden file that nobody uses.
    pub(crate) fn take(self: &Arc<Self>, file: &[u8]) -> Option<Lease> {
        let recorded = Recorded::default();
        let mut used = self.used();
        if used.contains_key(file) {
            return None;
        }
        used.insert(file.to_vec(), Use::Writing(recorded.clone()));
        Some(Lease {
            uploads: Arc::clone(self),
            file: file.to_vec(),
            recorded,
        })
    }

    /// Waits until no upload to the file is being ended; the recorded bytes of one that is written.
    pub(crate) async fn settled(&self, file: &[u8]) -> Option<u64> {
        let waiting = async {
            loop {
                let released = self.released.notified();
                match self.used().get(file) {
                    None => return None,
                    Some(Use::Writing(recorded)) => return Some(recorded.get()),
                    Some(Use::Ending) => {}
                }
                released.await;
            }
        };
        // One that is still being ended then counts as written.
        timeout(ENDING, waiting).await.unwrap_or(Some(0))
    }
}

impl Lease {
    /// The path of the hidden file at the upstream.
    pub(crate) fn file(&self) -> &[u8] {
        &self.file
    }

    /// Says that the upload was given up.
    pub(crate) fn end(&self) {
        self.uploads.used().insert(self.file.clone(), Use::Ending);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.uploads.used().remove(&self.file);
        self.uploads.released.notify_waiters();
    }
}

/// The name of the hidden file of a user's upload to `path` through the gateway called `gateway`,
/// the same after its restart.
pub(crate) fn hidden(gateway: &str, user: &User, path: &DsiPath) -> Option<DsiPath> {
    let mut hasher = Hasher::new(ChecksumAlgorithm::Sha256)?;
    for name in [gateway, &user.name] {
        hasher.update(name.as_bytes());
        hasher.update(b"\0");
    }
    hasher.update(path.name());
    let digest = hasher.finish();
    let name = [HIDDEN, digest.get(..16)?.as_bytes()].concat();
    path.parent()?.child(&name)
}

/// Another hidden file for a further upload to the same name.
pub(crate) fn other(hidden: &DsiPath) -> Option<DsiPath> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).ok()?;
    let name = String::from_utf8_lossy(hidden.name());
    let name = format!("{name}-{:016x}", u64::from_ne_bytes(bytes));
    hidden.parent()?.child(name.as_bytes())
}

/// A hidden name for the file that an upload replaces.
pub(crate) fn replaced(hidden: &DsiPath) -> Option<DsiPath> {
    let other = other(hidden)?;
    other.parent()?.child(&[other.name(), REPLACED].concat())
}

/// Whether a name is that of an upload that is not published.
pub(crate) fn is_upload(name: &[u8]) -> bool {
    name.starts_with(HIDDEN) && !name.ends_with(REPLACED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_file_has_one_writer_and_is_free_once_its_end_is_settled() {
        let uploads = Arc::new(Uploads::default());
        let lease = uploads.take(b"f").unwrap();
        assert!(uploads.take(b"f").is_none());
        lease.recorded.set(7);
        assert_eq!(uploads.settled(b"f").await, Some(7));
        lease.end();
        let waiting = uploads.settled(b"f");
        let ending = async { drop(lease) };
        assert_eq!(tokio::join!(waiting, ending).0, None);
        let lease = uploads.take(b"f").unwrap();
        lease.end();
        assert_eq!(uploads.settled(b"f").await, Some(0));
    }

    #[test]
    fn hidden_names_are_short_and_differ_by_gateway_user_and_name() {
        let of = |gateway: &str, user: &str, name: &[u8]| {
            let user = User::new(user, DsiPath::root(), true);
            let path = DsiPath::root().child(b"d").unwrap().child(name).unwrap();
            hidden(gateway, &user, &path).unwrap()
        };
        let long = of("g", "ann", &[b'x'; 255]);
        assert_eq!(long, of("g", "ann", &[b'x'; 255]));
        assert!(long.name().len() < 64 && long.as_bytes().starts_with(b"/d/.gridftp-gateway-"));
        assert_ne!(of("g", "ann", b"a"), of("g", "ann", b"b"));
        assert_ne!(of("g", "ann", b"a"), of("g", "bob", b"a"));
        assert_ne!(of("g", "ann", b"a"), of("h", "ann", b"a"));
        let further = other(&long).unwrap();
        assert!(further.name().starts_with(long.name()) && further != long);
        let old = replaced(&long).unwrap();
        assert!(old.name().len() < 80 && old.name().starts_with(HIDDEN));
        assert!(is_upload(further.name()) && !is_upload(old.name()) && !is_upload(b".x"));
    }

    /// As several storages of one server have them.
    #[test]
    fn storages_with_one_upstream_share_its_leases() {
        let (one, two) = (Uploads::at("h:1"), Uploads::at("h:1"));
        let lease = one.take(b"f").unwrap();
        assert!(two.take(b"f").is_none() && Uploads::at("h:2").take(b"f").is_some());
        drop(lease);
        assert!(two.take(b"f").is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_directory_is_swept_once_an_hour() {
        let uploads = Uploads::default();
        assert!(uploads.is_due(b"/d") && !uploads.is_due(b"/d") && uploads.is_due(b"/e"));
        tokio::time::advance(SWEEPING).await;
        assert!(uploads.is_due(b"/d"));
    }
}
