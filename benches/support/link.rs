//! `Link`: two network namespaces, joined by two TUN devices and this process, which delays
//! packets.
//!
//! It needs root. Programs run in a namespace by `ip netns exec`. Dropping the value removes the
//! namespaces.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tun_rs::{DeviceBuilder, SyncDevice};
use workspace_tests::{Peer, is_root, run};

use crate::shape::{Direction, Shape};

const MTU: u16 = 1500;
const LIMIT: Duration = Duration::from_secs(20);
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 91, 7, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 91, 7, 2);

/// An emulated link between a near and a far namespace.
#[derive(Debug)]
pub struct Link {
    near: End,
    far: End,
}

#[derive(Debug)]
struct End {
    namespace: String,
    addr: Ipv4Addr,
}

impl Link {
    /// Creates the link, with the same shape in both directions.
    pub fn new(shape: Shape) -> Result<Self> {
        ensure!(
            is_root(),
            "the emulated link makes network namespaces and TUN devices, which needs root"
        );
        ensure!(
            Peer::Ip.find().is_some(),
            "the emulated link needs the program ip (Debian package iproute2)"
        );
        ensure!(
            Path::new("/dev/net/tun").exists(),
            "the emulated link needs /dev/net/tun"
        );
        sweep();
        let (near, near_device) = End::new("near", NEAR)?;
        let (far, far_device) = End::new("far", FAR)?;
        carry(near_device.clone(), far_device.clone(), shape, 1);
        carry(far_device, near_device, shape, 2);
        Ok(Self { near, far })
    }

    /// Returns a command that runs `program` at the near end.
    pub fn near(&self, program: &Path) -> Command {
        self.near.command(program)
    }

    /// Returns a command that runs `program` at the far end.
    pub fn far(&self, program: &Path) -> Command {
        self.far.command(program)
    }

    /// Returns the address of the far end.
    pub fn far_addr(&self) -> Ipv4Addr {
        self.far.addr
    }
}

impl End {
    fn new(name: &str, addr: Ipv4Addr) -> Result<(Self, Arc<SyncDevice>)> {
        let namespace = format!("xio-{name}-{}", process::id());
        let device = format!("xio{}{}", name.get(..1).unwrap_or_default(), process::id());
        let tun = DeviceBuilder::new()
            .name(&device)
            .mtu(MTU)
            .build_sync()
            .context("make a TUN device")?;
        ip(&["netns", "add", &namespace])?;
        let end = Self { namespace, addr };
        // `ip netns exec` mounts these files over those of `/etc`, so that no name look-up waits
        // for an unreachable server.
        fs::create_dir_all(end.etc())?;
        let machine = fs::read_to_string("/proc/sys/kernel/hostname")?;
        let hosts = format!("127.0.0.1 localhost\n{NEAR} near\n{FAR} far\n{addr} {machine}");
        fs::write(end.etc().join("hosts"), hosts)?;
        let inside = ["-n", end.namespace.as_str()];
        ip(&["link", "set", &device, "netns", &end.namespace])?;
        ip(&[
            &inside[..],
            &["addr", "add", &format!("{addr}/24"), "dev", &device],
        ]
        .concat())?;
        ip(&[
            &inside[..],
            &["link", "set", &device, "txqueuelen", "10000", "up"],
        ]
        .concat())?;
        ip(&[&inside[..], &["link", "set", "lo", "up"]].concat())?;
        Ok((end, Arc::new(tun)))
    }

    /// Returns the folder of files that replace those of `/etc` inside the namespace.
    fn etc(&self) -> PathBuf {
        Path::new("/etc/netns").join(&self.namespace)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.namespace])
            .arg(program);
        command
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // This removes the device too, which ends the threads that read from it.
        let _ = ip(&["netns", "del", &self.namespace]);
        let _ = fs::remove_dir_all(self.etc());
        // This fails while other namespaces have files there.
        let _ = fs::remove_dir("/etc/netns");
    }
}

/// Removes namespaces of killed benches: those named after a process that no longer exists.
fn sweep() {
    let listed = fs::read_dir("/run/netns")
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    for name in listed.filter_map(|entry| entry.file_name().into_string().ok()) {
        let owner = name
            .strip_prefix("xio-near-")
            .or_else(|| name.strip_prefix("xio-far-"));
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            drop(End {
                namespace: name,
                addr: Ipv4Addr::UNSPECIFIED,
            });
        }
    }
}

/// Forwards packets from one device to the other, each at its time.
fn carry(from: Arc<SyncDevice>, to: Arc<SyncDevice>, shape: Shape, seed: u64) {
    let (sender, waiting) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        let mut direction = Direction::new(shape, Instant::now(), seed);
        let mut packet = vec![0; usize::from(MTU) + 64];
        while let Ok(n) = from.recv(&mut packet) {
            let now = Instant::now();
            let Some(bytes) = packet.get(..n) else { return };
            if let Some(at) = direction.pass(now, n)
                && sender.send((at, bytes.to_vec())).is_err()
            {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (at, packet) in waiting {
            thread::sleep(at.saturating_duration_since(Instant::now()));
            // A full device drops the packet, like a real one.
            let _ = to.send(&packet);
        }
    });
}

fn ip(words: &[&str]) -> Result<()> {
    if let Err(error) = run(Command::new("ip").args(words), LIMIT)?.ok() {
        bail!("{error:#}");
    }
    Ok(())
}
