//! `Revocations`: the revoked members of a cluster, in the file `revoked` of a folder.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::error;

use crate::authority::Authority;
use crate::error::{Error, Result};
use crate::folder::{Folder, read};
use crate::identity::{Identity, Peer, Role};
use crate::link::beats;

const FILE: &str = "revoked";

/// The resolution of times in certificates.
const SECOND: Duration = Duration::from_secs(1);

/// Longest wait for a file system that does not answer; the revocations stay as they were then.
const ANSWER: Duration = Duration::from_secs(1);

/// Refuses all certificates that a member was issued up to now.
///
/// One line of the file `revoked` in `folder` names the member and the time; a running program reads
/// it before each handshake, and every second for its connections and their calls. A certificate that is issued after
/// the return, for a new token, is accepted: certificates tell seconds, so this blocks the thread
/// until the next second.
///
/// # Errors
///
/// The folder holds no authority, the name is not valid, or the file cannot be read or written.
pub fn revoke(folder: impl Into<PathBuf>, role: Role, name: &str) -> Result<Identity> {
    let folder = Folder::new(folder);
    let none = || Error::certificate(folder.path("ca.key").display(), "there is no authority");
    let authority = Authority::load(&folder)?.ok_or_else(none)?;
    let identity = authority.member(role, name)?;
    let mut table = load(&folder)?.unwrap_or_default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default();
    table.insert((role, name.to_owned()), now);
    let lines = table.iter().map(|((role, name), at)| {
        let (role, seconds) = (role.name(), at.as_secs());
        format!("{role} {name} {seconds}\n")
    });
    folder.write(FILE, lines.collect::<String>().as_bytes(), 0o644)?;
    thread::sleep(SECOND - Duration::from_nanos(now.subsec_nanos().into()));
    Ok(identity)
}

/// Members, and the time since 1970 of their revocation.
type Table = BTreeMap<(Role, String), Duration>;

/// Inode, size and times of a file, if there is one, or the failure to examine it.
type Stamp = Result<Option<(u64, u64, i64, i64)>, io::ErrorKind>;

/// The revocations in force, read again when the file changes.
#[derive(Debug)]
pub(crate) struct Revocations {
    folder: Folder,
    known: Mutex<(Stamp, Arc<Table>)>,
    /// Of one read at a time: a file system that does not answer holds one thread.
    reads: Arc<Semaphore>,
}

impl Revocations {
    /// Reads the file; none means no revocations.
    pub(crate) fn load(folder: &Folder) -> Result<Self> {
        let stamp = stamp(folder);
        let table = Arc::new(load(folder)?.unwrap_or_default());
        Ok(Self {
            folder: folder.clone(),
            known: Mutex::new((stamp, table)),
            reads: Arc::new(Semaphore::new(1)),
        })
    }

