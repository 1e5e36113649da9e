//! `Sums`: the BLAKE3 values of the groups of a partial file, in a file beside it.
//!
//! The file `.NAME.gridftp-sums` has a slot for each group, at the place of its number: the chaining
//! value, and a CRC-32C of the inode of the partial file, the number and the value. A slot that is
//! missing, torn or of another file fails that check, and its group is read again.
//!
//! A slot is written after the bytes of its group are on the medium, and before the record that
//! names them; it is cleared before this process changes any of them. Others that write to the partial
//! file leave the groups with a slot alone, or all are cleared before they begin.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use byte_ranges::{Range64, RangeSet};
use digest_tree::{GROUP, Value, groups_in};
use gridftp_dsi::GroupValue;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::copy::{read_some, write_all};
use crate::uninterrupted::{fdatasync, ftruncate};

/// Bytes of a slot.
const SLOT: usize = size_of::<Value>() + size_of::<u32>();

/// Slots in one read or write.
const BATCH: u64 = 4096;

/// Most values that wait for a record, and most ranges of recorded ones; the others are read again.
const MOST: usize = 1 << 16;

/// The values of one partial file.
#[derive(Debug, Default)]
pub(crate) struct Sums {
    /// Locked across reads and writes of the file, and before the values that wait.
    state: Mutex<State>,
    /// Values of bytes that may not be on the medium yet; never locked across I/O.
    waiting: Mutex<BTreeMap<u64, Value>>,
    /// Whether a slot may be written, so that changed bytes must be looked up.
    any: AtomicBool,
    /// Whether no values are kept any more.
    closed: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    file: Option<Arc<OwnedFd>>,
    /// Numbers of the groups with a written slot.
    written: RangeSet,
}

impl Sums {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<u64, Value>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether the file may be there.
    pub(crate) fn is_there(&self) -> bool {
        self.state().file.is_some()
    }

