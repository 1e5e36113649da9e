//! `Control`: one control connection, driven by a task of its own; commands may be pipelined.

mod driver;

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ftp_proto::client::ClientSession;
use ftp_wire::command::Command;
use ftp_wire::path::FtpPath;
use ftp_wire::reply::Reply;
use gridftp_data::Watch;
use tokio::sync::mpsc::error::SendError;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use xio_core::{BoxStream, Info};

use self::driver::{Answer, Driver, Request, Upgrade, Waiter};
use crate::error::ControlError;
use crate::guard::Guard;
use crate::progress::Observer;
use crate::url::show_text;

/// The end of a connection for which no reason is known.
const CLOSED: &str = "the control connection is closed";
/// Interval of the checks on a transfer.
const LOOK: Duration = Duration::from_millis(250);

/// One control connection.
///
/// # Cancel safety
/// Dropping it closes the connection: at once when replies are outstanding, so that the server
/// gives up a transfer that nobody waits for; otherwise after `QUIT`. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Control {
    requests: mpsc::UnboundedSender<Request>,
    /// The reason for the close of the connection, once it is closed.
    ended: Arc<OnceLock<Arc<str>>>,
    /// Number of commands that await their last reply.
    due: Arc<AtomicUsize>,
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
    /// Cancelled once the session is left for one with another stack of data connections.
    pub(crate) left: CancellationToken,
}

