//! Values of groups: their messages, and those that wait for the next record of an upload.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use byte_ranges::{Range64, RangeSet};
use digest_tree::{GROUP, Value, groups_in};
use gridftp_dsi::GroupValue;

use crate::convert::MAX_RANGES;
use crate::proto;

/// Most values of groups that fit a message beside as many ranges as it may have: gRPC limits it to
/// 4 MiB.
const FIT: usize = 32_768;

/// Most values of groups in one message.
pub(crate) const MAX_GROUPS: usize = if cfg!(test) { 4 } else { FIT };

/// Most values that wait for a record; the bytes of the others are read again.
const MOST: usize = 1 << 16;

/// The values as a message has them.
pub(crate) fn list(values: &[GroupValue]) -> Vec<proto::GroupValue> {
    let values = values.iter().map(|(number, value)| proto::GroupValue {
        number: *number,
        value: value.to_vec(),
    });
    values.collect()
}

/// The values of a message, or the reason to refuse it.
pub(crate) fn values(list: Vec<proto::GroupValue>) -> Result<Vec<GroupValue>, String> {
    if list.len() > MAX_GROUPS {
        let count = list.len();
        return Err(format!(
            "{count} values of groups in a message of at most {MAX_GROUPS}"
        ));
    }
    let values = list.into_iter().map(|told| {
        let proto::GroupValue { number, value } = told;
        let length = value.len();
        let value = <Value>::try_from(value);
        let value = value.map_err(|_| format!("a value of a group of {length} bytes, not 32"));
        Ok((number, value?))
    });
    values.collect()
}

/// The values of a reply about the groups with these numbers, or the reason to refuse it.
pub(crate) fn asked(
    list: Vec<proto::GroupValue>,
    numbers: &RangeSet,
) -> Result<Vec<GroupValue>, String> {
    let told = values(list)?;
    let is_sorted = told.is_sorted_by(|(earlier, _), (later, _)| earlier < later);
    if !is_sorted || told.iter().any(|(number, _)| !numbers.contains(*number)) {
        return Err("the peer sent values out of order, or that were not asked for".into());
    }
    Ok(told)
}

/// The bytes of the groups with these numbers; `None` for more than fit a reply, or beyond all offsets.
pub(crate) fn bytes_of(numbers: &RangeSet) -> Option<RangeSet> {
    let most = u64::try_from(MAX_GROUPS).unwrap_or(u64::MAX);
    if numbers.total() > most || numbers.end() > u64::MAX / GROUP {
        return None;
    }
    let bytes = |range: Range64| Range64::new(range.start() * GROUP, range.end() * GROUP);
    Some(numbers.iter().filter_map(bytes).collect())
}

/// Takes as many of the numbers as one request may have.
pub(crate) fn take_page(numbers: &mut RangeSet) -> RangeSet {
    let (mut page, mut room) = (RangeSet::new(), u64::try_from(MAX_GROUPS).unwrap_or(0));
    while page.len() < MAX_RANGES
        && let Some(range) = numbers.take_first(room)
    {
        room -= range.len();
        page.insert(range);
    }
    page
}

/// The values of groups that the next record of an upload is to have.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    /// Never locked across a wait.
    waiting: Mutex<BTreeMap<u64, Value>>,
    /// Locked while a call has some of them recorded.
    recording: tokio::sync::Mutex<()>,
}

impl Noted {
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<u64, Value>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, values: Vec<GroupValue>) {
        let mut waiting = self.waiting();
        let room = MOST.saturating_sub(waiting.len());
        waiting.extend(values.into_iter().take(room));
    }

    /// The waiting values of the groups with these numbers.
    pub(crate) fn among(&self, numbers: &RangeSet) -> Vec<GroupValue> {
        let waiting = self.waiting();
        let among = waiting
            .iter()
            .filter(|(number, _)| numbers.contains(**number));
        among.map(|(number, value)| (*number, *value)).collect()
    }

    /// Forgets the values of groups outside `kept`.
    pub(crate) fn keep_to(&self, kept: &RangeSet) {
        let whole = groups_in(kept);
        self.waiting().retain(|number, _| whole.contains(*number));
    }

    /// Forgets the values of the groups that a write changes, once a record under way has ended: that
    /// record could otherwise follow the write.
    ///
    /// # Cancel safety
    /// Dropping the future forgets nothing.
    pub(crate) async fn forget(&self, offset: u64, length: usize) {
        let length = u64::try_from(length).unwrap_or(u64::MAX);
        let end = offset.saturating_add(length).div_ceil(GROUP);
        let changed = offset / GROUP..end;
        if changed.is_empty() || self.waiting().range(changed.clone()).next().is_none() {
            return;
        }
        let _turn = self.recording.lock().await;
        self.waiting().retain(|number, _| !changed.contains(number));
    }

    /// Records the first waiting values by `record`, at most [`MAX_GROUPS`]; after a failure they wait
    /// for another attempt.
    ///
    /// # Cancel safety
    /// As `record`; they still wait after it.
    pub(crate) async fn record<E, F>(
        &self,
        record: impl FnOnce(Vec<proto::GroupValue>) -> F,
    ) -> Result<(), E>
    where
        F: Future<Output = Result<(), E>>,
    {
        if self.waiting().is_empty() {
            return record(Vec::new()).await;
        }
        let _turn = self.recording.lock().await;
        let first = self
            .waiting()
            .iter()
            .take(MAX_GROUPS)
            .map(|(n, v)| (*n, *v))
            .collect::<Vec<_>>();
        record(list(&first)).await?;
        let mut waiting = self.waiting();
        for (number, value) in &first {
            if waiting.get(number) == Some(value) {
                waiting.remove(number);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    #[test]
    fn the_longest_record_fits_a_message() {
        let numbers = u64::MAX - FIT as u64..u64::MAX;
        let values: Vec<GroupValue> = numbers.map(|number| (number, [255; 32])).collect();
        let bounds = u64::MAX - 2 * MAX_RANGES as u64..u64::MAX;
        let request = proto::CheckpointRequest {
            handle: u64::MAX,
            held: Some(proto::RangeList {
                bounds: bounds.collect(),
            }),
            durable: true,
            groups: list(&values),
        };
        assert_eq!(values.len(), FIT);
        assert!(request.encoded_len() < 4 << 20, "{}", request.encoded_len());
    }
}
