//! `Pair`: both sets of programs, and the cost of a copy.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use workspace_tests::{Host, Peer, binary, run};

use crate::ratio::Cost;
use crate::usage::{cpu_of_descendants, settle};

/// A long path with loss leaves CUBIC a tenth of the link.
const LIMIT: Duration = Duration::from_secs(900);

/// A set of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "benches handle each variant")]
pub enum Side {
    /// Those of this project.
    Ours,
    /// Those of the Globus project.
    Globus,
}

/// Paths of server and client of each set.
#[derive(Debug)]
pub struct Pair {
    ours: (PathBuf, PathBuf),
    globus: (PathBuf, PathBuf),
}

impl Pair {
    /// Finds all four programs, or returns nothing after reporting that the Globus ones are
    /// missing.
    pub fn find() -> Result<Option<Self>> {
        let server = Peer::GlobusServer.require("bench").is_some();
        let client = Peer::GlobusUrlCopy.require("bench").is_some();
        if !(server && client) {
            return Ok(None);
        }
        let found = |peer: Peer| peer.find().context("the program was removed");
        Ok(Some(Self {
            ours: (binary("gridftp-server")?, binary("gridftp-cp")?),
            globus: (found(Peer::GlobusServer)?, found(Peer::GlobusUrlCopy)?),
        }))
    }

    /// Returns the server program of a side.
    #[must_use]
    pub fn server(&self, side: Side) -> &Path {
        if side == Side::Ours {
            &self.ours.0
        } else {
            &self.globus.0
        }
    }

    /// Returns the client program of a side.
    #[must_use]
    pub fn client(&self, side: Side) -> &Path {
        if side == Side::Ours {
            &self.ours.1
        } else {
            &self.globus.1
        }
    }

    /// Starts a side's server over a tree, open to anonymous users.
    pub fn serve(&self, side: Side, root: &Path) -> Result<Host> {
        match side {
            Side::Ours => Host::from_binary(self.server(side), root, &["--max-sessions", "1000"]),
            Side::Globus => Host::globus_from(&mut Command::new(self.server(side)), root, &[]),
        }
    }
}

/// Returns the flags that disable a client's progress bar, and digests, which the Globus client
/// does not compare.
#[must_use]
pub fn quiet(side: Side) -> &'static [&'static str] {
    match side {
        Side::Ours => &["--quiet", "--no-verify"],
        Side::Globus => &[],
    }
}

/// Runs a client against a server and returns the cost of both.
pub fn cost(command: &mut Command, server: &Host) -> Result<Cost> {
    measured(Some(server), || time_of(command)).with_context(|| told(server))
}

/// Returns the output of a server, for the message of a failed copy.
#[must_use]
pub fn told(server: &Host) -> String {
    format!("output of the server:\n{}", server.output())
}

/// Runs a client and returns its time.
pub fn time_of(command: &mut Command) -> Result<Duration> {
    Ok(run(command, LIMIT)?.ok()?.took)
}

/// Returns the time that `work` returns, and the processor time that all processes of the bench
/// use, until the server is idle again.
pub fn measured(server: Option<&Host>, work: impl FnOnce() -> Result<Duration>) -> Result<Cost> {
    let settled = || server.map_or(Ok(()), |server| settle(server.pid()));
    settled()?;
    let before = cpu_of_descendants()?;
    let wall = work()?;
    settled()?;
    let after = cpu_of_descendants()?;
    ensure!(
        after >= before,
        "processor time decreased: a process was not reaped"
    );
    Ok(Cost::new(wall, after - before))
}
