//! `Flow`: a transfer between two processes, and `Outcome`, its measurements.

use std::fmt;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use workspace_benches::usage::cpu_of_children;
use workspace_benches::way::Way;

use crate::worker::LIMIT;

/// Time beyond its own limit after which a process is killed, and how often it is looked at.
const GRACE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(2);
/// Interval in which arrivals are counted.
pub(crate) const TENTH: Duration = Duration::from_millis(100);

/// The programs that send and receive.
#[derive(Clone, Debug)]
pub(crate) enum Flow {
    /// Ours, through a stack.
    Stack(&'static str),
    /// The program of libudt.
    LibUdt(PathBuf),
    /// Bare datagrams, at a rate in megabits per second.
    Datagrams(u32),
}

/// Measurements of a flow.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Start of the sender, in seconds since 1970.
    pub(crate) began: f64,
    /// Seconds from the first packet of the handshake to the last acknowledgement.
    pub(crate) took: f64,
    /// Tenths of a second by their start since 1970, and the bytes received in each.
    pub(crate) arrivals: Vec<(f64, f64)>,
    /// Retransmitted packets, in percent of all; not a number where unknown.
    pub(crate) again: f64,
    /// Processor seconds of both ends, and of all that ran at the same time.
    pub(crate) cpu: f64,
}

impl Outcome {
    /// Bytes received.
    pub(crate) fn bytes(&self) -> f64 {
        self.arrivals.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Megabits per second over the whole time.
    pub(crate) fn megabits(&self) -> f64 {
        self.bytes() * 8e-6 / self.took.max(1e-9)
    }

    /// Megabits per second received between two times, in seconds since 1970.
    pub(crate) fn between(&self, from: f64, to: f64) -> f64 {
        let within = |(at, _): &&(f64, f64)| *at >= from && *at < to;
        let bytes: f64 = self.arrivals.iter().filter(within).map(|(_, b)| b).sum();
        bytes * 8e-6 / (to - from).max(1e-9)
    }
}

/// A flow in progress.
pub(crate) struct Running {
    name: String,
    receiver: Worker,
    said: Lines<BufReader<ChildStdout>>,
    sender: Worker,
    cpu_before: Duration,
}

/// A process that is killed when its owner fails.
struct Worker(Child);

impl Worker {
    /// Waits until the process has ended well. Our own ends print their state before that limit.
    fn wait(&mut self) -> Result<()> {
        let limit = Instant::now() + LIMIT + GRACE;
        let ended = loop {
            if let Some(ended) = self.0.try_wait()? {
                break ended;
            }
            ensure!(Instant::now() < limit, "did not end in time");
            thread::sleep(POLL);
        };
        ensure!(ended.success(), "{ended}");
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stack(stack) => write!(f, "`{stack}`"),
            Self::LibUdt(_) => f.write_str("libudt"),
            Self::Datagrams(_) => f.write_str("bare datagrams"),
        }
    }
}

impl Flow {
    /// Short name for the legend of a picture.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Stack(stack) => stack.trim_start_matches("udt:").to_owned(),
            Self::LibUdt(_) | Self::Datagrams(_) => self.to_string(),
        }
    }

    /// Name as a part of a file name.
    pub(crate) fn word(&self) -> String {
        let text = self.to_string();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric());
        let words: Vec<_> = words.filter(|word| !["", "cc"].contains(word)).collect();
        words.join("-")
    }

    fn command(&self, word: &str, start: impl Fn(&Path) -> Command) -> Result<Command> {
        Ok(match self {
            Self::Stack(stack) => {
                let mut command = start(&std::env::current_exe()?);
                command.args([word, stack]);
                command
            }
            Self::LibUdt(program) => {
                let mut command = start(program);
                command.arg(word);
                command
            }
            Self::Datagrams(megabits) => {
                let mut command = start(&std::env::current_exe()?);
                command.args([word, "datagrams", &megabits.to_string()]);
                command
            }
        })
    }

    /// Starts both ends, the far one of the flow `receiver`; `amount` is bytes, or seconds as
    /// `30s`.
    pub(crate) fn start(&self, receiver: &Self, way: &Way, amount: &str) -> Result<Running> {
        let cpu_before = cpu_of_children()?;
        let mut receiver = receiver.command("receive", |program| way.far(program))?;
        receiver.arg(way.far_addr());
        let mut receiver = Worker(receiver.stdout(Stdio::piped()).spawn()?);
        let output = receiver.0.stdout.take().context("its output is piped")?;
        let mut said = BufReader::new(output).lines();
        let place = said.next().context("the receiver ended early")??;
        let mut sender = self.command("send", |program| way.near(program))?;
        let sender = sender
            .args([place.as_str(), amount])
            .stdout(Stdio::piped())
            .spawn()?;
        Ok(Running {
            name: format!("{self:?}"),
            receiver,
            said,
            sender: Worker(sender),
            cpu_before,
        })
    }

    /// Starts both ends of this flow and waits for them.
    pub(crate) fn run(&self, way: &Way, amount: &str) -> Result<Outcome> {
        self.start(self, way, amount)?.finish()
    }
}

impl Running {
    /// Waits until both ends are done, each within the limit: then their pipes hold all that they
    /// print.
    pub(crate) fn finish(mut self) -> Result<Outcome> {
        let output = self.sender.0.stdout.take().context("its output is piped")?;
        let name = &self.name;
        self.sender
            .wait()
            .with_context(|| format!("{name}: the sender"))?;
        let sent = BufReader::new(output).lines().next();
        let sent = sent.context("the sender printed nothing")??;
        self.receiver
            .wait()
            .with_context(|| format!("{name}: the receiver"))?;
        let came = self.said.next().context("the receiver printed nothing")??;
        let [began, took, packets, again] = numbers(&sent)?[..] else {
            bail!("{name}: the sender printed {sent}");
        };
        let came = numbers(&came)?;
        let (first, tenths) = came.split_first().context("no time")?;
        let at = |place: usize| first / 1e3 + TENTH.as_secs_f64() * real(place);
        Ok(Outcome {
            began: began / 1e3,
            took,
            again: again / packets * 100.0,
            arrivals: tenths
                .iter()
                .enumerate()
                .map(|(n, b)| (at(n), *b))
                .collect(),
            cpu: cpu_of_children()?
                .saturating_sub(self.cpu_before)
                .as_secs_f64(),
        })
    }
}

fn numbers(text: &str) -> Result<Vec<f64>> {
    text.split_whitespace()
        .map(|word| Ok(word.parse()?))
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn real(number: usize) -> f64 {
    number as f64
}

/// Returns the median.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
