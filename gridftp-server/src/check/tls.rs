//! TLS: the certificate and its key, the authorities of clients, and the map of their certificates.

use std::fs;
use std::path::Path;

use gsi::certificate::Certificate;
use gsi::credential::{Credential, CredentialError};
use gsi::finding::{Finding, RENEWAL};
use gsi::key::KeyPair;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::Zeroizing;

use super::{Site, mode};
use crate::auth::Users;
use crate::certificates::CertificateMap;

const TOPIC: &str = "tls";

/// Most lines about accounts of one kind.
const MANY: usize = 20;

impl Site<'_> {
    pub(super) fn tls(&mut self, users: &Users) {
        let Some(certificate) = self.options.tls_cert.clone() else {
            return self.add(Finding::ok(TOPIC, "it is not offered (--tls-cert)"));
        };
        let key = self.options.tls_key.clone();
        let key = key.as_ref().unwrap_or(&certificate);
        self.certificate(&certificate);
        self.key(&certificate, key);
        if let Some(path) = self.options.tls_client_ca.clone() {
            self.client_authorities(&path);
        }
        if let Some(path) = self.options.tls_map.clone() {
            self.map(&path, users);
        }
    }

    fn certificate(&mut self, path: &Path) {
        let name = format!("certificate {}", path.display());
        let chain = match certificates(path) {
            Ok(chain) => chain,
            Err(why) => {
                let remedy = "name the file with the certificate and its chain, in PEM";
                return self.add(Finding::fail(TOPIC, format!("{name}: {why}"), remedy));
            }
        };
        let Some((own, above)) = chain.split_first() else {
            return;
        };
        self.starts.push(own.not_before());
        self.add(Finding::certificate(TOPIC, &name, own, self.now, RENEWAL));
        self.names_of(TOPIC, &name, own);
        let last = above.last().unwrap_or(own);
        if own.is_self_issued() {
            let fact = format!("{name}: it is signed by itself");
            let remedy =
                "clients trust it only where it is named (--ca): have an authority issue it";
            self.add(Finding::warn(TOPIC, fact, remedy));
        }
        for link in above {
            let name = format!("chain of {}", path.display());
            self.add(Finding::certificate(TOPIC, &name, link, self.now, RENEWAL));
        }
        if !own.is_self_issued() {
            let fact = format!(
                "{name}: it is by {}, which clients must trust",
                last.issuer()
            );
            self.add(match is_chain(&chain) {
                true => Finding::ok(TOPIC, fact),
                false => Finding::fail(
                    TOPIC,
                    format!("{name}: a certificate of its chain is not by the one after it"),
                    "put the certificate first, then its issuer, and so on",
                ),
            });
        }
    }

    fn key(&mut self, certificate: &Path, key: &Path) {
        let shown = key.display().to_string();
        self.add(match fits(certificate, key) {
            Ok(()) => Finding::ok(TOPIC, format!("key {shown}: it is that of the certificate")),
            Err(why) => {
                let remedy = "name the key that the certificate was requested with";
                Finding::error(TOPIC, &format!("key {shown}: {why}"), remedy)
            }
        });
        if let Some(finding) = mode(key).and_then(|mode| permissions(&shown, mode)) {
            self.add(finding);
        }
    }

    fn client_authorities(&mut self, path: &Path) {
        let name = format!("authorities of clients {}", path.display());
        match certificates(path) {
            Err(why) => {
                let remedy = "name a file of certificates in PEM";
                self.add(Finding::fail(TOPIC, format!("{name}: {why}"), remedy));
            }
            Ok(authorities) => {
                for authority in authorities {
                    self.add(Finding::certificate(
                        TOPIC, &name, &authority, self.now, RENEWAL,
                    ));
                }
            }
        }
    }

    fn map(&mut self, path: &Path, users: &Users) {
        let shown = path.display();
        let map = fs::read_to_string(path).map_err(|error| error.to_string());
        let map = map.and_then(|text| {
            let bad = |line| format!("line {line}: need \"NAME\" user[,user...]");
            CertificateMap::parse(&text).map_err(bad)
        });
        let map = match map {
            Ok(map) => map,
            Err(why) => {
                let fact = format!("map {shown}: {why}");
                return self.add(Finding::fail(TOPIC, fact, "correct the file"));
            }
        };
        let fact = format!("map {shown}: {} certificates have users", map.len());
        self.add(Finding::ok(TOPIC, fact));
        let unknown = map.all_users();
        let unknown = unknown.into_iter().filter(|name| users.get(name).is_none());
        for name in unknown.take(MANY) {
            let fact = format!("map {shown}: {name} has no account, so that login is refused");
            let remedy = format!("add the line `{name}:*` to the users file");
            self.add(Finding::warn(TOPIC, fact, remedy));
        }
    }
}

/// The certificates of a file, at least one.
fn certificates(path: &Path) -> Result<Vec<Certificate>, String> {
    let text = fs::read(path).map_err(|error| error.to_string())?;
    let parse = |der: Result<CertificateDer<'_>, _>| {
        let der = der.map_err(|error: rustls_pki_types::pem::Error| error.to_string())?;
        Certificate::parse(der).map_err(|error| error.to_string())
    };
    let found: Result<Vec<_>, String> = CertificateDer::pem_slice_iter(&text).map(parse).collect();
    match found? {
        found if found.is_empty() => Err("there is no certificate in it".to_owned()),
        found => Ok(found),
    }
}

/// Says whether each certificate is by the next.
fn is_chain(chain: &[Certificate]) -> bool {
    chain.windows(2).all(|pair| match pair {
        [one, next] => one.issuer() == next.subject(),
        _ => true,
    })
}

/// Whether a key is that of the first certificate of a file, as TLS demands.
fn fits(certificate: &Path, key: &Path) -> Result<(), String> {
    let chain = certificates(certificate)?;
    let first = chain.first().map(|own| own.der().clone());
    let text = Zeroizing::new(fs::read(key).map_err(|error| error.to_string())?);
    let key = PrivateKeyDer::from_pem_slice(&text);
    let key = key.map_err(|_| "there is no private key without a password in it".to_owned())?;
    let key = KeyPair::new(key).map_err(|error| error.to_string())?;
    match Credential::new(first.into_iter().collect(), key) {
        Ok(_) => Ok(()),
        Err(CredentialError::KeyMismatch(subject)) => Err(format!(
            "it is not that of the first certificate, {subject}"
        )),
        Err(error) => Err(error.to_string()),
    }
}

/// Judges the mode of a key; a group of its own may read it.
fn permissions(file: &str, mode: u32) -> Option<Finding> {
    (mode & 0o027 != 0).then(|| {
        let fact = format!("key {file}: its mode {mode:04o} lets others at it");
        Finding::fail(
            TOPIC,
            fact,
            format!("chmod 600 {file}, and replace the key if they were"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_for_its_owner_and_perhaps_a_group() {
        let of = |mode| permissions("key.pem", mode).is_some();
        for (mode, fault) in [(0o600, false), (0o640, false), (0o660, true), (0o644, true)] {
            assert_eq!(of(mode), fault, "{mode:o}");
        }
    }
}
