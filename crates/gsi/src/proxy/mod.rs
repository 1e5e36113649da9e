//! Proxies made and signed, with the names, serial numbers and extensions of `grid-proxy-init`.

#[cfg(test)]
mod tests;

use std::time::Duration;

use aws_lc_rs::digest;
use rustls::pki_types::{CertificateDer, UnixTime, alg_id};

use crate::certificate::{Certificate, Kind, ProxyFormat, ProxyRights};
use crate::credential::{Credential, CredentialError};
use crate::key::{Digest, KeyError, KeyPair};
use crate::name::Name;
use crate::{der, oid};

/// Clocks may differ by this much.
const SKEW: Duration = Duration::from_secs(300);
/// Bits of `keyUsage` that a proxy does not inherit: `nonRepudiation` and `keyCertSign`.
const NOT_INHERITED: u8 = 0x40 | 0x04;

/// A user's choices for a proxy.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ProxyOptions {
    /// The format; by default that of the issuer, and RFC 3820 where the issuer is no proxy.
    pub format: Option<ProxyFormat>,
    /// The rights; all of the issuer's by default.
    pub rights: ProxyRights,
    /// The number of proxies that may follow; any by default.
    pub path_length: Option<u32>,
    /// The time from now, cut to the issuer's; by default all of the issuer's.
    pub lifetime: Option<Duration>,
}

impl Default for ProxyOptions {
    fn default() -> Self {
        Self {
            format: None,
            rights: ProxyRights::Full,
            path_length: None,
            lifetime: None,
        }
    }
}

impl ProxyOptions {
    /// The proxy that GridFTP delegates: limited, as long as its issuer.
    pub fn limited() -> Self {
        Self {
            rights: ProxyRights::Limited,
            ..Self::default()
        }
    }
}

/// A proxy that cannot be issued.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// The issuer is a certificate authority.
    #[error(
        "{0} is a certificate authority, which issues no proxies: use a user or host certificate"
    )]
    Authority(Name),
    /// The issuer is a proxy of another format.
    #[error("{0} is a proxy of another format: one chain has one format, so leave the format out")]
    Mixed(Name),
    /// The issuer is a limited proxy.
    #[error("{0} is a limited proxy, which issues only limited ones: ask for a limited proxy")]
    Limited(Name),
    /// The issuer's path length allows no further proxy.
    #[error("the path length of {0} allows no proxy below it: use the credential above it")]
    PathLength(Name),
    /// The issuer's time is over.
    #[error("the credential of {0} has expired: renew it")]
    Expired(Name),
    /// The format has no such proxy.
    #[error("a {0:?} proxy cannot be {1:?}: use the format of RFC 3820")]
    NoSuchProxy(ProxyFormat, ProxyRights),
    /// The public key of the proxy is broken.
    #[error("the public key of the proxy is malformed")]
    PublicKey,
    /// The issuer's certificate is broken.
    #[error("the certificate of {0} is malformed")]
    Issuer(Name),
    /// The issuer's key does not sign.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The new proxy cannot be read back.
    #[error(transparent)]
    Credential(#[from] CredentialError),
}

impl Credential {
    /// Makes a proxy of this credential for a fresh key, as `grid-proxy-init` does.
    ///
    /// # Errors
    ///
    /// A rule of proxies forbids it, or a key is of no use: [`ProxyError`].
    pub fn make_proxy(
        &self,
        key: KeyPair,
        options: &ProxyOptions,
        now: UnixTime,
    ) -> Result<Self, ProxyError> {
        let proxy = self.issue_proxy(key.public_key(), options, now)?;
        let chain = std::iter::once(proxy).chain(self.chain().iter().cloned());
        // Self-signed certificates are of no use to the peer, which has them or does not trust them.
        let chain = chain.filter(|der| !is_root(der));
        Ok(Self::new(chain.collect(), key)?)
    }

    /// Signs a proxy for `public_key`, which is DER of a `SubjectPublicKeyInfo`.
    ///
    /// # Errors
    ///
    /// A rule of proxies forbids it, or the issuer's key does not sign: [`ProxyError`].
    pub fn issue_proxy(
        &self,
        public_key: &[u8],
        options: &ProxyOptions,
        now: UnixTime,
    ) -> Result<CertificateDer<'static>, ProxyError> {
        let issuer = self.certificate();
        let format = self.check_proxy(options, now)?;
        if der::public_key(public_key).is_none() {
            return Err(ProxyError::PublicKey);
        }
        let malformed = || ProxyError::Issuer(issuer.subject().clone());

