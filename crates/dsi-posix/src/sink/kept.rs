//! The partial file of a `FileSink`: its origin, and its fate when the sink is dropped.

use super::{FileSink, Way};
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
