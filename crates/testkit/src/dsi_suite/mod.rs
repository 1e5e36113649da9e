//! What every storage backend must do, skipping what its capabilities disclaim.

mod files;
mod meta;
mod names;
mod resume;

use byte_ranges::{Range64, RangeSet};
use bytes::{Bytes, BytesMut};
use gridftp_dsi::{
    Create, Dsi, DsiPath, Error, ErrorKind, Finish, Listing, Sink, Source, Stat, User,
};

/// What a case gives back: any error fails it.
type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Which cases ran, and which could not.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Names of the cases that passed.
    pub passed: Vec<&'static str>,
    /// Names of the cases that the backend disclaims.
    pub skipped: Vec<&'static str>,
}

/// Runs every case against `dsi`, each in a directory of its own below the root.
///
/// # Panics
/// When a case fails; the message names it.
pub async fn run<D: Dsi>(dsi: &D) -> Report {
    let mut report = Report::default();
    let can = dsi.capabilities();
    macro_rules! cases {
        ($($needs:expr => $($group:ident::$case:ident)+;)+) => { $($(
            if $needs {
                let name = stringify!($case);
                let bench = Bench::new(dsi, name).await;
                if let Err(error) = $group::$case(&bench).await {
                    panic!("{}: {name}: {error}", can.name);
                }
                report.passed.push(name);
            } else {
                report.skipped.push(stringify!($case));
            }
        )+)+ };
    }
    cases! {
        can.keeps =>
            files::bytes_come_back_from_any_order
            files::an_empty_file_is_a_file
            files::nothing_shows_before_the_end
            files::what_is_missing_is_told
            files::replacing_is_whole
            files::a_longer_attempt_is_cut
            files::in_place_shows_at_once
            files::an_append_has_the_end_for_itself
            files::what_was_written_to_no_name_is_told
            files::reading_ends_at_the_end
            files::offsets_out_of_bounds_are_refused
            files::two_writers_never_mix
            files::a_change_while_reading_is_told
            files::many_writers_of_one_sink
            names::directories_are_made_and_removed
            names::files_are_removed
            names::renaming_replaces
            names::trees_go_whole
            names::listings_are_complete
            names::objects_of_the_wrong_kind
            names::strange_names_are_kept
            meta::times_are_kept_to_the_nanosecond
            meta::files_are_cut_but_not_grown;
        true =>
            files::writing_needs_the_right;
        can.keeps && can.resume =>
            resume::what_was_recorded_is_held
            resume::what_was_not_recorded_is_not_held
            resume::a_new_attempt_forgets_the_old
            resume::an_update_keeps_what_it_does_not_write
            resume::an_update_is_continued
            resume::what_is_kept_is_not_mixed_with_the_old_object
            resume::what_is_held_can_be_dropped
            resume::only_one_continues
            resume::a_failed_finish_can_be_continued;
        can.keeps && can.modes =>
            meta::modes_are_kept;
        can.keeps && can.symlinks =>
            meta::links_stay_in_the_tree;
        can.keeps && !can.checksums.is_empty() =>
            meta::checksums_are_right
            meta::a_wrong_digest_is_not_published;
        !can.keeps =>
            files::what_is_discarded_is_counted;
    }
    report
}

/// A directory for one case, and short ways to use it.
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
        sink.write_at(0, Bytes::copy_from_slice(bytes)).await?;
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

    /// Names in the directory `name`, sorted.
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

fn len(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

fn ranges(spans: &[(u64, u64)]) -> RangeSet {
    spans
        .iter()
        .filter_map(|(start, end)| Range64::new(*start, *end))
        .collect()
}

/// Bytes that differ at every place one looks.
fn pattern(len: u32, seed: u32) -> Vec<u8> {
    (0..len)
        .map(|i| (i.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 24).to_le_bytes()[0])
        .collect()
}

/// Makes sure that `done` failed, and how.
#[track_caller]
fn refused<T>(done: Result<T, Error>, kinds: &[ErrorKind]) {
    match done {
        Ok(_) => panic!("went through, but should have been one of {kinds:?}"),
        Err(error) => assert!(
            kinds.contains(&error.kind()),
            "{error}, but should have been one of {kinds:?}"
        ),
    }
}
