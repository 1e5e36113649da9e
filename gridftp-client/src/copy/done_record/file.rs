//! The file of a record of finished files: its title, its lines, and its lifetime.

use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use crate::copy::notes;
use crate::partials::OLD;

/// Start of the title of a record.
const TITLE: &str = "gridftp-done 1 ";

/// Start of the names of records.
pub(super) const PREFIX: &str = "done-";

/// Most lines of a record: the files behind them are copied again. 66 MiB, and 32 MiB of memory.
pub(super) const MOST: usize = 1 << 21;

/// Digits of a line, and its bytes.
pub(super) const DIGITS: usize = 32;
pub(super) const LINE: usize = DIGITS + 1;

/// The title of a record with the time in which it counts: for ever where finished files last, else
/// until the machine restarts; `None` where that is unknown.
pub(super) fn title(lasts: bool) -> Option<String> {
    Some(format!("{TITLE}{}\n", lifetime(lasts)?))
}

/// The time in which a record counts, as its title has it.
pub(super) fn lifetime(lasts: bool) -> Option<String> {
    if lasts {
        return Some("durable".to_owned());
    }
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let boot = boot.trim();
    (!boot.is_empty()).then(|| boot.to_owned())
}

/// Reads the lines before the first broken one; `None` of another lifetime.
pub(super) fn read(file: &File, title: &str) -> Option<Vec<u128>> {
    let (mut input, mut begin) = (BufReader::new(file), vec![0; title.len()]);
    input.read_exact(&mut begin).ok()?;
    if begin != title.as_bytes() {
        return None;
    }
    let (mut lines, mut bytes) = (Vec::new(), [0; LINE]);
    while lines.len() < MOST
        && input.read_exact(&mut bytes).is_ok()
        && let Some(line) = parse(&bytes)
    {
        lines.push(line);
    }
    Some(lines)
}

fn parse(line: &[u8]) -> Option<u128> {
    let digits = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    u128::from_str_radix(digits, 16).ok()
}

/// Has the file end behind its title and `count` lines.
pub(super) fn start(file: &mut File, title: &str, count: usize) -> std::io::Result<()> {
    if count == 0 {
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        return file.write_all(title.as_bytes());
    }
    let end = title.len().saturating_add(count.saturating_mul(LINE));
    let end = u64::try_from(end).map_err(std::io::Error::other)?;
    file.set_len(end)?;
    file.seek(SeekFrom::Start(end)).map(drop)
}

/// Removes the records that nobody has continued for a week.
pub(super) fn expire(notes: &Path) {
    for entry in std::fs::read_dir(notes).into_iter().flatten().flatten() {
        let modified = || entry.metadata().ok()?.modified().ok();
        let age = || modified()?.elapsed().ok();
        let name = entry.file_name();
        let is_record = name.as_encoded_bytes().starts_with(PREFIX.as_bytes());
        if !is_record || age().is_none_or(|age| age <= OLD) {
            continue;
        }
        let locked = notes::open(&entry.path(), false);
        if locked.is_some() {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
