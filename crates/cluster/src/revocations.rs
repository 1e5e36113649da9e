//! `Revocations`: the members whose certificates are refused, in the file `revoked` of a folder.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tracing::error;

use crate::authority::Authority;
use crate::error::{Error, Result};
use crate::folder::{Folder, read};
use crate::identity::{Identity, Peer, Role};

const FILE: &str = "revoked";

/// Refuses all certificates that a member was issued up to now, here and at its next call.
///
/// One line of the file `revoked` in `folder` names the member and the time; a running program reads
/// it before each handshake and each report of a node. A certificate that is issued later, for a new
/// token, is accepted.
///
/// # Errors
///
/// The folder holds no authority, the name is not valid, or the file cannot be written.
pub fn revoke(folder: impl Into<PathBuf>, role: Role, name: &str) -> Result<Identity> {
    let folder = Folder::new(folder);
    let none = || Error::certificate(folder.path("ca.key").display(), "there is no authority");
    let authority = Authority::load(&folder)?.ok_or_else(none)?;
    let identity = authority.member(role, name)?;
    let mut table = load(&folder)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    table.insert((role, name.to_owned()), now.unwrap_or_default());
    let lines = table.iter().map(|((role, name), at)| {
        let (role, seconds) = (role.name(), at.as_secs());
        format!("{role} {name} {seconds}\n")
    });
    folder.write(FILE, lines.collect::<String>().as_bytes(), 0o644)?;
    Ok(identity)
}

/// Members, and the time since 1970 of their revocation.
type Table = BTreeMap<(Role, String), Duration>;

/// Inode, size and times of a file.
type Stamp = Option<(u64, u64, i64, i64)>;

/// The revocations in force, read again when the file changes.
#[derive(Debug)]
pub(crate) struct Revocations {
    folder: Folder,
    known: Mutex<(Stamp, Arc<Table>)>,
}

impl Revocations {
    /// Reads the file; none means no revocations.
    pub(crate) fn load(folder: &Folder) -> Result<Self> {
        let stamp = stamp(folder);
        let table = Arc::new(load(folder)?);
        Ok(Self {
            folder: folder.clone(),
            known: Mutex::new((stamp, table)),
        })
    }

    /// Checks that the certificate of a peer is not revoked.
    pub(crate) fn check(&self, peer: &Peer) -> Result<()> {
        let identity = &peer.identity;
        let table = self.current();
        let revoked = table.get(&(identity.role, identity.name.clone()));
        match revoked {
            Some(at) if peer.issued <= UNIX_EPOCH + *at => {
                Err(Error::Revoked(identity.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// The table of the file; a mistake in it changes nothing.
    fn current(&self) -> Arc<Table> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = stamp(&self.folder);
        if known.0 != stamp {
            known.0 = stamp;
            match load(&self.folder) {
                Ok(table) => known.1 = Arc::new(table),
                Err(error) => error!(%error, "revocations kept as they were"),
            }
        }
        Arc::clone(&known.1)
    }
}

fn stamp(folder: &Folder) -> Stamp {
    let facts = fs::metadata(folder.path(FILE)).ok()?;
    Some((facts.ino(), facts.len(), facts.mtime(), facts.mtime_nsec()))
}

fn load(folder: &Folder) -> Result<Table> {
    if !folder.has(FILE) {
        return Ok(Table::new());
    }
    let path = folder.path(FILE);
    let text = read(&path)?;
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
    lines.collect()
}
