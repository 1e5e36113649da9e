//! `Sections`: the values of the sections of a file, which show the places where two copies differ, and
//! the sums over its groups once sections are longer.

use std::collections::BTreeMap;

use crate::subtree::{CHUNK, GROUP_LEVEL, Subtree, join};
use crate::sums::Sums;
use crate::{GROUP, Unknown, Value};

/// Most sections of a file.
pub const MAX_SECTIONS: usize = 1 << 10;

/// The length of the sections of a file of `size` bytes, of which the last may be shorter: a
/// [group](GROUP), or the least power of two that makes no more than [`MAX_SECTIONS`].
pub fn section_length(size: u64) -> u64 {
    let least = size.div_ceil(MAX_SECTIONS as u64).max(GROUP);
    least.checked_next_power_of_two().unwrap_or(1 << 63)
}

/// The values of the complete sections of a file that grows, by offset; without the first, which the
/// tree keeps in parts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sections {
    /// Levels of a section above a group.
    above: u32,
    values: BTreeMap<u64, Value>,
    /// The table of all complete groups but for the first, once these are more than [`MAX_SECTIONS`].
    sums: Option<Sums>,
}

impl Sections {
    fn level(&self) -> u32 {
        GROUP_LEVEL + self.above
    }

    /// Notes the value of a complete subtree, if that is a section or a group.
    pub(crate) fn note(&mut self, subtree: Subtree, value: Value) {
        if subtree.start == 0 {
            return;
        }
        if subtree.level == GROUP_LEVEL
            && let Some(sums) = &mut self.sums
        {
            sums.add(subtree.start / GROUP, &value);
        }
        if subtree.level != self.level() {
            return;
        }
        self.values.insert(subtree.start, value);
        if self.values.len() > MAX_SECTIONS {
            self.lengthen();
        }
    }

    /// Makes sections of pairs. One without the other half is noted once that has arrived.
    fn lengthen(&mut self) {
        if self.sums.is_none() {
            self.sums = Some(self.sums());
        }
        let level = self.level();
        self.above += 1;
        let values = std::mem::take(&mut self.values);
        let pairs = values.iter().filter_map(|(&start, left)| {
            let half = Subtree { start, level };
            let right = values.get(&half.sibling().start);
            let right = right.filter(|_| half.parent().start == start && start > 0)?;
            Some((start, join(left, right)))
        });
        self.values = pairs.collect();
    }

    /// The sums over the complete groups but for the first.
    pub(crate) fn sums(&self) -> Sums {
        // Sections are groups as long as there is no table.
        let groups = self.values.iter();
        let groups = groups.map(|(start, value)| (start / GROUP, *value));
        self.sums.clone().unwrap_or_else(|| Sums::of(groups))
    }

    /// The value of the complete section of `length` bytes at `start`.
    pub(crate) fn value(&self, start: u64, length: u64) -> Result<Value, Unknown> {
        if length <= CHUNK << self.level() {
            return self.values.get(&start).copied().ok_or(Unknown::Missing);
        }
        let half = length / 2;
        Ok(join(
            &self.value(start, half)?,
            &self.value(start + half, half)?,
        ))
    }
}
