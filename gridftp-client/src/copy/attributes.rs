//! Extended attributes of files, read at the source and set at the destination.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};

use ftp_proto::client::FailureKind;
use ftp_wire::attribute::Attribute;
use ftp_wire::command::{Command, SiteCommand};
use ftp_wire::path::FtpPath;
use gridftp_dsi::ErrorKind;
use gridftp_dsi_posix::attributes;

use super::admission::Server;
use super::pull::local;
use super::state::CopyState;
use crate::control::Replies;
use crate::error::{ControlError, TransferError};
use crate::url::show;

/// Longest arguments of a command that a server takes, in bytes.
const LONGEST_LINE: usize = 8000;

/// Whether it was told that an end does not keep this.
#[derive(Debug, Default)]
pub(super) struct Unkept {
    attributes: AtomicBool,
    pub(super) times: AtomicBool,
}

impl CopyState {
    /// Says whether attributes are carried over; a part of a file has none.
    fn carries_attributes(&self) -> bool {
        self.options.xattrs && !self.is_partial()
    }

    fn warn_unkept(&self, what: &str) {
        if !self.unkept.attributes.swap(true, Ordering::Relaxed) {
            self.warn(&format!(
                "{what} keeps no extended attributes; files are copied without them"
            ));
        }
    }

    /// Says whether a server keeps attributes, and warns once of one that does not.
    fn may_ask(&self, (control, abilities): Server<'_>) -> bool {
        if !abilities.xattrs {
            self.warn_unkept(&format!("{}: the server", control.site()));
        }
        abilities.xattrs
    }

    /// Asks for the attributes of a source at a server.
    pub(crate) fn ask_attributes(&self, server: Server<'_>, path: FtpPath) -> Option<Replies> {
        let asks = self.carries_attributes() && self.may_ask(server);
        let xattr = Command::Site(SiteCommand::Xattr(path));
        asks.then(|| server.0.send(xattr))
    }

    /// Reads the attributes of a source at a server.
    pub(crate) async fn told_attributes(
        &self,
        asked: Option<Replies>,
    ) -> Result<Vec<Attribute>, TransferError> {
        let Some(mut asked) = asked else {
            return Ok(Vec::new());
        };
        let reply = asked.finish().await?;
        let all = Attribute::all_of(&reply);
        all.ok_or_else(|| {
            asked
                .misbehaved("the reply to SITE XATTR is no list of attributes")
                .into()
        })
    }

    /// Sets the attributes of a source at a server, which was asked for them, on the local copy.
    pub(crate) async fn land_attributes(
        &self,
        asked: Option<Replies>,
        to: &[u8],
    ) -> Result<(), TransferError> {
        let told = self.told_attributes(asked).await?;
        if told.is_empty() {
            return Ok(());
        }
        let all: Vec<_> = told.into_iter().map(Attribute::into_parts).collect();
        let path = local(to).to_owned();
        let set = move || match File::open(path) {
            Ok(file) => attributes::write(file, &all),
            Err(error) => Err(gridftp_dsi_posix::error::from_io("open", error)),
        };
        match tokio::task::spawn_blocking(set).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) if error.kind() == ErrorKind::Unsupported => {
                self.warn_unkept("the file system here");
                Ok(())
            }
            Ok(Err(error)) => Err(TransferError::local("set attributes", to, error)),
            Err(error) => {
                let error = std::io::Error::other(error);
                Err(TransferError::local("set attributes", to, error))
            }
        }
    }

    /// Reads the attributes of a local source.
    pub(crate) async fn local_attributes(
        &self,
        from: &[u8],
    ) -> Result<Vec<Attribute>, TransferError> {
        if !self.carries_attributes() {
            return Ok(Vec::new());
        }
        let path = local(from).to_owned();
        let read = move || match File::open(path) {
            Ok(file) => attributes::read(file),
            Err(error) => Err(gridftp_dsi_posix::error::from_io("open", error)),
        };
        let all = match tokio::task::spawn_blocking(read).await {
            Ok(all) => all.map_err(|error| TransferError::local("read", from, error))?,
            Err(error) => {
                let error = std::io::Error::other(error);
                return Err(TransferError::local("read", from, error));
            }
        };
        let all = all.into_iter();
        Ok(all
            .filter_map(|(name, value)| Attribute::new(name, value))
            .collect())
    }

    /// Sends the commands that set attributes of the copy at `to`.
    pub(crate) fn send_attributes(
        &self,
        server: Server<'_>,
        attributes: &[Attribute],
        to: &FtpPath,
    ) -> Vec<Replies> {
        if attributes.is_empty() || !self.may_ask(server) {
            return Vec::new();
        }
        let send = |attribute: &Attribute| {
            let encoded = attribute.name().len() * 3 + attribute.value().len() * 4 / 3;
            if encoded + to.as_bytes().len() > LONGEST_LINE {
                let path = show(to.as_bytes());
                self.warn(&format!(
                    "{path}: is too long a name for one of its attributes"
                ));
                return None;
            }
            let set = SiteCommand::SetXattr(attribute.clone(), to.clone());
            Some(server.0.send(Command::Site(set)))
        };
        attributes.iter().filter_map(send).collect()
    }

    /// Reads the replies to those commands. A file system that keeps none is no failure.
    pub(crate) async fn settle_attributes(&self, sent: Vec<Replies>) -> Result<(), ControlError> {
        for mut replies in sent {
            match replies.finish().await {
                Ok(_) => {}
                Err(error) if error.kind() == Some(FailureKind::Unsupported) => {
                    self.warn_unkept("the file system of the server");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
