//! `Pump`: moves the data of one connection into the storage, reading one block ahead of the write.

mod extended;
mod tail;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use byte_ranges::{Range64, RangeSet};
use gridftp_dsi::{Error as StorageError, ErrorKind as StorageKind};
use mode_e::{HEADER_LEN, Step};
use xio_core::{Block, KernelTransfer, Pool, Stream};

use self::tail::Tail;
use crate::conn::Conn;
use crate::error::{Error, ErrorKind, Result};
use crate::receive::job::{Job, Payload};
use crate::receive::pipe::{self, Pipe, WORTH};

/// Reads of one connection before it yields to the others.
const TURN: u32 = 16;

/// The source of the offsets of a connection's bytes.
#[derive(Debug)]
enum Framing {
    /// MODE S: the wire ranges that are still to come, in order, behind which to stop; the end of the
    /// connection is the end of the file.
    Plain(RangeSet),
    /// MODE E: the deframer of the connection.
    Extended,
}

/// The end of one connection's data for a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// End-of-data mark; the connection stays open.
    Kept,
    /// End-of-data mark, and the peer closes the connection.
    Last,
    /// The connection is gone.
    Gone,
}

/// One connection of a receive.
///
/// While it waits for its peer it holds no block, unless the storage still writes the last one.
pub(crate) struct Pump<F> {
    pub(crate) conn: Conn,
    /// Whether the connection served an earlier transfer.
    pub(crate) reused: bool,
    framing: Framing,
    /// Wire offset of the first byte, in MODE S.
    start: u64,
    /// The end of a stream with a trailer.
    tail: Option<Box<Tail>>,
    /// Bytes read and not yet passed to the storage, never an empty block.
    block: Option<Block>,
    /// Wire offset of the first byte of the block, or of those that are held back.
    at: u64,
    /// The write in flight, in an allocation that all writes reuse.
    write: Pin<Box<Option<F>>>,
    /// Wire offset and length of the write in flight.
    writing: Option<(u64, u64)>,
    /// Pipe for large payload; empty unless `writing`.
    pipe: Option<Pipe>,
    /// The pending request for a block, while the pool has none.
    queue: Option<Pin<Box<dyn Future<Output = Block> + Send>>>,
    end: Option<End>,
    /// Whether payload of it is written.
    carried: bool,
}

enum Read {
    /// Bytes were read.
    Some,
    /// No bytes are available, or no block for them.
    Wait,
    /// The block must be written before the next read.
    Full,
    /// The connection has no more data for this transfer.
    End(End),
}

impl<F: Future<Output = Result<(), StorageError>>> Pump<F> {
    fn new(conn: Conn, reused: bool, framing: Framing) -> Self {
        Self {
            conn,
            reused,
            start: match &framing {
                Framing::Plain(left) => left.first().map_or(0, Range64::start),
                Framing::Extended => 0,
            },
            framing,
            tail: None,
            block: None,
            at: 0,
            write: Box::pin(None),
            writing: None,
            pipe: None,
            queue: None,
            end: None,
            carried: false,
        }
    }

    /// Wraps a MODE S connection that brings the wire ranges `left`.
    pub(crate) fn plain(conn: Conn, left: RangeSet) -> Self {
        Self::new(conn, false, Framing::Plain(left))
    }

    /// Wraps a MODE E connection.
    pub(crate) fn extended(conn: Conn, reused: bool) -> Self {
        Self::new(conn, reused, Framing::Extended)
    }

    /// Whether a header of this transfer has arrived.
    pub(crate) fn has_begun(&self) -> bool {
        self.end.is_some() || self.conn.deframer.has_begun()
    }

    /// Whether payload of this transfer is written.
    pub(crate) fn has_carried(&self) -> bool {
        self.carried
    }

