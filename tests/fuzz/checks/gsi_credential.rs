//! Credentials come back from PEM as they were written, and never show their key.

use gsi::credential::Credential;

/// `data` is a file of PEM blocks.
pub(crate) fn check(data: &[u8]) {
    let Ok(credential) = Credential::from_pem(data) else {
        return;
    };
    let pem = credential.to_pem();
    let again = Credential::from_pem(pem.as_bytes()).unwrap();
    assert_eq!(again.chain(), credential.chain());
    assert_eq!(again.key().public_key(), credential.key().public_key());
    assert_eq!(again.to_pem(), pem);
    assert!(credential.not_after() <= credential.certificate().not_after());
    let _ = credential.identity();
}
