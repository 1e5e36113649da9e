//! `proxy info`: shows the facts about a proxy, or tells by its status whether it is valid.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueHint;
use rustls_pki_types::UnixTime;
use xio_gsi::{CredentialFiles, Environment};

use super::facts::Facts;
use super::hours_and_minutes;
use crate::program::exit::Status;
use crate::program::report::Report;

/// The options of `proxy info`.
#[derive(Debug, clap::Args)]
#[expect(
    clippy::doc_markdown,
    reason = "the text of --help, which has no markup"
)]
#[command(after_help = "\
Without an option that chooses facts, all are shown. Chosen facts are shown in the order of this \
help, a line each without its name.

Exit status: 0 if there is a proxy, and with --exists if it is valid long enough; else 1.")]
pub(super) struct Args {
    /// File of the proxy [default: $X509_USER_PROXY, or else /tmp/x509up_uUID]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,

    /// Show the name of the proxy
    #[arg(long)]
    subject: bool,

    /// Show the name of the signer
    #[arg(long)]
    issuer: bool,

    /// Show the name that the proxy speaks for
    #[arg(long)]
    identity: bool,

    /// Show the format and the rights
    #[arg(long = "type")]
    kind: bool,

    /// Show the time until the expiry, in seconds
    #[arg(long)]
    timeleft: bool,

    /// Show the size of the key, in bits
    #[arg(long)]
    strength: bool,

    /// Show the path of the file
    #[arg(long)]
    path: bool,

    /// End with status 0 if the proxy is valid and with status 1 if not
    #[arg(short, long)]
    exists: bool,

    /// Demand with --exists that the proxy is valid for this time, in hours and minutes
    #[arg(long, value_name = "H:M", value_parser = hours_and_minutes, requires = "exists")]
    valid: Option<Duration>,

    /// Demand with --exists that the key has this size, in bits
    #[arg(long, value_name = "BITS", requires = "exists")]
    bits: Option<usize>,
}

/// Shows the chosen facts.
pub(super) fn run(args: &Args, report: &Report) -> anyhow::Result<Status> {
    let environment = Environment::of_process();
    let given = args.file.clone();
    let path = &given.unwrap_or_else(|| environment.proxy_file());
    let credential = &CredentialFiles::one(path).read_of_any_age(environment.uid())?;
    let now = UnixTime::now();
    let facts = Facts {
        credential,
        path,
        now,
    };
    let chosen = args.chosen(&facts);
    if report.is_json() {
        report.emit(&facts.json());
    } else if !chosen.is_empty() {
        report.out(&chosen.join("\n"));
    } else if !args.exists {
        report.out(&facts.text());
    }
    let wanted = args.valid.unwrap_or_default().as_secs().max(1);
    let is_good = facts.left() >= wanted && facts.strength() >= args.bits.unwrap_or_default();
    Ok(if args.exists && !is_good {
        Status::Failed
    } else {
        Status::Done
    })
}

impl Args {
    /// The facts that are asked for one by one.
    fn chosen(&self, facts: &Facts<'_>) -> Vec<String> {
        let certificate = facts.credential.certificate();
        let all = [
            (self.subject, certificate.subject().to_string()),
            (self.issuer, certificate.issuer().to_string()),
            (self.identity, facts.credential.identity().to_string()),
            (self.kind, facts.kind()),
            (self.timeleft, facts.left().to_string()),
            (self.strength, facts.strength().to_string()),
            (self.path, facts.path.display().to_string()),
        ];
        let chosen = all.into_iter().filter(|(is_chosen, _)| *is_chosen);
        chosen.map(|(_, fact)| fact).collect()
    }
}
