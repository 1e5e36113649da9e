//! `GsiOptions`: the settings of a stack string.

use std::sync::Arc;
use std::time::Duration;

use gsi::trust::TrustOptions;
use rustls::pki_types::UnixTime;
use xio_core::{Error, ErrorKind, Operation, Result, Setting};

use crate::credential::{CredentialFiles, Purpose, find};
use crate::data::{DEFAULT_HANDSHAKE_TIMEOUT, Expect, Gsi};
use crate::environment::Environment;
use crate::info::Level;
use crate::trust::{Judge, TrustDirectory};
use crate::{LAYER, NoCredential};

const fn path(example: &'static [&'static str]) -> Setting<Option<String>> {
    Setting::new().takes("a path", example).local()
}

/// The peer that is accepted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Auth {
    /// Anybody with a certificate of a trusted authority.
    None,
    /// The identity of one's own credential.
    #[default]
    Own,
    /// The host that is connected to; of no use to a listener.
    Host,
}

xio_core::words! { Auth: "none, self or host", None = "none", Own = "self", Host = "host" }

xio_core::options! {
    /// The settings of a stack string.
    ///
    /// Programs without stack strings make a layer with [`Gsi::new`].
    pub struct GsiOptions for "gsi" {
        /// The peer that is accepted.
        auth: Auth = Auth::Own, "auth", Setting::new().local();
        /// Directory of the trusted authorities, where it is not that of the environment.
        ca_dir: Option<String> = None, "ca_dir", path(&["/etc/grid-security/certificates"]);
        /// File of the certificate and the chain above it, or of a whole proxy; that of the
        /// environment by default.
        cert: Option<String> = None, "cert", path(&["/etc/grid-security/hostcert.pem"]);
        /// Longest time of the handshake as a whole.
        handshake_timeout: Duration = DEFAULT_HANDSHAKE_TIMEOUT, "handshake_timeout",
            Setting::new().local();
        /// File of the private key, where it is not in the file of the certificate.
        key: Option<String> = None, "key", path(&["/etc/grid-security/hostkey.pem"]);
        /// The protection of the bytes.
        protection: Level = Level::Private, "protection";
        /// Identity of the peer, in place of `auth`.
        subject: Option<String> = None, "subject",
            Setting::new().takes("a name of one line", &["/O=Grid/CN=Alice"]).local();
    }
}

impl GsiOptions {
    /// Makes the layer, and reads the files.
    ///
    /// # Errors
    /// Files that cannot be read, and contradictory options.
    pub fn build(&self) -> Result<Gsi> {
        self.build_in(&Environment::of_process())
    }

    /// As [`build`](Self::build), with the files of an environment.
    pub(crate) fn build_in(&self, environment: &Environment) -> Result<Gsi> {
        let refused = |fact: String| Error::new(ErrorKind::BadOption, LAYER, Operation::Plan, fact);
        let now = UnixTime::now();
        let credential = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => {
                CredentialFiles::pair(cert, key).read(environment.uid(), now)
            }
            (Some(cert), None) => CredentialFiles::one(cert).read(environment.uid(), now),
            (None, Some(_)) => {
                return Err(refused("option key is given without cert".to_owned()));
            }
            (None, None) => find(environment, Purpose::Client, now).map(|found| found.credential),
        };
        let credential = credential.map_err(|error: NoCredential| refused(error.to_string()))?;
        let ca_dir = match &self.ca_dir {
            Some(given) => given.into(),
            None => environment.trust_directory(),
        };
        let directory = TrustDirectory::open(ca_dir, TrustOptions::default());
        let directory = directory.map_err(|error| refused(error.to_string()))?;
        let expect = match (&self.subject, self.auth) {
            (Some(subject), _) => Expect::Subject(subject.clone()),
            (None, Auth::None) => Expect::Any,
            (None, Auth::Own) => Expect::Own,
            (None, Auth::Host) => Expect::Host,
        };
        let gsi = Gsi::new(&credential, Judge::from(Arc::new(directory)))?;
        Ok(gsi
            .expect(expect)
            .level(self.protection)
            .handshake_timeout(self.handshake_timeout))
    }
}
