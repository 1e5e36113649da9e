//! `Control`: one control connection, driven by a task of its own; commands may be pipelined.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ftp_proto::client::{ClientSession, Input, Output};
use ftp_proto::types::Ticket;
use ftp_wire::command::Command;
use ftp_wire::path::FtpPath;
use ftp_wire::reply::Reply;
use gridftp_data::Watch;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot};
use xio_core::BoxStream;

use crate::clock::{now, sleep_until};
use crate::error::ControlError;
use crate::progress::{Event, Observer};
use crate::url::show;

/// Bytes read from the server at once.
const READ: usize = 16 * 1024;
/// Longest wait for the reply to `QUIT`, and for the shutdown of the connection.
const CLOSING: Duration = Duration::from_secs(2);
/// How often a transfer is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// One control connection.
///
/// # Cancel safety
/// Dropping it closes the connection: at once when replies are outstanding, so that the server
/// gives up a transfer that nobody waits for; otherwise after `QUIT`. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Control {
    requests: mpsc::UnboundedSender<Request>,
    site: Arc<str>,
    local: IpAddr,
    peer: IpAddr,
    round_trip: Duration,
    /// Whether the server drops all bytes of names that are no printable ASCII.
    pub(crate) ascii_only: bool,
    /// Whether the server sets times by `MFMT`; else `SITE UTIME` is tried.
    pub(crate) mfmt: bool,
    /// Whether a digest was asked for.
    pub(crate) hashed: Arc<AtomicBool>,
}

#[derive(Debug)]
enum Request {
    Command(Command, mpsc::UnboundedSender<Answer>),
    /// A caller waits until all commands so far are on their way.
    Flush(oneshot::Sender<()>),
    /// Data has moved, so a transfer that is silent here is alive.
    Moved,
    /// The running transfer is given up.
    Abort,
}

#[derive(Debug)]
enum Answer {
    Preliminary(Reply),
    Final(Reply),
    Lost(Arc<str>),
}

/// The replies to one command, as they come.
#[derive(Debug)]
pub(crate) struct Replies {
    answers: mpsc::UnboundedReceiver<Answer>,
    site: Arc<str>,
    command: String,
    begun: bool,
}

/// Sends `ABOR` when it is dropped before the transfer has ended.
#[derive(Debug)]
pub(crate) struct Abort<'a>(Option<&'a Control>);

impl Abort<'_> {
    /// The transfer has ended, or its end is awaited.
    pub(crate) fn spare(mut self) {
        self.0 = None;
    }
}

impl Drop for Abort<'_> {
    fn drop(&mut self) {
        if let Some(control) = self.0 {
            let _gone = control.requests.send(Request::Abort);
        }
    }
}

/// A reply and its meaning for the command.
#[derive(Debug)]
pub(crate) enum Step {
    /// More will come (1xx).
    Preliminary(Reply),
    /// It is done (2xx, 3xx).
    Done(Reply),
}

impl Control {
    /// Takes over a fresh connection; the second value gives the banner.
    pub(crate) fn start(
        stream: BoxStream,
        site: Arc<str>,
        session: ClientSession,
        round_trip: Duration,
        observer: Arc<dyn Observer>,
    ) -> Result<(Self, Replies), ControlError> {
        let info = xio_core::Stream::info(&stream);
        let (Some(local), Some(peer)) = (info.local, info.peer) else {
            return Err(ControlError::Lost {
                site: site.to_string(),
                command: "connect".to_owned(),
                why: "the stack does not tell its addresses".to_owned(),
            });
        };
        let (requests, incoming) = mpsc::unbounded_channel();
        let (banner, answers) = mpsc::unbounded_channel();
        let driver = Driver {
            session,
            waiting: VecDeque::from([(Ticket::BANNER, banner)]),
            out: Vec::new(),
            flushing: Vec::new(),
            spoken: observer
                .wants_control()
                .then_some((observer, Arc::clone(&site))),
            end: None,
        };
        tokio::spawn(driver.run(stream, incoming));
        let replies = Replies {
            answers,
            site: Arc::clone(&site),
            command: "connect".to_owned(),
            begun: false,
        };
        let control = Self {
            requests,
            site,
            local: local.ip(),
            peer: peer.ip().to_canonical(),
            round_trip,
            ascii_only: false,
            mfmt: false,
            hashed: Arc::default(),
        };
        Ok((control, replies))
    }

