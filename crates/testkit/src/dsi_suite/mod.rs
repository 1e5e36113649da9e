//! Requirements on every storage backend, by its capabilities.

mod exclusive;
mod files;
mod in_order;
mod meta;
mod names;
mod parts;
mod read_only;
mod resume;
mod shared;

use byte_ranges::{Range64, RangeSet};
use bytes::{Bytes, BytesMut};
use gridftp_dsi::{
    Capabilities, Create, Dsi, DsiPath, Error, ErrorKind, Finish, Listing, Sink, Source, Stat,
    User, WriteModel,
};

pub use self::read_only::run_read_only;

/// The result of a case; any error fails it.
type Outcome = Result<(), Box<dyn std::error::Error>>;

/// The cases that passed and that were skipped.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Names of the passed cases.
    pub passed: Vec<&'static str>,
    /// Names of the cases that the backend's capabilities exclude.
    pub skipped: Vec<&'static str>,
}

/// Runs the cases that the capabilities need, and reports the others as skipped.
macro_rules! cases {
    ($dsi:ident, $can:ident, $report:ident;
     $($needs:expr => $($group:ident::$case:ident)+;)+) => { $($(
        if $needs {
            let name = stringify!($case);
            let bench = Bench::new($dsi, name).await;
            if let Err(error) = $group::$case(&bench).await {
                panic!("{}: {name}: {error}", $can.name);
            }
            $report.passed.push(name);
        } else {
            $report.skipped.push(stringify!($case));
        }
    )+)+ };
}

/// Runs every case against `dsi`, each in its own directory below the root.
///
/// # Panics
/// When a case fails; the message names it.
pub async fn run<D: Dsi>(dsi: &D) -> Report {
    let mut report = Report::default();
    let can = dsi.capabilities();
    parts_instead(dsi, &can, &mut report).await;
    cases! { dsi, can, report;
        can.keeps =>
            files::bytes_may_be_written_in_any_order
            files::an_empty_file_is_stored
            files::an_upload_is_invisible_until_it_is_finished
            files::an_incomplete_file_is_refused
            files::a_file_is_replaced_atomically
            files::a_longer_upload_is_truncated
            files::reads_past_the_end_are_empty
            files::offsets_out_of_bounds_are_refused
            files::two_writers_never_mix
            files::concurrent_writes_to_one_sink
            names::directories_are_made_and_removed
            names::files_are_removed
            names::renaming_replaces_the_target
            names::trees_are_removed_recursively
            names::listings_are_complete
            names::wrong_kinds_of_objects_are_errors
            names::unusual_names_are_kept;
        can.keeps && can.updates =>
            files::in_place_writes_are_visible_at_once
            files::an_append_excludes_other_writers
            files::writing_to_a_removed_file_is_an_error
            meta::files_are_truncated_but_not_extended;
        can.keeps && can.times =>
            meta::times_are_kept_to_the_nanosecond;
        can.keeps && can.updates && can.times =>
            files::a_change_while_reading_is_detected;
        true =>
            files::writing_requires_permission;
        can.keeps && can.modes =>
            meta::modes_are_kept;
        can.keeps && can.attributes =>
            meta::attributes_are_kept;
        can.keeps && can.tells_space =>
            meta::free_space_is_that_of_an_object;
        can.keeps && can.exclusive =>
            exclusive::an_exclusive_upload_replaces_nothing
            exclusive::one_of_many_exclusive_uploads_wins;
        can.keeps && can.exclusive && can.updates =>
            exclusive::an_exclusive_change_is_refused;
        can.keeps && can.symlinks =>
            meta::links_stay_inside_the_tree;
        can.keeps && !can.checksums.is_empty() =>
            meta::checksums_are_right
            meta::a_wrong_digest_is_not_published;
    }
    restarts(dsi, &can, &mut report).await;
    report
}

/// Cases of uploads that are continued or shared.
async fn restarts<D: Dsi>(dsi: &D, can: &Capabilities, report: &mut Report) {
    let resumes = can.keeps && can.resume;
    cases! { dsi, can, report;
        resumes && can.writes == WriteModel::Random =>
            resume::recorded_ranges_are_held;
        resumes && !in_parts(can) =>
            resume::a_new_upload_discards_the_partial_file
            resume::a_partial_file_can_be_dropped
            resume::only_one_upload_resumes
            resume::a_failed_finish_can_be_resumed;
        resumes =>
            resume::unrecorded_bytes_are_not_held;
        resumes && can.updates =>
            resume::an_update_keeps_unwritten_bytes
            resume::an_update_is_resumed
            resume::an_update_refuses_a_partial_file;
        can.keeps && can.shares_uploads =>
            shared::joined_writes_are_published_by_the_owner
            shared::a_joined_sink_does_not_publish
            shared::a_joined_sink_ends_with_its_owner
            shared::a_forged_token_is_refused
            shared::every_kind_of_upload_can_be_shared
            shared::unwritten_ranges_are_not_data;
        !can.keeps && can.shares_uploads =>
            shared::discarded_uploads_can_be_shared;
        !can.keeps =>
            files::discarded_bytes_are_counted;
    }
}

