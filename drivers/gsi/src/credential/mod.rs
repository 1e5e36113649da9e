//! Credentials of users and hosts, found in the places of the Globus programs.

mod hosts;
mod pkcs12;
#[cfg(test)]
mod tests;

pub use hosts::of_hosts;

use std::io;
use std::path::{Path, PathBuf};

use gsi::credential::{Credential, CredentialError};
use gsi::name::Name;
use rustls::pki_types::UnixTime;
use zeroize::Zeroizing;

use crate::environment::{Environment, listed};
use crate::file::{self, FileError, Protection};

/// The program that needs a credential, which decides about the order of places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Purpose {
    /// That of a user: files in variables, then the proxy, the user's own, the host's.
    ///
    /// The Globus programs prefer the host's, so that root cannot use a proxy where there is a host
    /// certificate.
    Client,
    /// That of a service: the files of `$X509_USER_CERT` and `$X509_USER_KEY`, then the host's, the
    /// proxy, the user's own, as in the Globus programs.
    Server,
}

/// A place where credentials are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// `$X509_USER_PROXY`.
    ProxyVariable,
    /// `$X509_USER_CERT` and `$X509_USER_KEY`.
    PairVariables,
    /// `/tmp/x509up_u<uid>`.
    Proxy,
    /// `~/.globus/usercert.pem` and `userkey.pem`, or else `usercred.p12`.
    User,
    /// `hostcert.pem` and `hostkey.pem`.
    Host,
}

impl Purpose {
    fn places(self) -> [Place; 5] {
        match self {
            Self::Client => [
                Place::ProxyVariable,
                Place::PairVariables,
                Place::Proxy,
                Place::User,
                Place::Host,
            ],
            Self::Server => [
                Place::PairVariables,
                Place::Host,
                Place::ProxyVariable,
                Place::Proxy,
                Place::User,
            ],
        }
    }
}

/// The files of a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CredentialFiles {
    /// The certificate and the chain above it.
    pub certificate: PathBuf,
    /// The private key, if it is in a file of its own.
    pub key: Option<PathBuf>,
}

/// A credential, and the files that it is from.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Found {
    /// The credential.
    pub credential: Credential,
    /// Its files.
    pub files: CredentialFiles,
}

/// The reason why there is no credential.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoCredential {
    /// A file cannot be read, or others may.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file is no credential.
    #[error("{}: {error}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The fault.
        error: CredentialError,
    },
    /// There is no passphrase for the key.
    #[error("{}: the passphrase of the private key: {error}", .path.display())]
    Passphrase {
        /// The file with the key.
        path: PathBuf,
        /// The fault.
        error: io::Error,
    },
    /// The credential is too old.
    #[error(
        "{}: the credential of {subject} has expired: make a new proxy with `gridftp-cp proxy \
         init`, or renew the certificate",
        .path.display()
    )]
    Expired {
        /// The file.
        path: PathBuf,
        /// The subject.
        subject: Name,
    },
    /// There is none at all.
    #[error(
        "no credential in {}: make a proxy with `gridftp-cp proxy init`, or name the files in \
         X509_USER_CERT and X509_USER_KEY",
        listed(.places)
    )]
    None {
        /// The files that were sought.
        places: Vec<PathBuf>,
    },
}

impl CredentialFiles {
    /// One file with certificate, key and chain, as a proxy has it.
    pub fn one(path: impl Into<PathBuf>) -> Self {
        Self {
            certificate: path.into(),
            key: None,
        }
    }

    /// A certificate and its key.
    pub fn pair(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        let (certificate, key) = (certificate.into(), key.into());
        Self {
            key: (key != certificate).then_some(key),
            certificate,
        }
    }

    /// The files of a user's own certificate: those of `$X509_USER_CERT` and `$X509_USER_KEY`, or
    /// else `usercert.pem` and `userkey.pem` in `~/.globus`, or else `usercred.p12` there if it
    /// exists; `None` without a home.
    pub fn of_user(environment: &Environment) -> Option<Self> {
        let mut told = candidates(environment, Place::PairVariables);
        let mut own = candidates(environment, Place::User);
        let there = own.iter().position(|files| files.certificate.exists());
        told.append(&mut own.split_off(there.unwrap_or_default()));
        told.into_iter().next()
    }

    /// Reads the credential as the user `uid`.
    ///
    /// A file with a key must be regular, belong to that user, and have the mode 0600 or 0400; one
    /// with certificates only must not be writable for others.
    ///
    /// # Errors
    /// Any [`NoCredential`] but `None`.
    pub fn read(&self, uid: u32, now: UnixTime) -> Result<Credential, NoCredential> {
        let credential = self.read_of_any_age(uid)?;
        if credential.not_after() < now {
            return Err(NoCredential::Expired {
                path: self.certificate.clone(),
                subject: credential.subject().clone(),
            });
        }
        Ok(credential)
    }

    /// Reads the credential like [`read`](Self::read), be it expired or not.
    ///
    /// # Errors
    /// Any [`NoCredential`] but `Expired` and `None`.
    pub fn read_of_any_age(&self, uid: u32) -> Result<Credential, NoCredential> {
        let bytes = self.contents(uid)?;
        parse(&bytes, None).map_err(|error| self.malformed(error))
    }

