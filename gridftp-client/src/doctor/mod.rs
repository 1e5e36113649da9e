//! `doctor`: connects to a server step by step, and prints a finding for each step.

mod active;
mod buffers;
mod data;
mod disk;
mod interface;
mod network;
mod packets;
mod part;
mod protection;
mod recorder;

use std::sync::Arc;
use std::time::Duration;

use gsi::finding::Finding;
use rustls_pki_types::UnixTime;

pub use self::disk::examine_disk;
use self::recorder::Recorder;
use crate::client::Client;
use crate::error::ConnectError;
use crate::options::ConnectOptions;
use crate::progress::Observer;
use crate::transfer::ACCOUNT;
use crate::url::{Remote, Scheme, Site, show_text};

/// The remedy where ssh starts no server.
const SSH: &str = "`ssh HOST gridftp-server --version` must work, or --remote-program PATH";

/// Connects to the server of a URL, logs in, and lists the directory of the URL by data connections
/// in both directions; of a file, it reads the last MiB. `tell` gets a finding for each fact as soon
/// as it is known. Nothing is written there.
///
/// A step that fails has its remedy, and the steps behind it are skipped. Each takes at most a few
/// times [`ConnectOptions::connect_within`].
///
/// # Cancel safety
/// Dropping the future closes the connections.
pub async fn examine(
    remote: &Remote,
    options: ConnectOptions,
    observer: Arc<dyn Observer>,
    tell: &mut (dyn FnMut(Finding) + Send),
) {
    let mut visit = Visit {
        site: &remote.site,
        limit: options.connect_within,
        options: remote.site.options(Arc::new(options)),
        recorder: Arc::new(Recorder::new(observer)),
        now: UnixTime::now(),
        tell,
    };
    if visit.run(remote).await.is_none() {
        visit.tell(Finding::skip(
            "doctor",
            "the steps behind the failed one were not tried",
        ));
    }
}

/// The steps to one server.
struct Visit<'a> {
    site: &'a Site,
    options: Arc<ConnectOptions>,
    /// Longest wait of a step.
    limit: Duration,
    recorder: Arc<Recorder>,
    now: UnixTime,
    tell: &'a mut (dyn FnMut(Finding) + Send),
}

