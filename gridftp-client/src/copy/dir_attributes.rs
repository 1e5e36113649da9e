//! Extended attributes of directories, which are carried over when all is in them.

use ftp_wire::attribute::Attribute;
use gridftp_dsi::types::Attribute as FileAttribute;
use gridftp_dsi_posix::{dir_attributes, set_dir_attribute};

use super::admission::Server;
use super::attributes::{ALL, Lacks, carried, describe};
use super::job::DirJob;
use super::pull::local;
use super::state::CopyState;
use crate::control::Replies;
use crate::error::TransferError;

/// A request for the attributes of a directory at a server, where they are to be carried over.
pub(super) type AttributesQuery = Result<Option<Replies>, TransferError>;

impl CopyState {
    /// Gives a copied directory the attributes of its source, where they are to be carried over: those
    /// that a server was `asked` for, else those of a directory of this machine.
    ///
    /// # Errors
    /// [`TransferError::Unset`] names those that it lacks; a session that is gone has its own.
    pub(super) async fn carry_dir_attributes(
        &self,
        dir: &DirJob,
        asked: Option<AttributesQuery>,
        destination: Option<Server<'_>>,
    ) -> Result<(), TransferError> {
        if !self.carries_attributes() {
            return Ok(());
        }
        let mut lacks = Lacks::default();
        let told = match asked {
            Some(asked) => self.told_of_dir(asked).await,
            None => (dir_attributes(local(&dir.from)).await)
                .map_err(|error| TransferError::local("read", &dir.from, error)),
        };
        let mut told = told.unwrap_or_else(|error| {
            lacks.add(ALL.to_owned(), error);
            Vec::new()
        });
        if !told.is_empty() {
            let there = self.attributes_there(&dir.to, destination).await;
            told.retain(|one| !there.contains(one));
        }
        match destination {
            _ if told.is_empty() => {}
            Some(server) => self.send_to_dir(told, (server, &dir.to), &mut lacks).await,
            None => self.set_of_dir(told, &dir.to, &mut lacks).await,
        }
        lacks.done(|| self.describe_destination(&dir.to))
    }

    /// Asks a server for the attributes of a directory.
    pub(super) fn ask_dir(&self, server: Server<'_>, path: &[u8]) -> AttributesQuery {
        let sent = server.0.path(path);
        let sent = sent.ok_or_else(|| TransferError::unsendable(path))?;
        Ok(self.ask_attributes(server, sent))
    }

    async fn told_of_dir(
        &self,
        asked: AttributesQuery,
    ) -> Result<Vec<FileAttribute>, TransferError> {
        let told = self.told_attributes(asked?).await?;
        Ok(told.into_iter().map(Attribute::into_parts).collect())
    }

    /// The attributes that the copy at `to` has before, as far as they are known. One that a run before
    /// has made may lack the permission to set them again.
    async fn attributes_there(
        &self,
        to: &[u8],
        destination: Option<Server<'_>>,
    ) -> Vec<FileAttribute> {
        let there = match destination {
            Some(server) => self.told_of_dir(self.ask_dir(server, to)).await.ok(),
            None => dir_attributes(local(to)).await.ok(),
        };
        there.unwrap_or_default()
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
