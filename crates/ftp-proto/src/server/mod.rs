//! `ServerSession`: the server's end of one control connection; owns nothing but state.

mod channel;
mod dialect;
mod events;
mod extended;
mod help;
mod login;
mod names;
mod out;
mod queue;
mod rate;
mod security;
mod settings;
mod state;
mod transfer;
mod user;
mod view;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use ftp_wire::command::Command;
use ftp_wire::error::BadLine;
use ftp_wire::reply::Code;

pub use self::events::{Ending, Input, Output, UpgradeFailure};
use self::login::FailureCounts;
use self::out::{Cx, Out};
use self::queue::{Queue, Queued};
use self::security::Security;
use self::settings::Bounds;
pub use self::settings::{Limits, Settings};
use self::state::{Activity, State, Trigger};
use crate::error::PeerMisbehaved;
use crate::security::{Demands, Mechanism, Protection};
use crate::types::{Action, Event, Outcome, Ticket};

/// The answer before login to a command that needs one.
const LOGIN_FIRST: &str = "Please login with USER and PASS.";

/// The server's end of one control connection.
///
/// Feed it one [`Input`], then [`poll`](Self::poll) until [`Output::Wait`]. It never has more than
/// one action with an outcome outstanding: meanwhile further commands wait in a bounded queue, and
/// `ABOR` and `SITE RATE` alone act at once.
pub struct ServerSession {
    settings: Arc<Settings>,
    security: Security,
    peer: IpAddr,
    state: State,
    queue: Queue,
    out: Out,
    failures: FailureCounts,
    /// Deadline of the login.
    login_by: Instant,
    /// Time of the end of the last command.
    active: Instant,
    /// Whether the session ends as soon as nothing runs, and why.
    ending: Option<Ending>,
    greeted: bool,
}

impl fmt::Debug for ServerSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSession")
            .field("stage", &self.state.stage())
            .field("queued", &self.queue.len())
            .finish_non_exhaustive()
    }
}

impl ServerSession {
    /// Starts a session with the host `peer`; the greeting is its first output.
    pub fn new(now: Instant, settings: Arc<Settings>, peer: IpAddr) -> Self {
        let mut session = Self {
            login_by: now + settings.limits.login,
            settings,
            security: Security::new(peer),
            peer,
            state: State::Greeted,
            queue: Queue::default(),
            out: Out::default(),
            failures: FailureCounts::default(),
            active: now,
            ending: None,
            greeted: false,
        };
        session.greet();
        session
    }

    /// Puts the demands of a configuration in place of [`Demands::of_peer`].
    #[must_use]
    pub fn with_demands(mut self, demands: Demands) -> Self {
        self.security.demands = demands;
        self
    }

    /// Begins with a handshake, as with TLS on a port of its own; the greeting follows it.
    #[must_use]
    pub fn with_handshake(mut self, mechanism: Mechanism) -> Self {
        self.out = Out::default();
        self.out.upgrade(mechanism);
        self.state.shift(Trigger::Auth, State::Upgrading);
        self.greeted = false;
        self
    }

    /// Sends the greeting.
    fn greet(&mut self) {
        let mut banner = self.settings.banner.clone();
        if banner.len() > 1 {
            banner.push("End.".to_owned());
        }
        self.out.lines::<220>(banner);
        self.greeted = true;
    }

    /// The protection of the control channel.
    pub const fn protection(&self) -> &Protection {
        &self.security.protection
    }

