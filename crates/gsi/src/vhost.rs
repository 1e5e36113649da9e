//! `Hosts`: the credentials of a server for several host names, chosen by the name a client asks for.

use std::sync::{Arc, OnceLock};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use crate::credential::Credential;
use crate::host::{Host, Names};

/// The credentials of a server: one by default, and those of further host names.
///
/// The name is that of the extension `server_name` (RFC 6066 §3) on the control channel. On data
/// channels Globus programs write the common name of a person there, so that a data channel has the
/// credential of its session, whatever the name.
#[derive(Clone, Debug)]
pub struct Hosts {
    default: Credential,
    further: Arc<[Credential]>,
}

impl Hosts {
    /// Takes the credential for all names.
    pub fn new(default: Credential) -> Self {
        Self {
            default,
            further: Arc::default(),
        }
    }

    /// Takes credentials for the names in their certificates: the first that has a name serves it,
    /// or else the first that fits it, by a wildcard.
    #[must_use]
    pub fn further(mut self, credentials: impl IntoIterator<Item = Credential>) -> Self {
        self.further = credentials.into_iter().collect();
        self
    }

    /// Returns the default credential.
    pub fn default_credential(&self) -> &Credential {
        &self.default
    }

    /// Returns the credential for a host name: the default one where no other is for this name, or
    /// where the client tells none.
    pub fn of(&self, name: Option<&str>) -> &Credential {
        let Some(name) = name else {
            return &self.default;
        };
        let host = Host::new(name);
        let is_named = |credential: &&Credential| {
            let mut names = credential.certificate().dns_names().iter();
            names.any(|held| held.eq_ignore_ascii_case(name))
        };
        let fits = |credential: &&Credential| host.fits(credential.certificate(), Names::Hybrid);
        let mut further = self.further.iter();
        let exact = further.clone().find(is_named);
        exact
            .or_else(|| further.find(fits))
            .unwrap_or(&self.default)
    }

    /// Starts with a connection.
    pub fn choice(&self) -> Arc<Choice> {
        Arc::new(Choice {
            hosts: self.clone(),
            chosen: OnceLock::new(),
        })
    }
}

/// The choice of a credential for one connection, which the handshake makes.
#[derive(Debug)]
pub struct Choice {
    hosts: Hosts,
    chosen: OnceLock<Credential>,
}

impl Choice {
    /// Returns the credential of the handshake; before it, the default one.
    pub fn credential(&self) -> &Credential {
        self.chosen.get().unwrap_or(&self.hosts.default)
    }
}

impl ResolvesServerCert for Choice {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let chosen = || self.hosts.of(hello.server_name()).clone();
        Some(Arc::new(self.chosen.get_or_init(chosen).certified_key()))
    }
}
