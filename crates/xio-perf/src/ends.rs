//! The two ends: `serve` accepts sessions, `run` opens one.

use std::future::{Future, poll_fn};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;
use xio::{BoxIncoming, BoxStream, Incoming, Listener, Passive, Stream, Transport};

use crate::budget::Budget;
use crate::flags::{Run, Serve, Shape};
use crate::flow::{Activity, Work};
use crate::payload::Payload;
use crate::report::{self, Report};
use crate::tally::Tally;

/// Longest duration of a connection's handshakes at either end.
const OPENING: Duration = Duration::from_secs(30);
/// Duration of a run without limits.
const DEFAULT_TIME: Duration = Duration::from_secs(10);

/// The result of one connection.
type Ended = anyhow::Result<()>;

/// Runs one session: connects, transfers, reports.
pub(crate) async fn run(flags: &Run) -> anyhow::Result<()> {
    let shape = &flags.shape;
    let streams = usize::try_from(flags.streams).unwrap_or(usize::MAX);
    refuse_shared_file(shape, streams)?;
    let stack = stack(shape)?;
    let payload = payload(shape);
    // All are opened before the first byte, so that the other end counts them as one session.
    let mut opened = Vec::new();
    for _ in 0..streams {
        let opening = timeout(OPENING, stack.connect(&flags.connect));
        opened.push(opening.await.context("connecting took over 30 s")??);
    }
    let activity = match (shape.reverse, shape.both, shape.ping) {
        (true, ..) => Activity::Receive,
        (_, true, _) => Activity::Both,
        (.., true) => Activity::Ping,
        _ => Activity::Send,
    };
    let unlimited = shape.bytes.is_none() && shape.file.is_none();
    let time = shape.time.or_else(|| unlimited.then_some(DEFAULT_TIME));
    // This end sends the file, unless the direction is reversed.
    let files = turned(shape.reverse, (shape.file.clone(), None));
    let work = Arc::new(work(shape, activity, files, time, payload));
    let mut report = Report::begin("run", shape, opened.first().map(Stream::info), &work.tally);
    let mut running = JoinSet::new();
    for stream in opened {
        let work = Arc::clone(&work);
        running.spawn(async move { work.run(stream).await.map_err(Into::into) });
    }
    let mut outcome = Ok(());
    while let Some(ended) = report.watch(&work.tally, running.join_next()).await {
        outcome = outcome.and_then(|()| flatten(ended));
        if outcome.is_err() {
            running.abort_all();
        }
    }
    let outcome = outcome.and_then(|()| work.complete());
    report.end(&work.tally, &outcome);
    outcome
}

/// Accepts sessions and runs the listening end of them.
pub(crate) async fn serve(flags: &Serve) -> anyhow::Result<()> {
    let shape = &flags.shape;
    let stack = stack(shape)?;
    let payload = payload(shape);
    let mut listener = stack.listen(&flags.listen).await?;
    let contact = listener.info().contact();
    println!("listening on {}", contact.as_ref().unwrap_or(&flags.listen));
    let mut served = 0;
    while flags.sessions == 0 || served < flags.sessions {
        let outcome = session(shape, &mut listener, payload.clone()).await;
        match outcome {
            Ok(0) => {}
            Ok(_) => served += 1,
            Err(error) if flags.sessions == 1 => return Err(error),
            Err(error) => {
                served += 1;
                eprintln!("xio-perf: {}", report::chain(&error));
            }
        }
    }
    Ok(())
}

