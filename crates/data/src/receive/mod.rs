//! Receives one file over any number of connections, which may open at any time.

mod job;
mod order;
mod parts;
mod pipe;
mod pump;

use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use byte_ranges::{Range64, RangeSet};
use bytes::Bytes;
use ftp_wire::command::Tag;
use gridftp_dsi::{Error as StorageError, ErrorKind as StorageKind, Sink};
use mode_e::GatherError;
use tokio::time::{Instant, timeout_at};
use tracing::debug;

pub(crate) use job::{Delivery, Job, Payload};
pub use order::Consumer;
pub(crate) use order::{InOrder, TextInto};
use pump::{End, Pump};

use crate::conn::{Conn, Opened};
use crate::error::{Error, ErrorKind, Result, Wait};
use crate::listener::DataListener;
use crate::options::Options;
use crate::plan::ReceivePlan;
use crate::wait::{Sample, Stall};

/// Bytes read back at a time for a comparison, outside the pool: waiting for a second block while
/// holding one could deadlock.
const COMPARED: u64 = 32 << 10;

/// Writes the new part of `data` at the wire offset `offset`; the `stored` part must be the same.
///
/// # Errors
/// [`StorageKind::Mismatch`] if it differs, and errors of the storage.
pub(crate) async fn again<K: Sink>(
    sink: &K,
    base: u64,
    offset: u64,
    data: Bytes,
    stored: &RangeSet,
) -> Result<(), StorageError> {
    let piece = |range: Range64| {
        let [from, to] = [range.start(), range.end()].map(|at| {
            usize::try_from(at - offset)
                .unwrap_or(usize::MAX)
                .min(data.len())
        });
        data.slice(from..to)
    };
    for range in stored.iter().flat_map(|range| in_steps(range, COMPARED)) {
        let (at, piece) = (range.start().saturating_add(base), piece(range));
        if sink.read_back(at, piece.len()).await? != piece {
            let fact = format!("earlier bytes differ at offsets {range}");
            return Err(StorageError::new(StorageKind::Mismatch, "write").because(fact));
        }
    }
    if let Some(whole) = Range64::from_len(offset, data.len() as u64) {
        for range in &stored.gaps(whole) {
            let at = range.start().saturating_add(base);
            sink.write_at(at, piece(range)).await?;
        }
    }
    Ok(())
}

/// The pieces of a range, each of at most `step` bytes.
fn in_steps(range: Range64, step: u64) -> impl Iterator<Item = Range64> {
    let mut from = range.start();
    std::iter::from_fn(move || {
        let to = from.saturating_add(step).min(range.end());
        let piece = Range64::new(from, to);
        from = to;
        piece
    })
}

/// Receives the data of `plan` from one connection until it ends. Returns whether it may have been cut
/// off: it ended without a trailer, and without the end mark of its protection.
///
/// # Errors
/// With the connection, on which the peer may still be sending.
///
/// # Cancel safety
/// Dropping the future resets the connection.
pub(crate) async fn plain<W, F>(
    conn: Conn,
    plan: &ReceivePlan,
    mut job: Job<'_, W>,
    options: &Options,
) -> Result<bool, (Error, Conn)>
where
    W: Fn(u64, Payload) -> F,
    F: Future<Output = Result<(), StorageError>>,
{
    let mut pump = match plan.has_trailer() {
        true => Pump::trailed(conn, plan.left()),
        false => Pump::plain(conn, plan.left()),
    };
    let seen = Seen::new(job.delivery);
    let (watch, delivery, moved) = (job.watch, job.delivery, &seen);
    let work = poll_fn(|cx| {
        let done = pump.poll(cx, &mut job);
        seen.note(job.read, pump.is_writing());
        done
    });
    let mut stall = Stall::new(options.stall);
    let ended = tokio::select! {
        ended = stall.run(|| moved.sample(watch), work) => ended,
        error = delivery.failed() => Err(error),
    };
    match ended.and_then(|_| pump.take_trailer()) {
        Ok(trailer) => {
            let unmarked = trailer.is_none() && pump.conn.stream.info().ended_unmarked;
            if let Some(told) = trailer.and_then(|trailer| trailer.told) {
                watch.note_told(told);
            }
            pump.conn.retire();
            Ok(unmarked)
        }
        Err(error) => Err((error, pump.conn)),
    }
}

/// Receives extended blocks from `conns` and from all connections that `listener` accepts, until
/// the announced number of end-of-data marks has arrived. Returns the connections that stay open,
/// or after a failure all that are left.
///
/// # Cancel safety
/// Dropping the future resets the connections.
pub(crate) async fn extended<W, F>(
    conns: Vec<(Conn, bool)>,
    listener: Option<&mut DataListener>,
    job: Job<'_, W>,
    tag: Option<Tag>,
    options: &Options,
) -> (Vec<Conn>, Result<()>)
where
    W: Fn(u64, Payload) -> F,
    F: Future<Output = Result<(), StorageError>>,
{
    let mut pumps = Pumps {
        active: Vec::new(),
        done: Vec::new(),
        turn: 0,
        short: None,
        tag,
        marks_from_all: options.marks_from_all,
        lost_new: false,
    };
    let delivery = job.delivery;
    let gathered = tokio::select! {
        gathered = gather(&mut pumps, conns, listener, job, options) => gathered,
        error = delivery.failed() => Err(error),
    };
    match gathered {
        Ok(()) => pumps.kept(),
        Err(error) => (pumps.all(), Err(error)),
    }
}

