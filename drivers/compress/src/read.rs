//! `Reader`: reads blocks from the stream below, unpacks them in order, and hands out their bytes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use xio_core::{Error, ErrorKind, Operation, poll_end};

use crate::LAYER;
use crate::codec::Algorithm;
use crate::codec_cache::{CodecCache, unpacking_time};
use crate::frame::{BadFrame, Frame, Header, MAX_HEADER, PREAMBLE_LEN, Preamble};
use crate::parallel::WorkQueue;
use crate::write::Moved;

/// Least size of reads in bytes, so that one call reads many small blocks.
const INBOX: usize = 32 << 10;
/// Stored blocks from this length on are handed out without being copied before.
const PASSED: usize = 4 << 10;

/// The receiving half.
#[derive(Debug)]
pub(crate) struct Reader {
    codecs: CodecCache,
    inbox: Inbox,
    stage: Stage,
    /// Most bytes of a block, as the preamble announced it.
    announced: usize,
    line: WorkQueue<Result<Vec<u8>, Broken>>,
    /// An unpacked block and the number of its bytes handed out.
    block: Vec<u8>,
    taken: usize,
    place: StreamOffset,
    original: u64,
}

/// A position in the stream.
#[derive(Debug, Clone, Copy, Default)]
struct StreamOffset {
    /// Blocks before it.
    number: u64,
    /// Bytes before it.
    offset: u64,
}

#[derive(Debug, Clone, Copy)]
struct Broken {
    place: StreamOffset,
    why: BadFrame,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Preamble,
    Header,
    /// The packed bytes of a block follow.
    Packed(Header),
    /// These bytes of a stored block, with a valid checksum, are handed out of the inbox.
    Stored(usize),
    /// The end mark was read; the end of the stream below follows.
    Marked,
    Ended,
    /// The stream breaks off or breaks the rules here; the bytes before it are still handed out.
    Broken(Broken),
    Truncated,
    Failed(io::ErrorKind),
}

impl Reader {
    pub(crate) fn new(codecs: CodecCache, threads: usize) -> Self {
        Self {
            codecs,
            inbox: Inbox::default(),
            stage: Stage::Preamble,
            announced: 0,
            line: WorkQueue::new(threads),
            block: Vec::new(),
            taken: 0,
            place: StreamOffset::default(),
            original: 0,
        }
    }

    pub(crate) fn moved(&self) -> Moved {
        Moved {
            original: self.original,
            wire: self.place.offset,
        }
    }

