//! Gives copied directories their attributes, times and modes, when all is in them.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{File, FileTimes, Permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::admission::Server;
use super::blocking;
use super::dir_attributes::AttributesQuery;
use super::engine::{self, Session};
use super::job::{DirJob, Facts};
use super::state::CopyState;
use crate::client::Client;
use crate::error::{ControlError, TransferError};

/// Most directories with a question for attributes in flight.
const AHEAD: usize = 16;

/// Sets attributes, times and modes of every directory that was copied, the deepest first.
pub(crate) async fn settle(shared: &Arc<CopyState>) {
    let mut left = VecDeque::from(shared.take_dirs());
    if left.is_empty() {
        return;
    }
    let work = async |left: &mut VecDeque<DirJob>| all(shared, left).await;
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

/// Sets them, over one session with each server that takes part, and keeps in `left` the directories
/// behind its end.
async fn all(shared: &CopyState, left: &mut VecDeque<DirJob>) -> Result<(), TransferError> {
    let asks = shared.source.is_some() && shared.carries_attributes();
    let session = match shared.destination.is_some() || asks {
        true => engine::connect(shared).await?,
        false => Session::Local,
    };
    let (source, destination): Clients<'_> = match &session {
        Session::Push(client) => (None, Some(client)),
        Session::Pull(client) => (Some(client), None),
        Session::Third(source, destination) => (Some(source), Some(destination)),
        Session::Local | Session::Web(None) => (None, None),
        Session::Web(Some(client)) => (None, Some(client)),
    };
    let mut asked = VecDeque::new();
    while let Some(dir) = left.front() {
        if let Some(source) = source {
            for next in left.iter().take(AHEAD).skip(asked.len()) {
                asked.push_back(shared.ask_dir(server(source), &next.from));
            }
        }
        match Box::pin(one(shared, dir, asked.pop_front(), destination)).await {
            Ok(()) => {}
            Err(lost @ TransferError::Control(ControlError::Lost { .. })) => return Err(lost),
            Err(error) => tell(shared, dir, &error),
        }
        left.pop_front();
    }
    match session {
        Session::Push(client) | Session::Pull(client) | Session::Web(Some(client)) => {
            client.close().await;
        }
        Session::Third(source, destination) => {
            tokio::join!(source.close(), destination.close());
        }
        Session::Local | Session::Web(None) => {}
    }
    Ok(())
}

/// The servers of a copy: of its sources and of its destination.
type Clients<'a> = (Option<&'a Client>, Option<&'a Client>);

/// Sets those of one directory.
async fn one(
    shared: &CopyState,
    dir: &DirJob,
    asked: Option<AttributesQuery>,
    destination: Option<&Client>,
) -> Result<(), TransferError> {
    let carried = shared.carry_dir_attributes(dir, asked, destination.map(server));
    // A mode may take the permission to set attributes.
    let carried = carried.await;
    let is_gone = carried.as_ref().is_err_and(TransferError::is_gone);
    if is_gone || !shared.options.preserve {
        return carried;
    }
    shared.warn_untold(&dir.from, &dir.facts);
    match destination {
        Some(client) => remote(client, dir).await?,
        None => {
            let (to, facts) = (dir.to.clone(), dir.facts);
            let set = blocking(move || local(&to, &facts)).await;
            set.map_err(|error| TransferError::local("set time and mode of", &dir.to, error))?;
        }
    }
    carried
}

fn server(client: &Client) -> Server<'_> {
    (&client.control, &client.abilities)
}

/// Counts a failure: a directory has to have its time and its mode with --preserve, and its attributes
/// with --xattrs.
fn tell(shared: &CopyState, dir: &DirJob, error: &TransferError) {
    shared.give_up_found(&shared.describe_source(&dir.from), b"", error);
}

fn local(dir: &[u8], facts: &Facts) -> std::io::Result<()> {
    let open = File::open(Path::new(OsStr::from_bytes(dir)))?;
    if let Some(mode) = facts.mode {
        open.set_permissions(Permissions::from_mode(mode))?;
    }
    match time(facts) {
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
    let (mode, time) = (dir.facts.mode, dir.facts.time_val());
    let mode = mode
        .map(|mode| client.send_permissions(&dir.to, mode))
        .transpose()?;
    let time = time
        .map(|time| client.send_modified(&dir.to, time))
        .transpose()?;
    for mut replies in mode.into_iter().chain(time) {
        replies.finish().await?;
    }
    Ok(())
}