async fn gather<W, F>(
    pumps: &mut Pumps<F>,
    conns: Vec<(Conn, bool)>,
    mut listener: Option<&mut DataListener>,
    mut job: Job<'_, W>,
    options: &Options,
) -> Result<()>
where
    W: Fn(u64, Payload) -> F,
    F: Future<Output = Result<(), StorageError>>,
{
    let watch = job.watch;
    for (conn, reused) in conns {
        pumps.add(conn, reused, &job)?;
    }
    let most = usize::try_from(options.connections).unwrap_or(usize::MAX);
    let seen = Seen::new(job.delivery);
    // The deadlines span all steps, so that connections without a header do not extend them.
    let (mut alone, mut busy) = (Stall::new(options.open_within), Stall::new(options.stall));
    let mut late = None;
    loop {
        let room = pumps.active.len() + pumps.done.len() < most;
        if let Some(short) = pumps.short.take() {
            let late = *late.get_or_insert_with(|| Instant::now() + LATE);
            let next = match &mut listener {
                Some(listener) if room => timeout_at(late, listener.next()).await,
                _ => return Err(short),
            };
            let Ok(Ok(stream)) = next else {
                return Err(short);
            };
            watch.connected(1);
            pumps.add(Conn::new(stream, options.limits()), false, &job)?;
            continue;
        }
        // Without a connection to read from, the wait is for the peer to connect.
        let lonely = pumps.active.is_empty();
        let stall = if lonely { &mut alone } else { &mut busy };
        let step = async {
            tokio::select! {
                biased;
                done = poll_fn(|cx| {
                    let done = pumps.poll(cx, &mut job, lonely);
                    seen.note(job.read, pumps.is_writing());
                    done
                }) => done.map(|whole| if whole { Step::Complete } else { Step::Lonely }),
                next = async {
                    match &mut listener {
                        Some(listener) => listener.next().await,
                        None => std::future::pending().await,
                    }
                }, if room => Ok(Step::Accepted(next)),
            }
        };
        let sample = || {
            if lonely {
                Sample::At(seen.moved(watch), Wait::Accept)
            } else {
                seen.sample(watch)
            }
        };
        match stall.run(sample, step).await? {
            Step::Complete => return Ok(()),
            // The missing data would need a connection beyond the limit.
            Step::Lonely if !room => {
                return Err(GatherError::TooManyConnections {
                    limit: options.connections,
                }
                .into());
            }
            Step::Lonely => {}
            Step::Accepted(Ok(stream)) => {
                watch.connected(1);
                pumps.add(Conn::new(stream, options.limits()), false, &job)?;
            }
            // A connection of this transfer was closed for lack of a descriptor: its data is lost.
            Step::Accepted(Err(error)) if error.kind() == ErrorKind::Full => return Err(error),
            Step::Accepted(Err(error)) => {
                // The open connections may suffice; a listener that failed may fail for ever.
                debug!(%error, "no more data connections are accepted for this transfer");
                listener = None;
            }
        }
    }
}

/// The error of a connection without the mandatory end-of-data mark.
fn unmarked() -> Error {
    let fact = "a data connection broke before its end-of-data mark";
    Error::new(ErrorKind::Closed, "receive", fact)
}

/// Longest wait for further connections while end-of-data marks are missing and all connections are
/// closed: a sender may close one before the next is accepted.
const LATE: Duration = Duration::from_secs(3);

enum Step {
    /// All data has arrived and is written.
    Complete,
    /// No connection is left from which data may arrive.
    Lonely,
    /// The listener accepted a connection or failed.
    Accepted(Result<Opened>),
}

/// The progress that the stall deadline checks, written by the transfer.
#[derive(Debug)]
struct Seen<'a> {
    read: AtomicU64,
    writing: AtomicBool,
    /// With direct delivery an unfinished write is the fault of the storage; else it may wait for
    /// bytes before it, which the peer has not sent.
    delivery: Delivery<'a>,
}

impl<'a> Seen<'a> {
    fn new(delivery: Delivery<'a>) -> Self {
        Self {
            read: AtomicU64::new(0),
            writing: AtomicBool::new(false),
            delivery,
        }
    }

    fn note(&self, read: u64, writing: bool) {
        self.read.store(read, Ordering::Relaxed);
        self.writing.store(writing, Ordering::Relaxed);
    }

    /// The sum of bytes read, bytes written and end-of-data marks.
    fn moved(&self, watch: &crate::Watch) -> u64 {
        let marks = watch.arrived().eods();
        self.read
            .load(Ordering::Relaxed)
            .wrapping_add(watch.bytes())
            .wrapping_add(u64::from(marks))
    }

