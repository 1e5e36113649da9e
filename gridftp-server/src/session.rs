//! Drives one `ServerSession` over one control connection; no protocol decisions.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ftp_proto::security::Mechanism;
use ftp_proto::server::{Ending, Input, Output, ServerSession};
use ftp_proto::types::{Action, Event, Outcome};
use ftp_wire::line::LineSplitter;
use gridftp_dsi::Dsi;
use tokio::io::{AsyncRead as _, AsyncWriteExt as _, ReadBuf};
use tokio::sync::watch;
use tokio::time::{self, Sleep};
use xio::BoxStream;
use zeroize::Zeroize as _;

use crate::action::{Executor, Finished, Running};
use crate::error::AbortedBy;
use crate::log::Shown;
use crate::outbox::Outbox;

/// Time for the last replies.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

thread_local! {
    /// The read buffer: one for all sessions of a thread, since lines are copied out before the
    /// next poll.
    static SCRATCH: RefCell<[u8; 16 << 10]> = const { RefCell::new([0; 16 << 10]) };
}

/// One control connection.
pub(crate) struct Session<D: Dsi> {
    machine: ServerSession,
    /// `None` during a handshake, and after one that failed.
    pub(crate) stream: Option<BoxStream>,
    pub(crate) lines: LineSplitter,
    pub(crate) out: Outbox,
    /// Set when the machine asks for a handshake.
    upgrade: Option<Mechanism>,
    /// Set while a 125 or 150 is unsent; the transfer continues behind it.
    announcing: bool,
    pub(crate) executor: Executor<D>,
    running: Option<Running>,
    /// The number of requests to stop, and of those handled here.
    pub(crate) stopping: watch::Receiver<u8>,
    pub(crate) heard: u8,
    /// Set at the end of reading.
    read_closed: bool,
    /// Set at the end of writing.
    write_closed: bool,
    /// The machine's deadline.
    pub(crate) deadline: Option<Instant>,
    /// Deadline for closing an unused data port, so that the range is not exhausted.
    port_until: Option<Instant>,
}

/// The cause of a session's wake-up.
enum Wake {
    /// Lines may be in the splitter.
    Read,
    /// The client closed its side, or the connection failed.
    Lost,
    Event(Event),
    Done(Finished),
    Deadline,
    Stop,
    /// The outbox has room again.
    Sent,
    /// The connection is evicted in favour of a new one.
    Evicted,
}

impl<D: Dsi> Session<D> {
    pub(crate) fn new(
        machine: ServerSession,
        stream: BoxStream,
        executor: Executor<D>,
        stopping: watch::Receiver<u8>,
    ) -> Self {
        let mut lines = LineSplitter::new();
        if executor.person.is_some() {
            lines.allow_credentials();
        }
        Self {
            machine,
            stream: Some(stream),
            upgrade: None,
            lines,
            out: Outbox::new(Instant::now()),
            announcing: false,
            executor,
            running: None,
            stopping,
            heard: 0,
            read_closed: false,
            write_closed: false,
            deadline: None,
            port_until: None,
        }
    }

    /// Runs the session to its end. It stays in its box, since a future holds its arguments twice.
    ///
    /// # Cancel safety
    /// Dropped, it closes the control connection and aborts the running action.
    pub(crate) async fn run(mut self: Box<Self>) {
        let ending = self.drive().await;
        let flush = async {
            let Some(stream) = &mut self.stream else {
                return Ok(());
            };
            stream.write_all(self.out.rest()).await?;
            stream.shutdown().await
        };
        // An evicted client's last replies are not awaited: its place is taken already.
        let within = match ending {
            Some(Ending::Overloaded) => Duration::ZERO,
            _ => FLUSH_TIMEOUT,
        };
        drop(time::timeout(within, flush).await);
        match ending {
            Some(ending) => {
                tracing::debug!(peer = %self.executor.ends.peer, %ending, "session ended")
            }
            None => {
                tracing::debug!(peer = %self.executor.ends.peer, "session ended: connection lost")
            }
        }
    }

