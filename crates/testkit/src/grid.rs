//! `Grid`: an authority of Grid security with its directory, and users, hosts and proxies of it.

use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use gsi::certificate::Certificate;
use gsi::credential::Credential;
use gsi::key::KeyPair as GridKey;
use gsi::proxy::ProxyOptions;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CustomExtension,
    DistinguishedName, DnType, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, RevokedCertParams, RsaKeySize, SerialNumber,
    date_time_ymd,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};

use crate::authority::Validity;

/// The year in which validity ends. GCT copies one from 2050 on into proxies in a broken form.
const END: i32 = 2049;

/// The keys of the authority, of end entities and of proxies: RSA keys are slow to make without
/// optimization, so the grids of a process share these.
static KEYS: LazyLock<[Vec<u8>; 3]> = LazyLock::new(|| {
    std::array::from_fn(|_| {
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048);
        key.expect("random bytes for a key").serialize_der()
    })
});

/// `ProxyCertInfo` of RFC 3820.
const PROXY_CERT_INFO: &[u64] = &[1, 3, 6, 1, 5, 5, 7, 1, 14];
/// The extension of attribute certificates of VOMS.
const VOMS: &[u64] = &[1, 3, 6, 1, 4, 1, 8005, 100, 100, 5];
/// The value of `ProxyCertInfo` for all rights of the issuer.
const INHERIT_ALL: &[u8] = &[0x30, 12, 0x30, 10, 0x06, 8, 0x2b, 6, 1, 5, 5, 7, 21, 1];
/// Bytes of an attribute certificate, about as many as one with some groups has.
const ATTRIBUTES: usize = 6000;

/// An authority of Grid security for one test, with a folder for files.
///
/// Names begin with `/O=Grid/OU=Lab`. All keys but those of [`elliptic`](Self::elliptic) are RSA, as
/// the Globus programs demand.
pub struct Grid {
    folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
    root: CertificateDer<'static>,
}

impl Grid {
    /// Creates the authority `/O=Grid/OU=Lab/CN=Lab CA` and its directory.
    #[must_use]
    pub fn new() -> Self {
        Self::named("Lab CA")
    }

    /// Creates an authority of another common name. It has the key of the others.
    ///
    /// # Panics
    /// When the folder of temporary files cannot be written to.
    #[must_use]
    pub fn named(common: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name = name(common);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(END, 1, 1);
        let [key, _, _] = &*KEYS;
        let key = rsa(key);
        let root = params
            .self_signed(&key)
            .expect("a CA certificate is well-formed");
        let grid = Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            root: root.der().clone(),
            issuer: Issuer::new(params, key),
        };
        fs::create_dir(grid.certificates()).expect("a new folder");
        let hash = grid.hash();
        grid.write(&format!("certificates/{hash}.0"), &root.pem(), 0o644);
        let policy = format!(
            "access_id_CA X509 '/O=Grid/OU=Lab/CN={common}'\n\
             pos_rights globus CA:sign\n\
             cond_subjects globus '\"/O=Grid/OU=Lab/*\"'\n"
        );
        grid.write(
            &format!("certificates/{hash}.signing_policy"),
            &policy,
            0o644,
        );
        grid
    }

    /// The folder for files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The directory of authorities: certificate and signing policy under their hashed names.
    #[must_use]
    pub fn certificates(&self) -> PathBuf {
        self.folder().join("certificates")
    }

    /// The hash in the names of the authority's files.
    ///
    /// # Panics
    /// Never: the certificate is well-formed.
    #[must_use]
    pub fn hash(&self) -> String {
        let root = Certificate::parse(self.root.clone()).expect("a CA certificate is well-formed");
        format!("{:08x}", root.subject().hash())
    }

    /// The certificate of the authority.
    #[must_use]
    pub fn root(&self) -> &CertificateDer<'static> {
        &self.root
    }

    /// Issues a certificate for a person or a program.
    #[must_use]
    pub fn user(&self, common: &str) -> Credential {
        self.issue(common, &[], Validity::Good)
    }

    /// Issues a certificate for a host with these names and addresses, the first one its common
    /// name.
    #[must_use]
    pub fn host(&self, names: &[&str]) -> Credential {
        self.issue(
            names.first().copied().unwrap_or_default(),
            names,
            Validity::Good,
        )
    }

    /// Issues a certificate with a chosen validity.
    ///
    /// # Panics
    /// When a name is neither that of a host nor an address.
    #[must_use]
    pub fn issue(&self, common: &str, names: &[&str], validity: Validity) -> Credential {
        let made = end_entity(common, names, validity).signed_by(&user_key(), &self.issuer);
        credential(vec![made], &user_key())
    }

    /// Issues a certificate with a key on an elliptic curve.
    ///
    /// # Panics
    /// When the system has no random bytes.
    #[must_use]
    pub fn elliptic(&self, common: &str) -> Credential {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("random bytes for a key");
        let made = end_entity(common, &[], Validity::Good).signed_by(&key, &self.issuer);
        credential(vec![made], &key)
    }

    /// Makes a certificate that is signed by itself, with a name as the authority gives.
    ///
    /// # Panics
    /// When a name is neither that of a host nor an address.
    #[must_use]
    pub fn self_signed(&self, common: &str, names: &[&str]) -> Credential {
        let made = end_entity(common, names, Validity::Good).self_signed(&user_key());
        credential(vec![made], &user_key())
    }

    /// Makes a proxy of [`user`](Self::user) with attribute certificates, as `voms-proxy-init`
    /// does: a sequence of them in an extension that is not critical. Their content is opaque.
    ///
    /// # Panics
    /// Never: the certificate is well-formed.
    #[must_use]
    pub fn voms_proxy(&self, common: &str) -> Credential {
        let user = end_entity(common, &[], Validity::Good);
        let made = user.signed_by(&user_key(), &self.issuer);
        let issuer = Issuer::from_params(&user, user_key());
        let mut proxy = end_entity(common, &[], Validity::Good);
        // A name keeps one value for each type, and a proxy has two common names.
        let second = DnType::CustomDnType(vec![2, 5, 4, 3]);
        proxy.distinguished_name.push(second, "20261122");
        let mut info = CustomExtension::from_oid_content(PROXY_CERT_INFO, INHERIT_ALL.to_vec());
        info.set_criticality(true);
        let certificate = tlv(0x30, &tlv(0x04, &[0x5a; ATTRIBUTES]));
        let list = tlv(0x30, &tlv(0x30, &certificate));
        let voms = CustomExtension::from_oid_content(VOMS, list);
        proxy.custom_extensions = vec![info, voms];
        let [_, _, key] = &*KEYS;
        let proxy = proxy.signed_by(&rsa(key), &issuer);
        credential(vec![proxy, made], &rsa(key))
    }

    /// Makes a proxy that is valid now.
    ///
    /// # Panics
    /// When the rules of proxies forbid it.
    #[must_use]
    pub fn proxy(&self, of: &Credential, options: &ProxyOptions) -> Credential {
        let [_, _, key] = &*KEYS;
        let key = GridKey::new(secret(key)).expect("an RSA key");
        of.make_proxy(key, options, UnixTime::now())
            .expect("a permitted proxy")
    }

    /// Writes the revocation list of the authority, with the certificates of these common names.
    ///
    /// # Panics
    /// When the directory cannot be written to.
    pub fn revoke(&self, commons: &[&str]) {
        self.revoke_until(END, commons);
    }

    /// As [`revoke`](Self::revoke), with a list that is in force until the beginning of a year.
    ///
    /// # Panics
    /// When the directory cannot be written to.
    pub fn revoke_until(&self, year: i32, commons: &[&str]) {
        let revoked_certs = commons.iter().map(|common| RevokedCertParams {
            serial_number: SerialNumber::from(serial(common)),
            revocation_time: date_time_ymd(2022, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2022, 1, 1),
            next_update: date_time_ymd(year, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked_certs.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).expect("a list is well-formed");
        let pem = list.pem().expect("a list is well-formed");
        self.write(&format!("certificates/{}.r0", self.hash()), &pem, 0o644);
    }

    /// Writes a credential to one file that only its owner may read, and returns the path.
    #[must_use]
    pub fn store(&self, credential: &Credential, file: &str) -> PathBuf {
        self.write(file, &credential.to_pem(), 0o600)
    }

    /// Writes a file with a mode below the folder, and returns its path.
    ///
    /// # Panics
    /// When the folder cannot be written to.
    pub fn write(&self, file: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.folder().join(file);
        let fresh = path.with_extension("fresh");
        fs::write(&fresh, text).expect("the folder can be written to");
        fs::set_permissions(&fresh, fs::Permissions::from_mode(mode)).expect("an own file");
        fs::rename(&fresh, &path).expect("the folder can be written to");
        path
    }
}

impl Default for Grid {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Grid")
    }
}