    /// Sends a command behind those that were sent before.
    pub(crate) fn send(&self, command: Command) -> Replies {
        let (answer, answers) = mpsc::unbounded_channel();
        let shown = show(command.to_string().as_bytes());
        // A driver that is gone drops the request, and with it the sender: the reply is `Lost`.
        let _gone = self.requests.send(Request::Command(command, answer));
        Replies {
            answers,
            site: Arc::clone(&self.site),
            command: shown,
            begun: false,
        }
    }

    /// Waits until all commands that were given are on their way, or none will be.
    pub(crate) async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        let _gone = self.requests.send(Request::Flush(done));
        let _gone = flushed.await;
    }

    /// Tells that data moved.
    pub(crate) fn moved(&self) {
        let _gone = self.requests.send(Request::Moved);
    }

    /// Has the server abort the running transfer, unless that ends before the guard is dropped.
    pub(crate) fn abort_on_drop(&self) -> Abort<'_> {
        Abort(Some(self))
    }

    /// Runs a transfer, and tells `count` and the session how many bytes move meanwhile.
    pub(crate) async fn watched<T>(
        &self,
        watch: &Watch,
        mut count: impl FnMut(u64),
        work: impl Future<Output = T>,
    ) -> T {
        let mut counted = 0;
        let mut look = || {
            let bytes = watch.bytes();
            let more = bytes - counted;
            count(more);
            counted = bytes;
            more > 0
        };
        let mut tick = tokio::time::interval(LOOK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        tick.reset();
        tokio::pin!(work);
        let done = loop {
            tokio::select! {
                biased;
                done = &mut work => break done,
                _ = tick.tick() => if look() {
                    self.moved();
                },
            }
        };
        look();
        done
    }

    /// Why no command will have a reply any more, once the connection is closed.
    pub(crate) fn gone(&self) -> Option<ControlError> {
        self.requests.is_closed().then(|| ControlError::Lost {
            site: self.site.to_string(),
            command: "session".to_owned(),
            why: "the control connection is closed".to_owned(),
        })
    }

    /// Makes a path for a command; `None` when no command to this server can carry it.
    pub(crate) fn path(&self, path: &[u8]) -> Option<FtpPath> {
        if self.ascii_only && path.iter().any(is_dropped) {
            return None;
        }
        FtpPath::new(path.to_vec())
    }

    /// `host:port`.
    pub(crate) fn site(&self) -> &Arc<str> {
        &self.site
    }

    /// Our address on this connection.
    pub(crate) fn local(&self) -> IpAddr {
        self.local
    }

    /// The server's address on this connection.
    pub(crate) fn peer(&self) -> IpAddr {
        self.peer
    }

    /// How long the connection took to be made.
    pub(crate) fn round_trip(&self) -> Duration {
        self.round_trip
    }
}

/// Says whether a server that takes names of ASCII only drops the byte: one that is neither
/// printable nor white space.
fn is_dropped(byte: &u8) -> bool {
    !matches!(byte, b' '..=b'~' | b'\t' | 0x0b | 0x0c)
}

impl Replies {
    /// The next reply; failures are errors.
    ///
    /// # Cancel safety
    /// No reply is lost.
    pub(crate) async fn next(&mut self) -> Result<Step, ControlError> {
        match self.answers.recv().await {
            Some(Answer::Preliminary(reply)) => {
                self.begun = true;
                Ok(Step::Preliminary(reply))
            }
            Some(Answer::Final(reply)) if reply.code().is_failure() => Err(ControlError::Refused {
                site: self.site.to_string(),
                command: self.command.clone(),
                reply,
            }),
            Some(Answer::Final(reply)) => {
                self.begun = true;
                Ok(Step::Done(reply))
            }
            Some(Answer::Lost(why)) => Err(self.unanswered(&why)),
            None => Err(self.unanswered("the control connection is closed")),
        }
    }

    /// The final reply; failures are errors. Preliminary ones are dropped.
    pub(crate) async fn finish(&mut self) -> Result<Reply, ControlError> {
        self.finish_with(|_| ()).await
    }

