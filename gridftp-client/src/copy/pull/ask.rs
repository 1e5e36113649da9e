//! Asks for retrievals and listings: names the held bytes, and asks for the source's facts.

use std::sync::Arc;

use byte_ranges::RangeSet;
use ftp_wire::command::{Command, Mode, Restart, Tag};
use ftp_wire::path::FtpPath;
use ftp_wire::receipt::Extent;
use gridftp_dsi::types::ChecksumAlgorithm;

use crate::abilities::{Abilities, Tags};
use crate::control::Control;
use crate::copy::Stop;
use crate::copy::admission::{Ends, Server};
use crate::copy::digests::DigestQuery;
use crate::copy::facts_query::FactsQuery;
use crate::copy::job::{DirJob, Facts, FileJob, Item};
use crate::copy::kept::has_gaps;
use crate::copy::listing::go_on;
use crate::copy::queue::Taken;
use crate::copy::state::CopyState;
use crate::copy::window::Window;
use crate::error::{ControlError, TransferError};
use crate::transfer::Transfer;

use super::land::{make_dir, open_sink};
use super::resume::proof;
use super::{After, Asked, Cut, Landed, Sent, local};

/// Asks for transfers on one connection.
pub(super) struct Asker<'a> {
    pub(super) control: &'a Control,
    pub(super) abilities: &'a Abilities,
    /// The session's tags, where the server knows such and the mode has room for them.
    pub(super) tags: Option<&'a Tags>,
    /// Their numbers, also where transfers of one file have none.
    pub(super) numbers: &'a Tags,
    pub(super) shared: &'a Arc<CopyState>,
    pub(super) algorithm: Option<ChecksumAlgorithm>,
    pub(super) mode: Mode,
    pub(super) window: &'a Window,
}

