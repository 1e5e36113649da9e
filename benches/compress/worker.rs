//! The two ends of a transfer, each a process, so that they can run in different network
//! namespaces.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use xio_core::{DynStack, Incoming, Listener, Passive, Registry, Target, Transport};

use crate::run::runtime;

/// Longest duration of one end.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs a worker if the arguments are those of one.
pub(crate) fn run(words: &[String]) -> Option<Result<()>> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Some(match words.as_slice() {
        ["receive", stack, at, streams] => end(receive(stack, at, streams)),
        ["send", stack, to, streams, file, block, seconds] => {
            end(send(stack, to, streams, file, block, seconds))
        }
        _ => return None,
    })
}

fn end(work: impl Future<Output = Result<()>>) -> Result<()> {
    runtime().block_on(async {
        tokio::time::timeout(LIMIT, work)
            .await
            .context("took too long")?
    })
}

fn stack(text: &str) -> Result<DynStack> {
    let mut registry = Registry::new();
    registry
        .register(xio_tcp::driver())
        .register(xio_compress::driver());
    Ok(registry.stack(text)?)
}

/// Prints its address, receives `streams`, and prints their bytes and seconds.
async fn receive(text: &str, at: &str, streams: &str) -> Result<()> {
    let mut listener = stack(text)?.listen(&at.parse::<Target>()?).await?;
    println!(
        "{}",
        listener.info().local.context("a listener has an address")?
    );
    std::io::stdout().flush()?;
    let mut work = JoinSet::new();
    for _ in 0..streams.parse::<usize>()? {
        let incoming = listener.accept().await?;
        work.spawn(async move {
            let mut stream = incoming.open().await?;
            let mut buf = vec![0; 256 << 10];
            let mut first = None;
            let mut total = 0;
            loop {
                match stream.read(&mut buf).await? {
                    0 => break,
                    n => total += n,
                }
                // The clock starts with the first bytes, which are not counted.
                if first.is_none() {
                    first = Some(Instant::now());
                    total = 0;
                }
            }
            Ok::<_, anyhow::Error>((total, first.context("no byte arrived")?, Instant::now()))
        });
    }
    let (mut total, mut first, mut last) = (0, Instant::now(), None);
    while let Some(done) = work.join_next().await {
        let (bytes, began, ended) = done??;
        total += bytes;
        first = first.min(began);
        last = last.max(Some(ended));
    }
    let time = last
        .context("no stream was opened")?
        .saturating_duration_since(first);
    println!("{total} {}", time.as_secs_f64());
    Ok(())
}

/// Sends a file repeatedly, in writes of one block, until the time is over.
async fn send(
    text: &str,
    to: &str,
    streams: &str,
    file: &str,
    block: &str,
    seconds: &str,
) -> Result<()> {
    let bytes: &'static [u8] = std::fs::read(file)?.leak();
    let block: usize = block.parse()?;
    let time = Duration::from_secs_f64(seconds.parse()?);
    ensure!(!bytes.is_empty() && block > 0, "nothing to send");
    let stack = stack(text)?;
    let mut work = JoinSet::new();
    for number in 0..streams.parse::<usize>()? {
        let mut stream = stack.connect(&to.parse::<Target>()?).await?;
        work.spawn(async move {
            let ends = Instant::now() + time;
            // Each stream starts at another offset of the data.
            let mut at = bytes.len() / 7 * number % bytes.len();
            while Instant::now() < ends {
                let rest = bytes.get(at..).unwrap_or_default();
                let now = rest.get(..block).unwrap_or(rest);
                stream.write_all(now).await?;
                at = (at + now.len()) % bytes.len();
            }
            stream.shutdown().await?;
            Ok::<_, anyhow::Error>(())
        });
    }
    while let Some(done) = work.join_next().await {
        done??;
    }
    if streams == "0" {
        bail!("no streams");
    }
    Ok(())
}
