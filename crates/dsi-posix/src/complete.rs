//! What is done to every file before it counts as complete: its size, its digest, its mode and its time.

use byte_ranges::Range64;
use gridftp_dsi::{ErrorKind, Finish};
use rustix::fd::BorrowedFd;
use rustix::fs::{Gid, Mode, Stat, Uid};

use crate::checksum;
use crate::error::{Fault, Outcome};
use crate::stat::timestamps;

/// Brings the file to the size announced and gives its length, or says what is missing.
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
            "parts of the file did not arrive",
        ));
    }
    if len > size {
        crate::uninterrupted::ftruncate(file, size)?;
    }
    Ok(size)
}

/// The answer to bytes that are not those announced.
pub(crate) const MISMATCH: Fault = Fault::Rule(
    ErrorKind::Mismatch,
    "the file does not have the digest that was announced",
);

/// Compares the file with the digest it is to have.
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

/// Gives the file the owner of `old`, whose place it takes, and mode and time as `done` says.
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
            // Where it is not ours to give away, it stays ours.
            let _ = rustix::fs::fchown(file, Some(uid), Some(gid));
        }
        // The right to act as the owner was given to the old bytes, not to these.
        mode = mode.or(Some(old.st_mode & 0o1777));
    }
    dress(file, mode, done.modified)
}

/// Sets mode and time where they are given.
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
