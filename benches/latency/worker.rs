//! The two ends of a figure, each a process, so that they can run in different network namespaces.

use std::io::{BufRead, BufReader, Lines, Write};
use std::net::IpAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use workspace_benches::machine;
use workspace_benches::paired::Shuffle;

use crate::exchange::{Exchange, RunNear};
use crate::pipes::{accept, connect};

/// Number of variants of a figure.
pub(crate) const VARIANTS: usize = 4;
/// Longest message, in bytes.
pub(crate) const LARGEST: usize = 10_000_000;
/// Bytes of one slice of throughput.
pub(crate) const BULK: usize = 32_000_000;

/// Runs a worker if the arguments are those of one.
pub(crate) fn run(words: &[String]) -> Option<Result<()>> {
    match words.split_first()? {
        (first, rest) if first == "far" => Some(far(rest)),
        (first, rest) if first == "near" => Some(near(rest)),
        _ => None,
    }
}

/// Prints an address for each variant, and runs exchanges until the near end closes.
fn far(words: &[String]) -> Result<()> {
    let [pin, at, variants @ ..] = words else {
        anyhow::bail!("far takes more arguments");
    };
    pin_if(pin);
    let at: IpAddr = at.parse()?;
    let shared = Arc::new(Mutex::new(vec![1; LARGEST]));
    let mut ends = Vec::new();
    for variant in variants {
        let (tell, addr) = mpsc::channel();
        let (variant, shared) = (variant.clone(), Arc::clone(&shared));
        ends.push(thread::spawn(move || {
            let mut run_far = accept(&variant, at, &tell)?;
            while run_far(&shared)? {}
            anyhow::Ok(())
        }));
        match addr.recv() {
            Ok(addr) => println!("{addr}"),
            // It failed before it listened.
            Err(_) => break,
        }
    }
    std::io::stdout().flush()?;
    for end in ends {
        end.join().ok().context("an end panicked")??;
    }
    Ok(())
}

/// Runs the variants in turns, and prints a line for each turn: message size, then seconds of each.
fn near(words: &[String]) -> Result<()> {
    let [pin, way, turns, slice, sizes, pairs @ ..] = words else {
        anyhow::bail!("near takes more arguments");
    };
    pin_if(pin);
    let bulk = way == "bulk";
    let (turns, slice): (usize, f64) = (turns.parse()?, slice.parse()?);
    let slice = Duration::from_secs_f64(slice);
    let mut near_ends = Vec::new();
    for pair in pairs.chunks_exact(2) {
        let [variant, to] = pair else { continue };
        near_ends.push(connect(variant, to.parse()?)?);
    }
    let mut buffer = vec![1; LARGEST];
    let mut shuffle = Shuffle::default();
    for size in sizes.split(',') {
        let size = size.parse()?;
        let message = buffer
            .get_mut(..size)
            .context("the message size exceeds the buffer")?;
        let mut exchange = Exchange {
            bulk,
            size,
            times: if bulk { (BULK / size).max(1) } else { 1 },
        };
        // Opens windows and fills caches before the measurement.
        for near_end in &mut near_ends {
            near_end(exchange, message)?;
        }
        if !bulk {
            exchange = fit(&mut near_ends, exchange, message, slice)?;
        }
        for _ in 0..turns {
            let mut seconds = [f64::NAN; VARIANTS];
            for at in shuffle.shuffled::<VARIANTS>() {
                if let (Some(near_end), Some(seconds)) =
                    (near_ends.get_mut(at), seconds.get_mut(at))
                {
                    *seconds = near_end(exchange, message)?.as_secs_f64() / exchange.times as f64;
                }
            }
            let seconds = seconds.map(|seconds| seconds.to_string());
            println!("{size} {}", seconds.join(" "));
        }
    }
    Ok(())
}

/// Doubles the number of messages until an exchange fills a slice.
fn fit(
    near_ends: &mut [RunNear],
    exchange: Exchange,
    message: &mut [u8],
    slice: Duration,
) -> Result<Exchange> {
    let mut exchange = exchange;
    if let Some(first) = near_ends.first_mut() {
        while exchange.times < 1 << 16 && first(exchange, message)? < slice {
            exchange.times *= 2;
        }
    }
    Ok(exchange)
}

fn pin_if(word: &str) {
    if word == "pin" && !machine::pin_to_last_processor() {
        eprintln!("not pinned to one processor: expect noise");
    }
}

/// A running worker, killed when dropped.
pub(crate) struct Worker {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .context("start a worker")?;
        let output = child.stdout.take().context("its output is piped")?;
        let lines = BufReader::new(output).lines();
        Ok(Self { child, lines })
    }

    /// Returns the next line of output, or nothing when the worker has succeeded.
    pub(crate) fn line(&mut self) -> Result<Option<String>> {
        if let Some(line) = self.lines.next() {
            return Ok(Some(line?));
        }
        let status = self.child.wait()?;
        anyhow::ensure!(status.success(), "a worker failed: {status}");
        Ok(None)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
