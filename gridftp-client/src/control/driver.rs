//! `Driver`: the task of a control connection, which moves its bytes, requests and replies.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ftp_proto::client::{ClientSession, Input, Output};
use ftp_proto::types::Ticket;
use ftp_wire::command::Command;
use ftp_wire::reply::Reply;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot};
use xio_core::{BoxStream, Info};
use zeroize::Zeroizing;

use crate::clock::{now, sleep_until};
use crate::guard::Guard;
use crate::progress::{Event, Observer};
use crate::url::show_text;

/// Bytes read from the server at once.
const READ: usize = 16 * 1024;
/// Longest wait for the reply to `QUIT`, and for the shutdown of the connection.
const CLOSING: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) enum Request {
    Command(Command, Waiter),
    /// A caller waits until all commands so far are on their way.
    Flush(oneshot::Sender<()>),
    /// Data has moved, so a transfer that is silent here is alive.
    Moved,
    /// The running transfer is given up.
    Abort,
    /// The connection is to be protected.
    Upgrade(Upgrade),
}

#[derive(Debug)]
pub(super) enum Answer {
    Preliminary(Reply),
    Final(Reply),
    Lost(Arc<str>),
}

/// Sender of the replies to one command, which counts as due until it is dropped.
#[derive(Debug)]
pub(super) struct Waiter {
    answers: mpsc::UnboundedSender<Answer>,
    /// Dropped after `answers`: the count may include a command that has just ended, and never misses
    /// one that has not.
    _due: Due,
}

/// A count that includes one command.
#[derive(Debug)]
struct Due(Arc<AtomicUsize>);

impl Waiter {
    pub(super) fn new(answers: mpsc::UnboundedSender<Answer>, due: &Arc<AtomicUsize>) -> Self {
        due.fetch_add(1, Ordering::Relaxed);
        let _due = Due(Arc::clone(due));
        Self { answers, _due }
    }

    pub(super) fn tell(&self, answer: Answer) {
        // The caller may be gone.
        let _gone = self.answers.send(answer);
    }
}

impl Drop for Due {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A handshake on the control connection.
#[derive(Debug)]
pub(super) struct Upgrade {
    guard: Guard,
    done: oneshot::Sender<xio_core::Result<Info>>,
}

impl Upgrade {
    pub(super) fn new(guard: Guard, done: oneshot::Sender<xio_core::Result<Info>>) -> Self {
        Self { guard, done }
    }

    /// Gives the protected stream, or the reason of the end.
    async fn run(self, stream: BoxStream) -> Result<BoxStream, Arc<str>> {
        let Self { guard, mut done } = self;
        let made = tokio::select! {
            made = guard.protect(stream) => made,
            () = done.closed() => return Err("the handshake was given up".into()),
        };
        match made {
            Ok(stream) => {
                let _gone = done.send(Ok(xio_core::Stream::info(&stream)));
                Ok(stream)
            }
            Err(error) => {
                let why = error.to_string().into();
                let _gone = done.send(Err(error));
                Err(why)
            }
        }
    }
}

/// Joins secrets in a place that needs not grow, which would leave a copy behind.
fn joined(parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(parts.concat())
}

/// The state of the task behind a [`Control`](super::Control).
pub(super) struct Driver {
    session: ClientSession,
    waiting: VecDeque<(Ticket, Waiter)>,
    /// Bytes for the server, which may be a password or a key.
    out: Zeroizing<Vec<u8>>,
    flushing: Vec<oneshot::Sender<()>>,
    spoken: Option<(Arc<dyn Observer>, Arc<str>)>,
    upgrade: Option<Upgrade>,
    /// Whether `QUIT` was sent.
    quit: bool,
    end: Option<Arc<str>>,
    /// The reason of the end, for the other side.
    ended: Arc<OnceLock<Arc<str>>>,
}

impl Driver {
    /// Drives `session`; the greeting goes to `banner`, the conversation to `spoken`.
    pub(super) fn new(
        session: ClientSession,
        banner: Waiter,
        spoken: Option<(Arc<dyn Observer>, Arc<str>)>,
        ended: Arc<OnceLock<Arc<str>>>,
    ) -> Self {
        Self {
            session,
            waiting: VecDeque::from([(Ticket::BANNER, banner)]),
            out: Zeroizing::default(),
            flushing: Vec::new(),
            spoken,
            upgrade: None,
            quit: false,
            end: None,
            ended,
        }
    }

