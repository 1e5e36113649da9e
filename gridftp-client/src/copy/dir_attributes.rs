//! Extended attributes of directories, which are carried over when all is in them.

use ftp_wire::attribute::Attribute;
use gridftp_dsi::types::Attribute as FileAttribute;
use gridftp_dsi_posix::{dir_attributes, set_dir_attribute};

use super::admission::{Ends, Server};
use super::attributes::{ALL, Lacks, carried, describe};
use super::job::DirJob;
use super::pull::local;
use super::state::CopyState;
use crate::error::TransferError;

impl CopyState {
    /// Gives a copied directory the attributes of its source, where they are to be carried over.
    ///
    /// # Errors
    /// [`TransferError::Unset`] names those that it lacks; a session that is gone has its own.
    pub(super) async fn carry_dir_attributes(
        &self,
        dir: &DirJob,
        ends: Ends<'_>,
    ) -> Result<(), TransferError> {
        if !self.carries_attributes() {
            return Ok(());
        }
        let mut lacks = Lacks::default();
        let told = match ends.source {
            Some(server) => self.ask_dir(server, &dir.from).await,
            None => (dir_attributes(local(&dir.from)).await)
                .map_err(|error| TransferError::local("read", &dir.from, error)),
        };
        let told = told.unwrap_or_else(|error| {
            lacks.add(ALL.to_owned(), error);
            Vec::new()
        });
        match ends.destination {
            Some(server) => self.send_to_dir(told, (server, &dir.to), &mut lacks).await,
            None => self.set_of_dir(told, &dir.to, &mut lacks).await,
        }
        lacks.done(|| self.describe_destination(&dir.to))
    }

    /// Asks a server for the attributes of a directory.
    async fn ask_dir(
        &self,
        server: Server<'_>,
        from: &[u8],
    ) -> Result<Vec<FileAttribute>, TransferError> {
        let path = server.0.path(from);
        let path = path.ok_or_else(|| TransferError::unsendable(from))?;
        let asked = self.ask_attributes(server, path);
        let told = self.told_attributes(asked).await?;
        Ok(told.into_iter().map(Attribute::into_parts).collect())
    }

    /// Has a server set attributes of the directory at `to`.
    async fn send_to_dir(
        &self,
        all: Vec<FileAttribute>,
        (server, to): (Server<'_>, &[u8]),
        lacks: &mut Lacks,
    ) {
        let path = server.0.path(to);
        let path = path.ok_or_else(|| TransferError::unsendable(to));
        match carried(all, (server, to)).and_then(|all| Ok((all, path?))) {
            Ok((all, path)) => {
                let sent = self.send_attributes(server, &all, &path);
                self.settle_sent(sent, lacks).await;
            }
            Err(error) => lacks.add(ALL.to_owned(), error),
        }
    }

    /// Sets attributes of the directory of this machine at `to`.
    async fn set_of_dir(&self, all: Vec<FileAttribute>, to: &[u8], lacks: &mut Lacks) {
        for (name, value) in all {
            let part = describe(&name);
            if let Err(error) = set_dir_attribute(local(to), (name, value)).await {
                self.note_unset((part, to), error, lacks);
            }
        }
    }
}