        let number = number(public_key);
        let (serial, last) = match format {
            ProxyFormat::Rfc | ProxyFormat::Draft => {
                (der::unsigned(&number.to_be_bytes()), number.to_string())
            }
            ProxyFormat::Legacy => {
                let serial = der::element(der::INTEGER, &[issuer.serial()]);
                match options.rights {
                    ProxyRights::Limited => (serial, "limited proxy".to_owned()),
                    _ => (serial, "proxy".to_owned()),
                }
            }
        };
        let above = issuer.subject().as_der();
        let (names, _) = der::expect(above, der::SEQUENCE).ok_or_else(malformed)?;
        let subject = der::sequence(&[names.content, &common_name(&last)]);

        let until = match options.lifetime {
            Some(lifetime) => after(now, lifetime).min(issuer.not_after()),
            None => issuer.not_after(),
        };
        let from = Duration::from_secs(now.as_secs()).saturating_sub(SKEW);
        let from = UnixTime::since_unix_epoch(from);
        let validity = der::sequence(&[&der::time(from), &der::time(until)]);

        let signature = self.key().signer(digest_of(issuer))?;
        let body = der::sequence(&[
            &der::context(0, &[&der::unsigned(&[2])]),
            &serial,
            signature.algorithm(),
            above,
            &validity,
            &subject,
            public_key,
            &extensions(issuer, format, options).ok_or_else(malformed)?,
        ]);
        Ok(CertificateDer::from(signature.sign(&body)?))
    }

    /// Checks the rules between this credential and a proxy of it, and returns its format.
    pub(crate) fn check_proxy(
        &self,
        options: &ProxyOptions,
        now: UnixTime,
    ) -> Result<ProxyFormat, ProxyError> {
        let issuer = self.certificate();
        let name = || issuer.subject().clone();
        let format = match issuer.kind() {
            Kind::Authority { .. } => return Err(ProxyError::Authority(name())),
            Kind::EndEntity => options.format.unwrap_or(ProxyFormat::Rfc),
            Kind::Proxy(above) => {
                if options.format.is_some_and(|wished| wished != above.format) {
                    return Err(ProxyError::Mixed(name()));
                }
                if above.rights == ProxyRights::Limited && options.rights != ProxyRights::Limited {
                    return Err(ProxyError::Limited(name()));
                }
                if above.path_length == Some(0) {
                    return Err(ProxyError::PathLength(name()));
                }
                above.format
            }
        };
        if issuer.not_after() < now {
            return Err(ProxyError::Expired(name()));
        }
        let possible = match (format, options.rights) {
            (_, ProxyRights::Restricted) | (ProxyFormat::Legacy, ProxyRights::Independent) => false,
            (ProxyFormat::Legacy, _) => options.path_length.is_none(),
            (ProxyFormat::Rfc | ProxyFormat::Draft, _) => true,
        };
        possible
            .then_some(format)
            .ok_or(ProxyError::NoSuchProxy(format, options.rights))
    }
}

/// Returns the number that GCT takes for serial number and common name, from the key's hash.
fn number(public_key: &[u8]) -> u32 {
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, public_key);
    match hash.as_ref() {
        [a, b, c, d, ..] => u32::from_le_bytes([*a, *b, *c, *d >> 1]),
        _ => 0,
    }
}

/// Returns a relative name of one common name.
pub(crate) fn common_name(text: &str) -> Vec<u8> {
    let kind = der::element(der::OBJECT_IDENTIFIER, &[oid::COMMON_NAME]);
    let text = der::element(der::PRINTABLE_STRING, &[text.as_bytes()]);
    der::element(der::SET, &[&der::sequence(&[&kind, &text])])
}

/// Returns the digest of the issuer's own certificate, which GCT takes for the proxy too.
fn digest_of(issuer: &Certificate) -> Digest {
    let (sha384, sha512) = (alg_id::RSA_PKCS1_SHA384, alg_id::RSA_PKCS1_SHA512);
    match issuer.signature_algorithm() {
        algorithm if algorithm == sha384.as_ref() => Digest::Sha384,
        algorithm if algorithm == sha512.as_ref() => Digest::Sha512,
        _ => Digest::Sha256,
    }
}

