//! `Reader`: takes blocks off the stream below, has them unpacked in order, and hands out their bytes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use xio_core::{Error, ErrorKind, Operation, poll_end};

use crate::LAYER;
use crate::codec::Algorithm;
use crate::frame::{BadFrame, Checksum, Frame, Header, MAX_HEADER, PREAMBLE_LEN, Preamble};
use crate::parallel::Line;
use crate::shop::{Shop, unpacking_time};
use crate::write::Moved;

/// Least room in bytes to read into, so that many small blocks come with one call.
const INBOX: usize = 32 << 10;
/// Stored blocks from this length on are read straight to where the caller wants them.
const PASSED: usize = 4 << 10;

/// The receiving half.
#[derive(Debug)]
pub(crate) struct Reader {
    shop: Shop,
    inbox: Inbox,
    stage: Stage,
    /// Most bytes of a block, as the preamble announced it.
    announced: usize,
    line: Line<Result<Vec<u8>, Broken>>,
    /// An unpacked block and how much of it was handed out.
    block: Vec<u8>,
    taken: usize,
    place: Place,
    /// Whether the last block was a long stored one, so that the next one may be so as well.
    passing: bool,
    original: u64,
}

/// Where in the stream something is.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// Blocks before it.
    number: u64,
    /// Bytes before it.
    offset: u64,
}

#[derive(Debug, Clone, Copy)]
struct Broken {
    place: Place,
    why: BadFrame,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Preamble,
    Header,
    /// The packed bytes of a block are to come.
    Packed(Header),
    /// So many bytes of a stored block are to come.
    Stored {
        header: Header,
        left: usize,
        checksum: Checksum,
    },
    /// The end mark was read; the end of the stream below is to follow.
    Marked,
    Ended,
    /// The stream breaks off or breaks the rules here; what came before it is still handed out.
    Broken(Broken),
    Truncated,
    Failed(io::ErrorKind),
}

