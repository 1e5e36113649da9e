//! Requests for a delegated proxy: the PKCS#10 of the acceptor, its check, and the answer.

use crate::key::{Digest, KeyError, KeyPair};
use crate::proxy::{common_name, extension, requested_info};
use crate::signature::Algorithms;
use crate::{der, oid};

/// `extensionRequest` (RFC 2985 §5.4.2), 1.2.840.113549.1.9.14.
const EXTENSION_REQUEST: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 13, 1, 9, 14];

/// A request that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    public_key: Vec<u8>,
}

/// A request that is not to be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadRequest {
    /// The bytes are no request.
    #[error("the certificate request is malformed")]
    Malformed,
    /// The signature is not that of the key in the request.
    #[error("the certificate request is not signed by its own key")]
    Signature,
}

impl Request {
    /// Writes a request for `key`, as GCT does: version 1, a subject that says nothing, and the
    /// wish for `ProxyCertInfo` with all rights. The issuer decides.
    ///
    /// # Errors
    ///
    /// The key does not sign.
    pub fn write(key: &KeyPair) -> Result<Vec<u8>, KeyError> {
        let subject = der::sequence(&[&common_name("NULL SUBJECT NAME ENTRY")]);
        let wish = extension(oid::PROXY_CERT_INFO, true, &requested_info());
        let kind = der::element(der::OBJECT_IDENTIFIER, &[EXTENSION_REQUEST]);
        let wishes = der::element(der::SET, &[&der::sequence(&[&wish])]);
        let attributes = der::context(0, &[&der::sequence(&[&kind, &wishes])]);
        let version = der::unsigned(&[]);
        let body = der::sequence(&[&version, &subject, key.public_key(), &attributes]);
        key.signer(Digest::Sha256)?.sign(&body)
    }

    /// Parses a request and verifies its signature by its own key. The subject is ignored, as are
    /// the attributes.
    ///
    /// # Errors
    ///
    /// [`BadRequest`].
    pub fn parse(request: &[u8]) -> Result<Self, BadRequest> {
        let parts = Parts::split(request).ok_or(BadRequest::Malformed)?;
        let Parts {
            public_key,
            algorithm,
            body,
            signature,
        } = parts;
        Algorithms::default()
            .check(public_key, algorithm, body, signature)
            .map_err(|_| BadRequest::Signature)?;
        Ok(Self {
            public_key: public_key.to_vec(),
        })
    }

    /// Returns the public key as DER of its `SubjectPublicKeyInfo`.
    pub fn public_key(&self) -> &[u8] {
        &self.public_key
    }
}

/// The parts of a request (RFC 2986 §4) that matter here.
struct Parts<'a> {
    body: &'a [u8],
    public_key: &'a [u8],
    algorithm: &'a [u8],
    signature: &'a [u8],
}

impl<'a> Parts<'a> {
    fn split(request: &'a [u8]) -> Option<Self> {
        let signed = der::signed(request)?;
        let body = signed.body;
        let (_version, fields) = der::expect(body.content, der::INTEGER)?;
        let (_subject, fields) = der::expect(fields, der::SEQUENCE)?;
        let (public_key, _attributes) = der::expect(fields, der::SEQUENCE)?;
        Some(Self {
            body: body.whole,
            public_key: public_key.whole,
            algorithm: signed.algorithm,
            signature: signed.signature,
        })
    }
}
