//! `Sessions`: the sessions in which partial files are listed and removed, one for each site.

use std::sync::Arc;

use ftp_wire::command::{Command, SiteCommand};
use ftp_wire::path::FtpPath;

use crate::client::Client;
use crate::copy::connect_to;
use crate::error::{ConnectError, ControlError, TransferError};
use crate::options::CopyOptions;
use crate::progress::Observer;
use crate::url::{Remote, Site};

/// The open sessions: at most one for each site of the places that were named.
#[derive(Debug, Default)]
pub(super) struct Sessions(Vec<(Site, Box<Client>)>);

impl Sessions {
    /// Takes the session with a site, which begins where there is none.
    pub(super) async fn take(
        &mut self,
        site: &Site,
        options: &CopyOptions,
        observer: &Arc<dyn Observer>,
    ) -> Result<Box<Client>, ConnectError> {
        match self.0.iter().position(|(of, _)| of == site) {
            Some(at) => Ok(self.0.swap_remove(at).1),
            None => connect_to(site, options, observer).await,
        }
    }

    /// Gives a session back for the next question.
    pub(super) fn give_back(&mut self, site: &Site, client: Box<Client>) {
        self.0.push((site.clone(), client));
    }

    /// Removes the partial file of `at` at its server, or the `hidden` file that it is there. A session
    /// that has ended since its last reply is replaced.
    pub(super) async fn remove(
        &mut self,
        at: &Remote,
        hidden: Option<FtpPath>,
        options: &CopyOptions,
        observer: &Arc<dyn Observer>,
    ) -> Result<(), TransferError> {
        let is_old = self.0.iter().any(|(of, _)| *of == at.site);
        let removed = self.ask(at, hidden.clone(), options, observer).await;
        match removed {
            Err(error) if is_old && error.is_gone() => {
                self.ask(at, hidden, options, observer).await
            }
            removed => removed,
        }
    }

    async fn ask(
        &mut self,
        at: &Remote,
        hidden: Option<FtpPath>,
        options: &CopyOptions,
        observer: &Arc<dyn Observer>,
    ) -> Result<(), TransferError> {
        let client = self.take(&at.site, options, observer).await?;
        let command = match hidden {
            Some(hidden) => Command::Dele(hidden),
            None => Command::Site(SiteCommand::DropHeld(client.path(&at.path)?)),
        };
        let removed = client.ask(command).await;
        if !matches!(removed, Err(ControlError::Lost { .. })) {
            self.give_back(&at.site, client);
        }
        match removed {
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Ends the sessions politely.
    pub(super) async fn close(self) {
        for (_, client) in self.0 {
            client.close().await;
        }
    }
}
