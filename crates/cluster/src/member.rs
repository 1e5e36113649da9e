//! `Member`: identity, certificates and TLS of this program in its cluster, replaced on renewal.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use rustls::{ClientConfig, ServerConfig};
use tokio::sync::watch;

use crate::error::{Error, Result};
use crate::folder::Folder;
use crate::identity::{Identity, Peer, Role};
use crate::revocations::Revocations;
use crate::tls::{self, AUTHORITY, Certificate, Credentials, NODE, Own};

/// This program as a member of a cluster: its identity, certificates and key.
#[derive(Debug)]
pub struct Member {
    pub(crate) folder: Folder,
    pub(crate) identity: Identity,
    revocations: Arc<Revocations>,
    current: RwLock<Arc<Current>>,
    changes: watch::Sender<()>,
}

/// The certificates in force, and the TLS made of them.
#[derive(Debug)]
pub(crate) struct Current {
    pub(crate) credentials: Credentials,
    pub(crate) not_after: SystemTime,
    /// Accepts the other role for the node service.
    pub(crate) accept: Arc<ServerConfig>,
    /// Dials the other role for the node service.
    pub(crate) dial: Arc<ClientConfig>,
    /// Accepts members, and programs without a certificate, that ask for one.
    pub(crate) issue: Arc<ServerConfig>,
    /// Dials a front end to ask for a certificate.
    pub(crate) renew: Arc<ClientConfig>,
}

impl Member {
    /// Reads the certificates and the key in `folder`.
    ///
    /// # Errors
    ///
    /// A file is missing, others may read the key, or the files do not fit together.
    pub fn load(folder: impl Into<PathBuf>) -> Result<Arc<Self>> {
        let folder = Folder::new(folder);
        let revocations = Arc::new(Revocations::load(&folder)?);
        let (identity, current) = read(&folder, &revocations)?;
        Ok(Arc::new(Self {
            folder,
            identity,
            revocations,
            current: RwLock::new(Arc::new(current)),
            changes: watch::Sender::new(()),
        }))
    }

    /// Returns cluster, role and name.
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns the end of validity of the certificate in force.
    pub fn not_after(&self) -> SystemTime {
        self.current().not_after
    }

    /// Reads the files again; connections from now on use them.
    ///
    /// # Errors
    ///
    /// As [`Self::load`], or the files are those of another member; the old ones stay in force.
    pub fn reload(&self) -> Result<()> {
        let (identity, current) = read(&self.folder, &self.revocations)?;
        if identity != self.identity {
            let fact = format!("is of {identity}, not of {}", self.identity);
            return Err(Error::certificate(
                self.folder.path("cert.pem").display(),
                fact,
            ));
        }
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(current);
        self.changes.send_replace(());
        Ok(())
    }

    /// Checks that a peer may make or answer a call now: cluster, role, validity, revocations.
    pub(crate) fn check(&self, peer: &Peer, role: Role) -> Result<()> {
        peer.check(&self.identity, role, SystemTime::now())?;
        self.revocations.check(peer)
    }

    /// Returns the certificates in force, for a handshake now: the revocations are read before.
    pub(crate) async fn for_handshake(&self) -> Arc<Current> {
        self.revocations.refresh().await;
        self.current()
    }

    /// Returns once the certificate of a peer is revoked, with the failure of its connection.
    pub(crate) async fn until_revoked(&self, peer: &Peer) -> Error {
        self.revocations.until_revoked(peer).await
    }

    #[cfg(test)]
    pub(crate) fn own(&self) -> Own<'_> {
        Own {
            identity: &self.identity,
            revocations: &self.revocations,
        }
    }

    pub(crate) fn current(&self) -> Arc<Current> {
        let current = self.current.read();
        Arc::clone(&current.unwrap_or_else(PoisonError::into_inner))
    }

    /// Tells of new certificates.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }
}

/// Reads the files of a member.
fn read(folder: &Folder, revocations: &Arc<Revocations>) -> Result<(Identity, Current)> {
    let credentials = Credentials {
        chain: folder.certificates("cert.pem")?,
        key: folder.key("key.pem")?,
        roots: folder.certificates("ca.pem")?,
    };
    let leaf = credentials.chain.first();
    let leaf = leaf.ok_or_else(|| Error::certificate("cert.pem", "holds no certificate"))?;
    let Peer {
        identity,
        not_after,
        ..
    } = Peer::of_certificate(leaf)?;
    let other = identity.role.other();
    // A program that joins knows the authority by its digest only, so it is shown the certificate.
    let shown = Credentials {
        chain: [&*credentials.chain, &*credentials.roots].concat(),
        key: credentials.key.clone_key(),
        roots: credentials.roots.clone(),
    };
    let mandatory = Certificate::Mandatory;
    let own = Own {
        identity: &identity,
        revocations,
    };
    let current = Current {
        not_after,
        accept: tls::server(&credentials, own, Some(other), mandatory, NODE)?,
        dial: tls::client(&credentials, own, other, NODE)?,
        issue: tls::server(&shown, own, None, Certificate::Optional, AUTHORITY)?,
        renew: tls::client(&credentials, own, Role::Front, AUTHORITY)?,
        credentials,
    };
    Ok((identity, current))
}
