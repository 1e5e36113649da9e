//! A small grid for tests: an authority, a user, a host, and a verifier that trusts them.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, UnixTime};

use crate::certificate::{Certificate, Kind, ProxyFormat, ProxyRights};
use crate::credential::Credential;
use crate::key::{self, KeyPair, KeySize};
use crate::name::Name;
use crate::proxy::ProxyOptions;
use crate::tls::{Fixed, Tls, Versions};
use crate::verify::{Peer, Refusal, Rule, Verifier};

/// RSA keys are slow to make without optimization, so all tests share these.
pub(crate) static KEYS: LazyLock<[KeyPair; 3]> = LazyLock::new(|| {
    std::array::from_fn(|_| KeyPair::generate(KeySize::Bits2048).expect("randomness"))
});

static LAB: LazyLock<Lab> = LazyLock::new(Lab::new);

/// The instant of the tests: 2026-01-01.
pub(crate) fn now() -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(1_767_225_600))
}

#[derive(Debug)]
pub(crate) struct Lab {
    pub(crate) root: CertificateDer<'static>,
    /// `/O=Grid/OU=Lab/CN=Alice Lab`, with an RSA key.
    pub(crate) user: Credential,
    /// `/O=Grid/OU=Lab/CN=localhost`, with an RSA key.
    pub(crate) host: Credential,
    /// `/O=Grid/OU=Lab/CN=Eve Curve`, with a key on P-256.
    pub(crate) curve: Credential,
}

impl Lab {
    pub(crate) fn get() -> &'static Self {
        &LAB
    }

    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name = name("Lab CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2040, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        let root = params.self_signed(&key).unwrap().der().clone();
        let issuer = Issuer::new(params, key);
        let [user, host, _] = &*KEYS;
        let curve = rcgen::KeyPair::generate().unwrap();
        let curve = KeyPair::new(curve.serialize_der().try_into().unwrap()).unwrap();
        Self {
            user: issue(&issuer, "Alice Lab", user),
            host: issue(&issuer, "localhost", host),
            curve: issue(&issuer, "Eve Curve", &curve),
            root,
        }
    }

    /// A proxy of the user.
    pub(crate) fn proxy(format: ProxyFormat, rights: ProxyRights) -> Credential {
        let options = ProxyOptions {
            format: Some(format),
            rights,
            ..ProxyOptions::default()
        };
        let [_, _, key] = &*KEYS;
        Self::get()
            .user
            .make_proxy(key.clone(), &options, now())
            .unwrap()
    }

    /// Both ends of TLS at the instant of the tests.
    pub(crate) fn tls(versions: Versions) -> Tls {
        let verifier = Anchored {
            root: Self::get().root.clone(),
        };
        Tls::new(Arc::new(verifier), Arc::new(Fixed(now()))).versions(versions)
    }
}

fn name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, "Grid");
    name.push(DnType::OrganizationalUnitName, "Lab");
    name.push(DnType::CommonName, common);
    name
}

fn issue(issuer: &Issuer<'_, rcgen::KeyPair>, common: &str, key: &KeyPair) -> Credential {
    let mut params = CertificateParams::default();
    params.distinguished_name = name(common);
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::ContentCommitment,
        KeyUsagePurpose::KeyEncipherment,
    ];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.not_before = date_time_ymd(2021, 1, 1);
    params.not_after = date_time_ymd(2039, 1, 1);
    let spki = rcgen::KeyPair::try_from(key.secret().secret_der()).unwrap();
    let der = params.signed_by(&spki, issuer).unwrap().der().clone();
    Credential::new(vec![der], key.clone()).unwrap()
}

/// Follows a chain by signatures to one root, with the least rules that these tests need.
#[derive(Debug)]
pub(crate) struct Anchored {
    pub(crate) root: CertificateDer<'static>,
}

impl Verifier for Anchored {
    fn verify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<Peer, Refusal> {
        let owned: Vec<_> = chain.iter().map(|der| der.clone().into_owned()).collect();
        let all: Vec<Certificate> = owned
            .iter()
            .chain([&self.root])
            .map(|der| Certificate::parse(der.clone()))
            .collect::<Result<_, _>>()
            .map_err(|error| Refusal::new(None, Rule::Malformed(error)))?;
        for pair in all.windows(2) {
            let [below, above] = pair else {
                unreachable!("windows of 2")
            };
            let refused = |rule| Refusal::new(Some(below.subject().clone()), rule);
            let issuer = above.subject().clone();
            if below.not_after() < now {
                return Err(refused(Rule::Expired {
                    not_after: below.not_after(),
                }));
            }
            key::verify(
                above.public_key(),
                below.signature_algorithm(),
                below.signed(),
                below.signature(),
            )
            .map_err(|_| refused(Rule::BadSignature { issuer }))?;
        }
        let leaf = &all[0];
        let end = all.iter().find(|one| matches!(one.kind(), Kind::EndEntity));
        let identity: Name = end.unwrap_or(leaf).subject().clone();
        Ok(Peer {
            identity,
            subject: leaf.subject().clone(),
            rights: leaf.proxy().map_or(ProxyRights::Full, |proxy| proxy.rights),
            format: leaf.proxy().map(|proxy| proxy.format),
            not_after: leaf.not_after(),
            path: owned.clone(),
            chain: owned,
        })
    }
}
