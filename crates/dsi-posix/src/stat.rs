//! Converts the facts of an object from the kernel's types to the interface's.

use gridftp_dsi::{DsiPath, Kind, Stat};
use rustix::fd::BorrowedFd;
use rustix::fs::{FileType, Mode, OFlags, Timespec};
use rustix::io::Errno;

use crate::root::Root;

/// Converts the kernel's facts of the object called `name`.
pub(crate) fn stat_of(name: impl Into<Vec<u8>>, raw: &rustix::fs::Stat) -> Stat {
    let kind = match FileType::from_raw_mode(raw.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        FileType::CharacterDevice => Kind::CharDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        FileType::Fifo => Kind::Fifo,
        _ => Kind::Other,
    };
    let mut stat = Stat::new(name, kind);
    stat.size = u64::try_from(raw.st_size).unwrap_or(0);
    stat.modified = modified(raw);
    stat.mode = raw.st_mode & 0o7777;
    stat.links = raw.st_nlink;
    stat.uid = raw.st_uid;
    stat.gid = raw.st_gid;
    stat.device = raw.st_dev;
    stat.inode = raw.st_ino;
    stat
}

/// Modification time: seconds since 1970 and nanoseconds.
pub(crate) fn modified(raw: &rustix::fs::Stat) -> (i64, u32) {
    (raw.st_mtime, u32::try_from(raw.st_mtime_nsec).unwrap_or(0))
}

/// Time of the last change of the file or its facts.
pub(crate) fn changed(raw: &rustix::fs::Stat) -> (i64, u32) {
    (raw.st_ctime, u32::try_from(raw.st_ctime_nsec).unwrap_or(0))
}

/// Times that set the modification time and keep the access time.
pub(crate) fn timestamps((seconds, nanos): (i64, u32)) -> rustix::fs::Timestamps {
    rustix::fs::Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: seconds,
            tv_nsec: nanos.min(999_999_999).into(),
        },
    }
}

/// Gives an open file the time of now. Best effort: another account may own it.
pub(crate) fn touch(file: BorrowedFd<'_>) {
    let mut now = timestamps((0, 0));
    now.last_modification.tv_nsec = rustix::fs::UTIME_NOW;
    let _ = rustix::fs::futimens(file, &now);
}

/// Facts of the object at `path`; a link without a target in the tree is described itself.
pub(crate) fn look(root: &Root, path: &DsiPath) -> Result<Stat, Errno> {
    let fd = root.get(path, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())?;
    let stat = stat_of(path.name(), &rustix::fs::fstat(&fd)?);
    if stat.kind != Kind::Link {
        return Ok(stat);
    }
    let target = rustix::fs::readlinkat(&fd, c"", Vec::new())?.into_bytes();
    Ok(through(root, path, stat, target))
}

/// The facts of the target of the link at `path`, or `link` itself if the target is unreachable.
pub(crate) fn through(root: &Root, path: &DsiPath, link: Stat, target: Vec<u8>) -> Stat {
    let seen = root
        .get(path, OFlags::PATH, Mode::empty())
        .and_then(rustix::fs::fstat);
    let mut stat = match seen {
        Ok(raw) => stat_of(path.name(), &raw),
        Err(_) => link,
    };
    stat.target = Some(target);
    stat
}

/// Bytes of the file system of the object at `path` that users without privileges can fill.
pub(crate) fn free_space(root: &Root, path: &DsiPath) -> Result<u64, Errno> {
    let fd = root.get(path, OFlags::PATH, Mode::empty())?;
    let room = rustix::fs::fstatvfs(fd)?;
    Ok(room.f_bavail.saturating_mul(room.f_frsize))
}
