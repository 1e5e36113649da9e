//! Accounts of a pool, which identities lease by links in the directory `GRIDMAPDIR`.
//!
//! Each account is a file of the directory, and the lease of an identity a second name of that file:
//! the identity in lower case, with `%HH` for all but letters and digits. The Globus programs make and
//! read the same links, so both may serve one directory.

use std::ffi::OsStr;
use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};

/// Attempts at a lease, while other servers make and remove them.
const TRIES: usize = 8;

/// Returns the account that the identity has of the pool `.PREFIX`, or leases a free one, of which
/// there may be none.
///
/// # Errors
/// The directory cannot be read or written, or the identity has an account of another pool.
pub(crate) fn lease(directory: &Path, pool: &str, identity: &str) -> io::Result<Option<String>> {
    let link = directory.join(OsStr::from_bytes(encoded(identity).as_bytes()));
    for _ in 0..TRIES {
        let held = match fs::symlink_metadata(&link) {
            Ok(held) => held,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match take(directory, pool, &link)? {
                    true => continue,
                    false => return Ok(None),
                }
            }
            Err(error) => return Err(error),
        };
        let Some(account) = account_of(directory, &held)? else {
            // Its account was removed.
            fs::remove_file(&link).or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            })?;
            continue;
        };
        if !is_of(pool, &account) {
            let fact = format!("it holds {account}, which is not of the pool {pool}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, fact));
        }
        // Two servers that lease one account at the same moment both withdraw.
        if held.nlink() == 2 {
            note_use(&link);
            return Ok(Some(account));
        }
    }
    let fact = "its account is leased to others too; remove the links that are too many";
    Err(io::Error::new(io::ErrorKind::InvalidData, fact))
}

/// Returns the number of accounts of a pool, and of free ones.
///
/// # Errors
/// The directory cannot be read.
pub fn accounts(directory: &Path, pool: &str) -> io::Result<(usize, usize)> {
    let accounts = of_pool(directory, pool)?;
    let free = accounts.iter().filter(|(_, links)| *links == 1).count();
    Ok((accounts.len(), free))
}

/// Leases a free account; says whether to look for the lease, of this server or another.
fn take(directory: &Path, pool: &str, link: &Path) -> io::Result<bool> {
    for (account, links) in of_pool(directory, pool)? {
        if links != 1 {
            continue;
        }
        match fs::hard_link(directory.join(&account), link) {
            Ok(()) if fs::symlink_metadata(link)?.nlink() == 2 => return Ok(true),
            // Another identity took it at the same moment.
            Ok(()) => fs::remove_file(link)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// The accounts of a pool and the numbers of their links, in the order of the alphabet.
fn of_pool(directory: &Path, pool: &str) -> io::Result<Vec<(String, u64)>> {
    let mut accounts = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let Some(account) = name(&entry).filter(|name| is_of(pool, name)) else {
            continue;
        };
        match entry.metadata() {
            Ok(file) if file.is_file() => accounts.push((account, file.nlink())),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    accounts.sort_unstable();
    Ok(accounts)
}

/// The account whose file this is.
fn account_of(directory: &Path, file: &Metadata) -> io::Result<Option<String>> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let Some(account) = name(&entry) else {
            continue;
        };
        match entry.metadata() {
            Ok(found) if (found.dev(), found.ino()) == (file.dev(), file.ino()) => {
                return Ok(Some(account));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// The account of an entry; `None` for leases and others.
fn name(entry: &DirEntry) -> Option<String> {
    let name = entry.file_name().into_string().ok()?;
    (!name.starts_with(['%', '.'])).then_some(name)
}

/// Whether an account is of the pool `.PREFIX`.
fn is_of(pool: &str, account: &str) -> bool {
    let prefix = pool.strip_prefix('.').unwrap_or(pool);
    let number = account.strip_prefix(prefix);
    let is_number = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
    // An account of the pool `.atlasprod` is none of `.atlas`.
    !prefix.is_empty() && number.is_some_and(is_number)
}

/// Notes the time, by which administrators find leases that nobody uses.
fn note_use(link: &Path) {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    let times = Timestamps {
        last_access: now,
        last_modification: now,
    };
    // Others may own the file.
    let _ = utimensat(CWD, link, &times, AtFlags::SYMLINK_NOFOLLOW);
}

/// The name of the link of an identity.
fn encoded(identity: &str) -> String {
    let mut name = String::with_capacity(2 * identity.len());
    for byte in identity.bytes() {
        match byte.is_ascii_alphanumeric() {
            true => name.push(byte.to_ascii_lowercase().into()),
            false => name.push_str(&format!("%{byte:02x}")),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: &str = "/O=Lab/CN=Alice";

    /// The names are those that globus-gridftp-server 13.24 made.
    #[test]
    fn leases_are_those_of_the_globus_programs() {
        let folder = tempfile::tempdir().unwrap();
        let pool = folder.path();
        for account in ["gam2", "gam1", "gamprod1", "other1", ".gam0", "%gam"] {
            fs::write(pool.join(account), "").unwrap();
        }
        fs::create_dir(pool.join("gam0")).unwrap();
        let lease = |pool_name: &str, identity| lease(pool, pool_name, identity);
        assert_eq!(accounts(pool, ".gam").unwrap(), (2, 2));
        assert_eq!(lease(".gam", ALICE).unwrap().as_deref(), Some("gam1"));
        assert_eq!(lease(".gam", ALICE).unwrap().as_deref(), Some("gam1"));
        let same = |link: &str, account: &str| {
            let [link, account] =
                [link, account].map(|name| fs::metadata(pool.join(name)).unwrap());
            assert_eq!((link.ino(), link.nlink()), (account.ino(), 2));
        };
        same("%2fo%3dlab%2fcn%3dalice", "gam1");
        let bob = "/O=Lab/CN=Bob M. Lab-2_x";
        assert_eq!(lease(".gam", bob).unwrap().as_deref(), Some("gam2"));
        same("%2fo%3dlab%2fcn%3dbob%20m%2e%20lab%2d2%5fx", "gam2");
        assert_eq!(accounts(pool, ".gam").unwrap(), (2, 0));
        assert_eq!(lease(".gam", "/O=Lab/CN=Eve").unwrap(), None);
        assert_eq!(lease(".", "/O=Lab/CN=Eve").unwrap(), None);
        let [account, other] = ["gam2", "%other"].map(|name| pool.join(name));
        fs::hard_link(account, &other).unwrap();
        assert!(lease(".gam", bob).is_err(), "two hold it");
        fs::remove_file(other).unwrap();
        assert!(lease(".gam", bob).is_ok());
        // The administrator moved her to another pool.
        assert!(
            lease(".other", ALICE)
                .unwrap_err()
                .to_string()
                .contains("gam1")
        );
        // A removed lease frees its account, and a removed account its lease.
        fs::remove_file(pool.join("%2fo%3dlab%2fcn%3dalice")).unwrap();
        assert_eq!(
            lease(".gam", "/O=Lab/CN=Eve").unwrap().as_deref(),
            Some("gam1")
        );
        fs::remove_file(pool.join("gam1")).unwrap();
        assert_eq!(lease(".gam", "/O=Lab/CN=Eve").unwrap(), None);
        assert_eq!(
            lease(".other", "/O=Lab/CN=Eve").unwrap().as_deref(),
            Some("other1")
        );
        assert!(super::lease(&pool.join("none"), ".gam", ALICE).is_err());
    }
}
