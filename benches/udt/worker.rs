//! Both ends of our flows, each a process, so that they can run in different network namespaces.

use std::fmt;
use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Builder;
use tokio::time::timeout;
use xio::udt::Stats;
use xio_core::{Incoming, Listener, Passive, PathStats, Stream, Target, Transport};

use crate::flow::TENTH;
use crate::pour;

/// Bytes of each call, as in the program of libudt.
const BLOCK: usize = 256 << 10;
/// Longest time of a transfer.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);

/// Runs a worker if the arguments are those of one.
pub(crate) fn run(words: &[String]) -> Option<Result<()>> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Some(match words.as_slice() {
        ["receive", "datagrams", _, at] => pour::receive(at),
        ["send", "datagrams", megabits, to, amount] => pour::send(megabits, to, amount),
        ["receive", stack, at] => end(receive(stack, at)),
        ["send", stack, to, amount] => end(send(stack, to, amount)),
        _ => return None,
    })
}

fn end(work: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(work)
}

/// Prints the local address, and at the end the bytes of each tenth of a second.
async fn receive(stack: &str, at: &str) -> Result<()> {
    let stack = xio::registry().stack(stack)?;
    let at = SocketAddr::new(at.parse()?, 0);
    let mut listener = stack.listen(&at.into()).await?;
    let local = listener.info().local;
    say(&local.context("a listener has an address")?.to_string())?;
    let mut stream = timeout(LIMIT, async { listener.accept().await?.open().await })
        .await
        .context("no connection was established in time")??;
    let mut tally = Tally::new()?;
    let done = timeout(LIMIT, drain(&mut stream, &mut tally)).await;
    done.with_context(|| stalled("receiver", &stream))?;
    say(&tally.to_string())
}

/// Reads until the end.
async fn drain(stream: &mut impl Stream, tally: &mut Tally) {
    let mut block = vec![0; BLOCK];
    // An error counts as the end, since the sender checks that all arrived: libudt announces its
    // end once, and that packet may be lost.
    while let Ok(n @ 1..) = stream.read(&mut block).await {
        tally.add(n);
    }
}

/// Sends for a time, as `30s`, or a number of bytes; prints the time until all was acknowledged.
async fn send(stack: &str, to: &str, amount: &str) -> Result<()> {
    let stack = xio::registry().stack(stack)?;
    let to = to.parse::<Target>()?;
    let tally = Tally::new()?;
    let mut stream = timeout(LIMIT, stack.connect(&to))
        .await
        .context("no connection was established in time")??;
    let done = timeout(LIMIT, fill(&mut stream, amount)).await;
    done.with_context(|| stalled("sender", &stream))??;
    let info = stream.info();
    let path = info.get::<PathStats>();
    tally.took(path.and_then(|path| path.sent.zip(path.retransmitted)))
}

/// Sends the amount and waits until it is acknowledged.
async fn fill(stream: &mut impl Stream, amount: &str) -> Result<()> {
    let block = vec![b'x'; BLOCK];
    if let Some(seconds) = amount.strip_suffix('s') {
        let time = Duration::from_secs_f64(seconds.parse()?);
        let clock = Instant::now();
        while clock.elapsed() < time {
            stream.write_all(&block).await?;
        }
    } else {
        let mut left: usize = amount.parse()?;
        while left > 0 {
            let now = block.get(..left).unwrap_or(&block);
            stream.write_all(now).await?;
            left -= now.len();
        }
    }
    Ok(stream.shutdown().await?)
}

/// Describes an end that did not finish in time.
pub(crate) fn stalled(end: &str, stream: &impl Stream) -> String {
    let info = stream.info();
    let (path, stats) = (info.get::<PathStats>(), info.get::<Stats>());
    format!("the {end} did not finish in time: {info}, {path:?}, {stats:?}")
}

/// Prints a line for the parent process.
pub(crate) fn say(line: &str) -> Result<()> {
    println!("{line}");
    Ok(std::io::stdout().flush()?)
}

/// Bytes received in each tenth of a second.
pub(crate) struct Tally {
    /// Time since 1970.
    began: Duration,
    clock: Instant,
    tenths: Vec<u64>,
}

impl Tally {
    /// Starts the clock.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            began: SystemTime::now().duration_since(UNIX_EPOCH)?,
            clock: Instant::now(),
            tenths: Vec::new(),
        })
    }

    /// Counts bytes received now.
    pub(crate) fn add(&mut self, bytes: usize) {
        let at = self.clock.elapsed().as_millis() / TENTH.as_millis();
        let at = usize::try_from(at).unwrap_or_default();
        if self.tenths.len() <= at {
            self.tenths.resize(at + 1, 0);
        }
        if let Some(tenth) = self.tenths.get_mut(at) {
            *tenth += bytes as u64;
        }
    }

    /// Prints the start, the time until now, and the packets sent and retransmitted, if known.
    pub(crate) fn took(&self, packets: Option<(u64, u64)>) -> Result<()> {
        let took = self.clock.elapsed().as_secs_f64();
        let (sent, again) = packets.unwrap_or_default();
        say(&format!(
            "{} {took:.4} {sent} {again}",
            self.began.as_millis()
        ))
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.began.as_millis())?;
        self.tenths
            .iter()
            .try_for_each(|bytes| write!(f, " {bytes}"))
    }
}
