//! `Parts` against an oracle: random blocks over several connections, without sockets.
#![expect(clippy::cast_possible_truncation, reason = "test files are small")]

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

/// A block: its offset and its length.
type Cut = (usize, usize);

/// The collector with a window of `most` parts of `size` bytes.
fn parts(size: u64, most: usize, held: RangeSet) -> Parts {
    let options = Options {
        parts: most * size as usize,
        ..Options::default()
    };
    Parts::new(size, 0, held, &options)
}

/// Moves all blocks that the collector admits, a few bytes at a time, and stores the whole parts
/// late. Returns the stored file and the blocks that are left.
fn run(
    parts: &Parts,
    content: &[u8],
    mut queues: Vec<VecDeque<Cut>>,
    turns: &[usize],
) -> (Vec<u8>, usize) {
    let cx = Context::from_waker(Waker::noop());
    let mut stored = Vec::new();
    let mut idle = 0;
    for turn in turns.iter().cycle() {
        let number = turn % queues.len();
        let moved = queues[number].front_mut().is_some_and(|(at, len)| {
            let Poll::Ready(room) = parts.poll_room(&cx, *at as u64, 0) else {
                return false;
            };
            let n = room.min(*len).min(turn + 1);
            let piece = Bytes::copy_from_slice(&content[*at..][..n]);
            parts.put(*at as u64, piece).unwrap();
            (*at, *len) = (*at + n, *len - n);
            true
        });
        if queues[number].front().is_some_and(|(_, len)| *len == 0) {
            queues[number].pop_front();
        }
        let mut state = parts.state();
        let used = state.open.len() + state.whole.len();
        assert!(used <= parts.most, "{used} parts in memory");
        idle = if moved { 0 } else { idle + 1 };
        let all_idle = idle > 8 * turns.len() * queues.len();
        if turn % 3 == 0 || all_idle {
            keep(&mut state.whole, &mut stored, &mut idle);
        }
        if idle > 8 * turns.len() * queues.len() {
            break;
        }
    }
    parts.end(true);
    keep(&mut parts.state().whole, &mut stored, &mut 0);
    (stored, queues.iter().map(VecDeque::len).sum())
}

fn keep(whole: &mut VecDeque<(u64, Bytes)>, stored: &mut Vec<u8>, idle: &mut usize) {
    for (at, bytes) in whole.drain(..) {
        let at = at as usize;
        stored.resize(stored.len().max(at + bytes.len()), 0);
        stored[at..at + bytes.len()].copy_from_slice(&bytes);
        *idle = 0;
    }
}

/// Blocks of a file of `len` bytes, dealt to `connections`.
fn deal(len: usize, cuts: &[usize], to: &[usize], connections: usize) -> Vec<VecDeque<Cut>> {
    let mut cuts: Vec<_> = cuts.iter().map(|cut| cut % (len + 1)).collect();
    cuts.extend([0, len]);
    cuts.sort_unstable();
    let mut queues = vec![VecDeque::new(); connections];
    for (cut, to) in cuts.windows(2).zip(to.iter().cycle()) {
        if cut[1] > cut[0] {
            queues[to % connections].push_back((cut[0], cut[1] - cut[0]));
        }
    }
    queues
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn senders_with_rising_offsets_never_wait_for_each_other(
        len in 1..600_usize,
        size in 1..90_u64,
        most in 1..4_usize,
        cuts in prop::collection::vec(any::<usize>(), 0..30),
        to in prop::collection::vec(0..4_usize, 1..9),
        turns in prop::collection::vec(0..97_usize, 1..20),
    ) {
        let content = crate::tests::bytes(len);
        let mut turns = turns;
        turns.extend(0..4);
        let parts = parts(size, most, RangeSet::new());
        let (stored, left) = run(&parts, &content, deal(len, &cuts, &to, 4), &turns);
        prop_assert_eq!(left, 0);
        prop_assert!(stored == content);
    }

    #[test]
    fn any_order_is_stored_in_a_window_of_all_parts(
        len in 1..600_usize,
        size in 1..90_u64,
        mut cuts in prop::collection::vec((any::<usize>(), any::<u16>()), 0..30),
        to in prop::collection::vec(0..4_usize, 1..9),
        turns in prop::collection::vec(0..97_usize, 1..20),
    ) {
        let content = crate::tests::bytes(len);
        let mut turns = turns;
        turns.extend(0..4);
        let places: Vec<_> = cuts.iter().map(|(cut, _)| *cut).collect();
        let mut queues = deal(len, &places, &to, 4);
        cuts.sort_by_key(|(_, order)| *order);
        for (queue, (turn, _)) in queues.iter_mut().zip(&cuts) {
            let n = turn.checked_rem(queue.len()).unwrap_or(0);
            queue.rotate_left(n);
        }
        let most = len.div_ceil(size as usize) + 1;
        let (stored, left) = run(&parts(size, most, RangeSet::new()), &content, queues, &turns);
        prop_assert_eq!(left, 0);
        prop_assert!(stored == content);
    }
}

#[test]
fn blocks_of_a_part_in_memory_are_taken_although_the_window_is_full() {
    let parts = parts(10, 2, RangeSet::new());
    let cx = Context::from_waker(Waker::noop());
    let room = |at| parts.poll_room(&cx, at, 0);
    assert_eq!(room(55), Poll::Ready(5));
    assert_eq!(parts.wait(), Some(Wait::Receive));
    assert_eq!(
        room(30),
        Poll::Pending,
        "the last place is the lowest part's"
    );
    assert_eq!(room(3), Poll::Ready(7));
    assert_eq!(room(52), Poll::Ready(8));
    assert_eq!(parts.wait(), Some(Wait::Part));
}

#[test]
fn other_bytes_for_the_same_offset_are_an_error() {
    let parts = parts(10, 2, RangeSet::new());
    parts.put(0, Bytes::from_static(b"01234")).unwrap();
    parts.put(3, Bytes::from_static(b"345")).unwrap();
    let error = parts.put(2, Bytes::from_static(b"xx")).unwrap_err();
    assert_eq!(error.kind(), StorageKind::Mismatch);
    parts.put(6, Bytes::from_static(b"6789")).unwrap();
    let error = parts.put(0, Bytes::from_static(b"0")).unwrap_err();
    assert_eq!(error.kind(), StorageKind::Mismatch);
}

#[test]
fn bytes_of_an_earlier_attempt_are_skipped_and_count() {
    let held: RangeSet = [Range64::new(0, 20), Range64::new(40, 45)]
        .into_iter()
        .flatten()
        .collect();
    let parts = parts(10, 1, held);
    let cx = Context::from_waker(Waker::noop());
    assert_eq!(parts.poll_room(&cx, 12, 0), Poll::Ready(8));
    parts.put(12, Bytes::from_static(b"23456789")).unwrap();
    assert_eq!(parts.poll_room(&cx, 20, 0), Poll::Ready(10));
    assert_eq!(parts.state().repeated.to_string(), "12-20");
    assert!(parts.state().open.contains_key(&20));
}
