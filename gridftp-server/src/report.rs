//! `gridftp-server check`: prints the findings about the set-up.

use std::io::Write as _;
use std::path::PathBuf;

use gridftp_server::check::{Questions, check, is_sound};
use gridftp_server::config::Options;
use gsi::finding::Finding;

use crate::daemon;

/// The options of `gridftp-server check`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// TOML file with the same options as keys; a flag wins over it.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Name by which clients reach this host, for certificates and the resolver [default: its own].
    #[arg(long, value_name = "NAME")]
    host: Option<String>,

    /// Identity of a Grid user, as /O=Grid/CN=Ann: also prints the account that it logs in to.
    #[arg(long, value_name = "DN")]
    subject: Option<String>,

    /// Prints one JSON object a line, with the fields verdict, topic, fact and remedy.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    options: Options,
}

/// Prints a line for each fact, and says whether there is no fault.
pub(crate) fn run(args: &Args) -> anyhow::Result<bool> {
    let mut questions = Questions::default();
    questions.host.clone_from(&args.host);
    questions.subject.clone_from(&args.subject);
    let findings = match daemon::merge(args.config.as_deref(), &args.options) {
        Ok(options) => check(&options, &questions),
        Err(error) => {
            let fact = format!("{error:#}");
            let remedy = "correct the file; every key is an option of `gridftp-server --help`";
            vec![Finding::fail("configuration", fact, remedy)]
        }
    };
    let mut out = std::io::stdout().lock();
    for finding in &findings {
        match args.json {
            true => writeln!(out, "{}", serde_json::to_string(finding)?)?,
            false => writeln!(out, "{finding}")?,
        }
    }
    out.flush()?;
    Ok(is_sound(&findings))
}
