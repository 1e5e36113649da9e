//! Trusted authorities with their signing policies and revocation lists, as of a CA directory.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, UnixTime};

use crate::certificate::{BadCertificate, Certificate};
use crate::name::Name;
use crate::path::Search;
use crate::policy::{Answer, SigningPolicy};
use crate::revocation::RevocationList;
use crate::rules::Judge;
use crate::signature::Algorithms;
use crate::verify::{Peer, Refusal, Rule, Verifier};

/// The choices of a site.
#[derive(Debug, Clone, Copy, Default)]
pub struct TrustOptions {
    accepts_legacy_proxies: bool,
    allows_missing_policies: bool,
}

impl TrustOptions {
    /// Accepts proxies of the format before RFC 3820, which only a name marks as such.
    #[must_use]
    pub fn accept_legacy_proxies(mut self) -> Self {
        self.accepts_legacy_proxies = true;
        self
    }

    /// Lets an authority without a signing policy sign any name.
    #[must_use]
    pub fn allow_missing_policies(mut self) -> Self {
        self.allows_missing_policies = true;
        self
    }
}

/// Authorities, their signing policies and their revocation lists.
///
/// The order in which they are added does not matter. An authority is asked for its signing
/// policy, found by either hash of its name, and for its revocation lists whenever it signs an
/// end entity or another authority; proxies need neither.
///
/// Some rules are stricter than those of the Globus programs, so as to fail closed: a proxy in a
/// policy language that is not known is refused with a policy or without, as is a proxy whose
/// `ProxyCertInfo` is not critical, a chain with name constraints, and an authority as a user,
/// unless it is an anchor. Purposes (`extendedKeyUsage`) do not matter, as there. Legacy proxies
/// and authorities without a signing policy need [`TrustOptions`].
///
/// ```no_run
/// # fn file(name: &str) -> Vec<u8> { unimplemented!("{name}") }
/// # let (chain, now) = (Vec::new(), rustls::pki_types::UnixTime::now());
/// use gsi::policy::SigningPolicy;
/// use gsi::revocation::RevocationList;
/// use gsi::trust::{TrustOptions, TrustStore};
/// use gsi::verify::Verifier;
///
/// let mut store = TrustStore::new(TrustOptions::default());
/// store.add_authority(file("b699121e.0").into())?;
/// store.add_policy(0xb699121e, SigningPolicy::parse(&file("b699121e.signing_policy"))?);
/// store.add_revocations(RevocationList::parse(&file("b699121e.r0"))?);
/// println!("{}", store.verify(&chain, now)?.identity);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct TrustStore {
    options: TrustOptions,
    authorities: HashMap<Name, Vec<Arc<Certificate>>>,
    policies: HashMap<u32, SigningPolicy>,
    lists: HashMap<Name, Vec<HeldList>>,
    algorithms: Algorithms,
}

#[derive(Debug, Clone)]
struct HeldList {
    list: Arc<RevocationList>,
    /// Whether an authority of the store signed it.
    is_signed: bool,
}

