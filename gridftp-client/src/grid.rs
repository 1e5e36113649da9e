//! `Grid`: the credential, the trust and the handshakes of Grid security for one session.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ftp_proto::client::DataSecurity;
use ftp_proto::security::DataProtection;
use ftp_wire::command::{Dcau, Secret};
use gsi::certificate::KeyAlgorithm;
use gsi::credential::{Credential, CredentialError};
use gsi::exchange::{Delegation, Fault};
use gsi::host::{Expected, Host, Names};
use gsi::key::{KeyPair, KeySize};
use gsi::name::Name;
use gsi::trust::{TrustOptions, TrustStore};
use gsi::verify::{Refusal, Rule};
use rustls_pki_types::UnixTime;
use tokio::sync::OnceCell;
use xio::gsi::{
    AdatError, CredentialFiles, Environment, Gsi, GssapiInitiator, Judge, Purpose, TrustDirectory,
    find,
};
use xio_core::{BoxStream, ErrorKind, Operation};

use crate::error::{Cause, ConnectError};
use crate::options::ConnectOptions;
use crate::url::{Scheme, Site};

/// The account of whoever the server maps the certificate to.
pub(crate) const MAPPED: &str = ":globus-mapping:";
/// The password behind a name under Grid security, which no server looks at.
pub(crate) const NO_PASSWORD: &str = "dummy";
/// Validity of a session's credential, which lives in the memory of the ends only.
const SESSION: Duration = Duration::from_secs(30 * 24 * 3600);

/// The choices of Grid security. Clones share the credentials read and made for them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct GridOptions {
    /// File of the credential; `None` seeks it in the places of the Globus
    /// programs: the files in variables, then the proxy, the user's own, the host's.
    pub credential: Option<PathBuf>,
    /// The rights that servers get.
    pub delegation: Delegation,
    /// The subject of servers; `None` expects a certificate for the host of the URL.
    pub subject: Option<String>,
    /// The rules for host names.
    pub names: Names,
    /// The identity that both ends of a data connection demand of each other, `DCAU`.
    pub authentication: Dcau,
    /// The credential of data connections.
    pub data_credential: DataCredential,
    /// A credential in memory, in place of one in a file.
    given: Option<Box<Credential>>,
    shared: Arc<Shared>,
}

impl Default for GridOptions {
    fn default() -> Self {
        Self {
            credential: None,
            delegation: Delegation::default(),
            subject: None,
            names: Names::default(),
            authentication: Dcau::Own,
            data_credential: DataCredential::default(),
            given: None,
            shared: Arc::default(),
        }
    }
}

impl GridOptions {
    /// Sets [`credential`](field@Self::credential).
    #[must_use]
    pub fn credential(mut self, credential: impl Into<Option<PathBuf>>) -> Self {
        self.credential = credential.into();
        self
    }

    /// Sets [`delegation`](field@Self::delegation).
    #[must_use]
    pub fn delegation(mut self, delegation: Delegation) -> Self {
        self.delegation = delegation;
        self
    }

    /// Sets [`subject`](field@Self::subject).
    #[must_use]
    pub fn subject(mut self, subject: impl Into<Option<String>>) -> Self {
        self.subject = subject.into();
        self
    }

    /// Sets [`names`](field@Self::names).
    #[must_use]
    pub fn names(mut self, names: Names) -> Self {
        self.names = names;
        self
    }

    /// Sets [`authentication`](field@Self::authentication).
    #[must_use]
    pub fn authentication(mut self, authentication: Dcau) -> Self {
        self.authentication = authentication;
        self
    }

    /// Sets [`data_credential`](field@Self::data_credential).
    #[must_use]
    pub fn data_credential(mut self, data_credential: DataCredential) -> Self {
        self.data_credential = data_credential;
        self
    }
}

/// The credential of data connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum DataCredential {
    /// That of the control connection; one of the session behind ssh, and between two servers that
    /// know different identities and take one.
    #[default]
    Auto,
    /// That of the control connection.
    Own,
    /// A credential that is made for the session, by `DCSC`: both ends trust it and nothing else.
    Session,
}

/// State shared by the sessions of a copy.
#[derive(Debug, Default)]
struct Shared {
    trust: OnceCell<Arc<TrustDirectory>>,
    session: OnceCell<Credential>,
}

/// Grid security of one session: of both channels, or behind ssh of data alone.
#[derive(Debug, Clone)]
pub(crate) struct Grid {
    control: Option<Control>,
    protection: DataProtection,
    /// The credential of data connections, where that is one of the session.
    session: Option<Credential>,
    /// The layer of data connections, unless they are in clear.
    layer: Option<Gsi>,
}

