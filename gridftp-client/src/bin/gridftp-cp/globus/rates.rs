//! The lines of `-vb`: bytes and rates of each file under way.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::Instant;

/// Time between two lines of a file.
const EVERY: Duration = Duration::from_secs(1);

/// A megabyte of the rates, in bytes.
const MEGABYTE: f64 = 1024.0 * 1024.0;

/// The files under way, with the last line of each.
#[derive(Debug)]
pub(super) struct Rates<F> {
    files: Vec<Told<F>>,
}

#[derive(Debug)]
struct Told<F> {
    file: Weak<F>,
    begun: Moment,
    /// The last line, or the begin.
    last: Moment,
}

/// The bytes of a file at a time.
#[derive(Debug, Clone, Copy)]
struct Moment {
    at: Instant,
    bytes: u64,
}

impl<F> Rates<F> {
    pub(super) const fn new() -> Self {
        Self { files: Vec::new() }
    }

    /// The lines that are due for the files that are `running`, of which `bytes` tells the bytes.
    pub(super) fn look(&mut self, running: &[Arc<F>], bytes: impl Fn(&F) -> u64) -> String {
        let is =
            |told: &Told<F>, file: &Arc<F>| std::ptr::eq(told.file.as_ptr(), Arc::as_ptr(file));
        (self.files).retain(|told| running.iter().any(|file| is(told, file)));
        let (mut lines, at) = (String::new(), Instant::now());
        for file in running {
            let bytes = bytes(file);
            let now = Moment { at, bytes };
            match self.files.iter_mut().find(|told| is(told, file)) {
                Some(told) => lines.extend(told.line(now)),
                None => self.files.push(Told {
                    file: Arc::downgrade(file),
                    begun: now,
                    last: now,
                }),
            }
        }
        lines
    }
}

impl<F> Told<F> {
    /// The line of `now`, where one is due. Between two servers bytes are known from marker to
    /// marker, and none move while a digest is computed.
    fn line(&mut self, now: Moment) -> Option<String> {
        if now.bytes < self.last.bytes {
            // Another attempt has begun.
            (self.begun, self.last) = (now, now);
        }
        let is_due = now.at - self.last.at >= EVERY && now.bytes > self.last.bytes;
        is_due.then(|| {
            let last = std::mem::replace(&mut self.last, now);
            line(now.bytes, now.since(self.begun), now.since(last))
        })
    }
}

impl Moment {
    /// The rate since an earlier moment, in megabytes per second.
    fn since(self, before: Self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "it is shown with two digits")]
        let bytes = self.bytes.saturating_sub(before.bytes) as f64;
        bytes / MEGABYTE / (self.at - before.at).as_secs_f64().max(1e-9)
    }
}

/// A line of a file: its bytes, and their rates since the begin and since the line before.
fn line(bytes: u64, mean: f64, now: f64) -> String {
    format!(" {bytes:>12} bytes {mean:>12.2} MB/sec avg {now:>12.2} MB/sec inst\r")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn a_line_has_the_columns_of_globus() {
        assert_eq!(
            line(368_050_176, 377.851, 320.0),
            "    368050176 bytes       377.85 MB/sec avg       320.00 MB/sec inst\r"
        );
    }

    fn file(bytes: u64) -> Arc<AtomicU64> {
        Arc::new(AtomicU64::new(bytes))
    }

    #[tokio::test(start_paused = true)]
    async fn each_file_has_its_own_bytes_and_rates() {
        let mut rates = Rates::new();
        let mut look = |running: &[Arc<AtomicU64>]| {
            rates.look(running, |file: &AtomicU64| file.load(Ordering::Relaxed))
        };
        let (one, other) = (file(0), file(0));
        assert_eq!(look(std::slice::from_ref(&one)), "");
        tokio::time::advance(EVERY / 2).await;
        one.store(1 << 20, Ordering::Relaxed);
        // It is not due, and the other begins.
        assert_eq!(look(&[one.clone(), other.clone()]), "");
        tokio::time::advance(EVERY / 2).await;
        assert_eq!(look(&[one.clone(), other.clone()]), line(1 << 20, 1.0, 1.0));
        tokio::time::advance(EVERY).await;
        one.store(4 << 20, Ordering::Relaxed);
        other.store(3 << 20, Ordering::Relaxed);
        let both = line(4 << 20, 2.0, 3.0) + &line(3 << 20, 2.0, 2.0);
        assert_eq!(look(&[one, other]), both);
        // The next file begins with nothing.
        let next = [file(0)];
        assert_eq!(look(&next), "");
        tokio::time::advance(EVERY).await;
        next[0].store(5 << 20, Ordering::Relaxed);
        assert_eq!(look(&next), line(5 << 20, 5.0, 5.0));
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_that_stand_still_have_no_line() {
        let mut rates = Rates::new();
        let held = file(9 << 20);
        let mut look = || {
            let running = std::slice::from_ref(&held);
            rates.look(running, |file: &AtomicU64| file.load(Ordering::Relaxed))
        };
        assert_eq!(look(), "");
        for _ in 0..4 {
            tokio::time::advance(EVERY).await;
            assert_eq!(look(), "");
        }
        held.store(19 << 20, Ordering::Relaxed);
        tokio::time::advance(EVERY).await;
        assert_eq!(look(), line(19 << 20, 2.0, 2.0));
        // Another attempt begins with fewer.
        held.store(1 << 20, Ordering::Relaxed);
        tokio::time::advance(EVERY).await;
        assert_eq!(look(), "");
        held.store(2 << 20, Ordering::Relaxed);
        tokio::time::advance(EVERY).await;
        assert_eq!(look(), line(2 << 20, 1.0, 1.0));
    }
}