    /// Runs until the machine closes, or the connection is lost.
    async fn drive(&mut self) -> Option<Ending> {
        let mut timer = pin!(time::sleep(Duration::ZERO));
        let mut stop = pin!(asked(self.stopping.clone(), self.heard));
        if let Some(ending) = self.settle() {
            return Some(ending);
        }
        loop {
            if let Some(mechanism) = self.upgrade.take() {
                // Boxed: an idle session holds no memory for it.
                let result = Box::pin(self.upgrade(mechanism)).await;
                self.machine.handle(Instant::now(), result);
                if let Some(ending) = self.settle() {
                    return Some(ending);
                }
            }
            let wake = poll_fn(|cx| self.poll_wake(cx, timer.as_mut(), stop.as_mut())).await;
            let now = Instant::now();
            match wake {
                Wake::Read | Wake::Sent | Wake::Deadline => {}
                Wake::Lost => self.machine.handle(now, Input::Eof),
                Wake::Event(event) => {
                    if let Some(running) = &self.running {
                        self.machine
                            .handle(now, Input::Event(running.ticket, event));
                    }
                }
                Wake::Done(finished) => {
                    if let Some(ending) = self.finish(now, finished) {
                        return Some(ending);
                    }
                }
                Wake::Stop => {
                    self.heard += 1;
                    stop.set(asked(self.stopping.clone(), self.heard));
                    self.machine.handle(now, Input::Drain);
                }
                Wake::Evicted => self.machine.handle(now, Input::Evict),
            }
            if let Some(ending) = self.settle() {
                return Some(ending);
            }
            if let Some(ending) = self.run_lines() {
                return Some(ending);
            }
            let answers = self.lines.take_answers();
            let now = Instant::now();
            if !answers.is_empty() {
                self.out.add(now, |out| out.extend_from_slice(&answers));
            }
            // Checked every time: a client that never stops sending leaves no time for a timer.
            if let Some(ending) = self.keep_time(now) {
                return Some(ending);
            }
            if self.out.deadline().is_some_and(|until| until <= now) {
                return None;
            }
        }
    }

    /// Runs received lines while the queue and the outbox have room; returns the ending when the
    /// machine closed.
    fn run_lines(&mut self) -> Option<Ending> {
        while self.may_run_more() {
            let now = Instant::now();
            match self.lines.next_line()? {
                Ok(line) => self.machine.handle(now, Input::Line(line)),
                Err(bad) => self.machine.handle(now, Input::BadLine(bad)),
            }
            if let Some(ending) = self.settle() {
                return Some(ending);
            }
        }
        None
    }

