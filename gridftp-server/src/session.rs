//! Drives one `ServerSession` over one control connection; no protocol decisions.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ftp_proto::server::{Ending, Input, Output, ServerSession};
use ftp_proto::types::{Action, Event, Outcome};
use ftp_wire::line::LineSplitter;
use gridftp_dsi::Dsi;
use tokio::io::{AsyncRead as _, AsyncWrite as _, AsyncWriteExt as _, ReadBuf};
use tokio::sync::watch;
use tokio::time::{self, Sleep};
use xio::BoxStream;

use crate::action::{Desk, Finished, Running};
use crate::admission::Place;

/// Bytes of replies that may wait for the client before no more of its commands are run.
const BACKLOG: usize = 64 << 10;

/// Memory for replies that an idle session keeps.
const KEEP: usize = 1024;

/// How long a client may take no reply at all while some wait for it.
const SEND_DEADLINE: Duration = Duration::from_secs(120);

/// How long the last replies may take.
const FAREWELL: Duration = Duration::from_secs(5);

thread_local! {
    /// What a read goes into: one for all sessions of a thread, because lines are copied out before the
    /// next poll.
    static SCRATCH: RefCell<[u8; 16 << 10]> = const { RefCell::new([0; 16 << 10]) };
}

/// One control connection.
pub(crate) struct Session<D: Dsi> {
    machine: ServerSession,
    stream: BoxStream,
    lines: LineSplitter,
    /// Replies not yet sent, and how many bytes of them were.
    out: Vec<u8>,
    sent: usize,
    /// When the client last took something, or had nothing to take.
    took: Instant,
    desk: Desk<D>,
    running: Option<Running>,
    place: Place,
    drain: watch::Receiver<bool>,
    /// Set once nothing more will be read.
    deaf: bool,
    /// Set once nothing more can be sent.
    mute: bool,
    draining: bool,
    /// When the machine wants to be woken.
    deadline: Option<Instant>,
    /// When a data port that no transfer has used yet is closed, so that the range does not run dry.
    port_until: Option<Instant>,
}

/// What a session wakes up for.
enum Wake {
    /// Lines may be in the splitter.
    Read,
    /// The client closed its side, or the connection failed.
    Lost,
    Event(Event),
    Done(Finished),
    Deadline,
    Drain,
    /// Room was made for more replies.
    Sent,
    /// Somebody else needs the place.
    GiveWay,
}

impl<D: Dsi> Session<D> {
    pub(crate) fn new(
        machine: ServerSession,
        stream: BoxStream,
        desk: Desk<D>,
        place: Place,
        drain: watch::Receiver<bool>,
    ) -> Self {
        Self {
            machine,
            stream,
            lines: LineSplitter::new(),
            out: Vec::new(),
            sent: 0,
            took: Instant::now(),
            desk,
            running: None,
            place,
            drain,
            deaf: false,
            mute: false,
            draining: false,
            deadline: None,
            port_until: None,
        }
    }

    /// Runs the session to its end.
    ///
    /// # Cancel safety
    /// Dropped, it closes the control connection and aborts what runs.
    pub(crate) async fn run(mut self) {
        let ending = self.drive().await;
        let farewell = async {
            let rest = self.out.get(self.sent..).unwrap_or(&[]);
            self.stream.write_all(rest).await?;
            self.stream.shutdown().await
        };
        // A client that does not take its last replies has them cut off.
        drop(time::timeout(FAREWELL, farewell).await);
        match ending {
            Some(ending) => tracing::debug!(peer = %self.desk.ends.peer, %ending, "session ended"),
            None => tracing::debug!(peer = %self.desk.ends.peer, "session ended: connection lost"),
        }
    }