    pub(crate) fn poll_read<S: AsyncRead + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        below: &mut S,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        loop {
            if self.hand_out(buf) {
                break;
            }
            match self.line.poll_next(cx) {
                Poll::Ready(Ok(Some(Ok(block)))) => {
                    self.block = block;
                    self.taken = 0;
                    continue;
                }
                Poll::Ready(Ok(Some(Err(broken)))) => {
                    self.line = WorkQueue::new(1);
                    self.stage = Stage::Broken(broken);
                }
                Poll::Ready(Ok(None)) => {}
                Poll::Ready(Err(error)) => {
                    let error = Error::from_io(error, LAYER, Operation::Read);
                    self.stage = Stage::Failed(io::ErrorKind::Other);
                    return Poll::Ready(Err(error.into()));
                }
                Poll::Pending if self.line.has_room() => {}
                Poll::Pending => return Poll::Pending,
            }
            if !ready!(self.poll_advance(cx, below, buf))? {
                break;
            }
            if buf.filled().len() > before {
                break;
            }
        }
        self.original += (buf.filled().len() - before) as u64;
        Poll::Ready(Ok(()))
    }

    /// Hands out bytes of the unpacked block, if there are any.
    fn hand_out(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        let rest = self.block.get(self.taken..).unwrap_or_default();
        let n = rest.len().min(buf.remaining());
        buf.put_slice(rest.get(..n).unwrap_or_default());
        self.taken += n;
        n > 0
    }

    /// Advances by one step of the stream; returns whether more follows.
    ///
    /// Steps that return bytes to the caller, or the end, wait until all blocks before them were
    /// handed out.
    fn poll_advance<S: AsyncRead + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        below: &mut S,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<bool>> {
        match self.stage {
            Stage::Preamble => match self.inbox.chunk() {
                None => ready!(self.poll_fill(cx, below, INBOX))?,
                Some(bytes) => match Preamble::parse(bytes) {
                    Ok(preamble) => {
                        self.announced = preamble.block;
                        self.pass_over(PREAMBLE_LEN);
                        self.stage = Stage::Header;
                    }
                    Err(why) => self.stage = self.broken(why),
                },
            },
            Stage::Header => {
                let StreamOffset { number, .. } = self.place;
                match Frame::parse(self.inbox.bytes(), number, self.announced) {
                    Ok(None) => {
                        ready!(self.poll_fill(cx, below, INBOX))?;
                    }
                    Ok(Some((frame, len))) => {
                        self.inbox.consume(len);
                        self.stage = self.entered(frame, len);
                    }
                    Err(why) => self.stage = self.broken(why),
                }
            }
            Stage::Packed(header) => {
                if self.inbox.bytes().len() < header.packed {
                    ready!(self.poll_fill(cx, below, INBOX.max(header.packed + MAX_HEADER)))?;
                } else if header.algorithm == Algorithm::Stored && header.packed >= PASSED {
                    self.stage = self.stored(header);
                } else if self.line.has_room() {
                    self.unpack(header);
                } else {
                    return Poll::Pending;
                }
            }
            _ if !self.line.is_empty() => return Poll::Pending,
            Stage::Stored(left) => {
                let n = left.min(buf.remaining());
                buf.put_slice(self.inbox.bytes().get(..n).unwrap_or_default());
                self.inbox.consume(n);
                self.stage = match left - n {
                    0 => Stage::Header,
                    left => Stage::Stored(left),
                };
            }
            Stage::Marked => ready!(self.poll_end_below(cx, below))?,
            Stage::Ended | Stage::Broken(_) | Stage::Truncated | Stage::Failed(_) => {
                return Poll::Ready(self.end());
            }
        }
        Poll::Ready(Ok(true))
    }

    /// Waits for the end of the stream below, after the end mark.
    fn poll_end_below<S: AsyncRead + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        below: &mut S,
    ) -> Poll<io::Result<()>> {
        let (stage, answer) = match ready!(poll_end(cx, below)) {
            Ok(true) => (Stage::Ended, Ok(())),
            Ok(false) => (self.broken(BadFrame::Beyond), Ok(())),
            Err(error) => (Stage::Failed(error.kind()), Err(error)),
        };
        self.stage = stage;
        Poll::Ready(answer)
    }

    /// The answer at the end, or after a failure.
    fn end(&self) -> io::Result<bool> {
        let StreamOffset { number, offset } = self.place;
        Err(match self.stage {
            Stage::Broken(Broken { place, why }) => {
                let StreamOffset { number, offset } = place;
                let fact = format!("block {number} at byte {offset}: {why}");
                error(ErrorKind::Protocol, fact)
            }
            Stage::Truncated => {
                let fact = format!(
                    "the stream below ended in block {number} at byte {offset}, before the end mark"
                );
                error(ErrorKind::UnexpectedEof, fact)
            }
            Stage::Failed(kind) => {
                let error = error(ErrorKind::Reset, "an earlier read failed".into());
                io::Error::new(kind, error)
            }
            _ => return Ok(false),
        })
    }

    fn broken(&self, why: BadFrame) -> Stage {
        Stage::Broken(Broken {
            place: self.place,
            why,
        })
    }

    fn pass_over(&mut self, len: usize) {
        self.inbox.consume(len);
        self.place.offset += len as u64;
    }

    /// The stage after a header of `len` bytes.
    fn entered(&mut self, frame: Frame, len: usize) -> Stage {
        match frame {
            Frame::End => {
                self.place.offset += len as u64;
                let more = !self.inbox.bytes().is_empty();
                self.inbox = Inbox::default();
                match more {
                    true => self.broken(BadFrame::Beyond),
                    false => Stage::Marked,
                }
            }
            Frame::Block(header) => Stage::Packed(header),
        }
    }

    /// Moves past a block.
    fn next_block(&mut self, header: Header) {
        self.place.number += 1;
        self.place.offset += (header.wire_len() + header.packed) as u64;
        self.stage = Stage::Header;
    }

    /// The stage after a whole stored block has arrived.
    fn stored(&mut self, header: Header) -> Stage {
        let bytes = self.inbox.bytes().get(..header.packed);
        let mut checksum = header.verify(self.place.number);
        checksum.add(bytes.unwrap_or_default());
        if checksum.finish() != header.checksum {
            return self.broken(BadFrame::Checksum);
        }
        self.next_block(header);
        Stage::Stored(header.packed)
    }

    /// Queues a whole block to be unpacked.
    fn unpack(&mut self, header: Header) {
        let place = self.place;
        let memory = std::mem::take(&mut self.block);
        self.taken = 0;
        let time = unpacking_time(header.algorithm, header.original);
        let packed = self.inbox.bytes().get(..header.packed).unwrap_or_default();
        let broken = move |why| Broken { place, why };
        if self.line.does_at_once(time) {
            let done = self.codecs.unpack(header, place.number, packed, memory);
            self.line.add(done.map_err(broken));
        } else {
            let (codecs, packed) = (self.codecs.clone(), packed.to_vec());
            self.line.push(time, move || {
                codecs
                    .unpack(header, place.number, &packed, memory)
                    .map_err(broken)
            });
        }
        self.inbox.consume(header.packed);
        self.next_block(header);
    }

    /// Reads more into the inbox, up to `want` bytes in all.
    fn poll_fill<S: AsyncRead + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        below: &mut S,
        want: usize,
    ) -> Poll<io::Result<()>> {
        let read = self.inbox.poll_fill(cx, below, want);
        match read {
            Poll::Ready(Ok(0)) => self.stage = Stage::Truncated,
            Poll::Ready(Ok(_)) => {}
            Poll::Ready(Err(error)) => {
                self.stage = Stage::Failed(error.kind());
                return Poll::Ready(Err(error));
            }
            Poll::Pending => {
                // A stream that waits between blocks holds no memory.
                if self.inbox.bytes().is_empty() && self.line.is_empty() {
                    self.inbox = Inbox::default();
                    self.block = Vec::new();
                    self.taken = 0;
                }
                return Poll::Pending;
            }
        }
        Poll::Ready(Ok(()))
    }
}