    /// Handles expired deadlines; returns the ending when the machine closed.
    fn keep_time(&mut self, now: Instant) -> Option<Ending> {
        if self.port_until.is_some_and(|until| until <= now) {
            self.port_until = None;
            self.executor.drop_data();
        }
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return None;
        }
        self.machine.handle(now, Input::Timeout);
        self.settle()
    }

    /// Polls the machine's outputs; returns the ending when it closed.
    fn settle(&mut self) -> Option<Ending> {
        loop {
            match self.machine.poll() {
                Output::Reply(reply) => {
                    self.announcing |= matches!(reply.code().number(), 125 | 150);
                    self.out.add(Instant::now(), |out| reply.write_to(out));
                }
                Output::Action(_, Action::Abort(ticket)) => {
                    if let Some(running) = &mut self.running
                        && running.ticket == ticket
                        && let Some(cancel) = running.cancel.take()
                    {
                        // The second request to stop aborts the running action.
                        let by = match self.heard {
                            0 | 1 => AbortedBy::Client,
                            _ => AbortedBy::Server,
                        };
                        // The work may have ended already.
                        let _ = cancel.send(by);
                    }
                }
                Output::Action(ticket, action) => {
                    if matches!(
                        action,
                        Action::Transfer(_) | Action::Connect(..) | Action::Listen { .. }
                    ) {
                        self.port_until = None;
                    }
                    if let Some(running) = self.executor.start(ticket, action) {
                        self.running = Some(running);
                    }
                }
                Output::Upgrade(mechanism) => self.upgrade = Some(mechanism),
                Output::Close(ending) => return Some(ending),
                Output::Wait(deadline) => {
                    self.deadline = deadline;
                    return None;
                }
            }
        }
    }

    /// Handles the result of an action.
    fn finish(&mut self, now: Instant, finished: Finished) -> Option<Ending> {
        let mut running = self.running.take()?;
        while let Ok(event) = running.events.try_recv() {
            self.machine
                .handle(now, Input::Event(running.ticket, event));
            if let Some(ending) = self.settle() {
                return Some(ending);
            }
        }
        if let Some(side) = finished.side {
            let waits = matches!(finished.outcome, Outcome::Listening(_) | Outcome::Failed(_));
            // Other actions, such as a disk stack, leave the deadline of a port unchanged.
            let until = waits.then(|| now + self.executor.policy.connect_timeout);
            let until = self.port_until.or(until);
            self.port_until = until.filter(|_| side.has_unused_port());
            self.executor.side = Some(side);
        }
        if let (Some(all), Some(waits)) = (&mut self.executor.waits, finished.waits) {
            *all = all.and(*waits);
        }
        if let Some(account) = finished.account {
            let identity = self.executor.client.identity.as_ref();
            tracing::info!(
                user = %Shown(account.user.name.as_bytes()),
                identity = identity.map(|name| display(Shown(name.as_bytes()))),
                peer = %self.executor.ends.peer,
                "login"
            );
            self.executor.enter(account);
        }
        self.machine
            .handle(now, Input::Done(running.ticket, finished.outcome));
        None
    }

    /// Says whether another line may be handed to the machine.
    fn may_run_more(&self) -> bool {
        !self.out.is_full() && self.machine.has_room()
    }

    /// Polls every event of a session, and sends when no event is ready.
    fn poll_wake(
        &mut self,
        cx: &mut Context<'_>,
        timer: Pin<&mut Sleep>,
        stop: Pin<&mut (impl Future<Output = ()> + Send)>,
    ) -> Poll<Wake> {
        // Before reading: a client that never stops sending must not prevent the stop.
        if stop.poll(cx).is_ready() {
            return Poll::Ready(Wake::Stop);
        }
        if self.executor.permit.poll_evicted(cx).is_ready() {
            return Poll::Ready(Wake::Evicted);
        }
        // Before the work: the loss of a client is handled before the end of its upload counts as
        // complete.
        if let Poll::Ready(wake) = self.poll_read(cx) {
            return Poll::Ready(wake);
        }
        let was_full = self.out.is_full();
        if let Poll::Ready(wake) = self.poll_work(cx) {
            return Poll::Ready(wake);
        }
        // Last, before sleeping: all replies so far are sent in one piece.
        if self.send(cx).is_err() {
            return Poll::Ready(Wake::Lost);
        }
        if was_full && !self.out.is_full() {
            return Poll::Ready(Wake::Sent);
        }
        self.poll_timer(cx, timer)
    }

    /// Sends replies as far as the client reads them; an error ends the connection.
    fn send(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.write_closed {
            self.out.clear();
            return Ok(());
        }
        let Some(stream) = &mut self.stream else {
            return Ok(());
        };
        let sent = self.out.poll_send(stream, cx);
        if sent.is_err() {
            (self.read_closed, self.write_closed) = (true, true);
        }
        sent
    }

    /// Reads while the queue and the outbox have room.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Wake> {
        if self.read_closed || !self.may_run_more() {
            return Poll::Pending;
        }
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(Wake::Lost);
        };
        let read: Poll<io::Result<usize>> = SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(scratch.as_mut_slice());
            match Pin::new(stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) => {
                    self.lines.push(buffer.filled());
                    let read = buffer.filled().len();
                    // It may have been a password.
                    buffer.filled_mut().zeroize();
                    Poll::Ready(Ok(read))
                }
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => Poll::Pending,
            }
        });
        match read {
            Poll::Ready(Ok(0)) => {
                self.read_closed = true;
                Poll::Ready(Wake::Lost)
            }
            Poll::Ready(Err(_)) => {
                (self.read_closed, self.write_closed) = (true, true);
                Poll::Ready(Wake::Lost)
            }
            Poll::Ready(Ok(_)) => Poll::Ready(Wake::Read),
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_work(&mut self, cx: &mut Context<'_>) -> Poll<Wake> {
        // Unread markers delay the work and do not grow the memory.
        if self.out.is_full() {
            return Poll::Pending;
        }
        let Some(running) = &mut self.running else {
            return Poll::Pending;
        };
        if let Poll::Ready(Some(event)) = running.events.poll_recv(cx) {
            return Poll::Ready(Wake::Event(event));
        }
        // A 150 is sent before the data moves: some clients lose a 226 that arrives in one piece
        // with it.
        if std::mem::take(&mut self.announcing) && self.send(cx).is_err() {
            return Poll::Ready(Wake::Lost);
        }
        let Some(running) = &mut self.running else {
            return Poll::Pending;
        };
        if let Poll::Ready(finished) = running.work.as_mut().poll(cx) {
            return Poll::Ready(Wake::Done(finished));
        }
        match running.events.poll_recv(cx) {
            Poll::Ready(Some(event)) => Poll::Ready(Wake::Event(event)),
            _ => Poll::Pending,
        }
    }

    /// Waits for the machine's deadline, for the client to take its replies, or for an unused port
    /// to expire.
    fn poll_timer(&self, cx: &mut Context<'_>, mut timer: Pin<&mut Sleep>) -> Poll<Wake> {
        let due = [self.deadline, self.out.deadline(), self.port_until]
            .into_iter()
            .flatten()
            .min();
        let Some(due) = due else { return Poll::Pending };
        // Deadlines mostly move later; a timer set too early costs one wake-up.
        if timer.deadline().into_std() > due || timer.is_elapsed() {
            timer.as_mut().reset(due.into());
        }
        loop {
            match timer.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) if Instant::now() >= due => return Poll::Ready(Wake::Deadline),
                Poll::Ready(()) => timer.as_mut().reset(due.into()),
            }
        }
    }
}

/// Waits for the next request to stop.
pub(crate) async fn asked(mut stopping: watch::Receiver<u8>, heard: u8) {
    if stopping.wait_for(|asked| *asked > heard).await.is_err() {
        // The server has ended, and its task ends this one.
        std::future::pending().await
    }
}
