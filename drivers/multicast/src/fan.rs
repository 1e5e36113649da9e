//! `Fan`: the receivers that one end serves, the window of bytes for them, and their reports.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncWriteExt, ReadBuf};
use xio_core::{Error, ErrorKind, Stream, Target, Transport};

use crate::intro::{Intro, MAX_TEXT, Report};

/// Most bytes between the fastest receiver and the slowest.
const WINDOW: usize = 1 << 20;

/// One receiver served by this end.
struct Branch<S> {
    /// Its contact, and the number of receivers behind it.
    name: String,
    /// Whether it may answer.
    answers: bool,
    /// Number of receivers behind it that may still be reported as failed.
    behind: usize,
    stream: S,
    /// Number of bytes of the stream written to it.
    sent: u64,
    down: bool,
    /// The received part of the head of a report, and its text.
    head: [u8; 3],
    filled: usize,
    text: Vec<u8>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The head of a report is next.
    Head,
    /// A report with this number of bytes left.
    Body(Report, usize),
    Ended,
    Failed,
}

/// A receiver that failed.
pub(crate) struct Failure {
    pub(crate) kind: ErrorKind,
    /// Its contact, and the reason.
    pub(crate) text: String,
}

/// All receivers served by this end.
pub(crate) struct Fan<S> {
    branches: Vec<Branch<S>>,
    window: VecDeque<u8>,
    /// Offset of the window in the stream, in bytes.
    base: u64,
    pub(crate) failures: Vec<Failure>,
}

/// Splits receivers into `p` groups, each in the given order.
fn groups(receivers: &[Target], p: u8) -> Vec<VecDeque<Target>> {
    let count = receivers.len().min(usize::from(p)).max(1);
    let mut groups = vec![VecDeque::new(); count];
    for (at, receiver) in receivers.iter().enumerate() {
        if let Some(group) = groups.get_mut(at % count) {
            group.push_back(receiver.clone());
        }
    }
    groups
}

impl<S: Stream> Fan<S> {
    /// Connects to the first reachable receiver of each group, and sends it the rest of the group.
    ///
    /// `answers` permits the very first receiver to answer.
    pub(crate) async fn open<T: Transport<Handle = S>>(
        below: &T,
        receivers: &[Target],
        p: u8,
        answers: bool,
    ) -> Self {
        let mut fan = Self {
            branches: Vec::new(),
            window: VecDeque::new(),
            base: 0,
            failures: Vec::new(),
        };
        for mut group in groups(receivers, p) {
            while let Some(first) = group.pop_front() {
                let intro = Intro {
                    answers: answers && receivers.first() == Some(&first),
                    p,
                    receivers: group.iter().cloned().collect(),
                };
                match introduce(below, &first, &intro).await {
                    Ok(stream) => {
                        fan.branches.push(Branch::new(&first, &intro, stream));
                        break;
                    }
                    Err(error) => fan.failures.push(Failure {
                        kind: error.kind(),
                        text: format!("`{first:?}`: {error}"),
                    }),
                }
            }
        }
        fan
    }

    pub(crate) fn first(&self) -> Option<&S> {
        self.branches.first().map(|branch| &branch.stream)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.branches.is_empty()
    }

    /// Whether all receivers have failed.
    pub(crate) fn is_lost(&self) -> bool {
        self.branches
            .iter()
            .all(|branch| branch.state == State::Failed)
    }

    pub(crate) fn room(&self) -> usize {
        WINDOW - self.window.len()
    }

    /// Adds bytes to the window, at most [`room`](Self::room) of them.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if !self.is_empty() {
            self.window.extend(bytes);
        }
    }

    /// Runs an operation on all receivers that have not failed, and records failures.
    fn poll_each(
        &mut self,
        mut operation: impl FnMut(&mut Branch<S>) -> Poll<io::Result<()>>,
    ) -> Poll<()> {
        let mut all = Poll::Ready(());
        for branch in &mut self.branches {
            if branch.state == State::Failed {
                continue;
            }
            match operation(branch) {
                Poll::Ready(Ok(())) => {}
                Poll::Pending => all = Poll::Pending,
                Poll::Ready(Err(error)) => {
                    branch.state = State::Failed;
                    let known = Error::layer_of(&error).map(Error::kind);
                    self.failures.push(Failure {
                        kind: known.unwrap_or_else(|| error.kind().into()),
                        text: format!("{}: {error}", branch.name),
                    });
                }
            }
        }
        all
    }

    /// Writes the window to all receivers, until each has all of it.
    pub(crate) fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let window = std::mem::take(&mut self.window);
        let base = self.base;
        let all = self.poll_each(|branch| branch.poll_drain(cx, &window, base));
        self.window = window;
        let behind = self
            .branches
            .iter()
            .filter(|branch| branch.state != State::Failed);
        let end = self.base + self.window.len() as u64;
        let least = behind.map(|branch| branch.sent).min().unwrap_or(end);
        self.window
            .drain(..usize::try_from(least - self.base).unwrap_or(usize::MAX));
        self.base = least;
        all
    }

    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        ready!(self.poll_drain(cx));
        self.poll_each(|branch| Pin::new(&mut branch.stream).poll_flush(cx))
    }

    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        ready!(self.poll_drain(cx));
        self.poll_each(|branch| {
            if !branch.down {
                ready!(Pin::new(&mut branch.stream).poll_shutdown(cx))?;
                branch.down = true;
            }
            Poll::Ready(Ok(()))
        })
    }

    /// Reads reports: answers into `buf`, failures into the list; ready without bytes when all
    /// receivers have ended.
    pub(crate) fn poll_reports(
        &mut self,
        cx: &mut Context<'_>,
        mut buf: Option<&mut ReadBuf<'_>>,
    ) -> Poll<()> {
        let filled = |buf: &Option<&mut ReadBuf<'_>>| buf.as_ref().map_or(0, |b| b.filled().len());
        let before = filled(&buf);
        let mut failures = Vec::new();
        let all = self.poll_each(|branch| {
            let buf = buf.as_deref_mut().filter(|_| branch.answers);
            branch.poll_report(cx, buf, &mut failures)
        });
        self.failures.append(&mut failures);
        if filled(&buf) > before {
            return Poll::Ready(());
        }
        all
    }
}

