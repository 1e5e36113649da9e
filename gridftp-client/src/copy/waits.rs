//! Asks servers where the time of their transfers went (`SITE WAITS`), where that is to be explained.

use std::time::Duration;

use ftp_wire::command::{Command, SiteCommand};
use ftp_wire::waits::Waits;

use super::state::CopyState;
use crate::client::Client;
use crate::explain::Role;

/// Longest wait for the answer.
const ANSWER: Duration = Duration::from_secs(2);

impl CopyState {
    /// Has a server measure where the time of its transfers goes.
    pub(super) fn have_measured(&self, client: &Client) {
        if self.options.explain && client.abilities.waits {
            drop(client.control.send(Command::Site(SiteCommand::Waits)));
        }
    }

    /// Closes a session, after it was asked where the time of its transfers went.
    pub(super) async fn close(&self, client: Box<Client>, role: Role) {
        if self.options.explain && client.abilities.waits {
            let asked = client.ask(Command::Site(SiteCommand::Waits));
            if let Ok(Ok(told)) = tokio::time::timeout(ANSWER, asked).await
                && let Some(waits) = Waits::parse(&told.text())
            {
                self.totals.samples.told(role, waits);
            }
        }
        client.close().await;
    }
}
