//! Speed of a disk of this host: a file that is written, synced and read back.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use gsi::finding::Finding;

const TOPIC: &str = "disk";
const REMEDY: &str = "name a directory that can be written to by --disk DIR";
/// Size of the file in bytes.
const SIZE: u64 = 64 << 20;
/// Bytes that are written at once.
const BLOCK: usize = 1 << 20;
/// Time for each of writing and reading; a slow disk gets less of the file.
const WITHIN: Duration = Duration::from_secs(10);
/// Longest time for all, as a sync has no end of its own.
const LATEST: Duration = Duration::from_secs(40);

/// Writes a file of 64 MiB in `directory`, syncs it and reads it back, and tells the rates; `None`
/// is the current directory, for a caller who asked for none, where a failure is but a warning. The
/// file has no name, and is gone afterwards, however this ends.
///
/// # Cancel safety
/// Dropping the future lets the work go on for less than a minute on its thread.
pub async fn examine_disk(directory: Option<&Path>) -> Finding {
    let place = directory.unwrap_or_else(|| Path::new(".")).to_owned();
    let name = place.display().to_string();
    let work = tokio::task::spawn_blocking(move || measure(&place, SIZE, WITHIN));
    match tokio::time::timeout(LATEST, work).await {
        Ok(Ok(Ok(measured))) => judge(&name, &measured),
        Ok(Ok(Err(error))) => failed(directory, &name, &error.to_string()),
        Ok(Err(error)) => failed(directory, &name, &error.to_string()),
        Err(_) => {
            let why = format!("not written and read within {} s", LATEST.as_secs());
            failed(directory, &name, &why)
        }
    }
}

/// The finding about a file that could not be written, or not be read.
fn failed(directory: Option<&Path>, name: &str, why: &str) -> Finding {
    let fact = format!("{name}: a file of {} MiB: {why}", SIZE >> 20);
    match directory {
        Some(_) => Finding::fail(TOPIC, fact, REMEDY),
        None => Finding::warn(TOPIC, fact, REMEDY),
    }
}

/// The measurements of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Measured {
    written: u64,
    wrote_for: Duration,
    read: u64,
    read_for: Duration,
    /// Whether the bytes read are those that were written.
    is_same: bool,
}

/// Writes up to `size` bytes within about this time, and reads them back within as much.
fn measure(directory: &Path, size: u64, within: Duration) -> io::Result<Measured> {
    // It has no name, or loses it at once, so that nothing is left behind by a kill.
    let mut file = tempfile::tempfile_in(directory)?;
    let mut block = noise();
    let step = BLOCK as u64;
    let begun = Instant::now();
    let mut written = 0_u64;
    // Each round takes as long as all before it, if the disk is as fast.
    while written < size && (written == 0 || begun.elapsed() < within / 2) {
        let until = (written * 2).clamp(step, size);
        while written < until {
            stamp(&mut block, written);
            file.write_all(&block)?;
            written += step;
        }
        // Memory takes writes at any rate.
        file.sync_data()?;
    }
    let wrote_for = begun.elapsed();
    forget(&file);
    file.rewind()?;
    let (mut got, mut read, mut is_same) = (vec![0; BLOCK], 0, true);
    let begun = Instant::now();
    while read < written && (read == 0 || begun.elapsed() < within) {
        file.read_exact(&mut got)?;
        stamp(&mut block, read);
        is_same &= got == block;
        read += step;
    }
    Ok(Measured {
        written,
        wrote_for,
        read,
        read_for: begun.elapsed(),
        is_same,
    })
}

/// Has the kernel read the file from the disk again, as far as it does.
fn forget(file: &File) {
    // Best effort: a file system in memory has no other place.
    let _kept = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
}

/// A block that no file system makes smaller.
fn noise() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let words = std::iter::repeat_with(|| {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.flatten().take(BLOCK).collect()
}

/// Makes a block another than those at other places.
fn stamp(block: &mut [u8], at: u64) {
    if let Some(head) = block.first_chunk_mut() {
        *head = at.to_le_bytes();
    }
}

/// The finding about a file that was written and read.
fn judge(name: &str, measured: &Measured) -> Finding {
    let fact = format!(
        "{name}: {} MiB written and synced at {} MiB/s, {} MiB read back at {} MiB/s",
        measured.written >> 20,
        rate(measured.written, measured.wrote_for),
        measured.read >> 20,
        rate(measured.read, measured.read_for)
    );
    match measured.is_same {
        true => Finding::ok(TOPIC, fact),
        false => {
            let fact = format!("{fact}, and other bytes than were written");
            Finding::fail(
                TOPIC,
                fact,
                "do not trust this disk: see the log of the kernel",
            )
        }
    }
}

/// A rate in MiB a second, with one decimal place.
pub(super) fn rate(bytes: u64, time: Duration) -> String {
    let tenths = (u128::from(bytes) * 10 * 1_000_000_000 / time.as_nanos().max(1)) >> 20;
    format!("{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use gsi::finding::Verdict;

    use super::*;

    #[test]
    fn a_file_is_written_and_read_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let size = 3 << 20;
        let measured = measure(directory.path(), size, WITHIN).unwrap();
        assert_eq!((measured.written, measured.read), (size, size));
        assert!(measured.is_same);
        // One that has no time is a block long.
        let short = measure(directory.path(), SIZE, Duration::ZERO).unwrap();
        assert_eq!((short.written, short.read), (1 << 20, 1 << 20));
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
        measure(&directory.path().join("missing"), size, WITHIN).unwrap_err();
    }

    #[test]
    fn rates_are_told_and_other_bytes_are_a_fault() {
        let mut measured = Measured {
            written: 64 << 20,
            wrote_for: Duration::from_millis(500),
            read: 32 << 20,
            read_for: Duration::from_secs(64),
            is_same: true,
        };
        let told = judge("/d", &measured);
        assert_eq!(told.verdict, Verdict::Ok);
        let rates = "/d: 64 MiB written and synced at 128.0 MiB/s, 32 MiB read back at 0.5 MiB/s";
        assert_eq!(told.fact, rates);
        measured.is_same = false;
        assert_eq!(judge("/d", &measured).verdict, Verdict::Fail);
        assert_eq!(rate(0, Duration::ZERO), "0.0");
    }

    #[test]
    fn blocks_differ() {
        let (mut one, mut other) = (noise(), noise());
        assert_eq!((one.len(), &one), (BLOCK, &other));
        stamp(&mut one, 0);
        stamp(&mut other, 1 << 20);
        assert_ne!(one, other);
        assert!(one.get(8..) == other.get(8..));
    }

    #[tokio::test]
    async fn a_directory_that_nobody_named_is_a_warning() {
        let missing = Path::new("/nonexistent/directory");
        let named = examine_disk(Some(missing)).await;
        assert_eq!(named.verdict, Verdict::Fail);
        assert!(named.fact.contains("/nonexistent/directory"), "{named}");
        assert_eq!(failed(None, ".", "read-only").verdict, Verdict::Warn);
    }
}
