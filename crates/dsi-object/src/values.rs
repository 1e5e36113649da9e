//! `Values`: the values of groups of 1 MiB, which the journal of an upload has beside its parts, so that
//! a digest of an upload that goes on needs no byte of it again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use byte_ranges::{Range64, RangeSet};
use digest_tree::GROUP;
use gridftp_dsi::{GroupValue, Result};

use crate::journal::Fresh;
use crate::sink::{ObjectSink, State, blocking, continued};

/// Most values that wait for a record; the bytes of the others are read again.
const MOST: usize = 1 << 16;

/// The values of an upload.
#[derive(Debug, Default)]
pub(crate) struct Values {
    /// Those that are not recorded yet.
    noted: BTreeMap<u64, [u8; 32]>,
    /// Whether values were noted; then a record keeps exactly the parts that it names.
    are_recorded: bool,
    /// The parts of an earlier attempt. Bytes of them that come again are not stored, so that no value of
    /// theirs is recorded.
    pub(crate) earlier: BTreeSet<usize>,
}

impl Values {
    fn note(&mut self, values: Vec<GroupValue>) {
        self.are_recorded |= !values.is_empty();
        let room = MOST.saturating_sub(self.noted.len());
        self.noted.extend(values.into_iter().take(room));
    }

    /// Whether a part of so many bytes may be recorded: of those behind the last whole group there is no
    /// value, so they come again.
    pub(crate) fn allow(&self, len: u64) -> bool {
        !self.are_recorded || len.is_multiple_of(GROUP)
    }
}

impl State {
    /// The lines that the journal lacks: of the parts within `held`, or of all parts.
    pub(crate) fn fresh(&self, part: u64, size: Option<u64>, held: Option<&RangeSet>) -> Fresh {
        let is_named = |range: &Range64| held.is_none_or(|held| held.covers(*range));
        let (mut fresh, mut here) = (Fresh::default(), RangeSet::new());
        for (&index, stored) in &self.parts {
            let named = continued(part, size, index, stored).filter(is_named);
            let may_be = held.is_none() || self.values.allow(stored.len);
            match (named, self.recorded.contains(&index)) {
                (Some(_), false) if may_be => fresh.parts.push((index, stored.clone())),
                (None, true) if self.values.are_recorded => {
                    fresh.gone.push((index, stored.clone()));
                }
                _ => {}
            }
            here.extend(named.filter(|_| !self.values.earlier.contains(&index)));
        }
        let of_group = |number: u64| Range64::from_len(number.checked_mul(GROUP)?, GROUP);
        let is_here = |number: u64| of_group(number).is_some_and(|range| here.covers(range));
        let noted = self.values.noted.iter();
        let noted = noted.map(|(number, value)| (*number, *value));
        fresh.values = noted.filter(|(number, _)| is_here(*number)).collect();
        fresh
    }

    /// Marks these lines as written. Meanwhile a part may have been stored again, or a value noted.
    pub(crate) fn note_recorded(&mut self, fresh: &Fresh) {
        for (index, stored) in &fresh.gone {
            if self.parts.get(index) == Some(stored) {
                self.recorded.remove(index);
                self.parts.remove(index);
            }
        }
        let same = |(index, stored): &&(usize, _)| self.parts.get(index) == Some(stored);
        let parts = fresh.parts.iter().filter(same).map(|(index, _)| *index);
        self.recorded.extend(parts);
        for (number, value) in &fresh.values {
            if self.values.noted.get(number) == Some(value) {
                self.values.noted.remove(number);
            }
        }
    }
}

impl ObjectSink {
    /// The recorded values of the groups in `held`; none are recorded where parts do not consist of
    /// groups.
    pub(crate) async fn recorded_values(&self, held: &RangeSet) -> Result<Option<Vec<GroupValue>>> {
        if !self.part.is_multiple_of(GROUP) {
            return Ok(None);
        }
        if held.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let (journal, part, held) = (Arc::clone(&self.journal), self.part, held.clone());
        let values = blocking(move || {
            let journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
            let values = journal.as_ref().map(|journal| journal.values(part, &held));
            values.unwrap_or_else(|| Ok(Vec::new()))
        });
        let values = values.await.map_err(|error| self.unrecorded(error))?;
        Ok(Some(values))
    }

    /// Has the next record include these values.
    pub(crate) fn note_values(&self, values: Vec<GroupValue>) {
        if self.part.is_multiple_of(GROUP) {
            self.state().values.note(values);
        }
    }
}