impl Asker<'_> {
    /// Sends for a transfer; `None` when that fails here.
    pub(super) async fn send(&self, mut taken: Taken) -> Option<Asked> {
        let asked = match taken.item_mut() {
            Item::Dir(job) => self.ask_dir(job).await,
            Item::File(job) => self.ask_file(job).await,
        };
        match asked {
            Ok(sent) => Some(Asked { taken, sent }),
            Err(error) => {
                self.shared.fail(taken, &error);
                None
            }
        }
    }

    /// Asks for a listing.
    async fn ask_dir(&self, job: &mut DirJob) -> Result<Sent, TransferError> {
        let from = self.control.path(&job.from);
        let from = from.ok_or_else(|| TransferError::unsendable(&job.from))?;
        self.shared.check_parents(&job.to, None).await?;
        if job.is_made() {
            make_dir(self.shared, &job.to).await?;
        }
        job.form = job.form.at(self.abilities);
        let command = job.form.command(from);
        Ok(Sent {
            again: None,
            rest: None,
            cut: None,
            transfer: Transfer::download(self.control.send(command), &job.from),
            tag: None,
            checksum: None,
            after: None,
            attributes: None,
            _under_way: self.window.enter(0),
        })
    }

    /// Asks for a file.
    async fn ask_file(&self, job: &mut FileJob) -> Result<Sent, TransferError> {
        let (control, shared) = (self.control, self.shared);
        shared.start(job);
        let from = control.path(&job.from);
        let from = from.ok_or_else(|| TransferError::unsendable(&job.from))?;
        let layers = shared.through_layers();
        // Held bytes are of use only in the file that they were written to, and only while it can
        // be seen that the source is still the same.
        if job.sink.is_none() || job.facts.modified.is_none() || (layers && job.is_again()) {
            job.forget();
        }
        let proves = proof(self.abilities).is_some();
        job.sink = Some(open_sink(shared, job, proves).await?);
        let look = || FactsQuery::send(control, self.abilities, from.clone());
        // The listing may be old, and the copy is to have the facts of the file that is read.
        let old = !layers && (job.is_again() || job.facts.size.is_none());
        let again = (old || shared.preserves()).then(look);
        let cut = self.cut(job);
        // A connection that is closed on the server brings no trailer.
        let tags = self.tags.filter(|_| cut.is_none());
        let tag = tags.map(|tags| tags.next(shared.extent()));
        let rest = restart(job, has_gaps(self.mode, tag.is_some()));
        let needed = rest.is_some();
        let rest = match &cut {
            Some(cut) => Some(cut.offset.saturating_add(job.held.first_hole()))
                .filter(|start| *start > 0)
                .map(Restart::Offset),
            None => rest,
        };
        let rest = rest.map(|rest| control.send(Command::Rest(rest)));
        let replies = control.send(self.command(job, tag, &from));
        let transfer = Transfer::download(replies, &job.from).with_file(&job.to);
        let lasts = !layers && job.facts.lasts();
        // The server may not answer behind a connection that was closed on it.
        let after = (cut.is_none() && (needed || lasts)).then(|| After {
            look: look(),
            needed,
        });
        let optional = match tag {
            // Where an end does not know the bytes that are held, its receipt has no digest, and
            // the file is asked for it then.
            Some(_) => None,
            // Some servers refuse commands while they send.
            None if self.mode == Mode::Stream => None,
            None => self.beside(job.facts.size),
        };
        // Size and time alone do not tell whether an earlier run has read the same bytes.
        let proves = tag.is_some_and(|tag| tag.extent == Extent::Whole);
        let recalled = job.recalled && !proves;
        let recalled = recalled.then(|| proof(self.abilities)).flatten();
        let needed_digest = self.algorithm.or(recalled);
        let checksum =
            DigestQuery::send(control, needed_digest, optional, self.part(), from.clone());
        let attributes = shared.ask_attributes((control, self.abilities), from);
        Ok(Sent {
            again,
            rest,
            cut,
            transfer,
            tag,
            checksum,
            after,
            attributes,
            _under_way: self.window.enter(job.facts.size.unwrap_or(1 << 20)),
        })
    }

    /// Asks for the facts, the digest and the attributes of a received file, unless the session has
    /// ended.
    pub(super) fn ask_words(&self, mut taken: Taken) -> Result<Option<Landed>, Stop> {
        let (control, shared) = (self.control, self.shared);
        if let Some(error) = control.gone() {
            return Err(Stop::Lost(error.into()));
        }
        let Some(from) = control.path(&taken.file().from) else {
            let error = TransferError::unsendable(&taken.file().from);
            shared.fail(taken, &error);
            return Ok(None);
        };
        let job = taken.file_mut();
        let Some((arrived, sink)) = job.arrived.take().zip(job.sink.take()) else {
            return Ok(None);
        };
        job.held = RangeSet::up_to(arrived.size);
        let (needed, optional) = match arrived.digest {
            Some((algorithm, true)) => (Some(algorithm), None),
            Some((algorithm, false)) if !shared.is_undigested(control) => (None, Some(algorithm)),
            _ => (None, None),
        };
        Ok(Some(Landed {
            after: Some(After {
                look: FactsQuery::send(control, self.abilities, from.clone()),
                needed: arrived.is_joined,
            }),
            checksum: DigestQuery::send(control, needed, optional, self.part(), from.clone()),
            attributes: shared.ask_attributes((control, self.abilities), from),
            taken,
            sink,
            size: arrived.size,
            proven: arrived.proven,
            received: arrived.received,
            asks_again: true,
            is_last: false,
        }))
    }

    /// The algorithm of the optional digest for a transfer without receipts; none for an empty file.
    fn beside(&self, size: Option<u64>) -> Option<ChecksumAlgorithm> {
        let servers = [(self.control, self.abilities)];
        (size != Some(0)).then(|| self.shared.without_receipt(&servers))?
    }

    /// The range of each file that its digest covers.
    fn part(&self) -> (u64, Option<u64>) {
        let options = &self.shared.options;
        (options.offset.unwrap_or(0), options.length)
    }

    /// Requests the optional digest of a source after its transfer.
    pub(super) fn digest_after(&self, taken: &Taken, size: u64) -> Option<DigestQuery> {
        let Item::File(job) = taken.item() else {
            return None;
        };
        let (from, optional) = (self.control.path(&job.from)?, self.beside(Some(size)));
        DigestQuery::send(self.control, None, optional, self.part(), from)
    }

    /// Asks for the facts of a source that has been read, if a part of it is older or that took a
    /// while.
    pub(super) fn look_after(&self, taken: &Taken, needed: bool) -> Option<After> {
        let Item::File(job) = taken.item() else {
            return None;
        };
        let from = self.control.path(&job.from)?;
        (needed || job.facts.lasts()).then(|| After {
            look: FactsQuery::send(self.control, self.abilities, from),
            needed,
        })
    }

    fn command(&self, job: &FileJob, tag: Option<Tag>, from: &FtpPath) -> Command {
        let region = match self.cut(job) {
            Some(_) => None,
            None => self.shared.region(job),
        };
        Command::retrieve(from.clone(), region, tag)
    }

    /// The part of the file that is wanted, where the server knows no command for parts.
    fn cut(&self, job: &FileJob) -> Option<Cut> {
        if self.mode == Mode::Extended || self.abilities.eret {
            return None;
        }
        let (offset, length) = self.shared.region(job)?;
        Some(Cut {
            offset,
            length: length.unwrap_or(u64::MAX >> 1),
        })
    }
}