fn error(kind: ErrorKind, fact: String) -> io::Error {
    Error::new(kind, LAYER, Operation::Read, fact).into()
}

/// Received bytes that were not yet parsed.
#[derive(Debug, Default)]
struct Inbox {
    memory: Vec<u8>,
    from: usize,
    to: usize,
}

impl Inbox {
    fn bytes(&self) -> &[u8] {
        self.memory.get(self.from..self.to).unwrap_or_default()
    }

    fn chunk<const N: usize>(&self) -> Option<[u8; N]> {
        self.bytes().first_chunk().copied()
    }

    fn consume(&mut self, n: usize) {
        self.from = (self.from + n).min(self.to);
        if self.from == self.to {
            self.from = 0;
            self.to = 0;
        }
    }

    /// Makes room for `want` bytes in all, the present ones at the beginning.
    fn make_room(&mut self, want: usize) {
        if self.memory.len() - self.from < want {
            self.memory.copy_within(self.from..self.to, 0);
            self.to -= self.from;
            self.from = 0;
        }
        if self.memory.len() < want {
            self.memory.resize(want, 0);
        }
    }

    fn poll_fill<S: AsyncRead + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        below: &mut S,
        want: usize,
    ) -> Poll<io::Result<usize>> {
        self.make_room(want);
        let mut part = ReadBuf::new(self.memory.get_mut(self.to..).unwrap_or_default());
        ready!(Pin::new(below).poll_read(cx, &mut part))?;
        let n = part.filled().len();
        self.to += n;
        Poll::Ready(Ok(n))
    }
}