    /// Checks that the certificate of a peer was not revoked when the file was read last.
    pub(crate) fn check(&self, peer: &Peer) -> Result<()> {
        let identity = &peer.identity;
        let table = Arc::clone(&self.known().1);
        let revoked = table.get(&(identity.role, identity.name.clone()));
        match revoked {
            Some(at) if peer.issued <= UNIX_EPOCH + *at => {
                Err(Error::Revoked(identity.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// Returns once the certificate of a peer is revoked.
    pub(crate) async fn until_revoked(self: &Arc<Self>, peer: &Peer) -> Error {
        let mut beat = beats();
        loop {
            beat.tick().await;
            self.refresh().await;
            if let Err(error) = self.check(peer) {
                return error;
            }
        }
    }

    /// Reads the file again if it has changed, on a thread for files.
    ///
    /// # Cancel safety
    ///
    /// The read goes on.
    pub(crate) async fn refresh(self: &Arc<Self>) {
        let own = Arc::clone(self);
        let refreshing = async {
            let turn = Arc::clone(&self.reads).acquire_owned().await;
            let read = spawn_blocking(move || {
                own.read();
                drop(turn);
            });
            read.await
        };
        match timeout(ANSWER, refreshing).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => error!(%error, "revocations stay as they were"),
            Err(_) => {
                let path = self.folder.path(FILE);
                let path = path.display();
                error!(%path, "the file system does not answer: revocations stay as they were");
            }
        }
    }

    /// Reads the file if it has changed. One that is not readable, not complete or gone changes
    /// nothing: stolen keys would be accepted meanwhile.
    fn read(&self) {
        let stamp = stamp(&self.folder);
        if self.known().0 == stamp {
            return;
        }
        let loaded = load(&self.folder);
        let mut known = self.known();
        known.0 = stamp;
        match loaded {
            Ok(Some(table)) => known.1 = Arc::new(table),
            Ok(None) => {
                let path = self.folder.path(FILE);
                let path = path.display();
                error!(%path, "the file of revocations is gone: they stay in force until a restart");
            }
            Err(error) => error!(%error, "revocations stay as they were"),
        }
    }

    fn known(&self) -> MutexGuard<'_, (Stamp, Arc<Table>)> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stamp(folder: &Folder) -> Stamp {
    match fs::metadata(folder.path(FILE)) {
        Ok(facts) => Ok(Some((
            facts.ino(),
            facts.len(),
            facts.mtime(),
            facts.mtime_nsec(),
        ))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.kind()),
    }
}

/// Reads the file; `None` where there is none.
fn load(folder: &Folder) -> Result<Option<Table>> {
    let path = folder.path(FILE);
    let text = match read(&path) {
        Err(Error::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        text => text?,
    };
    // Half of a time is an earlier one.
    if text.last() != Some(&b'\n') {
        let fact = "ends within a line: install a complete copy by renaming it";
        return Err(Error::certificate(path.display(), fact));
    }
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let lines = lines.map(|line| {
        let bad = || Error::certificate(path.display(), format!("no ROLE NAME SECONDS: {line:?}"));
        let mut words = line.split_whitespace();
        let [role, name, seconds] = [words.next(), words.next(), words.next()];
        let role = role.and_then(Role::from_name).ok_or_else(bad)?;
        let seconds = seconds.and_then(|text| text.parse().ok()).ok_or_else(bad)?;
        let name = name.ok_or_else(bad)?.to_owned();
        Ok(((role, name), Duration::from_secs(seconds)))
    });
    lines.collect::<Result<_>>().map(Some)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const LINE: &str = "node one 4000000000\n";

    fn peer() -> Peer {
        Peer {
            identity: Identity::new("a", Role::Node, "one").unwrap(),
            issued: SystemTime::now(),
            not_after: SystemTime::now(),
        }
    }

    /// Puts a complete file in place, as a rename does.
    fn install(folder: &Folder, text: &str) {
        folder.write(FILE, text.as_bytes(), 0o644).unwrap();
    }

    /// Reads the file, and checks the peer.
    fn check(revocations: &Revocations) -> Result<()> {
        revocations.read();
        revocations.check(&peer())
    }

    #[test]
    fn only_a_complete_file_changes_the_revocations() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path());
        let path = folder.path(FILE);
        let revocations = Revocations::load(&folder).unwrap();
        check(&revocations).unwrap();
        install(&folder, LINE);
        assert!(check(&revocations).is_err());
        // Steps of a copy: "1970" would accept the key.
        for text in ["", "node one 4", "nobody one 4000000000\n", "node one\n"] {
            fs::write(&path, text).unwrap();
            assert!(check(&revocations).is_err(), "{text:?}");
        }
        // Not examined, not read, gone.
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&path, &path).unwrap();
        assert!(check(&revocations).is_err(), "a loop of links");
        assert!(Revocations::load(&folder).is_err(), "a loop of links");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(check(&revocations).is_err(), "a directory");
        fs::remove_dir(&path).unwrap();
        assert!(check(&revocations).is_err(), "no file");
        assert!(check(&revocations).is_err(), "still no file");
        install(&folder, "node two 4000000000\n");
        check(&revocations).unwrap();
    }

    /// A named pipe without a writer stands for it: the opening waits.
    #[tokio::test]
    async fn a_file_system_that_does_not_answer_holds_no_connection() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path());
        let path = folder.path(FILE);
        let revocations = Arc::new(Revocations::load(&folder).unwrap());
        let made = Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        // The second one waits for the thread of the first.
        revocations.refresh().await;
        revocations.refresh().await;
        revocations.check(&peer()).unwrap();
        let answering = spawn_blocking(|| fs::OpenOptions::new().write(true).open(path));
        drop(answering.await.unwrap().unwrap());
        install(&folder, LINE);
        revocations.refresh().await;
        assert!(revocations.check(&peer()).is_err());
    }
}
