//! Ends sessions, after asking their servers for the wait times of the transfers (`SITE WAITS`).

use std::time::Duration;

use ftp_wire::command::{Command, SiteCommand};
use ftp_wire::waits::Waits;

use super::Stop;
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

    /// Closes a session that has done its work, or is left for another stack: the server counts it
    /// until then, and a connection that ended behind the change is no failure.
    pub(super) async fn end(
        &self,
        mut client: Box<Client>,
        role: Role,
        ended: Result<(), Stop>,
    ) -> Result<(), Stop> {
        match ended {
            Ok(()) => {
                self.close(client, role).await;
                Ok(())
            }
            Err(stop) if client.control.left.is_cancelled() => {
                // Behind QUIT alone the server finishes the running transfer, which locks its file.
                client.control.abort();
                client.drop_channel();
                client.close().await;
                Err(match stop {
                    Stop::Lost(_) => Stop::Replace,
                    stop => stop,
                })
            }
            Err(stop) => Err(stop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::scripted;
    use crate::error::TransferError;

    #[tokio::test(start_paused = true)]
    async fn a_session_that_is_lost_behind_a_change_of_stack_is_replaced() {
        for is_left in [false, true] {
            let (client, server) = scripted::session(vec![("QUIT", "221 bye".to_owned())]).await;
            if is_left {
                client.control.left.cancel();
            }
            let shared = CopyState::plain();
            let lost = Stop::Lost(TransferError::request("it ended", ""));
            let ended = shared.end(Box::new(client), Role::Sender, Err(lost));
            let (ended, _) = tokio::join!(ended, server);
            assert_eq!(matches!(ended, Err(Stop::Replace)), is_left, "{ended:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_transfers_of_a_session_that_is_left_are_aborted_before_its_end() {
        let replies = [("ABOR", "226 done"), ("QUIT", "221 bye")];
        let replies = replies.map(|(verb, reply)| (verb, reply.to_owned()));
        let (client, server) = scripted::session(replies.into()).await;
        client.control.left.cancel();
        let shared = CopyState::plain();
        let ended = shared.end(Box::new(client), Role::Sender, Err(Stop::Replace));
        let (ended, received) = tokio::join!(ended, server);
        assert!(matches!(ended, Err(Stop::Replace)), "{ended:?}");
        assert_eq!(received, ["ABOR", "QUIT"]);
    }
}
