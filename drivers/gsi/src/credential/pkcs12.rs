//! PKCS#12 files (RFC 7292): a key, its certificate and the chain above it, behind one passphrase.

use gsi::credential::{Credential, CredentialError};
use gsi::key::KeyPair;
use p12_keystore::{Pkcs12Archive, error::Error};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};

/// Says whether a file is no PEM, but begins as DER does.
pub(super) fn is_archive(bytes: &[u8]) -> bool {
    bytes.first() == Some(&0x30)
}

/// Opens a file; without a passphrase it may have an empty one.
pub(super) fn open(bytes: &[u8], passphrase: Option<&str>) -> Result<Credential, CredentialError> {
    let archive = Pkcs12Archive::from_pkcs12(bytes, passphrase.unwrap_or_default());
    let archive = archive.map_err(|error| match (error, passphrase) {
        (Error::MacError(_), None) => CredentialError::Encrypted,
        (Error::MacError(_), Some(_)) => CredentialError::Passphrase,
        (error, _) => CredentialError::Pkcs12(error.to_string()),
    })?;
    let mut keys = archive.keys.iter();
    let key = keys.next().ok_or(CredentialError::NoKey)?;
    if keys.next().is_some() {
        return Err(CredentialError::SeveralKeys);
    }
    let key = PrivatePkcs8KeyDer::from(key.key.as_der().to_vec());
    let certificates = archive.certs.iter();
    let chain = certificates.map(|bag| CertificateDer::from(bag.cert.as_der().to_vec()));
    Credential::new(chain.collect(), KeyPair::new(key.into())?)
}
