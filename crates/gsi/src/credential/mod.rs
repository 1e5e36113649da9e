//! `Credential`: a certificate with its key and the chain above it, read from PEM and written to it.

mod passphrase;
mod session;
#[cfg(test)]
mod tests;

use std::fmt;

use base64ct::{Base64, Encoding};
use rustls::pki_types::pem;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::sign::CertifiedKey;
use tls_secrets::pem::Blocks;
use zeroize::Zeroizing;

use crate::certificate::{BadCertificate, Certificate, Kind, ProxyRights};
use crate::key::{KeyError, KeyPair};
use crate::name::Name;

pub use self::session::SessionError;

/// Characters in a line of PEM (RFC 7468 §2).
const LINE: usize = 64;

/// A certificate, its private key, and the certificates above it; clones share the key.
#[derive(Clone)]
pub struct Credential {
    leaf: Certificate,
    /// The leaf, then its issuer and upwards; the root may be missing.
    chain: Vec<CertificateDer<'static>>,
    key: KeyPair,
}

/// A credential that cannot be read or put together.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialError {
    /// A PEM block is broken.
    #[error("broken PEM block: {0}")]
    Pem(pem::Error),
    /// There is no block `CERTIFICATE`.
    #[error("no certificate: a block BEGIN CERTIFICATE is missing")]
    NoCertificate,
    /// There is no block with a private key.
    #[error("no private key: a block BEGIN PRIVATE KEY or BEGIN RSA PRIVATE KEY is missing")]
    NoKey,
    /// There is more than one private key.
    #[error("more than one private key: keep only that of the first certificate")]
    SeveralKeys,
    /// The private key is protected by a passphrase in a form that only OpenSSL reads.
    #[error(
        "the private key is encrypted in the old form of OpenSSL (Proc-Type): \
         convert it with `openssl pkcs8 -topk8 -in KEY -out NEWKEY`"
    )]
    OldEncryption,
    /// The private key is protected by a passphrase.
    #[error(
        "the private key is encrypted: make a proxy of it with `gridftp-cp proxy init`, which asks \
         for the passphrase, or decrypt it with `openssl pkcs8 -in KEY -out NEWKEY`"
    )]
    Encrypted,
    /// The passphrase does not open the private key.
    #[error("the passphrase does not open the private key")]
    Passphrase,
    /// The private key is protected by a passphrase with an algorithm that is not supported.
    #[error(
        "the private key is encrypted with an algorithm that is not supported: \
         convert it with `openssl pkcs8 -topk8 -in KEY -out NEWKEY`"
    )]
    Encryption,
    /// A PKCS#12 file is broken, or of a form that is not supported.
    #[error(
        "it is no PKCS#12 that can be read ({0}): convert it with `openssl pkcs12 -in FILE -out \
         NEWFILE`"
    )]
    Pkcs12(String),
    /// The private key is of no use.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A certificate cannot be read.
    #[error("a certificate cannot be read: {0}")]
    Certificate(#[from] BadCertificate),
    /// No certificate is that of the key.
    #[error(
        "the private key is not that of the certificate {0}: give the two that belong together"
    )]
    KeyMismatch(Name),
}

impl Credential {
    /// Reads a credential from PEM blocks in any order: certificates, and one key as PKCS#8, PKCS#1
    /// or SEC1. For a certificate and a key in files of their own, pass one after the other. The
    /// certificate of the key comes first in the chain; the others keep their order.
    ///
    /// # Errors
    ///
    /// Any [`CredentialError`]; [`CredentialError::Encrypted`] for a key with a passphrase.
    pub fn from_pem(pem: &[u8]) -> Result<Self, CredentialError> {
        refuse_encryption(pem)?;
        Self::read(pem, None)
    }

    /// Reads a credential whose key has a passphrase: PKCS#8 with PBES2, as OpenSSL writes it. It
    /// takes as long as the iterations in the file ask for.
    ///
    /// # Errors
    ///
    /// Any [`CredentialError`]; [`CredentialError::Passphrase`] for a wrong one.
    pub fn from_pem_with_passphrase(
        pem: &[u8],
        passphrase: &[u8],
    ) -> Result<Self, CredentialError> {
        let Err(CredentialError::Encrypted) = refuse_encryption(pem) else {
            return Self::from_pem(pem);
        };
        let key = passphrase::open(pem, passphrase)?;
        Self::read(pem, Some(key))
    }

    /// Reads the blocks that are not encrypted.
    fn read(pem: &[u8], mut key: Option<KeyPair>) -> Result<Self, CredentialError> {
        let mut chain = Vec::new();
        for block in Blocks::new(pem) {
            let block = block.map_err(CredentialError::Pem)?;
            if block.label() == b"CERTIFICATE" {
                let mut der = block.decode().map_err(CredentialError::Pem)?;
                chain.push(std::mem::take(&mut *der).into());
                continue;
            }
            let Some(found) = block.private_key().map_err(CredentialError::Pem)? else {
                continue;
            };
            if key.replace(KeyPair::new(found)?).is_some() {
                return Err(CredentialError::SeveralKeys);
            }
        }
        Self::new(chain, key.ok_or(CredentialError::NoKey)?)
    }

