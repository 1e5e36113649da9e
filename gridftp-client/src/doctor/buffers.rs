//! The rate that the TCP buffers of this host allow a connection at the measured round trip.

use std::fs::File;
use std::io::Read as _;
use std::time::{Duration, Instant};

use ftp_wire::command::Command;
use gsi::finding::Finding;
use xio_core::PathStats;

use super::Visit;
use super::interface::Interface;
use crate::client::Client;

const TOPIC: &str = "buffers";
/// Rate in bits a second below which a connection is warned of, where that of the interface is unknown.
const ENOUGH: u128 = 1_000_000_000;
/// Largest buffer in bytes that a remedy names.
const LARGEST: u64 = 1 << 30;
/// Most bytes that are read of a file of the kernel: its routes are the longest.
const LONGEST: u64 = 64 << 10;
const NANOS: u128 = 1_000_000_000;

/// The end of a connection that a buffer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Receive,
    Send,
}

impl Side {
    /// The kernel's bounds of buffers that it sizes by itself.
    const fn tuned(self) -> &'static str {
        match self {
            Self::Receive => "tcp_rmem",
            Self::Send => "tcp_wmem",
        }
    }

    /// The kernel's bound of buffers that a program asks for.
    const fn asked(self) -> &'static str {
        match self {
            Self::Receive => "rmem_max",
            Self::Send => "wmem_max",
        }
    }

    const fn transfers(self) -> &'static str {
        match self {
            Self::Receive => "downloads",
            Self::Send => "uploads",
        }
    }
}

/// The kernel's bounds of a buffer that it sizes by itself, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tuned {
    least: u64,
    first: u64,
    most: u64,
}

impl Tuned {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let mut next = || words.next()?.parse::<u64>().ok();
        Some(Self {
            least: next()?,
            first: next()?,
            most: next()?,
        })
    }
}

/// The kernel's limits of one side; `None` where it does not tell them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    tuned: Option<Tuned>,
    asked: Option<u64>,
}

impl Limits {
    fn read(side: Side) -> Self {
        let tuned = read(&format!("/proc/sys/net/ipv4/{}", side.tuned()));
        let asked = read(&format!("/proc/sys/net/core/{}", side.asked()));
        Self {
            tuned: tuned.and_then(|text| Tuned::parse(&text)),
            asked: asked.and_then(|text| text.trim().parse().ok()),
        }
    }
}

/// The text of a file of the kernel.
pub(super) fn read(path: &str) -> Option<String> {
    let mut text = String::new();
    let mut file = File::open(path).ok()?.take(LONGEST);
    file.read_to_string(&mut text).ok()?;
    Some(text)
}

impl Visit<'_> {
    /// Tells the highest rate of a connection in both directions.
    pub(super) async fn buffers(&mut self, client: &Client) {
        let peer = client.control.peer();
        if peer.is_loopback() {
            let fact = "the server is on this host, where buffers bound no rate";
            return self.tell(Finding::ok(TOPIC, fact));
        }
        let begun = Instant::now();
        let asked = tokio::time::timeout(self.limit, client.ask(Command::Noop)).await;
        let answered = matches!(asked, Ok(Ok(_))).then(|| begun.elapsed());
        let kernel = client.link.get::<PathStats>();
        let kernel = kernel.and_then(|path| path.round_trip);
        // The server, and the start of ssh, only add to it.
        let known = answered.into_iter().chain(kernel);
        let round_trip = known.fold(client.round_trip(), Duration::min);
        let reading = tokio::task::spawn_blocking(move || {
            let limits = [Side::Receive, Side::Send].map(|side| (side, Limits::read(side)));
            (limits, Interface::towards(peer))
        });
        let Ok((limits, interface)) = reading.await else {
            return;
        };
        let asked = self.options.tcp_buffer;
        for (side, limits) in limits {
            self.tell(judge(side, limits, asked, (round_trip, interface.as_ref())));
        }
    }
}

/// Judges the buffers of one side; a caller may have `asked` for buffers of so many bytes.
fn judge(
    side: Side,
    limits: Limits,
    asked: Option<u64>,
    (round_trip, interface): (Duration, Option<&Interface>),
) -> Finding {
    let transfers = side.transfers();
    let unknown = |name: String| {
        let fact = format!("{transfers}: the kernel does not tell {name}");
        Finding::skip(TOPIC, fact)
    };
    let (window, place) = match (asked, limits) {
        // Of a buffer that is asked for, the kernel adds as much again for its own records.
        (
            Some(asked),
            Limits {
                asked: Some(most), ..
            },
        ) => {
            let most = most.min(asked);
            (most, format!("a buffer of {most} bytes"))
        }
        (Some(_), _) => return unknown(format!("net.core.{}", side.asked())),
        // The kernel's own records are about as large as the data.
        (
            None,
            Limits {
                tuned: Some(tuned), ..
            },
        ) => {
            let place = format!("net.ipv4.{} up to {} bytes", side.tuned(), tuned.most);
            (tuned.most / 2, place)
        }
        (None, _) => return unknown(format!("net.ipv4.{}", side.tuned())),
    };
    let bits = rate(window, round_trip);
    let fact = format!(
        "{transfers}: about {} over one connection, by {place} at a round trip of {round_trip:.1?}{}",
        in_words(bits),
        interface.map_or_else(String::new, |it| {
            format!("; {} has {}", it.name, in_words(it.bits))
        })
    );
    let wanted = interface.map_or(ENOUGH, |interface| interface.bits);
    if bits >= wanted || window >= LARGEST / 2 {
        return Finding::ok(TOPIC, fact);
    }
    let enough = needed(round_trip, wanted);
    let remedy = match (asked, limits.tuned) {
        (None, Some(tuned)) => format!(
            "as root: sysctl -w net.ipv4.{}=\"{} {} {}\"",
            side.tuned(),
            tuned.least,
            tuned.first,
            enough.saturating_mul(2).max(tuned.most)
        ),
        _ if limits.asked.is_some_and(|most| most < enough) => format!(
            "ask for {enough} bytes, and as root: sysctl -w net.core.{}={enough}",
            side.asked()
        ),
        _ => format!("ask for {enough} bytes, or leave the size of buffers to the kernel"),
    };
    let remedy = format!("{remedy}; the other end needs as much");
    Finding::warn(TOPIC, fact, remedy)
}

