//! `doctor`: examines the way to a server, a line for each fact.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::Location;
use crate::doctor::{examine, examine_disk};
use clap::ValueHint;
use gsi::finding::{Finding, Verdict};

use crate::program::accounts::Accounts;
use crate::program::connection::ConnectionFlags;
use crate::program::exit::Status;
use crate::program::grid::without_ends;
use crate::program::report::Report;
use crate::program::run::{locate, stopped_by_signal, wait_for};

/// Longest wait of a step unless `--timeout` says otherwise.
const PATIENCE: Duration = Duration::from_secs(15);

/// The text of `doctor --help` before the flags.
pub const ABOUT: &str = "\
Examines the way to a server step by step, and writes a line for each fact: the name, the port, the \
greeting, certificates and protection, the login, the features, the size of packets, the rate that the \
TCP buffers here allow one connection at the round trip of the server, and a listing of the directory of \
the URL through a data connection to the server; of a file, its last MiB is read. The server then sends a \
listing through a connection to this host, at a port of --data-ports, as downloads in MODE E need it. At \
last a file of 64 MiB is written here, synced and read back; it has no name, and is gone afterwards. \
Behind a FAIL that is left out unless --disk is given.

A line begins with ok, skip, warn or FAIL, and ends with the remedy where one is needed. Nothing is \
written on the server.";

/// The options of `doctor`.
#[derive(Debug, clap::Args)]
#[command(mut_args = without_ends, after_help = "\
Exit status: 0 without FAIL, 1 with one, 2 for a wrong command line.")]
pub struct Args {
    /// The server and a directory or file there: an ftp://, ftps://, gsiftp:// or sshftp:// URL
    #[arg(value_name = "URL", value_hint = ValueHint::Url)]
    url: String,

    #[command(flatten)]
    connection: ConnectionFlags,

    /// Measure the disk of this directory [default: the current one]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    disk: Option<PathBuf>,

    /// Write one JSON object a line, with the fields verdict, topic, fact and remedy
    #[arg(long)]
    json: bool,

    /// Write the control conversation to standard error, passwords masked
    #[arg(long)]
    debug: bool,
}

impl Args {
    /// The form of the output.
    pub fn report(&self, program: &'static str) -> Arc<Report> {
        Arc::new(Report::of_lines(program, self.json, false).with_debug(self.debug))
    }

    /// Takes the steps, and returns the exit status.
    pub fn run(&self, report: &Arc<Report>) -> Status {
        wait_for(self.examine(report), report)
    }

    async fn examine(&self, report: &Arc<Report>) -> anyhow::Result<Status> {
        let mut accounts = Accounts::new(&self.connection);
        let location = locate(self.url.as_ref(), &mut accounts, report)?;
        let remote = match location {
            Location::Remote(remote) if !remote.site.scheme.is_web() => remote,
            _ => {
                anyhow::bail!("usage: doctor needs an ftp://, ftps://, gsiftp:// or sshftp:// URL")
            }
        };
        let mut options = self.connection.options()?;
        if self.connection.timeout.is_none() {
            options.connect_within = PATIENCE;
            options.reply_within = PATIENCE;
            options.stall = PATIENCE;
        }
        let has_failed = AtomicBool::new(false);
        let mut tell = |finding: Finding| {
            if finding.verdict == Verdict::Fail {
                has_failed.store(true, Ordering::Relaxed);
            }
            // As an object it has its fields in this order.
            let object = self.json.then(|| serde_json::to_string(&finding).ok());
            report.out(&object.flatten().unwrap_or_else(|| finding.to_string()));
        };
        let observer = Arc::clone(report) as Arc<_>;
        let steps = Box::pin(async {
            Box::pin(examine(&remote, options, observer, &mut tell)).await;
            // The first fault is to be mended first, without a wait for the disk.
            if self.disk.is_some() || !has_failed.load(Ordering::Relaxed) {
                tell(examine_disk(self.disk.as_deref()).await);
            }
        });
        let done = stopped_by_signal(steps).await;
        let status = match has_failed.load(Ordering::Relaxed) {
            true => Status::Failed,
            false => Status::Done,
        };
        Ok(done.map_or(Status::Interrupted, |()| status))
    }
}