/// Leaves out a file that is not to be asked for; waiting names of a listing are taken from it.
pub(in crate::copy) async fn admit(
    shared: &CopyState,
    taken: Taken,
    source: Option<Server<'_>>,
) -> Option<Taken> {
    let taken = go_on(shared, taken)?;
    let Item::File(job) = taken.item() else {
        return Some(taken);
    };
    if shared.options.no_clobber && local(&job.to).symlink_metadata().is_ok() {
        shared.skip(taken, "it exists");
        return None;
    }
    let ends = Ends {
        source,
        destination: None,
    };
    let taken = Box::pin(shared.judge(taken, ends)).await?;
    if shared.options.dry_run {
        shared.plan(taken, None).await;
        return None;
    }
    Some(taken)
}

/// Says whether all bytes of a file are here, and only its facts, digest or attributes are missing.
pub(super) fn has_arrived(taken: &Taken) -> bool {
    matches!(taken.item(), Item::File(job) if job.arrived.is_some() && job.sink.is_some())
}

/// The `REST` for the held bytes: all of them, where the data may have `gaps`.
fn restart(job: &mut FileJob, gaps: bool) -> Option<Restart> {
    if job.held.is_empty() {
        return None;
    }
    if gaps {
        job.hold_nameable();
        return Some(Restart::Ranges(job.held.clone()));
    }
    match job.held.first_hole() {
        0 => {
            job.forget();
            None
        }
        hole => Some(Restart::Offset(hole)),
    }
}

impl After {
    /// Says whether the source, of which `before` was known, was left alone meanwhile, as far as
    /// the server tells.
    pub(super) async fn confirm(self, before: &Facts) -> Result<bool, ControlError> {
        let now = self.look.facts().await?;
        Ok(match self.needed {
            true => now.is_some_and(|now| now.is_same_as(before)),
            false => !now.is_some_and(|now| now.differs_from(before)),
        })
    }
}

#[cfg(test)]
mod tests {
    use byte_ranges::Range64;

    use super::*;

    #[test]
    fn a_restart_names_no_more_ranges_than_one_line() {
        let block = |n: u64| Range64::from_len(n << 20, 1 << 19);
        let many: RangeSet = (0..2000).filter_map(block).collect();
        let job = || {
            let mut job = FileJob::new(b"/a".to_vec(), Vec::new());
            job.held = many.clone();
            job
        };
        let mut extended = job();
        let Some(Restart::Ranges(named)) = restart(&mut extended, true) else {
            panic!("no ranges");
        };
        assert!((7900..=8000).contains(&named.to_string().len()));
        // The bytes that are not named are no longer held.
        assert_eq!(named, extended.held);
        let Some(Restart::Offset(start)) = restart(&mut job(), false) else {
            panic!("no offset");
        };
        assert_eq!(start, 1 << 19);
    }
}
