//! `Identity` and `Roots`: the certificate of this end, and the authorities that it trusts.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{InconsistentKeys, RootCertStore};
use tls_secrets::pem::Blocks;
use xio_core::{Error, ErrorKind, Operation, Result};
use zeroize::Zeroizing;

use crate::error::LAYER;

/// A certificate, its chain to the authority, and its private key, which is overwritten when it is
/// dropped.
pub struct Identity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: Zeroizing<PrivateKeyDer<'static>>,
}

impl Identity {
    /// Reads the chain, the own certificate first, and the key from PEM text.
    ///
    /// # Errors
    /// Text without a certificate, or without an unencrypted key.
    pub fn pem(certificates: &[u8], key: &[u8]) -> Result<Self> {
        Self::new("the certificates", certificates, "the key", key)
    }

    /// Reads the chain, the own certificate first, and the key from PEM files, or from one file.
    ///
    /// # Errors
    /// A file that cannot be read, or has no certificate or key in it.
    pub fn pem_files(certificates: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Self> {
        let (certificates, key) = (certificates.as_ref(), key.as_ref());
        let name = |path: &Path| path.display().to_string();
        // The key may stand in either.
        let read = |path| match std::fs::read(path) {
            Ok(text) => Ok(Zeroizing::new(text)),
            Err(error) => Err(unreadable(&name(path), "", pem::Error::Io(error))),
        };
        let (chain, secret) = (read(certificates)?, read(key)?);
        Self::new(&name(certificates), &chain, &name(key), &secret)
    }

    fn new(chain_from: &str, chain: &[u8], key_from: &str, key: &[u8]) -> Result<Self> {
        let lacks = "no certificate";
        let chain = certificates(chain).map_err(|e| unreadable(chain_from, lacks, e))?;
        if chain.is_empty() {
            return Err(unreadable(chain_from, lacks, pem::Error::NoItemsFound));
        }
        let lacks = "no private key without a password";
        let key = private_key(key).map_err(|e| unreadable(key_from, lacks, e))?;
        let key = Zeroizing::new(key);
        Ok(Self { chain, key })
    }

    /// The form that TLS presents; it makes no copy of the key that stays in freed memory.
    ///
    /// # Errors
    /// The key does not belong to the certificate.
    pub(crate) fn certified(&self) -> Result<Arc<SingleCertAndKey>, rustls::Error> {
        let signing = any_supported_type(&self.key)?;
        let certified = CertifiedKey::new(self.chain.clone(), signing);
        match certified.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {
                Ok(Arc::new(certified.into()))
            }
            Err(error) => Err(error),
        }
    }
}

/// The certificates of a text, in order.
fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    let mut found = Vec::new();
    for block in Blocks::new(text) {
        let block = block?;
        if block.label() == b"CERTIFICATE" {
            found.push(std::mem::take(&mut *block.decode()?).into());
        }
    }
    Ok(found)
}

/// The first private key of a text.
fn private_key(text: &[u8]) -> Result<PrivateKeyDer<'static>, pem::Error> {
    for block in Blocks::new(text) {
        if let Some(key) = block?.private_key()? {
            return Ok(key);
        }
    }
    Err(pem::Error::NoItemsFound)
}

impl Clone for Identity {
    fn clone(&self) -> Self {
        Self {
            chain: self.chain.clone(),
            key: Zeroizing::new(self.key.clone_key()),
        }
    }
}

/// Two are equal where they present the same certificates.
impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.chain == other.chain
    }
}

impl Eq for Identity {}

/// Prints the length of the chain, and nothing of the key.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({} certificates)", self.chain.len())
    }
}

/// The trusted authorities. Those that were read are equal to their clones alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots(Source);

#[derive(Debug, Clone)]
enum Source {
    System,
    Given(Arc<RootCertStore>),
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::System, Self::System) => true,
            (Self::Given(one), Self::Given(two)) => Arc::ptr_eq(one, two),
            (Self::System | Self::Given(_), _) => false,
        }
    }
}

