//! `Writer`: collects bytes to blocks, packs them, and sends them in order.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::io::AsyncWrite;
use xio_core::{Error, ErrorKind, Operation};

use crate::LAYER;
use crate::auto::{Auto, Next};
use crate::codec::{Algorithm, is_fill};
use crate::codec_cache::{Choice, CodecCache, Packed};
use crate::frame::{Head, Preamble};
use crate::options::Rules;
use crate::outgoing::{Outgoing, SMALL};
use crate::parallel::WorkQueue;

/// Number of bytes after which one call takes no more blocks.
const AT_ONCE: usize = 64 << 10;
/// Size in bytes of a sample of a block.
const SAMPLE: usize = 4 << 10;

/// The source of the choice for the next block.
#[derive(Debug)]
pub(crate) enum Chooser {
    Fixed(Choice),
    Auto(Box<Auto>),
}

/// The bytes that a direction has moved so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moved {
    pub(crate) original: u64,
    pub(crate) wire: u64,
}

/// The sending half.
#[derive(Debug)]
pub(crate) struct Writer {
    codecs: CodecCache,
    rules: Rules,
    block: usize,
    chooser: Chooser,
    /// The choices for the next block, until it is packed.
    next: Option<Vec<Choice>>,
    /// The block that is being collected.
    fill: Vec<u8>,
    line: WorkQueue<Packed>,
    /// Whether the caller waits for the oldest block of the line to be packed.
    waited: bool,
    out: Outgoing,
    /// Memory of blocks that have been sent, for those to come.
    spare: Vec<Vec<u8>>,
    spares: usize,
    /// Blocks that have been given to `line` or sent.
    number: u64,
    stage: Stage,
    original: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    Fresh,
    Open,
    /// The end mark was written.
    Ended,
    Failed(io::ErrorKind),
}

impl Writer {
    pub(crate) fn new(
        codecs: CodecCache,
        rules: Rules,
        block: usize,
        threads: usize,
        chooser: Chooser,
    ) -> Self {
        Self {
            codecs,
            rules,
            block,
            chooser,
            next: None,
            fill: Vec::new(),
            line: WorkQueue::new(threads),
            waited: false,
            out: Outgoing::default(),
            spare: Vec::new(),
            spares: threads + 1,
            number: 0,
            stage: Stage::Fresh,
            original: 0,
        }
    }

    pub(crate) fn moved(&self) -> Moved {
        Moved {
            original: self.original,
            wire: self.out.sent_before,
        }
    }

    pub(crate) fn choice(&self) -> Choice {
        match &self.chooser {
            Chooser::Fixed(choice) => *choice,
            Chooser::Auto(auto) => auto.current(),
        }
    }

    pub(crate) fn poll_write<S: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        below: &mut S,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.begin(Operation::Write)?;
        let mut taken = 0;
        // Several small blocks in one call, but not so many that other tasks wait for long.
        while taken < buf.len() && taken < AT_ONCE {
            let rest = buf.get(taken..).unwrap_or_default();
            let answer = self.poll_take(cx, below, rest);
            match self.settle(answer) {
                Poll::Ready(n) => taken += n?,
                Poll::Pending if taken > 0 => break,
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(taken))
    }

