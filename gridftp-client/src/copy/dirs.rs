//! Gives copied directories their times and modes, when all is in them.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{File, FileTimes, Permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::engine::{self, Session};
use super::job::{DirJob, Facts};
use super::state::CopyState;
use crate::client::Client;
use crate::error::{ControlError, TransferError};

/// Sets times and modes of every directory that was copied, the deepest first.
pub(crate) async fn settle(shared: &Arc<CopyState>) {
    let dirs = shared.take_dirs();
    if dirs.is_empty() {
        return;
    }
    if shared.destination.is_none() {
        let work = tokio::task::spawn_blocking(move || {
            dirs.into_iter()
                .filter_map(|dir| Some((local(&dir).err()?, dir)))
                .collect::<Vec<_>>()
        });
        for (error, dir) in work.await.unwrap_or_default() {
            tell(
                shared,
                &dir,
                &TransferError::local("set time and mode of", &dir.to, error),
            );
        }
        return;
    }
    let mut left = VecDeque::from(dirs);
    let work = async |left: &mut VecDeque<DirJob>| there(shared, left).await;
    if let Err(error) = shared.insist(&mut left, work).await {
        left.iter().for_each(|dir| tell(shared, dir, &error));
    }
}

impl CopyState {
    /// Does the `work` that is `left` over sessions of its own, with as many attempts as the transfer of
    /// a file; each attempt removes its finished items from `left`.
    pub(super) async fn insist<T>(
        &self,
        left: &mut VecDeque<T>,
        mut work: impl AsyncFnMut(&mut VecDeque<T>) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        let (mut failures, mut since) = (0, Instant::now());
        loop {
            let before = left.len();
            let Err(error) = work(left).await else {
                return Ok(());
            };
            if failures == 0 || left.len() < before {
                (failures, since) = (0, Instant::now());
            }
            failures += 1;
            let gone = error.is_gone();
            if !error.is_transient() || !self.options.goes_on(failures, since.elapsed(), gone) {
                return Err(error);
            }
            self.note_gone(&error);
            tokio::time::sleep(self.options.pause(failures)).await;
        }
    }
}

/// Sets them at a server, over one session, and keeps in `left` the directories behind its end.
async fn there(shared: &CopyState, left: &mut VecDeque<DirJob>) -> Result<(), TransferError> {
    let client = match engine::connect(shared).await? {
        Session::Push(client) | Session::Third(_, client) => client,
        Session::Pull(_) | Session::Local => return Ok(()),
    };
    while let Some(dir) = left.front() {
        match remote(&client, dir).await {
            Ok(()) => {}
            Err(lost @ TransferError::Control(ControlError::Lost { .. })) => return Err(lost),
            Err(error) => tell(shared, dir, &error),
        }
        left.pop_front();
    }
    client.close().await;
    Ok(())
}

/// Counts a failure: with --preserve, a directory has to have its time and its mode.
fn tell(shared: &CopyState, dir: &DirJob, error: &TransferError) {
    shared.give_up_found(&shared.describe_source(&dir.from), b"", error);
}

fn local(dir: &DirJob) -> std::io::Result<()> {
    let open = File::open(Path::new(OsStr::from_bytes(&dir.to)))?;
    if let Some(mode) = dir.facts.mode {
        open.set_permissions(Permissions::from_mode(mode))?;
    }
    match time(&dir.facts) {
        Some(time) => open.set_times(FileTimes::new().set_modified(time)),
        None => Ok(()),
    }
}

fn time(facts: &Facts) -> Option<SystemTime> {
    let (seconds, nanos) = facts.modified?;
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let base = SystemTime::UNIX_EPOCH;
    let at = if seconds < 0 {
        base.checked_sub(whole)?
    } else {
        base.checked_add(whole)?
    };
    at.checked_add(Duration::from_nanos(u64::from(nanos)))
}

async fn remote(client: &Client, dir: &DirJob) -> Result<(), TransferError> {
    if let Some(mode) = dir.facts.mode {
        client.set_mode(&dir.to, mode).await?;
    }
    if let Some(time) = dir.facts.time_val() {
        client.set_modified(&dir.to, time).await?;
    }
    Ok(())
}
