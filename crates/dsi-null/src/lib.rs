//! Storage that reads zeros of any size and discards all writes, for memory-to-memory runs.
//!
//! The name of a file is its size: `/1048576` holds that many zeros, `/10G` ten times 2^30 (`k`,
//! `M`, `G`, `T`, `P`), `/zero` the largest possible number and `/null` none. Text behind a dot and
//! leading directories are ignored, as in `/dir/64M.dat`. Every name can be written, and the bytes
//! are discarded.
//!
//! It uses no descriptor, system call or thread.
#![forbid(unsafe_code)]

use byte_ranges::{Range64, RangeSet};
use bytes::{Bytes, BytesMut};
use gridftp_dsi::{
    Capabilities, ChecksumAlgorithm, Create, Dsi, DsiPath, Error, ErrorKind, Finish, Kind, Listing,
    Meta, Progress, Result, Sink, Source, Stat, User, WriteModel,
};

/// Largest size of a file in bytes: the largest offset of the kernel.
const ENDLESS: u64 = i64::MAX.unsigned_abs();

/// The token of every upload: they have nothing to mix.
const TOKEN: &[u8] = b"null";

/// The backend that stores nothing.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Null;

impl Null {
    /// Creates the backend.
    pub fn new() -> Self {
        Self
    }
}

/// Size in bytes of the file `name`.
fn size_of(name: &[u8]) -> Option<u64> {
    let stem = name.split(|b| *b == b'.').next()?;
    match stem {
        b"zero" => return Some(ENDLESS),
        b"null" => return Some(0),
        _ => {}
    }
    let digits = stem.iter().take_while(|b| b.is_ascii_digit()).count();
    let (number, unit) = stem.split_at_checked(digits)?;
    let shift = match unit {
        b"" => 0,
        b"k" | b"K" => 10,
        b"M" => 20,
        b"G" => 30,
        b"T" => 40,
        b"P" => 50,
        _ => return None,
    };
    let number: u64 = std::str::from_utf8(number).ok()?.parse().ok()?;
    number
        .checked_mul(1 << shift)
        .filter(|size| *size <= ENDLESS)
}

fn may_write(user: &User, op: &'static str, path: &DsiPath) -> Result<()> {
    if user.may_write {
        Ok(())
    } else {
        Err(Error::new(ErrorKind::Denied, op).at(path))
    }
}

fn file(op: &'static str, path: &DsiPath) -> Result<Stat> {
    if path.is_root() {
        return Err(Error::new(ErrorKind::IsDirectory, op).at(path));
    }
    let size = size_of(path.name()).ok_or_else(|| Error::new(ErrorKind::NotFound, op).at(path))?;
    let mut stat = Stat::new(path.name(), Kind::File);
    stat.size = size;
    Ok(stat)
}

impl Dsi for Null {
    type Source = Zeros;
    type Sink = Void;
    type Listing = Nothing;

    fn capabilities(&self) -> Capabilities {
        Capabilities::new("null", WriteModel::Random)
            .with_keeps(false)
            .with_shared_uploads(true)
    }

    async fn stat(&self, _user: &User, path: &DsiPath) -> Result<Stat> {
        if path.is_root() {
            Ok(Stat::new("/", Kind::Directory))
        } else {
            file("stat", path)
        }
    }

    async fn list(&self, _user: &User, path: &DsiPath) -> Result<Nothing> {
        if path.is_root() {
            Ok(Nothing)
        } else {
            Err(Error::new(ErrorKind::NotDirectory, "list").at(path))
        }
    }

    async fn read(&self, _user: &User, path: &DsiPath) -> Result<Zeros> {
        Ok(Zeros {
            size: file("read", path)?.size,
        })
    }

    async fn write(&self, user: &User, path: &DsiPath, _how: Create) -> Result<Void> {
        may_write(user, "write", path)?;
        if path.is_root() {
            return Err(Error::new(ErrorKind::IsDirectory, "write").at(path));
        }
        Ok(Void {
            name: path.name().to_vec(),
            is_joined: false,
        })
    }

    async fn join(&self, user: &User, path: &DsiPath, token: &[u8]) -> Result<Void> {
        may_write(user, "join", path)?;
        if token != TOKEN {
            return Err(Error::new(ErrorKind::Denied, "join").at(path));
        }
        Ok(Void {
            name: path.name().to_vec(),
            is_joined: true,
        })
    }

    async fn make_dir(&self, user: &User, path: &DsiPath) -> Result<()> {
        may_write(user, "make directory", path)
    }

    async fn remove_dir(&self, user: &User, path: &DsiPath) -> Result<()> {
        may_write(user, "remove directory", path)
    }

    async fn remove(&self, user: &User, path: &DsiPath) -> Result<()> {
        may_write(user, "remove", path)
    }

