//! The states of a server session and the one table of its transitions.

use ftp_wire::path::FtpPath;

use super::names::NameJob;
use super::user::LoggedIn;
use crate::types::{Ticket, Transfer};

/// Where a session is, with what only exists there.
#[derive(Debug)]
pub(super) enum State {
    /// Greeted; no name given.
    Greeted,
    /// `USER` came; `PASS` must follow.
    Named { user: String },
    /// The edge looks at the password.
    Checking { user: String, ticket: Ticket },
    /// Logged in.
    In(Box<LoggedIn>),
    /// Over; nothing is read any more.
    Closed,
}

/// What a logged-in session is doing.
#[derive(Debug)]
pub(super) enum Activity {
    /// Nothing: the next command runs at once.
    Ready,
    /// `RNFR` found its file; `RNTO` must follow.
    Renaming { from: FtpPath },
    /// `SITE SYMLINKFROM` came; `SITE SYMLINKTO` must follow.
    Linking { target: FtpPath },
    /// The edge does something that is no transfer.
    Working {
        ticket: Ticket,
        job: Job,
        aborting: bool,
    },
    /// The edge has a transfer whose data connections are not there yet.
    Opening {
        ticket: Ticket,
        kind: Moving,
        aborting: bool,
    },
    /// Data moves.
    Moving {
        ticket: Ticket,
        kind: Moving,
        aborting: bool,
    },
}

/// What the session must remember of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moving {
    /// Whether data connections may serve the next transfer (MODE E).
    pub(super) keeps_channel: bool,
}

/// What an outcome of the edge means.
#[derive(Debug)]
pub(super) enum Job {
    /// Work on names; see there.
    Names(NameJob),
    /// A listener was asked for by this command.
    Listen(PassiveForm),
    /// A listener was asked for by a transfer, because the passive command was delayed.
    DelayedListen(PassiveForm, Box<Transfer>),
    /// Addresses to connect to were given.
    Connect,
    /// A stack was named.
    Stack,
}

impl Job {
    /// Says whether an abort stops it.
    pub(super) const fn can_stop(&self) -> bool {
        match self {
            Self::Names(job) => job.can_stop(),
            Self::DelayedListen(..) => true,
            Self::Listen(_) | Self::Connect | Self::Stack => false,
        }
    }
}

/// Which command asked for a listener, for the form of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PassiveForm {
    /// `PASV`: 227.
    Pasv,
    /// `EPSV`: 229 with a port.
    Epsv,
    /// `SPAS`: 229 with one line a stripe, in the form of `EPRT` when a family was named.
    Spas { extended: bool },
}

/// A state without its data, as the table and the diagram name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Greeted,
    Named,
    Checking,
    Ready,
    Renaming,
    Linking,
    Working,
    Opening,
    Moving,
    Closed,
}

/// What moves a session from one stage to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trigger {
    /// `USER`.
    Name,
    /// `PASS`.
    Password,
    /// The edge accepted the login.
    Accepted,
    /// The edge refused it.
    Refused,
    /// A command for which the edge must act, transfers apart.
    Work,
    /// That is done, well or not.
    Worked,
    /// `RNFR` found its file.
    Found,
    /// `SITE SYMLINKFROM`.
    Target,
    /// A command other than the one that had to follow.
    Other,
    /// A transfer was handed to the edge.
    Start,
    /// Its data connections are there.
    Opened,
    /// It ended, well or not.
    Ended,
    /// QUIT, a deadline, a drain, a peer that misbehaves or is gone.
    Close,
}

