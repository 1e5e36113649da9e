//! `Mover`: moves the bytes of one transfer between the storage and the data channel.

use byte_ranges::RangeSet;
use ftp_proto::types::{Channel, Outcome, Placement, TransferKind};
use gridftp_data::Watch;
use gridftp_dsi::{Dsi, DsiPath, ErrorKind, User};

use super::modules::Digest;
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

/// The result of a transfer.
#[derive(Debug)]
pub(crate) struct Moved {
    /// Bytes on the wire.
    pub(crate) bytes: u64,
    /// The digest that a module made of them.
    pub(crate) digest: Option<Digest>,
}

impl From<u64> for Moved {
    fn from(bytes: u64) -> Self {
        Self {
            bytes,
            digest: None,
        }
    }
}

impl From<Moved> for Outcome {
    fn from(moved: Moved) -> Self {
        let bytes = moved.bytes;
        match moved.digest {
            None => Self::Transferred { bytes },
            Some(Digest { algorithm, hex }) => Self::Digested {
                bytes,
                algorithm,
                digest: hex,
            },
        }
    }
}

impl<D: Dsi> Mover<'_, D> {
    /// Runs the transfer to its end. `drains` is the `drains` of a
    /// [`Transfer`](ftp_proto::types::Transfer).
    ///
    /// # Errors
    /// Those of [`retrieve`](Self::retrieve), [`list`](Self::list) and [`store`](Self::store), and
    /// `Busy` without descriptors for a file.
    pub(crate) async fn run(mut self, kind: TransferKind, drains: bool) -> Result<Moved, Error> {
        let descriptors = self.side.channel.descriptors().take(FILE);
        let _file = descriptors
            .map_err(|full| gridftp_dsi::Error::new(ErrorKind::Busy, "open").because(full))?;
        if matches!(
            kind,
            TransferKind::Store { .. } | TransferKind::StoreBy { .. }
        ) {
            self.side.set_draining(drains);
        }
        let moved = match kind {
            TransferKind::Retrieve { path, region, held } => {
                self.retrieve(&dsi_path(&path)?, region, &held).await
            }
            TransferKind::RetrieveBy { path, module } => {
                return self.retrieve_by(&dsi_path(&path)?, module).await;
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
                let path = dsi_path(&path)?;
                let store = Store {
                    held,
                    size,
                    modified,
                    checksum,
                    ..self.plain_store(&path, into)
                };
                self.store(store).await
            }
            TransferKind::StoreBy { path, module, size } => {
                return self.store_by(&dsi_path(&path)?, module, size).await;
            }
        };
        moved.map(Moved::from)
    }

    /// A store without the choices of a client, the way of this server.
    pub(super) fn plain_store<'p>(&self, path: &'p DsiPath, into: Placement) -> Store<'p> {
        Store {
            path,
            into,
            held: RangeSet::new(),
            size: None,
            empty_unannounced: self.empty_unannounced,
            modified: None,
            checksum: None,
            proof: None,
            in_place: self.shared.config.in_place,
            durable: self.shared.config.sync_writes,
        }
    }
}
