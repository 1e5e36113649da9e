//! The part of a `FileSink` that outlives it: its source, its fate when the sink is dropped, its
//! record, and the values of its groups.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use byte_ranges::RangeSet;
use gridftp_dsi::{ErrorKind, Finish, GroupValue, Result};

use super::{FileSink, Inner, Way};
use crate::error::{Fault, Outcome};
use crate::journal::Origin;
use crate::late;
use crate::partial::Flush;

impl FileSink {
    /// Says whether a partial file of another source, or of another version of the source, was
    /// removed when this one was opened.
    pub fn is_other_removed(&self) -> bool {
        match &self.inner.way {
            Way::Whole(whole) => whole.is_other_removed(),
            Way::InPlace(_) | Way::InOrder(..) | Way::Joined(_) => false,
        }
    }

    /// The source that it is a copy of, where [`resume`](Self::resume) was told one.
    pub fn origin(&self) -> Option<&Origin> {
        match &self.inner.way {
            Way::Whole(whole) => whole.origin(),
            Way::InPlace(_) | Way::InOrder(..) | Way::Joined(_) => None,
        }
    }

    /// Says whether a part of the file outlives this value, as a record of it is there.
    pub fn keeps(&self) -> bool {
        match &self.inner.way {
            Way::Whole(whole) => whole.keeps(),
            Way::InPlace(_) | Way::InOrder(..) | Way::Joined(_) => false,
        }
    }

    /// Has records that are not durable followed by syncs by `flush`, one at a time, so that more of a
    /// large file outlives a crash of the machine. Nothing waits for them.
    pub(crate) fn sync_beside(&self, flush: Flush) {
        self.inner.beside.get_or_init(|| flush);
    }

    /// Gives the upload up: nothing of it is kept for another attempt.
    pub fn give_up(&self) {
        if let Way::Whole(whole) = &self.inner.way {
            whole.give_up();
        }
    }
}

impl Inner {
    /// Writes the record with this number.
    pub(super) fn checkpoint(&self, number: u64, held: &RangeSet, durable: bool) -> Outcome<()> {
        let recorded = self.record(number, held, durable);
        if let (Err(_), true, Way::Whole(whole)) = (&recorded, held.is_empty(), &self.way) {
            // An earlier record would name bytes that are to be forgotten.
            whole.give_up();
        }
        recorded
    }

    fn record(&self, number: u64, held: &RangeSet, durable: bool) -> Outcome<()> {
        self.settle_holes()?;
        let _open = self.enter()?;
        // A checkpoint with a dropped future may still run, and both would write the same record.
        let mut last = self
            .recording
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if number < *last {
            // The later record may be of fewer bytes, where some of them are not as they should be.
            return Ok(());
        }
        *last = number;
        self.catch_up()?;
        if let Way::Whole(whole) = &self.way {
            // Before a sync that would be in vain.
            whole.partial()?.must_be_recordable()?;
        }
        if durable
            && !matches!(self.way, Way::InOrder(..))
            && let Err(errno) = crate::uninterrupted::fdatasync(self.file()?)
        {
            self.lost.store(true, Ordering::Relaxed);
            return Err(errno.into());
        }
        match &self.way {
            Way::Whole(whole) => {
                let partial = whole.partial()?;
                partial.checkpoint(held, durable)?;
                if let (false, Some(flush)) = (durable, self.beside.get()) {
                    partial.sync_beside(held, *flush);
                }
                Ok(())
            }
            // The owner's sync does not report errors of this machine.
            Way::Joined(joined) if !durable => Ok(late::settle(joined.file(), false)?),
            Way::InPlace(_) | Way::InOrder(..) | Way::Joined(_) => Ok(()),
        }
    }

    /// Forgets the recorded values of bytes that a write changes.
    pub(super) fn changes(&self, offset: u64, length: usize) -> Outcome<()> {
        match &self.way {
            Way::Whole(whole) => Ok(whole.partial()?.changes(offset, length)?),
            Way::InPlace(_) | Way::InOrder(..) | Way::Joined(_) => Ok(()),
        }
    }

    /// Whether only a digest of the whole file proves bytes of an earlier attempt.
    pub(super) fn is_unproven(&self) -> bool {
        matches!(&self.way, Way::Whole(whole) if whole.is_unproven())
    }

    /// Refuses to publish such bytes without a digest, and keeps none: another attempt without one
    /// begins anew.
    pub(super) fn must_be_proven(&self, done: &Finish) -> Result<()> {
        if !self.is_unproven() || done.checksum.is_some() {
            return Ok(());
        }
        self.discard();
        let fault = Fault::Rule(
            ErrorKind::Incomplete,
            "bytes that a crash of the machine may have changed are kept with a digest only",
        );
        Err(fault.of("finish", &self.path))
    }

    /// The values of the groups in `held`.
    pub(super) fn groups(&self, held: &RangeSet) -> Outcome<Option<Vec<GroupValue>>> {
        match &self.way {
            Way::Whole(whole) => Ok(Some(whole.partial()?.groups(held)?)),
            Way::InPlace(_) | Way::InOrder(..) | Way::Joined(_) => Ok(None),
        }
    }

    /// Has the next record include these values of groups.
    pub(super) fn note_groups(&self, values: Vec<GroupValue>) {
        // A small file has no partial file, and needs none.
        if let (false, Way::Whole(whole)) = (values.is_empty(), &self.way)
            && let Ok(partial) = whole.partial()
        {
            partial.note_groups(values);
        }
    }
}
