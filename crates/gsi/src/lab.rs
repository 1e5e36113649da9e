//! A small grid for tests: an authority, a user, a host, and a verifier that trusts them.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, UnixTime};

use crate::certificate::{ProxyFormat, ProxyRights};
use crate::credential::Credential;
use crate::key::{KeyPair, KeySize};
use crate::proxy::ProxyOptions;
use crate::tls::{Fixed, Tls, Versions};
use crate::trust::{TrustOptions, TrustStore};

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
        params.not_after = date_time_ymd(2060, 1, 1);
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

    /// A certificate by itself, with an extension of so many bytes.
    pub(crate) fn large(bytes: usize) -> Credential {
        let mut params = CertificateParams::default();
        params.distinguished_name = name("Large");
        let extension = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![0; bytes]);
        params.custom_extensions.push(extension);
        let key = rcgen::KeyPair::generate().unwrap();
        let der = params.self_signed(&key).unwrap().der().clone();
        let key = KeyPair::new(key.serialize_der().try_into().unwrap()).unwrap();
        Credential::new(vec![der], key).unwrap()
    }

    /// Both ends of TLS at the instant of the tests.
    pub(crate) fn tls(versions: Versions) -> Tls {
        Tls::new(Arc::new(trust(&Self::get().root)), Arc::new(Fixed(now()))).versions(versions)
    }
}

/// Trusts one authority, with proxies of every format.
pub(crate) fn trust(root: &CertificateDer<'_>) -> TrustStore {
    let options = TrustOptions::default();
    let mut store = TrustStore::new(options.accept_legacy_proxies().allow_missing_policies());
    store.add_authority(root.clone()).unwrap();
    store
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
