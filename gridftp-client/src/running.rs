//! `RunningFile`: a file that is being copied, for progress and for the report of incomplete uploads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use gridftp_data::Watch;

use crate::copy::lock;
use crate::progress::Event;

/// Files that are known at once; more are copied all the same.
const MOST: usize = 1024;

/// A file of which bytes move, or have moved and are still to be proven.
#[derive(Debug)]
pub struct RunningFile {
    source: String,
    destination: String,
    size: Option<u64>,
    attempt: Mutex<Attempt>,
    /// Bytes that the attempt has moved, as far as they are known.
    moved: AtomicU64,
    /// Whether a later run goes on with its bytes.
    is_kept: AtomicBool,
}

/// Numbers of files that were under way when a copy broke off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Unfinished {
    /// Files that the same copy goes on with.
    pub kept: u64,
    /// Files that the same copy begins anew.
    pub lost: u64,
}

/// The last attempt at a file.
#[derive(Debug)]
pub(crate) struct Attempt {
    begun: Instant,
    is_over: bool,
    /// Bytes that were at the destination before.
    held: u64,
    /// The counter of its bytes, where it has one of its own.
    watch: Weak<Watch>,
    /// Whether a server stores the bytes under the file's own name as they come.
    is_exposed: bool,
}

impl Attempt {
    /// An attempt that begins now with `held` bytes, the others of which `watch` counts.
    pub(crate) fn new(held: u64, watch: Weak<Watch>, is_exposed: bool) -> Self {
        Self {
            begun: Instant::now(),
            is_over: false,
            held,
            watch,
            is_exposed,
        }
    }
}

impl RunningFile {
    /// Its source, as in [`Event::Started`].
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Its destination, as in [`Event::Started`].
    pub fn destination(&self) -> &str {
        &self.destination
    }

    /// Its size in bytes, when known.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// Bytes at the destination, those of earlier attempts that are not moved again included.
    pub fn bytes(&self) -> u64 {
        let attempt = lock(&self.attempt);
        attempt.held.saturating_add(self.moved(&attempt))
    }

    /// Mean rate of the attempt, in bytes per second.
    pub fn rate(&self) -> u64 {
        let attempt = lock(&self.attempt);
        let milliseconds = attempt.begun.elapsed().as_millis().max(1);
        let rate = u128::from(self.moved(&attempt)) * 1000 / milliseconds;
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    /// The event of a file that breaks off now, once; `None` where no part of it is under its own
    /// name.
    pub(crate) fn incomplete(&self) -> Option<Event<'_>> {
        self.end_exposure().then(|| Event::Incomplete {
            source: &self.source,
            destination: &self.destination,
            sent: self.bytes(),
            size: self.size,
        })
    }

    /// Notes that no part of it is under its own name any more, or that it has been told; says whether
    /// one may have been.
    pub(crate) fn end_exposure(&self) -> bool {
        std::mem::take(&mut lock(&self.attempt).is_exposed)
    }

    /// Bytes that the attempt has moved; those of a watch that is gone were read before.
    fn moved(&self, attempt: &Attempt) -> u64 {
        if let Some(watch) = attempt.watch.upgrade() {
            self.moved.fetch_max(watch.bytes(), Ordering::Relaxed);
        }
        self.moved.load(Ordering::Relaxed)
    }

    /// Replaces the last attempt.
    pub(crate) fn begin(&self, next: Attempt) {
        let mut attempt = lock(&self.attempt);
        self.moved.store(0, Ordering::Relaxed);
        *attempt = next;
    }

    /// Ends the attempt; its bytes stay known.
    pub(crate) fn pause(&self) {
        let mut attempt = lock(&self.attempt);
        self.moved(&attempt);
        attempt.is_over = true;
    }

    /// Notes whether a later run goes on with its bytes.
    pub(crate) fn note_kept(&self, is_kept: bool) {
        self.is_kept.store(is_kept, Ordering::Relaxed);
    }

    /// Adds bytes that no watch counts.
    pub(crate) fn add(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes the bytes of an attempt so far.
    pub(crate) fn note(&self, bytes: u64) {
        self.moved.fetch_max(bytes, Ordering::Relaxed);
    }
}

/// The files of a copy from the first bytes to the end of their jobs, in the order of their begin.
#[derive(Debug, Default)]
pub(crate) struct RunningFiles {
    all: Mutex<Vec<Weak<RunningFile>>>,
    /// Those that were under way at the end of the copy.
    unfinished: Mutex<Unfinished>,
}

impl RunningFiles {
    /// Adds a file until it is dropped; `None` where there are too many.
    pub(crate) fn add(
        &self,
        [source, destination]: [String; 2],
        size: Option<u64>,
        attempt: Attempt,
    ) -> Option<Arc<RunningFile>> {
        let mut files = lock(&self.all);
        if files.len() >= MOST {
            files.retain(|file| file.strong_count() > 0);
        }
        if files.len() >= MOST {
            return None;
        }
        let file = Arc::new(RunningFile {
            source,
            destination,
            size,
            attempt: Mutex::new(attempt),
            moved: AtomicU64::new(0),
            is_kept: AtomicBool::new(false),
        });
        files.push(Arc::downgrade(&file));
        Some(file)
    }