    /// Opens the values that an earlier attempt left, of which those of groups in `held` count.
    pub(crate) fn reopen(
        &self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        held: &RangeSet,
    ) -> Result<(), Errno> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(dir, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(()),
            done => done?,
        };
        let length = u64::try_from(rustix::fs::fstat(&file)?.st_size).unwrap_or(0);
        let all = Range64::new(0, length.div_ceil(SLOT as u64));
        let count = |all| groups_in(held).clip(all);
        let written = all.map_or_else(RangeSet::new, count);
        // The others are of bytes that the record does not name, and may arrive otherwise.
        ftruncate(&file, written.end() * SLOT as u64)?;
        let unnamed = Range64::new(0, written.end()).map(|all| written.gaps(all));
        for range in unnamed.unwrap_or_default().iter() {
            clear(file.as_fd(), range)?;
        }
        if written.total() < length / SLOT as u64 {
            fdatasync(&file)?;
        }
        self.any.store(!written.is_empty(), Ordering::Release);
        *self.state() = State {
            file: Some(Arc::new(file)),
            written,
        };
        Ok(())
    }

    /// Forgets all values but those of the groups in `held`.
    pub(crate) fn keep_to(&self, held: &RangeSet) -> Result<(), Errno> {
        let whole = groups_in(held);
        self.waiting().retain(|number, _| whole.contains(*number));
        let mut state = self.state();
        let State { file, written } = &mut *state;
        let mut others = written.clone();
        whole.iter().for_each(|range| others.remove(range));
        let Some(file) = file.as_ref().filter(|_| !others.is_empty()) else {
            return Ok(());
        };
        for range in others.iter() {
            clear(file.as_fd(), range)?;
            written.remove(range);
        }
        fdatasync(&**file)
    }

    /// Keeps no values from now on.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        *self.state() = State::default();
        self.waiting().clear();
    }

    /// Has the next [`record`](Self::record) write `values`.
    pub(crate) fn note(&self, values: Vec<GroupValue>) {
        if self.closed.load(Ordering::Acquire) {
            return;
        }
        let mut waiting = self.waiting();
        let room = MOST.saturating_sub(waiting.len());
        waiting.extend(values.into_iter().take(room));
    }

    /// Writes the waiting values of the groups in `held`. With `durable` the bytes are on the
    /// medium, and then the values as well.
    pub(crate) fn record(
        &self,
        (dir, name, inode): (BorrowedFd<'_>, &[u8], u64),
        held: &RangeSet,
        durable: bool,
    ) -> Result<(), Errno> {
        let mut state = self.state();
        let State { file, written } = &mut *state;
        if self.closed.load(Ordering::Acquire) || self.waiting().is_empty() {
            return Ok(());
        }
        // Before values are taken: a write that finds none waiting looks them up on disk.
        self.any.store(true, Ordering::Release);
        let whole = groups_in(held);
        let mut new: Vec<GroupValue> = Vec::new();
        self.waiting().retain(|number, value| {
            let is_held = whole.contains(*number);
            new.extend(is_held.then_some((*number, *value)));
            !is_held
        });
        if new.is_empty() || written.len() >= MOST {
            return Ok(());
        }
        let file = match file {
            Some(file) => file,
            None => file.insert(Arc::new(create(dir, name)?)),
        };
        for run in new.chunk_by(|(one, _), (next, _)| one.checked_add(1) == Some(*next)) {
            let Some((first, _)) = run.first() else {
                continue;
            };
            // Before the write: a slot that was written in part may count as well.
            written.extend(&numbers(*first, run.len() as u64));
            let slots: Vec<u8> = run.iter().flat_map(|group| slot(inode, group)).collect();
            write_all(file.as_fd(), &slots, first.saturating_mul(SLOT as u64))?;
        }
        let file = Arc::clone(file);
        // Writers of the partial file go on meanwhile.
        drop(state);
        if durable { fdatasync(&*file) } else { Ok(()) }
    }

    /// The values of the groups in `held` that are recorded or wait for that.
    pub(crate) fn values(&self, inode: u64, held: &RangeSet) -> Result<Vec<GroupValue>, Errno> {
        let state = self.state();
        let whole = groups_in(held);
        let waiting = self.waiting();
        let waiting_held = waiting
            .iter()
            .filter(|(number, _)| whole.contains(**number));
        let mut values: Vec<_> = waiting_held
            .map(|(number, value)| (*number, *value))
            .collect();
        drop(waiting);
        let (Some(file), known) = (&state.file, state.written.intersect(&whole)) else {
            return Ok(values);
        };
        for range in known.iter() {
            let mut next = range.start();
            while next < range.end() {
                let most = usize::try_from(BATCH.min(range.end() - next)).unwrap_or(0);
                let slots = read_some(file.as_fd(), next * SLOT as u64, most * SLOT)?;
                let read = (next..).zip(slots.chunks(SLOT));
                values.extend(read.filter_map(|(number, slot)| value(inode, number, slot)));
                next += most as u64;
            }
        }
        // Those that wait are the newer ones, and come first.
        values.sort_by_key(|(number, _)| *number);
        values.dedup_by_key(|(number, _)| *number);
        Ok(values)
    }

    /// Forgets the values of groups of which the bytes `offset..offset + length` are to change, and of
    /// those behind them: a client that sends bytes again goes on with the next ones.
    pub(crate) fn forget(&self, offset: u64, length: u64) -> Result<(), Errno> {
        if length == 0 {
            return Ok(());
        }
        let (first, end) = (
            offset / GROUP,
            offset.saturating_add(length).div_ceil(GROUP),
        );
        self.waiting()
            .retain(|number, _| !(first..end).contains(number));
        if !self.any.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut state = self.state();
        let State { file, written } = &mut *state;
        let changed = Range64::new(first, end).map(|changed| written.clip(changed));
        let Some(last) = changed.as_ref().and_then(RangeSet::last) else {
            return Ok(());
        };
        // One sync for many groups, of one range.
        let behind = Range64::new(last.start(), last.start().saturating_add(BATCH));
        let behind = behind.and_then(|behind| written.clip(behind).first());
        let forgotten = Range64::new(first, behind.map_or(end, Range64::end).max(end));
        let (Some(file), Some(forgotten)) = (file, forgotten) else {
            return Ok(());
        };
        for range in written.clip(forgotten).iter() {
            clear(file.as_fd(), range)?;
        }
        fdatasync(&**file)?;
        written.remove(forgotten);
        Ok(())
    }
}

