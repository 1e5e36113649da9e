//! `Grid`: Grid security of the server and of a session: identities and credentials of clients.

use std::fmt;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use base64ct::{Base64, Encoding as _};
use ftp_proto::security::DataProtection;
use ftp_wire::command::Dcau;
use gridftp_cluster::{self as message, DataIdentity};
use gsi::credential::{Credential, CredentialError};
use gsi::gridmap::Unmapped;
use gsi::name::Name;
use gsi::trust::{TrustOptions, TrustStore};
use gsi::verify::Peer;
use rustls_pki_types::UnixTime;
use xio_gsi::{
    CredentialFiles, Environment, FileError, GridMapFile, Gsi, GssapiAcceptor, Judge, KeyPool,
    NoCredential, NoTrust, Purpose, TrustDirectory, find, of_hosts,
};
use zeroize::Zeroizing;

use crate::config::Options;

/// Keys for delegated credentials that are kept ready.
const KEYS: usize = 8;

/// The name with which clients ask for the account of their identity.
const BY_MAPPING: &str = ":globus-mapping:";

/// Grid security of the server.
pub(crate) struct Grid {
    acceptor: GssapiAcceptor,
    trust: Arc<TrustDirectory>,
    map: Arc<GridMapFile>,
    /// The subject of the host's certificate.
    subject: Name,
}