    /// Whether a write is in flight.
    pub(crate) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Moves bytes until none are available, or until all data of the connection is written.
    pub(crate) fn poll<W>(
        &mut self,
        cx: &mut Context<'_>,
        job: &mut Job<'_, W>,
    ) -> Poll<Result<End>>
    where
        W: Fn(u64, Payload) -> F,
    {
        let mut reads = 0;
        loop {
            self.poll_write(cx, job)?;
            let idle = self.writing.is_none();
            let read = match self.end {
                Some(end) if idle && self.data() == 0 => return Poll::Ready(Ok(end)),
                Some(_) => Read::Full,
                None if !idle && !job.is_direct() => Read::Full,
                None => self.read(cx, job)?,
            };
            match read {
                Read::Some => {
                    reads += 1;
                    if reads == TURN {
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                }
                Read::End(end) => self.end = Some(end),
                // Write the bytes read so far, and read on meanwhile: small reads then become large
                // writes exactly when the storage is the slower side.
                Read::Wait | Read::Full if idle && self.start_write(job) => {}
                Read::Wait | Read::Full => return Poll::Pending,
            }
        }
    }

    fn poll_write<W>(&mut self, cx: &mut Context<'_>, job: &mut Job<'_, W>) -> Result<()> {
        let Some((offset, len)) = self.writing else {
            return Ok(());
        };
        let Some(future) = self.write.as_mut().as_pin_mut() else {
            return Ok(());
        };
        let Poll::Ready(done) = future.poll(cx) else {
            return Ok(());
        };
        self.write.set(None);
        self.writing = None;
        done.map_err(|error| match error.kind() {
            StorageKind::Mismatch => {
                let fact = "two blocks have different bytes for the same offset of the file";
                Error::new(ErrorKind::Protocol, "receive", fact).because(error)
            }
            _ => Error::storage("receive", error),
        })?;
        if job.end(offset, len) {
            // The waiting pump may have been polled before this one, and nothing else wakes it.
            cx.waker().wake_by_ref();
        }
        if job.is_direct() {
            job.watch.arrived().record(offset, len)?;
        }
        job.watch.moved(len);
        if !std::mem::replace(&mut self.carried, true) {
            job.watch.carried();
        }
        self.conn.tell_received(job.watch);
        Ok(())
    }

    /// Begins the next write, if its range is free.
    fn start_write<W>(&mut self, job: &mut Job<'_, W>) -> bool
    where
        W: Fn(u64, Payload) -> F,
    {
        let len = self.data();
        if len == 0 {
            self.hold_back();
            return false;
        }
        let Some(stored) = job.begin(self.at, len) else {
            return false;
        };
        self.hold_back();
        let data = self.take_data();
        self.writing = Some((self.at, len));
        job.watch.show(self.at, &data);
        let payload = match stored.is_empty() {
            true => Payload::Block(data),
            false => Payload::Again(data, stored),
        };
        self.write.set(Some((job.write)(self.at, payload)));
        self.at += len;
        true
    }

    /// Reads once, within one payload and the room left.
    fn read<W>(&mut self, cx: &mut Context<'_>, job: &mut Job<'_, W>) -> Result<Read>
    where
        W: Fn(u64, Payload) -> F,
    {
        let (offset, len) = match &self.framing {
            Framing::Plain(left) => match left.first() {
                Some(next) => (next.start(), next.len()),
                None => return Ok(Read::End(End::Gone)),
            },
            Framing::Extended => {
                let step = self.conn.deframer.poll()?;
                if self.conn.deframer.just_begun() {
                    job.watch.arrived().begun()?;
                }
                match step {
                    Step::Header { need } => return self.read_header(cx, need),
                    Step::Payload { offset, len } => (offset, len),
                    Step::Stale { len } => return self.read_stale(cx, job, len),
                    Step::Eof { connections } => {
                        job.watch.arrived().eof(connections)?;
                        return Ok(Read::Some);
                    }
                    Step::Digest(digest) => {
                        job.watch.told(digest);
                        return Ok(Read::Some);
                    }
                    Step::Hint(hint) => {
                        job.watch.told_hint(hint);
                        return Ok(Read::Some);
                    }
                    Step::Eod { close } => return Ok(Read::End(self.over(close))),
                    Step::Retired => return Ok(Read::End(End::Gone)),
                    _ => {
                        let fact = "the peer sent a block of an unknown kind";
                        return Err(Error::new(ErrorKind::Protocol, "receive", fact));
                    }
                }
            }
        };
        if self.is_large(job, offset, len) {
            return self.splice(cx, job, offset, len);
        }
        let (at, read) = match &self.block {
            Some(block) if self.at + block.len() as u64 == offset => (self.at, block.len()),
            Some(_) => return Ok(Read::Full),
            None => {
                let held = self.held().len();
                (offset - held as u64, held)
            }
        };
        // Bytes that may be a trailer take no room.
        let kept = self.doubtful(at, read);
        let Poll::Ready(room) = job.delivery.poll_room(cx, at, read - kept) else {
            return Ok(Read::Wait);
        };
        let most = self.doubtful(at, read.saturating_add(room));
        let room = room.saturating_add(most - kept);
        self.read_payload(cx, job, (offset, len), room)
    }

    /// Whether to use a pipe for the payload. In MODE S the length is unknown, so the first
    /// [`WORTH`] bytes go without.
    fn is_large<W>(&mut self, job: &mut Job<'_, W>, offset: u64, len: u64) -> bool {
        // Repeated bytes must be compared, which needs them in memory, as does a trailer.
        let kept = self.block.is_some() || self.tail.is_some();
        if kept || job.came(offset, len.min(pipe::SIZE as u64)) {
            return false;
        }
        if self.pipe.is_some() {
            return true;
        }
        let shown = job.watch.to_digest(offset) > 0;
        if job.pipes == 0 || shown || !self.conn.stream.kernel_transfers().splice {
            return false;
        }
        let worth = match self.framing {
            Framing::Plain(..) => offset.saturating_sub(self.start) >= WORTH,
            Framing::Extended => len >= WORTH,
        };
        if worth {
            self.pipe = Pipe::new(&self.conn.permit);
            // After one refusal the next pipe would be refused as well.
            job.pipes = self.pipe.as_ref().map_or(0, |_| job.pipes - 1);
        }
        self.pipe.is_some()
    }

    /// Moves payload from the connection to the storage inside the kernel.
    fn splice<W>(
        &mut self,
        cx: &mut Context<'_>,
        job: &mut Job<'_, W>,
        offset: u64,
        len: u64,
    ) -> Result<Read>
    where
        W: Fn(u64, Payload) -> F,
    {
        let Some(pipe) = self.pipe.as_ref().filter(|_| self.writing.is_none()) else {
            return Ok(Read::Full);
        };
        let want = usize::try_from(len).unwrap_or(usize::MAX).min(pipe::SIZE);
        let transfer = KernelTransfer::Splice {
            pipe: pipe.into(),
            len: want,
        };
        let n = match self.conn.stream.poll_kernel(cx, transfer) {
            Poll::Pending => return Ok(Read::Wait),
            Poll::Ready(Ok(0)) => return self.ended(),
            Poll::Ready(Ok(n)) => n,
            Poll::Ready(Err(error)) => return Err(Error::broken("receive", error)),
        };
        job.read += n as u64;
        // `is_large` has excluded other writes to this range.
        job.begin(offset, n as u64);
        self.writing = Some((offset, n as u64));
        let payload = Payload::Pipe(pipe.from(), n);
        self.write.set(Some((job.write)(offset, payload)));
        match &mut self.framing {
            Framing::Plain(left) => drop(left.take_first(n as u64)),
            Framing::Extended => self.conn.deframer.moved(n as u64),
        }
        Ok(Read::Some)
    }

    /// Handles the end of the connection instead of payload: in MODE S, the end of the file.
    fn ended(&mut self) -> Result<Read> {
        if matches!(self.framing, Framing::Extended) {
            self.conn.deframer.at_end()?;
            let error = io::ErrorKind::UnexpectedEof.into();
            return Err(Error::broken("receive", error));
        }
        self.find_trailer();
        Ok(Read::End(End::Gone))
    }

    fn read_payload<W>(
        &mut self,
        cx: &mut Context<'_>,
        job: &mut Job<'_, W>,
        (offset, len): (u64, u64),
        room: usize,
    ) -> Result<Read> {
        let mut block = match self.block.take() {
            Some(block) if self.room(&block) > 0 && self.at + block.len() as u64 == offset => block,
            Some(block) => {
                self.block = Some(block);
                return Ok(Read::Full);
            }
            None => match self.poll_block(cx, job.pool) {
                Poll::Ready(mut block) => {
                    self.at = offset - block.extend(self.held()) as u64;
                    block
                }
                Poll::Pending => return Ok(Read::Wait),
            },
        };
        // A header always follows the payload; reading it in the same call saves a call a block.
        let along = if matches!(self.framing, Framing::Extended) {
            HEADER_LEN
        } else {
            0
        };
        let limit = usize::try_from(len).map_or(usize::MAX, |len| len.saturating_add(along));
        let limit = limit.min(room).min(self.room(&block));
        let before = block.len();
        let answer = block.poll_fill(cx, Pin::new(&mut self.conn.stream), limit);
        if before == self.held().len() && !matches!(answer, Poll::Ready(Ok(1..))) {
            drop(block);
        } else {
            self.release();
            self.block = Some(block);
        }
        match answer {
            Poll::Pending => Ok(Read::Wait),
            Poll::Ready(Err(error)) => Err(Error::broken("receive", error)),
            Poll::Ready(Ok(0)) => self.ended(),
            Poll::Ready(Ok(n)) => {
                job.read += (n as u64).min(len);
                self.took(before, n, len)
            }
        }
    }

    /// Records `n` bytes read behind the first `before` of the block: payload, of which `len` bytes
    /// were left, then a header or a part of one.
    fn took(&mut self, before: usize, n: usize, len: u64) -> Result<Read> {
        if let Framing::Plain(left) = &mut self.framing {
            left.take_first(n as u64);
            return Ok(Read::Some);
        }
        let payload = usize::try_from(len).map_or(n, |len| n.min(len));
        self.conn.deframer.moved(payload as u64);
        let Some(block) = &mut self.block else {
            return Ok(Read::Some);
        };
        let mut header = [0; HEADER_LEN];
        let along = block.get(before + payload..).unwrap_or_default();
        let along_len = along.len();
        header
            .iter_mut()
            .zip(along)
            .for_each(|(to, from)| *to = *from);
        block.truncate(before + payload);
        let Some(header) = header.get(..along_len).filter(|header| !header.is_empty()) else {
            return Ok(Read::Some);
        };
        // The deframer must complete this block before it is fed the next header, which belongs to
        // the next transfer if this block has the end-of-data mark.
        let end = match self.conn.deframer.poll()? {
            Step::Eod { close } => Some(self.over(close)),
            _ => None,
        };
        self.conn.deframer.feed(header);
        Ok(end.map_or(Read::Some, Read::End))
    }

    /// Takes a block from the pool, or waits for one.
    fn poll_block(&mut self, cx: &mut Context<'_>, pool: &Pool) -> Poll<Block> {
        if self.queue.is_none() {
            if let Some(block) = pool.try_get() {
                return Poll::Ready(block);
            }
            let pool = pool.clone();
            self.queue = Some(Box::pin(async move { pool.get().await }));
        }
        let Some(queue) = &mut self.queue else {
            return Poll::Pending;
        };
        let block = ready!(queue.as_mut().poll(cx));
        self.queue = None;
        Poll::Ready(block)
    }
}
