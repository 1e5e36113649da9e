//! Waits for files of other processes, by inotify.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::run::describe;

/// Longest time between two looks: not every kernel tells of bytes that are spliced into a file, nor
/// of a lock that is released.
const LOOK: Duration = Duration::from_secs(1);

/// Waits for at most `limit` until `is_so`, which depends on the entries of `folder` and on their
/// bytes; the folder may be made meanwhile. The end of `process` ends the wait too. Says whether it
/// is so.
pub fn wait_for_files(
    folder: &Path,
    process: Option<&Child>,
    limit: Duration,
    mut is_so: impl FnMut() -> bool,
) -> Result<bool> {
    let changes = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    let process = process.map(|child| pidfd_open(Pid::from_child(child), PidfdFlags::empty()));
    let process = process.transpose()?;
    let end = Instant::now() + limit;
    loop {
        let watched = nearest(folder).with_context(|| format!("{}", folder.display()))?;
        let kinds = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::MODIFY
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::DELETE;
        inotify::add_watch(&changes, watched, kinds)?;
        if is_so() {
            return Ok(true);
        }
        // One below it may have been made before it was watched.
        if nearest(folder) != Some(watched) {
            continue;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        if !goes_on(&changes, process.as_ref(), left.min(LOOK))? {
            return Ok(is_so());
        }
    }
}

/// The folder, or the next one above it that exists.
fn nearest(folder: &Path) -> Option<&Path> {
    folder.ancestors().find(|path| path.is_dir())
}

/// Waits until something has changed, or for `time`; says whether the process goes on.
fn goes_on(changes: &OwnedFd, process: Option<&OwnedFd>, time: Duration) -> Result<bool> {
    let mut ends = vec![PollFd::new(changes, PollFlags::IN)];
    ends.extend(process.map(|process| PollFd::new(process, PollFlags::IN)));
    match poll(&mut ends, Some(&Timespec::try_from(time)?)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(errno) => return Err(errno.into()),
    }
    let has_ended = ends.get(1).is_some_and(|end| !end.revents().is_empty());
    // What has changed does not matter.
    while rustix::io::read(changes, &mut [0_u8; 4096]).is_ok_and(|read| read > 0) {}
    Ok(!has_ended)
}

/// Runs `command` until `is_so` of the files in `folder`, as in [`wait_for_files`], and kills it.
///
/// # Errors
/// If the program has ended before, or it is not so within `limit`.
pub fn kill_once(
    command: &mut Command,
    folder: &Path,
    limit: Duration,
    is_so: impl FnMut() -> bool,
) -> Result<()> {
    let what = describe(command);
    let mut child = command.stderr(Stdio::null()).spawn()?;
    let waited = wait_for_files(folder, Some(&child), limit, is_so);
    child.kill()?;
    child.wait()?;
    ensure!(
        waited?,
        "{what}: nothing is recorded in {}",
        folder.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    fn shell(script: &str, dir: &Path) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).current_dir(dir);
        shell
    }

    #[test]
    fn a_program_is_killed_once_a_file_in_a_new_folder_has_its_bytes() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let file = dir.path().join("a/b/file");
        let script = "mkdir -p a/b; echo one >a/b/file; echo two >>a/b/file; exec sleep 600";
        kill_once(
            &mut shell(script, dir.path()),
            &dir.path().join("a/b"),
            LIMIT,
            || fs::read_to_string(&file).is_ok_and(|text| text == "one\ntwo\n"),
        )
    }

    #[test]
    fn the_wait_ends_with_the_program_or_the_time() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let begun = Instant::now();
        let ended = kill_once(&mut shell("echo >x", dir.path()), dir.path(), LIMIT, || {
            false
        });
        assert!(ended.is_err() && begun.elapsed() < LIMIT);
        // The file that it left counts.
        let file = dir.path().join("y");
        kill_once(&mut shell("echo >y", dir.path()), dir.path(), LIMIT, || {
            file.exists()
        })?;
        let late = wait_for_files(dir.path(), None, Duration::ZERO, || false)?;
        assert!(!late);
        Ok(())
    }
}
