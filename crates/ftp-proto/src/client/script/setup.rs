//! `SetUp`: the commands that bring a session's data side from what it is to what is wanted.

use std::collections::VecDeque;

use ftp_wire::command::{Command, Mode, Type};
use ftp_wire::opts::Opts;
use ftp_wire::reply::Reply;

use super::super::capabilities::Capabilities;
use super::super::failure::Failure;
use super::{Script, ScriptError, Step};
use crate::error::PeerIncompatible;

/// What the next transfer needs of the server's data side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wanted {
    /// Transmission mode.
    pub mode: Mode,
    /// Representation type.
    pub ty: Type,
    /// Connections the server shall open when it sends in MODE E; `None` when it receives.
    pub parallelism: Option<u32>,
    /// TCP buffers in bytes; 0 for the kernel's choice.
    pub buffer: u64,
    /// Whether file data will be sent without waiting for the answer to `STOR`.
    pub eager: bool,
}

impl Wanted {
    /// A plain transfer of bytes in this mode.
    pub const fn new(mode: Mode) -> Self {
        Self {
            mode,
            ty: Type::Image,
            parallelism: None,
            buffer: 0,
            eager: false,
        }
    }
}

/// What a server's data side is known to be.
///
/// Keep one per control connection, and hand it to every [`SetUp`]: only changes are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Channel {
    mode: Option<Mode>,
    ty: Option<Type>,
    parallelism: Option<u32>,
    buffer: u64,
    eager: bool,
}

impl Channel {
    /// Says whether the server took `OPTS STOR Eager=1;`.
    pub const fn is_eager(&self) -> bool {
        self.eager
    }
}

/// Changes a server's data side; all commands go out in one flight.
///
/// TYPE and MODE must succeed. Parallelism, buffers and eager stores are asked for where the server
/// may have them, and done without where it refuses.
#[derive(Debug)]
pub struct SetUp {
    to_send: VecDeque<Change>,
    due: VecDeque<Change>,
    channel: Channel,
    error: Option<ScriptError>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Type(Type),
    Mode(Mode),
    Parallelism(u32),
    Buffer(u64),
    Eager(bool),
}

impl Change {
    fn command(self) -> Command {
        match self {
            Self::Type(ty) => Command::Type(ty),
            Self::Mode(mode) => Command::Mode(mode),
            Self::Parallelism(n) => Command::Opts(Opts::Retr {
                parallelism: Some(n),
                stripe_block: None,
                markers: None,
            }),
            Self::Buffer(bytes) => Command::Sbuf(bytes),
            Self::Eager(eager) => Command::Opts(Opts::Stor { eager }),
        }
    }
}

impl SetUp {
    /// Plans the way from `channel` to `wanted`.
    pub fn new(channel: Channel, wanted: Wanted, capabilities: &Capabilities) -> Self {
        let mut to_send = VecDeque::new();
        let mut error = None;
        if wanted.mode == Mode::Extended && !capabilities.extended_mode().may() {
            let what = PeerIncompatible::NoExtendedMode;
            error = Some(ScriptError::Incompatible(what));
        } else {
            if channel.ty != Some(wanted.ty) {
                to_send.push_back(Change::Type(wanted.ty));
            }
            // MODE S is what every server starts with.
            if channel.mode.unwrap_or(Mode::Stream) != wanted.mode {
                to_send.push_back(Change::Mode(wanted.mode));
            }
            if channel.buffer != wanted.buffer && capabilities.has("SBUF").may() {
                to_send.push_back(Change::Buffer(wanted.buffer));
            }
            if let Some(n) = wanted.parallelism.map(|n| n.max(1))
                && wanted.mode == Mode::Extended
                && channel.parallelism.unwrap_or(1) != n
            {
                to_send.push_back(Change::Parallelism(n));
            }
            if channel.eager != wanted.eager && capabilities.eager_stores().is_yes() {
                to_send.push_back(Change::Eager(wanted.eager));
            }
        }
        Self {
            to_send,
            due: VecDeque::new(),
            channel,
            error,
        }
    }
}

impl Script for SetUp {
    type Value = Channel;

    fn step(&mut self) -> Step<Channel> {
        if let Some(change) = self.to_send.pop_front() {
            self.due.push_back(change);
            return Step::Send(change.command());
        }
        if !self.due.is_empty() {
            return Step::Wait;
        }
        match self.error.take() {
            Some(error) => Step::Done(Err(error)),
            None => Step::Done(Ok(self.channel)),
        }
    }

    fn reply(&mut self, reply: &Reply) {
        let Some(change) = self.due.pop_front() else {
            return;
        };
        let ok = reply.code().is_success();
        match change {
            Change::Type(ty) if ok => self.channel.ty = Some(ty),
            Change::Mode(mode) if ok => self.channel.mode = Some(mode),
            Change::Mode(Mode::Extended) => {
                let what = PeerIncompatible::NoExtendedMode;
                self.error.get_or_insert(ScriptError::Incompatible(what));
            }
            Change::Type(_) | Change::Mode(_) => {
                let verb = change.command().verb();
                self.error
                    .get_or_insert_with(|| ScriptError::Refused(Failure::new(verb, reply)));
            }
            Change::Eager(eager) => self.channel.eager = eager && ok,
            // Refused or not, it need not be asked for again.
            Change::Parallelism(n) => self.channel.parallelism = Some(n),
            Change::Buffer(bytes) => self.channel.buffer = bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(script: &mut SetUp) -> Vec<String> {
        let mut sent = Vec::new();
        while let Step::Send(command) = script.step() {
            sent.push(command.to_string());
        }
        sent
    }

    #[test]
    fn only_changes_are_sent() {
        let caps = Capabilities::default();
        let mut wanted = Wanted::new(Mode::Extended);
        wanted.parallelism = Some(4);
        let mut script = SetUp::new(Channel::default(), wanted, &caps);
        let sent = lines(&mut script);
        assert_eq!(sent.len(), 3, "{sent:?}");
        for _ in 0..3 {
            script.reply(&Reply::of::<200>("ok"));
        }
        let Step::Done(Ok(channel)) = script.step() else {
            panic!("not done")
        };
        let mut again = SetUp::new(channel, wanted, &caps);
        assert!(lines(&mut again).is_empty());
        assert!(matches!(again.step(), Step::Done(Ok(_))));
    }

    #[test]
    fn options_may_fail_and_modes_may_not() {
        let caps = Capabilities::default();
        let mut wanted = Wanted::new(Mode::Extended);
        wanted.parallelism = Some(4);
        let mut script = SetUp::new(Channel::default(), wanted, &caps);
        lines(&mut script);
        script.reply(&Reply::of::<200>("ok"));
        script.reply(&Reply::of::<200>("ok"));
        script.reply(&Reply::of::<500>("OPTS failed."));
        assert!(matches!(script.step(), Step::Done(Ok(_))));
        let mut script = SetUp::new(Channel::default(), wanted, &caps);
        lines(&mut script);
        script.reply(&Reply::of::<200>("ok"));
        script.reply(&Reply::of::<504>("MODE E?"));
        script.reply(&Reply::of::<200>("ok"));
        let Step::Done(Err(error)) = script.step() else {
            panic!("not refused")
        };
        assert_eq!(
            error,
            ScriptError::Incompatible(PeerIncompatible::NoExtendedMode)
        );
    }
}
