//! Credentials for one session, which sign themselves, and the text of `DCSC` for any credential.

use std::time::Duration;

use base64ct::{Base64, Encoding};
use rustls::pki_types::{CertificateDer, UnixTime};
use zeroize::Zeroizing;

use crate::credential::{Credential, CredentialError, write_block};
use crate::der;
use crate::key::{Digest, KeyError, KeyPair};
use crate::proxy::common_name;

/// Clocks may differ by this much.
const SKEW: Duration = Duration::from_secs(300);

/// A credential of a session that cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The key does not sign.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The new certificate cannot be read back.
    #[error(transparent)]
    Credential(#[from] CredentialError),
}

impl Credential {
    /// Makes a credential that signs itself, for the data channels of one session: both ends are
    /// given it, and trust nothing else.
    ///
    /// # Errors
    ///
    /// The key does not sign.
    pub fn for_session(
        key: KeyPair,
        lifetime: Duration,
        now: UnixTime,
    ) -> Result<Self, SessionError> {
        let name = der::sequence(&[&common_name("GridFTP session")]);
        let now = Duration::from_secs(now.as_secs());
        let from = UnixTime::since_unix_epoch(now.saturating_sub(SKEW));
        let until = UnixTime::since_unix_epoch(now.saturating_add(lifetime));
        let signature = key.signer(Digest::Sha256)?;
        let body = der::sequence(&[
            &der::context(0, &[&der::unsigned(&[2])]),
            &der::unsigned(&[1]),
            signature.algorithm(),
            &name,
            &der::sequence(&[&der::time(from), &der::time(until)]),
            &name,
            key.public_key(),
        ]);
        let certificate = CertificateDer::from(signature.sign(&body)?);
        Ok(Self::new(vec![certificate], key)?)
    }

    /// Writes the argument of `DCSC P`: base64 of PEM with certificate, key and chain.
    ///
    /// A certificate that signs itself is there a second time, as an authority: a Globus server
    /// trusts those behind the key.
    pub fn to_dcsc(&self) -> Zeroizing<String> {
        let mut pem = self.to_pem();
        if let [only] = self.chain() {
            let mut whole = Zeroizing::new(String::with_capacity(2 * pem.len()));
            whole.push_str(&pem);
            write_block(&mut whole, "CERTIFICATE", only);
            pem = whole;
        }
        Zeroizing::new(Base64::encode_string(pem.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::trust::{TrustOptions, TrustStore};
    use crate::verify::Verifier;

    #[test]
    fn a_session_trusts_its_own_certificate_and_no_other() {
        let now = UnixTime::now();
        let make = || {
            let key = KeyPair::generate(crate::key::KeySize::Bits2048).unwrap();
            Credential::for_session(key, Duration::from_secs(3600), now).unwrap()
        };
        let (own, other) = (make(), make());
        let store = Arc::new(TrustStore::new(TrustOptions::default()));
        let trust = store.with_chain(own.chain()).unwrap();
        let peer = trust.verify(own.chain(), now).unwrap();
        assert_eq!(peer.identity, own.identity());
        assert!(trust.verify(other.chain(), now).is_err());
        assert!(store.verify(own.chain(), now).is_err());
        let late = UnixTime::since_unix_epoch(Duration::from_secs(now.as_secs() + 3601));
        assert!(trust.verify(own.chain(), late).is_err());

        let text = Base64::decode_vec(&own.to_dcsc()).unwrap();
        let read = Credential::from_pem(&text).unwrap();
        assert_eq!(read.certificate().der(), own.certificate().der());
        assert_eq!(
            read.chain().len(),
            2,
            "the certificate is its own authority"
        );
    }
}
