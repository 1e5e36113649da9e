//! The rules of a whole path: validity, extensions, authorities, proxies, policies, revocation.

use std::sync::Arc;

use rustls::pki_types::UnixTime;

use crate::certificate::{
    Certificate, DIGITAL_SIGNATURE, KEY_CERT_SIGN, Kind, ProxyFormat, ProxyInfo, ProxyRights,
};
use crate::oid;
use crate::path::blame;
use crate::signature::MIN_RSA_BITS;
use crate::trust::TrustStore;
use crate::verify::{Peer, Refusal, Rule};

/// The extensions that may be critical.
const UNDERSTOOD: [&[u8]; 8] = [
    oid::BASIC_CONSTRAINTS,
    oid::KEY_USAGE,
    oid::EXTENDED_KEY_USAGE,
    oid::NS_CERT_TYPE,
    oid::SUBJECT_KEY_IDENTIFIER,
    oid::AUTHORITY_KEY_IDENTIFIER,
    oid::PROXY_CERT_INFO,
    oid::PROXY_CERT_INFO_DRAFT,
];

/// Applies the rules to a path with valid signatures, from the peer's certificate to an
/// anchor.
pub(crate) struct Judge<'a> {
    store: &'a TrustStore,
    path: &'a [&'a Certificate],
    /// Whether the anchor comes with one's own credential, and is not in the store.
    is_own: bool,
    now: UnixTime,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(
        store: &'a TrustStore,
        path: &'a [&'a Certificate],
        is_own: bool,
        now: UnixTime,
    ) -> Self {
        Self {
            store,
            path,
            is_own,
            now,
        }
    }

    /// Applies every rule, from the anchor down.
    pub(crate) fn judge(&self) -> Result<Peer, Refusal> {
        for (index, &certificate) in self.path.iter().enumerate().rev() {
            let refuse = |rule| blame(certificate, rule);
            self.check_alone(certificate).map_err(refuse)?;
            match certificate.kind() {
                Kind::Authority { path_length } => {
                    // An anchor may stand for itself: it is trusted by its very bytes.
                    if index == 0 && self.path.len() > 1 {
                        return Err(refuse(Rule::Authority));
                    }
                    self.check_authorities_below(index, *path_length)
                        .map_err(refuse)?;
                }
                Kind::EndEntity => {}
                Kind::Proxy(info) => self.check_proxy(info, index).map_err(refuse)?,
            }
            if let Some(&issuer) = self.path.get(index + 1) {
                self.check_link(certificate, issuer)?;
            }
        }
        self.peer()
    }

    /// Applies the rules that need no other certificate.
    pub(crate) fn check_alone(&self, certificate: &Certificate) -> Result<(), Rule> {
        let (not_before, not_after) = (certificate.not_before(), certificate.not_after());
        if self.now < not_before {
            return Err(Rule::NotYetValid { not_before });
        }
        if self.now > not_after {
            return Err(Rule::Expired { not_after });
        }
        if let Some(bits) = certificate.rsa_bits().filter(|&bits| bits < MIN_RSA_BITS) {
            return Err(Rule::SmallKey {
                bits,
                limit: MIN_RSA_BITS,
            });
        }
        if !self.store.algorithms().knows_key(certificate.public_key()) {
            return Err(Rule::Key);
        }
        let unknown = certificate.extensions().iter().find(|extension| {
            extension.critical && !UNDERSTOOD.contains(&extension.oid.as_slice())
        });
        if let Some(extension) = unknown {
            return Err(Rule::CriticalExtension {
                oid: oid::dotted(&extension.oid),
            });
        }
        // Name constraints are refused: to ignore them would trust too many names.
        match certificate.extension(oid::NAME_CONSTRAINTS) {
            Some(_) => Err(Rule::NameConstraints),
            None => Ok(()),
        }
    }

    /// RFC 5280 §4.2.1.9: self-issued authorities do not count, nor do proxies.
    fn check_authorities_below(&self, index: usize, limit: Option<u32>) -> Result<(), Rule> {
        let below = self.path.iter().take(index);
        let counts = |certificate: &&&Certificate| {
            matches!(certificate.kind(), Kind::Authority { .. }) && !certificate.is_self_issued()
        };
        let count = below.filter(counts).count();
        match limit.filter(|&limit| exceeds(count, limit)) {
            Some(limit) => Err(Rule::AuthorityPathLength { limit, count }),
            None => Ok(()),
        }
    }

    /// Applies the rules of a proxy that `count` others follow.
    fn check_proxy(&self, info: &ProxyInfo, count: usize) -> Result<(), Rule> {
        if info.format == ProxyFormat::Legacy && !self.store.accepts_legacy_proxies() {
            return Err(Rule::LegacyProxy);
        }
        // RFC 3820 §3.8.2: a policy that is not understood makes the certificate unusable.
        if info.rights == ProxyRights::Restricted || info.has_policy {
            return Err(Rule::RestrictedProxy {
                language: info.language.clone(),
            });
        }
        match info.path_length.filter(|&limit| exceeds(count, limit)) {
            Some(limit) => Err(Rule::ProxyPathLength { limit, count }),
            None => Ok(()),
        }
    }

    /// Applies the rules between a certificate and its issuer.
    fn check_link(&self, certificate: &Certificate, issuer: &Certificate) -> Result<(), Refusal> {
        let refuse = |rule| Err(blame(certificate, rule));
        if let Some(info) = certificate.proxy() {
            if matches!(issuer.kind(), Kind::Authority { .. }) {
                return refuse(Rule::ProxyOfAuthority);
            }
            if !issuer.may(DIGITAL_SIGNATURE) {
                return Err(blame(issuer, Rule::NoDigitalSignature));
            }
            let Some(above) = issuer.proxy() else {
                return Ok(());
            };
            if above.format != info.format {
                return refuse(Rule::ProxyFormat);
            }
            let narrows = matches!(info.rights, ProxyRights::Limited | ProxyRights::Independent);
            if above.rights == ProxyRights::Limited && !narrows {
                return refuse(Rule::ProxyRights);
            }
            return Ok(());
        }
        // Roots of version 1 cannot say that they are authorities; the CA directory does.
        let is_old_root = issuer.is_first_version() && issuer.is_self_issued();
        if !matches!(issuer.kind(), Kind::Authority { .. }) && !is_old_root {
            return Err(blame(issuer, Rule::NotAuthority));
        }
        if !issuer.may(KEY_CERT_SIGN) {
            return Err(blame(issuer, Rule::NoCertSign));
        }
        if !certificate.is_self_issued() {
            let (subject, name) = (certificate.subject(), issuer.subject());
            self.store
                .check_policy(subject, name, self.is_own)
                .or_else(refuse)?;
        }
        self.store
            .check_revocation(certificate, issuer, self.now)
            .or_else(refuse)
    }

    /// The peer of a path without fault.
    fn peer(&self) -> Result<Peer, Refusal> {
        let is_holder = |certificate: &&&Certificate| match certificate.kind() {
            Kind::Proxy(info) => info.rights == ProxyRights::Independent,
            Kind::Authority { .. } | Kind::EndEntity => true,
        };
        let empty = || Refusal::new(None, Rule::Empty);
        let first = self.path.first().ok_or_else(empty)?;
        let holder = self.path.iter().find(is_holder).ok_or_else(empty)?;
        let proxies = || {
            self.path
                .iter()
                .filter_map(|certificate| certificate.proxy())
        };
        let any = |rights| proxies().any(|info| info.rights == rights);
        let rights = [ProxyRights::Limited, ProxyRights::Independent]
            .into_iter()
            .find(|&r| any(r));
        let ends = self.path.iter().map(|certificate| certificate.not_after());
        Ok(Peer {
            identity: holder.subject().clone(),
            subject: first.subject().clone(),
            holder: Arc::new((**holder).clone()),
            rights: rights.unwrap_or(ProxyRights::Full),
            format: first.proxy().map(|info| info.format),
            not_after: ends.min().unwrap_or(self.now),
            path: self
                .path
                .iter()
                .map(|certificate| certificate.der().clone())
                .collect(),
            chain: Vec::new(),
        })
    }
}

fn exceeds(count: usize, limit: u32) -> bool {
    usize::try_from(limit).is_ok_and(|limit| count > limit)
}
