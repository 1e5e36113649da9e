//! `Uploads`: the hidden files at the upstream that uploads of this gateway are using.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gridftp_dsi::hasher::Hasher;
use gridftp_dsi::{ChecksumAlgorithm, DsiPath, User};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::entry::HIDDEN;

/// Longest wait for the end of an upload that was given up.
const ENDING: Duration = Duration::from_secs(30);

/// The hidden files in use.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    used: Mutex<HashMap<Vec<u8>, Use>>,
    released: Notify,
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

impl Uploads {
    fn used(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Use>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
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

/// The name of the hidden file of a user's upload to `path`, the same after a restart of the
/// gateway.
pub(crate) fn hidden(user: &User, path: &DsiPath) -> Option<DsiPath> {
    let mut hasher = Hasher::new(ChecksumAlgorithm::Sha256)?;
    hasher.update(user.name.as_bytes());
    hasher.update(b"\0");
    hasher.update(path.name());
    let digest = hasher.finish();
    sibling(path, digest.get(..16)?)
}

/// Another hidden file for a further upload to the same name.
pub(crate) fn other(hidden: &DsiPath) -> Option<DsiPath> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).ok()?;
    let name = String::from_utf8_lossy(hidden.name());
    let name = format!("{name}-{:016x}", u64::from_ne_bytes(bytes));
    hidden.parent()?.child(name.as_bytes())
}

fn sibling(path: &DsiPath, digest: &str) -> Option<DsiPath> {
    let name = [HIDDEN, digest.as_bytes()].concat();
    path.parent()?.child(&name)
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
    fn hidden_names_are_short_and_differ_by_user_and_name() {
        let of = |user: &str, name: &[u8]| {
            let user = User::new(user, DsiPath::root(), true);
            let path = DsiPath::root().child(b"d").unwrap().child(name).unwrap();
            hidden(&user, &path).unwrap()
        };
        let long = of("ann", &[b'x'; 255]);
        assert_eq!(long, of("ann", &[b'x'; 255]));
        assert!(long.name().len() < 64 && long.as_bytes().starts_with(b"/d/.gridftp-gateway-"));
        assert_ne!(of("ann", b"a"), of("ann", b"b"));
        assert_ne!(of("ann", b"a"), of("bob", b"a"));
        let further = other(&long).unwrap();
        assert!(further.name().starts_with(long.name()) && further != long);
    }
}
