//! The search for a path from a peer's certificate to an anchor, with bounded work.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, UnixTime};

use crate::certificate::Certificate;
use crate::name::Name;
use crate::oid;
use crate::rules::Judge;
use crate::signature::{Fault, MIN_RSA_BITS};
use crate::trust::TrustStore;
use crate::verify::{Peer, Refusal, Rule};

/// Upper bound of certificates in a chain: a stranger chooses them, and each costs checks of
/// signatures. Authorities stand a few deep, and so do proxies.
const MAX_CERTIFICATES: usize = 16;
/// Upper bound of the size of a chain, in bytes: that of a TLS handshake message.
const MAX_BYTES: usize = 64 * 1024;
/// Signature checks for one chain beyond two a certificate; authorities of one name need more.
const SPARE_CHECKS: usize = 16;

/// One search.
pub(crate) struct Search<'a> {
    store: &'a TrustStore,
    /// The chain of one's own credential, trusted beside the store.
    own: &'a [Arc<Certificate>],
    /// The chain that the peer sent.
    sent: &'a [Certificate],
    now: UnixTime,
    /// The path so far, from the peer's certificate on.
    path: Vec<&'a Certificate>,
    checks: usize,
    /// The refusal of the longest path tried, and its length; `usize::MAX` where it reached an
    /// anchor.
    refusal: Option<(usize, Refusal)>,
}

impl<'a> Search<'a> {
    /// Judges a chain, which may hold certificates in any order behind the peer's own.
    pub(crate) fn verify(
        store: &'a TrustStore,
        own: &'a [Arc<Certificate>],
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<Peer, Refusal> {
        let sent = parse(chain).map_err(|rule| Refusal::new(None, rule))?;
        let first = sent
            .first()
            .ok_or_else(|| Refusal::new(None, Rule::Empty))?;
        let mut search = Search {
            store,
            own,
            sent: &sent,
            now,
            path: vec![first],
            checks: 0,
            refusal: None,
        };
        if let Some(mut peer) = search.extend() {
            peer.chain = chain.iter().map(|der| der.clone().into_owned()).collect();
            return Ok(peer);
        }
        let refusal = search.refusal.map(|(_, refusal)| refusal);
        let unknown = || {
            blame(
                first,
                Rule::UnknownIssuer {
                    issuer: first.issuer().clone(),
                },
            )
        };
        Err(refusal.unwrap_or_else(unknown))
    }

    /// Tries every way from the end of the path to an anchor.
    fn extend(&mut self) -> Option<Peer> {
        let last = *self.path.last()?;
        if let Some(is_own) = self.anchor(last) {
            return match Judge::new(self.store, &self.path, is_own, self.now).judge() {
                Ok(peer) => Some(peer),
                Err(refusal) => self.refuse(usize::MAX, refusal),
            };
        }
        let length = self.path.len();
        let mut is_known = false;
        for issuer in self.candidates(last.issuer()) {
            let is_used = self.path.iter().any(|used| used.der() == issuer.der());
            if is_used {
                continue;
            }
            is_known = true;
            let limit = 2 * self.sent.len() + SPARE_CHECKS;
            if self.checks == limit {
                return self.refuse(length, blame(last, Rule::Search { limit }));
            }
            self.checks += 1;
            match self.is_signed_by(last, issuer) {
                Ok(()) => {
                    self.path.push(issuer);
                    if let Some(peer) = self.extend() {
                        return Some(peer);
                    }
                    self.path.pop();
                }
                Err(refusal) => {
                    self.refuse(length, refusal);
                }
            }
        }
        if is_known {
            return None;
        }
        let issuer = last.issuer().clone();
        let rule = if last.is_self_issued() {
            Rule::Untrusted { subject: issuer }
        } else {
            Rule::UnknownIssuer { issuer }
        };
        self.refuse(length, blame(last, rule))
    }

    /// Notes the refusal of a path of this length, unless a longer path was refused.
    fn refuse(&mut self, length: usize, refusal: Refusal) -> Option<Peer> {
        if self
            .refusal
            .as_ref()
            .is_none_or(|(longest, _)| *longest < length)
        {
            self.refusal = Some((length, refusal));
        }
        None
    }

    /// Whether a certificate is an anchor: `Some(true)` if only one's own chain makes it one.
    fn anchor(&self, certificate: &Certificate) -> Option<bool> {
        if !certificate.is_self_issued() {
            return None;
        }
        let is_same = |other: &Arc<Certificate>| other.der() == certificate.der();
        if self.store.named(certificate.subject()).iter().any(is_same) {
            return Some(false);
        }
        self.own.iter().any(is_same).then_some(true)
    }

    /// The certificates of a name: those that are trusted first, which ends loops early.
    fn candidates(&self, name: &Name) -> Vec<&'a Certificate> {
        let trusted = self
            .store
            .named(name)
            .iter()
            .chain(self.own)
            .map(Arc::as_ref);
        let all = trusted
            .chain(self.sent)
            .filter(|candidate| candidate.subject() == name);
        let mut candidates: Vec<&Certificate> = Vec::new();
        for candidate in all {
            if !candidates
                .iter()
                .any(|other| other.der() == candidate.der())
            {
                candidates.push(candidate);
            }
        }
        candidates
    }

    fn is_signed_by(&self, certificate: &Certificate, issuer: &Certificate) -> Result<(), Refusal> {
        if let Some(bits) = issuer.rsa_bits().filter(|&bits| bits < MIN_RSA_BITS) {
            return Err(blame(
                issuer,
                Rule::SmallKey {
                    bits,
                    limit: MIN_RSA_BITS,
                },
            ));
        }
        let checked = self.store.algorithms().check(
            issuer.public_key(),
            certificate.signature_algorithm(),
            certificate.signed(),
            certificate.signature(),
        );
        checked.map_err(|fault| {
            let rule = match fault {
                Fault::Algorithm => Rule::Algorithm {
                    algorithm: oid::algorithm(certificate.signature_algorithm()),
                },
                Fault::Wrong => Rule::BadSignature {
                    issuer: certificate.issuer().clone(),
                },
            };
            blame(certificate, rule)
        })
    }
}

/// Refuses a certificate.
pub(crate) fn blame(certificate: &Certificate, rule: Rule) -> Refusal {
    Refusal::new(Some(certificate.subject().clone()), rule)
}

/// Parses a chain within its bounds.
fn parse(chain: &[CertificateDer<'_>]) -> Result<Vec<Certificate>, Rule> {
    if chain.len() > MAX_CERTIFICATES {
        return Err(Rule::TooMany {
            count: chain.len(),
            limit: MAX_CERTIFICATES,
        });
    }
    let bytes = chain.iter().map(|der| der.len()).sum();
    if bytes > MAX_BYTES {
        return Err(Rule::TooLarge {
            bytes,
            limit: MAX_BYTES,
        });
    }
    let parse = |(index, der): (usize, &CertificateDer<'_>)| {
        let number = index + 1;
        Certificate::parse(der.clone()).map_err(|reason| Rule::Malformed { number, reason })
    };
    chain.iter().enumerate().map(parse).collect()
}