    /// Advances on one input. Drain [`poll`](Self::poll) to [`Output::Wait`] before the next.
    ///
    /// After [`Output::Close`] every input is ignored, and so is an event or outcome whose ticket
    /// is not outstanding.
    pub fn handle(&mut self, now: Instant, input: Input<'_>) {
        if matches!(self.state, State::Closed) {
            return;
        }
        let upgrading = matches!(self.state, State::Upgrading);
        match input {
            // A peer that waits for the reply to AUTH sends nothing in clear behind it.
            Input::Line(_) | Input::BadLine(_) if upgrading => {
                self.close(Ending::Misbehaved(PeerMisbehaved::Injected));
            }
            // A reply would be a part of the handshake.
            Input::Evict if upgrading => self.close(Ending::Overloaded),
            Input::Eof if upgrading => self.close(Ending::PeerClosed),
            Input::Upgraded(protection) => self.on_upgraded(protection),
            Input::UpgradeFailed(_) if !upgrading => {}
            Input::UpgradeFailed(UpgradeFailure::Injected) => {
                self.close(Ending::Misbehaved(PeerMisbehaved::Injected));
            }
            Input::UpgradeFailed(UpgradeFailure::Handshake(reply)) => {
                if let Some(reply) = reply {
                    self.out.reply(reply);
                }
                self.close(Ending::HandshakeFailed);
            }
            Input::Line(line) => self.on_line(now, line),
            Input::BadLine(BadLine::TooLong { .. }) => {
                self.out.say::<500>("Command line too long.");
                self.close(Ending::Misbehaved(PeerMisbehaved::LineTooLong));
            }
            // The first byte of a TLS handshake, which has no lines.
            Input::BadLine(BadLine::Control { byte: 0x16, at: 0 })
                if !matches!(self.state, State::In(_)) =>
            {
                self.close(Ending::Misbehaved(PeerMisbehaved::NotFtp));
            }
            // Queued as an empty line, so that its 500 follows in its turn.
            Input::BadLine(_) => self.on_line(now, b""),
            Input::Event(ticket, event) => self.on_event(ticket, event),
            Input::Done(ticket, outcome) => self.on_done(now, ticket, outcome),
            Input::Timeout => self.on_timeout(now),
            Input::Drain => self.on_drain(),
            Input::Evict => {
                self.out.say::<421>(
                    "Too many connections that have not logged in: closing control connection.",
                );
                self.close(Ending::Overloaded);
            }
            Input::Eof => self.on_eof(),
        }
        self.advance(now);
    }

    /// Returns the next task of the caller.
    pub fn poll(&mut self) -> Output {
        self.out
            .pop()
            .unwrap_or_else(|| Output::Wait(self.deadline()))
    }

    /// Says whether the queue has room for another command.
    pub fn has_room(&self) -> bool {
        self.queue.has_room(self.bounds())
    }

    /// Says whether an action is outstanding.
    pub fn is_busy(&self) -> bool {
        self.state.stage().is_busy()
    }

    /// The name of the user, once logged in.
    pub fn user(&self) -> Option<&str> {
        match &self.state {
            State::In(user) => Some(&user.name),
            _ => None,
        }
    }

    fn bounds(&self) -> Bounds {
        let logged_in = matches!(self.state, State::In(_));
        self.settings.limits.queued(logged_in)
    }

    fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Greeted | State::Upgrading | State::Named { .. } => Some(self.login_by),
            // The check of the password is not the peer's time.
            State::Checking { .. } => None,
            // A running action has deadlines of its own, at the caller.
            State::In(_) if self.is_busy() => None,
            State::In(_) => Some(self.active + self.settings.limits.idle),
            State::Closed => None,
        }
    }

    fn on_line(&mut self, now: Instant, line: &[u8]) {
        self.active = now;
        if !matches!(self.state, State::In(_)) && queue::is_foreign(line) {
            return self.close(Ending::Misbehaved(PeerMisbehaved::NotFtp));
        }
        if queue::is_abort(line) && self.is_busy() {
            self.on_abort();
        }
        // Behind a transfer the new rate would be of no use to it.
        if let State::In(user) = &mut self.state
            && let Some(action) = rate::on_arrival(line, &self.settings)
        {
            user.rate_arrived = true;
            self.out.action(action);
        }
        if !self.queue.push(line, self.bounds()) {
            self.out.say::<500>("Pipeline queue full.");
            self.close(Ending::Misbehaved(PeerMisbehaved::QueueFull));
        }
    }

    /// Stops the running action and cancels the commands queued before `ABOR`. Each still gets its
    /// one final reply, in order.
    fn on_abort(&mut self) {
        // A queued `ABOR` keeps its reply when another one follows, and a rate is in force already.
        let stays = |line: &[u8]| queue::is_abort(line) || rate::is_of(line);
        self.queue.cancel(|line| !stays(line));
        if let State::In(user) = &mut self.state {
            abort(&mut user.activity, &mut self.out);
        }
    }

    fn on_event(&mut self, ticket: Ticket, event: Event) {
        let mut cx = Cx {
            out: &mut self.out,
            settings: &self.settings,
            security: &mut self.security,
            peer: self.peer,
        };
        if let State::In(user) = &mut self.state {
            match &user.activity {
                Activity::Working { ticket: t, .. } if *t == ticket => {
                    user.name_event(event, &mut cx);
                }
                Activity::Opening { ticket: t, .. } | Activity::Moving { ticket: t, .. }
                    if *t == ticket =>
                {
                    user.transfer_event(event, &mut cx);
                }
                _ => {}
            }
        }
    }

    fn on_done(&mut self, now: Instant, ticket: Ticket, outcome: Outcome) {
        self.active = now;
        if let State::In(user) = &self.state
            && user.is_in_reply(ticket)
            && matches!(outcome, Outcome::Failed(_))
        {
            // The code of the reply has been sent: only the missing last line shows the failure.
            return self.close(Ending::Incomplete);
        }
        let mut cx = Cx {
            out: &mut self.out,
            settings: &self.settings,
            security: &mut self.security,
            peer: self.peer,
        };
        let mut refused = false;
        // RFC 959 §5.4: 421 tells that the control connection is closed.
        let closes =
            matches!(&outcome, Outcome::Failed(reply) if reply.code() == Code::of::<421>());
        match &mut self.state {
            State::Checking { ticket: t, .. } if *t == ticket => {
                refused = self.state.login_done(outcome, &mut cx);
                if closes {
                    return self.close(Ending::Overloaded);
                }
            }
            State::In(user) => user.done(ticket, outcome, &mut cx),
            _ => {}
        }
        if refused && self.failures.login_refused(&self.settings.limits) {
            self.out
                .say::<421>("Too many refused logins, closing control connection.");
            self.close(Ending::Misbehaved(PeerMisbehaved::TooManyLogins));
        }
    }

    fn on_timeout(&mut self, now: Instant) {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        if matches!(self.state, State::In(_)) {
            self.out
                .say::<421>("Idle Timeout: closing control connection.");
            self.close(Ending::IdleTimeout);
        } else {
            if matches!(self.state, State::Upgrading) {
                return self.close(Ending::LoginTimeout);
            }
            self.out
                .say::<421>("Login Timeout: closing control connection.");
            self.close(Ending::LoginTimeout);
        }
    }

    fn on_drain(&mut self) {
        if self.ending.is_some() {
            self.on_abort();
        }
        self.ending.get_or_insert(Ending::Drained);
    }

    /// Handles the end of the control connection. After `QUIT`, the queued commands still run,
    /// digests apart; otherwise this is an abort and a logout (RFC 959 §4.1.1, QUIT).
    fn on_eof(&mut self) {
        if self.queue.has_quit() && self.ending.is_none() {
            return self.drop_digests();
        }
        self.ending = Some(Ending::PeerClosed);
        self.on_abort();
    }

    /// Cancels digests, whose only effect would be a reply.
    fn drop_digests(&mut self) {
        self.queue.cancel(|line| queue::name(line) == "CKSM");
        if let State::In(user) = &mut self.state
            && user.is_hashing()
        {
            abort(&mut user.activity, &mut self.out);
        }
    }

    /// Runs queued commands until one is busy.
    fn advance(&mut self, now: Instant) {
        while !self.is_busy() && !matches!(self.state, State::Closed) {
            if let Some(ending) = self.ending {
                if ending == Ending::Drained {
                    self.out
                        .say::<421>("Server is stopping, closing control connection.");
                }
                return self.close(ending);
            }
            let Some(next) = self.queue.pop() else {
                return;
            };
            self.active = now;
            match next {
                Queued::Line(line) => self.run(&line),
                Queued::Cancelled => self.out.say::<426>("Command aborted before it began."),
            }
        }
    }

    /// Runs one command.
    fn run(&mut self, line: &[u8]) {
        let logged_in = matches!(self.state, State::In(_));
        if !logged_in && self.failures.command(&self.settings.limits) {
            self.out
                .say::<421>("Too many commands without a login, closing control connection.");
            return self.close(Ending::Misbehaved(PeerMisbehaved::TooManyCommands));
        }
        let name = queue::name(line);
        let command = match Command::parse(line) {
            _ if !logged_in
                && queue::is_known(&name)
                && !login::is_allowed(&name, &self.security.protection) =>
            {
                self.out.say::<530>(LOGIN_FIRST);
                return self.count_error();
            }
            _ if self.settings.denies(&name) => {
                return self.out.say::<501>("Command arguments disabled.");
            }
            // RFC 4217 §6: a protected channel stays so.
            Err(_) if name == "CCC" && self.security.protection.by.is_some() => {
                self.out.say::<534>("The control channel stays protected.");
                return;
            }
            Err(bad) => {
                self.out.reply(queue::refusal(line, bad));
                if !logged_in {
                    self.count_error();
                }
                return;
            }
            // Under an alias.
            Ok(command) if self.settings.denies(command.verb()) => {
                return self.out.say::<501>("Command arguments disabled.");
            }
            Ok(Command::Quit) => {
                self.out.say::<221>("Goodbye.");
                return self.close(Ending::Quit);
            }
            Ok(Command::Auth(name)) => return self.authenticate(&name),
            Ok(command) => command,
        };
        self.out.dialect.hear(&command);
        let mut cx = Cx {
            out: &mut self.out,
            settings: &self.settings,
            security: &mut self.security,
            peer: self.peer,
        };
        if let State::In(user) = &mut self.state {
            user.expect_pair(&command);
        }
        let Some(command) = self.state.open_command(command, &mut cx) else {
            return;
        };
        match &mut self.state {
            State::In(user) => user.command(command, &mut cx),
            _ => cx.out.say::<530>(LOGIN_FIRST),
        }
    }

    fn count_error(&mut self) {
        if self.failures.error(&self.settings.limits) {
            self.out
                .say::<421>("Too many bad commands, closing control connection.");
            self.close(Ending::Misbehaved(PeerMisbehaved::TooManyErrors));
        }
    }

    fn close(&mut self, ending: Ending) {
        self.queue.clear();
        self.out.close(ending);
        self.state.shift(Trigger::Close, State::Closed);
    }
}

/// Cancels the running action where an abort may stop it.
fn abort(activity: &mut Activity, out: &mut Out) {
    let (ticket, aborting) = match activity {
        Activity::Working {
            ticket,
            aborting,
            job,
        } if job.can_stop() => (*ticket, aborting),
        Activity::Opening {
            ticket, aborting, ..
        }
        | Activity::Moving {
            ticket, aborting, ..
        } => (*ticket, aborting),
        _ => return,
    };
    if !std::mem::replace(aborting, true) {
        out.action(Action::Abort(ticket));
    }
}

/// Answers a failure, or an outcome that does not belong to its action.
fn unexpected(outcome: Outcome, cx: &mut Cx<'_>) {
    match outcome {
        Outcome::Failed(reply) if !reply.code().is_preliminary() => cx.out.reply(reply),
        _ => cx.out.say::<451>("Local error in processing."),
    }
}
