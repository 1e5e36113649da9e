//! `Host`: one GridFTP server over one tree, ours or the Globus one, addressed by URLs.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use rustix::process::Signal;

use crate::{Daemon, Peer, binary, is_root};

/// Flags by which the Globus server stays on this machine.
const LOOPBACK: [&str; 4] = [
    "-control-interface",
    "127.0.0.1",
    "-data-interface",
    "127.0.0.1",
];

/// A running server and the directory it serves.
#[derive(Debug)]
pub struct Host {
    daemon: Daemon,
    root: PathBuf,
    /// Path of the root in URLs: empty for our server, which exports the root as `/`.
    prefix: String,
}

impl Host {
    /// Starts our server over `root`, open to anonymous users for reading and writing.
    pub fn ours(root: &Path) -> Result<Self> {
        Self::ours_with(root, &[])
    }

    /// Starts our server with additional flags.
    pub fn ours_with(root: &Path, flags: &[&str]) -> Result<Self> {
        Self::from_binary(&binary("gridftp-server")?, root, flags)
    }

    /// Starts the given build of our server.
    pub fn from_binary(program: &Path, root: &Path, flags: &[&str]) -> Result<Self> {
        let mut command = Command::new(program);
        command
            .args(["--bind", "127.0.0.1", "--port", "0", "--anonymous", "rw"])
            .args(flags);
        Self::ours_from(command.arg("--root").arg(root), root)
    }

    /// Starts our server on the loopback address of IPv6.
    pub fn ours_over_ipv6(root: &Path) -> Result<Self> {
        let mut command = Command::new(binary("gridftp-server")?);
        command.args(["--bind", "::1", "--port", "0", "--anonymous", "rw"]);
        Self::ours_from(command.arg("--root").arg(root), root)
    }

    /// Starts our server by a complete command line.
    pub fn ours_from(command: &mut Command, root: &Path) -> Result<Self> {
        let daemon = Daemon::start(command, |line| {
            line.strip_prefix("listening on ")?.parse().ok()
        })?;
        Ok(Self {
            daemon,
            root: root.to_path_buf(),
            prefix: String::new(),
        })
    }

    /// Starts the Globus server, or returns nothing after reporting that `suite` is skipped.
    pub fn globus(root: &Path, suite: &str) -> Result<Option<Self>> {
        let Some(mut command) = Peer::GlobusServer.require(suite) else {
            return Ok(None);
        };
        Self::globus_from(&mut command, root, &[]).map(Some)
    }

    /// Starts the Globus server by `command`, whose last word is the program.
    pub fn globus_from(command: &mut Command, root: &Path, flags: &[&str]) -> Result<Self> {
        if !flags.contains(&"-control-interface") {
            command.args(LOOPBACK);
        }
        command
            .args(["-p", "0", "-aa", "-home-dir"])
            .arg(root)
            .args(flags);
        if is_root() {
            // Run as root, it requires a local user for anonymous sessions.
            command.args(["-anonymous-user", "root", "-allow-root"]);
        }
        Self::globus_daemon(command, root)
    }

    /// Starts the Globus server for users of a Grid, whose variables `command` has.
    pub fn globus_secured(command: &mut Command, root: &Path) -> Result<Self> {
        command.args(LOOPBACK).args(["-p", "0", "-s", "-home-dir"]);
        command.arg(root);
        if is_root() {
            command.arg("-allow-root");
        }
        Self::globus_daemon(command, root)
    }

    fn globus_daemon(command: &mut Command, root: &Path) -> Result<Self> {
        let words: Vec<_> = command.get_args().collect();
        let interface = words.windows(2).rev().find_map(|pair| match pair {
            [flag, ip] if *flag == "-control-interface" => ip.to_str()?.parse().ok(),
            _ => None,
        });
        let ip = interface.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let daemon = Daemon::start(command, move |line| {
            // It tells the name of the host for its address.
            let (_, port) = line
                .strip_prefix("Server listening at ")?
                .rsplit_once(':')?;
            Some(SocketAddr::from((ip, port.parse().ok()?)))
        })?;
        let prefix = root
            .to_str()
            .context("the tree's path is not text")?
            .to_owned();
        Ok(Self {
            daemon,
            root: root.to_path_buf(),
            prefix,
        })
    }

    /// Returns the server's control address.
    pub fn addr(&self) -> SocketAddr {
        self.daemon.addr()
    }

    /// Returns the process.
    pub fn daemon(&self) -> &Daemon {
        &self.daemon
    }

    /// Returns the process number.
    pub fn pid(&self) -> u32 {
        self.daemon.pid()
    }

    /// Returns the most memory that the server process has held so far, in bytes.
    pub fn peak_memory(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        Ok(kilobytes.context("no VmHWM")?.trim().parse::<u64>()? << 10)
    }

    /// Sends a signal to the server process.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.daemon.signal(signal)
    }

    /// Returns the output of the server so far, for messages of failed tests.
    pub fn output(&self) -> String {
        self.daemon.output()
    }

    /// Returns the served directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the local path of `name`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns the URL of `name`, percent-encoded.
    pub fn url(&self, name: &str) -> String {
        self.url_at(self.addr(), name)
    }

    /// Returns the URL of `name` at another address, such as that of a relay.
    pub fn url_at(&self, addr: SocketAddr, name: &str) -> String {
        format!("ftp://{addr}{}/{}", escape(&self.prefix), escape(name))
    }
}

/// Returns the `file:` URL of a local path; a trailing slash stays.
pub fn file_url(path: &Path) -> String {
    format!("file://{}", escape(&path.display().to_string()))
}

fn escape(path: &str) -> String {
    path.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_escape_reserved_and_non_ascii_bytes() {
        assert_eq!(
            file_url(Path::new("/a b/ü#%")),
            "file:///a%20b/%C3%BC%23%25"
        );
    }
}
