//! Certificate revocation lists.

use rustls::pki_types::UnixTime;
use x509_parser::asn1_rs::FromDer;
use x509_parser::extensions::X509Extension;
use x509_parser::revocation_list::CertificateRevocationList;

use crate::certificate::{CRL_SIGN, Certificate, instant};
use crate::der::{self, SEQUENCE};
use crate::name::Name;
use crate::oid;
use crate::signature::{Algorithms, MIN_RSA_BITS};

/// The revocation list of an authority.
#[derive(Debug, Clone)]
pub struct RevocationList {
    issuer: Name,
    this_update: UnixTime,
    next_update: Option<UnixTime>,
    /// The revoked serial numbers, sorted.
    revoked: Vec<Box<[u8]>>,
    signed: Vec<u8>,
    signature: Vec<u8>,
    signature_algorithm: Vec<u8>,
}

/// The reason why bytes are no usable revocation list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadRevocationList {
    /// The bytes are no revocation list.
    #[error("the revocation list is malformed")]
    Malformed,
    /// The list does not cover every certificate of its issuer, or those of others too.
    #[error("the revocation list of {issuer} is partial or indirect: fetch the full one")]
    Partial {
        /// The issuer.
        issuer: Name,
    },
    /// A critical extension is not understood.
    #[error("the revocation list of {issuer} has the critical extension {oid}, not understood")]
    CriticalExtension {
        /// The issuer.
        issuer: Name,
        /// The extension, in dotted form.
        oid: String,
    },
}

impl RevocationList {
    /// Parses the DER of a list, with nothing after it.
    ///
    /// # Errors
    ///
    /// The bytes are no list, or one that does not tell about every certificate of its issuer.
    pub fn parse(der: &[u8]) -> Result<Self, BadRevocationList> {
        let parsed = CertificateRevocationList::from_der(der);
        let Ok(([], parsed)) = parsed else {
            return Err(BadRevocationList::Malformed);
        };
        let list = &parsed.tbs_cert_list;
        let malformed = || BadRevocationList::Malformed;
        let parts = der::signed(der).ok_or_else(malformed)?;
        let issuer = Name::from_der(list.issuer.as_raw()).map_err(|_| malformed())?;
        if parsed.signature_algorithm != list.signature {
            return Err(malformed());
        }
        for extension in list.extensions() {
            check_extension(extension, &issuer)?;
        }
        let mut revoked = Vec::with_capacity(list.revoked_certificates.len());
        for entry in &list.revoked_certificates {
            if let Some(extension) = entry.extensions().iter().find(|found| found.critical) {
                return Err(critical(extension, &issuer));
            }
            revoked.push(significant(entry.raw_serial()).into());
        }
        revoked.sort();
        Ok(Self {
            issuer,
            this_update: instant(list.this_update),
            next_update: list.next_update.map(instant),
            revoked,
            signed: parts.body.whole.to_vec(),
            signature: parts.signature.to_vec(),
            signature_algorithm: parts.algorithm.to_vec(),
        })
    }

    /// The authority.
    pub fn issuer(&self) -> &Name {
        &self.issuer
    }

    /// The first second of validity.
    pub fn this_update(&self) -> UnixTime {
        self.this_update
    }

    /// The last second of validity; `None` if the authority did not set it.
    pub fn next_update(&self) -> Option<UnixTime> {
        self.next_update
    }

    /// Whether the certificate of this serial number is revoked.
    pub fn revokes(&self, serial: &[u8]) -> bool {
        let serial = significant(serial);
        self.revoked
            .binary_search_by(|held| held.as_ref().cmp(serial))
            .is_ok()
    }

    /// Whether the list is signed by this authority.
    pub(crate) fn is_signed_by(&self, authority: &Certificate, algorithms: &Algorithms) -> bool {
        let (key, signature) = (authority.public_key(), &self.signature);
        authority.may(CRL_SIGN)
            && authority.rsa_bits().is_none_or(|bits| bits >= MIN_RSA_BITS)
            && algorithms
                .check(key, &self.signature_algorithm, &self.signed, signature)
                .is_ok()
    }
}

/// Accepts an extension of a list that leaves it full and direct.
fn check_extension(extension: &X509Extension<'_>, issuer: &Name) -> Result<(), BadRevocationList> {
    match extension.oid.as_bytes() {
        oid::ISSUING_DISTRIBUTION_POINT => {
            // The distribution point itself, [0], is the only field that does not narrow the list.
            let fields = der::only(extension.value, SEQUENCE).and_then(der::elements);
            let fields = fields.ok_or(BadRevocationList::Malformed)?;
            if fields.iter().any(|field| field.tag != 0xa0) {
                return Err(BadRevocationList::Partial {
                    issuer: issuer.clone(),
                });
            }
            Ok(())
        }
        oid::AUTHORITY_KEY_IDENTIFIER => Ok(()),
        _ if extension.critical => Err(critical(extension, issuer)),
        _ => Ok(()),
    }
}

fn critical(extension: &X509Extension<'_>, issuer: &Name) -> BadRevocationList {
    let oid = oid::dotted(extension.oid.as_bytes());
    BadRevocationList::CriticalExtension {
        issuer: issuer.clone(),
        oid,
    }
}

/// A serial number without leading zeros.
fn significant(serial: &[u8]) -> &[u8] {
    let zeros = serial.iter().take_while(|&&byte| byte == 0).count();
    serial.get(zeros..).unwrap_or_default()
}