fn numbers(first: u64, count: u64) -> RangeSet {
    Range64::from_len(first, count).into_iter().collect()
}

/// Creates the file, without slots: one that another partial file left has no value.
fn create(dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    // Nor does one that another account put there become ours.
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Err(Errno::NOENT) => {}
        done => done?,
    }
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR)
}

fn clear(file: BorrowedFd<'_>, groups: Range64) -> Result<(), Errno> {
    let zeros = vec![0; usize::try_from(BATCH.min(groups.len())).unwrap_or(0) * SLOT];
    let mut next = groups.start();
    while next < groups.end() {
        let some = usize::try_from(BATCH.min(groups.end() - next)).unwrap_or(0);
        let zeros = zeros.get(..some * SLOT).unwrap_or_default();
        write_all(file, zeros, next * SLOT as u64)?;
        next += some as u64;
    }
    Ok(())
}

fn slot(inode: u64, (number, value): &GroupValue) -> [u8; SLOT] {
    let mut slot = [0; SLOT];
    let sum = check(inode, *number, value).to_le_bytes();
    for (to, from) in slot.iter_mut().zip(value.iter().chain(&sum)) {
        *to = *from;
    }
    slot
}

/// The value in a slot, if that is whole and of this group.
fn value(inode: u64, number: u64, slot: &[u8]) -> Option<GroupValue> {
    let (value, sum) = slot.split_first_chunk::<{ size_of::<Value>() }>()?;
    (sum == check(inode, number, value).to_le_bytes()).then_some((number, *value))
}