    async fn remove_tree(&self, user: &User, path: &DsiPath) -> Result<()> {
        may_write(user, "remove tree", path)?;
        if path.is_root() {
            Err(Error::new(ErrorKind::Denied, "remove tree").at(path))
        } else {
            Ok(())
        }
    }

    async fn rename(&self, user: &User, from: &DsiPath, _to: &DsiPath) -> Result<()> {
        may_write(user, "rename", from)
    }

    async fn symlink(&self, _user: &User, _target: &[u8], link: &DsiPath) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "make link").at(link))
    }

    async fn set_meta(&self, user: &User, path: &DsiPath, _meta: Meta) -> Result<()> {
        may_write(user, "set metadata", path)
    }

    async fn truncate(&self, user: &User, path: &DsiPath, _length: u64) -> Result<()> {
        may_write(user, "truncate", path)
    }

    async fn checksum(
        &self,
        _user: &User,
        path: &DsiPath,
        _algorithm: ChecksumAlgorithm,
        _offset: u64,
        _length: Option<u64>,
        _progress: &Progress,
    ) -> Result<String> {
        Err(Error::new(ErrorKind::Unsupported, "checksum").at(path))
    }
}

/// Zeros open for reading.
#[derive(Debug)]
pub struct Zeros {
    size: u64,
}

impl Source for Zeros {
    fn size(&self) -> u64 {
        self.size
    }

    async fn read_at(&self, offset: u64, mut into: BytesMut) -> Result<BytesMut> {
        let spare = into.capacity() - into.len();
        let left = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX);
        into.resize(into.len() + spare.min(left), 0);
        Ok(into)
    }
}

/// A file that discards its bytes.
#[derive(Debug)]
pub struct Void {
    name: Vec<u8>,
    /// Whether it is the upload of another sink.
    is_joined: bool,
}

impl Sink for Void {
    async fn write_at(&self, offset: u64, data: Bytes) -> Result<()> {
        match u64::try_from(data.len())
            .ok()
            .and_then(|len| offset.checked_add(len))
        {
            Some(end) if end <= ENDLESS => Ok(()),
            _ => Err(Error::new(ErrorKind::TooLarge, "write").at(self.name.escape_ascii())),
        }
    }

    async fn checkpoint(&self, _held: &RangeSet, _durable: bool) -> Result<()> {
        Ok(())
    }

    fn held(&self) -> RangeSet {
        RangeSet::new()
    }

    async fn share(&self, _: Option<&RangeSet>) -> Result<Vec<u8>> {
        Ok(TOKEN.to_vec())
    }

    async fn finish(self, done: Finish) -> Result<Stat> {
        if self.is_joined {
            return Err(Error::new(ErrorKind::Denied, "finish").at(self.name.escape_ascii()));
        }
        let size = done.size.unwrap_or(0);
        let whole = Range64::new(0, size);
        if done
            .held
            .is_some_and(|held| whole.is_some_and(|whole| !held.covers(whole)))
        {
            return Err(Error::new(ErrorKind::Incomplete, "finish").at(self.name.escape_ascii()));
        }
        let mut stat = Stat::new(self.name, Kind::File);
        stat.size = size;
        stat.modified = done.modified.unwrap_or_default();
        Ok(stat)
    }
}

/// A directory without entries.
#[derive(Debug)]
#[non_exhaustive]
pub struct Nothing;

impl Listing for Nothing {
    async fn next(&mut self) -> Result<Vec<Stat>> {
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_size() {
        for (name, size) in [
            ("0", Some(0)),
            ("1048576", Some(1 << 20)),
            ("10G", Some(10 << 30)),
            ("64M.dat", Some(64 << 20)),
            ("2k", Some(2048)),
            ("zero", Some(ENDLESS)),
            ("null", Some(0)),
            ("8192P", None),
            ("99999999999999999999", None),
            ("G", None),
            ("file", None),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(size_of(name.as_bytes()), size, "{name}");
        }
    }

    #[tokio::test]
    async fn reads_zeros_up_to_the_size_and_then_the_end() {
        let user = User::new("u", DsiPath::root(), false);
        let source = Null
            .read(&user, &DsiPath::new(b"/dir/10").unwrap())
            .await
            .unwrap();
        let read = source
            .read_at(4, BytesMut::with_capacity(64))
            .await
            .unwrap();
        assert_eq!(read, [0; 6].as_slice());
        assert!(
            source
                .read_at(10, BytesMut::with_capacity(64))
                .await
                .unwrap()
                .is_empty()
        );
        assert!(
            source
                .read_at(u64::MAX, BytesMut::with_capacity(64))
                .await
                .unwrap()
                .is_empty()
        );
    }
}