/// The handshake of the control connection.
#[derive(Debug, Clone)]
struct Control {
    initiator: GssapiInitiator,
    host: String,
    expected: Expected,
    within: Duration,
    identity: Name,
    /// Whether the server gets a proxy, below a key on a curve.
    delegates_curve: bool,
}

impl Grid {
    /// Reads or makes the credentials of a session with `site`.
    ///
    /// # Errors
    /// [`ConnectError::Grid`]: there is no good credential, or no directory of authorities.
    ///
    /// # Cancel safety
    /// Files are read to their end when the future is dropped.
    pub(crate) async fn of(
        site: &Site,
        options: &ConnectOptions,
        protection: DataProtection,
    ) -> Result<Self, ConnectError> {
        let choices = &options.grid;
        let failed = |cause: Cause| refused(site, cause, "");
        let mut grid = Self {
            control: None,
            protection,
            session: None,
            layer: None,
        };
        if site.scheme == Scheme::Grid {
            let path = choices.credential.clone();
            let credential = match &choices.given {
                Some(given) => given.as_ref().clone(),
                None => blocking(move || read(path))
                    .await
                    .map_err(|error| failed(error.into()))?,
            };
            let judge = Judge::from(choices.trust().await.map_err(failed)?);
            let initiator = GssapiInitiator::new(credential.clone(), judge.clone());
            grid.control = Some(Control {
                initiator: initiator
                    .map_err(|error| failed(error.into()))?
                    .delegation(choices.delegation)
                    .names(choices.names),
                host: site.host.clone(),
                expected: match &choices.subject {
                    Some(subject) => Expected::subject(subject),
                    None => Expected::Host(Host::new(&site.host)),
                },
                within: options.connect_within,
                identity: credential.identity(),
                delegates_curve: choices.delegation != Delegation::None
                    && credential.certificate().key_algorithm() != KeyAlgorithm::Rsa,
            });
            grid.set_layer(&credential, judge)
                .map_err(|error| failed(error.into()))?;
        }
        let is_session =
            site.scheme == Scheme::Ssh || choices.data_credential == DataCredential::Session;
        if is_session && grid.authenticates() {
            let session = choices.session().await.map_err(failed)?;
            grid.use_session(session).map_err(failed)?;
        }
        Ok(grid)
    }

    /// Runs the exchange of `GSSAPI` on a control connection.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub(crate) async fn initiate(&self, stream: BoxStream) -> xio_core::Result<BoxStream> {
        let Some(control) = &self.control else {
            return Ok(stream);
        };
        let deadline = tokio::time::Instant::now() + control.within;
        let (host, expected) = (&control.host, control.expected.clone());
        let made = control.initiator.initiate(stream, host, expected, deadline);
        match made.await {
            Ok(established) => Ok(Box::new(established.stream)),
            Err(refused) => {
                let kind = match &refused.error {
                    AdatError::Io(_) | AdatError::Ended => ErrorKind::Reset,
                    AdatError::TimedOut => ErrorKind::TimedOut,
                    _ => ErrorKind::Security,
                };
                let told = refused.error.to_string();
                let told = told.strip_prefix("gsi: ").unwrap_or(&told).to_owned();
                let error = xio_core::Error::new(kind, "gssapi", Operation::Connect, told);
                Err(error.with_source(refused.error))
            }
        }
    }

    /// The failure of the handshake with `site`.
    pub(crate) fn failed(&self, site: &Site, cause: xio_core::Error) -> ConnectError {
        let source = std::error::Error::source(&cause);
        let curve = self.control.as_ref().is_some_and(|end| end.delegates_curve);
        let remedy = match source.and_then(|source| source.downcast_ref::<AdatError>()) {
            Some(AdatError::Exchange(error)) => match error.fault() {
                Fault::Refused(refusal) if is_unknown(refusal) => {
                    "X509_CERT_DIR names the CA directory"
                }
                Fault::Unexpected(_) => "--subject DN expects that certificate",
                _ => "",
            },
            Some(AdatError::Reply(_)) if curve => {
                "the key of this credential is not RSA, which Globus servers demand of delegation: \
                 --delegation none --data-cred auto does without"
            }
            Some(AdatError::Reply(_)) => {
                "the server does not take this credential: see `gridftp-cp proxy info`"
            }
            _ => "",
        };
        refused(site, cause.into(), remedy)
    }

    /// The protection of data connections.
    pub(crate) fn protection(&self) -> &DataProtection {
        &self.protection
    }

    /// The credential of data connections, for a person: `DCAU` by another name where it is one of
    /// the session.
    pub(crate) fn peer(&self) -> &str {
        match &self.protection.authentication {
            Dcau::None => "none",
            Dcau::Own if self.session.is_some() => "session",
            Dcau::Own => "self",
            Dcau::Subject(subject) => subject,
        }
    }

    /// Whether both ends of a data connection prove their identity.
    pub(crate) fn authenticates(&self) -> bool {
        self.protection.authentication != Dcau::None
    }

    /// Whether data connections have a credential of the session.
    pub(crate) fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// The identity that the server knows, and has for its end of data connections.
    pub(crate) fn identity(&self) -> Option<&Name> {
        self.control.as_ref().map(|control| &control.identity)
    }

    /// The settings of the login.
    pub(crate) fn settings(&self) -> DataSecurity {
        DataSecurity::new(self.protection.clone(), self.session.as_ref().map(dcsc))
    }

    /// The layer of data connections, unless they are in clear.
    pub(crate) fn layer(&self) -> Option<&Gsi> {
        self.layer.as_ref()
    }

    /// Uses a credential of the session for data connections, which are of this identity then.
    pub(crate) fn use_session(&mut self, session: Credential) -> Result<(), Cause> {
        let store = Arc::new(TrustStore::new(TrustOptions::default()));
        let trust = store.with_chain(session.chain())?;
        self.protection.authentication = Dcau::Own;
        self.set_layer(&session, Judge::new(Arc::new(trust)))?;
        self.session = Some(session);
        Ok(())
    }

    fn set_layer(&mut self, credential: &Credential, judge: Judge) -> xio_core::Result<()> {
        self.layer = Gsi::agreed(credential, judge, &self.protection)?;
        Ok(())
    }
}

