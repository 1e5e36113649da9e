//! `check`: examines the set-up that a configuration describes, and changes nothing.

mod accounts;
mod grid;
mod names;
mod policy;
mod ports;
mod storage;
mod tls;

use std::path::Path;

use gsi::finding::{Finding, Verdict};
use rustls_pki_types::UnixTime;
use xio_gsi::Environment;

use crate::config::{Config, Options};
use crate::error::chain;

/// The questions of an administrator beside those of the configuration.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Questions {
    /// The name by which clients reach this host; `None` for its own.
    pub host: Option<String>,
    /// The identity of a Grid user, to look up its account.
    pub subject: Option<String>,
}

/// Examines everything that the server would use: files, accounts, certificates, names, ports.
///
/// Ports are bound for an instant and set free; nothing else is touched.
#[must_use]
pub fn check(options: &Options, questions: &Questions) -> Vec<Finding> {
    let own = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let mut site = Site {
        options,
        host: questions.host.clone().unwrap_or(own),
        is_host_given: questions.host.is_some(),
        environment: Environment::of_process(),
        now: UnixTime::now(),
        starts: Vec::new(),
        findings: Vec::new(),
    };
    let config = Config::check(options);
    site.add(match &config {
        Ok(_) => Finding::ok("configuration", format!("it is whole, for {}", person())),
        Err(error) => {
            let why = chain(error);
            let why = why.strip_prefix("config: ").unwrap_or(&why);
            let fact = format!("the server does not start: {why}");
            Finding::error(
                "configuration",
                &fact,
                "correct the option, or the file that it names",
            )
        }
    });
    let users = site.users();
    site.storage(site.has_writers(&users));
    site.accounts(&users);
    site.tls(&users);
    site.grid(&users, questions.subject.as_deref());
    site.host_name();
    site.clock();
    match &config {
        Ok(config) => {
            site.ports(config);
            site.policy(config);
        }
        Err(_) => {
            let fact = "not examined until the configuration is whole";
            site.add(Finding::skip("ports", fact));
            site.add(Finding::skip("policy", fact));
        }
    }
    site.findings
}

/// The host, the options and the findings so far.
struct Site<'a> {
    options: &'a Options,
    /// The name by which clients reach this host.
    host: String,
    is_host_given: bool,
    environment: Environment,
    now: UnixTime,
    /// The first seconds of validity of the certificates so far.
    starts: Vec<UnixTime>,
    findings: Vec<Finding>,
}

impl Site<'_> {
    fn add(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Compares the clock with the beginnings of certificates, which lie in the past.
    fn clock(&mut self) {
        let latest = self.starts.iter().max_by_key(|start| start.as_secs());
        let finding = match latest {
            Some(start) if *start > self.now => Finding::warn(
                "clock",
                "it stands before the beginning of a certificate above",
                "set it, and keep it set by NTP",
            ),
            Some(_) => Finding::ok(
                "clock",
                "it stands after the beginning of every certificate",
            ),
            None => Finding::skip("clock", "there is no certificate to compare it with"),
        };
        self.add(finding);
    }
}

/// The user of this process, in words.
fn person() -> String {
    let uid = nix::unistd::geteuid();
    // Directory services may not answer.
    let user = nix::unistd::User::from_uid(uid).ok().flatten();
    user.map_or_else(
        || format!("user {uid}"),
        |user| format!("user {}", user.name),
    )
}

/// The access that others than its owner have to a file, as bits of its mode; `None` for no file.
fn mode(path: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    Some(std::fs::metadata(path).ok()?.mode() & 0o777)
}

/// Says whether every finding is free of faults.
#[must_use]
pub fn is_sound(findings: &[Finding]) -> bool {
    findings
        .iter()
        .all(|finding| finding.verdict != Verdict::Fail)
}