impl Visit<'_> {
    fn tell(&mut self, finding: Finding) {
        (self.tell)(finding);
    }

    /// Longest wait of a transfer, which fails by itself before that if nothing moves.
    fn transfer_limit(&self) -> Duration {
        self.limit.saturating_mul(2).saturating_add(ACCOUNT)
    }

    /// Takes the steps in their order; `None` after one without which the next cannot be.
    async fn run(&mut self, remote: &Remote) -> Option<()> {
        if self.site.scheme != Scheme::Ssh {
            let found = self.resolve().await?;
            self.reach(found).await?;
        }
        if self.site.scheme == Scheme::Grid {
            self.credential()?;
        }
        let observer = Arc::clone(&self.recorder) as Arc<_>;
        let connected = Client::connect_with(self.site, Arc::clone(&self.options), observer);
        let mut client = match Box::pin(connected).await {
            Ok(client) => client,
            Err(error) => {
                self.refused(&error);
                return None;
            }
        };
        self.greeted(Some(client.round_trip()));
        self.protection(&client);
        self.logged_in();
        self.features(&client);
        self.packets(&client);
        self.buffers(&client).await;
        let place = self.data(&mut client, remote).await?;
        self.extended_passive(&client).await;
        let mut client = Box::pin(self.part(client, place.file)).await?;
        self.active(&mut client, &place.directory).await;
        client.close().await;
        Some(())
    }

    /// Tells the greeting, if one came.
    fn greeted(&mut self, round_trip: Option<Duration>) {
        let Some(line) = self.recorder.received("220") else {
            return;
        };
        let after = round_trip.map(|time| format!(", reached in {time:.1?}"));
        let fact = format!("the server says `{line}`{}", after.unwrap_or_default());
        self.tell(Finding::ok("greeting", fact));
    }

    /// Tells the step at which the session ended, and those before it.
    fn refused(&mut self, error: &ConnectError) {
        let is_greeted = self.recorder.received("220").is_some();
        let (topic, otherwise) = match error {
            ConnectError::Stack { .. } | ConnectError::Choice { .. } => ("options", ""),
            _ if self.site.scheme == Scheme::Ssh && !is_greeted => ("ssh", ""),
            ConnectError::Unreachable { .. } => ("port", ""),
            ConnectError::Busy { .. } => ("greeting", "try again later, or ask its administrator"),
            ConnectError::Tls { .. }
            | ConnectError::Implicit { .. }
            | ConnectError::NoTls { .. }
            | ConnectError::Grid { .. }
            | ConnectError::NoGrid { .. }
            | ConnectError::NoProtection { .. } => (
                "protection",
                "its administrator finds out by `gridftp-server check`",
            ),
            ConnectError::Late { .. } | ConnectError::Control(_) if !is_greeted => (
                "greeting",
                "see that a server of FTP or GridFTP listens at this port",
            ),
            _ => ("login", "the log of the server tells more"),
        };
        if topic != "greeting" {
            self.greeted(None);
        }
        if matches!(error, ConnectError::Login { .. }) {
            self.protection_agreed();
        }
        let remedy = error.fields().remedy.unwrap_or_default();
        let told = error.to_string();
        let fact = bare(&told, remedy);
        let remedy = match remedy {
            _ if topic == "ssh" => SSH,
            "" => otherwise,
            known => known,
        };
        self.tell(Finding::fail(topic, fact, remedy));
    }

    /// Tells the account.
    fn logged_in(&mut self) {
        let user = match (&self.site.user, self.site.scheme) {
            (Some(user), _) => show_text(user.as_bytes()),
            (None, Scheme::Grid) => "the account of the certificate".to_owned(),
            (None, Scheme::Ssh) => "the person of ssh".to_owned(),
            (None, _) => "anonymous".to_owned(),
        };
        let said = ["230", "232"]
            .iter()
            .find_map(|code| self.recorder.received(code));
        let said = said.map(|line| format!(": `{line}`")).unwrap_or_default();
        self.tell(Finding::ok("login", format!("logged in as {user}{said}")));
    }

    /// Tells the features that matter for speed and safety.
    fn features(&mut self, client: &Client) {
        let known = client.abilities();
        let listed = |label: &str| self.recorder.lists(label);
        let all = [
            ("MODE E", known.extended),
            ("MLSD", known.mlst),
            ("REST STREAM", listed("REST STREAM")),
            ("UTF8", listed("UTF8")),
            ("ERET", known.eret),
            ("DCSC", known.dcsc),
            ("tagged transfers", known.tags),
            ("uploads kept for a restart", known.held),
        ];
        let names = |has: bool| {
            let all = all
                .iter()
                .filter(|(_, own)| *own == has)
                .map(|(name, _)| *name);
            all.collect::<Vec<_>>().join(", ")
        };
        let (has, lacks) = (names(true), names(false));
        let lacks = match lacks.is_empty() {
            true => String::new(),
            false => format!("; not {lacks}"),
        };
        let sums: Vec<_> = known
            .checksums
            .iter()
            .map(|(algorithm, _)| algorithm.to_string())
            .collect();
        let sums = match sums.is_empty() {
            true => "no checksums listed".to_owned(),
            false => format!("checksums {}", sums.join(", ")),
        };
        self.tell(Finding::ok("features", format!("{has}{lacks}; {sums}")));
    }
}

/// The text of an error without the remedy at its end.
fn bare<'a>(told: &'a str, remedy: &str) -> &'a str {
    match told.strip_suffix(remedy) {
        Some(fact) if !remedy.is_empty() => fact.trim_end_matches("; "),
        _ => told,
    }
}
