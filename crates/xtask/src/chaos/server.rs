//! `Server`: one that is killed and comes back.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use workspace_tests::{FtpServer, Host, Peer, is_root};

/// Longest wait for the port of a server that was killed, and the time between two attempts.
const TAKEN: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(200);

/// The program of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Program {
    Ours,
    /// `globus-gridftp-server`: its sessions are killed, and never its listener, which does not
    /// take its port again at once.
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

    /// Kills it, or its sessions.
    pub(super) fn kill(&mut self) -> Result<()> {
        match self.running()? {
            Running::Host(host) if self.program == Program::Globus => kill_children(host.pid())?,
            Running::Host(_) => self.running = None,
            Running::Vsftpd(server) => server.signal(Signal::KILL)?,
        }
        Ok(())
    }

    /// Starts it again, unless it listens still. Another socket may have its port for a while.
    pub(super) fn restart(&mut self) -> Result<()> {
        let started = Instant::now();
        while self.running.is_none() {
            match self.run() {
                Ok(running) => self.running = Some(running),
                Err(_) if self.port > 0 && started.elapsed() < TAKEN => thread::sleep(PAUSE),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn run(&self) -> Result<Running> {
        let port = self.port.to_string();
        Ok(match self.program {
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
        })
    }
}

/// Kills the processes that a process has started, one for each session of a server.
fn kill_children(parent: u32) -> Result<()> {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"))?;
    let children = children.split_whitespace();
    for child in children.filter_map(|child| Pid::from_raw(child.parse().ok()?)) {
        // It may have ended in between.
        let _ = kill_process(child, Signal::KILL);
    }
    Ok(())
}
