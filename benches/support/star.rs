//! `Star`: network namespaces, each with a TUN device, joined by this process, which shapes packets.
//!
//! It needs root. Programs run in a namespace by `ip netns exec`. Dropping the value removes the
//! namespaces.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tun_rs::{DeviceBuilder, SyncDevice};
use workspace_tests::{Peer, Place, is_root, run};

use crate::shape::{Direction, Shape};

const LIMIT: Duration = Duration::from_secs(20);

/// Numbers of a namespace and a process in the names that this file gives.
const PREFIX: &str = "xio-";

/// A host of the network, and the shapes of its link.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "made by benches, field by field")]
pub struct Ray {
    /// Name of the host.
    pub name: String,
    /// Shape of the link from the host.
    pub up: Shape,
    /// Shape of the link to the host.
    pub down: Shape,
}

/// Hosts, each with a link to one switch.
#[derive(Debug)]
pub struct Star {
    ends: Vec<End>,
}

#[derive(Debug)]
struct End {
    namespace: String,
    addr: Ipv4Addr,
}

/// The link from the switch to a host.
#[derive(Debug)]
struct Down {
    direction: Direction,
    /// Packets with the times of their arrival, in that order.
    queue: mpsc::Sender<(Instant, Vec<u8>)>,
}

/// The links to all hosts.
type Downs = BTreeMap<Ipv4Addr, Mutex<Down>>;

impl Star {
    /// Creates the hosts, with packets of at most `mtu` bytes.
    pub fn new(mtu: u16, rays: &[Ray]) -> Result<Self> {
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
        let names = rays.iter().map(|ray| ray.name.as_str());
        let hosts: Vec<(&str, Ipv4Addr)> = names
            .zip(1_u8..)
            .map(|(name, number)| (name, Ipv4Addr::new(10, 91, 7, number)))
            .collect();
        let mut ends = Vec::new();
        let mut devices = Vec::new();
        for number in 0..hosts.len() {
            let (end, device) = End::new(&hosts, number, mtu)?;
            ends.push(end);
            devices.push(device);
        }
        let mut downs = Downs::new();
        for ((end, device), ray) in ends.iter().zip(&devices).zip(rays) {
            let direction = Direction::new(ray.down, Instant::now(), u64::MAX);
            let queue = deliver(Arc::clone(device));
            downs.insert(end.addr, Mutex::new(Down { direction, queue }));
        }
        let downs = Arc::new(downs);
        for ((device, ray), seed) in devices.into_iter().zip(rays).zip(1..) {
            let up = Direction::new(ray.up, Instant::now(), seed);
            carry(device, up, mtu, Arc::clone(&downs));
        }
        Ok(Self { ends })
    }

    /// Returns a host by its number, in the order of their creation.
    pub fn place(&self, number: usize) -> Result<Place> {
        let end = self.ends.get(number).context("no such host")?;
        Ok(Place {
            prefix: ["ip", "netns", "exec", &end.namespace]
                .map(str::to_owned)
                .into(),
            ip: end.addr.into(),
        })
    }
}

impl End {
    fn new(hosts: &[(&str, Ipv4Addr)], number: usize, mtu: u16) -> Result<(Self, Arc<SyncDevice>)> {
        let (name, addr) = *hosts.get(number).context("no such host")?;
        let namespace = format!("{PREFIX}{name}-{}", process::id());
        let device = format!("xio{number}x{}", process::id());
        let tun = DeviceBuilder::new()
            .name(&device)
            .mtu(mtu)
            .build_sync()
            .context("make a TUN device")?;
        ip(&["netns", "add", &namespace])?;
        let end = Self { namespace, addr };
        // `ip netns exec` mounts these files over those of `/etc`, so that no name look-up waits
        // for an unreachable server.
        fs::create_dir_all(end.etc())?;
        let machine = fs::read_to_string("/proc/sys/kernel/hostname")?;
        let mut lines = vec!["127.0.0.1 localhost".to_owned()];
        lines.extend(hosts.iter().map(|(name, addr)| format!("{addr} {name}")));
        lines.push(format!("{addr} {machine}"));
        fs::write(end.etc().join("hosts"), lines.join("\n"))?;
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
    for namespace in listed.filter_map(|entry| entry.file_name().into_string().ok()) {
        let owner = namespace
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.rsplit('-').next())
            .filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()));
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            drop(End {
                namespace,
                addr: Ipv4Addr::UNSPECIFIED,
            });
        }
    }
}

/// Forwards the packets of a host to the links of their destinations.
fn carry(from: Arc<SyncDevice>, mut up: Direction, mtu: u16, downs: Arc<Downs>) {
    thread::spawn(move || {
        let mut packet = vec![0; usize::from(mtu) + 64];
        while let Ok(n) = from.recv(&mut packet) {
            let now = Instant::now();
            let Some(bytes) = packet.get(..n) else { return };
            let Some(down) = destination(bytes).and_then(|addr| downs.get(&addr)) else {
                continue;
            };
            let Some(at) = up.pass(now, n) else { continue };
            let mut down = down.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(at) = down.direction.pass(at, n)
                && down.queue.send((at, bytes.to_vec())).is_err()
            {
                return;
            }
        }
    });
}

/// Returns the destination of an IPv4 packet.
fn destination(packet: &[u8]) -> Option<Ipv4Addr> {
    let is_ipv4 = packet.first().is_some_and(|byte| byte >> 4 == 4);
    let addr = packet.get(16..20).filter(|_| is_ipv4)?;
    Some(Ipv4Addr::from(<[u8; 4]>::try_from(addr).ok()?))
}

/// Delivers packets to a host, each at its time.
fn deliver(to: Arc<SyncDevice>) -> mpsc::Sender<(Instant, Vec<u8>)> {
    let (queue, waiting) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        for (at, packet) in waiting {
            thread::sleep(at.saturating_duration_since(Instant::now()));
            // A full device drops the packet, like a real one.
            let _ = to.send(&packet);
        }
    });
    queue
}

fn ip(words: &[&str]) -> Result<()> {
    if let Err(error) = run(Command::new("ip").args(words), LIMIT)?.ok() {
        bail!("{error:#}");
    }
    Ok(())
}
