//! The states of a server session and the one table of its transitions.

use ftp_wire::path::FtpPath;
use ftp_wire::reply::Code;

use super::names::NameJob;
use super::user::LoggedIn;
use crate::types::{Ticket, Transfer};

/// The state of a session, with the data of that state.
#[derive(Debug)]
pub(super) enum State {
    /// Greeted; no name given.
    Greeted,
    /// The caller runs a handshake on the control connection.
    Upgrading,
    /// After `USER`; `PASS` must follow.
    Named { user: String },
    /// The caller verifies the password, or logs in by the certificate.
    Checking {
        user: String,
        ticket: Ticket,
        /// Code of the reply to a login that succeeds: 230, or 232 (RFC 2228 §5.1).
        success: Code,
    },
    /// Logged in.
    In(Box<LoggedIn>),
    /// Over; nothing is read any more.
    Closed,
}

/// The activity of a logged-in session.
#[derive(Debug)]
pub(super) enum Activity {
    /// Nothing: the next command runs at once.
    Ready,
    /// `RNFR` found its file; `RNTO` must follow.
    Renaming { from: FtpPath },
    /// After `SITE SYMLINKFROM`; `SITE SYMLINKTO` must follow.
    Linking { target: FtpPath },
    /// The caller runs an action other than a transfer.
    Working {
        ticket: Ticket,
        job: Job,
        aborting: bool,
    },
    /// The caller opens the data connections of a transfer.
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

/// The session's data on a running transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moving {
    /// Whether data connections may serve the next transfer (MODE E).
    pub(super) keeps_channel: bool,
    /// Whether the 150 has begun and lacks its last line.
    pub(super) is_waiting: bool,
}

/// The command that an outcome answers.
#[derive(Debug)]
pub(super) enum Job {
    /// Work on names.
    Names(NameJob),
    /// A passive command.
    Listen(PassiveForm),
    /// A transfer after a delayed passive command.
    DelayedListen(PassiveForm, Box<Transfer>),
    /// `PORT`, `EPRT` or `SPOR`.
    Connect { striped: bool },
    /// `SITE SETNETSTACK`, `SITE SETDISKSTACK`, `SITE WAITS` or `DCSC`: 250.
    Plain,
}

impl Job {
    /// Says whether an abort stops it.
    pub(super) const fn can_stop(&self) -> bool {
        match self {
            Self::Names(job) => job.can_stop(),
            Self::DelayedListen(..) => true,
            Self::Listen(_) | Self::Connect { .. } | Self::Plain => false,
        }
    }
}

/// The passive command, for the form of its reply.
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
    Upgrading,
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

/// The cause of a transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trigger {
    /// `AUTH`.
    Auth,
    /// The handshake succeeded.
    Secured,
    /// `USER`.
    Name,
    /// `PASS`, or a certificate for the name.
    Password,
    /// The caller accepted the login.
    Accepted,
    /// The caller refused it, or the channel is too weak for the name.
    Refused,
    /// A command with an action, transfers apart.
    Work,
    /// That action ended, well or not.
    Worked,
    /// `RNFR` found its file.
    Found,
    /// `SITE SYMLINKFROM`.
    Target,
    /// A command other than the one that had to follow.
    Other,
    /// A transfer was handed to the caller.
    Start,
    /// Its data connections are open.
    Opened,
    /// It ended, well or not.
    Ended,
    /// QUIT, a deadline, a drain, a peer that misbehaves or is gone.
    Close,
}

/// Every transition there is.
pub(super) const TABLE: &[(Stage, Trigger, Stage)] = &[
    (Stage::Greeted, Trigger::Auth, Stage::Upgrading),
    (Stage::Greeted, Trigger::Name, Stage::Named),
    (Stage::Upgrading, Trigger::Secured, Stage::Greeted),
    (Stage::Greeted, Trigger::Password, Stage::Checking),
    (Stage::Named, Trigger::Auth, Stage::Upgrading),
    (Stage::Named, Trigger::Name, Stage::Named),
    (Stage::Named, Trigger::Password, Stage::Checking),
    (Stage::Named, Trigger::Refused, Stage::Greeted),
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
    (Stage::Upgrading, Trigger::Close, Stage::Closed),
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
            Self::Upgrading => Stage::Upgrading,
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
    /// Says whether commands wait in this stage.
    pub(super) const fn is_busy(self) -> bool {
        matches!(
            self,
            Self::Upgrading | Self::Checking | Self::Working | Self::Opening | Self::Moving
        )
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// Draws the table in the form of `state.mmd` beside this file.
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
            Upgrading, Named, Checking, Ready, Renaming, Linking, Working, Opening, Moving, Closed,
        ] {
            assert!(TABLE.iter().any(|row| row.2 == stage), "{stage:?}");
        }
        for stage in [
            Greeted, Upgrading, Named, Checking, Ready, Renaming, Linking, Working, Opening, Moving,
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