    /// All files at the moment, the oldest first, those that wait for the next attempt included.
    pub(crate) fn known(&self) -> Vec<Arc<RunningFile>> {
        let mut files = lock(&self.all);
        files.retain(|file| file.strong_count() > 0);
        files.iter().filter_map(Weak::upgrade).collect()
    }

    /// Counts the files that are under way when a copy breaks off.
    pub(crate) fn break_off(&self) {
        let mut unfinished = Unfinished::default();
        for file in self.known() {
            match file.is_kept.load(Ordering::Relaxed) {
                true => unfinished.kept += 1,
                false => unfinished.lost += 1,
            }
        }
        *lock(&self.unfinished) = unfinished;
    }

    /// The files that were under way when the copy broke off.
    pub(crate) fn unfinished(&self) -> Unfinished {
        *lock(&self.unfinished)
    }

    /// The files with an attempt at the moment, the oldest first.
    pub(crate) fn moving(&self) -> Vec<Arc<RunningFile>> {
        let mut files = self.known();
        files.retain(|file| !lock(&file.attempt).is_over);
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(files: &RunningFiles, name: &str) -> Option<Arc<RunningFile>> {
        let ends = [name.to_owned(), format!("/to{name}")];
        files.add(ends, Some(100), Attempt::new(0, Weak::new(), true))
    }

    #[test]
    fn files_are_known_to_the_end_of_their_jobs() {
        let files = RunningFiles::default();
        let kept = add(&files, "/a").unwrap();
        let ended = add(&files, "/b");
        assert_eq!(files.moving().len(), 2);
        drop(ended);
        let left = files.moving();
        assert_eq!((left.len(), left[0].source()), (1, "/a"));
        kept.pause();
        assert_eq!((files.moving().len(), files.known().len()), (0, 1));
        kept.begin(Attempt::new(0, Weak::new(), true));
        assert_eq!(files.moving().len(), 1);
        drop((left, kept));
        let all: Vec<_> = (0..2 * MOST)
            .filter_map(|n| add(&files, &n.to_string()))
            .collect();
        assert_eq!((all.len(), files.known().len()), (MOST, MOST));
    }

    #[test]
    fn a_copy_that_breaks_off_counts_its_files() {
        let files = RunningFiles::default();
        let [kept, _lost, ended] = ["/a", "/b", "/c"].map(|name| add(&files, name).unwrap());
        kept.note_kept(true);
        kept.begin(Attempt::new(0, Weak::new(), false));
        drop(ended);
        assert_eq!(files.unfinished(), Unfinished::default());
        files.break_off();
        assert_eq!(files.unfinished(), Unfinished { kept: 1, lost: 1 });
    }

    #[test]
    fn bytes_outlive_their_watch_and_end_with_the_next_attempt() {
        let files = RunningFiles::default();
        let file = add(&files, "/a").unwrap();
        let watch = Arc::new(Watch::new());
        file.begin(Attempt::new(30, Arc::downgrade(&watch), true));
        assert_eq!(file.bytes(), 30);
        file.note(20);
        file.note(10);
        file.pause();
        drop(watch);
        assert_eq!(file.bytes(), 50);
        file.begin(Attempt::new(50, Weak::new(), true));
        assert_eq!(file.bytes(), 50);
        file.add(7);
        assert_eq!(file.bytes(), 57);
    }

    #[test]
    fn a_file_under_its_own_name_breaks_off_incomplete_once() {
        let files = RunningFiles::default();
        let file = add(&files, "/a").unwrap();
        file.add(7);
        let told = file.incomplete().map(|event| format!("{event:?}"));
        let expected = Event::Incomplete {
            source: "/a",
            destination: "/to/a",
            sent: 7,
            size: Some(100),
        };
        assert_eq!(told, Some(format!("{expected:?}")));
        assert!(file.incomplete().is_none());
        file.begin(Attempt::new(0, Weak::new(), false));
        assert!(file.incomplete().is_none());
    }
}
