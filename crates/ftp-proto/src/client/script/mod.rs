//! Conversations as values: login, set-up, one file, third party; resumable and without I/O.
//!
//! A script says which command goes out next and is told the replies, in order. It never waits, so
//! its caller can run it over any connection, or over none:
//!
//! ```
//! use ftp_proto::client::script::{Login, Script, Step};
//! use ftp_wire::reply::Reply;
//!
//! let mut script = Login::new("anonymous", "guest@", None);
//! let mut replies = [
//!     Reply::of::<220>("ready"),
//!     Reply::of::<331>("password?"),
//!     Reply::of::<230>("welcome"),
//!     Reply::of::<500>("FEAT? what is that?"),
//! ]
//! .into_iter();
//! let mut sent = 0;
//! let session = loop {
//!     match script.step() {
//!         Step::Send(_command) => sent += 1,
//!         Step::Wait => script.reply(&replies.next().unwrap()),
//!         Step::Done(result) => break result.unwrap(),
//!         _ => unreachable!(),
//!     }
//! };
//! assert_eq!(sent, 3);
//! assert!(session.capabilities.extended_mode().may());
//! ```

mod file;
mod login;
mod setup;
mod third_party;

use std::fmt;

use ftp_wire::addr::Passive;
use ftp_wire::command::Command;
use ftp_wire::marker::Marker;
use ftp_wire::reply::Reply;

pub use self::file::{Get, Plan, Put};
pub use self::login::{Login, Session};
pub use self::setup::{Channel, SetUp, Wanted};
pub use self::third_party::{Side, ThirdParty, ThirdPartyError, ThirdStep, Transferred};
use super::failure::Failure;
use crate::error::{PeerIncompatible, PeerMisbehaved};

/// What a script wants next.
#[derive(Debug)]
#[non_exhaustive]
pub enum Step<T> {
    /// Send this command, and ask again.
    Send(Command),
    /// Nothing until the next final reply.
    Wait,
    /// It is over, and every reply to its commands has come.
    Done(Result<T, ScriptError>),
}

/// A conversation over one control connection.
pub trait Script {
    /// What it finds out.
    type Value;

    /// The next thing to do; asked again after every [`Step::Send`] and every reply.
    fn step(&mut self) -> Step<Self::Value>;

    /// Takes the final reply to the oldest of its commands that has none yet.
    fn reply(&mut self, reply: &Reply);
}

/// Why a script did not reach its end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScriptError {
    /// The server refused a command that the script cannot do without.
    Refused(Failure),
    /// The server cannot do what is needed.
    Incompatible(PeerIncompatible),
    /// The server broke the protocol.
    Misbehaved(PeerMisbehaved),
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(failure) => failure.fmt(f),
            Self::Incompatible(what) => what.fmt(f),
            Self::Misbehaved(what) => what.fmt(f),
        }
    }
}

impl std::error::Error for ScriptError {}

/// News between a transfer command and its final reply.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum News {
    /// 150 or 125: data connections exist; `reused` for 125.
    Opened {
        /// Whether connections of an earlier transfer serve again.
        reused: bool,
    },
    /// 127 or 129: where to connect to, after a delayed passive command.
    Passive(Passive),
    /// 111, 112 or 113.
    Marker(Marker),
    /// Anything else; nothing depends on it.
    Other,
}

impl News {
    /// Reads a preliminary reply; what cannot be read is [`News::Other`].
    ///
    /// Servers send 150 early, late or not at all, so nothing may wait for it before connecting.
    pub fn of(reply: &Reply) -> Self {
        match reply.code().number() {
            125 => Self::Opened { reused: true },
            150 => Self::Opened { reused: false },
            127 | 129 => Passive::from_reply(reply).map_or(Self::Other, Self::Passive),
            _ => match Marker::from_reply(reply) {
                Some(Ok(marker)) => Self::Marker(marker),
                _ => Self::Other,
            },
        }
    }
}
