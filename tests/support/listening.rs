//! `listens_at`: the address of a server that does not print the port assigned to it.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

const READY: Duration = Duration::from_secs(30);

/// Waits until a process listens on a TCP port of IPv4, and returns it at the loopback address.
///
/// # Errors
/// If the process has ended, or does not listen within 30 seconds.
pub fn listens_at(pid: u32) -> Result<SocketAddr> {
    let end = Instant::now() + READY;
    let folder = format!("/proc/{pid}");
    while Instant::now() < end {
        let ended = || format!("process {pid} has ended");
        let table = fs::read_to_string(format!("{folder}/net/tcp")).with_context(ended)?;
        let own: Vec<String> = fs::read_dir(format!("{folder}/fd"))
            .with_context(ended)?
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
    bail!("process {pid} did not listen within {READY:?}")
}