/// The replies to one command, as they come.
#[derive(Debug)]
pub(crate) struct Replies {
    answers: mpsc::UnboundedReceiver<Answer>,
    /// The end, where it was seen and not taken.
    end: Option<Answer>,
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
            control.abort();
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
        let (ended, due) = (Arc::default(), Arc::default());
        let banner = Waiter::new(banner, &due);
        let spoken = observer
            .wants_control()
            .then_some((observer, Arc::clone(&site)));
        let driver = Driver::new(session, banner, spoken, Arc::clone(&ended));
        tokio::spawn(driver.run(stream, incoming));
        let replies = Replies {
            answers,
            end: None,
            site: Arc::clone(&site),
            command: "connect".to_owned(),
            begun: false,
        };
        let control = Self {
            requests,
            ended,
            due,
            site,
            local: local.ip(),
            peer: peer.ip().to_canonical(),
            round_trip,
            ascii_only: false,
            mfmt: false,
            hashed: Arc::default(),
            left: CancellationToken::new(),
        };
        Ok((control, replies))
    }

    /// Sends a command behind those that were sent before.
    pub(crate) fn send(&self, command: Command) -> Replies {
        let (answer, answers) = mpsc::unbounded_channel();
        let shown = show_text(command.to_string().as_bytes());
        let request = Request::Command(command, Waiter::new(answer, &self.due));
        if let Err(SendError(Request::Command(_, waiter))) = self.requests.send(request) {
            let why = self.ended.get().cloned();
            let why = why.unwrap_or_else(|| CLOSED.into());
            waiter.tell(Answer::Lost(why));
        }
        Replies {
            answers,
            end: None,
            site: Arc::clone(&self.site),
            command: shown,
            begun: false,
        }
    }

    /// The number of commands that await their last reply.
    pub(crate) fn due(&self) -> usize {
        self.due.load(Ordering::Relaxed)
    }

    /// Waits until all commands that were given are on their way, or none will be.
    pub(crate) async fn flush(&self) {
        let (done, flushed) = oneshot::channel();
        // A request that nobody takes must not keep the sender.
        drop(self.requests.send(Request::Flush(done)));
        let _gone = flushed.await;
    }

    /// Runs the handshake of `guard` on the connection after a 234, and goes on over it; describes
    /// the protected connection.
    ///
    /// # Errors
    /// The inner one is that of the handshake. Either way the session is over.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub(crate) async fn upgrade(
        &self,
        guard: &Guard,
    ) -> Result<xio_core::Result<Info>, ControlError> {
        let (done, upgraded) = oneshot::channel();
        let upgrade = Upgrade::new(guard.clone(), done);
        drop(self.requests.send(Request::Upgrade(upgrade)));
        upgraded.await.map_err(|_| self.lost("AUTH TLS"))
    }

    /// Tells that data moved.
    pub(crate) fn moved(&self) {
        let _gone = self.requests.send(Request::Moved);
    }

    /// Has the server abort the running transfer, and skip the commands queued behind it.
    pub(crate) fn abort(&self) {
        let _gone = self.requests.send(Request::Abort);
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
        // Callers hear of the end before the task stops to take requests.
        let is_over = self.ended.get().is_some() || self.requests.is_closed();
        is_over.then(|| self.lost("session"))
    }

    fn lost(&self, command: &str) -> ControlError {
        let why = self.ended.get().map(ToString::to_string);
        ControlError::Lost {
            site: self.site.to_string(),
            command: command.to_owned(),
            why: why.unwrap_or_else(|| CLOSED.to_owned()),
        }
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

    /// Duration of connecting.
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
        let answer = match self.end.take() {
            Some(end) => Some(end),
            None => self.answers.recv().await,
        };
        match answer {
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
            None => Err(self.unanswered(CLOSED)),
        }
    }

    /// Waits for the end, which is still the next reply then, and says whether it is a failure.
    /// Preliminary replies are dropped.
    ///
    /// # Cancel safety
    /// The end is not lost.
    pub(crate) async fn fails(&mut self) -> bool {
        loop {
            match &self.end {
                Some(Answer::Final(reply)) => return reply.code().is_failure(),
                Some(Answer::Lost(_)) => return true,
                Some(Answer::Preliminary(_)) => self.begun = true,
                None => {}
            }
            let next = self.answers.recv().await;
            self.end = Some(next.unwrap_or_else(|| Answer::Lost(CLOSED.into())));
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

    /// Whether the last reply is due.
    pub(crate) fn is_due(&self) -> bool {
        !self.answers.is_closed()
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

#[cfg(test)]
mod tests {
    use ftp_proto::client::Settings;
    use tokio::io::AsyncWriteExt as _;

    use super::*;
    use crate::played;

    #[tokio::test(start_paused = true)]
    async fn requests_after_the_end_are_told_its_reason() {
        let (control, mut banner, mut far) = played::connect(Settings::default());
        far.write_all(b"220 ready\r\n421 going down\r\n")
            .await
            .unwrap();
        banner.finish().await.unwrap();
        control.requests.closed().await;
        let within = Duration::from_secs(1);
        let flushed = tokio::time::timeout(within, control.flush()).await;
        flushed.expect("nothing is left to be flushed");
        let told = control.send(Command::Noop).finish().await.unwrap_err();
        assert!(told.to_string().contains("going down"), "{told}");
        let told = control.gone().unwrap();
        assert!(told.to_string().contains("going down"), "{told}");
    }

    /// The task of the connection gives the reason first, and stops to take requests behind it.
    #[tokio::test(start_paused = true)]
    async fn a_connection_with_a_reason_for_its_end_is_gone() {
        let (control, _banner, _far) = played::connect(Settings::default());
        assert!(control.gone().is_none());
        control.ended.set("broken".into()).unwrap();
        assert!(!control.requests.is_closed() && control.gone().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_command_is_seen_and_not_taken() {
        for (end, fails) in [("426 reset\r\n", true), ("226 done\r\n", false)] {
            let (control, mut lines, mut replies) = played::greeted(Settings::default()).await;
            let path = FtpPath::new(b"/file".to_vec()).unwrap();
            let mut retrieve = control.send(Command::Retr(path));
            assert_eq!(lines.next_line().await.unwrap().unwrap(), "RETR /file");
            let words = ["150 begins\r\n", end].concat();
            replies.write_all(words.as_bytes()).await.unwrap();
            for _ in 0..2 {
                assert_eq!(retrieve.fails().await, fails, "{end}");
            }
            assert!(retrieve.has_begun());
            assert_eq!(retrieve.finish().await.is_err(), fails, "{end}");
        }
    }

    /// The server may close the connection only after its reply.
    #[tokio::test(start_paused = true)]
    async fn quit_is_sent_once() {
        let (control, mut lines, mut replies) = played::greeted(Settings::default()).await;
        let mut bye = control.send(Command::Quit);
        assert_eq!(lines.next_line().await.unwrap().unwrap(), "QUIT");
        replies.write_all(b"221 bye\r\n").await.unwrap();
        bye.finish().await.unwrap();
        drop((bye, control));
        assert_eq!(lines.next_line().await.unwrap(), None);
    }
}