    /// The final reply; failures are errors. `each` gets the preliminary ones.
    ///
    /// # Cancel safety
    /// No reply is lost.
    pub(crate) async fn finish_with(
        &mut self,
        mut each: impl FnMut(&Reply),
    ) -> Result<Reply, ControlError> {
        loop {
            match self.next().await? {
                Step::Done(reply) => return Ok(reply),
                Step::Preliminary(reply) => each(&reply),
            }
        }
    }

    /// The server, `host:port`.
    pub(crate) fn site(&self) -> &str {
        &self.site
    }

    /// Waits for the end, whatever the final reply says.
    pub(crate) async fn ended(&mut self) -> Result<(), ControlError> {
        self.finish().await.map(drop)
    }

    /// Says whether the server had accepted the command: old ones say so only at its end.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    /// The error of a reply that makes no sense.
    pub(crate) fn misbehaved(&self, what: impl Into<String>) -> ControlError {
        ControlError::Misbehaved {
            site: self.site.to_string(),
            command: self.command.clone(),
            what: what.into(),
        }
    }

    /// The error of a command that will have no reply.
    pub(crate) fn unanswered(&self, why: &str) -> ControlError {
        ControlError::Lost {
            site: self.site.to_string(),
            command: self.command.clone(),
            why: why.to_owned(),
        }
    }
}

/// The state of the task behind a [`Control`].
struct Driver {
    session: ClientSession,
    waiting: VecDeque<(Ticket, mpsc::UnboundedSender<Answer>)>,
    out: Vec<u8>,
    flushing: Vec<oneshot::Sender<()>>,
    spoken: Option<(Arc<dyn Observer>, Arc<str>)>,
    end: Option<Arc<str>>,
}

impl Driver {
    async fn run(mut self, stream: BoxStream, mut requests: mpsc::UnboundedReceiver<Request>) {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let mut input = vec![0; READ];
        let mut quitting = None;
        loop {
            let deadline = self.drain();
            if self.out.is_empty() {
                for done in self.flushing.drain(..) {
                    let _gone = done.send(());
                }
            }
            if let Some(why) = self.end.take() {
                requests.close();
                self.lose_all(&why);
                while let Ok(Request::Command(_, answer)) = requests.try_recv() {
                    let _gone = answer.send(Answer::Lost(Arc::clone(&why)));
                }
                let _bye = tokio::time::timeout(CLOSING, writer.shutdown()).await;
                return;
            }
            let deadline = deadline.into_iter().chain(quitting).min();
            tokio::select! {
                biased;
                wrote = writer.write(&self.out), if !self.out.is_empty() => match wrote {
                    Ok(n) => drop(self.out.drain(..n)),
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
                    Some(request) => {
                        self.request(request);
                        while let Ok(request) = requests.try_recv() {
                            self.request(request);
                        }
                    }
                    None if self.waiting.is_empty() => {
                        // The reply is awaited only so that the server is not reset while it
                        // writes it.
                        let (answer, _) = mpsc::unbounded_channel();
                        self.request(Request::Command(Command::Quit, answer));
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

    fn request(&mut self, request: Request) {
        match request {
            Request::Flush(done) => self.flushing.push(done),
            Request::Moved => self.session.handle(now(), Input::Moved),
            // No reply is waited for; a session that has ended needs no abort.
            Request::Abort => drop(self.session.abort(now())),
            Request::Command(command, answer) => match self.session.send(now(), &command) {
                Ok(ticket) => self.waiting.push_back((ticket, answer)),
                Err(misuse) => {
                    let _gone = answer.send(Answer::Lost(misuse.to_string().into()));
                }
            },
        }
    }

    fn tell(&self, sent: bool, text: &[u8]) {
        if let Some((observer, site)) = &self.spoken {
            let line = show(text);
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
                    self.out.extend_from_slice(outgoing.bytes());
                }
                Output::Preliminary(ticket, reply) => {
                    self.tell_reply(&reply);
                    if let Some((_, answer)) = self.waiting.iter().find(|(t, _)| *t == ticket) {
                        let _gone = answer.send(Answer::Preliminary(reply));
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
            let _gone = waiter.send(answer);
        }
    }

    fn lose_all(&mut self, why: &Arc<str>) {
        for (_, answer) in self.waiting.drain(..) {
            let _gone = answer.send(Answer::Lost(Arc::clone(why)));
        }
    }
}
