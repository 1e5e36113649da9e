//! Extended attributes of files, read at the source and set at the destination.

use std::sync::atomic::{AtomicBool, Ordering};

use ftp_proto::client::FailureKind;
use ftp_wire::attribute::Attribute;
use ftp_wire::command::{Command, SiteCommand};
use ftp_wire::path::FtpPath;
use gridftp_dsi::ErrorKind;
use gridftp_dsi::types::Attribute as FileAttribute;
use gridftp_dsi_posix::{FileSink, FileSource};

use super::admission::Server;
use super::state::CopyState;
use crate::control::Replies;
use crate::error::{ControlError, TransferError};

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
    pub(super) fn carries_attributes(&self) -> bool {
        self.options.xattrs && !self.is_partial()
    }

    pub(super) fn warn_unkept(&self, what: &str) {
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

    /// Sets attributes of a received file, which has its mode and its name afterwards.
    pub(crate) async fn land_attributes(
        &self,
        all: Vec<FileAttribute>,
        (sink, to): (&FileSink, &[u8]),
    ) -> Result<(), TransferError> {
        match sink.set_attributes(all).await {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                self.warn_unkept("the file system here");
                Ok(())
            }
            set => set.map_err(|error| TransferError::local("set attributes", to, error)),
        }
    }

    /// Reads the attributes of a local source.
    pub(crate) async fn source_attributes(
        &self,
        (source, from): (&FileSource, &[u8]),
    ) -> Result<Vec<FileAttribute>, TransferError> {
        if !self.carries_attributes() {
            return Ok(Vec::new());
        }
        let failed = |error| TransferError::local("read", from, error);
        source.attributes().await.map_err(failed)
    }

    /// Reads the attributes of a local source, for commands to the server of the copy at `to`.
    pub(crate) async fn local_attributes(
        &self,
        source: (&FileSource, &[u8]),
        (server, to): (Server<'_>, &[u8]),
    ) -> Result<Vec<Attribute>, TransferError> {
        let all = self.source_attributes(source).await?.into_iter();
        let all: Option<Vec<_>> = all
            .map(|(name, value)| Attribute::new(name, value))
            .collect();
        let all =
            all.ok_or_else(|| uncarried(to, "an attribute has a name that no command has"))?;
        must_fit(&all, server, to)?;
        Ok(all)
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
            let set = SiteCommand::SetXattr(attribute.clone(), to.clone());
            server.0.send(Command::Site(set))
        };
        attributes.iter().map(send).collect()
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

/// Refuses attributes with a command too long for the server of the copy at `to`.
pub(crate) fn must_fit(
    attributes: &[Attribute],
    (_, abilities): Server<'_>,
    to: &[u8],
) -> Result<(), TransferError> {
    let encoded = |one: &Attribute| one.name().len() * 3 + one.value().len() * 4 / 3;
    let longest = attributes.iter().map(encoded).max().unwrap_or(0);
    if !abilities.xattrs || longest + to.len() <= LONGEST_LINE {
        return Ok(());
    }
    Err(uncarried(
        to,
        "an attribute and the path are too long for one command",
    ))
}

fn uncarried(to: &[u8], why: &'static str) -> TransferError {
    let error = gridftp_dsi::Error::new(ErrorKind::TooLarge, "attributes").because(why);
    TransferError::local("send attributes", to, error)
}