/// Cases in place of others that the capabilities exclude, so they never count as skipped.
async fn parts_instead<D: Dsi>(dsi: &D, can: &Capabilities, report: &mut Report) {
    if can.keeps && !can.updates {
        cases! { dsi, can, report;
            true =>
                parts::a_replaced_file_is_never_mixed
                parts::changes_of_a_part_are_refused;
        }
    }
    if can.keeps && can.resume && can.writes == WriteModel::Sequential {
        cases! { dsi, can, report;
            true =>
                in_order::recorded_bytes_are_held
                in_order::a_restart_may_begin_before_the_end_of_what_is_held
                in_order::a_second_upload_is_not_recorded;
        }
    }
    if can.keeps && can.writes == WriteModel::Sequential {
        cases! { dsi, can, report;
            true =>
                in_order::bytes_out_of_order_are_refused;
        }
    }
    if can.keeps && can.resume && in_parts(can) {
        cases! { dsi, can, report;
            true =>
                parts::recorded_parts_are_held
                parts::a_new_upload_discards_the_parts
                parts::only_one_upload_resumes_its_parts
                parts::kept_parts_can_be_dropped
                parts::old_parts_expire;
        }
    }
}

fn in_parts(can: &Capabilities) -> bool {
    matches!(can.writes, WriteModel::Parts(_))
}

/// A directory for one case, and short forms of the backend's operations.
struct Bench<'d, D> {
    dsi: &'d D,
    user: User,
    dir: DsiPath,
}

impl<'d, D: Dsi> Bench<'d, D> {
    async fn new(dsi: &'d D, name: &str) -> Self {
        let user = User::new("suite", DsiPath::root(), true);
        let dir = DsiPath::root()
            .child(name.as_bytes())
            .expect("the name of a function is one component");
        let made = dsi.make_dir(&user, &dir).await;
        made.unwrap_or_else(|error| panic!("make_dir for {name}: {error}"));
        Self { dsi, user, dir }
    }

    fn at(&self, name: &str) -> DsiPath {
        DsiPath::new(&[self.dir.as_bytes(), b"/", name.as_bytes()].concat())
            .expect("a name of the suite")
    }

    async fn sink(&self, name: &str, how: Create) -> Result<D::Sink, Error> {
        self.dsi.write(&self.user, &self.at(name), how).await
    }

    async fn whole(&self, name: &str) -> Result<D::Sink, Error> {
        self.sink(name, Create::Whole { size: None }).await
    }

    async fn held(&self, name: &str) -> Result<RangeSet, Error> {
        self.dsi.held(&self.user, &self.at(name)).await
    }

    async fn resume(&self, name: &str) -> Result<D::Sink, Error> {
        self.sink(name, Create::Resume { size: None }).await
    }

    async fn put(&self, name: &str, bytes: &[u8]) -> Result<Stat, Error> {
        let sink = self.whole(name).await?;
        write(&sink, 0, bytes).await?;
        sink.finish(Finish::whole(len(bytes))).await
    }

    async fn source(&self, name: &str) -> Result<D::Source, Error> {
        self.dsi.read(&self.user, &self.at(name)).await
    }

    async fn get(&self, name: &str) -> Result<Vec<u8>, Error> {
        let source = self.source(name).await?;
        let mut bytes = Vec::new();
        loop {
            let read = source
                .read_at(len(&bytes), BytesMut::with_capacity(4096))
                .await?;
            if read.is_empty() {
                return Ok(bytes);
            }
            bytes.extend_from_slice(&read);
        }
    }

    async fn stat(&self, name: &str) -> Result<Stat, Error> {
        self.dsi.stat(&self.user, &self.at(name)).await
    }

    /// Returns the sorted names in the directory `name`.
    async fn names(&self, name: &str) -> Result<Vec<Vec<u8>>, Error> {
        let mut listing = self.dsi.list(&self.user, &self.at(name)).await?;
        let mut names = Vec::new();
        loop {
            let batch = listing.next().await?;
            if batch.is_empty() {
                break;
            }
            names.extend(batch.into_iter().map(|stat| stat.name));
        }
        names.sort();
        Ok(names)
    }
}

/// Bytes of one write that the sink accepts: those of a part, or about `usual`.
fn step<S: Sink>(sink: &S, usual: usize) -> usize {
    match sink.order() {
        WriteModel::Parts(part) => usize::try_from(part).expect("a part fits into memory"),
        _ => usual,
    }
}

/// Writes `bytes` at `offset`, in whole parts for a sink that takes parts.
async fn write<S: Sink>(sink: &S, offset: u64, bytes: &[u8]) -> Result<(), Error> {
    let step = step(sink, bytes.len().max(1));
    for (part, at) in bytes.chunks(step).zip((offset..).step_by(step)) {
        sink.write_at(at, Bytes::copy_from_slice(part)).await?;
    }
    Ok(())
}

fn len(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

fn ranges(spans: &[(u64, u64)]) -> RangeSet {
    spans
        .iter()
        .filter_map(|(start, end)| Range64::new(*start, *end))
        .collect()
}

/// Returns bytes that depend on their offset, and at each offset on the seed.
fn pattern(len: u32, seed: u32) -> Vec<u8> {
    (0..len)
        .map(|i| (i.wrapping_add(seed << 16).wrapping_mul(2_654_435_761) >> 24).to_le_bytes()[0])
        .collect()
}

/// Checks that `done` failed with one of `kinds`.
#[track_caller]
fn refused<T>(done: Result<T, Error>, kinds: &[ErrorKind]) {
    match done {
        Ok(_) => panic!("succeeded instead of an error of {kinds:?}"),
        Err(error) => assert!(
            kinds.contains(&error.kind()),
            "{error} instead of an error of {kinds:?}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_two_seeds_differ_at_each_offset() {
        let all: Vec<_> = (0..25).map(|seed| pattern(3000, seed)).collect();
        for (at, first) in all.iter().enumerate() {
            for second in &all[..at] {
                assert!(first.iter().zip(second).all(|(a, b)| a != b), "{at}");
            }
        }
    }
}
