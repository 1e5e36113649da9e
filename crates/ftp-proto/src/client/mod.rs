//! `ClientSession`: the client's end of one control connection: commands in flight, replies
//! matched.

mod capabilities;
mod failure;
mod login;
#[cfg(test)]
mod login_tests;

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

use ftp_wire::command::{Command, SiteCommand};
use ftp_wire::error::BadReply;
use ftp_wire::reply::Reply;
use ftp_wire::reply_parser::ReplyParser;
use zeroize::Zeroizing;

pub use self::capabilities::{Capabilities, Support};
pub use self::failure::FailureKind;
pub use self::login::{DataSecurity, LoggedIn, Login, LoginError, LoginStep, Security};
use crate::error::{ApiMisuse, PeerMisbehaved};
use crate::security::Mechanism;
use crate::types::Ticket;

/// Most replies to no command before the session ends.
const MAX_UNSOLICITED: u32 = 16;

/// Timeouts and window of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// Time for the greeting, including replies `120` that put it off.
    pub greet_within: Duration,
    /// Time for the reply to an ordinary command.
    pub reply_within: Duration,
    /// Time for the reply to a long command (`CKSM`, `SITE RDEL`), and between two signs of
    /// progress of a transfer.
    pub silence: Duration,
    /// Most commands on the wire without a final reply. Servers queue 1,000 and close the
    /// connection beyond that.
    pub window: usize,
    /// Commands that wait for room in the window.
    pub waiting: usize,
    /// Longest reply taken, in bytes.
    pub reply_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            greet_within: Duration::from_secs(60),
            reply_within: Duration::from_secs(60),
            silence: Duration::from_secs(600),
            window: 500,
            waiting: 20_000,
            reply_bytes: 4 << 20,
        }
    }
}

/// An event for a session.
#[derive(Debug)]
pub enum Input<'a> {
    /// Bytes of the control connection, in pieces of any size.
    Bytes(&'a [u8]),
    /// Data moved on a data connection: progress of the oldest command.
    Moved,
    /// The deadline of the last [`Output::Wait`] has come.
    Timeout,
    /// The server has closed the control connection.
    Eof,
}

/// The next task of the caller.
#[derive(Debug)]
pub enum Output {
    /// Send these bytes.
    Send(Outgoing),
    /// A preliminary reply to a command: a marker, 150, 125, 127. More replies to it follow.
    Preliminary(Ticket, Reply),
    /// The final reply to a command.
    Reply(Ticket, Reply),
    /// A reply to no command, for the log.
    Unsolicited(Reply),
    /// This command will never have a reply; [`Output::Closed`] follows unless it was never sent.
    Lost(Ticket),
    /// The session is over: close the control connection.
    Closed(Ending),
    /// Wait for an input, at most until this time.
    Wait(Option<Instant>),
}

/// The reason for the end of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The server closed the connection after all replies, as after `QUIT`.
    Finished,
    /// The server closed the connection while replies were due.
    Eof,
    /// The server said 421.
    Refused(Reply),
    /// No reply in time to the command of this verb.
    TimedOut(&'static str),
    /// The server broke the protocol.
    Misbehaved(PeerMisbehaved),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finished => f.write_str("control channel: closed by the server"),
            Self::Eof => {
                f.write_str("control channel: closed by the server while replies were due")
            }
            Self::Refused(reply) => write!(f, "control channel: refused: {}", reply.text()),
            Self::TimedOut(verb) => write!(f, "control channel: {verb}: no reply in time"),
            Self::Misbehaved(how) => how.fmt(f),
        }
    }
}

/// One command as it goes out. `Debug` and `Display` mask passwords.
#[derive(Clone, PartialEq, Eq)]
pub struct Outgoing {
    bytes: Zeroizing<Vec<u8>>,
    shown: String,
}

impl Outgoing {
    /// The bytes for the wire, line end included.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Outgoing").field(&self.shown).finish()
    }
}

impl fmt::Display for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// The class of a command's timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplyTimeout {
    /// A reply is due soon.
    Short,
    /// It may take long, or move data.
    Long,
}

/// The progress of `AUTH`. Unless it is idle, commands wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Upgrade {
    Idle,
    /// `AUTH` has no reply yet.
    Asked,
    /// The server agreed: the next bytes are those of the handshake.
    Agreed,
}

/// A command that waits for room in the window.
#[derive(Debug)]
struct Waiting {
    sent: Sent,
    outgoing: Outgoing,
}

/// A command that waits for its final reply.
#[derive(Debug, Clone, Copy)]
struct Sent {
    ticket: Ticket,
    verb: &'static str,
    reply_timeout: ReplyTimeout,
    /// The mechanism that is asked for.
    auth: Option<Mechanism>,
    /// Whether a preliminary reply has arrived: such a command gets the long timeout.
    under_way: bool,
}

