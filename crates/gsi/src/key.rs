//! `KeyPair`: a private key that signs, is wiped when dropped, and never shows its secret.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa;
use rustls::SignatureScheme;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::{AlgorithmIdentifier, PrivateKeyDer, PrivatePkcs8KeyDer, alg_id};
use rustls::sign::{Signer, SigningKey};
use zeroize::Zeroize;

use crate::der;

/// A private key with its public key; clones share it.
#[derive(Clone)]
pub struct KeyPair(Arc<Inner>);

struct Inner {
    der: PrivateKeyDer<'static>,
    signing: Arc<dyn SigningKey>,
    public_key: Vec<u8>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.der.zeroize();
    }
}

/// The size of a fresh RSA key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum KeySize {
    /// 2048 bits, the size of `grid-proxy-init`.
    #[default]
    Bits2048,
    /// 3072 bits.
    Bits3072,
    /// 4096 bits.
    Bits4096,
}

impl KeySize {
    /// Returns the smallest size of at least `bits`, or the largest size.
    pub const fn at_least(bits: usize) -> Self {
        match bits {
            0..=2048 => Self::Bits2048,
            2049..=3072 => Self::Bits3072,
            _ => Self::Bits4096,
        }
    }

    /// Returns the number of bits.
    pub const fn bits(self) -> usize {
        match self {
            Self::Bits2048 => 2048,
            Self::Bits3072 => 3072,
            Self::Bits4096 => 4096,
        }
    }
}

/// A key that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The provider of randomness or of keys failed.
    #[error("no RSA key could be generated: the system's randomness failed")]
    Generate,
    /// The key is of no supported kind or size.
    #[error(
        "the private key is neither RSA of 2048 to 8192 bits nor ECDSA on P-256, P-384 or P-521 \
         nor Ed25519: make a new key"
    )]
    Unsupported,
    /// The provider refused to sign.
    #[error("the private key could not sign")]
    Sign,
}

impl KeyPair {
    /// Generates an RSA key. It takes tens of milliseconds and more, so a program with a reactor
    /// calls it on a thread that may block, ahead of need.
    ///
    /// # Errors
    ///
    /// [`KeyError::Generate`] when there is no randomness.
    pub fn generate(size: KeySize) -> Result<Self, KeyError> {
        let size = match size {
            KeySize::Bits2048 => rsa::KeySize::Rsa2048,
            KeySize::Bits3072 => rsa::KeySize::Rsa3072,
            KeySize::Bits4096 => rsa::KeySize::Rsa4096,
        };
        let pair = rsa::KeyPair::generate(size).map_err(|_| KeyError::Generate)?;
        let pkcs8: Pkcs8V1Der<'_> = pair.as_der().map_err(|_| KeyError::Generate)?;
        Self::new(PrivatePkcs8KeyDer::from(pkcs8.as_ref().to_vec()).into())
    }

    /// Takes a private key in PKCS#8, PKCS#1 or SEC1 form.
    ///
    /// # Errors
    ///
    /// [`KeyError::Unsupported`] for a broken key and for kinds that TLS has no use for.
    pub fn new(mut der: PrivateKeyDer<'static>) -> Result<Self, KeyError> {
        let public = any_supported_type(&der).ok().and_then(|signing| {
            let public_key = signing.public_key()?.as_ref().to_vec();
            Some((signing, public_key))
        });
        let Some((signing, public_key)) = public else {
            der.zeroize();
            return Err(KeyError::Unsupported);
        };
        Ok(Self(Arc::new(Inner {
            der,
            signing,
            public_key,
        })))
    }

    /// Returns the public key as DER of its `SubjectPublicKeyInfo`.
    pub fn public_key(&self) -> &[u8] {
        &self.0.public_key
    }

    /// Tells whether `spki` is the public key, whatever the parameters of its algorithm.
    pub(crate) fn matches(&self, spki: &[u8]) -> bool {
        match (der::public_key(self.public_key()), der::public_key(spki)) {
            (Some((_, ours)), Some((_, theirs))) => ours == theirs,
            _ => false,
        }
    }

