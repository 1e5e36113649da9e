//! `TrustDirectory`: a directory of authorities, policies and revocation lists, read again when it
//! changes.

mod examine;
mod files;
#[cfg(test)]
pub(crate) mod tests;

pub use examine::{authorities, authority};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use gsi::certificate::BadCertificate;
use gsi::tls::{Tls, Versions};
use gsi::trust::{TrustOptions, TrustStore};
use gsi::verify::{Peer, Refusal, Verifier};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::time_provider::DefaultTimeProvider;
use tracing::{info, warn};

use crate::file::FileError;
use crate::trust::files::{Content, Kind, Stamp};

/// Shortest time between two looks at the directory.
pub(crate) const INTERVAL: Duration = Duration::from_secs(3);

/// A directory of trusted authorities (`HASH.0`), signing policies (`HASH.signing_policy`) and
/// revocation lists (`HASH.r0`), as the [`Verifier`] of the peers.
///
/// Verdicts are those of the files at the last look; [`refreshed`](Self::refreshed) looks again
/// after some seconds. A file that cannot be read, as one that is being written, counts as it was
/// before; where there was none before, its authority is not trusted if it is a revocation list. A
/// directory that cannot be read counts as it was before, too; one without an authority trusts none.
#[derive(Debug)]
pub struct TrustDirectory {
    path: PathBuf,
    options: TrustOptions,
    store: RwLock<Arc<TrustStore>>,
    loaded: Mutex<Loaded>,
}

/// The state of the directory at the last look.
#[derive(Debug, Default)]
struct Loaded {
    looked: Option<Instant>,
    files: BTreeMap<String, Loading>,
}

/// A file of the directory.
#[derive(Debug)]
struct Loading {
    kind: Kind,
    stamp: Stamp,
    /// `None` where it was never readable.
    content: Option<Content>,
}

/// A directory that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoTrust {
    /// The directory cannot be read.
    #[error("CA directory {0}: name the directory in X509_CERT_DIR")]
    Directory(FileError),
    /// There is no authority in it.
    #[error(
        "CA directory {}: there is no authority in it, as HASH.0 with the HASH of \
         `openssl x509 -hash`",
        .0.display()
    )]
    Empty(PathBuf),
}

