//! `Server`: one that is killed and comes back.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use workspace_tests::{Host, Peer};

/// The program of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Program {
    Ours,
    /// `globus-gridftp-server`.
    Globus,
}

/// A server that can be killed and restarted at its port.
pub(super) struct Server<'a> {
    folder: &'a Path,
    program: Program,
    root: PathBuf,
    port: u16,
    host: Option<Host>,
}

impl<'a> Server<'a> {
    pub(super) fn start(folder: &'a Path, program: Program, root: PathBuf) -> Result<Self> {
        let mut server = Self {
            folder,
            program,
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
        let port = self.port.to_string();
        self.host = Some(match self.program {
            Program::Ours => {
                let mut command = Command::new(self.folder.join("gridftp-server"));
                command
                    .args(["--bind", "127.0.0.1", "--anonymous", "rw"])
                    .args(["--port", &port, "--root"])
                    .arg(&self.root);
                Host::ours_from(&mut command, &self.root)?
            }
            Program::Globus => {
                let program = Peer::GlobusServer.find().context("no Globus server")?;
                let mut command = Command::new(program);
                Host::globus_from(&mut command, &self.root, &["-p", &port])?
            }
        });
        Ok(())
    }
}