/// Bits a second of a connection that has a window of bytes in flight at most.
fn rate(window: u64, round_trip: Duration) -> u128 {
    u128::from(window) * 8 * NANOS / round_trip.as_nanos().max(1)
}

/// The window in bytes for so many bits a second, as a power of two.
fn needed(round_trip: Duration, bits: u128) -> u64 {
    let bytes = bits
        .saturating_mul(round_trip.as_nanos())
        .div_ceil(8 * NANOS);
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX).min(LARGEST / 2);
    bytes.next_power_of_two()
}

fn in_words(bits: u128) -> String {
    let (unit, tenth) = match bits {
        1_000_000_000.. => ("Gbit/s", 100_000_000),
        _ => ("Mbit/s", 100_000),
    };
    let tenths = bits / tenth;
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use gsi::finding::Verdict;

    use super::*;

    const DEFAULT: &str = "4096\t131072\t6291456\n";

    fn of(text: &str, most: Option<u64>, asked: Option<u64>, millis: u64) -> Finding {
        let limits = Limits {
            tuned: Tuned::parse(text),
            asked: most,
        };
        let path = (Duration::from_millis(millis), None);
        judge(Side::Receive, limits, asked, path)
    }

    #[test]
    fn the_rate_of_the_interface_is_wanted_where_it_is_known() {
        let at = |megabits: u128, most: u64| {
            let interface = Interface {
                name: "eth0".to_owned(),
                bits: megabits * 1_000_000,
            };
            let limits = Limits {
                tuned: Tuned::parse(&format!("4096 131072 {most}")),
                asked: None,
            };
            let path = (Duration::from_millis(10), Some(&interface));
            judge(Side::Receive, limits, None, path)
        };
        // 2.5 Gbit/s of 10.
        let slow = at(10_000, 6 << 20);
        assert_eq!(slow.verdict, Verdict::Warn);
        assert!(slow.fact.ends_with("; eth0 has 10.0 Gbit/s"), "{slow}");
        let remedy = slow.remedy.unwrap();
        assert!(remedy.contains("4096 131072 33554432"), "{remedy}");
        assert_eq!(at(10_000, 32 << 20).verdict, Verdict::Ok);
        assert_eq!(at(100, 512 << 10).verdict, Verdict::Ok);
        // No remedy names more.
        assert_eq!(at(4_000_000, 1 << 30).verdict, Verdict::Ok);
    }

    #[test]
    fn a_long_path_needs_larger_buffers() {
        // 3 MiB in flight.
        let near = of(DEFAULT, None, None, 10);
        assert_eq!(near.verdict, Verdict::Ok);
        assert!(near.fact.contains("about 2.5 Gbit/s"), "{near}");
        let far = of(DEFAULT, None, None, 100);
        assert_eq!(far.verdict, Verdict::Warn);
        assert!(far.fact.contains("about 251.6 Mbit/s"), "{far}");
        let remedy = far.remedy.unwrap();
        let line = "sysctl -w net.ipv4.tcp_rmem=\"4096 131072 33554432\"";
        assert!(remedy.contains(line), "{remedy}");
        // The maximum of the remedy is enough.
        let then = of("4096 131072 33554432", None, None, 100);
        assert_eq!(then.verdict, Verdict::Ok, "{then}");
    }

    #[test]
    fn buffers_that_are_asked_for_have_a_limit_of_their_own() {
        let bound = of(DEFAULT, Some(212_992), Some(64 << 20), 100);
        assert_eq!(bound.verdict, Verdict::Warn);
        assert!(bound.fact.contains("a buffer of 212992 bytes"), "{bound}");
        let remedy = bound.remedy.unwrap();
        assert!(
            remedy.contains("sysctl -w net.core.rmem_max=16777216"),
            "{remedy}"
        );
        let small = of(DEFAULT, Some(64 << 20), Some(1 << 20), 100);
        let remedy = small.remedy.unwrap();
        assert!(remedy.starts_with("ask for 16777216 bytes, or"), "{remedy}");
        let large = of(DEFAULT, Some(64 << 20), Some(16 << 20), 100);
        assert_eq!(large.verdict, Verdict::Ok, "{large}");
    }

    #[test]
    fn a_kernel_that_tells_nothing_is_no_fault() {
        for text in ["", "4096 131072", "4096 many 6291456", "-1 0 1"] {
            assert_eq!(of(text, None, None, 100).verdict, Verdict::Skip, "{text}");
        }
        // As in a container, which has no bound of its own.
        let hidden = of(DEFAULT, None, Some(64 << 20), 100);
        assert_eq!(hidden.verdict, Verdict::Skip, "{hidden}");
        assert_eq!(read("/proc/sys/net/ipv4/no_such_file"), None);
    }

    #[test]
    fn the_shortest_and_the_longest_round_trips_have_a_rate() {
        assert!(rate(u64::MAX, Duration::ZERO) > ENOUGH);
        assert_eq!(rate(1, Duration::MAX), 0);
        assert_eq!(needed(Duration::ZERO, ENOUGH), 1);
        assert_eq!(needed(Duration::MAX, ENOUGH), LARGEST / 2);
    }
}
