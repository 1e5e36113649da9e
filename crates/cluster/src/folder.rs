//! The files of a member: `ca.pem`, `ca.key`, `cert.pem`, `key.pem`, and the tokens to join.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::Zeroizing;

use crate::error::{Error, Result};

/// Longest file that is read, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// The folder of a member's files.
#[derive(Debug, Clone)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Names `path`, which need not exist.
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Creates it, and its parents, for the owner alone.
    pub(crate) fn create(&self) -> Result<()> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0)
            .map_err(file("create", &self.0))
    }

    /// Checks that it holds no member.
    pub(crate) fn check_empty(&self) -> Result<()> {
        for name in ["ca.pem", "ca.key", "cert.pem", "key.pem"] {
            if self.has(name) {
                let fact = "exists already: choose another folder, or remove the old member";
                return Err(Error::certificate(self.path(name).display(), fact));
            }
        }
        Ok(())
    }

    /// The path of a file in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Says whether it has a file.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// Reads the certificates of a file, one or more.
    pub(crate) fn certificates(&self, name: &str) -> Result<Vec<CertificateDer<'static>>> {
        let path = self.path(name);
        let text = read(&path)?;
        let certificates =
            certificates(&text).map_err(|fact| Error::certificate(path.display(), fact))?;
        Ok(certificates)
    }

    /// Reads a private key, which no other user may be able to read.
    pub(crate) fn key(&self, name: &str) -> Result<PrivateKeyDer<'static>> {
        let path = self.path(name);
        let mode = fs::metadata(&path)
            .map_err(file("read", &path))?
            .permissions()
            .mode();
        if mode & 0o077 != 0 {
            let fact = format!("others have access (mode {:o}): chmod 600", mode & 0o777);
            return Err(Error::certificate(path.display(), fact));
        }
        let text = Zeroizing::new(read(&path)?);
        PrivateKeyDer::from_pem_slice(&text)
            .map_err(|error| Error::certificate(path.display(), error))
    }

    /// Replaces a file at once and for good, readable by the owner alone if it is a key.
    pub(crate) fn write(&self, name: &str, text: &[u8], mode: u32) -> Result<()> {
        let path = self.path(name);
        let temporary = self.path(&format!(".{name}.{}", std::process::id()));
        let write = || -> io::Result<()> {
            // The remains of a process with the same number that was killed.
            match fs::remove_file(&temporary) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(mode)
                .open(&temporary)?;
            file.write_all(text)?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            fs::File::open(&self.0)?.sync_all()
        };
        write().map_err(file("write", &path))
    }
}

/// Reads the certificates of a PEM text, one or more.
pub(crate) fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(text)
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    match certificates.is_empty() {
        true => Err("holds no certificate".into()),
        false => Ok(certificates),
    }
}

/// Reads a file of bounded length.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    use io::Read as _;
    let mut text = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(MAX_FILE).read_to_end(&mut text));
    read.map_err(file("read", path))?;
    Ok(text)
}

/// Makes the error of an operation on a file.
pub(crate) fn file(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let place = path.display().to_string();
    move |source| Error::File { op, place, source }
}
