//! The lines of a listing that wait in a file without a name until there is room for them.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Error, Seek as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use super::job::Above;

/// Bytes read or written at once.
const PIECE: usize = 64 * 1024;

/// Names that may come again in one listing.
const MOST_AGAIN: usize = 1 << 16;

/// Partitions of the names, by the first byte of their hash.
const PARTITIONS: usize = 256;
/// Records in one block of a partition.
const RECORDS: usize = 170;
/// Bytes of a block: the number of the block before it, and its records.
const BLOCK: usize = (1 + 3 * RECORDS) * size_of::<u64>();

/// The hash of a name, the number of its line, the hash of its object.
type Record = [u64; 3];

/// The lines of a listing that still comes.
#[derive(Debug)]
pub(super) struct SpoolWriter {
    lines: BufWriter<File>,
    hashes: Hashes,
    count: u64,
}

impl SpoolWriter {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {
            lines: BufWriter::with_capacity(PIECE, tempfile::tempfile()?),
            hashes: Hashes::new(tempfile::tempfile()?),
            count: 0,
        })
    }

    /// Adds a line, given without its end, with the hashes of its name and, where that is known, of
    /// the object that it names.
    pub(super) fn add(
        &mut self,
        line: &[u8],
        name: u64,
        object: Option<u64>,
    ) -> std::io::Result<()> {
        // Objects of which nothing is known are each another one.
        let object = object.unwrap_or(self.count);
        self.hashes.add([name, self.count, object])?;
        self.count += 1;
        self.lines.write_all(line)?;
        self.lines.write_all(b"\n")
    }

    /// Ends the listing of a directory; `above` is the chain for its entries.
    ///
    /// # Cancel safety
    /// Dropping the future ends the work within a partition.
    pub(super) async fn end(self, above: Option<Arc<Above>>) -> std::io::Result<SpoolReader> {
        let (to, rest) = oneshot::channel();
        spawn_blocking(move || {
            let rest = self.rest(above, || to.is_closed());
            // Best effort: the listing may have been given up meanwhile.
            drop(to.send(rest));
        });
        let stopped = |_| Err(Error::other("the runtime stops"));
        rest.await.unwrap_or_else(stopped)
    }

    fn rest(
        self,
        above: Option<Arc<Above>>,
        is_cancelled: impl Fn() -> bool,
    ) -> std::io::Result<SpoolReader> {
        let again = self.hashes.again(is_cancelled)?;
        let lines = self.lines.into_inner();
        let mut lines = lines.map_err(|error| error.into_error())?;
        lines.rewind()?;
        Ok(SpoolReader {
            lines: BufReader::with_capacity(PIECE, lines),
            again,
            at: 0,
            above,
        })
    }
}

/// Records in a file, partitioned as they come, so that equal names are found by reading it once
/// and in the memory of one partition.
#[derive(Debug)]
struct Hashes {
    file: File,
    /// Blocks in the file.
    blocks: u64,
    partitions: Vec<Partition>,
}

#[derive(Debug, Clone, Default)]
struct Partition {
    /// The last of its blocks in the file, counted from 1; each leads to the one before it, the
    /// first to 0.
    last: u64,
    /// Records for the next block.
    records: Vec<Record>,
}

impl Hashes {
    fn new(file: File) -> Self {
        Self {
            file,
            blocks: 0,
            partitions: vec![Partition::default(); PARTITIONS],
        }
    }

    fn add(&mut self, record: Record) -> std::io::Result<()> {
        let [first, ..] = record.map(|word| word.to_be_bytes()[0]);
        let Some(partition) = self.partitions.get_mut(usize::from(first)) else {
            unreachable!("there is a partition for each byte");
        };
        partition.records.push(record);
        if partition.records.len() == RECORDS {
            let mut block = Vec::with_capacity(BLOCK);
            block.extend(partition.last.to_le_bytes());
            let words = partition.records.drain(..).flatten();
            block.extend(words.flat_map(u64::to_le_bytes));
            self.file.write_all(&block)?;
            self.blocks += 1;
            partition.last = self.blocks;
        }
        Ok(())
    }

    /// Finds the lines that repeat a name, in their order: the number of each, and whether it
    /// names the same object.
    fn again(self, is_cancelled: impl Fn() -> bool) -> std::io::Result<VecDeque<(u64, bool)>> {
        let mut found = Vec::new();
        for partition in self.partitions {
            if is_cancelled() {
                return Err(Error::other("the listing was given up"));
            }
            let mut records = partition.read(&self.file)?;
            records.sort_unstable();
            let mut first = None;
            for [name, at, object] in records {
                match first {
                    Some((known, of)) if known == name => found.push((at, of == object)),
                    _ => first = Some((name, object)),
                }
                if found.len() > MOST_AGAIN {
                    return Err(Error::other("the listing names too many of them again"));
                }
            }
        }
        found.sort_unstable();
        Ok(found.into())
    }
}

