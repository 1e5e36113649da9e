//! `FactsQuery`: asks a server whether a file still has the same facts.

use ftp_wire::command::Command;
use ftp_wire::path::FtpPath;

use super::job::Facts;
use crate::abilities::Abilities;
use crate::client::parse_mlst;
use crate::control::{Control, Replies};
use crate::error::ControlError;

/// Files at least this large take a while to be read, and are looked at again afterwards, in bytes.
const LASTING: u64 = 1 << 20;

/// The question, sent.
pub(crate) struct FactsQuery {
    /// `MLST`, which some know and do not list.
    facts: Replies,
    /// `SIZE` and `MDTM`, for servers that do not know it.
    parts: Option<(Replies, Replies)>,
}

impl FactsQuery {
    /// Sends it, behind whatever was sent before.
    pub(crate) fn send(control: &Control, abilities: &Abilities, path: FtpPath) -> Self {
        let facts = control.send(Command::Mlst(Some(path.clone())));
        let parts = (!abilities.mlst).then(|| {
            let size = control.send(Command::Size(path.clone()));
            (size, control.send(Command::Mdtm(path)))
        });
        Self { facts, parts }
    }

    /// Reads the facts of the file; `None` when the server does not tell.
    pub(crate) async fn facts(mut self) -> Result<Option<Facts>, ControlError> {
        let told = self.facts.told().await?;
        if let Some((entry, known)) = told.as_ref().and_then(parse_mlst) {
            return Ok(Some(Facts::of_entry(&entry, known)));
        }
        let Some((mut size, mut modified)) = self.parts else {
            return Ok(None);
        };
        let size = size.size().await?;
        let modified = modified.told().await?.and_then(|reply| reply.time());
        Ok(size.map(|size| Facts {
            size: Some(size),
            modified: modified.map(|time| (time.seconds, time.nanos)),
            mode: None,
        }))
    }
}

impl Facts {
    /// Whether the file may be written to while it is read.
    pub(crate) fn lasts(&self) -> bool {
        self.size.is_none_or(|size| size >= LASTING)
    }

    /// Whether these, told later, are of a file that was written to since, as far as the times
    /// tell.
    pub(crate) fn differs_from(&self, before: &Self) -> bool {
        self.modified.is_some() && before.modified.is_some() && !self.is_same_as(before)
    }

    /// Whether these, told later, are of a file that was not written to since: without times, none
    /// is known to be.
    pub(crate) fn is_same_as(&self, before: &Self) -> bool {
        self.modified.is_some() && (self.size, self.modified) == (before.size, before.modified)
    }
}
