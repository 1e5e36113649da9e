//! `Authority`: the cluster's own authority, which issues the certificates of its members.

use std::path::PathBuf;
use std::slice;
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand;
use base64ct::{Base64, Encoding as _};
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData as _,
    SanType,
};
use rustls::pki_types::{CertificateDer, CertificateSigningRequestDer, PrivateKeyDer};
use time::OffsetDateTime;

use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::identity::{Identity, Peer, Role};

/// Validity of a member's certificate.
pub(crate) const LIFETIME: Duration = Duration::from_secs(30 * 86_400);
/// Validity of an authority.
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(10 * 365 * 86_400);
/// Most that the clock of a member may be behind.
pub(crate) const SKEW: Duration = Duration::from_secs(3600);

/// Makes a cluster: its authority, and the certificate of its first front end, in `folder`.
///
/// # Errors
///
/// The name is not valid, the folder holds a member already, or it cannot be written.
pub fn init(folder: impl Into<PathBuf>, front: &str) -> Result<Identity> {
    let folder = Folder::new(folder);
    let identity = Identity::new(&random_name::<16>()?, Role::Front, front);
    let identity = identity.ok_or_else(|| bad_name(front))?;
    folder.check_empty()?;
    folder.create()?;
    let (params, key) = new_authority(&identity.cluster)?;
    let root = params.self_signed(&key).map_err(bad_request)?;
    folder.write("ca.key", key.serialize_pem().as_bytes(), 0o600)?;
    folder.write("ca.pem", root.pem().as_bytes(), 0o644)?;
    let authority = Authority {
        issuer: Issuer::new(params, key),
        intermediates: Vec::new(),
        cluster: identity.cluster.clone(),
    };
    let key = new_key(&folder)?;
    let chain = authority.issue(&request(&key)?, &identity, LIFETIME)?;
    folder.write("cert.pem", chain.as_bytes(), 0o644)?;
    Ok(identity)
}

/// Replaces the cluster's authority in `folder` by a new one, which the old one certifies.
///
/// Members trust the certificates of both at once: those of the new authority lead to the old one,
/// and `ca.pem` names both. Once every member has renewed its certificate, [`retire`] ends the trust
/// in the old one. The front end uses the files after [`Member::reload`](crate::Member::reload).
///
/// # Errors
///
/// The folder holds no authority, or cannot be written.
pub fn rotate(folder: impl Into<PathBuf>) -> Result<()> {
    let folder = Folder::new(folder);
    let none = || Error::certificate(folder.path("ca.key").display(), "there is no authority");
    let old = Authority::load(&folder)?.ok_or_else(none)?;
    let chain = folder.certificates("cert.pem")?;
    let leaf = chain.first().ok_or_else(none)?;
    let identity = Peer::of_certificate(leaf)?.identity;
    let (params, key) = new_authority(&old.cluster)?;
    let root = params.self_signed(&key).map_err(bad_request)?;
    let link = params.signed_by(&key, &old.issuer).map_err(bad_request)?;
    let key_text = zeroize::Zeroizing::new(key.serialize_pem());
    let authority = Authority {
        issuer: Issuer::new(params, key),
        intermediates: [slice::from_ref(link.der()), &old.intermediates].concat(),
        cluster: old.cluster,
    };
    let member = key_pair(&folder.key("key.pem")?)?;
    let chain = authority.issue(&request(&member)?, &identity, LIFETIME)?;
    let roots = [slice::from_ref(root.der()), &folder.certificates("ca.pem")?].concat();
    // Interrupted between two of these, the old authority goes on.
    folder.write("ca.pem", pem(&roots).as_bytes(), 0o644)?;
    folder.write("cert.pem", chain.as_bytes(), 0o644)?;
    folder.write("ca.key", key_text.as_bytes(), 0o600)
}

/// Ends the trust in all authorities but the newest, in `folder` and for members that renew later.
///
/// # Errors
///
/// The folder holds no authority, or cannot be written.
pub fn retire(folder: impl Into<PathBuf>) -> Result<()> {
    let folder = Folder::new(folder);
    folder.key("ca.key")?;
    let newest = |name| {
        let mut certificates = folder.certificates(name)?;
        certificates.truncate(1);
        folder.write(name, pem(&certificates).as_bytes(), 0o644)
    };
    newest("cert.pem")?;
    newest("ca.pem")
}

/// Issues certificates with the key of the cluster's authority.
#[derive(Debug)]
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Certificates of this authority by earlier ones.
    intermediates: Vec<CertificateDer<'static>>,
    cluster: String,
}

