//! `GridLab`: a Grid of its own for the Globus programs and ours, as files and variables.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use gsi::credential::Credential;
use gsi::proxy::ProxyOptions;
use xio_testkit::Grid;

use crate::{Host, Peer};

/// The name of the user in certificates; it has a blank, as nearly every name has.
const USER: &str = "Alice Lab";

/// An authority with its directory, a host `localhost`, a user mapped to the account of the tests,
/// and the user's proxy.
#[derive(Debug)]
pub struct GridLab {
    grid: Grid,
}

impl GridLab {
    /// Makes certificates and writes all files.
    pub fn new() -> Result<Self> {
        Self::of(Grid::new())
    }

    /// Makes those of this authority.
    pub fn of(grid: Grid) -> Result<Self> {
        let lab = Self { grid };
        let host = lab.grid.host(&["localhost", "127.0.0.1"]).to_pem();
        let (certificate, key) = split(&host)?;
        lab.grid.write("hostcert.pem", certificate, 0o644);
        lab.grid.write("hostkey.pem", key, 0o400);
        let _ = lab
            .grid
            .store(&lab.proxy(&ProxyOptions::default()), "proxy.pem");
        let map = format!("\"{}\" {}\n", lab.identity(), account()?);
        lab.grid.write("grid-mapfile", &map, 0o644);
        Ok(lab)
    }

    /// Returns the authority, which issues more certificates.
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Returns the path of a file: `hostcert.pem`, `hostkey.pem`, `proxy.pem`, `grid-mapfile`.
    pub fn path(&self, file: &str) -> PathBuf {
        self.grid.folder().join(file)
    }

    /// Returns the identity of the user.
    pub fn identity(&self) -> String {
        self.user().identity().to_string()
    }

    /// Returns the credential of the user.
    pub fn user(&self) -> Credential {
        self.grid.user(USER)
    }

    /// Makes a proxy of the user.
    pub fn proxy(&self, options: &ProxyOptions) -> Credential {
        self.grid.proxy(&self.user(), options)
    }

    /// Maps one more person to the account of the tests, and returns the file of a proxy.
    pub fn person(&self, name: &str) -> Result<PathBuf> {
        let user = self.grid.user(name);
        let mut map = fs::read_to_string(self.path("grid-mapfile"))?;
        map.push_str(&format!("\"{}\" {}\n", user.identity(), account()?));
        self.grid.write("grid-mapfile", &map, 0o644);
        let proxy = self.grid.proxy(&user, &ProxyOptions::default());
        Ok(self.grid.store(&proxy, &format!("{name}.pem")))
    }

    /// Sets the variables of a server: the host's credential, the directory and the map.
    pub fn serve<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("X509_CERT_DIR", self.grid.certificates())
            .env("X509_USER_CERT", self.path("hostcert.pem"))
            .env("X509_USER_KEY", self.path("hostkey.pem"))
            .env("GRIDMAP", self.path("grid-mapfile"))
            .env_remove("X509_USER_PROXY")
    }

    /// Sets the variables of a client: the user's proxy and the directory.
    ///
    /// GCT prefers a host certificate of the machine to `X509_USER_PROXY`, but not to these two.
    pub fn login<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("X509_CERT_DIR", self.grid.certificates())
            .env("X509_USER_CERT", self.path("proxy.pem"))
            .env("X509_USER_KEY", self.path("proxy.pem"))
            .env("X509_USER_PROXY", self.path("proxy.pem"))
    }

    /// Starts the Globus server for users of this Grid, or returns nothing after reporting that
    /// `suite` is skipped. `variables` are set beside those of a server.
    pub fn globus(
        &self,
        root: &Path,
        variables: &[(&str, &str)],
        suite: &str,
    ) -> Result<Option<Host>> {
        let Some(mut command) = Peer::GlobusServer.require(suite) else {
            return Ok(None);
        };
        self.serve(&mut command).envs(variables.iter().copied());
        Host::globus_secured(&mut command, root).map(Some)
    }
}

/// Splits a credential into its certificate and its key.
fn split(pem: &str) -> Result<(&str, &str)> {
    let place = pem.find("-----BEGIN PRIVATE KEY").context("no key")?;
    Ok(pem.split_at(place))
}

/// The name of the account that runs the tests.
fn account() -> Result<String> {
    let uid = rustix::process::geteuid().as_raw().to_string();
    let passwd = fs::read_to_string("/etc/passwd")?;
    let entry = passwd
        .lines()
        .find(|line| line.split(':').nth(2) == Some(uid.as_str()));
    let name = entry.and_then(|line| line.split(':').next());
    Ok(name.context("the account has no name")?.to_owned())
}