/// Every transition there is.
pub(super) const TABLE: &[(Stage, Trigger, Stage)] = &[
    (Stage::Greeted, Trigger::Name, Stage::Named),
    (Stage::Named, Trigger::Name, Stage::Named),
    (Stage::Named, Trigger::Password, Stage::Checking),
    (Stage::Checking, Trigger::Accepted, Stage::Ready),
    (Stage::Checking, Trigger::Refused, Stage::Greeted),
    (Stage::Ready, Trigger::Work, Stage::Working),
    (Stage::Ready, Trigger::Start, Stage::Opening),
    (Stage::Ready, Trigger::Target, Stage::Linking),
    (Stage::Renaming, Trigger::Other, Stage::Ready),
    (Stage::Renaming, Trigger::Work, Stage::Working),
    (Stage::Linking, Trigger::Other, Stage::Ready),
    (Stage::Linking, Trigger::Work, Stage::Working),
    (Stage::Working, Trigger::Worked, Stage::Ready),
    (Stage::Working, Trigger::Found, Stage::Renaming),
    (Stage::Working, Trigger::Start, Stage::Opening),
    (Stage::Opening, Trigger::Opened, Stage::Moving),
    (Stage::Opening, Trigger::Ended, Stage::Ready),
    (Stage::Moving, Trigger::Ended, Stage::Ready),
    (Stage::Greeted, Trigger::Close, Stage::Closed),
    (Stage::Named, Trigger::Close, Stage::Closed),
    (Stage::Checking, Trigger::Close, Stage::Closed),
    (Stage::Ready, Trigger::Close, Stage::Closed),
    (Stage::Renaming, Trigger::Close, Stage::Closed),
    (Stage::Linking, Trigger::Close, Stage::Closed),
    (Stage::Working, Trigger::Close, Stage::Closed),
    (Stage::Opening, Trigger::Close, Stage::Closed),
    (Stage::Moving, Trigger::Close, Stage::Closed),
];

/// Says whether the table has this transition.
pub(super) fn allows(from: Stage, trigger: Trigger, to: Stage) -> bool {
    TABLE.contains(&(from, trigger, to))
}

impl State {
    /// The stage this state is.
    pub(super) fn stage(&self) -> Stage {
        match self {
            Self::Greeted => Stage::Greeted,
            Self::Named { .. } => Stage::Named,
            Self::Checking { .. } => Stage::Checking,
            Self::In(user) => user.activity.stage(),
            Self::Closed => Stage::Closed,
        }
    }
}

impl Activity {
    /// The action that is outstanding.
    pub(super) const fn ticket(&self) -> Option<Ticket> {
        match self {
            Self::Working { ticket, .. }
            | Self::Opening { ticket, .. }
            | Self::Moving { ticket, .. } => Some(*ticket),
            Self::Ready | Self::Renaming { .. } | Self::Linking { .. } => None,
        }
    }

    /// The stage this activity is.
    pub(super) const fn stage(&self) -> Stage {
        match self {
            Self::Ready => Stage::Ready,
            Self::Renaming { .. } => Stage::Renaming,
            Self::Linking { .. } => Stage::Linking,
            Self::Working { .. } => Stage::Working,
            Self::Opening { .. } => Stage::Opening,
            Self::Moving { .. } => Stage::Moving,
        }
    }
}

impl Stage {
    /// Says whether commands must wait here for the edge.
    pub(super) const fn is_busy(self) -> bool {
        matches!(
            self,
            Self::Checking | Self::Working | Self::Opening | Self::Moving
        )
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// Draws the table; `state.mmd` beside this file is what it must give.
    fn diagram() -> String {
        let mut out = String::from("stateDiagram-v2\n    [*] --> Greeted\n");
        for (from, trigger, to) in TABLE {
            writeln!(out, "    {from:?} --> {to:?}: {trigger:?}").unwrap();
        }
        out.push_str("    Closed --> [*]\n");
        out
    }

    #[test]
    fn the_diagram_beside_the_table_shows_the_table() {
        assert_eq!(diagram(), include_str!("state.mmd"));
    }

    #[test]
    fn every_stage_can_be_reached_and_left() {
        use Stage::*;
        for stage in [
            Named, Checking, Ready, Renaming, Linking, Working, Opening, Moving, Closed,
        ] {
            assert!(TABLE.iter().any(|row| row.2 == stage), "{stage:?}");
        }
        for stage in [
            Greeted, Named, Checking, Ready, Renaming, Linking, Working, Opening, Moving,
        ] {
            assert!(allows(stage, Trigger::Close, Closed), "{stage:?}");
        }
        assert!(!TABLE.iter().any(|row| row.0 == Closed));
    }

    #[test]
    fn a_trigger_leads_to_one_stage_only() {
        for (i, a) in TABLE.iter().enumerate() {
            assert!(
                !TABLE[i + 1..].iter().any(|b| (a.0, a.1) == (b.0, b.1)),
                "{a:?}"
            );
        }
    }
}