/// The client's end of one control connection.
///
/// Commands may be given at any time; they are sent as far as the window allows, and replies are
/// matched to them in order. The greeting is the reply to [`Ticket::BANNER`].
///
/// After the agreement to `AUTH`, 234 or for GSSAPI 334, the caller runs the handshake and calls
/// [`upgraded`](Self::upgraded). Until then no command is sent, and any byte received ends the
/// session: text that was put in front of the handshake must not pass for text under its
/// protection.
#[derive(Debug)]
pub struct ClientSession {
    settings: Settings,
    parser: ReplyParser,
    waiting: VecDeque<Waiting>,
    in_flight: VecDeque<Sent>,
    out: VecDeque<Output>,
    tickets: u64,
    /// Time of the last progress of the oldest command.
    quiet_since: Instant,
    unsolicited: u32,
    upgrade: Upgrade,
    closed: bool,
}

impl ClientSession {
    /// Starts a session on a new connection.
    pub fn new(now: Instant, settings: Settings) -> Self {
        let banner = Sent {
            ticket: Ticket::BANNER,
            verb: "greeting",
            reply_timeout: ReplyTimeout::Short,
            auth: None,
            under_way: false,
        };
        Self {
            parser: ReplyParser::with_limit(settings.reply_bytes),
            settings,
            waiting: VecDeque::new(),
            in_flight: VecDeque::from([banner]),
            out: VecDeque::new(),
            tickets: 0,
            quiet_since: now,
            unsolicited: 0,
            upgrade: Upgrade::Idle,
            closed: false,
        }
    }

    /// Queues a command; its replies carry the ticket.
    ///
    /// # Errors
    ///
    /// [`ApiMisuse`] when the session has ended or too many commands wait.
    pub fn send(&mut self, now: Instant, command: &Command) -> Result<Ticket, ApiMisuse> {
        if self.waiting.len() >= self.settings.waiting {
            return Err(ApiMisuse::PipelineFull);
        }
        let waiting = self.prepare(command)?;
        let ticket = waiting.sent.ticket;
        self.waiting.push_back(waiting);
        self.fill_window(now);
        Ok(ticket)
    }

    /// Sends `ABOR` in place of all commands not yet sent, which are lost.
    ///
    /// # Errors
    ///
    /// [`ApiMisuse::Closed`] when the session has ended.
    pub fn abort(&mut self, now: Instant) -> Result<Ticket, ApiMisuse> {
        let abor = self.prepare(&Command::Abor)?;
        let lost = self.waiting.drain(..);
        self.out.extend(lost.map(|w| Output::Lost(w.sent.ticket)));
        let ticket = abor.sent.ticket;
        if self.upgrade == Upgrade::Idle {
            self.put_on_wire(now, abor);
        } else {
            self.waiting.push_back(abor);
        }
        Ok(ticket)
    }

    /// Continues on the connection that was protected after `AUTH`.
    pub fn upgraded(&mut self, now: Instant) {
        self.upgrade = Upgrade::Idle;
        self.fill_window(now);
    }