    /// Runs until the machine closes, or until nobody is left to talk to.
    async fn drive(&mut self) -> Option<Ending> {
        let mut timer = pin!(time::sleep(Duration::ZERO));
        let mut drain = self.drain.clone();
        // An error means that the server is gone; its task ends this one.
        let mut drained = pin!(async move { drop(drain.wait_for(|draining| *draining).await) });
        if let Some(ending) = self.settle() {
            return Some(ending);
        }
        loop {
            let wake = poll_fn(|cx| self.poll_wake(cx, timer.as_mut(), drained.as_mut())).await;
            let now = Instant::now();
            match wake {
                Wake::Read | Wake::Sent => {}
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
                Wake::Deadline => {
                    if self.port_until.is_some_and(|until| until <= now) {
                        self.port_until = None;
                        self.desk.drop_data();
                    }
                    self.machine.handle(now, Input::Timeout);
                }
                Wake::Drain => self.machine.handle(now, Input::Drain),
                Wake::GiveWay => return None,
            }
            if let Some(ending) = self.settle() {
                return Some(ending);
            }
            // Lines that came while replies or the queue were full.
            while self.may_run_more() {
                let Some(line) = self.lines.next_line() else {
                    break;
                };
                let now = Instant::now();
                match line {
                    Ok(line) => self.machine.handle(now, Input::Line(line)),
                    Err(bad) => self.machine.handle(now, Input::BadLine(bad)),
                }
                if let Some(ending) = self.settle() {
                    return Some(ending);
                }
            }
            let answers = self.lines.take_answers();
            self.out.extend_from_slice(&answers);
            if self.is_stuck() {
                return None;
            }
        }
    }

    /// Drains the machine; gives the reason when it closed.
    fn settle(&mut self) -> Option<Ending> {
        loop {
            match self.machine.poll() {
                Output::Reply(reply) => {
                    if self.unsent() == 0 {
                        self.took = Instant::now();
                    }
                    reply.write_to(&mut self.out);
                }
                Output::Action(_, Action::Abort(ticket)) => {
                    if let Some(running) = &mut self.running
                        && running.ticket == ticket
                        && let Some(cancel) = running.cancel.take()
                    {
                        // The work may be over already, which is what was asked for.
                        let _ = cancel.send(());
                    }
                }
                Output::Action(ticket, action) => {
                    if matches!(
                        action,
                        Action::Transfer(_) | Action::Connect(_) | Action::Listen { .. }
                    ) {
                        self.port_until = None;
                    }
                    if let Some(running) = self.desk.start(ticket, action) {
                        self.running = Some(running);
                    }
                }
                Output::Close(ending) => return Some(ending),
                Output::Wait(deadline) => {
                    self.deadline = deadline;
                    return None;
                }
                _ => {}
            }
        }
    }

    /// Takes in what an action came to.
    fn finish(&mut self, now: Instant, finished: Finished) -> Option<Ending> {
        let mut running = self.running.take()?;
        while let Ok(event) = running.events.try_recv() {
            self.machine
                .handle(now, Input::Event(running.ticket, event));
            if let Some(ending) = self.settle() {
                return Some(ending);
            }
        }
        if finished.side.is_some() {
            self.desk.side = finished.side;
        }
        if let Some(who) = finished.who {
            tracing::info!(
                user = %crate::log::Shown(who.user.name.as_bytes()),
                peer = %self.desk.ends.peer,
                "login"
            );
            self.desk.who = Some(who);
            self.place.settle();
        }
        if matches!(finished.outcome, Outcome::Listening(_)) {
            self.port_until = Some(now + self.desk.policy.connect_timeout);
        }
        self.machine
            .handle(now, Input::Done(running.ticket, finished.outcome));
        None
    }

    /// Says whether another line may be handed to the machine.
    fn may_run_more(&self) -> bool {
        self.unsent() < BACKLOG && self.machine.has_room()
    }

    fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Says whether the client has left replies lying for too long.
    fn is_stuck(&self) -> bool {
        self.unsent() > 0 && self.took.elapsed() > SEND_DEADLINE
    }