    /// Returns the private key, for a file.
    pub(crate) fn secret(&self) -> &PrivateKeyDer<'static> {
        &self.0.der
    }

    pub(crate) fn signing(&self) -> Arc<dyn SigningKey> {
        Arc::clone(&self.0.signing)
    }

    /// Returns a signer, by RSA with the wished digest, and by other keys with their own.
    pub(crate) fn signer(&self, digest: Digest) -> Result<Signature, KeyError> {
        let wished = match digest {
            Digest::Sha256 => SignatureScheme::RSA_PKCS1_SHA256,
            Digest::Sha384 => SignatureScheme::RSA_PKCS1_SHA384,
            Digest::Sha512 => SignatureScheme::RSA_PKCS1_SHA512,
        };
        let offered = [
            wished,
            SignatureScheme::ECDSA_NISTP256_SHA256,
            SignatureScheme::ECDSA_NISTP384_SHA384,
            SignatureScheme::ECDSA_NISTP521_SHA512,
            SignatureScheme::ED25519,
        ];
        let signer = self.0.signing.choose_scheme(&offered);
        let signer = signer.ok_or(KeyError::Sign)?;
        let algorithm = algorithm(signer.scheme()).ok_or(KeyError::Sign)?;
        let algorithm = der::sequence(&[algorithm.as_ref()]);
        Ok(Signature { signer, algorithm })
    }
}

impl KeyPair {
    /// Signs a message; returns the contents of the algorithm's identifier, and the signature.
    pub(crate) fn sign(&self, message: &[u8]) -> Result<(Vec<u8>, Vec<u8>), KeyError> {
        let signer = self.signer(Digest::Sha256)?.signer;
        let algorithm = algorithm(signer.scheme()).ok_or(KeyError::Sign)?;
        let signature = signer.sign(message).map_err(|_| KeyError::Sign)?;
        Ok((algorithm.as_ref().to_vec(), signature))
    }
}

/// A signature to come, whose algorithm is known ahead, since certificates sign it as well.
#[derive(Debug)]
pub(crate) struct Signature {
    signer: Box<dyn Signer>,
    algorithm: Vec<u8>,
}

impl Signature {
    /// Returns the DER of the algorithm.
    pub(crate) fn algorithm(&self) -> &[u8] {
        &self.algorithm
    }

    /// Signs a structure, and returns the sequence of it, the algorithm and the signature.
    pub(crate) fn sign(&self, body: &[u8]) -> Result<Vec<u8>, KeyError> {
        let signature = self.signer.sign(body).map_err(|_| KeyError::Sign)?;
        Ok(der::sequence(&[
            body,
            &self.algorithm,
            &der::bit_string(&signature),
        ]))
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeyPair")
            .field(&self.0.signing.algorithm())
            .finish()
    }
}

/// The digest of a signature by RSA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Digest {
    #[default]
    Sha256,
    Sha384,
    Sha512,
}

/// Returns the algorithm of a scheme in a certificate.
fn algorithm(scheme: SignatureScheme) -> Option<AlgorithmIdentifier> {
    Some(match scheme {
        SignatureScheme::RSA_PKCS1_SHA256 => alg_id::RSA_PKCS1_SHA256,
        SignatureScheme::RSA_PKCS1_SHA384 => alg_id::RSA_PKCS1_SHA384,
        SignatureScheme::RSA_PKCS1_SHA512 => alg_id::RSA_PKCS1_SHA512,
        SignatureScheme::ECDSA_NISTP256_SHA256 => alg_id::ECDSA_SHA256,
        SignatureScheme::ECDSA_NISTP384_SHA384 => alg_id::ECDSA_SHA384,
        SignatureScheme::ECDSA_NISTP521_SHA512 => alg_id::ECDSA_SHA512,
        SignatureScheme::ED25519 => alg_id::ED25519,
        _ => return None,
    })
}
