//! The records of the ranges in a partial file, beside it and always replaced as a whole.

use std::fmt;
use std::io::Read;
use std::sync::OnceLock;

use byte_ranges::RangeSet;
use gridftp_dsi::hasher::Hasher;
use gridftp_dsi::types::ChecksumAlgorithm;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use crate::copy::write_on;
use crate::names::Names;
use crate::stat::modified;

const TITLE: &str = "gridftp-held 1";

/// The lifetime of a record that is on the medium, written after its bytes.
const DURABLE: &str = "durable";

/// Most ranges of a record; it may have fewer than are written, never more.
const MAX_RANGES: usize = byte_ranges::text::DEFAULT_MAX_RANGES;

/// Largest record, in bytes: two numbers of 20 digits for each range, and the other fields.
const MAX_LEN: u64 = 42 * 32_768 + 4096;

/// Longest name of a source in a record, in bytes.
const MAX_ORIGIN: usize = 2048;

/// The lifetime of a record: without a sync, it is valid until the machine restarts.
fn lifetime(durable: bool) -> &'static str {
    match durable {
        true => DURABLE,
        false => boot(),
    }
}

/// The name that the kernel gave this boot; empty where it gives none.
fn boot() -> &'static str {
    static BOOT: OnceLock<String> = OnceLock::new();
    BOOT.get_or_init(|| {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        id.trim().to_owned()
    })
}

/// An identity of this boot for others, which does not tell its name.
pub(crate) fn boot_identity() -> Option<u128> {
    let boot = Some(boot()).filter(|boot| !boot.is_empty())?;
    let mut hasher = Hasher::new(ChecksumAlgorithm::Blake3)?;
    hasher.update(b"gridftp boot ");
    hasher.update(boot.as_bytes());
    u128::from_str_radix(hasher.finish().get(..32)?, 16).ok()
}

/// The record of one partial file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// The ranges held.
    pub(crate) held: RangeSet,
    /// The published file that an update is a copy of.
    pub(crate) over: Option<Over>,
    /// The name of the partial file's entry in the index.
    pub(crate) entry: Option<String>,
    /// The source that the bytes are a copy of, where it was told.
    pub(crate) origin: Option<Origin>,
    /// Bytes of the whole file, where the upload told them.
    pub(crate) size: Option<u64>,
    /// The time at which the partial file was created, in the record of the bytes on the medium.
    pub(crate) born: Option<Born>,
    /// Whether only a digest of the whole file proves the ranges, as a crash of the machine may have
    /// changed their bytes.
    pub(crate) unproven: bool,
}

/// The time at which a file was created: seconds since 1970 and nanoseconds; zeros where the file
/// system keeps none. Unlike the inode, it tells a file from one that was removed before.
pub(crate) type Born = (i64, u32);

/// The time at which the file `name` of `dir` was created; of `dir` itself for the empty name.
pub(crate) fn born(dir: impl AsFd, name: &[u8]) -> Born {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
    match rustix::fs::statx(dir, name, flags, StatxFlags::BTIME) {
        Ok(stat) if stat.stx_mask & StatxFlags::BTIME.bits() != 0 => {
            (stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec)
        }
        _ => (0, 0),
    }
}

fn parse_born(text: &str) -> Option<Born> {
    let (seconds, nanos) = text.split_once(' ')?;
    Some((seconds.parse().ok()?, nanos.parse().ok()?))
}

/// One version of the source that a partial file is a copy of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    name: String,
    size: u64,
    modified: (i64, u32),
}

impl Origin {
    /// The source called `name`, of `size` bytes, modified then: seconds since 1970 and
    /// nanoseconds. `None` if the name is too long for a record.
    pub fn new(name: &[u8], size: u64, modified: (i64, u32)) -> Option<Self> {
        let name = name.escape_ascii().to_string();
        (name.len() <= MAX_ORIGIN).then_some(Self {
            name,
            size,
            modified,
        })
    }

    /// Its name, with bytes that do not print as escapes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its size, in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(4, ' ');
        let size = words.next()?.parse().ok()?;
        let modified = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let name = words.next()?.to_owned();
        Some(Self {
            name,
            size,
            modified,
        })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            size,
            modified,
        } = self;
        write!(f, "{size} {} {} {name}", modified.0, modified.1)
    }
}

/// The identity of one version of a published file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Over {
    /// Its length, in bytes.
    pub(crate) size: u64,
    inode: u64,
    modified: (i64, u32),
}

impl Over {
    pub(crate) fn of(stat: &rustix::fs::Stat) -> Self {
        Self {
            size: u64::try_from(stat.st_size).unwrap_or(0),
            inode: stat.st_ino,
            modified: modified(stat),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let over = Self {
            size: words.next()?.parse().ok()?,
            inode: words.next()?.parse().ok()?,
            modified: (words.next()?.parse().ok()?, words.next()?.parse().ok()?),
        };
        words.next().is_none().then_some(over)
    }
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            size,
            inode,
            modified,
        } = self;
        write!(f, "{size} {inode} {} {}", modified.0, modified.1)
    }
}