impl Authority {
    /// Reads the authority of a front end; `None` where it has none.
    pub(crate) fn load(folder: &Folder) -> Result<Option<Self>> {
        if !folder.has("ca.key") {
            return Ok(None);
        }
        let key = key_pair(&folder.key("ca.key")?)?;
        // Not always the first one: a rotation may have been interrupted.
        let mut roots = folder.certificates("ca.pem")?.into_iter();
        let root = roots.find(|root| is_of(root, &key)).ok_or_else(|| {
            let fact = "does not belong to an authority of ca.pem";
            Error::certificate(folder.path("ca.key").display(), fact)
        })?;
        let mut chain = folder.certificates("cert.pem")?;
        let intermediates = chain.split_off(1);
        let leaf = chain.first();
        let leaf = leaf.ok_or_else(|| Error::certificate("cert.pem", "holds no certificate"))?;
        Ok(Some(Self {
            issuer: Issuer::from_ca_cert_der(&root, key).map_err(bad_request)?,
            intermediates,
            cluster: Peer::of_certificate(leaf)?.identity.cluster,
        }))
    }

    /// The identity of a member of this cluster.
    pub(crate) fn member(&self, role: Role, name: &str) -> Result<Identity> {
        Identity::new(&self.cluster, role, name).ok_or_else(|| bad_name(name))
    }

    /// Issues a certificate for the key of a request, and returns its chain in PEM.
    ///
    /// Only the key of the request counts: names and uses are of the authority's choice.
    pub(crate) fn issue(
        &self,
        request: &[u8],
        identity: &Identity,
        lifetime: Duration,
    ) -> Result<String> {
        let request = CertificateSigningRequestDer::from(request);
        let request = CertificateSigningRequestParams::from_der(&request).map_err(bad_request)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = common_name(&identity.name);
        let uri = Ia5String::try_from(identity.to_string()).map_err(bad_request)?;
        params.subject_alt_names = vec![SanType::URI(uri)];
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // The ends of TLS follow the direction of the dialling, not the role.
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.use_authority_key_identifier_extension = true;
        (params.not_before, params.not_after) = validity(lifetime);
        let leaf = params
            .signed_by(&request.public_key, &self.issuer)
            .map_err(bad_request)?;
        Ok(pem(
            &[slice::from_ref(leaf.der()), &self.intermediates].concat()
        ))
    }
}

/// Says whether a certificate is of this key.
fn is_of(certificate: &CertificateDer<'_>, key: &KeyPair) -> bool {
    x509_parser::parse_x509_certificate(certificate)
        .is_ok_and(|(_, parsed)| parsed.public_key().raw == key.subject_public_key_info())
}

/// Makes the parameters and the key of a new authority.
fn new_authority(cluster: &str) -> Result<(CertificateParams, KeyPair)> {
    let mut params = CertificateParams::default();
    // Authorities that follow each other have different names.
    let name = format!("GridFTP cluster {cluster} {}", random_name::<4>()?);
    params.distinguished_name = common_name(&name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    (params.not_before, params.not_after) = validity(AUTHORITY_LIFETIME);
    Ok((params, KeyPair::generate().map_err(bad_request)?))
}

/// Makes the key of a member and writes it.
pub(crate) fn new_key(folder: &Folder) -> Result<KeyPair> {
    let key = KeyPair::generate().map_err(bad_request)?;
    folder.write("key.pem", key.serialize_pem().as_bytes(), 0o600)?;
    Ok(key)
}

/// The request (PKCS #10) for a certificate of this key.
pub(crate) fn request(key: &KeyPair) -> Result<Vec<u8>> {
    let request = CertificateParams::default().serialize_request(key);
    Ok(request.map_err(bad_request)?.der().to_vec())
}

/// The key pair of a private key.
pub(crate) fn key_pair(key: &PrivateKeyDer<'_>) -> Result<KeyPair> {
    KeyPair::try_from(key).map_err(bad_request)
}

fn common_name(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

fn validity(lifetime: Duration) -> (OffsetDateTime, OffsetDateTime) {
    let now = OffsetDateTime::from(SystemTime::now());
    (now - SKEW, now + lifetime)
}

/// Certificates as PEM.
pub(crate) fn pem(certificates: &[CertificateDer<'static>]) -> String {
    let mut text = String::new();
    for certificate in certificates {
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let base64 = Base64::encode_string(certificate);
        for line in base64.as_bytes().chunks(64) {
            text.push_str(&String::from_utf8_lossy(line));
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

/// A random name of `N` bytes in hexadecimal.
fn random_name<const N: usize>() -> Result<String> {
    random::<N>().map(|bytes| hex(&bytes))
}

/// Random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|_| Error::certificate("randomness", "not available"))?;
    Ok(bytes)
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The SHA-256 of bytes.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, bytes).as_ref());
    out
}

fn bad_name(name: &str) -> Error {
    let fact = "names have 1 to 64 letters, digits, `.`, `-` and `_`";
    Error::certificate(format!("name {name:?}"), fact)
}

fn bad_request(error: impl ToString) -> Error {
    Error::certificate("certificate", error)
}
