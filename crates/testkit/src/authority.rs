//! `Authority`: certificates for one test, valid and invalid.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};

/// A certificate authority for one test.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// The validity period of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Validity {
    /// Valid now.
    Good,
    /// Ended years ago.
    Expired,
    /// Begins in the far future.
    NotYet,
}

/// A certificate and its private key as PEM text.
#[derive(Clone)]
#[non_exhaustive]
pub struct Credential {
    /// The certificate.
    pub certificate: String,
    /// Its key.
    pub key: String,
}

impl Authority {
    /// Creates an authority with a new key.
    ///
    /// # Panics
    /// When the system has no random bytes.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut params = named(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("random bytes for a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a CA certificate is well-formed"))
    }

    /// Returns the authority's certificate as PEM text.
    #[must_use]
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Issues a certificate for the common name `name`, with host names and addresses.
    #[must_use]
    pub fn issue(&self, name: &str, hosts: &[&str]) -> Credential {
        self.issue_valid(name, hosts, Validity::Good)
    }

    /// Issues a certificate with a chosen validity.
    ///
    /// # Panics
    /// When the system has no random bytes, or a host is neither a name nor an address.
    #[must_use]
    pub fn issue_valid(&self, name: &str, hosts: &[&str], validity: Validity) -> Credential {
        let mut params = named(name, hosts);
        match validity {
            Validity::Good => {}
            Validity::Expired => {
                params.not_before = date_time_ymd(2000, 1, 1);
                params.not_after = date_time_ymd(2001, 1, 1);
            }
            Validity::NotYet => params.not_before = date_time_ymd(2999, 1, 1),
        }
        let key = KeyPair::generate().expect("random bytes for a key");
        let made = params.signed_by(&key, &self.0);
        Credential {
            certificate: made.expect("a host certificate is well-formed").pem(),
            key: key.serialize_pem(),
        }
    }

    /// Writes the authority's certificate to `ca.pem` in a folder, and returns the path.
    ///
    /// # Panics
    /// When the folder cannot be written to.
    #[must_use]
    pub fn write(&self, folder: &Path) -> PathBuf {
        let path = folder.join("ca.pem");
        fs::write(&path, self.pem()).expect("the folder can be written to");
        path
    }
}

impl Credential {
    /// Writes certificate and key to one file, `STEM.pem`, and returns its path.
    ///
    /// # Panics
    /// When the folder cannot be written to.
    #[must_use]
    pub fn write(&self, folder: &Path, stem: &str) -> PathBuf {
        let path = folder.join(format!("{stem}.pem"));
        let text = format!("{}{}", self.certificate, self.key);
        fs::write(&path, text).expect("the folder can be written to");
        path
    }
}

fn named(name: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<_> = hosts.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(hosts).expect("hosts are names or addresses");
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority")
    }
}

/// Hides the key.
impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential")
    }
}