impl GridOptions {
    /// Uses a credential in memory, PEM with its key, in place of one in a file.
    ///
    /// # Errors
    /// It cannot be read; the previous choice stays.
    pub fn use_pem(&mut self, pem: &[u8]) -> Result<(), CredentialError> {
        self.given = Some(Box::new(Credential::from_pem(pem)?));
        Ok(())
    }

    /// Uses the credential in a file, in place of one in memory.
    pub(crate) fn use_file(&mut self, path: PathBuf) {
        (self.credential, self.given) = (Some(path), None);
    }

    /// The authorities, read once for all sessions.
    async fn trust(&self) -> Result<Arc<TrustDirectory>, Cause> {
        let open = async {
            let opened = blocking(|| {
                let path = Environment::of_process().trust_directory();
                TrustDirectory::open(path, TrustOptions::default())
            });
            opened.await.map(Arc::new).map_err(Cause::from)
        };
        self.shared.trust.get_or_try_init(|| open).await.cloned()
    }

    /// The credential of the data connections of all sessions, made when it is needed.
    pub(crate) async fn session(&self) -> Result<Credential, Cause> {
        let make = async {
            let made = blocking(|| {
                let key = KeyPair::generate(KeySize::default())?;
                Credential::for_session(key, SESSION, UnixTime::now())
            });
            made.await.map_err(Cause::from)
        };
        self.shared.session.get_or_try_init(|| make).await.cloned()
    }
}

/// The argument of `DCSC P`.
pub(crate) fn dcsc(credential: &Credential) -> Secret {
    Secret::new(credential.to_dcsc().as_str())
}

/// Whether another directory of authorities may accept the certificate.
fn is_unknown(refusal: &Refusal) -> bool {
    let unknown = matches!(
        refusal.rule,
        Rule::UnknownIssuer { .. } | Rule::Untrusted { .. }
    );
    unknown || refusal.is_local()
}

fn refused(site: &Site, cause: Cause, remedy: &'static str) -> ConnectError {
    ConnectError::Grid {
        site: site.to_string(),
        cause,
        remedy,
    }
}

/// Reads the credential of a file, or the one of this user.
pub(crate) fn read(path: Option<PathBuf>) -> Result<Credential, xio::gsi::NoCredential> {
    let environment = Environment::of_process();
    let now = UnixTime::now();
    match path {
        Some(path) => CredentialFiles::one(path).read(environment.uid(), now),
        None => find(&environment, Purpose::Client, now).map(|found| found.credential),
    }
}

/// Runs work that takes its time on a thread of its own.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|failed| std::panic::resume_unwind(failed.into_panic()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Access;

    #[test]
    fn the_file_of_one_server_replaces_a_credential_in_memory() {
        let own = xio_testkit::Authority::new("test authority").issue("ann", &[]);
        let mut options = ConnectOptions::default();
        let pem = format!("{}{}", own.certificate, own.key);
        options.grid.use_pem(pem.as_bytes()).unwrap();
        let mut access = Access::default();
        assert!(access.over(&options).grid.given.is_some());
        access.credential = Some("proxy".into());
        let at_server = access.over(&options).grid;
        assert!(at_server.given.is_none());
        assert_eq!(at_server.credential, Some("proxy".into()));
    }
}