fn check(inode: u64, number: u64, value: &Value) -> u32 {
    let parts = [inode, number].map(u64::to_le_bytes);
    let sum = parts
        .iter()
        .fold(0, |sum, part| crc32c::crc32c_append(sum, part));
    crc32c::crc32c_append(sum, value)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    const NAME: &[u8] = b"sums";

    fn value_of(number: u64) -> GroupValue {
        (number, [u8::try_from(number % 251).unwrap() + 1; 32])
    }

    fn dir() -> (tempfile::TempDir, OwnedFd) {
        let dir = tempfile::tempdir().unwrap();
        let opened = std::fs::File::open(dir.path()).unwrap();
        (dir, opened.into())
    }

    fn held(groups: &[(u64, u64)]) -> RangeSet {
        let bytes = |(start, end)| Range64::new(start * GROUP, end * GROUP);
        groups.iter().copied().filter_map(bytes).collect()
    }

    fn numbers(values: &[GroupValue]) -> Vec<u64> {
        values.iter().map(|(number, _)| *number).collect()
    }

    #[test]
    fn values_of_other_ranges_are_forgotten_on_the_medium_too() {
        let (_guard, dir) = dir();
        let place = (dir.as_fd(), NAME, 7);
        let (sums, all) = (Sums::default(), held(&[(0, 20)]));
        sums.note((0..8).map(value_of).collect());
        sums.record(place, &all, true).unwrap();
        sums.note([8, 9].map(value_of).to_vec());
        sums.keep_to(&held(&[(0, 2), (4, 5), (9, 20)])).unwrap();
        let kept = [0, 1, 4, 9];
        assert_eq!(numbers(&sums.values(7, &all).unwrap()), kept);
        let reopened = Sums::default();
        reopened.reopen(dir.as_fd(), NAME, &all).unwrap();
        let kept = [0, 1, 4];
        assert_eq!(numbers(&reopened.values(7, &all).unwrap()), kept);
    }

    #[test]
    fn values_are_written_once_their_bytes_are_held() {
        let (_guard, dir) = dir();
        let place = (dir.as_fd(), NAME, 7);
        let sums = Sums::default();
        sums.note([9, 2, 0, 1].map(value_of).to_vec());
        // Of group 2 the last byte is missing.
        let most: RangeSet = [
            Range64::new(0, 3 * GROUP - 1),
            Range64::new(9 * GROUP, 10 * GROUP),
        ]
        .into_iter()
        .flatten()
        .collect();
        sums.record(place, &most, true).unwrap();
        let reopened = Sums::default();
        reopened
            .reopen(dir.as_fd(), NAME, &held(&[(0, 20)]))
            .unwrap();
        let found = reopened.values(7, &held(&[(0, 20)])).unwrap();
        assert_eq!(found, [0, 1, 9].map(value_of));
        assert_eq!(
            numbers(&sums.values(7, &held(&[(0, 20)])).unwrap()),
            [0, 1, 2, 9]
        );
        sums.record(place, &held(&[(0, 3)]), true).unwrap();
        reopened
            .reopen(dir.as_fd(), NAME, &held(&[(1, 20)]))
            .unwrap();
        assert_eq!(
            numbers(&reopened.values(7, &held(&[(0, 20)])).unwrap()),
            [1, 2, 9]
        );
        // Slots of another file do not count.
        assert_eq!(reopened.values(8, &held(&[(0, 20)])).unwrap(), []);
    }

    #[test]
    fn torn_and_flipped_slots_do_not_count() {
        let (guard, dir) = dir();
        let sums = Sums::default();
        sums.note([0, 1, 2, 3].map(value_of).to_vec());
        sums.record((dir.as_fd(), NAME, 7), &held(&[(0, 4)]), true)
            .unwrap();
        let file = std::fs::File::options()
            .write(true)
            .open(guard.path().join("sums"))
            .unwrap();
        file.write_all_at(&[0x55], SLOT as u64 + 3).unwrap();
        file.set_len(4 * SLOT as u64 - 1).unwrap();
        let reopened = Sums::default();
        reopened
            .reopen(dir.as_fd(), NAME, &held(&[(0, 4)]))
            .unwrap();
        assert_eq!(
            numbers(&reopened.values(7, &held(&[(0, 4)])).unwrap()),
            [0, 2]
        );
    }

    #[test]
    fn values_of_changed_bytes_are_forgotten_on_disk() {
        let (_guard, dir) = dir();
        let all = held(&[(0, 8)]);
        let sums = Sums::default();
        sums.note((0..8).filter(|number| *number != 3).map(value_of).collect());
        sums.record((dir.as_fd(), NAME, 7), &all, true).unwrap();
        sums.forget(GROUP - 1, 2).unwrap();
        assert_eq!(numbers(&sums.values(7, &all).unwrap()), [4, 5, 6, 7]);
        sums.note((0..3).map(value_of).collect());
        sums.record((dir.as_fd(), NAME, 7), &all, true).unwrap();
        // Those of the same range behind it go as well.
        sums.forget(GROUP + 5, 1).unwrap();
        sums.forget(8 * GROUP, GROUP).unwrap();
        assert_eq!(numbers(&sums.values(7, &all).unwrap()), [0, 4, 5, 6, 7]);
        // Nor is anything left of those that a record no longer names.
        let reopened = Sums::default();
        reopened
            .reopen(dir.as_fd(), NAME, &held(&[(0, 2), (5, 7)]))
            .unwrap();
        reopened.reopen(dir.as_fd(), NAME, &all).unwrap();
        assert_eq!(numbers(&reopened.values(7, &all).unwrap()), [0, 5, 6]);
    }

    #[test]
    fn values_that_wait_are_bounded() {
        let sums = Sums::default();
        sums.note((0..2 * MOST as u64).map(value_of).collect());
        assert_eq!(sums.waiting().len(), MOST);
    }

    /// A block is hashed before it is written: the bytes of a group that never was may come anew.
    #[test]
    fn a_value_that_waits_does_not_outlive_its_bytes() {
        let (_guard, dir) = dir();
        let all = held(&[(0, 4)]);
        let sums = Sums::default();
        sums.note([0, 1, 2].map(value_of).to_vec());
        sums.forget(GROUP, 1).unwrap();
        assert_eq!(numbers(&sums.values(7, &all).unwrap()), [0, 2]);
        sums.record((dir.as_fd(), NAME, 7), &all, true).unwrap();
        assert_eq!(numbers(&sums.values(7, &all).unwrap()), [0, 2]);
    }
}