/// Returns the tagged extensions in the order of GCT.
fn extensions(
    issuer: &Certificate,
    format: ProxyFormat,
    options: &ProxyOptions,
) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    if let Some(purposes) = issuer.extension(oid::EXTENDED_KEY_USAGE) {
        all.extend(extension(
            oid::EXTENDED_KEY_USAGE,
            purposes.critical,
            &purposes.value,
        ));
    }
    if let Some(usage) = issuer.extension(oid::KEY_USAGE) {
        let (bits, _) = der::expect(&usage.value, der::BIT_STRING)?;
        all.extend(extension(oid::KEY_USAGE, true, &inherited(bits.content)?));
    }
    let info = oid::PROXY_CERT_INFO;
    match format {
        ProxyFormat::Rfc => all.extend(extension(info, true, &rfc_info(options)?)),
        ProxyFormat::Draft => {
            let info = oid::PROXY_CERT_INFO_DRAFT;
            all.extend(extension(info, true, &draft_info(options)?));
        }
        ProxyFormat::Legacy => {}
    }
    if all.is_empty() {
        return Some(all);
    }
    Some(der::context(3, &[&der::sequence(&[&all])]))
}

/// Writes an extension.
pub(crate) fn extension(oid: &[u8], critical: bool, value: &[u8]) -> Vec<u8> {
    let oid = der::element(der::OBJECT_IDENTIFIER, &[oid]);
    let critical = if critical { &der::TRUE[..] } else { &[] };
    der::sequence(&[&oid, critical, &der::element(der::OCTET_STRING, &[value])])
}

/// Returns the bits of `keyUsage` that a proxy takes over, as a list without trailing zeros.
fn inherited(bits: &[u8]) -> Option<Vec<u8>> {
    let (_unused, bits) = bits.split_first()?;
    let mut bits = bits.to_vec();
    if let Some(first) = bits.first_mut() {
        *first &= !NOT_INHERITED;
    }
    while bits.last() == Some(&0) {
        bits.pop();
    }
    let unused = bits
        .last()
        .and_then(|last| (0..8).find(|bit| last >> bit & 1 == 1));
    let unused = unused.unwrap_or(0);
    Some(der::element(der::BIT_STRING, &[&[unused], &bits]))
}

/// Writes the policy of `ProxyCertInfo`; `None` for rights without a language.
fn policy(rights: ProxyRights) -> Option<Vec<u8>> {
    let language = match rights {
        ProxyRights::Full => oid::INHERIT_ALL,
        ProxyRights::Limited => oid::LIMITED,
        ProxyRights::Independent => oid::INDEPENDENT,
        ProxyRights::Restricted => return None,
    };
    Some(der::sequence(&[&der::element(
        der::OBJECT_IDENTIFIER,
        &[language],
    )]))
}

/// Writes `ProxyCertInfo` (RFC 3820 §3.8).
fn rfc_info(options: &ProxyOptions) -> Option<Vec<u8>> {
    let length = options
        .path_length
        .map(|length| der::unsigned(&length.to_be_bytes()));
    Some(der::sequence(&[
        &length.unwrap_or_default(),
        &policy(options.rights)?,
    ]))
}

/// Writes `ProxyCertInfo` of the draft, with its other order and tag.
fn draft_info(options: &ProxyOptions) -> Option<Vec<u8>> {
    let length = options
        .path_length
        .map(|length| der::unsigned(&length.to_be_bytes()));
    let length = length.map(|length| der::context(1, &[&length]));
    Some(der::sequence(&[
        &policy(options.rights)?,
        &length.unwrap_or_default(),
    ]))
}

/// Writes `ProxyCertInfo` with all rights and any path length, as a request asks for it.
pub(crate) fn requested_info() -> Vec<u8> {
    rfc_info(&ProxyOptions::default()).unwrap_or_default()
}

fn is_root(der: &CertificateDer<'_>) -> bool {
    Certificate::parse(der.clone()).is_ok_and(|certificate| {
        matches!(certificate.kind(), Kind::Authority { .. }) && certificate.is_self_issued()
    })
}

fn after(now: UnixTime, lifetime: Duration) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(now.as_secs()).saturating_add(lifetime))
}