impl Reader {
    pub(crate) fn new(shop: Shop, threads: usize) -> Self {
        Self {
            shop,
            inbox: Inbox::default(),
            stage: Stage::Preamble,
            announced: 0,
            line: Line::new(threads),
            block: Vec::new(),
            taken: 0,
            place: Place::default(),
            passing: false,
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
                    self.line = Line::new(1);
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

    /// Gives bytes of the unpacked block, if there are any.
    fn hand_out(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        let rest = self.block.get(self.taken..).unwrap_or_default();
        let n = rest.len().min(buf.remaining());
        buf.put_slice(rest.get(..n).unwrap_or_default());
        self.taken += n;
        n > 0
    }

    /// Goes on by one step of the stream; says whether there is anything after it.
    ///
    /// Steps that give bytes to the caller, or say that there are no more, wait until all blocks
    /// before them were handed out.
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
                let Place { number, .. } = self.place;
                match Frame::parse(self.inbox.bytes(), number, self.announced) {
                    Ok(None) => {
                        // A little more than a header would only have to be copied.
                        let want = if self.passing { MAX_HEADER } else { INBOX };
                        ready!(self.poll_fill(cx, below, want))?;
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
                } else if self.line.has_room() {
                    self.unpack(header);
                } else {
                    return Poll::Pending;
                }
            }
            _ if !self.line.is_empty() => return Poll::Pending,
            Stage::Stored {
                header,
                left,
                checksum,
            } => {
                ready!(self.poll_stored(cx, below, buf, header, left, checksum))?;
            }
            Stage::Marked => {
                self.stage = match ready!(poll_end(cx, below)) {
                    Ok(true) => Stage::Ended,
                    Ok(false) => self.broken(BadFrame::Beyond),
                    Err(error) => {
                        self.stage = Stage::Failed(error.kind());
                        return Poll::Ready(Err(error));
                    }
                };
            }
            Stage::Ended => return Poll::Ready(Ok(false)),
            Stage::Broken(Broken {
                place: Place { number, offset },
                why,
            }) => {
                let fact = format!("block {number} at byte {offset}: {why}");
                return Poll::Ready(Err(error(ErrorKind::Protocol, fact)));
            }
            Stage::Truncated => {
                let Place { number, offset } = self.place;
                let fact = format!(
                    "the stream below ended in block {number} at byte {offset}, before the end mark"
                );
                return Poll::Ready(Err(error(ErrorKind::UnexpectedEof, fact)));
            }
            Stage::Failed(kind) => {
                let error = error(ErrorKind::Reset, "an earlier read failed".into());
                return Poll::Ready(Err(io::Error::new(kind, error)));
            }
        }
        Poll::Ready(Ok(true))
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
            Frame::Block(header)
                if header.algorithm == Algorithm::Stored && header.packed >= PASSED =>
            {
                let checksum = header.verify(self.place.number);
                Stage::Stored {
                    header,
                    left: header.packed,
                    checksum,
                }
            }
            Frame::Block(header) => Stage::Packed(header),
        }
    }

    /// Leaves a block behind.
    fn next_block(&mut self, header: Header) {
        self.place.number += 1;
        self.place.offset += (header.wire_len() + header.packed) as u64;
        self.passing = header.algorithm == Algorithm::Stored && header.packed >= PASSED;
        self.stage = Stage::Header;
    }

    /// Has a whole block unpacked.
    fn unpack(&mut self, header: Header) {
        let place = self.place;
        let memory = std::mem::take(&mut self.block);
        self.taken = 0;
        let time = unpacking_time(header.algorithm, header.original);
        let packed = self.inbox.bytes().get(..header.packed).unwrap_or_default();
        let broken = move |why| Broken { place, why };
        if self.line.does_at_once(time) {
            let done = self.shop.unpack(header, place.number, packed, memory);
            self.line.add(done.map_err(broken));
        } else {
            let (shop, packed) = (self.shop.clone(), packed.to_vec());
            self.line.push(time, move || {
                shop.unpack(header, place.number, &packed, memory)
                    .map_err(broken)
            });
        }
        self.inbox.consume(header.packed);
        self.next_block(header);
    }

    /// Moves bytes of a stored block to the caller.
    fn poll_stored<S: AsyncRead + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        below: &mut S,
        buf: &mut ReadBuf<'_>,
        header: Header,
        left: usize,
        mut checksum: Checksum,
    ) -> Poll<io::Result<()>> {
        let here = self.inbox.bytes();
        let mut moved = here.len().min(left).min(buf.remaining());
        if moved > 0 {
            let bytes = here.get(..moved).unwrap_or_default();
            checksum.add(bytes);
            buf.put_slice(bytes);
            self.inbox.consume(moved);
        } else {
            // The next header comes with the last bytes where there is room, and saves a call.
            let room = buf.initialize_unfilled_to(buf.remaining().min(left + MAX_HEADER));
            let mut part = ReadBuf::new(room);
            let read = Pin::new(below).poll_read(cx, &mut part);
            if let Poll::Ready(Err(error)) = &read {
                self.stage = Stage::Failed(error.kind());
            }
            ready!(read)?;
            let (bytes, beyond) = part.filled().split_at(part.filled().len().min(left));
            if bytes.is_empty() {
                self.stage = Stage::Truncated;
                return Poll::Ready(Ok(()));
            }
            checksum.add(bytes);
            self.inbox.put(beyond);
            moved = bytes.len();
            buf.advance(moved);
        }
        let left = left - moved;
        self.stage = Stage::Stored {
            header,
            left,
            checksum,
        };
        if left == 0 {
            // Judged now, so that an end that agrees is not followed by a block that did not.
            match checksum.finish() == header.checksum {
                true => self.next_block(header),
                false => self.stage = self.broken(BadFrame::Checksum),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Reads more into the inbox, for `want` bytes altogether.
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
                // Who waits between blocks holds no memory.
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

/// Bytes that came from below and were not yet looked at.
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

    /// Makes room for `want` bytes altogether, the present ones at the beginning.
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

    fn put(&mut self, bytes: &[u8]) {
        self.make_room(self.to - self.from + bytes.len());
        if let Some(room) = self.memory.get_mut(self.to..self.to + bytes.len()) {
            room.copy_from_slice(bytes);
            self.to += bytes.len();
        }
    }

    fn poll_fill<S: AsyncRead + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        below: &mut S,
        want: usize,
    ) -> Poll<io::Result<usize>> {
        self.make_room(want);
        let end = if want < INBOX {
            self.from + want
        } else {
            self.memory.len()
        };
        let mut part = ReadBuf::new(self.memory.get_mut(self.to..end).unwrap_or_default());
        ready!(Pin::new(below).poll_read(cx, &mut part))?;
        let n = part.filled().len();
        self.to += n;
        Poll::Ready(Ok(n))
    }
}
