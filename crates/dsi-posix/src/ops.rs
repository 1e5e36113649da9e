//! Changes of names and metadata, each through a descriptor of the directory.

use gridftp_dsi::{DsiPath, ErrorKind, Meta};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Dir, FileType, FlockOperation, Gid, Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Fault, Outcome};
use crate::expire;
use crate::in_place::lock_file;
use crate::journal;
use crate::names;
use crate::root::{RESERVED, Root};
use crate::stat::timestamps;

/// Opens the directory in which `path` will be created.
fn place<'p>(root: &Root, path: &'p DsiPath) -> Outcome<(OwnedFd, &'p [u8])> {
    let (dir, name) = root.parent(path)?;
    if names::is_reserved(name) {
        Err(RESERVED)
    } else {
        Ok((dir, name))
    }
}

/// Opens the directory that contains `path`.
fn found<'p>(root: &Root, path: &'p DsiPath) -> Outcome<(OwnedFd, &'p [u8])> {
    let (dir, name) = root.parent(path)?;
    if names::is_reserved(name) {
        Err(Errno::NOENT.into())
    } else {
        Ok((dir, name))
    }
}

/// Makes a directory; with `sync`, its name is on the medium then.
pub(crate) fn make_dir(root: &Root, path: &DsiPath, sync: bool) -> Outcome<()> {
    if path.is_root() {
        return Err(Errno::EXIST.into());
    }
    let (dir, name) = place(root, path)?;
    rustix::fs::mkdirat(&dir, name, Mode::from_raw_mode(0o777))?;
    if sync {
        journal::sync_dir(dir.as_fd())?;
    }
    Ok(())
}

pub(crate) fn remove_file(root: &Root, path: &DsiPath) -> Outcome<()> {
    let (dir, name) = found(root, path)?;
    Ok(rustix::fs::unlinkat(dir, name, AtFlags::empty())?)
}

/// Removes an empty directory, together with abandoned partial files, which no listing shows.
pub(crate) fn remove_dir(root: &Root, path: &DsiPath) -> Outcome<()> {
    let (dir, name) = found(root, path)?;
    match rustix::fs::unlinkat(&dir, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOTEMPTY) if only_abandoned(dir.as_fd(), name)? => {
            Ok(rustix::fs::unlinkat(&dir, name, AtFlags::REMOVEDIR)?)
        }
        done => Ok(done?),
    }
}

/// Removes abandoned partial files from the directory `name`; `false` if it has other entries.
fn only_abandoned(dir: BorrowedFd<'_>, name: &[u8]) -> Outcome<bool> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let inside = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    let mut hidden = Vec::new();
    for entry in Dir::read_from(&inside)? {
        let entry = entry?;
        match entry.file_name().to_bytes() {
            b"." | b".." => {}
            name if names::is_reserved(name) => hidden.push(name.to_vec()),
            _ => return Ok(false),
        }
    }
    for name in hidden {
        expire::abandoned(inside.as_fd(), &name, None)?;
    }
    Ok(true)
}

pub(crate) fn rename(root: &Root, from: &DsiPath, to: &DsiPath) -> Outcome<()> {
    let (from_dir, from_name) = found(root, from)?;
    let (to_dir, to_name) = place(root, to)?;
    let is_dir = rustix::fs::statat(&from_dir, from_name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
    let rename = || rustix::fs::renameat(&from_dir, from_name, &to_dir, to_name);
    let done = if is_dir {
        let from = (from_dir.as_fd(), from_name);
        root.index().follow(from, (to_dir.as_fd(), to_name), rename)
    } else {
        rename()
    };
    done.map_err(|errno| match errno {
        Errno::XDEV => Fault::Rule(
            ErrorKind::Unsupported,
            "the two names are on different file systems",
        ),
        Errno::INVAL => Fault::Rule(
            ErrorKind::BadName,
            "a directory cannot be moved into itself",
        ),
        errno => errno.into(),
    })
}

/// Creates a link within the tree: an absolute target is relative to the root of the tree.
pub(crate) fn symlink(root: &Root, target: &[u8], link: &DsiPath) -> Outcome<()> {
    const LEAVES: Fault = Fault::Rule(
        ErrorKind::Outside,
        "the target of the link is not in the tree",
    );
    let (dir, name) = place(root, link)?;
    if target.is_empty() || target.contains(&0) {
        return Err(Fault::Rule(
            ErrorKind::BadName,
            "the target of a link must be a path",
        ));
    }
    let mut parts = target.rsplit(|b| *b == b'/');
    if parts.next().is_some_and(names::is_reserved) || parts.any(|part| part == names::INDEX) {
        return Err(RESERVED);
    }
    let above = link.parts().count().saturating_sub(1);
    let text = if target.first() == Some(&b'/') {
        let target = DsiPath::new(target).ok_or(Errno::NAMETOOLONG)?;
        let mut text = b"../".repeat(above);
        text.extend_from_slice(target.as_bytes().get(1..).unwrap_or_default());
        if text.is_empty() { b".".to_vec() } else { text }
    } else {
        let mut depth = above;
        for part in target.split(|b| *b == b'/') {
            match part {
                b"" | b"." => {}
                b".." => depth = depth.checked_sub(1).ok_or(LEAVES)?,
                _ => depth += 1,
            }
        }
        target.to_vec()
    };
    Ok(rustix::fs::symlinkat(text, dir, name)?)
}

pub(crate) fn set_meta(root: &Root, path: &DsiPath, meta: &Meta) -> Outcome<()> {
    // `O_PATH` does not open the object, so that neither its mode nor its kind matters.
    let fd = root.get(path, OFlags::PATH, Mode::empty())?;
    if let Some(group) = &meta.group {
        let group = Some(Gid::from_raw(group_number(group)?));
        rustix::fs::chownat(&fd, c"", None, group, AtFlags::EMPTY_PATH)?;
    }
    if let Some(mode) = meta.mode {
        // The kernel changes the mode of an `O_PATH` descriptor only through this name.
        let name = format!("/proc/self/fd/{}", rustix::fd::AsRawFd::as_raw_fd(&fd));
        rustix::fs::chmodat(
            CWD,
            name,
            Mode::from_raw_mode(mode & 0o7777),
            AtFlags::empty(),
        )?;
    }
    if let Some(modified) = meta.modified {
        rustix::fs::utimensat(&fd, c"", &timestamps(modified), AtFlags::EMPTY_PATH)?;
    }
    Ok(())
}

fn group_number(group: &str) -> Outcome<u32> {
    if let Ok(number) = group.parse() {
        return Ok(number);
    }
    match nix::unistd::Group::from_name(group) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        _ => Err(Fault::Rule(ErrorKind::BadName, "no group has this name")),
    }
}

pub(crate) fn truncate(root: &Root, path: &DsiPath, length: u64) -> Outcome<()> {
    let (file, stat) = root.get_file(path, OFlags::WRONLY)?;
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    if length > size {
        return Err(Fault::Rule(
            ErrorKind::TooLarge,
            "the file is shorter than that already",
        ));
    }
    // A writer behind the new end would leave a hole.
    lock_file(file.as_fd(), FlockOperation::NonBlockingLockExclusive)?;
    Ok(crate::uninterrupted::ftruncate(&file, length)?)
}
