//! A grid for one test: an authority, a person with a proxy, and servers of both kinds.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};
use workspace_tests::{Finished, GridLab, Host, Peer, Tree, binary, file_url, run};
use xio_testkit::Grid;

use crate::bed::LIMIT;

const SUITE: &str = "interop: Grid security";

/// A program, ours or the Globus one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ours,
    Globus,
}

/// A Grid, and the programs of both kinds in it.
pub(super) struct Lab(GridLab);

impl Lab {
    pub(super) fn new() -> Result<Self> {
        GridLab::new().map(Self)
    }

    /// The lab of an authority.
    pub(super) fn of(grid: Grid) -> Result<Self> {
        GridLab::of(grid).map(Self)
    }

    /// The files of the Grid.
    pub(super) fn files(&self) -> &GridLab {
        &self.0
    }

    /// The directory of authorities of our server: one of its own if a test has made it.
    pub(super) fn authorities(&self) -> PathBuf {
        let own = self.0.path("own");
        if own.exists() {
            own
        } else {
            self.0.grid().certificates()
        }
    }

    /// Starts our server over `tree` with these flags more.
    pub(super) fn serve_ours(&self, tree: &Tree, flags: &[&str]) -> Result<Host> {
        let mut server = Command::new(binary("gridftp-server")?);
        server.args(["--bind", "127.0.0.1", "--port", "0"]);
        server.arg("--host-cert").arg(self.0.path("hostcert.pem"));
        server.arg("--host-key").arg(self.0.path("hostkey.pem"));
        server.arg("--ca-dir").arg(self.authorities());
        server.arg("--gridmap").arg(self.0.path("grid-mapfile"));
        server.arg("--root").arg(tree.root()).args(flags);
        Host::ours_from(&mut server, tree.root())
    }

    /// Starts a server over `tree` with the credentials of further names in a folder of the lab;
    /// `None` where it is not installed.
    pub(super) fn serve_hosts(
        &self,
        kind: Kind,
        tree: &Tree,
        folder: &str,
    ) -> Result<Option<Host>> {
        let folder = self.0.path(folder).display().to_string();
        match kind {
            Kind::Ours => self.serve_ours(tree, &["--host-certs", &folder]).map(Some),
            Kind::Globus => {
                let hosts = [("X509_VHOST_CRED_DIR", folder.as_str())];
                self.0.globus(tree.root(), &hosts, SUITE)
            }
        }
    }

    /// Makes a copy of the directory of authorities, which a test may alter.
    pub(super) fn copy_authorities(&self, folder: &str) -> Result<PathBuf> {
        let to = self.0.path(folder);
        fs::create_dir_all(&to)?;
        for file in fs::read_dir(self.0.grid().certificates())? {
            let file = file?;
            fs::copy(file.path(), to.join(file.file_name()))?;
        }
        Ok(to)
    }

    /// Starts a server over `tree`, the Globus one limited to a version of TLS; `None` where it is
    /// not installed.
    pub(super) fn serve_limited(
        &self,
        kind: Kind,
        tree: &Tree,
        version: &str,
    ) -> Result<Option<Host>> {
        match kind {
            Kind::Ours => self.serve_ours(tree, &[]).map(Some),
            Kind::Globus => {
                let limit = [("GLOBUS_GSSAPI_MAX_TLS_PROTOCOL", version)];
                self.0.globus(tree.root(), &limit, SUITE)
            }
        }
    }

    /// A client with the person's proxy; `None` where it is not installed.
    pub(super) fn client(&self, kind: Kind) -> Result<Option<Command>> {
        let mut client = match kind {
            Kind::Ours => Command::new(binary("gridftp-cp")?),
            Kind::Globus => match Peer::GlobusUrlCopy.require(SUITE) {
                Some(client) => client,
                None => return Ok(None),
            },
        };
        self.0.login(&mut client);
        // A copy between servers that passes this machine would hide what they refuse.
        client.env("GRIDFTP_RELAY", "never");
        Ok(Some(client))
    }
}

/// The URL of a file of a server under Grid security.
pub(super) fn url(host: &Host, name: &str) -> String {
    let url = host.url(name).replace("127.0.0.1", "localhost");
    url.replacen("ftp://", "gsiftp://", 1)
}

/// Runs a copy between two URLs.
pub(super) fn copy(client: &mut Command, flags: &[&str], from: &str, to: &str) -> Result<Finished> {
    run(client.args(flags).args([from, to]), LIMIT).context("the copy")
}

/// The `file:` URL of a file in a tree.
pub(super) fn local(tree: &Tree, name: &str) -> String {
    file_url(&tree.path(name))
}