    fn sample(&self, watch: &crate::Watch) -> Sample {
        let writing = self.writing.load(Ordering::Relaxed);
        if writing && watch.is_local() {
            return Sample::Local;
        }
        let wait = match self.delivery {
            Delivery::Direct { .. } if writing => Some(Wait::Storage),
            Delivery::Direct { .. } | Delivery::Queued(_) => Some(Wait::Receive),
            Delivery::Parts(parts) => parts.wait(),
        };
        wait.map_or(Sample::Local, |wait| Sample::At(self.moved(watch), wait))
    }
}

/// The connections of one MODE E transfer.
struct Pumps<F> {
    active: Vec<Pump<F>>,
    /// Connections behind their end-of-data mark.
    done: Vec<Conn>,
    /// The error when all connections are closed and marks are missing.
    short: Option<Error>,
    /// Rotates the connection polled first, so that a fast one does not starve the others.
    turn: usize,
    tag: Option<Tag>,
    /// Whether a connection without a mark fails the transfer.
    marks_from_all: bool,
    /// Whether a new connection of a tagged transfer has ended before its first header.
    lost_new: bool,
}

impl<F: Future<Output = Result<(), StorageError>>> Pumps<F> {
    fn add<W>(&mut self, mut conn: Conn, reused: bool, job: &Job<'_, W>) -> Result<()> {
        job.watch.arrived().opened()?;
        conn.deframer.expect(self.tag.map(|tag| tag.number));
        self.active.push(Pump::extended(conn, reused));
        Ok(())
    }

    /// Whether a connection that ends without a mark fails the transfer. A new connection of a tagged
    /// transfer may end before its first header: its sender has given up opening it. A lost one is
    /// missed by the number of marks.
    fn needs_mark(&self, pump: &Pump<F>) -> bool {
        self.marks_from_all && (pump.reused || self.tag.is_none())
    }

    fn is_writing(&self) -> bool {
        self.active.iter().any(Pump::is_writing)
    }

    /// Moves bytes on every connection. `Ready(true)` means that all data has arrived,
    /// `Ready(false)` that no connection is left for the rest, unless that is `known`.
    fn poll<W>(
        &mut self,
        cx: &mut Context<'_>,
        job: &mut Job<'_, W>,
        known: bool,
    ) -> Poll<Result<bool>>
    where
        W: Fn(u64, Payload) -> F,
    {
        let mut at = 0;
        self.turn = self.turn.wrapping_add(1);
        let first = self.turn.checked_rem(self.active.len()).unwrap_or(0);
        self.active.rotate_left(first);
        while let Some(pump) = self.active.get_mut(at) {
            let Poll::Ready(end) = pump.poll(cx, job)? else {
                at += 1;
                continue;
            };
            let pump = self.active.swap_remove(at);
            let mut arrived = job.watch.arrived();
            // Its sender goes on with fewer connections.
            if pump.has_carried() && arrived.expected().is_none() {
                job.watch.uncarried();
            }
            match end {
                End::Gone if self.needs_mark(&pump) => return Poll::Ready(Err(unmarked())),
                End::Gone => self.lost_new = true,
                _ => arrived.eod()?,
            }
            if end == End::Kept {
                self.done.push(pump.conn);
            } else {
                self.short = arrived.closed().err().map(Error::from);
                pump.conn.retire();
            }
        }
        if job.watch.arrived().is_complete() {
            return Poll::Ready(Ok(true));
        }
        if !self.active.is_empty() {
            return Poll::Pending;
        }
        // Marks are missing, so find out which kept connections are still open.
        let mut at = 0;
        while let Some(conn) = self.done.get_mut(at) {
            if conn.poll_gone(cx).is_ready() {
                drop(self.done.swap_remove(at));
                self.short = job.watch.arrived().closed().err().map(Error::from);
            } else {
                at += 1;
            }
        }
        // Its mark never comes; another connection may, within the time for a late one.
        let is_announced = job.watch.arrived().expected().is_some();
        if self.marks_from_all && self.lost_new && is_announced {
            self.short.get_or_insert_with(unmarked);
        }
        if known && self.short.is_none() {
            Poll::Pending
        } else {
            Poll::Ready(Ok(false))
        }
    }

    /// The connections for the next transfer, once this one is complete.
    fn kept(self) -> (Vec<Conn>, Result<()>) {
        if self.active.iter().any(|pump| self.needs_mark(pump)) {
            return (Vec::new(), Err(unmarked()));
        }
        if self.active.iter().any(Pump::has_begun) {
            let fact =
                "the peer announced fewer end-of-data marks than it has connections with data";
            return (
                Vec::new(),
                Err(Error::new(ErrorKind::Protocol, "receive", fact)),
            );
        }
        // Keep connections of earlier transfers; a new one without a header is not the sender's.
        let served = self.active.into_iter().filter(|pump| pump.reused);
        let kept = self.done.into_iter().chain(served.map(|pump| pump.conn));
        (kept.collect(), Ok(()))
    }

    /// All connections in any state.
    fn all(self) -> Vec<Conn> {
        let active = self.active.into_iter().map(|pump| pump.conn);
        self.done.into_iter().chain(active).collect()
    }
}
