//! Signatures of certificates and revocation lists, by the algorithms of the TLS provider.

use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::SignatureVerificationAlgorithm;

use crate::der;

/// Lower bound of RSA keys, in bits.
pub(crate) const MIN_RSA_BITS: usize = 2048;

/// The algorithms that are accepted; neither MD5 nor SHA-1 is among them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Algorithms(WebPkiSupportedAlgorithms);

/// The reason why a signature is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No accepted algorithm has this identifier.
    Algorithm,
    /// It is not of this key.
    Wrong,
}

impl Default for Algorithms {
    fn default() -> Self {
        Self(rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms)
    }
}

impl Algorithms {
    /// Checks the signature of `message` by the key of a `SubjectPublicKeyInfo`.
    pub(crate) fn check(
        &self,
        public_key: &[u8],
        algorithm: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), Fault> {
        let mut known = self.with_identifier(algorithm).peekable();
        known.peek().ok_or(Fault::Algorithm)?;
        let (key_algorithm, key) = der::public_key(public_key).ok_or(Fault::Wrong)?;
        let fitting = known.find(|known| known.public_key_alg_id().as_ref() == key_algorithm);
        let checked = fitting
            .ok_or(Fault::Wrong)?
            .verify_signature(key, message, signature);
        checked.map_err(|_| Fault::Wrong)
    }

    /// Whether signatures of this key can be checked.
    pub(crate) fn knows_key(&self, public_key: &[u8]) -> bool {
        let known = |algorithm: &[u8]| {
            self.0
                .all
                .iter()
                .any(|known| known.public_key_alg_id().as_ref() == algorithm)
        };
        der::public_key(public_key).is_some_and(|(algorithm, _)| known(algorithm))
    }

    fn with_identifier(
        &self,
        algorithm: &[u8],
    ) -> impl Iterator<Item = &'static dyn SignatureVerificationAlgorithm> {
        let all = self.0.all.iter().copied();
        all.filter(move |known| known.signature_alg_id().as_ref() == algorithm)
    }
}
