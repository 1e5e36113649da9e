//! Completes a file: size, digest, owner, mode and time.

use byte_ranges::Range64;
use gridftp_dsi::{ErrorKind, Finish};
use rustix::fd::BorrowedFd;
use rustix::fs::{Gid, Mode, Stat, Uid};

use crate::checksum;
use crate::error::{Fault, Outcome};
use crate::stat::timestamps;

/// Truncates the file to the announced size and returns its length; fails if bytes are missing.
pub(crate) fn settle_size(file: BorrowedFd<'_>, done: &Finish) -> Outcome<u64> {
    let len = u64::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0);
    let Some(size) = done.size else {
        return Ok(len);
    };
    let covered = match (&done.held, Range64::new(0, size)) {
        (Some(held), Some(whole)) => held.covers(whole),
        _ => true,
    };
    if len < size || !covered {
        return Err(Fault::Rule(
            ErrorKind::Incomplete,
            "parts of the file have not arrived",
        ));
    }
    if len > size {
        crate::uninterrupted::ftruncate(file, size)?;
    }
    Ok(size)
}

/// The error of a file with another digest than announced.
pub(crate) const MISMATCH: Fault = Fault::Rule(
    ErrorKind::Mismatch,
    "the file does not have the announced digest",
);

/// Compares the file with the announced digest, if any.
pub(crate) fn verify(file: BorrowedFd<'_>, done: &Finish) -> Outcome<()> {
    let Some((algorithm, expected)) = &done.checksum else {
        return Ok(());
    };
    let found = checksum::of_file(file, *algorithm)?;
    if found.eq_ignore_ascii_case(expected) {
        Ok(())
    } else {
        Err(MISMATCH)
    }
}

/// Gives the file the owner of `old`, which it replaces, and mode and time of `done`.
pub(crate) fn copy_metadata(
    file: BorrowedFd<'_>,
    old: Option<&Stat>,
    done: &Finish,
) -> Outcome<()> {
    let mut mode = done.mode;
    if let Some(old) = old {
        let new = rustix::fs::fstat(file)?;
        if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid) {
            let (uid, gid) = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
            // Best effort: without the privilege it keeps our owner.
            let _ = rustix::fs::fchown(file, Some(uid), Some(gid));
        }
        // The set-user and set-group bits were given to the old bytes, not to these.
        mode = mode.or(Some(old.st_mode & 0o1777));
    }
    dress(file, mode, done.modified)
}

/// Sets mode and time, if given.
pub(crate) fn dress(
    file: BorrowedFd<'_>,
    mode: Option<u32>,
    time: Option<(i64, u32)>,
) -> Outcome<()> {
    if let Some(mode) = mode {
        rustix::fs::fchmod(file, Mode::from_raw_mode(mode & 0o7777))?;
    }
    if let Some(time) = time {
        rustix::fs::futimens(file, &timestamps(time))?;
    }
    Ok(())
}
