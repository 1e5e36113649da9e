//! `Sshd`: the system's ssh server on a loopback port, with keys and configuration of its own.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::inetd::Inetd;
use crate::peers::Peer;
use crate::run::run;

const LIMIT: Duration = Duration::from_secs(30);

/// An ssh server that logs in the person who runs the test, by a key made for it.
///
/// Programs that run `ssh` reach it under the host names `dtn` and `dtn2` while
/// [`path`](Self::path) is their `PATH`: a script of that name in front of the real program adds
/// the configuration.
#[derive(Debug)]
pub struct Sshd {
    inetd: Inetd,
    folder: PathBuf,
    path: String,
}

impl Sshd {
    /// Starts the server with its files in `folder`; programs of its sessions are looked up in
    /// `programs` first. `None` where ssh is not installed, which is reported for `what`.
    pub fn start(folder: &Path, programs: &Path, what: &str) -> Result<Option<Self>> {
        let (Some(server), Some(client)) = (Peer::Sshd.require(what), Peer::Ssh.require(what))
        else {
            return Ok(None);
        };
        // The server wants its own path to be absolute.
        let server = server.get_program().to_owned();
        for key in ["host_key", "key"] {
            let mut make = Command::new("ssh-keygen");
            make.args(["-q", "-t", "ed25519", "-N", "", "-f"]);
            run(make.arg(folder.join(key)), LIMIT)?.ok()?;
        }
        fs::copy(folder.join("key.pub"), folder.join("authorized_keys"))?;
        let config = folder.join("sshd_config");
        let shown = folder.display();
        let programs = format!("{}:/usr/bin:/bin", programs.display());
        fs::write(
            &config,
            format!(
                "HostKey {shown}/host_key\n\
                 AuthorizedKeysFile {shown}/authorized_keys\n\
                 StrictModes no\nUsePAM no\nPasswordAuthentication no\n\
                 PermitRootLogin yes\nPidFile none\nPrintMotd no\n\
                 SetEnv PATH={programs}\n"
            ),
        )?;
        // Its start script makes this folder; only root may, and only root needs it.
        let _ = fs::create_dir_all("/run/sshd");
        let inetd = Inetd::start(move || {
            let mut command = Command::new(&server);
            command.args(["-i", "-e", "-f"]).arg(&config);
            command
        })?;
        let this = Self {
            path: format!("{shown}/bin:{}", std::env::var("PATH").unwrap_or_default()),
            folder: folder.to_owned(),
            inetd,
        };
        this.configure_client(client.get_program())?;
        Ok(Some(this))
    }

    /// Writes the configuration of the client, and the script that has `ssh` use it.
    fn configure_client(&self, real: &OsStr) -> Result<()> {
        let (folder, port) = (self.folder.display(), self.addr().port());
        let key = fs::read_to_string(self.folder.join("host_key.pub"))?;
        fs::write(
            self.folder.join("known_hosts"),
            format!("[127.0.0.1]:{port} {key}"),
        )?;
        fs::write(
            self.folder.join("config"),
            format!(
                "Host dtn dtn2\n HostName 127.0.0.1\n Port {port}\n IdentityFile {folder}/key\n\
                 Host *\n UserKnownHostsFile {folder}/known_hosts\n IdentitiesOnly yes\n\
                 BatchMode yes\n StrictHostKeyChecking yes\n"
            ),
        )?;
        let script = self.folder.join("bin/ssh");
        fs::create_dir_all(self.folder.join("bin"))?;
        fs::write(
            &script,
            format!(
                "#!/bin/sh\nexec {} -F {folder}/config \"$@\"\n",
                real.display()
            ),
        )?;
        fs::set_permissions(&script, Permissions::from_mode(0o755))?;
        Ok(())
    }

    /// The address of the server.
    pub fn addr(&self) -> SocketAddr {
        self.inetd.addr()
    }

    /// The configuration of `ssh` that knows the hosts, for programs that run it by its path.
    pub fn config(&self) -> PathBuf {
        self.folder.join("config")
    }

    /// The `PATH` with which programs find the configured `ssh`.
    pub fn path(&self) -> &str {
        &self.path
    }
}
