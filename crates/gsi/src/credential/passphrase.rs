//! Private keys with a passphrase: PKCS#8 with PBES2 (RFC 5958 §3, RFC 8018 §6.2).

use pkcs5::EncryptionScheme;
use pkcs5::der::Decode;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tls_secrets::pem::Blocks;

use super::CredentialError;
use crate::der;
use crate::key::KeyPair;

const LABEL: &[u8] = b"ENCRYPTED PRIVATE KEY";
pub(super) const BEGIN: &[u8] = b"-----BEGIN ENCRYPTED PRIVATE KEY-----";

/// Decrypts the first encrypted block.
pub(super) fn open(pem: &[u8], passphrase: &[u8]) -> Result<KeyPair, CredentialError> {
    let malformed = || CredentialError::Encryption;
    let mut blocks = Blocks::new(pem).filter_map(Result::ok);
    let block = blocks.find(|block| block.label() == LABEL);
    let encrypted = block.ok_or_else(malformed)?.decode();
    let encrypted = encrypted.map_err(|_| malformed())?;

    let (outer, _) = der::expect(&encrypted, der::SEQUENCE).ok_or_else(malformed)?;
    let (scheme, rest) = der::expect(outer.content, der::SEQUENCE).ok_or_else(malformed)?;
    let (secret, _) = der::expect(rest, der::OCTET_STRING).ok_or_else(malformed)?;
    let scheme = EncryptionScheme::from_der(scheme.whole).map_err(|_| malformed())?;
    let key = scheme
        .decrypt(passphrase, secret.content)
        .map_err(|error| match error {
            pkcs5::Error::DecryptFailed => CredentialError::Passphrase,
            _ => CredentialError::Encryption,
        })?;
    // About one wrong passphrase in 256 gives a well-formed end, and no key.
    let is_key = der::expect(&key, der::SEQUENCE).is_some_and(|(_, rest)| rest.is_empty());
    let key = KeyPair::new(PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key)));
    if is_key {
        Ok(key?)
    } else {
        Err(CredentialError::Passphrase)
    }
}
