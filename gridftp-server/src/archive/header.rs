//! Headers of a tar archive: ustar, with a pax header where a field is too narrow.

/// Bytes of a block of an archive.
pub(super) const BLOCK: usize = 512;

/// Largest numbers of the fields of 8 and of 12 bytes.
const NARROW: u64 = 0o7_777_777;
const WIDE: u64 = 0o77_777_777_777;

/// The type of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    File,
    Link,
    Directory,
    Fifo,
}

impl Type {
    const fn flag(self) -> u8 {
        match self {
            Self::File => b'0',
            Self::Link => b'2',
            Self::Directory => b'5',
            Self::Fifo => b'6',
        }
    }
}

/// An entry of an archive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header<'a> {
    pub(super) kind: Type,
    /// The path within the archive, a slash at the end of a directory's.
    pub(super) path: &'a [u8],
    /// Target of a link.
    pub(super) target: &'a [u8],
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) size: u64,
    pub(super) modified: (i64, u32),
}

impl Header<'_> {
    /// Appends the blocks before the bytes of the entry.
    pub(super) fn write(&self, to: &mut Vec<u8>) {
        let records = self.records();
        if !records.is_empty() {
            let name = [b"PaxHeaders/", last(self.path)].concat();
            let size = len(&records);
            let pax = Header {
                path: &name,
                target: b"",
                size,
                ..*self
            };
            pax.block(b'x', to);
            to.extend_from_slice(&records);
            to.resize(to.len() + padding(size), 0);
        }
        self.block(self.kind.flag(), to);
    }

    /// The pax records of the fields that a ustar header cannot hold.
    fn records(&self) -> Vec<u8> {
        let mut records = Vec::new();
        let (seconds, nanos) = self.modified;
        let is_long = split(self.path).is_none();
        let is_far = self.target.len() > 100;
        let names = [(is_long, self.path), (is_far, self.target)];
        let wide = names.iter().filter(|(is_wide, _)| *is_wide);
        if wide
            .into_iter()
            .any(|(_, name)| std::str::from_utf8(name).is_err())
        {
            record(&mut records, "hdrcharset", b"BINARY");
        }
        if is_long {
            record(&mut records, "path", self.path);
        }
        if is_far {
            record(&mut records, "linkpath", self.target);
        }
        if self.size > WIDE {
            record(&mut records, "size", self.size.to_string().as_bytes());
        }
        for (key, id) in [("uid", self.uid), ("gid", self.gid)] {
            if u64::from(id) > NARROW {
                record(&mut records, key, id.to_string().as_bytes());
            }
        }
        if nanos > 0 || u64::try_from(seconds).is_ok_and(|seconds| seconds > WIDE) || seconds < 0 {
            record(&mut records, "mtime", time(seconds, nanos).as_bytes());
        }
        records
    }

    /// Appends the ustar header; fields that are too narrow hold as much as they can.
    fn block(&self, flag: u8, to: &mut Vec<u8>) {
        let start = to.len();
        let (prefix, name) = split(self.path).unwrap_or((b"", self.path));
        let seconds = u64::try_from(self.modified.0).unwrap_or(0);
        text(to, name, 100);
        octal(to, (self.mode & 0o7777).into(), 8);
        octal(to, self.uid.into(), 8);
        octal(to, self.gid.into(), 8);
        octal(to, self.size, 12);
        octal(to, seconds, 12);
        let sum_at = to.len();
        to.extend_from_slice(b"        ");
        to.push(flag);
        text(to, self.target, 100);
        to.extend_from_slice(b"ustar\x0000");
        // Names of user and group, and the numbers of a device.
        to.resize(to.len() + 32 + 32 + 16, 0);
        text(to, prefix, 155);
        to.resize(start + BLOCK, 0);
        let block = to.get(start..).unwrap_or_default();
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        if let Some(field) = to.get_mut(sum_at..sum_at + 8) {
            field.copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        }
    }
}

/// Zeros behind `size` bytes, up to the end of a block.
pub(super) fn padding(size: u64) -> usize {
    let over = usize::try_from(size % BLOCK as u64).unwrap_or(0);
    (BLOCK - over) % BLOCK
}

fn len(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// Splits a path into the two fields of a ustar header, at a slash; `None` if it does not fit.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    if path.len() <= 100 {
        return Some((b"", path));
    }
    // The last slash of a directory's path belongs to its name.
    let inner = path.get(..path.len() - 1)?;
    let fitting = inner.iter().enumerate().take(156);
    let at = fitting
        .filter(|(at, byte)| **byte == b'/' && *at > 0)
        .map(|(at, _)| at)
        .next_back()?;
    let name = path.get(at + 1..).filter(|name| name.len() <= 100)?;
    Some((path.get(..at)?, name))
}

/// The last component of a path.
fn last(path: &[u8]) -> &[u8] {
    let mut parts = path.split(|byte| *byte == b'/');
    parts.rfind(|part| !part.is_empty()).unwrap_or(b".")
}

fn text(to: &mut Vec<u8>, value: &[u8], width: usize) {
    let end = to.len() + width;
    to.extend_from_slice(value.get(..width).unwrap_or(value));
    to.resize(end, 0);
}

fn octal(to: &mut Vec<u8>, value: u64, width: usize) {
    let most = if width == 12 { WIDE } else { NARROW };
    let digits = format!("{:0digits$o}\0", value.min(most), digits = width - 1);
    to.extend_from_slice(digits.as_bytes());
}

/// Appends a record, which begins with its own length.
fn record(to: &mut Vec<u8>, key: &str, value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut length = rest;
    while rest + length.to_string().len() != length {
        length = rest + length.to_string().len();
    }
    to.extend_from_slice(format!("{length} {key}=").as_bytes());
    to.extend_from_slice(value);
    to.push(b'\n');
}

/// Seconds since 1970 with their fraction, which counts down from 0 before that time.
fn time(seconds: i64, nanos: u32) -> String {
    let total = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    let (sign, total) = (if total < 0 { "-" } else { "" }, total.unsigned_abs());
    let (whole, part) = (total / 1_000_000_000, total % 1_000_000_000);
    format!("{sign}{whole}.{part:09}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_count_their_own_length() {
        for (value, expected) in [("", 5), ("xx", 7), ("xxx", 8), ("xxxx", 9), ("xxxxx", 11)] {
            let mut out = Vec::new();
            record(&mut out, "k", value.as_bytes());
            assert_eq!(out.len(), expected);
            assert!(out.starts_with(format!("{expected} k=").as_bytes()));
        }
    }

    #[test]
    fn times_before_1970_are_negative() {
        assert_eq!(time(-1, 500_000_000), "-0.500000000");
        assert_eq!(time(-2, 0), "-2.000000000");
        assert_eq!(time(3, 1), "3.000000001");
    }

    #[test]
    fn long_paths_are_split_at_a_slash() {
        let path = [&[b'a'; 90][..], b"/", &[b'b'; 90], b"/"].concat();
        let (prefix, name) = split(&path).unwrap();
        assert_eq!((prefix.len(), name.len()), (90, 91));
        assert_eq!(split(&[b'a'; 101]), None);
        assert_eq!(split(&[&[b'a'; 160][..], b"/b"].concat()), None);
    }
}
