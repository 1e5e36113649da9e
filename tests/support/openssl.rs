//! `Openssl`: `s_server` on a free port and `s_client`, which send and receive files.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::peers::Peer;

const READY: Duration = Duration::from_secs(30);

/// A running `openssl s_server` or `s_client`; killed when dropped.
#[derive(Debug)]
pub struct Openssl {
    child: Child,
    addr: SocketAddr,
    // The program keeps its connection open while this is open.
    stdin: Option<ChildStdin>,
}

impl Openssl {
    /// Starts `s_server`, which exits after `connections`; received data goes to `received`.
    ///
    /// Returns nothing where OpenSSL is missing, after reporting it.
    pub fn serve(
        suite: &str,
        connections: u32,
        args: &[&str],
        received: &Path,
    ) -> Result<Option<Self>> {
        let Some(mut command) = Peer::Openssl.require(suite) else {
            return Ok(None);
        };
        let mut child = command
            .args(["s_server", "-accept", "127.0.0.1:0", "-quiet", "-naccept"])
            .arg(connections.to_string())
            .args(args)
            .stdin(Stdio::piped())
            .stdout(File::create(received)?)
            .stderr(File::create(received.with_extension("err"))?)
            .spawn()
            .context("start openssl s_server")?;
        let stdin = child.stdin.take();
        let addr = match listens_at(&mut child) {
            Ok(addr) => addr,
            Err(error) => {
                let _ = child.kill();
                let output = fs::read_to_string(received.with_extension("err"))?;
                bail!("{error:#}; its output:\n{output}");
            }
        };
        Ok(Some(Self { child, addr, stdin }))
    }

    /// Starts `s_client` with `addr` as its server; it sends the file `sent`, then reads to the
    /// end.
    ///
    /// Returns nothing where OpenSSL is missing, after reporting it.
    pub fn connect(
        suite: &str,
        addr: SocketAddr,
        args: &[&str],
        sent: &Path,
        received: &Path,
    ) -> Result<Option<Self>> {
        let Some(mut command) = Peer::Openssl.require(suite) else {
            return Ok(None);
        };
        let child = command
            .args(["s_client", "-connect", &addr.to_string(), "-quiet"])
            .args(args)
            .stdin(File::open(sent)?)
            .stdout(File::create(received)?)
            .stderr(File::create(received.with_extension("err"))?)
            .spawn()
            .context("start openssl s_client")?;
        Ok(Some(Self {
            child,
            addr,
            stdin: None,
        }))
    }

    /// Returns the address of `s_server`, or the server's address of `s_client`.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Takes the standard input of `s_server`, which it sends to its peer line by line.
    pub fn stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Waits until the program exits by itself, and returns whether it reported success.
    pub fn wait(&mut self, limit: Duration) -> Result<bool> {
        let end = Instant::now() + limit;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.success());
            }
            thread::sleep(Duration::from_millis(1));
        }
        bail!("openssl still runs after {limit:?}")
    }
}

impl Drop for Openssl {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Finds the listening port of a process; `s_server -quiet` does not print it.
fn listens_at(child: &mut Child) -> Result<SocketAddr> {
    let end = Instant::now() + READY;
    let folder = format!("/proc/{}", child.id());
    while Instant::now() < end {
        ensure!(
            child.try_wait()?.is_none(),
            "openssl s_server ended at once"
        );
        let table = fs::read_to_string(format!("{folder}/net/tcp"))?;
        let own: Vec<String> = fs::read_dir(format!("{folder}/fd"))?
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
            .filter_map(|link| {
                let name = link.to_str()?.strip_prefix("socket:[")?;
                Some(name.strip_suffix(']')?.to_owned())
            })
            .collect();
        // Columns: number, local address, remote address, state, …, inode as the tenth.
        // State 0A is LISTEN.
        let port = table.lines().find_map(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            let (local, state, inode) = (columns.get(1)?, columns.get(3)?, columns.get(9)?);
            (*state == "0A" && own.iter().any(|socket| socket == inode))
                .then(|| u16::from_str_radix(local.rsplit(':').next()?, 16).ok())
                .flatten()
        });
        if let Some(port) = port {
            return Ok((Ipv4Addr::LOCALHOST, port).into());
        }
        thread::sleep(Duration::from_millis(2));
    }
    bail!("openssl s_server did not listen within {READY:?}")
}
