//! `Sessions`: the sessions in which partial files are listed and removed, one for each site.

use std::sync::Arc;

use ftp_wire::command::{Command, SiteCommand};
use ftp_wire::path::FtpPath;

use crate::client::Client;
use crate::copy::connect_to;
use crate::error::{ConnectError, TransferError};
use crate::options::CopyOptions;
use crate::progress::Observer;
use crate::url::{Remote, Site};

/// The open sessions: at most one for each site of the places that were named.
#[derive(Debug, Default)]
pub(super) struct Sessions(Vec<(Site, Box<Client>)>);

impl Sessions {
    /// Takes the session with a site; connects where none is open.
    pub(super) async fn take(
        &mut self,
        site: &Site,
        options: &CopyOptions,
        observer: &Arc<dyn Observer>,
    ) -> Result<Box<Client>, ConnectError> {
        self.0.retain(|(_, client)| !client.is_gone());
        match self.0.iter().position(|(of, _)| of == site) {
            Some(at) => Ok(self.0.swap_remove(at).1),
            None => connect_to(site, options, observer).await,
        }
    }

    /// Gives a session back for the next command.
    pub(super) fn give_back(&mut self, site: &Site, client: Box<Client>) {
        self.0.push((site.clone(), client));
    }

    /// Removes the partial file of `at` at its server, or the `hidden` file that it is there. Where a
    /// session from before ends at that, another one removes it.
    pub(super) async fn remove(
        &mut self,
        at: &Remote,
        hidden: Option<FtpPath>,
        options: &CopyOptions,
        observer: &Arc<dyn Observer>,
    ) -> Result<(), TransferError> {
        loop {
            let is_old = self.0.iter().any(|(of, _)| *of == at.site);
            let client = self.take(&at.site, options, observer).await?;
            let command = match &hidden {
                Some(hidden) => Command::Dele(hidden.clone()),
                None => Command::Site(SiteCommand::DropHeld(client.path(&at.path)?)),
            };
            let removed = client.ask(command).await;
            if is_old && removed.is_err() && client.is_gone() {
                continue;
            }
            self.give_back(&at.site, client);
            return match removed {
                Err(error) if !error.is_not_found() => Err(error.into()),
                _ => Ok(()),
            };
        }
    }

    /// Ends the sessions politely.
    pub(super) async fn close(self) {
        for (_, client) in self.0 {
            client.close().await;
        }
    }
}
