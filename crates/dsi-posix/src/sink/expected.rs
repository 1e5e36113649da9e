//! `Expected`: ranges that have to be written again with the bytes that an earlier attempt stored.

use std::sync::atomic::{AtomicBool, Ordering};

use byte_ranges::{Range64, RangeSet};
use gridftp_dsi::ErrorKind;
use rustix::fd::BorrowedFd;

use super::{FileSink, Inner};
use crate::copy::read_some;
use crate::error::{Fault, Outcome};

/// The expected ranges of one file.
#[derive(Debug)]
pub(super) struct Expected {
    ranges: RangeSet,
    /// Whether a write brought other bytes.
    differs: AtomicBool,
}

impl Expected {
    /// Compares the bytes of `data`, which begins at `offset`, in those ranges with those of `file`.
    fn compare(&self, file: BorrowedFd<'_>, offset: u64, data: &[u8]) -> Outcome<()> {
        let Some(written) = Range64::from_len(offset, data.len() as u64) else {
            return Ok(());
        };
        let place = |at: u64| usize::try_from(at - offset).unwrap_or(usize::MAX);
        for range in &self.ranges.clip(written) {
            let new = data.get(place(range.start())..place(range.end()));
            let new = new.unwrap_or_default();
            if read_some(file, range.start(), new.len())? != new {
                self.differs.store(true, Ordering::Relaxed);
                return Err(Fault::Rule(
                    ErrorKind::Mismatch,
                    "the bytes of an earlier attempt are others",
                ));
            }
        }
        Ok(())
    }
}

impl Inner {
    /// Says whether there are expected ranges.
    pub(super) fn expects(&self) -> bool {
        self.expected.get().is_some()
    }

    /// Refuses bytes other than the expected ones.
    pub(super) fn must_be_expected(&self, offset: u64, data: &[u8]) -> Outcome<()> {
        match self.expected.get() {
            Some(expected) => expected.compare(self.file()?, offset, data),
            None => Ok(()),
        }
    }
}

impl FileSink {
    /// Compares writes in `ranges` with the bytes that an earlier attempt stored there: the first one
    /// with other bytes fails with [`ErrorKind::Mismatch`], and writes nothing.
    ///
    /// It is called before the first write, and once.
    pub fn expect_again(&self, ranges: RangeSet) {
        if ranges.is_empty() {
            return;
        }
        self.inner.expected.get_or_init(|| Expected {
            ranges,
            differs: AtomicBool::new(false),
        });
    }

    /// The ranges of [`expect_again`](Self::expect_again).
    pub fn expected(&self) -> RangeSet {
        let expected = self.inner.expected.get();
        expected.map_or_else(RangeSet::new, |expected| expected.ranges.clone())
    }

    /// Says whether a write brought other bytes than the expected ones.
    pub fn differs(&self) -> bool {
        let expected = self.inner.expected.get();
        expected.is_some_and(|expected| expected.differs.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use gridftp_dsi::{Finish, Sink as _};

    use super::*;
    use crate::Origin;

    const SIZE: u64 = 4 << 20;

    fn origin() -> Origin {
        Origin::new(b"source", SIZE, (1, 0)).unwrap()
    }

    #[tokio::test]
    async fn other_bytes_in_an_expected_range_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let half = SIZE / 2;
        let bytes = |byte: u8, len: u64| vec![byte; usize::try_from(len).unwrap()];
        let first = FileSink::resume(&path, origin(), false).await.unwrap();
        first.write_at(0, bytes(1, half).into()).await.unwrap();
        first
            .checkpoint(&RangeSet::up_to(half), false)
            .await
            .unwrap();
        drop(first);
        let sink = FileSink::resume(&path, origin(), false).await.unwrap();
        assert_eq!(sink.held(), RangeSet::up_to(half));
        sink.expect_again(Range64::new(half - 100, half).into_iter().collect());
        assert!(!sink.takes_pipes());
        // Also a small block, the first of all, which no sink withholds then.
        let mixed = [bytes(1, 60), bytes(2, 1)].concat();
        let refused = sink.write_at(half - 100, mixed.into()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Mismatch);
        assert!(sink.differs());
        assert_eq!(
            sink.read_back(half - 100, 100).await.unwrap(),
            bytes(1, 100)
        );
        drop(sink);

        let sink = FileSink::resume(&path, origin(), false).await.unwrap();
        sink.expect_again(Range64::new(half - 100, half).into_iter().collect());
        // Bytes before and behind them may be any.
        let around = [bytes(3, 50), bytes(1, 100), bytes(3, half)].concat();
        sink.write_at(half - 150, around.into()).await.unwrap();
        assert!(!sink.differs());
        sink.finish(Finish::whole(SIZE)).await.unwrap();
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(whole.len() as u64, SIZE);
        assert_eq!(
            whole.iter().filter(|byte| **byte == 1).count() as u64,
            half - 50
        );
    }
}
