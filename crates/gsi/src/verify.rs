//! Verdicts on a peer's chain: its identity, or the certificate and the rule that refused it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use rustls::pki_types::{CertificateDer, UnixTime};
use x509_parser::time::ASN1Time;

use crate::certificate::{BadCertificate, Certificate, ProxyFormat, ProxyRights};
use crate::name::Name;

/// A judge of certificate chains.
pub trait Verifier: Send + Sync + fmt::Debug {
    /// Judges the chain that a peer sent, its own certificate first.
    ///
    /// That the peer holds the key of that certificate is up to the handshake.
    ///
    /// # Errors
    ///
    /// The chain breaks a rule, or leads to no trusted authority.
    fn verify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<Peer, Refusal>;
}

/// A peer with a valid chain.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Peer {
    /// The name to map and to compare: that of the end entity, or of an independent proxy.
    pub identity: Name,
    /// The subject of the first certificate.
    pub subject: Name,
    /// The certificate of the identity, with its alternative names.
    pub holder: Arc<Certificate>,
    /// The rights that the proxies leave: `Limited` if any of them is, else `Independent` if any
    /// is, else `Full`.
    pub rights: ProxyRights,
    /// The format of the proxies; `None` without any.
    pub format: Option<ProxyFormat>,
    /// The last second at which the whole chain is valid.
    pub not_after: UnixTime,
    /// The chain that was judged, from the peer's certificate to the trusted one.
    pub path: Vec<CertificateDer<'static>>,
    /// The chain as the peer sent it.
    pub chain: Vec<CertificateDer<'static>>,
}

impl Peer {
    /// Whether the peer may only read and write files.
    pub fn is_limited(&self) -> bool {
        self.rights == ProxyRights::Limited
    }
}

/// The verifier of one connection: the chain that it accepted is not searched again.
#[derive(Debug)]
pub(crate) struct Once {
    verifier: Arc<dyn Verifier>,
    accepted: OnceLock<Peer>,
}

impl Once {
    pub(crate) fn new(verifier: Arc<dyn Verifier>) -> Self {
        let accepted = OnceLock::new();
        Self { verifier, accepted }
    }
}

impl Verifier for Once {
    fn verify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<Peer, Refusal> {
        let accepted = self.accepted.get().filter(|peer| peer.chain == chain);
        if let Some(peer) = accepted {
            return Ok(peer.clone());
        }
        let peer = self.verifier.verify(chain, now)?;
        // Another chain, as that of a delegated credential, is judged each time.
        let _ = self.accepted.set(peer.clone());
        Ok(peer)
    }
}

/// A chain that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The subject of the certificate at fault, if it could be read.
    pub subject: Option<Name>,
    /// The rule that it breaks.
    pub rule: Rule,
}

impl Refusal {
    /// Blames a certificate.
    pub fn new(subject: Option<Name>, rule: Rule) -> Self {
        Self { subject, rule }
    }

    /// Whether the files of this side are at fault (the CA directory), and not the peer.
    pub fn is_local(&self) -> bool {
        matches!(
            self.rule,
            Rule::NoPolicy { .. }
                | Rule::PolicyWithoutAuthority { .. }
                | Rule::RevocationsExpired { .. }
                | Rule::RevocationsNotYetValid { .. }
                | Rule::RevocationsSignature { .. }
        )
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            Some(subject) => write!(f, "certificate of {subject}: {}", self.rule),
            None => write!(f, "{}", self.rule),
        }
    }
}

impl std::error::Error for Refusal {}

