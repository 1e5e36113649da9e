//! Uploads in MODE S: each file has a connection of its own, which is set up while the file before
//! it is proven.

use std::sync::{Arc, Mutex as StdMutex};

use ftp_wire::command::{BufferSide, Mode};
use gridftp_dsi::types::ChecksumAlgorithm;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::control::Control;
use crate::copy::Stop;
use crate::copy::job::Item;
use crate::copy::making::{Dirs, make_dir};
use crate::copy::pipeline::Route;
use crate::copy::queue::Taken;
use crate::copy::state::CopyState;
use crate::copy::window::Window;
use crate::stripes::Width;

use super::ask::Asker;
use super::confirm::{confirm_one, publish, settle_following};
use super::{Following, Publishing, Push, silence};

/// Uploads over one control connection in MODE S.
pub(super) struct Serial<'a> {
    pub(super) control: Control,
    pub(super) shared: &'a Arc<CopyState>,
    pub(super) algorithm: Option<ChecksumAlgorithm>,
    /// Held while data moves: servers take no other commands then.
    pub(super) moving: Mutex<()>,
    /// Whether the server owes the reply to a store.
    pub(super) unanswered: CancellationToken,
}

impl<'a> Route for Serial<'a> {
    type Asked = Taken;
    type Passed = Publishing;
    type Asking = ();
    type Passing = (&'a mut Client, &'a mut Dirs);

    async fn ask(&self, (): &mut (), taken: Taken) -> Result<Option<Taken>, Stop> {
        Ok(Some(taken))
    }

    async fn pass(
        &self,
        (client, dirs): &mut Self::Passing,
        taken: Taken,
    ) -> Result<Option<Publishing>, Stop> {
        let (control, shared) = (&self.control, self.shared);
        if let Some(gone) = control.gone() {
            return Err(Stop::Lost(gone.into()));
        }
        // A new session has new tickets; uploads bring none at some servers (ProFTPD).
        if client.guard.is_spent() {
            return Err(Stop::Replace);
        }
        if matches!(taken.item(), Item::Dir(_)) {
            make_dir((control, &client.abilities), shared, taken, dirs).await;
            return Ok(None);
        }
        if let Err(error) = client.set_up_stream(BufferSide::Receive).await {
            return shared.fail_set_up(control, taken, error).map(|()| None);
        }
        let moving = self.moving.lock().await;
        let stored = self.store(client, dirs, taken).await;
        if matches!(stored, Err(Stop::Replace)) {
            self.unanswered.cancel();
        }
        drop(moving);
        let stored = stored?;
        if shared.queue.has_files() {
            client.listen_ahead();
        }
        match stored {
            Some(stored) => Ok(settle_following(control, shared, stored).await),
            None => Ok(None),
        }
    }

    async fn confirm(
        &self,
        mut proven: mpsc::Receiver<Publishing>,
        _broken: &CancellationToken,
    ) -> Result<(), Stop> {
        while let Some(mut store) = proven.recv().await {
            let through = match &mut store.renaming {
                Some(renaming) => renaming.is_through().await,
                None => true,
            };
            if through {
                publish(&self.control, self.shared, store).await;
                continue;
            }
            // Its name is asked for in another way, which waits for the data of the next.
            let _still = self.moving.lock().await;
            // No reply would come before the one that the server owes: the file is copied again.
            if !self.unanswered.is_cancelled() {
                publish(&self.control, self.shared, store).await;
            }
        }
        Ok(())
    }
}

impl Serial<'_> {
    /// Stores one file.
    async fn store(
        &self,
        client: &mut Client,
        dirs: &mut Dirs,
        taken: Taken,
    ) -> Result<Option<Following>, Stop> {
        let route = Push {
            asker: Asker {
                control: &client.control,
                abilities: &client.abilities,
                shared: self.shared,
                algorithm: self.algorithm,
                mode: Mode::Stream,
                tags: (self.shared).tags(Mode::Stream, &[&client.abilities], &client.state.tags),
                numbers: &client.state.tags,
                window: &Window::default(),
            },
            width: Width::of_streams(1),
            reply_within: client.options.reply_within,
            opens: true,
            reset: StdMutex::default(),
            silence: silence(&client.options),
        };
        let Some(asked) = route.ask(dirs, taken).await? else {
            return Ok(None);
        };
        let Some(mut sent) = route.pass(client.channel.get(), asked).await? else {
            return Ok(None);
        };
        let word = sent.settle(route.silence).await;
        confirm_one(&route.asker, sent, word).await
    }
}
