//! `SITE RATE`: in force as soon as its line arrives, answered in its turn.

use std::num::NonZero;

use ftp_wire::command::{Command, SiteCommand};

use super::out::Cx;
use super::queue;
use super::settings::Settings;
use super::user::LoggedIn;
use crate::types::Action;

/// The name of the command.
const NAME: &str = "SITE RATE";

/// Says whether the line is this command.
pub(super) fn is_of(line: &[u8]) -> bool {
    queue::name(line) == NAME
}

/// The action of a line that arrives; `None` of another command, and of one that will be refused in
/// its turn.
pub(super) fn on_arrival(line: &[u8], settings: &Settings) -> Option<Action> {
    let is_offered = is_of(line) && settings.rates;
    if !is_offered || settings.denies(NAME) || settings.denies("SITE") {
        return None;
    }
    match Command::parse(line) {
        Ok(Command::Site(SiteCommand::Rate(rate))) => Some(Action::Rate(rate)),
        _ => None,
    }
}

impl LoggedIn {
    /// Runs the command in its turn.
    pub(super) fn limit(&self, rate: Option<NonZero<u64>>, cx: &mut Cx<'_>) {
        if !cx.settings.rates {
            return cx.out.say::<504>("Data connections have no rate here.");
        }
        // The one that arrived last stays in force for transfers that come before its turn.
        if !self.rate_arrived {
            cx.out.action(Action::Rate(rate));
        }
        match rate {
            Some(rate) => {
                let text = format!("At most {rate} bytes a second of data each way.");
                cx.out.say::<250>(text);
            }
            None => cx.out.say::<250>("Any rate of data."),
        }
    }
}
