//! The files of a CA directory: their names, their stamps and their contents.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use gsi::certificate::{BadCertificate, Certificate};
use gsi::policy::{BadPolicy, SigningPolicy};
use gsi::revocation::{BadRevocationList, RevocationList};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};

use crate::file::{self, FileError};

/// Bound of a file with certificates or a policy, in bytes.
const MAX_FILE: u64 = 1024 * 1024;
/// Bound of a revocation list, in bytes.
const MAX_LIST: u64 = 64 * 1024 * 1024;

/// The kind of a file, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `HASH.0`
    Authority,
    /// `HASH.signing_policy`
    Policy,
    /// `HASH.r0`
    Revocations,
}

/// The marks by which a change of a file is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    /// The hash in its name.
    pub(super) hash: u32,
    /// Device and inode.
    pub(super) identity: (u64, u64),
    modified: (i64, i64),
    size: u64,
}

/// The content of a file.
#[derive(Debug)]
pub(super) enum Content {
    /// Certificates, each with the two hashes of its subject.
    Authorities(Vec<(CertificateDer<'static>, [u32; 2])>),
    Policy(SigningPolicy),
    Revocations(Box<RevocationList>),
}

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadFile {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}: broken PEM block: {error}", .path.display())]
    Pem { path: PathBuf, error: pem::Error },
    #[error("{}: {error}", .path.display())]
    Certificate {
        path: PathBuf,
        error: BadCertificate,
    },
    #[error("{}: {error}", .path.display())]
    Policy { path: PathBuf, error: BadPolicy },
    #[error("{}: {error}", .path.display())]
    Revocations {
        path: PathBuf,
        error: BadRevocationList,
    },
}

/// Returns the kind and the hash of a file by its name.
fn kind(name: &str) -> Option<(Kind, u32)> {
    let (hash, extension) = name.split_once('.')?;
    if hash.len() != 8 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let hash = u32::from_str_radix(hash, 16).ok()?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let kind = match extension {
        "signing_policy" => Kind::Policy,
        number if is_number(number) => Kind::Authority,
        list if list.strip_prefix('r').is_some_and(is_number) => Kind::Revocations,
        _ => return None,
    };
    Some((kind, hash))
}

/// Lists the files that matter. If no authority can be seen because of a failure, that is an error.
pub(super) fn list(directory: &Path) -> Result<BTreeMap<String, (Kind, Stamp)>, FileError> {
    let failed = |error| FileError::io(directory, error);
    let mut files = BTreeMap::new();
    let mut failure = None;
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let Some((kind, hash)) = kind(&name) else {
            continue;
        };
        let metadata = match fs::metadata(entry.path()) {
            Ok(metadata) => metadata,
            // A link that leads nowhere is no file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                failure = Some(error);
                continue;
            }
        };
        let stamp = Stamp {
            hash,
            identity: (metadata.dev(), metadata.ino()),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            size: metadata.len(),
        };
        files.insert(name, (kind, stamp));
    }
    let is_empty = !files.values().any(|(kind, _)| *kind == Kind::Authority);
    match failure.filter(|_| is_empty) {
        Some(error) => Err(failed(error)),
        None => Ok(files),
    }
}

/// Reads a file of a kind.
pub(super) fn read(path: &Path, kind: Kind) -> Result<Content, BadFile> {
    let most = match kind {
        Kind::Authority | Kind::Policy => MAX_FILE,
        Kind::Revocations => MAX_LIST,
    };
    let bytes = file::contents(path, &file::open(path)?, most)?;
    let broken = |error| BadFile::Pem {
        path: path.to_owned(),
        error,
    };
    match kind {
        Kind::Authority => {
            let mut found = Vec::new();
            for der in CertificateDer::pem_slice_iter(&bytes) {
                let certificate = Certificate::parse(der.map_err(broken)?);
                let certificate = certificate.map_err(|error| BadFile::Certificate {
                    path: path.to_owned(),
                    error,
                })?;
                let subject = certificate.subject();
                let hashes = [subject.hash(), subject.old_hash()];
                found.push((certificate.der().clone(), hashes));
            }
            match found.is_empty() {
                true => Err(broken(pem::Error::NoItemsFound)),
                false => Ok(Content::Authorities(found)),
            }
        }
        Kind::Policy => {
            let policy = SigningPolicy::parse(&bytes).map_err(|error| BadFile::Policy {
                path: path.to_owned(),
                error,
            })?;
            Ok(Content::Policy(policy))
        }
        Kind::Revocations => {
            // Some authorities publish DER.
            let list = match bytes.first() {
                Some(0x30) => RevocationList::parse(&bytes),
                _ => {
                    let der = CertificateRevocationListDer::from_pem_slice(&bytes);
                    RevocationList::parse(&der.map_err(broken)?)
                }
            };
            let list = list.map_err(|error| BadFile::Revocations {
                path: path.to_owned(),
                error,
            })?;
            Ok(Content::Revocations(Box::new(list)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_the_kind() {
        for (name, expected) in [
            ("b699121e.0", Some((Kind::Authority, 0xb699_121e))),
            ("B699121E.12", Some((Kind::Authority, 0xb699_121e))),
            ("b699121e.r0", Some((Kind::Revocations, 0xb699_121e))),
            ("b699121e.signing_policy", Some((Kind::Policy, 0xb699_121e))),
            ("b699121e.r", None),
            ("b699121e.", None),
            ("b699121e.namespaces", None),
            ("b699121e.0.bak", None),
            ("+699121e.0", None),
            ("b699121.0", None),
            ("lab-ca.pem", None),
        ] {
            assert_eq!(kind(name), expected, "{name}");
        }
    }
}
