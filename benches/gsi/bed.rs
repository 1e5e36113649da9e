//! `Bed`: a Grid with a server of each side over one tree in memory.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use workspace_benches::pair::{Pair, Side, quiet};
use workspace_benches::usage::settle;
use workspace_tests::{GridLab, Host, Tree};

use crate::options::{Options, tree};

/// The large file of a tree.
pub(crate) const FILE: &str = "file";

/// A Grid, its servers, and the tree that they serve.
pub(crate) struct Bed {
    pub(crate) pair: Pair,
    pub(crate) lab: GridLab,
    pub(crate) tree: Tree,
    ours: Host,
    globus: Host,
}

impl Bed {
    /// Makes certificates, writes the files, and starts the servers.
    pub(crate) fn new(pair: Pair, options: &Options) -> Result<Self> {
        let (lab, tree) = (GridLab::new()?, tree()?);
        tree.file(FILE, options.size(), 1)?;
        tree.file("small", 1, 1)?;
        let ours = serve(&pair, &lab, Side::Ours, tree.root())?;
        let globus = serve(&pair, &lab, Side::Globus, tree.root())?;
        // The first keys for delegation are being made.
        settle(ours.pid())?;
        Ok(Self {
            pair,
            lab,
            tree,
            ours,
            globus,
        })
    }

    /// Returns the server of a side.
    pub(crate) fn server(&self, side: Side) -> &Host {
        match side {
            Side::Ours => &self.ours,
            Side::Globus => &self.globus,
        }
    }

    /// Returns a side's client with the user's proxy.
    pub(crate) fn client(&self, side: Side) -> Command {
        let mut client = Command::new(self.pair.client(side));
        self.lab.login(&mut client).args(quiet(side));
        client
    }

    /// Returns the URL of a file of a side's server.
    pub(crate) fn url(&self, side: Side, name: &str) -> String {
        let url = self.server(side).url(name);
        let url = url.replace("127.0.0.1", "localhost");
        url.replacen("ftp://", "gsiftp://", 1)
    }
}

/// Starts a side's server for users of the Grid.
fn serve(pair: &Pair, lab: &GridLab, side: Side, root: &Path) -> Result<Host> {
    let mut command = Command::new(pair.server(side));
    lab.serve(&mut command);
    match side {
        Side::Ours => {
            command.args(["--bind", "127.0.0.1", "--port", "0", "--root"]);
            Host::ours_from(command.arg(root), root)
        }
        Side::Globus => Host::globus_secured(&mut command, root),
    }
}
