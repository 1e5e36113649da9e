//! Many short transfers on loopback between two worker threads, to find one that stalls.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Builder;
use tokio::time::timeout;
use xio_core::{Incoming, Listener, Passive, Target, Transport};

use crate::options::Options;
use crate::worker::stalled;

/// Bytes of a transfer.
const AMOUNT: usize = 16 << 20;
/// Longest time of a transfer.
const LIMIT: Duration = Duration::from_secs(20);

/// Runs the transfers; fails at the first that stalls, with the state of both ends.
pub(crate) fn run(options: &Options) -> Result<()> {
    let runs = options.runs(1000);
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let data: Arc<[u8]> = vec![b'x'; AMOUNT].into();
    let mut longest = Duration::ZERO;
    for run in 1..=runs {
        let clock = Instant::now();
        let done = runtime.block_on(transfer(Arc::clone(&data)));
        done.with_context(|| format!("transfer {run} of {runs}"))?;
        longest = longest.max(clock.elapsed());
    }
    println!(
        "\nLoopback, {runs} transfers of {} MiB between two worker threads: none stalled, the longest took {:.2} s.",
        AMOUNT >> 20,
        longest.as_secs_f64()
    );
    Ok(())
}

async fn transfer(data: Arc<[u8]>) -> Result<()> {
    let stack = xio::registry().stack("udt")?;
    let mut listener = stack.listen(&"127.0.0.1:0".parse()?).await?;
    let to = Target::from(listener.info().local.context("a listener has an address")?);
    let opening = async {
        let far = async { listener.accept().await?.open().await };
        tokio::try_join!(stack.connect(&to), far)
    };
    let opened = timeout(LIMIT, opening).await;
    let (mut near, mut far) = opened.context("no connection was established in time")??;
    let sending = tokio::spawn(async move {
        let work = async {
            near.write_all(&data).await?;
            near.shutdown().await
        };
        let done = timeout(LIMIT, work).await;
        done.with_context(|| stalled("sender", &near))?
            .context("the sender failed")
    });
    let receiving = tokio::spawn(async move {
        let mut block = vec![0; 256 << 10];
        let mut received = 0;
        let work = async {
            while let n @ 1.. = far.read(&mut block).await? {
                received += n;
            }
            std::io::Result::Ok(())
        };
        let done = timeout(LIMIT, work).await;
        done.with_context(|| stalled(&format!("receiver, after {received} bytes,"), &far))?
            .context("the receiver failed")?;
        ensure!(received == AMOUNT, "received {received} of {AMOUNT} bytes");
        anyhow::Ok(())
    });
    // Both ends report before either error is returned.
    let (sent, received) = (sending.await?, receiving.await?);
    match (sent, received) {
        (Err(sent), Err(received)) => Err(received.context(format!("{sent:#}"))),
        (sent, received) => sent.and(received),
    }
}
