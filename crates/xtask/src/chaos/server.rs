//! `Server`: one that is killed and comes back.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use rustix::process::Signal;
use workspace_tests::{FtpServer, Host, Peer, is_root};

/// The program of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Program {
    Ours,
    /// `globus-gridftp-server`.
    Globus,
    /// `vsftpd`: its sessions are killed, and never its listener.
    Vsftpd,
}

impl Program {
    /// All programs.
    pub(super) const ALL: [Self; 3] = [Self::Ours, Self::Globus, Self::Vsftpd];

    /// Its name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Globus => "globus",
            Self::Vsftpd => "vsftpd",
        }
    }

    /// Whether it can run here.
    pub(super) fn is_here(self) -> bool {
        match self {
            Self::Ours => true,
            Self::Globus => Peer::GlobusServer.require("chaos with Globus").is_some(),
            Self::Vsftpd => Peer::Vsftpd.require("chaos with vsftpd").is_some() && is_root(),
        }
    }
}

enum Running {
    Host(Host),
    Vsftpd(FtpServer),
}

/// A server that can be killed and restarted at its port.
pub(super) struct Server<'a> {
    folder: &'a Path,
    program: Program,
    root: PathBuf,
    port: u16,
    running: Option<Running>,
}

impl<'a> Server<'a> {
    pub(super) fn start(folder: &'a Path, program: Program, root: PathBuf) -> Result<Self> {
        let mut server = Self {
            folder,
            program,
            root,
            port: 0,
            running: None,
        };
        server.restart()?;
        server.port = server.addr()?.port();
        Ok(server)
    }

    fn running(&self) -> Result<&Running> {
        self.running.as_ref().context("the server does not run")
    }

    pub(super) fn addr(&self) -> Result<SocketAddr> {
        Ok(match self.running()? {
            Running::Host(host) => host.addr(),
            Running::Vsftpd(server) => server.addr(),
        })
    }

    /// The URL of `name` at another address, such as that of a relay.
    pub(super) fn url_at(&self, addr: SocketAddr, name: &str) -> Result<String> {
        Ok(match self.running()? {
            Running::Host(host) => host.url_at(addr, name),
            Running::Vsftpd(server) => server.url_at(addr, name),
        })
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        match self.running()? {
            Running::Host(host) => host.signal(signal),
            Running::Vsftpd(server) => server.signal(signal),
        }
    }

    pub(super) fn kill(&mut self) -> Result<()> {
        match self.running()? {
            Running::Host(_) => self.running = None,
            Running::Vsftpd(server) => server.signal(Signal::KILL)?,
        }
        Ok(())
    }

    /// Starts it again, unless it listens still.
    pub(super) fn restart(&mut self) -> Result<()> {
        if self.running.is_some() {
            return Ok(());
        }
        let port = self.port.to_string();
        self.running = Some(match self.program {
            Program::Ours => {
                let mut command = Command::new(self.folder.join("gridftp-server"));
                command
                    .args(["--bind", "127.0.0.1", "--anonymous", "rw"])
                    .args(["--port", &port, "--root"])
                    .arg(&self.root);
                Running::Host(Host::ours_from(&mut command, &self.root)?)
            }
            Program::Globus => {
                let program = Peer::GlobusServer.find().context("no Globus server")?;
                let mut command = Command::new(program);
                Running::Host(Host::globus_from(&mut command, &self.root, &["-p", &port])?)
            }
            Program::Vsftpd => {
                FtpServer::open_to_all(&self.root)?;
                // It refuses a root that its user may write.
                let above = self.root.parent().context("a folder of no tree")?;
                for folder in [above, &self.root] {
                    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
                }
                let server = FtpServer::vsftpd_over(&self.root)?;
                Running::Vsftpd(server.context("no vsftpd")?)
            }
        });
        Ok(())
    }
}
