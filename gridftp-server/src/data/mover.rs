//! `Mover`: moves the bytes of one transfer between the storage and the data channel.

use ftp_proto::types::{Channel, TransferKind};
use gridftp_data::Watch;
use gridftp_dsi::{Dsi, ErrorKind, User};

use super::{DataSide, Reporter, Store};
use crate::error::Error;
use crate::names::dsi_path;
use crate::server::Shared;

/// Descriptors of a file in transfer: its own, its directory's and that of its entry in the index.
pub(crate) const FILE: usize = 3;

/// One transfer: its user, its channel and its reports.
pub(crate) struct Mover<'a, D: Dsi> {
    pub(crate) shared: &'a Shared<D>,
    pub(crate) user: &'a User,
    pub(crate) side: &'a mut DataSide,
    pub(crate) channel: &'a Channel,
    /// Tag of the data, which a client may send before the reply.
    pub(crate) tag: Option<u64>,
    /// Whether the client announces the length of every upload but an empty one.
    pub(crate) empty_unannounced: bool,
    pub(crate) watch: &'a Watch,
    pub(crate) reporter: &'a mut Reporter,
}

impl<D: Dsi> Mover<'_, D> {
    /// Runs the transfer to its end; returns the bytes moved. `drains` is the `drains` of a
    /// [`Transfer`](ftp_proto::types::Transfer).
    ///
    /// # Errors
    /// Those of [`retrieve`](Self::retrieve), [`list`](Self::list) and [`store`](Self::store), and
    /// `Busy` without descriptors for a file.
    pub(crate) async fn run(mut self, kind: TransferKind, drains: bool) -> Result<u64, Error> {
        let descriptors = self.side.channel.descriptors().take(FILE);
        let _file = descriptors
            .map_err(|full| gridftp_dsi::Error::new(ErrorKind::Busy, "open").because(full))?;
        match kind {
            TransferKind::Retrieve { path, region, held } => {
                self.retrieve(&dsi_path(&path)?, region, &held).await
            }
            TransferKind::List { path, form } => self.list(&dsi_path(&path)?, form).await,
            TransferKind::Store {
                path,
                into,
                held,
                size,
                modified,
                checksum,
            } => {
                self.side.set_draining(drains);
                let store = Store {
                    path: &dsi_path(&path)?,
                    into,
                    held,
                    size,
                    empty_unannounced: self.empty_unannounced,
                    modified,
                    checksum,
                    in_place: self.shared.config.in_place,
                    durable: self.shared.config.sync_writes,
                };
                self.store(store).await
            }
        }
    }
}
