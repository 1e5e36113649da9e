//! Credentials of users and hosts, found in the places of the Globus programs.

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
    /// `~/.globus/usercert.pem` and `userkey.pem`.
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
    /// else `usercert.pem` and `userkey.pem` in `~/.globus`; `None` without a home.
    pub fn of_user(environment: &Environment) -> Option<Self> {
        let places = [Place::PairVariables, Place::User];
        let mut files = places
            .map(|place| candidates(environment, place))
            .into_iter();
        files.find_map(|files| files.into_iter().next())
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
        let pem = self.contents(uid)?;
        Credential::from_pem(&pem).map_err(|error| self.malformed(error))
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
        let pem = self.contents(uid)?;
        let credential = match Credential::from_pem(&pem) {
            Err(CredentialError::Encrypted) => {
                let path = self.key_file();
                let passphrase = ask(path).map_err(|error| NoCredential::Passphrase {
                    path: path.to_owned(),
                    error,
                })?;
                Credential::from_pem_with_passphrase(&pem, passphrase.as_bytes())
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
            files.into_iter().collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use xio_testkit::{Grid, Validity};

    /// A user at home, with a system of the test.
    fn environment(grid: &Grid) -> Environment {
        let folder = grid.folder();
        for inner in ["home/.globus", "tmp", "sys"] {
            fs::create_dir_all(folder.join(inner)).unwrap();
        }
        Environment::new(rustix::process::geteuid().as_raw())
            .home(folder.join("home"))
            .temporary(folder.join("tmp"))
            .system(folder.join("sys"))
    }

    fn subject(environment: &Environment, purpose: Purpose) -> String {
        match find(environment, purpose, UnixTime::now()) {
            Ok(found) => found.credential.subject().to_string(),
            Err(error) => format!("{error}"),
        }
    }

    /// Writes a certificate and its key to two files.
    fn pair(grid: &Grid, common: &str, certificate: &str, key: &str) {
        let pem = grid.user(common).to_pem();
        let at = pem.find("-----BEGIN PRIVATE").unwrap();
        grid.write(certificate, &pem[..at], 0o644);
        grid.write(key, &pem[at..], 0o400);
    }

    /// Trap 18 of Grid security.
    #[test]
    fn a_client_prefers_the_user_and_a_server_the_host() {
        let grid = Grid::new();
        let mut here = environment(&grid);
        let both = |here: &Environment| {
            let last = |purpose| {
                let subject = subject(here, purpose);
                subject.rsplit('=').next().unwrap_or_default().to_owned()
            };
            (last(Purpose::Client), last(Purpose::Server))
        };
        let none = subject(&here, Purpose::Client);
        assert!(
            none.contains("tmp/x509up_u") && none.contains("proxy init"),
            "{none}"
        );

        pair(&grid, "host", "sys/hostcert.pem", "sys/hostkey.pem");
        assert_eq!(both(&here), ("host".into(), "host".into()));
        pair(
            &grid,
            "user",
            "home/.globus/usercert.pem",
            "home/.globus/userkey.pem",
        );
        assert_eq!(both(&here), ("user".into(), "host".into()));
        let proxy = format!("tmp/x509up_u{}", here.uid());
        let _ = grid.store(&grid.user("made"), &proxy);
        assert_eq!(both(&here), ("made".into(), "host".into()));
        let told = grid.store(&grid.user("told"), "told.pem");
        here = here.variable("X509_USER_CERT", &told);
        assert_eq!(both(&here), ("told".into(), "told".into()));
        let named = grid.store(&grid.user("named"), "named.pem");
        here = here.variable("X509_USER_PROXY", named);
        assert_eq!(both(&here), ("named".into(), "told".into()));

        // A file in a variable is not passed over.
        let here = here.variable("X509_USER_PROXY", grid.folder().join("gone"));
        assert!(subject(&here, Purpose::Client).contains("gone: No such file"));
    }

    #[test]
    fn the_files_of_a_user_are_those_in_variables_or_at_home() {
        let files = |here: &Environment| CredentialFiles::of_user(here);
        let here = Environment::new(1000);
        assert_eq!(files(&here), None);
        let here = here.home("/home/pat");
        let pair = CredentialFiles::pair(
            "/home/pat/.globus/usercert.pem",
            "/home/pat/.globus/userkey.pem",
        );
        assert_eq!(files(&here), Some(pair));
        let here = here.variable("X509_USER_CERT", "/c");
        assert_eq!(files(&here), Some(CredentialFiles::one("/c")));
        // A proxy is often named in both.
        let both = here.clone().variable("X509_USER_KEY", "/c");
        assert_eq!(files(&both), Some(CredentialFiles::one("/c")));
        let here = here.variable("X509_USER_KEY", "/k");
        assert_eq!(files(&here), Some(CredentialFiles::pair("/c", "/k")));
    }

    #[test]
    fn files_with_keys_are_for_their_owner_alone() {
        let grid = Grid::new();
        let here = environment(&grid);
        let path = grid.store(&grid.user("Alice Lab"), "proxy.pem");
        let here = here.variable("X509_USER_PROXY", &path);
        for (mode, good) in [
            (0o600, true),
            (0o400, true),
            (0o640, false),
            (0o644, false),
            (0o700, false),
            (0o604, false),
        ] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let subject = subject(&here, Purpose::Client);
            assert_eq!(subject.starts_with("/O=Grid"), good, "{mode:o}: {subject}");
            assert!(good || subject.contains(&format!("proxy.pem: its mode {mode:04o}")));
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let stranger = CredentialFiles::one(&path).read(here.uid() + 1, UnixTime::now());
        let error = stranger.unwrap_err().to_string();
        assert!(error.contains("chown"), "{error}");
        let folder = CredentialFiles::one(grid.folder()).read(here.uid(), UnixTime::now());
        assert!(folder.unwrap_err().to_string().contains("no regular file"));
        let empty = grid.write("empty.pem", "", 0o600);
        let empty = CredentialFiles::one(empty).read(here.uid(), UnixTime::now());
        assert!(empty.unwrap_err().to_string().contains("is empty"));
    }

    #[test]
    fn certificates_may_be_read_by_all_and_changed_by_none() {
        let grid = Grid::new();
        let here = environment(&grid);
        pair(&grid, "Alice Lab", "cert.pem", "key.pem");
        let (certificate, key) = (
            grid.folder().join("cert.pem"),
            grid.folder().join("key.pem"),
        );
        let files = CredentialFiles::pair(&certificate, &key);
        for (mode, good) in [(0o644, true), (0o444, true), (0o664, false), (0o755, false)] {
            fs::set_permissions(&certificate, fs::Permissions::from_mode(mode)).unwrap();
            let read = files.read(here.uid(), UnixTime::now());
            assert_eq!(read.is_ok(), good, "{mode:o}: {read:?}");
        }
    }

    #[test]
    fn an_old_or_broken_credential_is_named() {
        let grid = Grid::new();
        let here = environment(&grid);
        let old = grid.issue("Alice Lab", &[], Validity::Expired);
        let old = here
            .clone()
            .variable("X509_USER_PROXY", grid.store(&old, "old.pem"));
        let error = subject(&old, Purpose::Client);
        assert!(
            error.contains("old.pem: the credential of /O=Grid/OU=Lab/CN=Alice Lab has expired")
        );
        let broken = grid.write("broken.pem", "-----BEGIN CERTIFICATE-----\n", 0o600);
        let broken = here.variable("X509_USER_PROXY", broken);
        let error = subject(&broken, Purpose::Client);
        assert!(error.contains("broken.pem"), "{error}");
    }
}
