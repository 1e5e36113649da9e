//! `RunningFile`: a file of which bytes move now, for those who show them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use gridftp_data::Watch;

use crate::copy::lock;

/// Files that are known at once; more are copied all the same.
const MOST: usize = 1024;

/// A file of which bytes move, or have moved and are still to be proven.
#[derive(Debug)]
pub struct RunningFile {
    source: String,
    size: Option<u64>,
    attempt: Mutex<Attempt>,
    /// Bytes that the attempt has moved, as far as they are known.
    moved: AtomicU64,
}

#[derive(Debug)]
struct Attempt {
    begun: Instant,
    /// Bytes that were at the destination before.
    held: u64,
    /// The counter of its bytes, where it has one of its own.
    watch: Weak<Watch>,
}

impl RunningFile {
    /// Its source, as in [`Event::Started`](crate::Event::Started).
    pub fn source(&self) -> &str {
        &self.source
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

    /// Bytes that the attempt has moved; a watch that is gone has been looked at before.
    fn moved(&self, attempt: &Attempt) -> u64 {
        if let Some(watch) = attempt.watch.upgrade() {
            self.moved.fetch_max(watch.bytes(), Ordering::Relaxed);
        }
        self.moved.load(Ordering::Relaxed)
    }

    /// Notes an attempt that begins with `held` bytes, the others of which `watch` counts.
    pub(crate) fn begin(&self, held: u64, watch: Weak<Watch>) {
        let begun = Instant::now();
        let mut attempt = lock(&self.attempt);
        self.moved.store(0, Ordering::Relaxed);
        *attempt = Attempt { begun, held, watch };
    }

    /// Adds bytes that no watch counts.
    pub(crate) fn add(&self, bytes: u64) {
        self.moved.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Notes the bytes of an attempt so far, as a server tells them.
    pub(crate) fn note(&self, bytes: u64) {
        self.moved.fetch_max(bytes, Ordering::Relaxed);
    }
}

/// The running files of a copy, from the first question for them on.
#[derive(Debug, Default)]
pub(crate) struct RunningFiles {
    is_asked: AtomicBool,
    /// In the order of their begin; one that has ended is gone.
    files: Mutex<Vec<Weak<RunningFile>>>,
}

impl RunningFiles {
    /// Adds a file until it is dropped; `None` where nobody asks, or there are too many.
    pub(crate) fn add(
        &self,
        source: impl FnOnce() -> String,
        size: Option<u64>,
    ) -> Option<Arc<RunningFile>> {
        if !self.is_asked.load(Ordering::Relaxed) {
            return None;
        }
        let mut files = lock(&self.files);
        if files.len() >= MOST {
            files.retain(|file| file.strong_count() > 0);
        }
        if files.len() >= MOST {
            return None;
        }
        let attempt = Attempt {
            begun: Instant::now(),
            held: 0,
            watch: Weak::new(),
        };
        let file = Arc::new(RunningFile {
            source: source(),
            size,
            attempt: Mutex::new(attempt),
            moved: AtomicU64::new(0),
        });
        files.push(Arc::downgrade(&file));
        Some(file)
    }

    /// The files at the moment, the oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<RunningFile>> {
        self.is_asked.store(true, Ordering::Relaxed);
        let mut files = lock(&self.files);
        files.retain(|file| file.strong_count() > 0);
        files.iter().filter_map(Weak::upgrade).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_from_the_first_question_to_their_end() {
        let files = RunningFiles::default();
        assert!(files.add(|| "/early".to_owned(), None).is_none());
        assert!(files.all().is_empty());
        let kept = files.add(|| "/a".to_owned(), Some(10)).unwrap();
        let ended = files.add(|| "/b".to_owned(), None);
        assert_eq!(files.all().len(), 2);
        drop(ended);
        let left = files.all();
        assert_eq!((left.len(), left[0].source()), (1, "/a"));
        drop((left, kept));
        let all: Vec<_> = (0..2 * MOST)
            .filter_map(|n| files.add(|| n.to_string(), None))
            .collect();
        assert_eq!((all.len(), files.all().len()), (MOST, MOST));
    }

    #[test]
    fn bytes_outlive_their_watch_and_end_with_the_attempt() {
        let files = RunningFiles::default();
        files.all();
        let file = files.add(String::new, Some(100)).unwrap();
        let watch = Arc::new(Watch::new());
        file.begin(30, Arc::downgrade(&watch));
        assert_eq!(file.bytes(), 30);
        file.note(20);
        file.note(10);
        assert_eq!(file.bytes(), 50);
        drop(watch);
        assert_eq!(file.bytes(), 50);
        file.begin(50, Weak::new());
        assert_eq!(file.bytes(), 50);
        file.add(7);
        assert_eq!(file.bytes(), 57);
    }
}