async fn introduce<T: Transport<Handle: Stream>>(
    below: &T,
    to: &Target,
    intro: &Intro,
) -> Result<T::Handle, Error> {
    let blame = |error| Error::from_io(error, crate::LAYER, xio_core::Operation::Connect);
    let mut stream = below.connect(to).await?;
    stream.write_all(&intro.to_bytes()).await.map_err(blame)?;
    stream.flush().await.map_err(blame)?;
    Ok(stream)
}

impl<S: Stream> Branch<S> {
    fn new(to: &Target, intro: &Intro, stream: S) -> Self {
        let behind = intro.receivers.len();
        let name = match behind {
            0 => format!("`{to:?}`"),
            n => format!("`{to:?}` (and {n} behind it)"),
        };
        Self {
            name,
            answers: intro.answers,
            behind,
            stream,
            sent: 0,
            down: false,
            head: [0; 3],
            filled: 0,
            text: Vec::new(),
            state: State::Head,
        }
    }

    fn poll_drain(
        &mut self,
        cx: &mut Context<'_>,
        window: &VecDeque<u8>,
        base: u64,
    ) -> Poll<io::Result<()>> {
        loop {
            let done = usize::try_from(self.sent - base).unwrap_or(usize::MAX);
            let (front, back) = window.as_slices();
            let (front, back) = match front.get(done..) {
                Some(rest) => (rest, back),
                None => (&[][..], back.get(done - front.len()..).unwrap_or_default()),
            };
            if front.is_empty() && back.is_empty() {
                return Poll::Ready(Ok(()));
            }
            // Skip an empty slice: a layer without vectored writes writes the first one only.
            let bufs = [IoSlice::new(front), IoSlice::new(back)];
            let bufs = bufs
                .get(usize::from(front.is_empty())..)
                .unwrap_or_default();
            match ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, bufs))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                n => self.sent += n as u64,
            }
        }
    }

    /// Reads reports up to the last, or until answers fill `buf`.
    fn poll_report(
        &mut self,
        cx: &mut Context<'_>,
        mut buf: Option<&mut ReadBuf<'_>>,
        failures: &mut Vec<Failure>,
    ) -> Poll<io::Result<()>> {
        let wrong = |what: &str| Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, what)));
        let mut scratch = [0; MAX_TEXT];
        loop {
            match self.state {
                State::Ended | State::Failed => return Poll::Ready(Ok(())),
                State::Head if self.filled == self.head.len() => {
                    self.filled = 0;
                    self.state = match Report::parse(self.head) {
                        Some((Report::End, _)) => State::Ended,
                        Some((Report::Failure, _)) if self.behind == 0 => {
                            return wrong("it reports more failures than receivers behind it");
                        }
                        Some((report, len)) => State::Body(report, len),
                        None => return wrong("its report is malformed"),
                    };
                }
                State::Head => {
                    let rest = self.head.get_mut(self.filled..).unwrap_or_default();
                    let mut window = ReadBuf::new(rest);
                    ready!(Pin::new(&mut self.stream).poll_read(cx, &mut window))?;
                    match window.filled().len() {
                        0 => return wrong("it ended without a report"),
                        n => self.filled += n,
                    }
                }
                State::Body(report, 0) => {
                    if report == Report::Failure {
                        self.behind = self.behind.saturating_sub(1);
                        let text = String::from_utf8_lossy(&self.text);
                        failures.push(Failure {
                            kind: ErrorKind::Reset,
                            text: text.escape_debug().collect(),
                        });
                        self.text.clear();
                    }
                    self.state = State::Head;
                }
                State::Body(report, left) => {
                    let limit = left.min(MAX_TEXT);
                    let (mut window, answers) = match (report, buf.as_deref_mut()) {
                        (Report::Answer, None) => return wrong("it answers without permission"),
                        (Report::Answer, Some(buf)) => {
                            let most = left.min(buf.remaining());
                            if most == 0 {
                                return Poll::Pending;
                            }
                            (ReadBuf::new(buf.initialize_unfilled_to(most)), true)
                        }
                        _ => (
                            ReadBuf::new(scratch.get_mut(..limit).unwrap_or_default()),
                            false,
                        ),
                    };
                    ready!(Pin::new(&mut self.stream).poll_read(cx, &mut window))?;
                    let n = window.filled().len();
                    if n == 0 {
                        return wrong("it ended within a report");
                    }
                    match answers {
                        true => drop(buf.as_deref_mut().map(|buf| buf.advance(n))),
                        false => self.text.extend_from_slice(window.filled()),
                    }
                    self.state = State::Body(report, left - n);
                }
            }
        }
    }
}
