//! One transfer between two processes: over a link of two namespaces, or over loopback.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::runtime::{Builder, Runtime};
use workspace_benches::link::Link;
use workspace_benches::shape::Shape;
use workspace_benches::usage::cpu_of_children;
use workspace_benches::way::Way;

/// Rate of the paper's local network in bytes per second (100 Mbit/s).
pub(crate) const PAPER_LINK: u64 = 100_000_000 / 8;

/// Returns a runtime with a thread for each processor.
pub(crate) fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Returns a link of `rate` bytes per second with a round trip of one millisecond.
pub(crate) fn link(rate: u64) -> Result<Way> {
    let shape = Shape::new(rate, Duration::from_micros(500));
    // The queue exceeds any window, so that no packet is lost.
    let queue = Duration::from_secs(10);
    Ok(Way::Link(Link::new(Shape { queue, ..shape })?))
}

/// Parameters of a transfer.
#[derive(Clone, Debug)]
pub(crate) struct Transfer<'a> {
    /// The stack of both ends.
    pub(crate) stack: &'a str,
    /// The data, which is sent repeatedly.
    pub(crate) file: &'a Path,
    /// Bytes of each write.
    pub(crate) block: usize,
    /// Number of parallel streams.
    pub(crate) streams: usize,
    /// Duration of the writes.
    pub(crate) time: Duration,
}

/// Result of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// Megabits of original data per second, measured by the receiver.
    pub(crate) megabits: f64,
    /// Processor seconds of both ends per gigabyte of original data.
    pub(crate) cpu: f64,
}

/// A worker process, killed when dropped.
struct Worker(Child);

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Transfer<'_> {
    /// Runs the transfer.
    pub(crate) fn run(&self, way: &Way) -> Result<Outcome> {
        let program = std::env::current_exe()?;
        let cpu_before = cpu_of_children()?;
        let streams = self.streams.to_string();
        let mut receiver = way.far(&program);
        receiver.args([
            "receive",
            self.stack,
            &format!("{}:0", way.far_addr()),
            &streams,
        ]);
        let mut receiver = Worker(receiver.stdout(Stdio::piped()).spawn()?);
        let mut lines =
            BufReader::new(receiver.0.stdout.take().context("its output is piped")?).lines();
        let mut line = || {
            lines
                .next()
                .context("the receiver exited early")?
                .context("read the receiver's output")
        };
        let place = line()?;
        let mut sender = way.near(&program);
        sender
            .args(["send", self.stack, &place, &streams])
            .arg(self.file)
            .args([self.block.to_string(), self.time.as_secs_f64().to_string()]);
        let sent = sender.status()?;
        ensure!(sent.success(), "{}: the sender: {sent}", self.stack);
        let result = line()?;
        let ended = receiver.0.wait()?;
        ensure!(ended.success(), "{}: the receiver: {ended}", self.stack);
        let (bytes, seconds) = result.split_once(' ').context("bytes and seconds")?;
        let (bytes, seconds): (f64, f64) = (bytes.parse()?, seconds.parse()?);
        let cpu = cpu_of_children()?.saturating_sub(cpu_before).as_secs_f64();
        Ok(Outcome {
            megabits: bytes * 8.0 / seconds.max(1e-9) / 1e6,
            cpu: cpu / bytes.max(1.0) * 1e9,
        })
    }
}

/// Runs the transfers in turn, `runs` times each, and returns the median of each field.
pub(crate) fn medians(way: &Way, runs: usize, transfers: &[Transfer<'_>]) -> Result<Vec<Outcome>> {
    let mut outcomes = vec![Vec::new(); transfers.len()];
    for _ in 0..runs {
        for (transfer, seen) in transfers.iter().zip(&mut outcomes) {
            seen.push(transfer.run(way)?);
        }
    }
    let middle = |seen: &[Outcome], field: fn(&Outcome) -> f64| {
        let mut values: Vec<f64> = seen.iter().map(field).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    Ok(outcomes
        .iter()
        .map(|seen| Outcome {
            megabits: middle(seen, |o| o.megabits),
            cpu: middle(seen, |o| o.cpu),
        })
        .collect())
}