/// The certificate of a user or a host, to be signed.
fn end_entity(common: &str, names: &[&str], validity: Validity) -> CertificateParams {
    let names: Vec<_> = names.iter().map(ToString::to_string).collect();
    let params = CertificateParams::new(names);
    let mut params = params.expect("names are of hosts or addresses");
    params.distinguished_name = name(common);
    params.serial_number = Some(SerialNumber::from(serial(common)));
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyEncipherment,
    ];
    params.not_before = date_time_ymd(2021, 1, 1);
    params.not_after = date_time_ymd(END, 1, 1);
    match validity {
        Validity::Good => {}
        Validity::Expired => params.not_after = date_time_ymd(2022, 1, 1),
        Validity::NotYet => params.not_before = date_time_ymd(2048, 1, 1),
    }
    params
}

/// A chain, the key's own certificate first.
fn credential(chain: Vec<Result<rcgen::Certificate, rcgen::Error>>, key: &KeyPair) -> Credential {
    let chain = chain.into_iter().map(|made| {
        let made = made.expect("a certificate of these names is well-formed");
        made.der().clone()
    });
    let key = GridKey::new(secret(&key.serialize_der())).expect("a key that signs");
    Credential::new(chain.collect(), key).expect("the key is that of the certificate")
}

/// The key of users and hosts.
fn user_key() -> KeyPair {
    let [_, key, _] = &*KEYS;
    rsa(key)
}

/// One element of DER.
fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("a short element");
    let [high, low] = length.to_be_bytes();
    let head: &[u8] = match length {
        0..0x80 => &[tag, low],
        0x80..0x100 => &[tag, 0x81, low],
        _ => &[tag, 0x82, high, low],
    };
    [head, content].concat()
}

fn name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::OrganizationName, "Grid");
    name.push(DnType::OrganizationalUnitName, "Lab");
    name.push(DnType::CommonName, common);
    name
}

/// A serial number that follows from the name.
fn serial(common: &str) -> u64 {
    let mixed = common.bytes().fold(5381_u64, |sum, byte| {
        sum.wrapping_mul(33).wrapping_add(u64::from(byte))
    });
    mixed >> 1
}

fn secret(key: &[u8]) -> PrivateKeyDer<'static> {
    PrivatePkcs8KeyDer::from(key.to_vec()).into()
}

fn rsa(key: &[u8]) -> KeyPair {
    let key = PrivatePkcs8KeyDer::from(key);
    KeyPair::from_pkcs8_der_and_sign_algo(&key, &PKCS_RSA_SHA256).expect("an RSA key")
}