/// The text form of `record`.
fn text(name: &[u8], inode: u64, record: &Record, lifetime: &str) -> String {
    let some: RangeSet = record.held.iter().take(MAX_RANGES).collect();
    let name = name.escape_ascii();
    let mut body = format!("{TITLE}\nname {name}\ninode {inode}\nlifetime {lifetime}\n");
    if let Some(over) = &record.over {
        body.push_str(&format!("over {over}\n"));
    }
    if let Some(entry) = &record.entry {
        body.push_str(&format!("entry {entry}\n"));
    }
    if let Some(origin) = &record.origin {
        body.push_str(&format!("from {origin}\n"));
    }
    if let Some(size) = record.size {
        body.push_str(&format!("size {size}\n"));
    }
    if let Some((seconds, nanos)) = record.born {
        body.push_str(&format!("born {seconds} {nanos}\n"));
    }
    if record.unproven {
        body.push_str("bytes unproven\n");
    }
    body.push_str(&format!("held {some}\n"));
    let sum = crc32c::crc32c(body.as_bytes());
    format!("{body}crc32c {sum:08x}\n")
}

/// Replaces the record for the partial file of `name`, with the number `inode`, in one step.
///
/// With `durable` it survives a crash of the machine; the caller has synced the bytes before.
pub(crate) fn write(
    dir: BorrowedFd<'_>,
    names: &Names,
    name: &[u8],
    inode: u64,
    record: &Record,
    durable: bool,
) -> Result<(), Errno> {
    let file = create(dir, &names.next)?;
    fill(file.as_fd(), (name, inode), record, durable)?;
    rustix::fs::renameat(dir, names.next.as_slice(), dir, names.held.as_slice())?;
    if durable { sync_dir(dir) } else { Ok(()) }
}

/// Creates the file `name`, empty, for a record that is to replace the last one.
pub(crate) fn create(dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags =
        OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::openat(dir, name, flags | OFlags::CLOEXEC, mode)
}

/// Writes `record` for the partial file of `name`, with the number `inode`, to an empty file; with
/// `durable`, syncs that file.
pub(crate) fn fill(
    file: BorrowedFd<'_>,
    (name, inode): (&[u8], u64),
    record: &Record,
    durable: bool,
) -> Result<(), Errno> {
    let text = text(name, inode, record, lifetime(durable));
    write_on(file, text.as_bytes())?;
    match durable {
        true => crate::uninterrupted::fsync(file),
        false => Ok(()),
    }
}

/// Syncs the names in `dir` to the medium.
pub(crate) fn sync_dir(dir: BorrowedFd<'_>) -> Result<(), Errno> {
    // `dir` is an `O_PATH` descriptor, which cannot be synced.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    crate::uninterrupted::fsync(rustix::fs::openat(dir, c".", flags, Mode::empty())?)
}

/// Reads the record `from` for the partial file of `name`; `None` unless it is intact and for
/// `inode`.
pub(crate) fn read(dir: impl AsFd, from: &[u8], name: &[u8], inode: u64) -> Option<Record> {
    parse(&text_of(dir, from)?, Some(name), inode)
}

/// Reads the record `held` for the partial file of a name that is not known, also one that a restart
/// of the machine has ended; `None` unless it is intact and for `inode`.
pub(crate) fn read_any(dir: impl AsFd, held: &[u8], inode: u64) -> Option<Record> {
    parse(&text_of(dir, held)?, None, inode)
}

fn text_of(dir: impl AsFd, held: &[u8]) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(dir, held, flags, Mode::empty()).ok()?;
    let mut text = String::new();
    std::fs::File::from(fd)
        .take(MAX_LEN)
        .read_to_string(&mut text)
        .ok()?;
    Some(text)
}

fn parse(text: &str, name: Option<&[u8]>, inode: u64) -> Option<Record> {
    let (body, sum) = text.split_at_checked(text.rfind("crc32c ")?)?;
    let sum = u32::from_str_radix(sum.strip_prefix("crc32c ")?.strip_suffix('\n')?, 16).ok()?;
    if sum != crc32c::crc32c(body.as_bytes()) {
        return None;
    }
    let mut lines = body.lines();
    let mut field = |key: &str| lines.next()?.strip_prefix(key);
    if !field(TITLE)?.is_empty()
        || !is_name(field("name ")?, name)
        || field("inode ")?.parse() != Ok(inode)
    {
        return None;
    }
    let life = field("lifetime ")?;
    if name.is_some() && life != DURABLE && (life.is_empty() || life != lifetime(false)) {
        return None;
    }
    let mut record = Record::default();
    for line in lines {
        match line.split_once(' ')? {
            ("over", over) => record.over = Some(Over::parse(over)?),
            ("entry", entry) => record.entry = Some(entry.to_owned()),
            ("from", origin) => record.origin = Some(Origin::parse(origin)?),
            ("size", size) => record.size = Some(size.parse().ok()?),
            ("born", born) => record.born = Some(parse_born(born)?),
            ("bytes", "unproven") => record.unproven = true,
            ("held", "") => return Some(record),
            ("held", held) => {
                record.held = byte_ranges::text::parse(held.as_bytes(), MAX_RANGES).ok()?;
                return Some(record);
            }
            _ => return None,
        }
    }
    None
}

