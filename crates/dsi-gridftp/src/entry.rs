//! Entries of the upstream's listings as those of the storage, and the paths of both.

use ftp_wire::facts::{Entry, EntryKind, Fact, FactSet};
use gridftp_dsi::{DsiPath, Error, ErrorKind, Kind, Result, Stat};

use crate::error::refused;

/// The beginning of the names of uploads that are not published yet.
pub(crate) const HIDDEN: &[u8] = b".gridftp-gateway-";

/// The facts of an object called `name`.
pub(crate) fn stat_of(name: &[u8], entry: &Entry, known: FactSet) -> Stat {
    let kind = match entry.kind {
        EntryKind::File => Kind::File,
        EntryKind::Dir | EntryKind::Cdir | EntryKind::Pdir => Kind::Directory,
        EntryKind::Slink => Kind::Link,
        EntryKind::Char => Kind::CharDevice,
        EntryKind::Block => Kind::BlockDevice,
        EntryKind::Pipe => Kind::Fifo,
        EntryKind::Other => Kind::Other,
    };
    let mut stat = Stat::new(name, kind);
    stat.size = entry.size;
    stat.modified = (entry.modified.seconds, entry.modified.nanos);
    if known.contains(Fact::UnixMode) {
        stat.mode = entry.mode & 0o7777;
    }
    stat.links = entry.links;
    (stat.uid, stat.gid) = (entry.owner.0, entry.group.0);
    (stat.device, stat.inode) = entry.unique;
    stat.target.clone_from(&entry.target);
    stat.staged = entry.staged;
    stat
}

/// Refuses a path that no command can carry.
pub(crate) fn must_be_sendable(op: &'static str, path: &DsiPath) -> Result<()> {
    match path.as_bytes().iter().any(|b| matches!(b, b'\r' | b'\n')) {
        true => {
            let why = "FTP carries no name with a line end";
            Err(refused(ErrorKind::BadName, op, path, why))
        }
        false => Ok(()),
    }
}

/// Refuses everything but regular files.
pub(crate) fn must_be_file(op: &'static str, path: &DsiPath, kind: Kind) -> Result<()> {
    let kind = match kind {
        Kind::File => return Ok(()),
        Kind::Directory => ErrorKind::IsDirectory,
        Kind::Link => ErrorKind::NotFound,
        _ => ErrorKind::NotRegular,
    };
    Err(Error::new(kind, op).at(path))
}

/// The path at the upstream, below the directory `base`.
pub(crate) fn join(base: &[u8], path: &DsiPath) -> Vec<u8> {
    let base = base.strip_suffix(b"/").unwrap_or(base);
    match (base.is_empty(), path.is_root()) {
        (true, _) => path.as_bytes().to_vec(),
        (false, true) => base.to_vec(),
        (false, false) => [base, path.as_bytes()].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_below_the_base() {
        let path = |text: &str| DsiPath::new(text.as_bytes()).unwrap();
        for (base, of, there) in [
            ("/", "/", "/"),
            ("/", "/a/b", "/a/b"),
            ("/data/", "/", "/data"),
            ("/data", "/a", "/data/a"),
            ("~/x", "/a", "~/x/a"),
        ] {
            assert_eq!(join(base.as_bytes(), &path(of)), there.as_bytes());
        }
    }
}
