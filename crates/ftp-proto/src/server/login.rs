//! Login, and the commands that need none.

use ftp_wire::command::{Command, Secret, SiteCommand};
use ftp_wire::facts::FactSet;
use ftp_wire::reply::{Code, Reply};

use super::help;
use super::out::Cx;
use super::security;
use super::state::{State, Trigger};
use super::user::LoggedIn;
use super::{Limits, unexpected};
use crate::security::Protection;
use crate::types::{Action, Outcome};

/// The only commands that run before login.
///
/// `AUTH` and its kin are among them, so that a client learns whether they are implemented.
const BEFORE_LOGIN: &[&str] = &[
    "USER",
    "PASS",
    "QUIT",
    "FEAT",
    "HELP",
    "NOOP",
    "SITE HELP",
    "AUTH",
    "ADAT",
];

/// Commands that run before login on a protected channel too (RFC 4217 §12.1).
const BEFORE_PROTECTED_LOGIN: &[&str] = &["PBSZ", "PROT"];

/// Says whether the command of this name (`SITE` with its second word) may run before login.
pub(super) fn is_allowed(name: &str, protection: &Protection) -> bool {
    BEFORE_LOGIN.contains(&name)
        || protection.by.is_some() && BEFORE_PROTECTED_LOGIN.contains(&name)
}

impl State {
    /// Runs a command that needs no login; gives the others back.
    pub(super) fn open_command(&mut self, command: Command, cx: &mut Cx<'_>) -> Option<Command> {
        match command {
            Command::User(_) | Command::Pass(_) if matches!(self, Self::In(_)) => {
                cx.out.say::<503>("You are already logged in.");
            }
            Command::User(user) => self.name_user(user, cx),
            Command::Pass(password) => self.check_password(password, cx),
            Command::Feat => help::features(self.facts(), cx),
            Command::Help(about) => help::help(about.as_deref(), cx),
            Command::Site(SiteCommand::Help(about)) => help::site_help(about.as_deref(), cx),
            Command::Noop => cx.out.say::<200>("NOOP command successful."),
            Command::Adat(_) => cx.out.say::<503>("Send AUTH first."),
            Command::Pbsz(size) if !matches!(self, Self::In(_)) => security::buffer_size(size, cx),
            Command::Prot(letter) if !matches!(self, Self::In(_)) => {
                security::set_level(letter, cx);
            }
            command => return Some(command),
        }
        None
    }

    /// `USER`: a name is refused before its password crosses a channel that is too weak for it.
    fn name_user(&mut self, user: String, cx: &mut Cx<'_>) {
        if let Some(text) = security::refusal(&user, cx) {
            cx.out.say::<534>(text);
            if matches!(self, Self::Named { .. }) {
                self.shift(Trigger::Refused, Self::Greeted);
            }
        } else if cx.security.protection.users.contains(&user) {
            let ticket = cx.out.action(Action::LoginCertified { user: user.clone() });
            let success = Code::of::<232>();
            self.shift(
                Trigger::Password,
                Self::Checking {
                    user,
                    ticket,
                    success,
                },
            );
        } else {
            cx.out.say::<331>(format!("Password required for {user}."));
            self.shift(Trigger::Name, Self::Named { user });
        }
    }

    fn check_password(&mut self, password: Secret, cx: &mut Cx<'_>) {
        let Self::Named { user } = self else {
            return cx.out.say::<503>("Login with USER first.");
        };
        let user = user.clone();
        let ticket = cx.out.action(Action::Login {
            user: user.clone(),
            password,
        });
        let success = Code::of::<230>();
        self.shift(
            Trigger::Password,
            Self::Checking {
                user,
                ticket,
                success,
            },
        );
    }

    /// The facts in force, after login.
    fn facts(&self) -> Option<FactSet> {
        match self {
            Self::In(user) => Some(user.facts),
            _ => None,
        }
    }

    /// Answers a login; says whether it was refused.
    pub(super) fn login_done(&mut self, outcome: Outcome, cx: &mut Cx<'_>) -> bool {
        let Self::Checking { user, success, .. } = self else {
            return false;
        };
        let (named, success) = (std::mem::take(user), *success);
        match outcome {
            Outcome::LoggedIn {
                user,
                home,
                message,
            } => {
                let kind = cx.security.kind_of(&named);
                let user = user.unwrap_or(named);
                let mut lines = vec![format!("User {user} logged in.")];
                lines.extend(message);
                if lines.len() > 1 {
                    lines.push("End.".to_owned());
                }
                cx.out.reply(Reply::coded(success, lines));
                let user = LoggedIn::new(user, kind, &home, cx.settings);
                self.shift(Trigger::Accepted, Self::In(Box::new(user)));
                false
            }
            other => {
                unexpected(other, cx);
                self.shift(Trigger::Refused, Self::Greeted);
                true
            }
        }
    }

    /// Moves to another state by a transition of the table.
    pub(super) fn shift(&mut self, trigger: Trigger, to: Self) {
        debug_assert!(
            super::state::allows(self.stage(), trigger, to.stage()),
            "{:?} --{trigger:?}--> {:?} is not in the table",
            self.stage(),
            to.stage(),
        );
        *self = to;
    }
}

/// Counts the failures of a peer before login.
#[derive(Debug, Default)]
pub(super) struct FailureCounts {
    refused_logins: u32,
    errors: u32,
    commands: u32,
}

impl FailureCounts {
    /// Counts a refused login; says whether the limit is reached.
    pub(super) const fn login_refused(&mut self, limits: &Limits) -> bool {
        self.refused_logins = self.refused_logins.saturating_add(1);
        self.refused_logins >= limits.refused_logins
    }

    /// Counts a command before login, good or bad; says whether the limit is exceeded.
    pub(super) const fn command(&mut self, limits: &Limits) -> bool {
        self.commands = self.commands.saturating_add(1);
        self.commands > limits.commands_before_login
    }

    /// Counts a bad command before login; says whether the limit is reached.
    pub(super) const fn error(&mut self, limits: &Limits) -> bool {
        self.errors = self.errors.saturating_add(1);
        self.errors >= limits.errors_before_login
    }
}