/// Why Grid security cannot be offered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadGrid {
    /// No credential of the host.
    #[error("credential of the host")]
    Credential(#[from] NoCredential),
    /// The directory of the credentials of further host names cannot be read.
    #[error("host-certs")]
    Hosts(#[source] FileError),
    /// A key without its certificate has no effect.
    #[error("host-key needs host-cert")]
    KeyAlone,
    /// No authorities.
    #[error(transparent)]
    Trust(#[from] NoTrust),
    /// No grid-mapfile.
    #[error("grid-mapfile, see --gridmap")]
    Map(#[from] FileError),
    /// The credential does not fit TLS.
    #[error("credential of the host: {0}")]
    Tls(String),
    /// No thread for keys.
    #[error("thread for keys")]
    Keys(#[from] io::Error),
}

impl Grid {
    /// Reads the credential of the host, the authorities and the grid-mapfile; `None` unless one of
    /// the options of Grid security or `X509_USER_CERT` is set.
    ///
    /// # Errors
    /// One of the three is missing or bad.
    pub(crate) fn load(
        options: &Options,
        environment: &Environment,
    ) -> Result<Option<Arc<Self>>, BadGrid> {
        if options.host_key.is_some() && options.host_cert.is_none() {
            return Err(BadGrid::KeyAlone);
        }
        if !is_asked(options, environment) {
            return Ok(None);
        }
        let host = own_credential(options, environment)?;
        let further = further_credentials(options, environment)?;
        let directory = options.ca_dir.clone();
        let directory = directory.unwrap_or_else(|| environment.trust_directory());
        let trust = Arc::new(TrustDirectory::open(directory, TrustOptions::default())?);
        let map = options.gridmap.clone();
        let map = map.unwrap_or_else(|| environment.grid_map_file());
        let map = GridMapFile::open(map)?.leases(environment.grid_map_directory());
        let map = Arc::new(map);
        let keys = Arc::new(KeyPool::new(KEYS)?);
        let acceptor = GssapiAcceptor::new(&host, Judge::from(Arc::clone(&trust)), keys)
            .map_err(|error| BadGrid::Tls(error.to_string()))?
            .further_hosts(further)
            .mapped_by(Arc::clone(&map));
        Ok(Some(Arc::new(Self {
            acceptor,
            trust,
            map,
            subject: host.subject().clone(),
        })))
    }

    pub(crate) fn acceptor(&self) -> &GssapiAcceptor {
        &self.acceptor
    }
}

fn own_credential(
    options: &Options,
    environment: &Environment,
) -> Result<Credential, NoCredential> {
    let now = UnixTime::now();
    match &options.host_cert {
        Some(certificate) => {
            let key = options.host_key.as_ref().unwrap_or(certificate);
            CredentialFiles::pair(certificate, key).read(environment.uid(), now)
        }
        None => find(environment, Purpose::Server, now).map(|found| found.credential),
    }
}

/// The credentials of further host names. A broken one is told and left out: its clients meet the
/// default one, which they refuse, and those of the other names are served.
fn further_credentials(
    options: &Options,
    environment: &Environment,
) -> Result<Vec<Credential>, BadGrid> {
    let Some(directory) = host_directory(options, environment) else {
        return Ok(Vec::new());
    };
    let now = UnixTime::now();
    let files = of_hosts(&directory).map_err(BadGrid::Hosts)?;
    let read = files.into_iter().filter_map(|files| {
        let files = files.map_err(NoCredential::from);
        let read = files.and_then(|files| files.read(environment.uid(), now));
        read.inspect_err(|error| tracing::error!("host-certs: {error}; this name is not served"))
            .ok()
    });
    Ok(read.collect())
}

/// The directory of the credentials of further host names.
pub(crate) fn host_directory(options: &Options, environment: &Environment) -> Option<PathBuf> {
    let given = options.host_certs.clone();
    given.or_else(|| environment.host_directory())
}

/// Says whether one of the options of Grid security or `X509_USER_CERT` is set.
pub(crate) fn is_asked(options: &Options, environment: &Environment) -> bool {
    options.host_cert.is_some()
        || options.host_certs.is_some()
        || options.ca_dir.is_some()
        || options.gridmap.is_some()
        || environment.is_set("X509_USER_CERT")
}

impl fmt::Debug for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Grid({})", self.subject)
    }
}

/// Grid security of one session.
#[derive(Debug, Default)]
pub(crate) struct GridSession {
    grid: Option<Arc<Grid>>,
    /// The client behind `AUTH GSSAPI`.
    peer: Option<Peer>,
    /// That of the host, which met the client: for data connections of clients that delegated
    /// nothing, as at GCT.
    host: Option<Credential>,
    delegated: Option<Credential>,
    /// The credential of `DCSC P`.
    given: Option<Credential>,
}

/// The reason for refusing a credential of `DCSC`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadCredential {
    #[error("Invalid base64 input for credential type P.")]
    Encoding,
    #[error("Credential import failed. : {0}")]
    Credential(#[from] CredentialError),
}

impl GridSession {
    /// A session on this server.
    pub(crate) fn new(grid: Option<Arc<Grid>>) -> Self {
        Self {
            grid,
            ..Self::default()
        }
    }

    /// Remembers the client of the control channel, its credential, and that of the host.
    pub(crate) fn authenticated(
        &mut self,
        peer: Peer,
        delegated: Option<Credential>,
        host: Credential,
    ) {
        (self.peer, self.delegated, self.host) = (Some(peer), delegated, Some(host));
    }

    /// Finds the local name of a client of Grid security: the requested one, if it may have it, or
    /// else its first. `None` for other clients.
    ///
    /// # Cancel safety
    /// Nothing changes.
    pub(crate) fn local_name(
        &self,
        requested: &str,
    ) -> Option<impl Future<Output = Result<String, Unmapped>> + Send + use<>> {
        let map = Arc::clone(&self.grid.as_ref()?.map);
        let identity = self.peer.as_ref()?.identity.clone();
        let requested = (requested != BY_MAPPING).then(|| requested.to_owned());
        Some(async move { map.local_name(&identity, requested.as_deref()).await })
    }

    /// Takes the credential of `DCSC P`, PEM in base64; none for `DCSC D`.
    ///
    /// # Errors
    /// It cannot be read; the previous one stays.
    pub(crate) fn take_credential(&mut self, base64: Option<&str>) -> Result<(), BadCredential> {
        self.given = match base64 {
            None => None,
            Some(text) => {
                let pem = Base64::decode_vec(text).map_err(|_| BadCredential::Encoding)?;
                let pem = Zeroizing::new(pem);
                Some(Credential::from_pem(&pem)?)
            }
        };
        Ok(())
    }

    /// Takes the credential of a session on a front end, PEM; `own_authorities` says that it brings
    /// its own, as that of `DCSC` does.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn take_delegated(
        &mut self,
        pem: &[u8],
        own_authorities: bool,
    ) -> Result<(), BadCredential> {
        let credential = Some(Credential::from_pem(pem)?);
        match own_authorities {
            true => self.given = credential,
            false => self.delegated = credential,
        }
        Ok(())
    }

    /// The identity of data connections that a node opens for this session: the host's own
    /// credential stays here.
    pub(crate) fn for_nodes(&self) -> DataIdentity {
        DataIdentity {
            credential: self
                .user_credential()
                .map(|own| message::Credential::new(own.to_pem().as_bytes())),
            own_authorities: self.given.is_some(),
        }
    }

    /// The credential of data connections; that of the host only for a client that has proved its
    /// identity.
    fn credential(&self) -> Option<&Credential> {
        self.user_credential().or(self.host.as_ref())
    }

    /// The credential that the client delegated on the control channel.
    pub(crate) fn delegated(&self) -> Option<&Credential> {
        self.delegated.as_ref()
    }

    /// The credential that the client gave for data connections, by delegation or `DCSC`.
    pub(crate) fn user_credential(&self) -> Option<&Credential> {
        self.given.as_ref().or(self.delegated.as_ref())
    }

    /// The layer of data connections with this protection.
    ///
    /// # Errors
    /// The credential does not fit TLS.
    pub(crate) fn layer(&self, protection: &DataProtection) -> xio::Result<Option<Gsi>> {
        if protection.authentication == Dcau::None {
            return Ok(None);
        }
        let own = self.credential().ok_or_else(no_credential)?;
        // The other end would refuse it, with less to say. Running transfers are not touched.
        if own.not_after() < UnixTime::now() {
            tracing::info!(identity = %own.identity(), "the credential of a session has expired");
            return Err(unusable(
                "the credential for data connections has expired: log in again with a new proxy, \
                 or send DCSC P",
            ));
        }
        Gsi::agreed(own, self.judge(own)?, protection)
    }

    /// The judge of the peers of data connections: a credential of `DCSC` brings its own
    /// authorities.
    fn judge(&self, own: &Credential) -> xio::Result<Judge> {
        let trust = self.grid.as_ref().map(|grid| &grid.trust);
        if self.given.is_none()
            && let Some(trust) = trust
        {
            return Ok(Judge::from(Arc::clone(trust)));
        }
        let judge = match trust {
            Some(trust) => Judge::with_chain(trust, own.chain()),
            None => Arc::new(TrustStore::new(TrustOptions::default()))
                .with_chain(own.chain())
                .map(|trust| Judge::new(Arc::new(trust))),
        };
        judge.map_err(|error| unusable(&error.to_string()))
    }
}

fn no_credential() -> xio::Error {
    unusable("there is no credential for data connections: send DCSC P, or DCAU N")
}

fn unusable(fact: &str) -> xio::Error {
    let (kind, op) = (xio::ErrorKind::Security, xio::Operation::Plan);
    xio::Error::new(kind, "gsi", op, fact.to_owned())
}

#[cfg(test)]
mod tests {
    use ftp_proto::security::Level;
    use xio_testkit::{Grid as Lab, Validity};

    use super::*;

    #[test]
    fn a_key_needs_its_certificate() {
        let options = Options {
            host_key: Some("/etc/grid-security/hostkey.pem".into()),
            ..Options::default()
        };
        let said = Grid::load(&options, &Environment::of_process()).unwrap_err();
        assert_eq!(said.to_string(), "host-key needs host-cert");
    }

    #[test]
    fn the_directory_of_hosts_is_that_of_the_option_or_of_globus() {
        let mut options = Options::default();
        let environment = Environment::new(0);
        assert_eq!(host_directory(&options, &environment), None);
        let environment = environment.variable("X509_VHOST_CRED_DIR", "/vhosts");
        let directory = host_directory(&options, &environment);
        assert_eq!(directory, Some("/vhosts".into()));
        options.host_certs = Some("/hosts".into());
        let directory = host_directory(&options, &environment);
        assert_eq!(directory, Some("/hosts".into()));
    }

    /// Row 51 of the hostile input: a proxy that ends in mid-session protects no further data.
    #[test]
    fn an_expired_credential_is_told_before_a_transfer() {
        let lab = Lab::new();
        let layer = |credential: &Credential| {
            let mut session = GridSession::new(None);
            let pem = Base64::encode_string(credential.to_pem().as_bytes());
            session.take_credential(Some(&pem)).unwrap();
            session.layer(&DataProtection::new(Dcau::Own, Level::Private))
        };
        assert!(layer(&lab.user("Alice Lab")).unwrap().is_some());
        let expired = lab.issue("Alice Lab", &[], Validity::Expired);
        let told = layer(&expired).unwrap_err().to_string();
        assert!(told.contains("has expired: log in again"), "{told}");
    }
}
