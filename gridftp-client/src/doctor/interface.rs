//! The interface of this host on the way to an address, and its rate.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use super::buffers::read;

/// Flag of a route that leads nowhere.
const REJECT: u32 = 0x200;

/// An interface.
#[derive(Debug)]
pub(super) struct Interface {
    pub(super) name: String,
    /// Its rate in bits a second.
    pub(super) bits: u128,
}

impl Interface {
    /// The interface on the way to `address`, where the kernel tells its rate: one without hardware has
    /// none, or one that means nothing.
    pub(super) fn towards(address: IpAddr) -> Option<Self> {
        let name = match address.to_canonical() {
            IpAddr::V4(to) => via(&read("/proc/net/route")?, |words| v4(words, to)),
            IpAddr::V6(to) => via(&read("/proc/net/ipv6_route")?, |words| v6(words, to)),
        }?;
        let folder = format!("/sys/class/net/{name}");
        if !Path::new(&folder).join("device").exists() {
            return None;
        }
        let megabits = read(&format!("{folder}/speed"))?;
        // It is -1 where it is unknown, or that without a sign.
        let megabits = megabits.trim().parse::<u32>().ok()?;
        Some(Self {
            name,
            bits: u128::from(megabits) * 1_000_000,
        })
        .filter(|_| (1..u32::MAX).contains(&megabits))
    }
}

/// A route that has an address: the length of its prefix, its metric and its interface.
type Route<'a> = (u32, u32, &'a str);

/// The interface of the route with the longest prefix, and of those of the least metric.
fn via<'a>(table: &'a str, route: impl Fn(&[&'a str]) -> Option<Route<'a>>) -> Option<String> {
    let routes = table.lines().filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        route(&words)
    });
    let best = routes.min_by_key(|(prefix, metric, _)| (std::cmp::Reverse(*prefix), *metric));
    best.map(|(_, _, name)| name.to_owned())
}

fn hex(word: &str) -> Option<u32> {
    u32::from_str_radix(word, 16).ok()
}

/// Parses a line of `/proc/net/route`, with addresses in the byte order of this machine.
fn v4<'a>(words: &[&'a str], to: Ipv4Addr) -> Option<Route<'a>> {
    let [name, dest, _, flags, _, _, metric, mask, ..] = words else {
        return None;
    };
    let mask = hex(mask)?;
    let fits = u32::from_ne_bytes(to.octets()) & mask == hex(dest)? && hex(flags)? & REJECT == 0;
    fits.then_some((mask.count_ones(), metric.parse().ok()?, *name))
}

/// Parses a line of `/proc/net/ipv6_route`.
fn v6<'a>(words: &[&'a str], to: Ipv6Addr) -> Option<Route<'a>> {
    let [dest, prefix, _, _, _, metric, _, _, flags, name] = words else {
        return None;
    };
    let (dest, prefix) = (u128::from_str_radix(dest, 16).ok()?, hex(prefix)?);
    let mask = u128::MAX
        .checked_shl(128_u32.checked_sub(prefix)?)
        .unwrap_or(0);
    let fits = u128::from(to) & mask == dest && hex(flags)? & REJECT == 0;
    fits.then_some((prefix, hex(metric)?, *name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `/proc/net/route` has it on this machine.
    fn line(name: &str, dest: [u8; 4], mask: [u8; 4], metric: u32) -> String {
        let [dest, mask] = [dest, mask].map(u32::from_ne_bytes);
        format!("{name}\t{dest:08X}\t00000000\t0001\t0\t0\t{metric}\t{mask:08X}\t0\t0\t0\n")
    }

    #[test]
    fn the_longest_prefix_and_the_least_metric_lead_to_an_address() {
        let table = [
            "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
                .to_owned(),
            line("wlan0", [0; 4], [0; 4], 600),
            line("eth0", [0; 4], [0; 4], 100),
            line("eth1", [10, 1, 0, 0], [255, 255, 0, 0], 0),
        ]
        .concat();
        for (to, name) in [([192, 0, 2, 1], "eth0"), ([10, 1, 2, 3], "eth1")] {
            let found = via(&table, |words| v4(words, to.into()));
            assert_eq!(found.as_deref(), Some(name));
        }
        let (zero, doc) = ("0".repeat(32), "20010db8".to_owned() + &"0".repeat(24));
        let table = format!(
            "{doc} 20 {zero} 00 {zero} 00000100 1 0 00000001 eth1\n\
             {zero} 00 {zero} 00 {zero} 00000400 1 0 00000003 eth0\n\
             {zero} 00 {zero} 00 {zero} ffffffff 1 0 00200200 lo\n"
        );
        for (to, name) in [("2001:db8::1", "eth1"), ("2001:db9::1", "eth0")] {
            let found = via(&table, |words| v6(words, to.parse().unwrap()));
            assert_eq!(found.as_deref(), Some(name));
        }
    }
}
