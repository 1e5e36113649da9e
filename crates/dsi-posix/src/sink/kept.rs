//! The part of a `FileSink` that outlives it: its source, its fate when the sink is dropped, and the
//! values of its groups.

use byte_ranges::RangeSet;
use gridftp_dsi::GroupValue;

use super::{FileSink, Inner, Way};
use crate::error::Outcome;
use crate::journal::Origin;

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

    /// Gives the upload up: nothing of it is kept for another attempt.
    pub fn give_up(&self) {
        if let Way::Whole(whole) = &self.inner.way {
            whole.give_up();
        }
    }
}

impl Inner {
    /// Forgets the recorded values of bytes that a write changes.
    pub(super) fn changes(&self, offset: u64, length: usize) -> Outcome<()> {
        match &self.way {
            Way::Whole(whole) => Ok(whole.partial()?.changes(offset, length)?),
            Way::InPlace(_) | Way::InOrder(..) | Way::Joined(_) => Ok(()),
        }
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