impl Partition {
    /// Gives all records, in any order.
    fn read(self, file: &File) -> std::io::Result<Vec<Record>> {
        let Self {
            mut last,
            mut records,
        } = self;
        let mut block = vec![0; BLOCK];
        while last > 0 {
            file.read_exact_at(&mut block, (last - 1) * BLOCK as u64)?;
            let words = block.chunks_exact(size_of::<u64>());
            let mut words = words.map(|word| word.try_into().map_or(0, u64::from_le_bytes));
            last = words.next().unwrap_or(0);
            while let (Some(name), Some(at), Some(object)) =
                (words.next(), words.next(), words.next())
            {
                records.push([name, at, object]);
            }
        }
        Ok(records)
    }
}

/// The lines of a listing that are not taken yet.
#[derive(Debug)]
pub(crate) struct SpoolReader {
    lines: BufReader<File>,
    /// Lines that repeat a name, and whether for the same object.
    again: VecDeque<(u64, bool)>,
    /// Lines read so far.
    at: u64,
    pub(super) above: Option<Arc<Above>>,
}

/// A line of a listing.
#[derive(Debug)]
pub(super) enum Line {
    /// One with a new name.
    First(Vec<u8>),
    /// One with the name of another object.
    Twin(Vec<u8>),
}

impl SpoolReader {
    /// Takes at most `most` lines, without those that name an object again; none is the end.
    pub(super) fn next(&mut self, most: usize) -> std::io::Result<Vec<Line>> {
        let mut taken = Vec::new();
        while taken.len() < most {
            let mut line = Vec::new();
            if self.lines.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            line.pop();
            let next = self.again.front().copied();
            let again = next.filter(|(at, _)| *at == self.at);
            self.again.drain(..usize::from(again.is_some()));
            self.at += 1;
            match again {
                None => taken.push(Line::First(line)),
                Some((_, false)) => taken.push(Line::Twin(line)),
                Some((_, true)) => {}
            }
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Bytes that this thread has read.
    fn bytes_read() -> u64 {
        let io = std::fs::read_to_string("/proc/thread-self/io").unwrap();
        let line = io.lines().find_map(|line| line.strip_prefix("rchar: "));
        line.unwrap().parse().unwrap()
    }

    /// Keeps so many lines, each with a name of its own.
    fn keep(count: u64) -> SpoolWriter {
        let mut spool = SpoolWriter::new().unwrap();
        for n in 0..count {
            spool.add(b"", n << 50 | n, None).unwrap();
        }
        spool
    }

    #[test]
    fn the_names_of_a_listing_are_read_once_however_many_there_are() {
        let count = 10 * (1 << 16);
        let spool = keep(count);
        let before = bytes_read();
        let rest = spool.rest(None, || false).unwrap();
        let read = bytes_read() - before;
        assert!(read < 2 * 24 * count, "{read} bytes for {count} names");
        assert!(rest.again.is_empty());
    }

    #[test]
    fn names_that_come_again_are_found_however_far_apart() {
        for between in [0, 1, 1000 * PARTITIONS as u64] {
            let mut spool = SpoolWriter::new().unwrap();
            let mut want = Vec::new();
            for (name, object, again) in [
                (3, Some(1), None),
                (4, None, None),
                (3, Some(1), Some(true)),
                (4, None, Some(false)),
                (3, Some(2), Some(false)),
            ] {
                want.extend(again.map(|same| (spool.count, same)));
                spool.add(b"line", name, object).unwrap();
                for n in 0..between {
                    let other = 5 + spool.count;
                    spool.add(b"line", n << 56 | other, None).unwrap();
                }
            }
            let rest = spool.rest(None, || false).unwrap();
            assert_eq!(rest.again, want, "{between}");
        }
    }

    #[test]
    fn a_listing_that_is_given_up_is_read_no_further() {
        let spool = keep(100_000);
        let before = bytes_read();
        spool.rest(None, || true).unwrap_err();
        assert!(bytes_read() - before < BLOCK as u64);
    }

    /// Other tasks run on this one thread only while the listing waits for another.
    #[tokio::test]
    async fn names_are_compared_on_a_thread_for_blocking_work() {
        let ran = Arc::new(AtomicBool::new(false));
        let other = Arc::clone(&ran);
        tokio::spawn(async move { other.store(true, Ordering::Relaxed) });
        keep(10).end(None).await.unwrap();
        assert!(ran.load(Ordering::Relaxed));
    }
}
