//! Private keys with a passphrase: PKCS#8 with PBES2 (RFC 5958 §3, RFC 8018 §6.2).

use base64ct::{Base64, Encoding};
use pkcs5::EncryptionScheme;
use pkcs5::der::Decode;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::CredentialError;
use crate::der;
use crate::key::KeyPair;

pub(super) const BEGIN: &[u8] = b"-----BEGIN ENCRYPTED PRIVATE KEY-----";
const END: &[u8] = b"-----END ENCRYPTED PRIVATE KEY-----";

/// Decrypts the first encrypted block.
pub(super) fn open(pem: &[u8], passphrase: &[u8]) -> Result<KeyPair, CredentialError> {
    let malformed = || CredentialError::Encryption;
    let lines = pem.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let body = lines.skip_while(|line| *line != BEGIN).skip(1);
    let text: Vec<u8> = body
        .take_while(|line| *line != END)
        .flatten()
        .copied()
        .collect();
    let text = std::str::from_utf8(&text).map_err(|_| malformed())?;
    let encrypted = Base64::decode_vec(text).map_err(|_| malformed())?;

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