    /// Puts a credential together. The certificate of the key is moved to the front.
    ///
    /// # Errors
    ///
    /// There is no certificate, one is broken, or none is that of the key.
    pub fn new(
        mut chain: Vec<CertificateDer<'static>>,
        key: KeyPair,
    ) -> Result<Self, CredentialError> {
        let mut first = None;
        let mut found = None;
        for (place, der) in chain.iter().enumerate() {
            let certificate = Certificate::parse(der.clone())?;
            if found.is_none() && key.matches(certificate.public_key()) {
                found = Some((place, certificate));
            } else {
                first.get_or_insert(certificate);
            }
        }
        let Some((place, leaf)) = found else {
            let first = first.ok_or(CredentialError::NoCertificate)?;
            return Err(CredentialError::KeyMismatch(first.subject().clone()));
        };
        if let Some(upto) = chain.get_mut(..=place) {
            upto.rotate_right(1);
        }
        Ok(Self { leaf, chain, key })
    }

    /// Returns the certificate of the key.
    pub fn certificate(&self) -> &Certificate {
        &self.leaf
    }

    /// Returns the certificate of the key, then those above it.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// Returns the key.
    pub fn key(&self) -> &KeyPair {
        &self.key
    }

    /// Returns the subject of the certificate.
    pub fn subject(&self) -> &Name {
        self.leaf.subject()
    }

    /// Returns the kind of the certificate.
    pub fn kind(&self) -> &Kind {
        self.leaf.kind()
    }

    /// Returns the name that the credential speaks for: the subject of the first certificate from
    /// the leaf upwards that is no proxy, or an independent one.
    pub fn identity(&self) -> Name {
        let mut identity = self.subject().clone();
        for certificate in self.certificates() {
            match certificate.kind() {
                // Its issuer's name serves where the issuer's certificate is missing.
                Kind::Proxy(proxy) if proxy.rights != ProxyRights::Independent => {
                    identity = certificate.issuer().clone();
                }
                _ => return certificate.subject().clone(),
            }
        }
        identity
    }

    /// Returns the instant from which some certificate of the chain is no longer valid.
    pub fn not_after(&self) -> UnixTime {
        let ends = self
            .certificates()
            .map(|certificate| certificate.not_after());
        ends.min_by_key(UnixTime::as_secs)
            .unwrap_or_else(|| self.leaf.not_after())
    }

    fn certificates(&self) -> impl Iterator<Item = Certificate> {
        self.chain
            .iter()
            .filter_map(|der| Certificate::parse(der.clone()).ok())
    }

    /// Writes the credential as PEM in the order of `grid-proxy-init`: certificate, unencrypted
    /// key, chain.
    pub fn to_pem(&self) -> Zeroizing<String> {
        let label = match self.key.secret() {
            PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
            PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
            _ => "PRIVATE KEY",
        };
        let size: usize = self.chain.iter().map(|der| der.len()).sum();
        let size = size + self.key.secret().secret_der().len();
        // Room for all of it, so that no copy of the key is left behind by a reallocation.
        let mut out = Zeroizing::new(String::with_capacity(
            size * 3 / 2 + 100 * (self.chain.len() + 1),
        ));
        let mut chain = self.chain.iter();
        if let Some(leaf) = chain.next() {
            write_block(&mut out, "CERTIFICATE", leaf);
        }
        write_block(&mut out, label, self.key.secret().secret_der());
        for above in chain {
            write_block(&mut out, "CERTIFICATE", above);
        }
        out
    }

    /// Returns the form that TLS presents. The constructors of rustls that parse the certificate
    /// refuse proxies, whose extension is critical.
    pub(crate) fn certified_key(&self) -> CertifiedKey {
        CertifiedKey::new(self.chain.clone(), self.key.signing())
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("subject", &format_args!("{}", self.subject()))
            .field("certificates", &self.chain.len())
            .field("key", &self.key)
            .finish()
    }
}

/// Refuses keys with a passphrase before the reader of PEM trips over their headers.
fn refuse_encryption(pem: &[u8]) -> Result<(), CredentialError> {
    for line in pem.split(|byte| *byte == b'\n') {
        let line = line.trim_ascii();
        if line == passphrase::BEGIN {
            return Err(CredentialError::Encrypted);
        }
        if line.starts_with(b"Proc-Type:") && line.ends_with(b"ENCRYPTED") {
            return Err(CredentialError::OldEncryption);
        }
    }
    Ok(())
}

fn write_block(out: &mut String, label: &str, der: &[u8]) {
    let text = Zeroizing::new(Base64::encode_string(der));
    let mut rest = text.as_str();
    out.push_str("-----BEGIN ");
    out.push_str(label);
    out.push_str("-----\n");
    while !rest.is_empty() {
        let (line, after) = rest.split_at_checked(LINE).unwrap_or((rest, ""));
        out.push_str(line);
        out.push('\n');
        rest = after;
    }
    out.push_str("-----END ");
    out.push_str(label);
    out.push_str("-----\n");
}