impl Eq for Source {}

impl Roots {
    /// Those of this system; read on first use.
    ///
    /// The environment's `SSL_CERT_FILE` and `SSL_CERT_DIR` are honoured.
    #[must_use]
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// Those of PEM text.
    ///
    /// # Errors
    /// Text without a certificate.
    pub fn pem(text: &[u8]) -> Result<Self> {
        Self::given("the text", CertificateDer::pem_slice_iter(text).collect())
    }

    /// Those of a PEM file.
    ///
    /// # Errors
    /// A file that cannot be read, or has no certificate in it.
    pub fn pem_file(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
        Self::given(&path.display().to_string(), read)
    }

    /// Those of a PEM file, or of all PEM files in a folder; a folder has one file for each
    /// authority, as `c_rehash` makes it, and files of other kinds beside them.
    ///
    /// # Errors
    /// A file or folder that cannot be read, or has no certificate in it.
    pub fn pem_path(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        if !path.is_dir() {
            return Self::pem_file(path);
        }
        let mut found = Vec::new();
        let listed = std::fs::read_dir(path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let from = path.display().to_string();
        for entry in listed.map_err(|e| unreadable(&from, "", pem::Error::Io(e)))? {
            if let Ok(of_file) = CertificateDer::pem_file_iter(entry.path()) {
                found.extend(of_file.filter_map(std::result::Result::ok));
            }
        }
        Self::given(&from, Ok(found))
    }

    fn given(from: &str, read: Result<Vec<CertificateDer<'static>>, pem::Error>) -> Result<Self> {
        let certificates = read.map_err(|e| unreadable(from, "no authority", e))?;
        let mut store = RootCertStore::empty();
        let (added, _) = store.add_parsable_certificates(certificates);
        if added == 0 {
            return Err(unreadable(from, "no authority", pem::Error::NoItemsFound));
        }
        Ok(Self(Source::Given(Arc::new(store))))
    }

    /// Whether they are read on first use.
    pub(crate) const fn is_system(&self) -> bool {
        matches!(self.0, Source::System)
    }

    /// The authorities themselves.
    pub(crate) fn store(&self) -> Result<Arc<RootCertStore>> {
        // They are hundreds, and the same for every stack of the process.
        static SYSTEM: OnceLock<Arc<RootCertStore>> = OnceLock::new();
        match &self.0 {
            Source::Given(store) => Ok(Arc::clone(store)),
            Source::System => {
                if let Some(store) = SYSTEM.get() {
                    return Ok(Arc::clone(store));
                }
                let found = rustls_native_certs::load_native_certs();
                let mut store = RootCertStore::empty();
                let (added, _) = store.add_parsable_certificates(found.certs);
                if added == 0 {
                    let why = found.errors.first().map(ToString::to_string);
                    return Err(refused(format!(
                        "this system trusts no authority{}; name one in the option ca",
                        why.map(|why| format!(" ({why})")).unwrap_or_default()
                    )));
                }
                Ok(Arc::clone(SYSTEM.get_or_init(|| Arc::new(store))))
            }
        }
    }
}

/// The error of a bad option.
pub(crate) fn refused(fact: impl Into<String>) -> Error {
    Error::new(ErrorKind::BadOption, LAYER, Operation::Plan, fact)
}

/// The error of an unreadable file or text; its fact names the cause.
fn unreadable(from: &str, lacks: &str, why: pem::Error) -> Error {
    let (kind, fact) = match why {
        pem::Error::Io(error) => (error.kind(), error.to_string()),
        pem::Error::NoItemsFound => (
            io::ErrorKind::InvalidInput,
            format!("holds {lacks} in PEM form"),
        ),
        other => (io::ErrorKind::InvalidInput, other.to_string()),
    };
    let kind = match kind {
        io::ErrorKind::InvalidInput => ErrorKind::BadOption,
        other => other.into(),
    };
    Error::new(kind, LAYER, Operation::Plan, format!("{from}: {fact}"))
}
