//! Certificates: parsed once, owned, and classified as authority, end entity or proxy.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, UnixTime};
use x509_parser::certificate::{X509Certificate, X509CertificateParser};
use x509_parser::extensions::KeyUsage;
use x509_parser::nom::Parser;
use x509_parser::public_key::PublicKey;
use x509_parser::time::ASN1Time;
use x509_parser::x509::SubjectPublicKeyInfo;

use crate::der;
use crate::kind::Fields;
pub use crate::kind::{Kind, ProxyFormat, ProxyInfo, ProxyRights};
use crate::name::Name;
use crate::oid;

/// The bit of [`Certificate::key_usage`] that permits signatures, proxies among them.
pub const DIGITAL_SIGNATURE: u16 = 1;
/// The bit of [`Certificate::key_usage`] that permits to sign certificates.
pub const KEY_CERT_SIGN: u16 = 1 << 5;
/// The bit of [`Certificate::key_usage`] that permits to sign revocation lists.
pub const CRL_SIGN: u16 = 1 << 6;

/// Upper bound of extensions of one certificate.
const MAX_EXTENSIONS: usize = 64;

/// A certificate in its parts.
#[derive(Clone)]
pub struct Certificate {
    der: CertificateDer<'static>,
    signed: Vec<u8>,
    signature: Vec<u8>,
    signature_algorithm: Vec<u8>,
    subject: Name,
    issuer: Name,
    serial: Vec<u8>,
    not_before: UnixTime,
    not_after: UnixTime,
    public_key: Vec<u8>,
    key_algorithm: KeyAlgorithm,
    key_bits: usize,
    kind: Kind,
    /// Certificates of version 1 cannot tell whether they are of an authority.
    is_first_version: bool,
    key_usage: Option<u16>,
    dns_names: Vec<String>,
    ip_addresses: Vec<IpAddr>,
    extensions: Vec<Extension>,
}

/// An extension of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extension {
    /// The content bytes of the object identifier; see [`oid`].
    pub oid: Vec<u8>,
    /// Whether a verifier that does not know the extension must refuse the certificate.
    pub critical: bool,
    /// The DER of the value.
    pub value: Vec<u8>,
}

/// The algorithm of a public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyAlgorithm {
    /// RSA.
    Rsa,
    /// A point on an elliptic curve.
    Ec,
    /// Any other.
    Other,
}

/// The reason why bytes are no usable certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadCertificate {
    /// The bytes are no certificate.
    #[error("the certificate is malformed")]
    Malformed,
    /// Bytes follow the certificate.
    #[error("{0} bytes follow the certificate")]
    Trailing(usize),
    /// The two places of the signature algorithm differ.
    #[error("{subject}: the signature algorithm inside the certificate differs from the outer one")]
    Algorithms {
        /// The subject of the certificate.
        subject: Name,
    },
    /// An extension does not parse.
    #[error("{subject}: the extension {oid} is malformed")]
    Extension {
        /// The subject of the certificate.
        subject: Name,
        /// The extension, in dotted form.
        oid: String,
    },
    /// An extension occurs twice.
    #[error("{subject}: the extension {oid} occurs twice")]
    Twice {
        /// The subject of the certificate.
        subject: Name,
        /// The extension, in dotted form.
        oid: String,
    },
    /// Too many extensions.
    #[error("{subject}: the certificate has more than {MAX_EXTENSIONS} extensions")]
    TooManyExtensions {
        /// The subject of the certificate.
        subject: Name,
    },
    /// The certificate contradicts itself about being a proxy.
    #[error("{subject}: {fact}")]
    Proxy {
        /// The subject of the certificate.
        subject: Name,
        /// The contradiction.
        fact: &'static str,
    },
}

impl Certificate {
    /// Parses the DER of a certificate, with nothing after it.
    ///
    /// # Errors
    ///
    /// The bytes are no certificate, or one that contradicts itself. That it is trusted is up to
    /// a [`Verifier`](crate::verify::Verifier).
    pub fn parse(der: CertificateDer<'_>) -> Result<Self, BadCertificate> {
        let mut parser = X509CertificateParser::new().with_deep_parse_extensions(false);
        let (rest, parsed) = parser.parse(&der).map_err(|_| BadCertificate::Malformed)?;
        if !rest.is_empty() {
            return Err(BadCertificate::Trailing(rest.len()));
        }
        let parts = der::signed(&der).ok_or(BadCertificate::Malformed)?;
        let tbs = &parsed.tbs_certificate;
        let name = |raw| Name::from_der(raw).map_err(|_| BadCertificate::Malformed);
        let (subject, issuer) = (name(tbs.subject.as_raw())?, name(tbs.issuer.as_raw())?);
        if parsed.signature_algorithm != tbs.signature {
            return Err(BadCertificate::Algorithms { subject });
        }
        let extensions = extensions(&parsed, &subject)?;
        let fields = Fields {
            subject: &subject,
            extensions: &extensions,
        };
        let kind = fields.kind(&issuer)?;
        let key_usage = fields
            .get::<KeyUsage>(oid::KEY_USAGE)?
            .map(|usage| usage.flags);
        let (dns_names, ip_addresses) = fields.alternative_names()?;
        let (key_algorithm, key_bits) = key(&tbs.subject_pki);
        Ok(Self {
            signed: parts.body.whole.to_vec(),
            signature: parts.signature.to_vec(),
            signature_algorithm: parts.algorithm.to_vec(),
            serial: tbs.raw_serial().to_vec(),
            not_before: instant(tbs.validity.not_before),
            not_after: instant(tbs.validity.not_after),
            public_key: tbs.subject_pki.raw.to_vec(),
            is_first_version: tbs.version.0 == 0,
            key_algorithm,
            key_bits,
            kind,
            key_usage,
            dns_names,
            ip_addresses,
            subject,
            issuer,
            extensions,
            der: der.into_owned(),
        })
    }

