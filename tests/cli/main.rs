//! `gridftp-cp` and `gridftp` as processes: copies, refusals, output and exit statuses.
#![forbid(unsafe_code)]

mod bwlimit;
mod check;
mod choice;
mod complete;
mod copies;
mod delete;
mod doctor;
mod dos;
mod downloads;
mod events;
mod extended;
mod failing;
mod failures;
mod globus;
mod hidden;
mod hostile;
mod idle;
mod itself;
mod journal;
mod library;
mod links;
mod links_elsewhere;
mod local;
mod memory;
mod messages;
mod names;
mod objects;
mod output;
mod packed;
mod partials;
mod plain;
mod proxy;
mod receipts;
mod relay;
mod rerun;
mod resume;
mod rules;
mod runs;
mod safety;
mod secrets;
mod secured;
mod settings;
mod sibling;
mod small;
mod sparse;
mod speed;
mod stacks;
mod sync;
mod tagged;
mod terminal;
mod third;
mod trailed;
mod uploads;
mod usage;
mod verified;
mod web;
mod widening;
mod xattrs;

use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use workspace_tests::{Finished, Host, Tree, binary, run};

/// Longest time any one run may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Our server over one tree, and a second tree for the local side.
struct Bed {
    here: Tree,
    there: Tree,
    server: Host,
}

impl Bed {
    fn new() -> Result<Self> {
        let (here, there) = (Tree::new()?, Tree::new()?);
        let server = Host::ours(there.root())?;
        Ok(Self {
            here,
            there,
            server,
        })
    }

    /// Runs `gridftp-cp` in the local tree.
    fn cp(&self, args: &[&str]) -> Result<Finished> {
        cp_in(&self.here, args)
    }

    /// The URL of `name` on the server.
    fn url(&self, name: &str) -> String {
        self.server.url(name)
    }

    /// Checks that both files hold the same bytes.
    fn same(&self, here: &str, there: &str) -> Result<()> {
        workspace_tests::same_file(&self.here.path(here), &self.there.path(there))
    }
}

fn command(tree: &Tree, args: &[&str]) -> Result<Command> {
    let mut command = Command::new(binary("gridftp-cp")?);
    // Those of the machine are not before web servers of the tests.
    for proxy in [
        "http_proxy",
        "https_proxy",
        "HTTPS_PROXY",
        "all_proxy",
        "ALL_PROXY",
        "no_proxy",
        "NO_PROXY",
    ] {
        command.env_remove(proxy);
    }
    command
        .current_dir(tree.root())
        .args(args)
        .env_remove("NETRC")
        .env_remove("XDG_CACHE_HOME")
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("XDG_STATE_HOME")
        .env("HOME", tree.root());
    Ok(command)
}

fn cp_in(tree: &Tree, args: &[&str]) -> Result<Finished> {
    run(&mut command(tree, args)?, LIMIT)
}

/// Checks the exit status of a run, and that its standard error contains all of `needles`.
fn fails(finished: &Finished, status: i32, needles: &[&str]) -> Result<()> {
    anyhow::ensure!(
        finished.status.code() == Some(status),
        "not status {status}: {}",
        finished.report()
    );
    for needle in needles {
        anyhow::ensure!(
            finished.stderr.contains(needle),
            "no {needle:?} in {}",
            finished.report()
        );
    }
    Ok(())
}

/// Like [`fails`], after all connections broke: the status, 1 or 3, depends on which error comes
/// first.
fn breaks(finished: &Finished, needles: &[&str]) -> Result<()> {
    let status = finished.status.code().filter(|code| *code == 3);
    fails(finished, status.unwrap_or(1), needles)
}