    pub(crate) fn poll_flush<S: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        below: &mut S,
    ) -> Poll<io::Result<()>> {
        if let Stage::Failed(_) = self.stage {
            self.begin(Operation::Flush)?;
        }
        let answer = self.poll_empty(cx, below);
        ready!(self.settle(answer))?;
        Pin::new(below).poll_flush(cx)
    }

    pub(crate) fn poll_shutdown<S: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        below: &mut S,
    ) -> Poll<io::Result<()>> {
        if self.stage != Stage::Ended {
            self.begin(Operation::Shutdown)?;
            let answer = self.poll_empty(cx, below);
            ready!(self.settle(answer))?;
            self.out.add_head(&Head::end(self.number));
            self.stage = Stage::Ended;
        }
        let answer = self.poll_empty(cx, below);
        ready!(self.settle(answer))?;
        Pin::new(below).poll_shutdown(cx)
    }

    /// Writes the preamble before the first block, and refuses operations after the end or a
    /// failure.
    fn begin(&mut self, op: Operation) -> io::Result<()> {
        let fact = match self.stage {
            Stage::Open => return Ok(()),
            Stage::Fresh => {
                self.out
                    .bytes
                    .extend_from_slice(&Preamble::new(self.block).write());
                self.stage = Stage::Open;
                return Ok(());
            }
            Stage::Ended => "the end mark was sent already",
            Stage::Failed(kind) => {
                let error = Error::new(ErrorKind::Reset, LAYER, op, "an earlier write failed");
                return Err(io::Error::new(kind, error));
            }
        };
        Err(Error::new(ErrorKind::Reset, LAYER, op, fact).into())
    }

    /// Remembers a failure: the stream below has a hole then.
    fn settle<T>(&mut self, answer: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let Poll::Ready(Err(error)) = &answer {
            self.stage = Stage::Failed(error.kind());
        }
        answer
    }

    fn poll_take<S: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        below: &mut S,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.fill.len() >= self.block {
            ready!(self.poll_seal(cx, below))?;
        }
        if self.fill.is_empty()
            && self.block > SMALL
            && let Some(block) = buf.get(..self.block)
            && let Some(taken) = ready!(self.poll_pass(cx, below, block))?
        {
            return Poll::Ready(Ok(taken));
        }
        if self.fill.capacity() == 0 {
            self.fill = self.spare.pop().unwrap_or_default();
            self.fill.clear();
            self.fill
                .reserve_exact(self.block.min(buf.len().next_power_of_two()));
        }
        let n = buf.len().min(self.block - self.fill.len());
        self.fill
            .extend_from_slice(buf.get(..n).unwrap_or_default());
        self.original += n as u64;
        // A full block is sent now; whether it waits below does not matter to this call.
        if self.fill.len() == self.block {
            let progress = self.poll_progress(cx, below);
            self.waited = false;
            if let Poll::Ready(Err(error)) = progress {
                return Poll::Ready(Err(error));
            }
        }
        Poll::Ready(Ok(n))
    }

    /// Queues the full block to be packed, and sends packed blocks that are worth a call.
    fn poll_progress<S: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        below: &mut S,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_seal(cx, below))?;
        while !self.line.is_empty() {
            ready!(self.poll_step(cx, below))?;
        }
        if self.out.has_room() {
            Poll::Ready(Ok(()))
        } else {
            self.poll_out(cx, below)
        }
    }

    /// Sends a whole block that is not to be compressed straight from the caller's memory.
    fn poll_pass<S: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        below: &mut S,
        block: &[u8],
    ) -> Poll<io::Result<Option<usize>>> {
        let fill = self.rules.fills() && is_fill(block);
        if !self.line.is_empty() || fill || !self.choose(block).is_empty() {
            return Poll::Ready(Ok(None));
        }
        if !self.out.has_room() {
            ready!(self.poll_out(cx, below))?;
        }
        let head = Head::new(self.number, Algorithm::Stored, block, block.len());
        self.out.add_head(&head);
        let first = self.out.bytes.get(self.out.sent..).unwrap_or_default();
        let slices = [IoSlice::new(first), IoSlice::new(block)];
        let ahead = first.len();
        let sent = match Pin::new(below).poll_write_vectored(cx, &slices) {
            Poll::Ready(sent) => sent?,
            Poll::Pending => 0,
        };
        // The rest that the layer below did not take is kept here, since its header is sent.
        let rest = sent.saturating_sub(ahead);
        self.out.advance(sent - rest);
        let mut tail = self.spare.pop().unwrap_or_default();
        tail.clear();
        tail.extend_from_slice(block.get(rest..).unwrap_or_default());
        self.out.sent_before += rest as u64;
        if tail.is_empty() {
            self.keep(tail);
        } else {
            self.out.tail_len = tail.len();
            self.out.tail = tail;
        }
        self.number += 1;
        self.next = None;
        self.original += block.len() as u64;
        match sent {
            0 => self.full(),
            _ => self.wrote(),
        }
        Poll::Ready(Ok(Some(block.len())))
    }

    /// Queues the collected block to be packed, once there is room.
    fn poll_seal<S: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        below: &mut S,
    ) -> Poll<io::Result<()>> {
        while !self.line.has_room() {
            ready!(self.poll_step(cx, below))?;
        }
        let block = std::mem::take(&mut self.fill);
        let choices = self.choose(&block);
        self.next = None;
        let room = self.spare.pop().unwrap_or_default();
        let (codecs, rules, number) = (self.codecs.clone(), self.rules, self.number);
        self.number += 1;
        let time = choices.iter().map(|choice| choice.time(block.len())).sum();
        self.line.push(time, move || {
            codecs.pack(&choices, rules, number, block, room)
        });
        Poll::Ready(Ok(()))
    }

    /// The choices for the next block; it is stored when there are none.
    fn choose(&mut self, block: &[u8]) -> Vec<Choice> {
        let auto = match &mut self.chooser {
            Chooser::Fixed(Choice::STORED) => return Vec::new(),
            Chooser::Fixed(choice) => return vec![*choice],
            Chooser::Auto(auto) => auto,
        };
        if !self.rules.allow(block.len()) {
            return Vec::new();
        }
        if let Some(choices) = &self.next {
            return choices.clone();
        }
        let mut next = auto.choose(Instant::now());
        if let Next::Sample(choice) = next {
            let from = block.len().saturating_sub(SAMPLE) / 2;
            let sample = block.get(from..).unwrap_or_default();
            let sample = sample.get(..SAMPLE).unwrap_or(sample);
            next = auto.sampled(self.codecs.sample(choice, sample));
        }
        let choices = match next {
            Next::Pack(Choice::STORED) | Next::Sample(_) => Vec::new(),
            Next::Pack(choice) => vec![choice],
            Next::Contest(choices) => choices,
        };
        self.next = Some(choices.clone());
        choices
    }

    /// Sends all written bytes.
    fn poll_empty<S: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        below: &mut S,
    ) -> Poll<io::Result<()>> {
        if !self.fill.is_empty() {
            ready!(self.poll_seal(cx, below))?;
        }
        while !self.line.is_empty() {
            ready!(self.poll_step(cx, below))?;
        }
        ready!(self.poll_out(cx, below))?;
        // A stream that waits from here on holds no memory.
        self.fill = Vec::new();
        self.spare.clear();
        self.out.release();
        Poll::Ready(Ok(()))
    }

    /// Moves the oldest block from the line to the outgoing bytes, and sends those before it.
    fn poll_step<S: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        below: &mut S,
    ) -> Poll<io::Result<()>> {
        if !self.out.has_room() {
            ready!(self.poll_out(cx, below))?;
        }
        let Poll::Ready(next) = self.line.poll_next(cx) else {
            self.waited = true;
            return Poll::Pending;
        };
        let waited = std::mem::take(&mut self.waited);
        let next = next.map_err(|error| Error::from_io(error, LAYER, Operation::Write))?;
        if let Some(mut packed) = next {
            // The cost of work on other threads is the time waited for it, the start of threads
            // included.
            if let ([only], true) = (packed.outcomes.as_mut_slice(), waited) {
                only.time = only.time.max(packed.began.elapsed());
            }
            if let Chooser::Auto(auto) = &mut self.chooser {
                auto.packed(Instant::now(), &packed.outcomes);
            }
            self.keep(packed.spare);
            if let Some(unused) = self
                .out
                .add(&packed.head, packed.payload, packed.payload_len)
            {
                self.keep(unused);
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Sends all packed bytes.
    fn poll_out<S: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        below: &mut S,
    ) -> Poll<io::Result<()>> {
        while !self.out.is_empty() {
            let slices = self.out.slices();
            let Poll::Ready(sent) = Pin::new(&mut *below).poll_write_vectored(cx, &slices) else {
                self.full();
                return Poll::Pending;
            };
            let sent = sent?;
            if sent == 0 {
                let fact = "the layer below takes no bytes";
                return Poll::Ready(Err(Error::new(
                    ErrorKind::Io,
                    LAYER,
                    Operation::Write,
                    fact,
                )
                .into()));
            }
            self.out.advance(sent);
            self.wrote();
        }
        if let Some(tail) = self.out.take_tail() {
            self.keep(tail);
        }
        Poll::Ready(Ok(()))
    }

    /// Tells the chooser the numbers of bytes written and sent.
    fn wrote(&mut self) {
        if let Chooser::Auto(auto) = &mut self.chooser {
            auto.moved(self.out.sent_before, self.original);
            if auto.is_full() {
                auto.free(Instant::now());
            }
        }
    }

    /// Tells the chooser that the layer below takes no more for now.
    fn full(&mut self) {
        if let Chooser::Auto(auto) = &mut self.chooser {
            auto.full(Instant::now());
        }
    }

    fn keep(&mut self, memory: Vec<u8>) {
        if memory.capacity() > 0 && self.spare.len() < self.spares {
            self.spare.push(memory);
        }
    }
}