fn is_name(field: &str, name: Option<&[u8]>) -> bool {
    name.is_none_or(|name| field == name.escape_ascii().to_string())
}

/// Removes the records of a partial file, if there are any.
pub(crate) fn remove(dir: BorrowedFd<'_>, records: &[Vec<u8>]) -> Result<(), Errno> {
    for record in records {
        match rustix::fs::unlinkat(dir, record.as_slice(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use byte_ranges::Range64;
    use proptest::prelude::*;

    use super::*;

    fn held(held: RangeSet) -> Record {
        Record {
            held,
            ..Record::default()
        }
    }

    #[test]
    fn a_record_is_valid_only_intact_and_for_its_own_file() {
        let held: RangeSet = [(0, 10), (20, 30)]
            .into_iter()
            .filter_map(|(a, b)| Range64::new(a, b))
            .collect();
        let over = Over {
            size: 5,
            inode: 6,
            modified: (-7, 8),
        };
        let plain = Record::default();
        let full = Record {
            held,
            over: Some(over),
            entry: Some("0f".to_owned()),
            origin: Origin::new(b"host/a b\n", 9, (-3, 4)),
            size: Some(12),
            born: Some((-5, 6)),
            unproven: true,
        };
        for record in [full, plain] {
            let text = text(b"a b\n", 7, &record, lifetime(false));
            assert_eq!(parse(&text, Some(b"a b\n"), 7), Some(record));
            assert_eq!(parse(&text, Some(b"a b\n"), 8), None);
            assert_eq!(parse(&text, Some(b"a b"), 7), None);
            assert_eq!(parse(&text, None, 8), None);
            for cut in 0..text.len() {
                assert_eq!(parse(&text[..cut], Some(b"a b\n"), 7), None, "{cut}");
            }
            assert_eq!(
                parse(&text.replace("held ", "held 1"), Some(b"a b\n"), 7),
                None
            );
        }
    }

    proptest! {
        #[test]
        fn a_record_is_read_as_it_was_written(
            name in prop::collection::vec(any::<u8>(), 1..40),
            inode: u64,
            ranges in prop::collection::vec((any::<u64>(), any::<u64>()), 0..20),
            over in prop::option::of(any::<(u64, u64, i64, u32)>()),
            entry in prop::option::of(any::<u64>()),
            origin in prop::option::of(any::<(Vec<u8>, u64, i64, u32)>()),
            size in prop::option::of(any::<u64>()),
            born in prop::option::of(any::<(i64, u32)>()),
            (unproven, durable) in any::<(bool, bool)>(),
        ) {
            let record = Record {
                held: ranges.into_iter().filter_map(|(a, b)| Range64::new(a, b)).collect(),
                over: over.map(|(size, inode, seconds, nanos)| Over {
                    size,
                    inode,
                    modified: (seconds, nanos),
                }),
                entry: entry.map(|id| format!("{id:016x}")),
                origin: origin.and_then(|(name, size, seconds, nanos)| {
                    Origin::new(&name, size, (seconds, nanos))
                }),
                size,
                born,
                unproven,
            };
            let text = text(&name, inode, &record, lifetime(durable));
            prop_assert_eq!(parse(&text, Some(&name), inode), Some(record.clone()));
            prop_assert_eq!(parse(&text, None, inode), Some(record));
            prop_assert_eq!(parse(&text, Some(&name), inode ^ 1), None);
        }
    }

    /// Those of servers that know of no record of the bytes on the medium.
    #[test]
    fn records_without_the_time_of_creation_are_read() {
        let body = "gridftp-held 1\nname f\ninode 7\nlifetime durable\nentry 0f\nheld 0-9\n";
        let sum = crc32c::crc32c(body.as_bytes());
        let record = parse(&format!("{body}crc32c {sum:08x}\n"), Some(b"f"), 7).unwrap();
        assert_eq!(record.held, RangeSet::up_to(9));
        assert_eq!((record.born, record.unproven), (None, false));
    }

    #[test]
    fn after_a_crash_of_the_machine_only_synced_records_are_valid() {
        let record = held(RangeSet::up_to(10));
        let parsed = |lifetime: &str| parse(&text(b"n", 1, &record, lifetime), Some(b"n"), 1);
        assert_eq!(parsed(lifetime(false)), Some(record.clone()));
        assert_eq!(parsed(lifetime(true)), Some(record.clone()));
        assert_eq!(parsed("0e9cbd8e-0000-0000-0000-of-another-start"), None);
        assert_eq!(parsed(""), None);
    }

    #[test]
    fn a_record_names_a_bounded_number_of_ranges() {
        let many: RangeSet = (0..40_000)
            .filter_map(|i| Range64::new(i * 2, i * 2 + 1))
            .collect();
        let text = text(b"n", 1, &held(many), DURABLE);
        assert!(u64::try_from(text.len()).unwrap() < MAX_LEN);
        assert_eq!(parse(&text, Some(b"n"), 1).unwrap().held.len(), MAX_RANGES);
    }
}
