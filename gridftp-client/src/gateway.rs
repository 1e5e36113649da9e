//! Commands of a program that keeps sessions for others, as a gateway does.

use std::time::Duration;

use ftp_wire::command::{Command, SiteCommand};
use ftp_wire::marker::Marker;
use ftp_wire::partial::Partial;

use crate::client::Client;
use crate::error::ControlError;

impl Client {
    /// Whether the control connection has ended.
    pub fn is_gone(&self) -> bool {
        self.control.gone().is_some()
    }

    /// Asks a session that was idle whether its server is still there.
    pub async fn is_alive(&self, within: Duration) -> bool {
        if self.is_gone() {
            return false;
        }
        let asked = tokio::time::timeout(within, self.ask(Command::Noop));
        matches!(asked.await, Ok(Ok(_)))
    }

    /// Number of bytes that the server keeps of a broken upload to `path`, from its start; 0 from a
    /// server without [`held`](crate::abilities::Abilities::held).
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn held(&self, path: &[u8]) -> Result<u64, ControlError> {
        if !self.abilities.held {
            return Ok(0);
        }
        let mut asked = self
            .control
            .send(Command::Site(SiteCommand::Held(self.path(path)?)));
        match asked.finish().await {
            Ok(reply) => match Marker::parse_held(&reply) {
                Ok(held) => Ok(held.first_hole()),
                // Of a directory.
                Err(_) if Partial::all_of(&reply).is_some() => Ok(0),
                Err(_) => Err(asked.misbehaved("no ranges in the reply")),
            },
            Err(error @ ControlError::Refused { .. }) if error.is_not_found() => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Removes what the server keeps of a broken upload to `path`.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn drop_held(&self, path: &[u8]) -> Result<(), ControlError> {
        let command = Command::Site(SiteCommand::DropHeld(self.path(path)?));
        self.ask(command).await.map(drop)
    }

    /// Sets the group, by name or number.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn set_group(&self, path: &[u8], group: &str) -> Result<(), ControlError> {
        let command = SiteCommand::Chgrp(group.to_owned(), self.path(path)?);
        self.ask(Command::Site(command)).await.map(drop)
    }
}
