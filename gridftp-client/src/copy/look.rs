//! `Look`: asks a server once more what a file is, to learn whether it is still the same.

use ftp_wire::command::Command;
use ftp_wire::path::FtpPath;

use super::job::Facts;
use crate::abilities::Abilities;
use crate::client::{number, parse_mlst, time};
use crate::control::{Control, Replies};
use crate::error::ControlError;

/// The question, sent.
pub(crate) enum Look {
    /// `MLST`.
    Facts(Replies),
    /// `SIZE` and `MDTM`.
    Parts(Replies, Replies),
}

impl Look {
    /// Sends it, behind whatever was sent before.
    pub(crate) fn send(control: &Control, abilities: &Abilities, path: FtpPath) -> Self {
        if abilities.mlst {
            return Self::Facts(control.send(Command::Mlst(Some(path))));
        }
        let size = control.send(Command::Size(path.clone()));
        Self::Parts(size, control.send(Command::Mdtm(path)))
    }

    /// Reads what the file is; `None` when the server does not tell.
    pub(crate) async fn facts(self) -> Result<Option<Facts>, ControlError> {
        match self {
            Self::Facts(mut told) => Ok(told_by(&mut told)
                .await?
                .as_ref()
                .and_then(parse_mlst)
                .map(|(entry, known)| Facts::of_entry(&entry, known))),
            Self::Parts(mut size, mut modified) => {
                let size = told_by(&mut size).await?.as_ref().and_then(number);
                let modified = told_by(&mut modified).await?.as_ref().and_then(time);
                Ok(size.map(|size| Facts {
                    size: Some(size),
                    modified: modified.map(|time| (time.seconds, time.nanos)),
                    mode: None,
                }))
            }
        }
    }
}

async fn told_by(replies: &mut Replies) -> Result<Option<ftp_wire::reply::Reply>, ControlError> {
    match replies.finish().await {
        Ok(reply) => Ok(Some(reply)),
        Err(ControlError::Refused { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Facts {
    /// Whether these, told later, are of a file that was not written to since: without times, none
    /// is known to be.
    pub(crate) fn is_same_as(&self, before: &Self) -> bool {
        self.modified.is_some() && (self.size, self.modified) == (before.size, before.modified)
    }
}
