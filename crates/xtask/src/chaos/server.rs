//! `Server`: one that is killed and comes back.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use workspace_tests::Host;

/// A server that can be killed and restarted at its port.
pub(super) struct Server<'a> {
    folder: &'a Path,
    root: PathBuf,
    port: u16,
    host: Option<Host>,
}

impl<'a> Server<'a> {
    pub(super) fn start(folder: &'a Path, root: PathBuf) -> Result<Self> {
        let mut server = Self {
            folder,
            root,
            port: 0,
            host: None,
        };
        server.restart()?;
        server.port = server.host()?.addr().port();
        Ok(server)
    }

    pub(super) fn host(&self) -> Result<&Host> {
        self.host.as_ref().context("the server does not run")
    }

    pub(super) fn kill(&mut self) {
        self.host = None;
    }

    pub(super) fn restart(&mut self) -> Result<()> {
        let mut command = Command::new(self.folder.join("gridftp-server"));
        command
            .args(["--bind", "127.0.0.1", "--anonymous", "rw"])
            .args(["--port", &self.port.to_string(), "--root"])
            .arg(&self.root);
        self.host = Some(Host::ours_from(&mut command, &self.root)?);
        Ok(())
    }
}
