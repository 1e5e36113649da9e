//! The files of further host names, a directory for each, as `X509_VHOST_CRED_DIR` of Globus has them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::CredentialFiles;
use crate::file::FileError;

/// Returns the files of the credential in each directory below this one, in the order of the
/// alphabet; names that begin with a dot are left out, as those of a file system's snapshots.
///
/// As at the Globus server, the file whose name ends in `cert.pem` has the certificate and the chain,
/// and that in `key.pem` the key: `hostcert.pem` and `hostkey.pem`, or `cert.pem` and `privkey.pem`.
/// The names of the directories do not matter, those in the certificates do.
///
/// # Errors
/// The directory cannot be read; a directory below it, in its place of the list.
pub fn of_hosts(directory: &Path) -> Result<Vec<Result<CredentialFiles, FileError>>, FileError> {
    let is_hidden = |path: &Path| {
        let name = path.file_name().unwrap_or_default();
        name.as_encoded_bytes().starts_with(b".")
    };
    let hosts = listed(directory)?.into_iter();
    let hosts = hosts.filter(|path| path.is_dir() && !is_hidden(path));
    Ok(hosts.map(|host| files(&host)).collect())
}

fn files(host: &Path) -> Result<CredentialFiles, FileError> {
    let inside = listed(host)?;
    let named = |end: &str| {
        let ends = |path: &&PathBuf| path.to_string_lossy().ends_with(end);
        inside.iter().find(ends).cloned()
    };
    // Of a missing one the error names a usual place.
    let or = |found: Option<PathBuf>, usual: &str| found.unwrap_or_else(|| host.join(usual));
    Ok(CredentialFiles::pair(
        or(named("cert.pem"), "hostcert.pem"),
        or(named("key.pem"), "hostkey.pem"),
    ))
}

/// The entries of a directory, in the order of the alphabet.
fn listed(directory: &Path) -> Result<Vec<PathBuf>, FileError> {
    let entries = fs::read_dir(directory)
        .and_then(|entries| entries.collect::<io::Result<Vec<_>>>())
        .map_err(|error| FileError::io(directory, error))?;
    let mut entries: Vec<_> = entries.iter().map(fs::DirEntry::path).collect();
    entries.sort_unstable();
    Ok(entries)
}