/// Runs all overlapping connections as one session, and returns the number of bytes.
async fn session<L>(shape: &Shape, listener: &mut L, payload: Payload) -> anyhow::Result<u64>
where
    L: Listener<Handle = BoxStream, Incoming = BoxIncoming>,
{
    let activity = match (shape.reverse, shape.both, shape.ping) {
        (true, ..) => Activity::Send,
        (_, true, _) => Activity::Both,
        (.., true) => Activity::Echo,
        _ => Activity::Receive,
    };
    let first = listener.accept().await?;
    let files = turned(shape.reverse, (None, shape.file.clone()));
    let work = Arc::new(work(shape, activity, files, shape.time, payload));
    let mut report = Report::begin("serve", shape, Some(first.info()), &work.tally);
    let mut running = JoinSet::new();
    running.spawn(join(first, Arc::clone(&work)));
    let mut outcome = Ok(());
    let mut streams = 1;
    loop {
        let event = report
            .watch(&work.tally, next(listener, &mut running))
            .await;
        match event {
            Event::Joined(incoming) => {
                streams += 1;
                if let Err(error) = refuse_shared_file(shape, streams) {
                    outcome = outcome.and(Err(error));
                    running.abort_all();
                } else {
                    running.spawn(join(incoming?, Arc::clone(&work)));
                }
            }
            Event::Ended(ended) => {
                outcome = outcome.and_then(|()| flatten(ended));
                if outcome.is_err() {
                    running.abort_all();
                }
            }
            Event::Over => break,
        }
    }
    let bytes = work.tally.sent() + work.tally.received();
    if bytes > 0 {
        outcome = outcome.and_then(|()| work.complete());
    }
    if bytes > 0 || work.tally.streams() > 0 && outcome.is_err() {
        report.end(&work.tally, &outcome);
    } else if let Err(error) = &outcome {
        // A connection that fails before any data is not a session.
        eprintln!("xio-perf: refused: {}", report::chain(error));
        return Ok(0);
    }
    outcome.map(|()| bytes)
}

/// The next event of a session.
enum Event {
    Joined(xio::Result<BoxIncoming>),
    Ended(Result<Ended, JoinError>),
    Over,
}

/// Waits for the next event; a waiting peer is accepted before the session ends.
///
/// # Cancel safety
/// That of accepting and joining: no event is lost.
async fn next<L>(listener: &mut L, running: &mut JoinSet<Ended>) -> Event
where
    L: Listener<Handle = BoxStream, Incoming = BoxIncoming>,
{
    let mut accepting = pin!(listener.accept());
    poll_fn(|cx| {
        if let Poll::Ready(incoming) = accepting.as_mut().poll(cx) {
            return Poll::Ready(Event::Joined(incoming));
        }
        running.poll_join_next(cx).map(|ended| match ended {
            Some(ended) => Event::Ended(ended),
            None => Event::Over,
        })
    })
    .await
}

async fn join(incoming: BoxIncoming, work: Arc<Work>) -> Ended {
    let opening = timeout(OPENING, incoming.open());
    let stream = opening.await.context("the peer took over 30 s to open")??;
    work.run(stream).await?;
    Ok(())
}

/// Returns the stack of the flags, from every driver.
fn stack(shape: &Shape) -> xio::Result<xio::DynStack> {
    let mut registry = xio::registry();
    registry.register(xio_gridftp::driver());
    registry.stack(&shape.stack)
}

/// The file to send and the file to write.
type Files = (Option<PathBuf>, Option<PathBuf>);

fn turned(reverse: bool, (source, sink): Files) -> Files {
    if reverse {
        (sink, source)
    } else {
        (source, sink)
    }
}

/// Returns the bytes of one write or read.
fn block(shape: &Shape) -> usize {
    let turn = if shape.ping { 1 } else { 64 << 10 };
    let asked = shape.block_size.map(xio::ByteSize::in_memory);
    asked.unwrap_or(turn).max(1)
}

/// Generates the payload, before the session starts.
fn payload(shape: &Shape) -> Payload {
    Payload::new(shape.data, block(shape))
}

fn work(
    shape: &Shape,
    activity: Activity,
    (source, sink): Files,
    time: Option<Duration>,
    payload: Payload,
) -> Work {
    Work {
        activity,
        block: block(shape),
        payload,
        source,
        sink,
        budget: Budget::new(shape.bytes.map(xio::ByteSize::bytes), time),
        tally: Tally::new(),
    }
}

/// Refuses a file over several connections, since their bytes have no common order.
fn refuse_shared_file(shape: &Shape, streams: usize) -> anyhow::Result<()> {
    if shape.file.is_some() && streams > 1 {
        bail!("--file takes one connection, and there are {streams}");
    }
    Ok(())
}

fn flatten(ended: Result<Ended, JoinError>) -> Ended {
    match ended {
        Ok(ended) => ended,
        // The failure that stopped the others is reported instead.
        Err(stopped) if stopped.is_cancelled() => Ok(()),
        Err(panicked) => Err(panicked.into()),
    }
}
