//! Downloads in MODE S: each file has a connection of its own, which is set up while the file
//! before it is published.

use std::sync::Arc;

use ftp_wire::command::{BufferSide, Mode};
use gridftp_dsi::types::ChecksumAlgorithm;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::abilities::Tags;
use crate::client::Client;
use crate::copy::Stop;
use crate::copy::admission::Server;
use crate::copy::pipeline::Route;
use crate::copy::queue::Taken;
use crate::copy::state::CopyState;
use crate::copy::window::Window;

use super::ask::{Asker, admit, has_arrived};
use super::receive::Receiver;
use super::{Landed, publish_all};

/// Downloads over one control connection in MODE S.
pub(super) struct Serial<'a> {
    pub(super) shared: &'a Arc<CopyState>,
    pub(super) algorithm: Option<ChecksumAlgorithm>,
    pub(super) window: &'a Window,
}

/// The session of downloads in MODE S.
pub(super) struct Channel<'a> {
    client: &'a mut Client,
    /// Whether the next reply may be that to a connection which was closed on the server.
    is_over: bool,
}

impl<'a> Channel<'a> {
    pub(super) fn new(client: &'a mut Client) -> Self {
        let is_over = false;
        Self { client, is_over }
    }
}

impl Serial<'_> {
    /// Sets up the next connection, where more is to come.
    fn listen_ahead(&self, client: &mut Client) {
        if !self.shared.queue.is_empty() {
            client.listen_ahead();
        }
    }

    fn asker<'a>(&'a self, (control, abilities): Server<'a>, tags: &'a Tags) -> Asker<'a> {
        Asker {
            control,
            abilities,
            tags: self.shared.tags(Mode::Stream, &[abilities], tags),
            numbers: tags,
            shared: self.shared,
            algorithm: self.algorithm,
            mode: Mode::Stream,
            window: self.window,
        }
    }
}

impl<'a> Route for Serial<'a> {
    type Asked = Taken;
    type Passed = Landed;
    type Asking = ();
    type Passing = Channel<'a>;

    async fn ask(&self, (): &mut (), taken: Taken) -> Result<Option<Taken>, Stop> {
        Ok(Some(taken))
    }

    async fn pass(&self, channel: &mut Channel<'a>, taken: Taken) -> Result<Option<Landed>, Stop> {
        if channel.is_over {
            return Err(Stop::Replace);
        }
        let (client, shared) = (&mut *channel.client, self.shared);
        let server = (&client.control, &client.abilities);
        let Some(taken) = admit(shared, taken, Some(server)).await else {
            return Ok(None);
        };
        if has_arrived(&taken) {
            let server = (&client.control, &client.abilities);
            return self.asker(server, &client.state.tags).ask_words(taken);
        }
        if let Err(error) = client.set_up_stream(BufferSide::Send).await {
            let failed = shared.fail_set_up(&client.control, taken, error);
            return failed.map(|()| None);
        }
        let server = (&client.control, &client.abilities);
        let asker = self.asker(server, &client.state.tags);
        let pack = asker.ask_pack(taken).await;
        let mut receiver = Receiver {
            abilities: &client.abilities,
            stripes: None,
            control: &client.control,
            channel: client.channel.get(),
            shared,
            patience: None,
        };
        let taken = match pack {
            Ok(pack) => {
                if let Some(pack) = pack {
                    Box::pin(receiver.take_pack(pack, Mode::Stream)).await?;
                }
                self.listen_ahead(client);
                return Ok(None);
            }
            Err(taken) => taken,
        };
        let Some(asked) = asker.send(taken).await else {
            return Ok(None);
        };
        let landed = receiver.take_alone(&asker, asked).await?;
        channel.is_over = landed.as_ref().is_some_and(|landed| landed.is_last);
        if !channel.is_over {
            self.listen_ahead(client);
        }
        Ok(landed)
    }

    async fn confirm(
        &self,
        landed: mpsc::Receiver<Landed>,
        _broken: &CancellationToken,
    ) -> Result<(), Stop> {
        publish_all(self.shared, landed).await
    }
}
