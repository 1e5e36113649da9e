//! `Pair`: both sets of programs, and the cost of a copy.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use workspace_benches::ratio::Cost;
use workspace_benches::usage::{cpu_of_children, cpu_of_tree, settle};
use workspace_tests::{Host, Peer, binary, run};

const LIMIT: Duration = Duration::from_secs(300);

/// A set of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Ours,
    Globus,
}

/// Paths of server and client of each set.
#[derive(Debug)]
pub(crate) struct Pair {
    ours: (PathBuf, PathBuf),
    globus: (PathBuf, PathBuf),
}

impl Pair {
    /// Finds all four programs, or returns nothing after reporting that the Globus ones are
    /// missing.
    pub(crate) fn find() -> Result<Option<Self>> {
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
    pub(crate) fn server(&self, side: Side) -> &Path {
        if side == Side::Ours {
            &self.ours.0
        } else {
            &self.globus.0
        }
    }

    /// Returns the client program of a side.
    pub(crate) fn client(&self, side: Side) -> &Path {
        if side == Side::Ours {
            &self.ours.1
        } else {
            &self.globus.1
        }
    }

    /// Starts a side's server over a tree.
    pub(crate) fn serve(&self, side: Side, root: &Path) -> Result<Host> {
        match side {
            Side::Ours => Host::from_binary(self.server(side), root, &["--max-sessions", "1000"]),
            Side::Globus => Host::globus_from(&mut Command::new(self.server(side)), root, &[]),
        }
    }
}

/// Runs a client against a server and returns the cost of both.
pub(crate) fn cost(command: &mut Command, server: &Host) -> Result<Cost> {
    settle(server.pid())?;
    let before = cpu_of_tree(server.pid())? + cpu_of_children()?;
    let finished = run(command, LIMIT)?
        .ok()
        .with_context(|| format!("output of the server:\n{}", server.output()))?;
    settle(server.pid())?;
    let after = cpu_of_tree(server.pid())? + cpu_of_children()?;
    ensure!(
        after >= before,
        "processor time decreased: a process was not reaped"
    );
    Ok(Cost::new(finished.took, after - before))
}
