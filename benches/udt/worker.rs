//! The two ends of our flows, each a process, so that they can live in different network namespaces.

use std::fmt;
use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Builder;
use xio_core::{Incoming, Listener, Passive, PathStats, Target, Transport};

use crate::flow::TENTH;
use crate::pour;

/// Bytes of each call, as the program of libudt has it.
const BLOCK: usize = 256 << 10;
/// Longest that any end may take.
const LIMIT: Duration = Duration::from_secs(300);

/// Carries out the words if they are those of a worker.
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
    runtime.block_on(async {
        tokio::time::timeout(LIMIT, work)
            .await
            .context("took too long")?
    })
}

/// Says where it listens, and in the end what came when.
async fn receive(stack: &str, at: &str) -> Result<()> {
    let stack = xio::registry().stack(stack)?;
    let at = SocketAddr::new(at.parse()?, 0);
    let mut listener = stack.listen(&at.into()).await?;
    let local = listener.info().local;
    say(&local.context("a listener has an address")?.to_string())?;
    let mut stream = listener.accept().await?.open().await?;
    let mut block = vec![0; BLOCK];
    let mut tally = Tally::new()?;
    loop {
        match stream.read(&mut block).await {
            // The sender knows what has come. libudt says the end once, and that may be lost.
            Ok(0) | Err(_) => break,
            Ok(n) => tally.add(n),
        }
    }
    say(&tally.to_string())
}

/// Sends for a time, as `30s`, or so many bytes, and says how long it took until all was acknowledged.
async fn send(stack: &str, to: &str, amount: &str) -> Result<()> {
    let stack = xio::registry().stack(stack)?;
    let block = vec![b'x'; BLOCK];
    let tally = Tally::new()?;
    let mut stream = stack.connect(&to.parse::<Target>()?).await?;
    if let Some(seconds) = amount.strip_suffix('s') {
        let time = Duration::from_secs_f64(seconds.parse()?);
        while tally.clock.elapsed() < time {
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
    stream.shutdown().await?;
    let info = stream.info();
    let path = info.get::<PathStats>();
    tally.took(path.and_then(|path| path.sent.zip(path.retransmitted)))
}

/// Says a line to whoever started this.
pub(crate) fn say(line: &str) -> Result<()> {
    println!("{line}");
    Ok(std::io::stdout().flush()?)
}

/// What came in each tenth of a second.
pub(crate) struct Tally {
    /// Since 1970.
    began: Duration,
    clock: Instant,
    tenths: Vec<u64>,
}

impl Tally {
    /// Begins now.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            began: SystemTime::now().duration_since(UNIX_EPOCH)?,
            clock: Instant::now(),
            tenths: Vec::new(),
        })
    }

    /// Notes bytes that came now.
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

    /// Says when it began, how long it took until now, and how many packets went out, and again, if known.
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