    /// Advances on one input. Drain [`poll`](Self::poll) to [`Output::Wait`] before the next.
    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        if self.closed {
            return;
        }
        match input {
            Input::Bytes(bytes) => self.on_bytes(now, bytes),
            Input::Moved => self.quiet_since = now,
            Input::Timeout => self.on_timeout(now),
            Input::Eof => {
                // A reply without a clear end has ended now.
                if let Some(reply) = self.parser.settle() {
                    self.on_reply(now, reply);
                }
                let ending = if self.in_flight.is_empty() && self.waiting.is_empty() {
                    Ending::Finished
                } else {
                    Ending::Eof
                };
                self.close(ending);
            }
        }
    }

    /// Returns the next task of the caller.
    pub fn poll(&mut self) -> Output {
        self.out
            .pop_front()
            .unwrap_or_else(|| Output::Wait(self.deadline()))
    }

    /// Number of commands without a final reply, sent or not.
    pub fn outstanding(&self) -> usize {
        self.in_flight.len() + self.waiting.len()
    }

    /// Says whether the session has ended.
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    fn prepare(&mut self, command: &Command) -> Result<Waiting, ApiMisuse> {
        if self.closed {
            return Err(ApiMisuse::Closed);
        }
        let mut bytes = Zeroizing::new(Vec::new());
        command.write_to(&mut bytes);
        self.tickets += 1;
        let sent = Sent {
            ticket: Ticket(self.tickets),
            verb: command.verb(),
            reply_timeout: reply_timeout(command),
            auth: mechanism(command),
            under_way: false,
        };
        let shown = command.to_string();
        let outgoing = Outgoing { bytes, shown };
        Ok(Waiting { sent, outgoing })
    }

    fn fill_window(&mut self, now: Instant) {
        while self.upgrade == Upgrade::Idle && self.in_flight.len() < self.settings.window.max(1) {
            let Some(next) = self.waiting.pop_front() else {
                return;
            };
            self.put_on_wire(now, next);
        }
    }

    fn put_on_wire(&mut self, now: Instant, next: Waiting) {
        if self.in_flight.is_empty() {
            self.quiet_since = now;
        }
        if next.sent.auth.is_some() {
            self.upgrade = Upgrade::Asked;
        }
        self.in_flight.push_back(next.sent);
        self.out.push_back(Output::Send(next.outgoing));
    }

    fn deadline(&self) -> Option<Instant> {
        let oldest = self.in_flight.front()?;
        let reply_timeout = match oldest.reply_timeout {
            _ if oldest.ticket == Ticket::BANNER => self.settings.greet_within,
            ReplyTimeout::Short if !oldest.under_way => self.settings.reply_within,
            _ => self.settings.silence,
        };
        (!self.closed).then(|| self.quiet_since + reply_timeout)
    }

    fn on_bytes(&mut self, now: Instant, bytes: &[u8]) {
        let greeting = |sent: &Sent| sent.ticket == Ticket::BANNER;
        let other = bytes.starts_with(b"SSH-") || bytes.starts_with(b"HTTP/");
        if other && self.in_flight.front().is_some_and(greeting) {
            // Such a peer expects another protocol and would wait.
            return self.close(Ending::Misbehaved(PeerMisbehaved::OtherGreeting));
        }
        // The lines of a reply that a server begins while it waits are signs of life.
        let is_long = |sent: &Sent| sent.reply_timeout == ReplyTimeout::Long;
        if self.in_flight.front().is_some_and(is_long) {
            self.quiet_since = now;
        }
        self.parser.push(bytes);
        while !self.closed {
            if self.upgrade == Upgrade::Agreed {
                if self.parser.buffered() > 0 {
                    self.close(Ending::Misbehaved(PeerMisbehaved::ClearText));
                }
                return;
            }
            match self.parser.next_reply() {
                None => return,
                Some(Ok(reply)) => self.on_reply(now, reply),
                Some(Err(bad)) => {
                    let how = match bad {
                        BadReply::TooLong { .. } => PeerMisbehaved::ReplyTooLong,
                        _ => PeerMisbehaved::NotAReply,
                    };
                    self.close(Ending::Misbehaved(how));
                }
            }
        }
    }

    fn on_reply(&mut self, now: Instant, reply: Reply) {
        let Some(oldest) = self.in_flight.front_mut() else {
            return self.on_unsolicited(reply);
        };
        let (ticket, preliminary) = (oldest.ticket, reply.code().is_preliminary());
        // A server may delay the greeting by 120 any number of times, so the limit holds for all of
        // them.
        if !(preliminary && ticket == Ticket::BANNER) {
            self.quiet_since = now;
        }
        if preliminary {
            oldest.under_way = true;
            self.out.push_back(Output::Preliminary(ticket, reply));
            return;
        }
        if let Some(mechanism) = oldest.auth {
            self.upgrade = match reply.code().number() == mechanism.agreement() {
                true => Upgrade::Agreed,
                false => Upgrade::Idle,
            };
        }
        self.in_flight.pop_front();
        let goodbye = (reply.code().number() == 421).then(|| reply.clone());
        self.out.push_back(Output::Reply(ticket, reply));
        match goodbye {
            Some(reply) => self.close(Ending::Refused(reply)),
            None => self.fill_window(now),
        }
    }

    fn on_unsolicited(&mut self, reply: Reply) {
        if reply.code().number() == 421 {
            return self.close(Ending::Refused(reply));
        }
        self.out.push_back(Output::Unsolicited(reply));
        self.unsolicited += 1;
        if self.unsolicited > MAX_UNSOLICITED {
            self.close(Ending::Misbehaved(PeerMisbehaved::Unsolicited));
        }
    }

    fn on_timeout(&mut self, now: Instant) {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        if let Some(reply) = self.parser.settle() {
            return self.on_reply(now, reply);
        }
        let verb = self.in_flight.front().map_or("", |sent| sent.verb);
        self.close(Ending::TimedOut(verb));
    }

    /// Ends the session; the first reason counts.
    fn close(&mut self, ending: Ending) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        let sent = self.in_flight.drain(..).map(|sent| sent.ticket);
        let unsent = self.waiting.drain(..).map(|waiting| waiting.sent.ticket);
        self.out.extend(sent.chain(unsent).map(Output::Lost));
        self.out.push_back(Output::Closed(ending));
    }
}

/// The mechanism of an `AUTH`; a third is refused by any server.
fn mechanism(command: &Command) -> Option<Mechanism> {
    let Command::Auth(name) = command else {
        return None;
    };
    let known = [Mechanism::Gssapi, Mechanism::Tls];
    let named = known.into_iter().find(|known| known.name() == name);
    Some(named.unwrap_or(Mechanism::Tls))
}

/// The class of timeout for this command.
const fn reply_timeout(command: &Command) -> ReplyTimeout {
    match command {
        Command::Retr(_)
        | Command::Stor(_)
        | Command::Appe(_)
        | Command::Eret(..)
        | Command::Esto(..)
        | Command::List(_)
        | Command::ListAll(_)
        | Command::Nlst(_)
        | Command::Mlsd(_)
        | Command::Mlsr(_)
        | Command::Mlsc(_)
        | Command::Stat(_)
        | Command::Cksm { .. }
        | Command::Site(SiteCommand::Rdel(_) | SiteCommand::Stage(..)) => ReplyTimeout::Long,
        _ => ReplyTimeout::Short,
    }
}