/// The rule that a chain breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rule {
    /// There is no certificate.
    #[error("the peer sent no certificate")]
    Empty,
    /// The chain is too long.
    #[error("the peer sent {count} certificates; at most {limit} are allowed")]
    TooMany {
        /// The number of certificates.
        count: usize,
        /// The upper bound.
        limit: usize,
    },
    /// The chain is too large.
    #[error("the peer sent {bytes} bytes of certificates; at most {limit} are allowed")]
    TooLarge {
        /// The size of all certificates.
        bytes: usize,
        /// The upper bound.
        limit: usize,
    },
    /// A certificate does not parse, or contradicts itself.
    #[error("certificate {number} of the chain: {reason}")]
    Malformed {
        /// The place in the chain, from 1, the peer's own certificate.
        number: usize,
        /// The fault.
        reason: BadCertificate,
    },
    /// The certificate is too old.
    #[error("it expired at {}; get a new one, or set the clock", utc(*.not_after))]
    Expired {
        /// The last second of validity.
        not_after: UnixTime,
    },
    /// The certificate is too young.
    #[error("it is valid from {} on; set the clock", utc(*.not_before))]
    NotYetValid {
        /// The first second of validity.
        not_before: UnixTime,
    },
    /// Nobody knows the issuer.
    #[error(
        "its issuer {issuer} is unknown: add {:08x}.0 to the CA directory if it is trusted",
        .issuer.hash()
    )]
    UnknownIssuer {
        /// The issuer.
        issuer: Name,
    },
    /// A self-signed certificate is not trusted.
    #[error(
        "it is signed by itself and not trusted: add {:08x}.0 to the CA directory if it is",
        .subject.hash()
    )]
    Untrusted {
        /// The subject.
        subject: Name,
    },
    /// The signature is not of a key of the issuer.
    #[error("its signature is not of a known key of its issuer {issuer}")]
    BadSignature {
        /// The issuer.
        issuer: Name,
    },
    /// The signature is of an algorithm that is not accepted.
    #[error(
        "its signature algorithm {algorithm} is not accepted: have it issued anew with SHA-256"
    )]
    Algorithm {
        /// The algorithm, in dotted form.
        algorithm: String,
    },
    /// The key is too small.
    #[error("its key of {bits} bits is too small: RSA keys have at least {limit}")]
    SmallKey {
        /// The size of the key.
        bits: usize,
        /// The lower bound.
        limit: usize,
    },
    /// The key is of an algorithm that is not accepted.
    #[error("its key is neither RSA nor on a known elliptic curve nor Ed25519")]
    Key,
    /// The issuer is no authority.
    #[error("it signs an end entity or an authority and is no authority itself")]
    NotAuthority,
    /// The key usage of an authority does not permit to sign certificates.
    #[error("its key usage does not permit to sign certificates")]
    NoCertSign,
    /// More authorities follow than an authority allows.
    #[error("it allows {limit} authorities below it, and {count} follow")]
    AuthorityPathLength {
        /// The bound that the authority sets.
        limit: u32,
        /// The number of authorities below it.
        count: usize,
    },
    /// An authority is used as a user or a host.
    #[error("it is an authority, not a user or a host")]
    Authority,
    /// A critical extension is not understood.
    #[error("its critical extension {oid} is not understood")]
    CriticalExtension {
        /// The extension, in dotted form.
        oid: String,
    },
    /// A limit on names is not evaluated.
    #[error("it limits names (nameConstraints), which is not supported")]
    NameConstraints,
    /// The issuer of a proxy is an authority.
    #[error("it is a proxy whose issuer is an authority")]
    ProxyOfAuthority,
    /// The key usage of the issuer of a proxy does not permit signatures.
    #[error("its key usage does not permit signatures, so it cannot issue a proxy")]
    NoDigitalSignature,
    /// Two formats of proxies are mixed.
    #[error("it is a proxy of another format than the one that issued it")]
    ProxyFormat,
    /// A limited proxy issued one with more rights.
    #[error("it has more rights than the limited proxy that issued it")]
    ProxyRights,
    /// More proxies follow than a proxy allows.
    #[error("it allows {limit} proxies below it, and {count} follow")]
    ProxyPathLength {
        /// The bound that the proxy sets.
        limit: u32,
        /// The number of proxies below it.
        count: usize,
    },
    /// Legacy proxies are not accepted.
    #[error("it is a legacy proxy, which is not accepted here: use `grid-proxy-init -rfc`")]
    LegacyProxy,
    /// A proxy has a policy that is not evaluated.
    #[error("its proxy policy of language {language} is not understood")]
    RestrictedProxy {
        /// The policy language, in dotted form.
        language: String,
    },
    /// The authority revoked the certificate.
    #[error("its issuer {issuer} revoked it; get a new one")]
    Revoked {
        /// The issuer.
        issuer: Name,
    },
    /// The revocation list is too old.
    #[error(
        "the revocation list of {issuer} expired at {}: fetch a new {:08x}.r0",
        utc(*.next_update), .issuer.hash()
    )]
    RevocationsExpired {
        /// The issuer.
        issuer: Name,
        /// The last second of validity.
        next_update: UnixTime,
    },
    /// The revocation list is too young.
    #[error("the revocation list of {issuer} is valid from {} on: set the clock", utc(*.this_update))]
    RevocationsNotYetValid {
        /// The issuer.
        issuer: Name,
        /// The first second of validity.
        this_update: UnixTime,
    },
    /// The revocation list is not signed by the authority.
    #[error("the revocation list {:08x}.r0 is not signed by {issuer}: fetch it anew", .issuer.hash())]
    RevocationsSignature {
        /// The issuer.
        issuer: Name,
    },
    /// An authority has no signing policy.
    #[error(
        "no signing policy for its issuer {issuer}: add {:08x}.signing_policy to the CA directory",
        .issuer.hash()
    )]
    NoPolicy {
        /// The issuer.
        issuer: Name,
    },
    /// The file with the signing policy does not name the authority.
    #[error("{:08x}.signing_policy does not name its issuer {issuer}", .issuer.hash())]
    PolicyWithoutAuthority {
        /// The issuer.
        issuer: Name,
    },
    /// The signing policy does not allow the subject.
    #[error("{:08x}.signing_policy does not allow {issuer} to sign this name", .issuer.hash())]
    PolicyForbids {
        /// The issuer.
        issuer: Name,
    },
    /// The chain asks for more signature checks than any real one.
    #[error("its path needs more than {limit} signature checks")]
    Search {
        /// The upper bound.
        limit: usize,
    },
}

/// A date in words.
fn utc(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    ASN1Time::from_timestamp(seconds).map_or_else(|_| "an unknown date".into(), |t| t.to_string())
}
