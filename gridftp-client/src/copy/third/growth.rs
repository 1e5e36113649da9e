//! Signs of life of a copy between servers that give none: the size of the copy, asked over another
//! session.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ftp_wire::command::Command;
use ftp_wire::path::FtpPath;

use super::Pair;
use crate::client::Client;
use crate::copy::job::FileJob;
use crate::copy::state::CopyState;
use crate::error::TransferError;
use crate::progress::Silent;

/// Time between two looks, of which several fit into the silence that ends a session.
pub(super) const LOOK: Duration = Duration::from_secs(120);

/// Knows how many bytes of a copy are there.
pub(super) trait Size: Send {
    /// Asks how many bytes are there.
    ///
    /// # Errors
    /// When that cannot be known.
    fn size(&mut self) -> impl Future<Output = Result<u64, TransferError>> + Send;
}

/// A session beside the two of a copy: servers read no commands while they move data.
pub(super) struct Beside<'a> {
    shared: &'a CopyState,
    path: FtpPath,
    client: Option<Box<Client>>,
}

impl<'a> Beside<'a> {
    /// Looks at the written bytes of `job`; `None` where they cannot be asked for.
    pub(super) fn of(shared: &'a CopyState, job: &FileJob) -> Option<Self> {
        let own = || FtpPath::new(job.to.clone());
        Some(Self {
            shared,
            path: job.hidden.clone().or_else(own)?,
            client: None,
        })
    }
}

impl Beside<'_> {
    async fn ask(&self, client: &Client) -> Result<u64, TransferError> {
        let mut asked = client.control.send(Command::Size(self.path.clone()));
        let size = asked.finish().await?.size();
        Ok(size.ok_or_else(|| asked.misbehaved("no size in the reply"))?)
    }
}

impl Size for Beside<'_> {
    async fn size(&mut self) -> Result<u64, TransferError> {
        let Some(site) = &self.shared.destination else {
            return pending().await;
        };
        if let Some(client) = self.client.take()
            && let Ok(size) = self.ask(&client).await
        {
            self.client = Some(client);
            return Ok(size);
        }
        // The server may have ended the session of the look before.
        let options = Arc::new(self.shared.options.connect.clone());
        let client = Client::connect_with(site, options, Arc::new(Silent)).await?;
        let size = self.ask(&client).await?;
        self.client = Some(Box::new(client));
        Ok(size)
    }
}

impl Pair<'_> {
    /// Tells both sessions that a copy grows, as long as it does and its servers do not tell of it:
    /// their account is `told`, of the bytes beyond the `first` that were there before.
    pub(super) async fn watch(
        &self,
        told: &AtomicU64,
        first: u64,
        mut copy: impl Size,
    ) -> Infallible {
        let (mut before, mut noted) = (0, false);
        loop {
            tokio::time::sleep(LOOK).await;
            let now = told.load(Ordering::Relaxed);
            if now > before {
                before = now;
                continue;
            }
            let now = match copy.size().await {
                Ok(now) => now.saturating_sub(first),
                Err(error) => {
                    let again = "the size of the copy is asked again every 120 s; a copy of which nothing \
                                 is known for 600 s or --timeout is given up";
                    if !std::mem::replace(&mut noted, true) {
                        self.shared.note(&format!("{error}; {again}"));
                    }
                    continue;
                }
            };
            if now > before {
                self.shared.totals.moved(now - before);
                told.fetch_max(now, Ordering::Relaxed);
                self.source.moved();
                self.destination.moved();
                before = now;
            }
        }
    }
}
