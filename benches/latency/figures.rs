//! The figures: parameters, table and picture of each.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use workspace_benches::link::Link;
use workspace_benches::paired::Median;
use workspace_benches::picture::{Axis, Curve, Picture, bytes, number};
use workspace_benches::shape::Shape;
use workspace_tests::is_root;
use xio_testkit::Authority;

use crate::worker::{BULK, VARIANTS, Worker};
use crate::{Options, programs};

/// A link: bytes per second, and the one-way delay.
type Way = Option<(u64, Duration)>;

/// A local network.
const LAN: Way = Some((125_000_000, Duration::from_micros(100)));
/// An OC-12 line across a country.
const WAN: Way = Some((77_750_000, Duration::from_millis(15)));

/// One figure of the paper.
pub(crate) struct Figure {
    pub(crate) number: u16,
    what: &'static str,
    way: Way,
    bulk: bool,
    secured: bool,
    turns: usize,
    slice: f64,
}

const LATENCY: Figure = Figure {
    number: 1,
    what: "latency over loopback",
    way: None,
    bulk: false,
    secured: false,
    turns: 101,
    slice: 0.005,
};

pub(crate) const FIGURES: [Figure; 6] = [
    LATENCY,
    Figure {
        number: 2,
        what: "latency over a local network (1 Gbit/s, 0.2 ms there and back)",
        way: LAN,
        turns: 21,
        slice: 0.02,
        ..LATENCY
    },
    Figure {
        number: 3,
        what: "latency over a wide area (622 Mbit/s, 30 ms there and back)",
        way: WAN,
        turns: 11,
        slice: 0.0,
        ..LATENCY
    },
    Figure {
        number: 4,
        what: "throughput over a local network (1 Gbit/s, 0.2 ms there and back)",
        way: LAN,
        bulk: true,
        turns: 11,
        ..LATENCY
    },
    Figure {
        number: 5,
        what: "throughput over a wide area (622 Mbit/s, 30 ms there and back)",
        way: WAN,
        bulk: true,
        turns: 11,
        ..LATENCY
    },
    Figure {
        number: 6,
        what: "latency over loopback, secured by TLS",
        secured: true,
        ..LATENCY
    },
];

const MESSAGES: [usize; 7] = [1, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000];
/// Alternating runs of `globus-xioperf` and `xio-perf`, and the bytes of each.
const RUNS: usize = 5;
const RUN: usize = 3 * BULK;

/// Throughput of each run of `globus-xioperf` and `xio-perf`, by message size.
type Programs = BTreeMap<usize, [Vec<f64>; 2]>;

const SIZE: Axis = Axis {
    name: "bytes of a message",
    log: true,
    from_zero: false,
    label: bytes,
};

fn decimal(value: f64) -> String {
    match value {
        1e6.. => format!("{}M", number(value / 1e6)),
        1e3.. => format!("{}k", number(value / 1e3)),
        _ => number(value),
    }
}