    /// Reads the credential like [`read_of_any_age`](Self::read_of_any_age). If the key is
    /// encrypted, `ask` returns the passphrase of the file with the key.
    ///
    /// # Errors
    /// Any [`NoCredential`] but `Expired` and `None`.
    pub fn unlock(
        &self,
        uid: u32,
        ask: impl FnOnce(&Path) -> io::Result<Zeroizing<String>>,
    ) -> Result<Credential, NoCredential> {
        let bytes = self.contents(uid)?;
        let credential = match parse(&bytes, None) {
            Err(CredentialError::Encrypted) => {
                let path = self.key_file();
                let passphrase = ask(path).map_err(|error| NoCredential::Passphrase {
                    path: path.to_owned(),
                    error,
                })?;
                parse(&bytes, Some(&passphrase))
            }
            other => other,
        };
        credential.map_err(|error| self.malformed(error))
    }

    fn key_file(&self) -> &Path {
        self.key.as_ref().unwrap_or(&self.certificate)
    }

    /// Reads the files, one after the other.
    fn contents(&self, uid: u32) -> Result<Zeroizing<Vec<u8>>, FileError> {
        let secret = Protection::Secret { uid };
        let Some(key) = &self.key else {
            return file::read(&self.certificate, secret);
        };
        let certificate = file::read(&self.certificate, Protection::Certificate)?;
        let key = file::read(key, secret)?;
        let mut both = Zeroizing::new(Vec::with_capacity(certificate.len() + key.len() + 1));
        both.extend_from_slice(&certificate);
        both.push(b'\n');
        both.extend_from_slice(&key);
        Ok(both)
    }

    /// Names the file at fault.
    fn malformed(&self, error: CredentialError) -> NoCredential {
        let path = match error {
            CredentialError::NoCertificate | CredentialError::Certificate(_) => &self.certificate,
            _ => self.key_file(),
        };
        NoCredential::Malformed {
            path: path.to_owned(),
            error,
        }
    }
}

/// Reads PEM or PKCS#12.
fn parse(bytes: &[u8], passphrase: Option<&str>) -> Result<Credential, CredentialError> {
    match passphrase {
        _ if pkcs12::is_archive(bytes) => pkcs12::open(bytes, passphrase),
        Some(passphrase) => Credential::from_pem_with_passphrase(bytes, passphrase.as_bytes()),
        None => Credential::from_pem(bytes),
    }
}

/// Finds the credential of this user or host.
///
/// Files in variables must exist. A missing file of another place is passed over, and so is a host
/// credential that belongs to another user; a bad one ends the search.
///
/// # Errors
/// The first usable place holds no good credential, or there is no such place.
pub fn find(
    environment: &Environment,
    purpose: Purpose,
    now: UnixTime,
) -> Result<Found, NoCredential> {
    let mut sought = Vec::new();
    for place in purpose.places() {
        for files in candidates(environment, place) {
            match files.read(environment.uid(), now) {
                Ok(credential) => return Ok(Found { credential, files }),
                Err(NoCredential::File(error)) if passes(place, &error) => {
                    sought.push(error.path);
                }
                Err(error) => return Err(error),
            }
        }
    }
    Err(NoCredential::None { places: sought })
}

/// Whether a file of a place may be missing.
fn passes(place: Place, error: &FileError) -> bool {
    match place {
        Place::ProxyVariable | Place::PairVariables => false,
        Place::Proxy | Place::User => error.is_missing(),
        Place::Host => error.is_missing() || error.is_foreign(),
    }
}

fn candidates(environment: &Environment, place: Place) -> Vec<CredentialFiles> {
    let beside = |certificate: &Path| {
        let key = certificate.with_file_name("hostkey.pem");
        CredentialFiles::pair(certificate, key)
    };
    match place {
        Place::ProxyVariable => {
            let given = environment.path("X509_USER_PROXY");
            given.map(CredentialFiles::one).into_iter().collect()
        }
        Place::PairVariables => {
            let certificate = environment.path("X509_USER_CERT");
            let key = environment.path("X509_USER_KEY");
            let files = certificate.map(|certificate| {
                let key = key.unwrap_or_else(|| certificate.clone());
                CredentialFiles::pair(certificate, key)
            });
            files.into_iter().collect()
        }
        Place::Proxy => vec![CredentialFiles::one(environment.default_proxy_file())],
        Place::User => {
            let certificate = environment.in_home(".globus/usercert.pem");
            let key = environment.in_home(".globus/userkey.pem");
            let files = certificate.zip(key);
            let files = files.map(|(certificate, key)| CredentialFiles::pair(certificate, key));
            let archive = environment.in_home(".globus/usercred.p12");
            let archive = archive.map(CredentialFiles::one);
            files.into_iter().chain(archive).collect()
        }
        Place::Host => {
            let places = [
                Some(environment.in_system("hostcert.pem")),
                environment.in_globus("etc/hostcert.pem"),
                environment.in_home(".globus/hostcert.pem"),
            ];
            places.iter().flatten().map(|path| beside(path)).collect()
        }
    }
}
