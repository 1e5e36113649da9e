//! `Flow`: what sends through what, between two processes, and what came of it.

use std::fmt;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use workspace_benches::usage::cpu_of_children;
use workspace_benches::way::Way;

/// How finely arrivals are told apart.
pub(crate) const TENTH: Duration = Duration::from_millis(100);

/// Whose program sends and receives.
#[derive(Clone, Debug)]
pub(crate) enum Flow {
    /// Ours, through a stack.
    Stack(&'static str),
    /// That of libudt.
    LibUdt(PathBuf),
    /// Bare datagrams, at so many megabits per second.
    Datagrams(u32),
}

/// What a flow came to.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// When the sender began, in seconds since 1970.
    pub(crate) began: f64,
    /// Seconds from the first word of the handshake to the last acknowledgement.
    pub(crate) took: f64,
    /// When bytes came: seconds since 1970, and bytes within the tenth of a second that begins there.
    pub(crate) arrivals: Vec<(f64, f64)>,
    /// Packets that were sent again, in percent of all; not a number where that is not known.
    pub(crate) again: f64,
    /// Processor seconds of both ends, where nothing else ran.
    pub(crate) cpu: f64,
}

impl Outcome {
    /// Bytes that came.
    pub(crate) fn bytes(&self) -> f64 {
        self.arrivals.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Megabits per second over all of it.
    pub(crate) fn megabits(&self) -> f64 {
        self.bytes() * 8e-6 / self.took.max(1e-9)
    }

    /// Megabits per second of what came between two times, in seconds since 1970.
    pub(crate) fn between(&self, from: f64, to: f64) -> f64 {
        let within = |(at, _): &&(f64, f64)| *at >= from && *at < to;
        let bytes: f64 = self.arrivals.iter().filter(within).map(|(_, b)| b).sum();
        bytes * 8e-6 / (to - from).max(1e-9)
    }
}

/// A flow on its way.
pub(crate) struct Running {
    name: String,
    receiver: Worker,
    said: Lines<BufReader<ChildStdout>>,
    sender: Worker,
    cpu_before: Duration,
}

/// Ends a worker that is still there when something failed.
struct Worker(Child);

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
    /// It as a picture's legend has room for it.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Stack(stack) => stack.trim_start_matches("udt:").to_owned(),
            Self::LibUdt(_) | Self::Datagrams(_) => self.to_string(),
        }
    }

    /// It as a part of the name of a file.
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

    /// Starts both ends, of which the far one is of another flow; `amount` is bytes, or seconds as `30s`.
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

    /// Carries it out.
    pub(crate) fn run(&self, way: &Way, amount: &str) -> Result<Outcome> {
        self.start(self, way, amount)?.finish()
    }
}

impl Running {
    /// Waits until both ends are done.
    pub(crate) fn finish(mut self) -> Result<Outcome> {
        let output = self.sender.0.stdout.take().context("its output is piped")?;
        let sent = BufReader::new(output).lines().next();
        let ended = self.sender.0.wait()?;
        ensure!(ended.success(), "{}: the sender: {ended}", self.name);
        let sent = sent.context("the sender said nothing")??;
        let came = self.said.next().context("the receiver said nothing")??;
        let ended = self.receiver.0.wait()?;
        ensure!(ended.success(), "{}: the receiver: {ended}", self.name);
        let [began, took, packets, again] = numbers(&sent)?[..] else {
            bail!("{}: the sender said {sent}", self.name);
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

/// The middle one.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
