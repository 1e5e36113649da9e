//! `Openssl`: `s_server` on a free port and `s_client`, which send and receive files.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::listening::listens_at;
use crate::peers::Peer;

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
        let addr = match listens_at(child.id()) {
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
