//! `Values`: the values of groups of 1 MiB, which the journal of an upload has beside its parts, so that
//! a digest of an upload that goes on needs no byte of it again.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, PoisonError};

use byte_ranges::{Range64, RangeSet};
use digest_tree::GROUP;
use gridftp_dsi::{GroupValue, Result, Sink as _};

use crate::journal::Fresh;
use crate::sink::{ObjectSink, State, blocking, continued};

/// The values of an upload.
#[derive(Debug, Default)]
pub(crate) struct Values {
    /// Whether values are recorded, once it is known: the owner names all parts of the upload that it goes
    /// on with, so that none of them comes again, and each record has exactly what it names.
    are_recorded: Option<bool>,
    /// Those that are not recorded yet.
    noted: BTreeMap<u64, [u8; 32]>,
}

impl Values {
    pub(crate) fn note(&mut self, values: Vec<GroupValue>) {
        if self.are_recorded == Some(true) {
            self.noted.extend(values);
        }
    }
}

impl State {
    /// What the journal lacks of the parts within `held`, or of all.
    pub(crate) fn fresh(&self, part: u64, size: Option<u64>, held: Option<&RangeSet>) -> Fresh {
        let is_exact = self.values.are_recorded == Some(true);
        let is_named = |range: &Range64| held.is_none_or(|held| held.covers(*range));
        let mut fresh = Fresh::default();
        let mut here = RangeSet::new();
        for (&index, stored) in &self.parts {
            let named = continued(part, size, index, stored).filter(is_named);
            // Of bytes behind the last whole group no value is recorded.
            let has_values = stored.len.is_multiple_of(GROUP);
            match (named, self.recorded.contains(&index)) {
                (Some(_), false) if has_values || !is_exact => {
                    fresh.parts.push((index, stored.clone()));
                }
                (None, true) if is_exact => fresh.gone.push((index, stored.clone())),
                _ => {}
            }
            here.extend(named);
        }
        let of_group = |number: u64| Range64::from_len(number.checked_mul(GROUP)?, GROUP);
        let is_here = |number: u64| of_group(number).is_some_and(|range| here.covers(range));
        let noted = self.values.noted.iter();
        let noted = noted.map(|(number, value)| (*number, *value));
        fresh.values = noted.filter(|(number, _)| is_here(*number)).collect();
        fresh
    }

    /// Notes that the journal has this.
    pub(crate) fn note_recorded(&mut self, fresh: &Fresh) {
        for (index, stored) in &fresh.gone {
            // Its bytes may have come again meanwhile.
            if self.parts.get(index) == Some(stored) {
                self.recorded.remove(index);
                self.parts.remove(index);
            }
        }
        self.recorded
            .extend(fresh.parts.iter().map(|(index, _)| index));
        for (number, value) in &fresh.values {
            // A newer value may have been noted meanwhile.
            if self.values.noted.get(number) == Some(value) {
                self.values.noted.remove(number);
            }
        }
    }
}

impl ObjectSink {
    /// Whether values are recorded of an upload of which the ranges `held` are named; before any of those
    /// that it has are, they may be.
    fn may_record_values(&self, held: &RangeSet) -> bool {
        let here = self.held();
        let known = &mut self.state().values.are_recorded;
        if !self.part.is_multiple_of(GROUP) {
            *known = Some(false);
        } else if !held.is_empty() || here.is_empty() {
            *known = Some(*held == here);
        }
        *known != Some(false)
    }

    /// The recorded values of the groups in `held`; none are recorded where parts do not consist of
    /// groups, or where some recorded parts are not named: their bytes come again, and are not stored.
    pub(crate) async fn recorded_values(&self, held: &RangeSet) -> Result<Option<Vec<GroupValue>>> {
        if !self.may_record_values(held) {
            return Ok(None);
        }
        let (journal, part, held) = (Arc::clone(&self.journal), self.part, held.clone());
        let values = blocking(move || {
            let journal = journal.lock().unwrap_or_else(PoisonError::into_inner);
            let values = journal.as_ref().map(|journal| journal.values(part, &held));
            values.unwrap_or_else(|| Ok::<_, io::Error>(Vec::new()))
        });
        values
            .await
            .map(Some)
            .map_err(|error| self.unrecorded(error))
    }
}
