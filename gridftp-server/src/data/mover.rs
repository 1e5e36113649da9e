//! `Mover`: moves the bytes of one transfer between the storage and the data connections of this
//! host.

use byte_ranges::{RangeSet, Stripe};
use ftp_proto::types::{Channel, Outcome, Placement, TransferKind};
use ftp_wire::command::Tag;
use ftp_wire::stored::Stored;
use gridftp_cluster::StoreRules;
use gridftp_data::{Descriptors, Permit, Watch};
use gridftp_dsi::{Dsi, DsiPath, ErrorKind, User};

use super::files::May;
use super::modules::Digest;
use super::{DataSide, Reporter, Store};
use crate::error::Error;
use crate::names::dsi_path;
use crate::server::Shared;
use crate::transfer_log::Requester;

/// Descriptors of a file in transfer: its own, its directory's and that of its entry in the index.
pub(crate) const FILE: usize = 3;

/// One transfer: its user, its channel and its reports.
pub(crate) struct Context<'a, D: Dsi> {
    pub(crate) shared: &'a Shared<D>,
    pub(crate) user: &'a User,
    /// The requester, for the log.
    pub(crate) requester: Requester<'a>,
    pub(crate) channel: &'a Channel,
    /// Tag of the data, which a client may send before the reply in MODE E.
    pub(crate) tag: Option<Tag>,
    /// The way of storing, of this server or of the front end of this node.
    pub(crate) rules: StoreRules,
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
    /// Of many small files, those that were stored.
    pub(crate) stored: Option<Stored>,
}

impl From<u64> for Moved {
    fn from(bytes: u64) -> Self {
        Self {
            bytes,
            digest: None,
            stored: None,
        }
    }
}

impl From<Moved> for Outcome {
    fn from(moved: Moved) -> Self {
        let bytes = moved.bytes;
        match (moved.digest, moved.stored) {
            (None, None) => Self::Transferred { bytes },
            (None, Some(stored)) => Self::Unpacked(stored),
            (Some(Digest { algorithm, hex }), _) => Self::Digested {
                bytes,
                algorithm,
                digest: hex,
            },
        }
    }
}

/// A transfer over the data connections of this host.
pub(crate) struct Mover<'a, D: Dsi> {
    pub(crate) context: Context<'a, D>,
    pub(crate) side: &'a mut DataSide,
    /// The part of a file to send; `None` for all of it.
    pub(crate) stripe: Option<Stripe>,
}

/// Takes the descriptors of a file in transfer.
///
/// # Errors
/// `Busy` without descriptors for a file.
pub(crate) fn take_file(descriptors: &Descriptors) -> Result<Permit, gridftp_dsi::Error> {
    let taken = descriptors.take(FILE);
    taken.map_err(|full| gridftp_dsi::Error::new(ErrorKind::Busy, "open").because(full))
}

impl<'a, D: Dsi> Mover<'a, D> {
    /// Moves whole files.
    pub(crate) const fn new(context: Context<'a, D>, side: &'a mut DataSide) -> Self {
        Self {
            context,
            side,
            stripe: None,
        }
    }

    /// Runs the transfer to its end. `drains` is the `drains` of a
    /// [`Transfer`](ftp_proto::types::Transfer).
    ///
    /// # Errors
    /// Those of [`retrieve`](Self::retrieve), [`list`](Self::list) and [`store`](Self::store), and
    /// `Busy` without descriptors for a file.
    pub(crate) async fn run(mut self, kind: TransferKind, drains: bool) -> Result<Moved, Error> {
        let _file = take_file(self.side.channel.descriptors())?;
        if matches!(
            kind,
            TransferKind::Store { .. }
                | TransferKind::StoreBy { .. }
                | TransferKind::StoreMemory { .. }
                | TransferKind::StoreFiles { .. }
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
            TransferKind::RetrieveMemory { path, most } => {
                self.retrieve_memory(&dsi_path(&path)?, most).await
            }
            TransferKind::StoreMemory { path, most } => {
                self.store_memory(&dsi_path(&path)?, most).await
            }
            TransferKind::RetrieveFiles { dir, names, facts } => {
                self.retrieve_files(&dsi_path(&dir)?, names, facts).await
            }
            TransferKind::StoreFiles {
                dir,
                count,
                times,
                modes,
            } => {
                let may = May { times, modes };
                return self.store_files(&dsi_path(&dir)?, count, may).await;
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
                let store = Store {
                    held,
                    size,
                    modified,
                    checksum,
                    ..self.context.plain_store(dsi_path(&path)?, into)
                };
                self.store(&store).await.map(|stored| stored.bytes)
            }
            TransferKind::StoreBy { path, module, size } => {
                return self.store_by(&dsi_path(&path)?, module, size).await;
            }
        };
        moved.map(Moved::from)
    }
}

impl<D: Dsi> Context<'_, D> {
    /// A store without the choices of a client.
    pub(crate) fn plain_store(&self, path: DsiPath, into: Placement) -> Store {
        Store {
            path,
            into,
            held: RangeSet::new(),
            size: None,
            modified: None,
            checksum: None,
            proof: None,
            rules: self.rules,
        }
    }
}