    /// Looks at everything a session can wait for, and sends when nothing else is left to do.
    fn poll_wake(
        &mut self,
        cx: &mut Context<'_>,
        timer: Pin<&mut Sleep>,
        drained: Pin<&mut (impl Future<Output = ()> + Send)>,
    ) -> Poll<Wake> {
        // Before the work: the loss of the client is known before its upload's end is taken for complete.
        if let Poll::Ready(wake) = self.poll_read(cx) {
            return Poll::Ready(wake);
        }
        if let Poll::Ready(wake) = self.poll_work(cx) {
            return Poll::Ready(wake);
        }
        if !self.draining && drained.poll(cx).is_ready() {
            self.draining = true;
            return Poll::Ready(Wake::Drain);
        }
        if self.place.poll_give_way(cx).is_ready() {
            return Poll::Ready(Wake::GiveWay);
        }
        // Last, before sleeping: replies of all that could be done at once leave in one piece.
        let was_full = self.unsent() >= BACKLOG;
        if self.poll_send(cx).is_err() {
            (self.deaf, self.mute) = (true, true);
            return Poll::Ready(Wake::Lost);
        }
        if was_full && self.unsent() < BACKLOG {
            return Poll::Ready(Wake::Sent);
        }
        self.poll_timer(cx, timer)
    }

    /// Sends what waits, as far as the client takes it.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while self.unsent() > 0 && !self.mute {
            let rest = self.out.get(self.sent..).unwrap_or(&[]);
            match Pin::new(&mut self.stream).poll_write(cx, rest) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(n)) => {
                    self.sent += n;
                    self.took = Instant::now();
                }
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => return Ok(()),
            }
        }
        self.out.clear();
        self.out.shrink_to(KEEP);
        self.sent = 0;
        Ok(())
    }

    /// Reads while there is room for what comes.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Wake> {
        if self.deaf || !self.may_run_more() {
            return Poll::Pending;
        }
        let read: Poll<io::Result<usize>> = SCRATCH.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(scratch.as_mut_slice());
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) => {
                    self.lines.push(buffer.filled());
                    Poll::Ready(Ok(buffer.filled().len()))
                }
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => Poll::Pending,
            }
        });
        match read {
            Poll::Ready(Ok(0)) => {
                self.deaf = true;
                Poll::Ready(Wake::Lost)
            }
            Poll::Ready(Err(_)) => {
                (self.deaf, self.mute) = (true, true);
                Poll::Ready(Wake::Lost)
            }
            Poll::Ready(Ok(_)) => Poll::Ready(Wake::Read),
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_work(&mut self, cx: &mut Context<'_>) -> Poll<Wake> {
        // A client that does not read its markers makes the work wait, not this memory grow.
        if self.unsent() >= BACKLOG {
            return Poll::Pending;
        }
        let Some(running) = &mut self.running else {
            return Poll::Pending;
        };
        if let Poll::Ready(Some(event)) = running.events.poll_recv(cx) {
            return Poll::Ready(Wake::Event(event));
        }
        if let Poll::Ready(finished) = running.work.as_mut().poll(cx) {
            return Poll::Ready(Wake::Done(finished));
        }
        match running.events.poll_recv(cx) {
            Poll::Ready(Some(event)) => Poll::Ready(Wake::Event(event)),
            _ => Poll::Pending,
        }
    }

    /// Waits for the machine's deadline, for the client to take its replies, or for an unused port to expire.
    fn poll_timer(&self, cx: &mut Context<'_>, mut timer: Pin<&mut Sleep>) -> Poll<Wake> {
        let stuck = (self.unsent() > 0).then(|| self.took + SEND_DEADLINE);
        let due = [self.deadline, stuck, self.port_until]
            .into_iter()
            .flatten()
            .min();
        let Some(due) = due else { return Poll::Pending };
        // Deadlines mostly move on; a timer set too early wakes the session once, for nothing.
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
