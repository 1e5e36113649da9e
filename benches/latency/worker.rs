//! The two ends of a figure, each a process, so that they can live in different network namespaces.

use std::io::{BufRead, BufReader, Lines, Write};
use std::net::IpAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use workspace_benches::machine;
use workspace_benches::middle::Lot;

use crate::pipes::{accept, connect};
use crate::talk::{Ask, Order};

/// Variants of a figure.
pub(crate) const VARIANTS: usize = 4;
/// Longest message, in bytes.
pub(crate) const LARGEST: usize = 10_000_000;
/// Bytes that pass in one slice of throughput.
pub(crate) const BULK: usize = 32_000_000;

/// Carries out the words if they are those of a worker.
pub(crate) fn run(words: &[String]) -> Option<Result<()>> {
    match words.split_first()? {
        (first, rest) if first == "far" => Some(far(rest)),
        (first, rest) if first == "near" => Some(near(rest)),
        _ => None,
    }
}

/// Says where it waits for each variant, and answers until the other end has gone.
fn far(words: &[String]) -> Result<()> {
    let [pin, at, variants @ ..] = words else {
        anyhow::bail!("far takes more words");
    };
    pin_if(pin);
    let at: IpAddr = at.parse()?;
    let shared = Arc::new(Mutex::new(vec![1; LARGEST]));
    let mut ends = Vec::new();
    for variant in variants {
        let (tell, place) = mpsc::channel();
        let (variant, shared) = (variant.clone(), Arc::clone(&shared));
        ends.push(thread::spawn(move || {
            let mut answer = accept(&variant, at, &tell)?;
            while answer(&shared)? {}
            anyhow::Ok(())
        }));
        match place.recv() {
            Ok(place) => println!("{place}"),
            // It has ended before it listened.
            Err(_) => break,
        }
    }
    std::io::stdout().flush()?;
    for end in ends {
        end.join().ok().context("an end panicked")??;
    }
    Ok(())
}

/// Asks through each variant in turns, and says in a line each what a unit took: size, then seconds.
fn near(words: &[String]) -> Result<()> {
    let [pin, way, turns, slice, sizes, pairs @ ..] = words else {
        anyhow::bail!("near takes more words");
    };
    pin_if(pin);
    let bulk = way == "bulk";
    let (turns, slice): (usize, f64) = (turns.parse()?, slice.parse()?);
    let slice = Duration::from_secs_f64(slice);
    let mut asks = Vec::new();
    for pair in pairs.chunks_exact(2) {
        let [variant, to] = pair else { continue };
        asks.push(connect(variant, to.parse()?)?);
    }
    let mut buffer = vec![1; LARGEST];
    let mut lot = Lot::default();
    for size in sizes.split(',') {
        let size = size.parse()?;
        let message = buffer.get_mut(..size).context("a size that is too large")?;
        let mut order = Order {
            bulk,
            size,
            times: if bulk { (BULK / size).max(1) } else { 1 },
        };
        // Windows open, and caches fill, before anything counts.
        for ask in &mut asks {
            ask(order, message)?;
        }
        if !bulk {
            order = fit(&mut asks, order, message, slice)?;
        }
        for _ in 0..turns {
            let mut seconds = [f64::NAN; VARIANTS];
            for at in lot.order::<VARIANTS>() {
                if let (Some(ask), Some(seconds)) = (asks.get_mut(at), seconds.get_mut(at)) {
                    *seconds = ask(order, message)?.as_secs_f64() / order.times as f64;
                }
            }
            let seconds = seconds.map(|seconds| seconds.to_string());
            println!("{size} {}", seconds.join(" "));
        }
    }
    Ok(())
}

/// Repeats an order until it fills a slice.
fn fit(asks: &mut [Ask], order: Order, message: &mut [u8], slice: Duration) -> Result<Order> {
    let mut order = order;
    if let Some(first) = asks.first_mut() {
        while order.times < 1 << 16 && first(order, message)? < slice {
            order.times *= 2;
        }
    }
    Ok(order)
}

fn pin_if(word: &str) {
    if word == "pin" && !machine::stay_on_one() {
        eprintln!("not on one processor: expect noise");
    }
}

/// A worker as the bench sees it; ended when dropped.
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

    /// The next line that it says; nothing when it has ended well.
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