    pub(super) async fn run(
        mut self,
        stream: BoxStream,
        mut requests: mpsc::UnboundedReceiver<Request>,
    ) {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let mut input = vec![0; READ];
        let mut quitting = None;
        loop {
            let deadline = self.drain();
            self.tell_flushed();
            if let Some(why) = self.end.take() {
                self.finish(&why, &mut requests);
                let _bye = tokio::time::timeout(CLOSING, writer.shutdown()).await;
                return;
            }
            if let Some(upgrade) = self.upgrade.take() {
                match upgrade.run(reader.unsplit(writer)).await {
                    Ok(stream) => (reader, writer) = tokio::io::split(stream),
                    Err(why) => return self.finish(&why, &mut requests),
                }
                self.session.upgraded(now());
                continue;
            }
            let deadline = deadline.into_iter().chain(quitting).min();
            tokio::select! {
                biased;
                wrote = writer.write(&self.out), if !self.out.is_empty() => match wrote {
                    // A new place: the old one is overwritten.
                    Ok(n) => self.out = joined(&[self.out.get(n..).unwrap_or_default()]),
                    Err(error) => self.end = Some(format!("send: {error}").into()),
                },
                read = reader.read(&mut input) => match read {
                    Ok(0) => self.session.handle(now(), Input::Eof),
                    Ok(n) => {
                        let bytes = input.get(..n).unwrap_or_default();
                        self.session.handle(now(), Input::Bytes(bytes));
                    }
                    Err(error) => self.end = Some(format!("receive: {error}").into()),
                },
                request = requests.recv(), if quitting.is_none() => match request {
                    Some(request) => self.take_requests(request, &mut requests),
                    None if self.waiting.is_empty() => {
                        self.quit();
                        quitting = Some(now() + CLOSING);
                    }
                    None => return,
                },
                () = sleep_until(deadline) => {
                    if quitting.is_some_and(|at| at <= now()) {
                        return;
                    }
                    self.session.handle(now(), Input::Timeout);
                }
            }
        }
    }

    /// Ends the requests, which have no answer any more.
    fn finish(&mut self, why: &Arc<str>, requests: &mut mpsc::UnboundedReceiver<Request>) {
        self.ended.get_or_init(|| Arc::clone(why));
        requests.close();
        self.lose_all(why);
        while let Ok(request) = requests.try_recv() {
            if let Request::Command(_, answer) = request {
                answer.tell(Answer::Lost(Arc::clone(why)));
            }
        }
    }

    /// Tells the callers that wait for it that all bytes are on their way, if they are.
    fn tell_flushed(&mut self) {
        if self.out.is_empty() {
            for done in self.flushing.drain(..) {
                let _gone = done.send(());
            }
        }
    }

    /// Sends `QUIT`, unless it was sent. The reply is awaited only so that the server is not reset
    /// while it writes it.
    fn quit(&mut self) {
        if !self.quit {
            let (answers, _) = mpsc::unbounded_channel();
            let waiter = Waiter::new(answers, &Arc::default());
            self.request(Request::Command(Command::Quit, waiter));
        }
    }

    /// Carries out a request, and those that wait behind it.
    fn take_requests(&mut self, first: Request, behind: &mut mpsc::UnboundedReceiver<Request>) {
        self.request(first);
        while let Ok(request) = behind.try_recv() {
            self.request(request);
        }
    }

    fn request(&mut self, request: Request) {
        match request {
            Request::Upgrade(upgrade) => self.upgrade = Some(upgrade),
            Request::Flush(done) => self.flushing.push(done),
            Request::Moved => self.session.handle(now(), Input::Moved),
            // No reply is waited for; a session that has ended needs no abort.
            Request::Abort => drop(self.session.abort(now())),
            Request::Command(command, answer) => match self.session.send(now(), &command) {
                Ok(ticket) => {
                    self.quit |= command == Command::Quit;
                    self.waiting.push_back((ticket, answer));
                }
                Err(misuse) => {
                    answer.tell(Answer::Lost(misuse.to_string().into()));
                }
            },
        }
    }

    fn tell(&self, sent: bool, text: &[u8]) {
        if let Some((observer, site)) = &self.spoken {
            let line = show_text(text);
            observer.event(&Event::Control {
                site,
                sent,
                line: &line,
            });
        }
    }

    fn tell_reply(&self, reply: &Reply) {
        if self.spoken.is_some() {
            let mut text = Vec::new();
            reply.write_to(&mut text);
            for line in text.split(|b| *b == b'\n') {
                if !line.is_empty() {
                    self.tell(false, line.trim_ascii_end());
                }
            }
        }
    }

    /// Does all that the session wants; returns when it wants to be woken.
    fn drain(&mut self) -> Option<Instant> {
        loop {
            match self.session.poll() {
                Output::Send(outgoing) => {
                    if self.spoken.is_some() {
                        self.tell(true, outgoing.to_string().as_bytes());
                    }
                    self.out = joined(&[&self.out, outgoing.bytes()]);
                }
                Output::Preliminary(ticket, reply) => {
                    self.tell_reply(&reply);
                    if let Some((_, answer)) = self.waiting.iter().find(|(t, _)| *t == ticket) {
                        answer.tell(Answer::Preliminary(reply));
                    }
                }
                Output::Reply(ticket, reply) => {
                    self.tell_reply(&reply);
                    self.answer(ticket, Answer::Final(reply));
                }
                Output::Unsolicited(reply) => self.tell_reply(&reply),
                // Why, the end says, which follows at once.
                Output::Lost(_) => {}
                Output::Closed(ending) => {
                    let why: Arc<str> = ending.to_string().into();
                    self.ended.get_or_init(|| Arc::clone(&why));
                    self.lose_all(&why);
                    self.end = Some(why);
                    return None;
                }
                Output::Wait(deadline) => return deadline,
            }
        }
    }

    fn answer(&mut self, ticket: Ticket, answer: Answer) {
        if let Some(at) = self.waiting.iter().position(|(t, _)| *t == ticket)
            && let Some((_, waiter)) = self.waiting.remove(at)
        {
            waiter.tell(answer);
        }
    }

    fn lose_all(&mut self, why: &Arc<str>) {
        for (_, answer) in self.waiting.drain(..) {
            answer.tell(Answer::Lost(Arc::clone(why)));
        }
    }
}
