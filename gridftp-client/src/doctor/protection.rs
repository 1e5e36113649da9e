//! Protection: one's own credential, the server's certificate and its authority, both channels.

use gsi::certificate::{Certificate, Kind};
use gsi::finding::{Finding, RENEWAL};
use gsi::trust::TrustOptions;
use gsi::verify::Verifier as _;
use xio::gsi::{CredentialFiles, Environment, GsiInfo, Purpose, TrustDirectory, authority, find};
use xio::tls::TlsInfo;

use super::Visit;
use crate::client::Client;
use crate::guard::has_password;
use crate::options::{Delegation, Level, Security};
use crate::url::Scheme;

const TOPIC: &str = "protection";
const OWN: &str = "credential";

impl Visit<'_> {
    /// Examines one's own credential for Grid security.
    pub(super) fn credential(&mut self) -> Option<()> {
        let environment = Environment::of_process();
        let choices = &self.options.grid;
        let found = match &choices.credential {
            Some(path) => {
                let files = CredentialFiles::one(path);
                let read = files.read_of_any_age(environment.uid());
                read.map(|credential| (credential, files))
            }
            None => find(&environment, Purpose::Client, self.now)
                .map(|found| (found.credential, found.files)),
        };
        let (credential, files) = match found {
            Ok(found) => found,
            Err(error) => {
                let remedy = "name another by --cred";
                self.tell(Finding::error(OWN, &error.to_string(), remedy));
                return None;
            }
        };
        let name = files.certificate.display().to_string();
        self.tell(Finding::credential(OWN, &name, &credential, self.now));
        match TrustDirectory::open(environment.trust_directory(), TrustOptions::default()) {
            Ok(trust) => {
                if let Err(refusal) = trust.verify(credential.chain(), self.now) {
                    let directory = trust.path().display();
                    let fact = format!("{name}: by {directory} here it is refused: {refusal}");
                    let remedy = "servers with the same authorities refuse it, too";
                    self.tell(Finding::warn(OWN, fact, remedy));
                }
                Some(())
            }
            Err(error) => {
                self.tell(Finding::error(OWN, &error.to_string(), ""));
                None
            }
        }
    }

    /// Tells the protection of both channels.
    pub(super) fn protection(&mut self, client: &Client) {
        let info = &client.link;
        let is_open = has_password(self.site) && !client.control.peer().is_loopback();
        self.tell(match info.security.as_deref() {
            Some(security) => Finding::ok(TOPIC, format!("control connection: {security}")),
            None if is_open => Finding::warn(
                TOPIC,
                "control connection: clear text, and the password crossed a network in it",
                "leave out --security none",
            ),
            None => Finding::ok(
                TOPIC,
                "control connection: clear text, with nothing secret in it",
            ),
        });
        if let Some(gsi) = info.get::<GsiInfo>() {
            self.grid_server(gsi);
        } else if let Some(tls) = info.get::<TlsInfo>() {
            self.tls_server(tls);
        }
        let level = in_words(client.data_protection());
        let proof = client
            .data_peer()
            .map(|peer| format!(", both ends prove: {peer}"));
        let fact = format!("data connections: {level}{}", proof.unwrap_or_default());
        self.tell(Finding::ok(TOPIC, fact));
    }

    /// Tells the protection that the ends had agreed on before a login failed.
    pub(super) fn protection_agreed(&mut self) {
        let is_tls = self.site.scheme == Scheme::Ftps
            || self.options.security == Security::Implicit
            || self.recorder.received("234").is_some();
        let control = match self.site.scheme {
            Scheme::Grid => "Grid security",
            Scheme::Ssh => "ssh",
            _ if is_tls => "TLS",
            _ => {
                let fact = "the login went over the control connection in clear text";
                return self.tell(Finding::ok(TOPIC, fact));
            }
        };
        let data = in_words(self.options.protect.unwrap_or(Level::Private));
        let fact = format!(
            "the login went over the control connection under {control}; data connections would \
             be {data}"
        );
        self.tell(Finding::ok(TOPIC, fact));
    }

    fn tls_server(&mut self, tls: &TlsInfo) {
        let chain = tls
            .peer_certificates
            .iter()
            .map(|der| Certificate::parse(der.as_slice().into()));
        let chain: Vec<_> = chain.filter_map(Result::ok).collect();
        let (Some(own), Some(last)) = (chain.first(), chain.last()) else {
            return;
        };
        self.tell(Finding::certificate(
            TOPIC,
            "certificate of the server",
            own,
            self.now,
            RENEWAL,
        ));
        let names = match own.dns_names() {
            [] => own.subject().to_string(),
            names => names.join(", "),
        };
        let fact = format!(
            "certificate of the server: it is for {names}, by the trusted authority {}",
            last.issuer()
        );
        self.tell(Finding::ok(TOPIC, fact));
    }

    fn grid_server(&mut self, gsi: &GsiInfo) {
        let path = gsi
            .path
            .iter()
            .map(|der| Certificate::parse(der.as_slice().into()));
        let path: Vec<_> = path.filter_map(Result::ok).collect();
        let Some((own, above)) = path.split_first() else {
            return;
        };
        self.tell(Finding::certificate(
            TOPIC,
            "certificate of the server",
            own,
            self.now,
            RENEWAL,
        ));
        let directory = Environment::of_process().trust_directory();
        if let Ok(trust) = TrustDirectory::open(directory, TrustOptions::default()) {
            let is_authority = |link: &&Certificate| matches!(link.kind(), Kind::Authority { .. });
            for link in above.iter().filter(is_authority) {
                for finding in authority(&trust.store(), link, self.now) {
                    self.tell(finding);
                }
            }
        }
        let rights = match self.options.grid.delegation {
            Delegation::None => "nothing",
            Delegation::Limited => "a limited proxy",
            _ => "a proxy with all rights",
        };
        self.tell(Finding::ok(
            TOPIC,
            format!("delegation: the server got {rights}"),
        ));
    }
}

fn in_words(level: Level) -> &'static str {
    match level {
        Level::Clear => "clear text",
        Level::Integrity => "safe from changes",
        Level::Private => "private",
    }
}
