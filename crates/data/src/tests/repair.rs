//! Corrupt copies of files of more than 1 GiB: the receiver names the single groups of 1 MiB.

use std::collections::BTreeSet;

use byte_ranges::Range64;
use digest_tree::{GROUP, MAX_SECTIONS, section_length};
use ftp_wire::command::Tag;
use ftp_wire::receipt::Extent;

use super::*;
use crate::{Earlier, ErrorKind};

/// Groups of the file, without the short one at the end.
const GROUPS: u64 = 5 * MAX_SECTIONS as u64 + 3;

/// Bytes of the file.
const SIZE: u64 = GROUPS * GROUP + 5;

/// An end that has moved all whole groups, those of `bad` with other bytes than the sender.
async fn end(source: &Disk, bad: &BTreeSet<u64>) -> Watch {
    let value = |number: u64| {
        let of = [number, u64::from(bad.contains(&number))];
        *blake3::hash(&of.map(u64::to_be_bytes).concat()).as_bytes()
    };
    let groups = (0..GROUPS).map(|number| (number, value(number)));
    let held = RangeSet::up_to(GROUPS * GROUP);
    let watch = Watch::new();
    let earlier = Earlier::of_source(source, groups.collect(), &held).await;
    assert!(earlier.is_known());
    watch.go_on(Some(earlier));
    watch
}

/// The differing ranges of a copy with other bytes in the groups `bad`, which are the same in both modes.
async fn differing(bad: &BTreeSet<u64>) -> Option<RangeSet> {
    let [extended, stream] = [Mode::Extended, Mode::Stream];
    let named = differing_in(extended, bad).await;
    assert_eq!(differing_in(stream, bad).await, named);
    named
}

async fn differing_in(mode: Mode, bad: &BTreeSet<u64>) -> Option<RangeSet> {
    let source = Disk::zeros(SIZE);
    let (sending, receiving) = (
        end(&source, &BTreeSet::new()).await,
        end(&source, bad).await,
    );
    let tag = Some(Tag::new(1, Extent::Whole));
    let (mut from, mut to) = pair().await;
    let sink = Writes::default();
    let rest = Range64::new(GROUPS * GROUP, SIZE).into_iter().collect();
    let plan = SendPlan::new(mode, Type::Image, rest).tag(tag);
    let taken = incoming(mode).tag(tag).start(GROUPS * GROUP);
    let (sent, got) = tokio::join!(
        from.send(&source, &plan, &sending),
        to.receive(&sink, &taken, &receiving)
    );
    sent.unwrap();
    let kind = got.err().map(|error| error.kind());
    assert_eq!(kind, Some(ErrorKind::Corrupt).filter(|_| !bad.is_empty()));
    receiving.differing()
}

/// The parts of `length` bytes with these numbers.
fn parts(numbers: impl IntoIterator<Item = u64>, length: u64) -> RangeSet {
    let part = |number| Range64::from_len(number * length, length);
    let parts: RangeSet = numbers.into_iter().filter_map(part).collect();
    parts.clip(Range64::new(0, SIZE).unwrap())
}

#[tokio::test]
async fn the_bad_groups_of_a_long_file_are_named_one_by_one() {
    let some = [0, 1, 77, 4096, GROUPS - 1];
    let many = (0..GROUPS).filter(|number| number % 9 == 4);
    for bad in [some.into_iter().collect(), many.collect::<BTreeSet<_>>()] {
        let named = differing(&bad).await;
        assert_eq!(named, Some(parts(bad.iter().copied(), GROUP)));
    }
    assert_eq!(differing(&BTreeSet::new()).await, None);
}

#[tokio::test]
async fn the_bad_sections_are_named_where_too_many_groups_are_bad() {
    let bad: BTreeSet<u64> = (0..GROUPS / 2).filter(|number| number % 2 == 1).collect();
    let length = section_length(SIZE);
    assert_eq!(length, 8 * GROUP);
    let sections = bad.iter().map(|number| number / 8);
    assert_eq!(differing(&bad).await, Some(parts(sections, length)));
}