/// A variant: its name in the table, and its argument of workers.
type Variant = (&'static str, String);

impl Figure {
    /// Returns whether the figure uses the emulated link.
    pub(crate) const fn is_far(&self) -> bool {
        self.way.is_some()
    }

    pub(crate) fn run(&self, options: &Options) -> Result<()> {
        if self.way.is_some() && !is_root() {
            println!(
                "\nFigure {}: SKIPPED, the emulated link needs root",
                self.number
            );
            return Ok(());
        }
        println!("\nFigure {}: {}\n", self.number, self.what);
        let folder = tempfile::tempdir()?;
        let variants = self.variants(folder.path());
        let link = self.way.map(|(rate, delay)| {
            // The queue exceeds any window, so that no packet is lost.
            let queue = Duration::from_secs(2);
            Link::new(Shape {
                queue,
                ..Shape::new(rate, delay)
            })
        });
        let link = link.transpose()?;
        let seen = self.measure(options, link.as_ref(), &variants)?;
        let mut curves: Vec<Curve> = variants
            .iter()
            .map(|(name, _)| Curve {
                name: (*name).to_owned(),
                points: Vec::new(),
            })
            .collect();
        let programs = match &link {
            Some(link) if self.bulk => run_programs(options, link, seen.keys().copied())?,
            _ => Programs::new(),
        };
        self.head(&variants, !programs.is_empty());
        for (size, turns) in &seen {
            let values = turns
                .each_ref()
                .map(|seconds| self.value(*size, median(seconds)));
            let [first, others @ ..] = turns;
            let [value, ..] = values;
            let mut cells = vec![format!("{value:.1}")];
            for these in others {
                // Throughput is the inverse of time.
                let (a, b) = if self.bulk {
                    (first, these)
                } else {
                    (these, first)
                };
                cells.push(Median::of(a, b).percent());
            }
            if let Some([theirs, ours]) = programs.get(size) {
                cells.push(format!("{:.1}", median(theirs)));
                cells.push(Median::of(ours, theirs).percent());
            }
            println!("| {} | {} |", decimal(*size as f64), cells.join(" | "));
            for (curve, value) in curves.iter_mut().zip(values) {
                curve.points.push((*size as f64, value));
            }
        }
        for (at, name) in ["globus-xioperf", "xio-perf"].into_iter().enumerate() {
            let of = |runs: &[Vec<f64>; 2]| runs.get(at).map_or(f64::NAN, |runs| median(runs));
            let points = programs.iter().map(|(size, runs)| (*size as f64, of(runs)));
            let points: Vec<_> = points.collect();
            if !points.is_empty() {
                curves.push(Curve {
                    name: name.into(),
                    points,
                });
            }
        }
        self.draw(options, curves)
    }

    /// Returns the variants; the others are compared with the first.
    fn variants(&self, folder: &Path) -> [Variant; VARIANTS] {
        if !self.secured {
            return [
                ("blocking socket", "socket".into()),
                ("tokio socket", "tokio".into()),
                ("stack `tcp`", "tcp".into()),
                ("stack `tcp,count,timeout`", "tcp,count,timeout".into()),
            ];
        }
        let authority = Authority::new("bench authority");
        let ca = authority.write(folder).display().to_string();
        let host = authority.issue("host", &["localhost"]);
        let host = host.write(folder, "host").display().to_string();
        let tls = format!("tcp,tls:ca={ca};cert={host};name=localhost");
        [
            (
                "rustls over a blocking socket",
                format!("rustls:{ca},{host}"),
            ),
            ("stack `tcp,tls`", tls.clone()),
            (
                "stack `tcp,tls,count,timeout`",
                format!("{tls},count,timeout"),
            ),
            ("blocking socket, in the clear", "socket".into()),
        ]
    }

    /// Returns the seconds of a message by size, variant and turn.
    fn measure(
        &self,
        options: &Options,
        link: Option<&Link>,
        variants: &[Variant; VARIANTS],
    ) -> Result<BTreeMap<usize, [Vec<f64>; VARIANTS]>> {
        let program = std::env::current_exe()?;
        let (mut far, mut near, at) = match link {
            Some(link) => (link.far(&program), link.near(&program), link.far_addr()),
            None => (
                Command::new(&program),
                Command::new(&program),
                Ipv4Addr::LOCALHOST.into(),
            ),
        };
        // Pinned to one processor, the time includes every instruction of both ends. The emulated
        // link needs the others.
        let pin = if link.is_none() { "pin" } else { "free" };
        far.args(["far", pin, &at.to_string()]);
        let mut far = Worker::start(far.args(variants.iter().map(|(_, word)| word)))?;
        let turns = options
            .turns
            .unwrap_or_else(|| if options.is_quick() { 1 } else { self.turns });
        let slice = if options.is_quick() { 0.0 } else { self.slice };
        let least = if self.bulk { 1000 } else { 1 };
        let most = if options.is_quick() {
            10_000
        } else {
            usize::MAX
        };
        let sizes: Vec<String> = MESSAGES
            .iter()
            .filter(|size| (least..=most).contains(*size))
            .map(ToString::to_string)
            .collect();
        near.args(["near", pin, if self.bulk { "bulk" } else { "ping" }]);
        near.args([turns.to_string(), slice.to_string(), sizes.join(",")]);
        for (_, word) in variants {
            near.arg(word);
            near.arg(far.line()?.context("the far end prints its address")?);
        }
        let mut near = Worker::start(&mut near)?;
        let mut seen = BTreeMap::<usize, [Vec<f64>; VARIANTS]>::new();
        while let Some(line) = near.line()? {
            let (size, seconds) = line.split_once(' ').context("a size")?;
            let seen = seen.entry(size.parse()?).or_default();
            for (seen, seconds) in seen.iter_mut().zip(seconds.split(' ')) {
                seen.push(seconds.parse()?);
            }
        }
        ensure!(far.line()?.is_none(), "unexpected output of the far end");
        Ok(seen)
    }

    /// Converts seconds of a message to one-way microseconds, or to megabits per second.
    fn value(&self, size: usize, seconds: f64) -> f64 {
        if self.bulk {
            size as f64 * 8.0 / 1e6 / seconds
        } else {
            seconds / 2.0 * 1e6
        }
    }

    fn head(&self, variants: &[Variant; VARIANTS], programs: bool) {
        let unit = if self.bulk { "Mbit/s" } else { "µs one way" };
        let [(first, _), others @ ..] = variants;
        let mut names: Vec<String> = others
            .iter()
            .map(|(name, _)| format!("{name}, %"))
            .collect();
        if programs {
            names.push("globus-xioperf, Mbit/s".into());
            names.push("xio-perf run_programs it, %".into());
        }
        println!("| Message | {first}, {unit} | {} |", names.join(" | "));
        println!("| --- | ---: |{}", " ---: |".repeat(names.len()));
    }

    fn draw(&self, options: &Options, curves: Vec<Curve>) -> Result<()> {
        let Some(folder) = &options.pictures else {
            return Ok(());
        };
        std::fs::create_dir_all(folder)?;
        let picture = Picture {
            title: format!("Figure {}: {}", self.number, self.what),
            x: SIZE,
            y: Axis {
                name: if self.bulk {
                    "Mbit/s"
                } else {
                    "microseconds one way"
                },
                log: !self.bulk,
                from_zero: self.bulk,
                label: decimal,
            },
            curves,
        };
        picture.draw(&folder.join(format!("latency-{}.svg", self.number)))
    }
}

/// Runs the two programs alternately, each over its own connections.
fn run_programs(
    options: &Options,
    link: &Link,
    sizes: impl Iterator<Item = usize>,
) -> Result<Programs> {
    let mut seen = Programs::new();
    for size in sizes {
        for _ in 0..if options.is_quick() { 1 } else { RUNS } {
            if let Some((theirs, ours)) = programs::megabits(link, size, RUN)? {
                let [all_theirs, all_ours] = seen.entry(size).or_default();
                all_theirs.push(theirs);
                all_ours.push(ours);
            }
        }
    }
    Ok(seen)
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