    /// The DER of the whole certificate.
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// The name of the holder.
    pub fn subject(&self) -> &Name {
        &self.subject
    }

    /// The name of the signer.
    pub fn issuer(&self) -> &Name {
        &self.issuer
    }

    /// The serial number, the content bytes of its DER.
    pub fn serial(&self) -> &[u8] {
        &self.serial
    }

    /// The first second of validity.
    pub fn not_before(&self) -> UnixTime {
        self.not_before
    }

    /// The last second of validity.
    pub fn not_after(&self) -> UnixTime {
        self.not_after
    }

    /// The place of the certificate in a chain.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The facts about the proxy, if it is one.
    pub fn proxy(&self) -> Option<&ProxyInfo> {
        match &self.kind {
            Kind::Proxy(info) => Some(info),
            Kind::Authority { .. } | Kind::EndEntity => None,
        }
    }

    /// The DER of the `SubjectPublicKeyInfo`.
    pub fn public_key(&self) -> &[u8] {
        &self.public_key
    }

    /// The algorithm of the public key.
    pub fn key_algorithm(&self) -> KeyAlgorithm {
        self.key_algorithm
    }

    /// The size of the public key in bits; 0 if it is of another algorithm than RSA and EC.
    pub fn key_bits(&self) -> usize {
        self.key_bits
    }

    /// The size of an RSA key in bits; `None` for other keys.
    pub(crate) fn rsa_bits(&self) -> Option<usize> {
        (self.key_algorithm == KeyAlgorithm::Rsa).then_some(self.key_bits)
    }

    /// The algorithm of the issuer's signature: the content bytes of an `AlgorithmIdentifier`,
    /// as in `rustls::pki_types::AlgorithmIdentifier`.
    pub fn signature_algorithm(&self) -> &[u8] {
        &self.signature_algorithm
    }

    /// The bytes that the issuer signed.
    pub fn signed(&self) -> &[u8] {
        &self.signed
    }

    /// The issuer's signature.
    pub fn signature(&self) -> &[u8] {
        &self.signature
    }

    /// The key usage, with bit 0 of the standard as the lowest bit; `None` if the extension is
    /// absent.
    pub fn key_usage(&self) -> Option<u16> {
        self.key_usage
    }

    /// Whether the key may be used for `usage`, as it may where the extension is absent.
    pub fn may(&self, usage: u16) -> bool {
        self.key_usage.is_none_or(|bits| bits & usage != 0)
    }

    /// The extension of this object identifier; see [`oid`].
    pub fn extension(&self, oid: &[u8]) -> Option<&Extension> {
        self.extensions
            .iter()
            .find(|extension| extension.oid == oid)
    }

    /// The extensions in their order.
    pub fn extensions(&self) -> &[Extension] {
        &self.extensions
    }

    /// The host names among the alternative names.
    pub fn dns_names(&self) -> &[String] {
        &self.dns_names
    }

    /// The addresses among the alternative names.
    pub fn ip_addresses(&self) -> &[IpAddr] {
        &self.ip_addresses
    }

    /// Whether subject and issuer are the same name.
    pub fn is_self_issued(&self) -> bool {
        self.subject == self.issuer
    }

    /// Whether the certificate is of version 1, which has no extensions.
    pub fn is_first_version(&self) -> bool {
        self.is_first_version
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate")
            .field("subject", &self.subject)
            .field("issuer", &self.issuer)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

/// The copies of the extensions; none occurs twice.
fn extensions(
    parsed: &X509Certificate<'_>,
    subject: &Name,
) -> Result<Vec<Extension>, BadCertificate> {
    let mut all: Vec<Extension> = Vec::new();
    for extension in parsed.extensions() {
        let oid = extension.oid.as_bytes().to_vec();
        if all.iter().any(|other| other.oid == oid) {
            let oid = oid::dotted(&oid);
            return Err(BadCertificate::Twice {
                subject: subject.clone(),
                oid,
            });
        }
        if all.len() == MAX_EXTENSIONS {
            return Err(BadCertificate::TooManyExtensions {
                subject: subject.clone(),
            });
        }
        all.push(Extension {
            oid,
            critical: extension.critical,
            value: extension.value.to_vec(),
        });
    }
    Ok(all)
}

/// The algorithm of a key, and its size in bits.
fn key(info: &SubjectPublicKeyInfo<'_>) -> (KeyAlgorithm, usize) {
    match info.parsed() {
        Ok(PublicKey::RSA(rsa)) => {
            let zeros = rsa.modulus.iter().take_while(|&&byte| byte == 0).count();
            let modulus = rsa.modulus.get(zeros..).unwrap_or_default();
            let unused = modulus.first().map_or(0, |byte| byte.leading_zeros());
            (KeyAlgorithm::Rsa, modulus.len() * 8 - unused as usize)
        }
        Ok(PublicKey::EC(point)) => (KeyAlgorithm::Ec, point.key_size()),
        Ok(_) | Err(_) => (KeyAlgorithm::Other, 0),
    }
}

/// The time in seconds; a time before 1970 is its beginning.
pub(crate) fn instant(time: ASN1Time) -> UnixTime {
    let seconds = u64::try_from(time.timestamp()).unwrap_or(0);
    UnixTime::since_unix_epoch(Duration::from_secs(seconds))
}