impl TrustStore {
    /// Creates a store without any authority.
    pub fn new(options: TrustOptions) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }

    /// Adds an authority: an anchor if it is self-signed, or else a link to one.
    ///
    /// # Errors
    ///
    /// The bytes are no certificate.
    pub fn add_authority(&mut self, der: CertificateDer<'_>) -> Result<(), BadCertificate> {
        let authority = Arc::new(Certificate::parse(der)?);
        for held in self
            .lists
            .get_mut(authority.subject())
            .into_iter()
            .flatten()
        {
            held.is_signed |= held.list.is_signed_by(&authority, &self.algorithms);
        }
        let same = self
            .authorities
            .entry(authority.subject().clone())
            .or_default();
        if !same.iter().any(|other| other.der() == authority.der()) {
            same.push(authority);
        }
        Ok(())
    }

    /// Adds the file `HASH.signing_policy` of a CA directory.
    ///
    /// Either of the two hashes of a name does.
    pub fn add_policy(&mut self, hash: u32, policy: SigningPolicy) {
        self.policies.insert(hash, policy);
    }

    /// The signing policies of an authority's file, which may name others than the authority.
    pub fn policy(&self, authority: &Name) -> Option<&SigningPolicy> {
        let find = |hash| self.policies.get(&hash);
        find(authority.hash()).or_else(|| find(authority.old_hash()))
    }

    /// Adds a revocation list.
    pub fn add_revocations(&mut self, list: RevocationList) {
        let signs = |authority: &Arc<Certificate>| list.is_signed_by(authority, &self.algorithms);
        let is_signed = self.named(list.issuer()).iter().any(signs);
        let lists = self.lists.entry(list.issuer().clone()).or_default();
        lists.push(HeldList {
            list: Arc::new(list),
            is_signed,
        });
    }

    /// The authorities, in no order.
    pub fn authorities(&self) -> impl Iterator<Item = &Certificate> {
        self.authorities.values().flatten().map(Arc::as_ref)
    }

    /// The revocation lists, in no order.
    pub fn revocations(&self) -> impl Iterator<Item = &RevocationList> {
        self.lists.values().flatten().map(|held| held.list.as_ref())
    }

    /// Also trusts the chain of one's own credential, for the data channels that it protects.
    ///
    /// A self-signed certificate of the chain is an anchor for chains that hold the same bytes,
    /// whatever its signature algorithm. Below it, signing policies may be missing.
    ///
    /// # Errors
    ///
    /// One of the certificates does not parse.
    pub fn with_chain(
        self: &Arc<Self>,
        chain: &[CertificateDer<'_>],
    ) -> Result<ExtendedTrust, BadCertificate> {
        let parse = |der: &CertificateDer<'_>| Certificate::parse(der.clone()).map(Arc::new);
        let chain = chain.iter().map(parse).collect::<Result<_, _>>()?;
        Ok(ExtendedTrust {
            store: Arc::clone(self),
            chain,
        })
    }

    /// The rules by which every certificate of an authority is refused: faults of the CA directory,
    /// of the certificate, the signing policy and the revocation list, in this order.
    pub fn faults(&self, authority: &Certificate, now: UnixTime) -> Vec<Rule> {
        let name = authority.subject();
        let alone = Judge::new(self, &[], false, now).check_alone(authority);
        let policy = match self.check_policy(name, name, false) {
            // It may sign others.
            Err(Rule::PolicyForbids { .. }) => Ok(()),
            other => other,
        };
        let lists = match self.signed_lists(authority) {
            Some(lists) => check_dates(&lists, authority, now),
            None => Ok(()),
        };
        [alone, policy, lists]
            .into_iter()
            .filter_map(Result::err)
            .collect()
    }

    pub(crate) fn accepts_legacy_proxies(&self) -> bool {
        self.options.accepts_legacy_proxies
    }

    pub(crate) fn algorithms(&self) -> &Algorithms {
        &self.algorithms
    }

    /// The authorities of a name.
    pub(crate) fn named(&self, name: &Name) -> &[Arc<Certificate>] {
        self.authorities.get(name).map_or(&[], Vec::as_slice)
    }

    /// Asks the signing policy of the issuer.
    pub(crate) fn check_policy(
        &self,
        subject: &Name,
        issuer: &Name,
        may_be_missing: bool,
    ) -> Result<(), Rule> {
        let policy = self.policy(issuer);
        let issuer = issuer.clone();
        let Some(policy) = policy else {
            let allowed = may_be_missing || self.options.allows_missing_policies;
            return if allowed {
                Ok(())
            } else {
                Err(Rule::NoPolicy { issuer })
            };
        };
        match policy.allows(&issuer.to_string(), &subject.to_string()) {
            Answer::Allowed => Ok(()),
            Answer::Forbidden => Err(Rule::PolicyForbids { issuer }),
            Answer::Unnamed => Err(Rule::PolicyWithoutAuthority { issuer }),
        }
    }

    /// Asks the revocation lists of the issuer.
    ///
    /// One of them must be in force; each that the issuer signed counts, one of an old key too.
    pub(crate) fn check_revocation(
        &self,
        certificate: &Certificate,
        issuer: &Certificate,
        now: UnixTime,
    ) -> Result<(), Rule> {
        let Some(lists) = self.signed_lists(issuer) else {
            return Ok(());
        };
        if lists.iter().any(|list| list.revokes(certificate.serial())) {
            let issuer = issuer.subject().clone();
            return Err(Rule::Revoked { issuer });
        }
        check_dates(&lists, issuer, now)
    }

    /// The revocation lists that an authority signed; `None` where there is none at all.
    fn signed_lists(&self, issuer: &Certificate) -> Option<Vec<&RevocationList>> {
        let signed =
            |held: &&HeldList| held.is_signed || held.list.is_signed_by(issuer, &self.algorithms);
        let lists = self.lists.get(issuer.subject())?.iter().filter(signed);
        Some(lists.map(|held| held.list.as_ref()).collect())
    }
}

/// Demands that one of the lists that an authority signed is in force.
fn check_dates(lists: &[&RevocationList], issuer: &Certificate, now: UnixTime) -> Result<(), Rule> {
    let issuer = issuer.subject().clone();
    let is_current = |list: &&RevocationList| {
        list.this_update() <= now && list.next_update().is_none_or(|next| now <= next)
    };
    if lists.iter().any(is_current) {
        return Ok(());
    }
    let last = lists.iter().max_by_key(|list| list.this_update());
    Err(
        match last.map(|list| (list.this_update(), list.next_update())) {
            None => Rule::RevocationsSignature { issuer },
            Some((_, Some(next_update))) if next_update < now => Rule::RevocationsExpired {
                issuer,
                next_update,
            },
            Some((this_update, _)) => Rule::RevocationsNotYetValid {
                issuer,
                this_update,
            },
        },
    )
}

impl Verifier for TrustStore {
    fn verify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<Peer, Refusal> {
        Search::verify(self, &[], chain, now)
    }
}

/// A store, and the chain of a credential that is trusted beside it; see
/// [`TrustStore::with_chain`].
#[derive(Debug, Clone)]
pub struct ExtendedTrust {
    store: Arc<TrustStore>,
    chain: Vec<Arc<Certificate>>,
}

impl Verifier for ExtendedTrust {
    fn verify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<Peer, Refusal> {
        Search::verify(&self.store, &self.chain, chain, now)
    }
}
