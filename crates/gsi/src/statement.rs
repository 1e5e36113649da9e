//! Signed statements: a message with the signature of a credential, checked by its certificate.

use crate::certificate::Certificate;
use crate::credential::Credential;
use crate::key::KeyError;
use crate::signature::Algorithms;

/// The signature of a message, without the certificate that checks it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statement {
    /// The algorithm: the contents of an `AlgorithmIdentifier` in DER (RFC 5280 §4.1.1.2).
    pub algorithm: Vec<u8>,
    /// The signature itself.
    pub signature: Vec<u8>,
}

impl Statement {
    /// Takes a signature that was read from a file.
    pub const fn new(algorithm: Vec<u8>, signature: Vec<u8>) -> Self {
        Self {
            algorithm,
            signature,
        }
    }

    /// Says whether the key of `certificate` has signed `message`. It is for the caller to check the
    /// certificate, by its chain.
    pub fn is_of(&self, certificate: &Certificate, message: &[u8]) -> bool {
        let key = certificate.public_key();
        let checked = Algorithms::default().check(key, &self.algorithm, message, &self.signature);
        checked.is_ok()
    }
}

impl Credential {
    /// Signs a message. A key of RSA takes about a millisecond.
    ///
    /// # Errors
    /// [`KeyError::Sign`]: the provider of signatures refused.
    pub fn sign(&self, message: &[u8]) -> Result<Statement, KeyError> {
        let (algorithm, signature) = self.key().sign(message)?;
        Ok(Statement::new(algorithm, signature))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::Lab;

    #[test]
    fn a_statement_is_of_its_message_and_key_alone() {
        let lab = Lab::get();
        for (one, other) in [(&lab.user, &lab.host), (&lab.curve, &lab.user)] {
            check(one, other);
        }
    }

    fn check(one: &Credential, other: &Credential) {
        let statement = one.sign(b"message").unwrap();
        assert!(statement.is_of(one.certificate(), b"message"));
        assert!(!statement.is_of(one.certificate(), b"massage"));
        assert!(!statement.is_of(other.certificate(), b"message"));
        let mut torn = statement.clone();
        torn.signature.pop();
        assert!(!torn.is_of(one.certificate(), b"message"));
        let none = Statement::new(Vec::new(), statement.signature);
        assert!(!none.is_of(one.certificate(), b"message"));
    }
}
