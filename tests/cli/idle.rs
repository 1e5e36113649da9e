//! TCP keep-alive on control connections that are idle during a transfer, at both ends.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use workspace_tests::Tree;

use crate::{Bed, LIMIT, command};

/// Longest idle time before the first probe: firewalls forget idle connections after minutes.
const PROBED: Duration = Duration::from_secs(60);

/// Checks that the kernel's keep-alive timer runs for the connection from `near` to `far`.
fn is_probed(near: SocketAddr, far: SocketAddr) -> Result<()> {
    let ends = format!(":{:04X} 0100007F:{:04X} 01 ", near.port(), far.port());
    let begun = Instant::now();
    loop {
        let table = fs::read_to_string("/proc/net/tcp")?;
        let line = table.lines().find(|line| line.contains(&ends));
        let line = line.with_context(|| format!("no connection {ends} in\n{table}"))?;
        // Kind of the timer and time left in hundredths of a second; kind 2 is keep-alive.
        let timer = line.split_whitespace().nth(5).context("no timer")?;
        let (kind, left) = timer.split_once(':').context("no timer")?;
        if kind == "02" {
            let left = Duration::from_millis(10 * u64::from_str_radix(left, 16)?);
            ensure!(left <= PROBED, "the first probe comes after {left:?}");
            return Ok(());
        }
        // The retransmission timer may still run for unacknowledged data.
        ensure!(begun.elapsed() < LIMIT, "it is never probed: {line}");
        thread::yield_now();
    }
}

#[test]
fn the_server_probes_an_idle_client() -> Result<()> {
    let bed = Bed::new()?;
    let client = TcpStream::connect(bed.server.addr())?;
    let mut greeting = String::new();
    BufReader::new(&client).read_line(&mut greeting)?;
    is_probed(client.peer_addr()?, client.local_addr()?)
}

#[test]
fn the_client_probes_an_idle_server() -> Result<()> {
    let here = Tree::new()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("ftp://{}/file", listener.local_addr()?);
    let mut client = command(&here, &[&url, "file"])?.spawn()?;
    let (mut control, peer) = listener.accept()?;
    control.write_all(b"220 ready\r\n")?;
    let mut line = String::new();
    BufReader::new(&control).read_line(&mut line)?;
    let probed = is_probed(peer, control.local_addr()?);
    client.kill()?;
    client.wait()?;
    probed
}