impl TrustDirectory {
    /// Reads a directory. Single files that cannot be used are logged.
    ///
    /// # Errors
    /// The directory cannot be read, or there is no authority in it.
    pub fn open(path: impl Into<PathBuf>, options: TrustOptions) -> Result<Self, NoTrust> {
        let mut directory = Self {
            path: path.into(),
            options,
            store: RwLock::new(Arc::new(TrustStore::new(options))),
            loaded: Mutex::default(),
        };
        let mut loaded = Loaded {
            looked: Some(Instant::now()),
            ..Loaded::default()
        };
        directory.load(&mut loaded).map_err(NoTrust::Directory)?;
        if directory.store().authorities().next().is_none() {
            return Err(NoTrust::Empty(directory.path));
        }
        directory.loaded = Mutex::new(loaded);
        Ok(directory)
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The authorities as of the last look.
    #[must_use]
    pub fn store(&self) -> Arc<TrustStore> {
        Arc::clone(&self.store.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks for changes, if the last look was some seconds before `now`. It reads files.
    pub fn refresh(&self, now: Instant) {
        let Ok(mut loaded) = self.loaded.try_lock() else {
            // Somebody else looks.
            return;
        };
        if !is_due(&loaded, now) {
            return;
        }
        loaded.looked = Some(now);
        match self.load(&mut loaded) {
            Ok(true) if self.store().authorities().next().is_none() => warn!(
                directory = %self.path.display(),
                "no authority in the CA directory: every certificate is refused"
            ),
            Ok(true) => info!(directory = %self.path.display(), "CA directory read again"),
            Ok(false) => {}
            Err(error) => warn!("{error}; the authorities read before stay in force"),
        }
    }

    /// Looks for changes on another thread, if the last look was some seconds ago.
    ///
    /// # Cancel safety
    /// The look goes on when the future is dropped.
    pub async fn refreshed(self: &Arc<Self>) {
        let now = Instant::now();
        let due = self
            .loaded
            .try_lock()
            .is_ok_and(|loaded| is_due(&loaded, now));
        if due {
            let directory = Arc::clone(self);
            // A panic there leaves the authorities as they were.
            let _ = tokio::task::spawn_blocking(move || directory.refresh(now)).await;
        }
    }

    /// Reads the files that changed, and tells whether there were any.
    fn load(&self, loaded: &mut Loaded) -> Result<bool, FileError> {
        let listing = files::list(&self.path)?;
        let mut changed = false;
        let before = loaded.files.len();
        loaded.files.retain(|name, _| listing.contains_key(name));
        changed |= loaded.files.len() != before;
        for (name, (kind, stamp)) in listing {
            let known = loaded.files.get_mut(&name);
            if known.as_ref().is_some_and(|known| known.stamp == stamp) {
                continue;
            }
            changed = true;
            let content = match files::read(&self.path.join(&name), kind) {
                Ok(content) => Some(content),
                Err(error) => {
                    let held = known.as_ref().is_some_and(|known| known.content.is_some());
                    warn!("{error}; {}", consequence(kind, held));
                    known.and_then(|known| known.content.take())
                }
            };
            let loading = Loading {
                kind,
                stamp,
                content,
            };
            loaded.files.insert(name, loading);
        }
        if changed {
            let store = Arc::new(self.build(&loaded.files));
            *self.store.write().unwrap_or_else(PoisonError::into_inner) = store;
        }
        Ok(changed)
    }

    fn build(&self, files: &BTreeMap<String, Loading>) -> TrustStore {
        let mut store = TrustStore::new(self.options);
        // A list that could not be read may revoke anything.
        let unknown: Vec<u32> = files
            .values()
            .filter(|file| matches!(file.kind, Kind::Revocations) && file.content.is_none())
            .map(|file| file.stamp.hash)
            .collect();
        let mut lists = Vec::new();
        for (name, file) in files {
            match &file.content {
                Some(Content::Authorities(found)) => {
                    for (der, hashes) in found {
                        if hashes.iter().any(|hash| unknown.contains(hash)) {
                            continue;
                        }
                        if !hashes.contains(&file.stamp.hash) {
                            warn!(
                                "{}: its authority has the hash {:08x}; rename the file",
                                self.path.join(name).display(),
                                hashes.first().copied().unwrap_or_default()
                            );
                            continue;
                        }
                        // It was parsed before.
                        let _ = store.add_authority(der.clone());
                    }
                }
                Some(Content::Policy(policy)) => store.add_policy(file.stamp.hash, policy.clone()),
                Some(Content::Revocations(list)) if !lists.contains(&file.stamp.identity) => {
                    // Names by both hashes are often links to one file.
                    lists.push(file.stamp.identity);
                    store.add_revocations((**list).clone());
                }
                Some(Content::Revocations(_)) | None => {}
            }
        }
        store
    }
}

fn is_due(loaded: &Loaded, now: Instant) -> bool {
    loaded
        .looked
        .is_none_or(|looked| now.saturating_duration_since(looked) >= INTERVAL)
}

/// The consequence of a bad file, for the log.
fn consequence(kind: Kind, held: bool) -> &'static str {
    match (kind, held) {
        (_, true) => "the file counts as it was before",
        (Kind::Revocations, false) => "its authority is not trusted until the file can be read",
        (Kind::Authority | Kind::Policy, false) => "the file is passed over",
    }
}

impl Verifier for TrustDirectory {
    fn verify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<Peer, Refusal> {
        self.store().verify(chain, now)
    }
}

/// The judge of peers: a directory of authorities, or any verifier.
#[derive(Debug, Clone)]
pub struct Judge {
    verifier: Arc<dyn Verifier>,
    directory: Option<Arc<TrustDirectory>>,
    versions: Versions,
}

impl Judge {
    /// Judges by a verifier of the caller.
    #[must_use]
    pub fn new(verifier: Arc<dyn Verifier>) -> Self {
        Self {
            verifier,
            directory: None,
            versions: Versions::All,
        }
    }

    /// Restricts the versions of TLS.
    #[must_use]
    pub fn versions(mut self, versions: Versions) -> Self {
        self.versions = versions;
        self
    }

    /// Also trusts the chain of a credential, as data channels do whose credential was set by
    /// `DCSC`.
    ///
    /// # Errors
    /// A certificate of the chain does not parse.
    pub fn with_chain(
        directory: &Arc<TrustDirectory>,
        chain: &[CertificateDer<'_>],
    ) -> Result<Self, BadCertificate> {
        let extended = directory.store().with_chain(chain)?;
        Ok(Self::new(Arc::new(extended)))
    }

    /// The verifier.
    #[must_use]
    pub fn verifier(&self) -> &Arc<dyn Verifier> {
        &self.verifier
    }

    /// The configurations of TLS whose certificates it judges.
    pub(crate) fn tls(&self) -> Tls {
        let verifier = Arc::clone(&self.verifier);
        Tls::new(verifier, Arc::new(DefaultTimeProvider)).versions(self.versions)
    }

    /// Looks for changes of the directory, if the last look was some seconds ago.
    ///
    /// # Cancel safety
    /// The look goes on when the future is dropped.
    pub async fn refreshed(&self) {
        if let Some(directory) = &self.directory {
            directory.refreshed().await;
        }
    }
}

impl From<Arc<TrustDirectory>> for Judge {
    fn from(directory: Arc<TrustDirectory>) -> Self {
        let verifier: Arc<dyn Verifier> = Arc::clone(&directory) as Arc<dyn Verifier>;
        Self {
            verifier,
            directory: Some(directory),
            versions: Versions::All,
        }
    }
}
