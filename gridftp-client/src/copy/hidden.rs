//! `Hidden`: the name that an upload to a server of others has until it is whole and takes its own.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ftp_proto::client::FailureKind;
use ftp_wire::command::{Command, SiteCommand, StorAttr};
use ftp_wire::path::FtpPath;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::abilities::Abilities;
use crate::control::{Control, Replies};
use crate::copy::admission::{Ends, Server};
use crate::copy::job::FileJob;
use crate::copy::kept::Found;
use crate::copy::known::Known;
use crate::copy::lock;
use crate::copy::queue::Taken;
use crate::copy::run_record::RunRecord;
use crate::copy::state::CopyState;
use crate::error::{ControlError, TransferError};
use crate::names;
use crate::url::show;

mod there;

use there::{Old, There};

/// Longest wait for the file system of the record of a run.
const RECORDING: Duration = Duration::from_secs(10);

/// Bytes that a name may have on most systems.
const LONGEST: usize = 255;

/// State of hidden names at one server, shared by the uploads of a copy.
#[derive(Debug, Default)]
pub(crate) struct HiddenNames {
    /// Tells the hidden names of this run from those of others, which may write to the same name.
    run: RandomState,
    /// Whether the server was asked if it renames.
    asked: AtomicBool,
    /// Whether it does not.
    off: AtomicBool,
    /// Hidden files of uploads that were given up.
    left: Mutex<Vec<FtpPath>>,
    /// The record of the hidden names that no note tells; `None` within where there is none.
    record: OnceCell<Option<RunRecord>>,
    /// Directories that this copy made, in which nothing is but its own files.
    new: Mutex<Known>,
}

impl HiddenNames {
    /// Notes a hidden file that is given up, to be removed.
    pub(crate) fn leave(&self, hidden: FtpPath) {
        lock(&self.left).push(hidden);
    }

    /// Notes a directory that was not there before.
    pub(crate) fn note_new(&self, dir: &[u8]) {
        lock(&self.new).insert(dir);
    }

    /// Says whether a file is in a directory that was not there before.
    pub(crate) fn is_new(&self, path: &FtpPath) -> bool {
        lock(&self.new).contains(names::parent(path.as_bytes()))
    }

    /// Says whether uploads were given up that left something.
    pub(crate) fn has_left(&self) -> bool {
        !lock(&self.left).is_empty()
    }

    /// Removes the hidden files that were given up; those without a reply of the session stay
    /// noted.
    pub(crate) async fn clean(&self, control: &Control) {
        let left = lock(&self.left).clone();
        for path in left {
            let told = control.send(Command::Dele(path.clone())).finish().await;
            if !matches!(told, Err(ControlError::Lost { .. })) {
                lock(&self.left).retain(|other| *other != path);
            }
            if !told.is_err_and(|error| error.is_transient()) {
                self.over(&path);
            }
        }
    }

    /// Records that no file is under the hidden name `at` any more.
    pub(crate) fn over(&self, at: &FtpPath) {
        if let Some(Some(record)) = self.record.get() {
            record.remove(at);
        }
    }

    /// The hidden name of an upload; `None` where it is written under its own name.
    async fn name(&self, control: &Control, job: &FileJob) -> Option<FtpPath> {
        if job.straight || self.off.load(Ordering::Relaxed) {
            return None;
        }
        if let Some(at) = &job.hidden {
            return Some(at.clone());
        }
        let run = (self.run.hash_one(()) >> 32).wrapping_add(job.versions.into()) & 0xffff_ffff;
        let end = format!(".gridftp-{run:08x}");
        let hidden = [b".", names::last(&job.to), end.as_bytes()].concat();
        if hidden.len() > LONGEST {
            return None;
        }
        let at = control.path(&names::join(names::parent(&job.to), &hidden))?;
        if !self.asked.swap(true, Ordering::Relaxed) {
            // A server without renaming refuses RNFR even of a missing file.
            let mut from = control.send(Command::Rnfr(at.clone()));
            // RFC 959 §4.1.3: nothing else may follow; where the file is left over, it keeps its
            // name.
            drop(control.send(Command::Rnto(at.clone())));
            let kind = from.finish().await.err().and_then(|error| error.kind());
            if let Some(FailureKind::Denied | FailureKind::Unsupported) = kind {
                self.off.store(true, Ordering::Relaxed);
                return None;
            }
        }
        Some(at)
    }
}

impl CopyState {
    /// The name to write a file under until it is whole; `None` for its own. Our server keeps such
    /// files apart by itself, a part is written into the file that is there, and the layers of a
    /// server show in names.
    pub(crate) async fn hide(
        &self,
        control: &Control,
        abilities: &Abilities,
        job: &mut FileJob,
    ) -> Option<FtpPath> {
        job.kept_apart = abilities.held && !self.is_partial();
        if abilities.held || self.is_partial() || self.through_layers() {
            return None;
        }
        let name = self.hiding.name(control, job).await;
        if let Some(before) = job.hidden.take_if(|before| Some(&*before) != name.as_ref()) {
            // The server holds its bytes under the other name.
            self.hiding.leave(before);
            job.forget();
        }
        if let Some(at) = name.as_ref().filter(|_| job.note.is_none()) {
            self.record_hidden(at).await;
        }
        name
    }

    /// Records a hidden name without a note before its file is written: after a kill of this run a
    /// later one removes the file. The first call also takes over the files of earlier runs.
    pub(crate) async fn record_hidden(&self, at: &FtpPath) {
        let Some(notes) = &self.options.notes else {
            return;
        };
        let begun = self.hiding.record.get_or_init(|| async {
            let site = self.describe(self.destination.as_ref(), b"/");
            let id = self.hiding.run.hash_one(());
            let begun = timeout(RECORDING, RunRecord::begin(notes, id, &site)).await;
            let (record, left) = begun.ok().flatten()?;
            left.into_iter().for_each(|at| self.hiding.leave(at));
            Some(record)
        });
        if let Some(record) = begun.await {
            let _slow = timeout(RECORDING, record.add(at)).await;
        }
    }

    /// Leaves the hidden name of an upload after a change of its source: the bytes under it may be of the
    /// version before, where the store of the new one never reached the server.
    pub(crate) async fn leave_version(&self, job: &mut FileJob, at: FtpPath) {
        job.versions = job.versions.wrapping_add(1);
        // Its note will name the other.
        self.record_hidden(&at).await;
        self.hiding.leave(at);
    }

    /// Has the next store under the file's own name replace nothing, where that is asked for and the
    /// server can: a file may have appeared since the look. A file that an earlier attempt may
    /// have put there is replaced.
    pub(crate) fn keep_existing(
        &self,
        (control, abilities): Server<'_>,
        job: &mut FileJob,
        is_hidden: bool,
    ) {
        if self.must_replace_nothing(abilities, job, is_hidden) {
            let attributes = SiteCommand::StorAttr(StorAttr::exclusive());
            // A refusal leaves the store as it is elsewhere.
            drop(control.send(Command::Site(attributes)));
        }
    }

    /// Gives a file back to be written under its own name.
    pub(crate) fn go_straight(&self, mut taken: Taken) {
        let job = taken.file_mut();
        job.straight = true;
        job.forget();
        if let Some(at) = job.hidden.take() {
            self.hiding.leave(at);
        }
    }
}

/// The name that a store writes to.
pub(crate) struct StorePath {
    /// The path of the command.
    pub(crate) path: FtpPath,
    /// The same, where it is not the file's own.
    pub(crate) hidden: Option<FtpPath>,
}

impl CopyState {
    /// Decides whether a file is stored, and under which name; ends its job or gives it back
    /// otherwise.
    pub(crate) async fn admit(
        &self,
        taken: Taken,
        source: Option<Server<'_>>,
        (control, abilities): Server<'_>,
    ) -> Option<(Taken, StorePath)> {
        let (mut taken, path) = self.allow(taken, source, (control, abilities)).await?;
        let job = taken.file_mut();
        self.recall(job, abilities).await;
        let hidden = self.hide(control, abilities, job).await;
        let path = hidden.clone().unwrap_or(path);
        Some((taken, StorePath { path, hidden }))
    }

    /// Decides whether a file is stored; gives its path there, or ends its job.
    pub(crate) async fn allow(
        &self,
        mut taken: Taken,
        source: Option<Server<'_>>,
        (control, abilities): Server<'_>,
    ) -> Option<(Taken, FtpPath)> {
        let job = taken.file_mut();
        if !self.options.dry_run {
            self.start(job);
        }
        let Some(path) = control.path(&job.to) else {
            let error = TransferError::unsendable(&job.to);
            self.fail(taken, &error);
            return None;
        };
        // A file that an earlier attempt began is not left alone.
        if self.options.no_clobber && !job.begun {
            let there = Found::at(control, abilities, &path).await;
            if !matches!(there, Found::Nothing) {
                there.leave(self, taken);
                return None;
            }
        }
        let destination = Some((control, abilities));
        let ends = Ends {
            source,
            destination,
        };
        let taken = Box::pin(self.judge(taken, ends)).await?;
        if self.options.dry_run {
            self.plan(taken, destination).await;
            return None;
        }
        Some((taken, path))
    }
}

/// A whole file under its hidden name, and the object under its own.
pub(crate) struct Hidden {
    at: FtpPath,
    to: FtpPath,
    there: There,
}

/// A file that is being given its own name.
pub(crate) struct Renaming {
    at: FtpPath,
    to: FtpPath,
    /// The commands for that, unless the object of that name bars it.
    sent: Option<[Replies; 2]>,
    /// The replies to that, once they were read.
    told: Option<Renamed>,
    /// Whether nothing is to be overwritten.
    keeps: bool,
}

impl Hidden {
    /// Asks for the object that the file is to replace.
    pub(crate) fn ask(control: &Control, mlst: bool, at: FtpPath, to: FtpPath) -> Self {
        let there = match mlst {
            true => There::Facts(control.send(Command::Mlst(Some(to.clone())))),
            false => There::Line(control.send(Command::Stat(Some(to.clone())))),
        };
        Self { at, to, there }
    }

    /// As [`Hidden::ask`], of a file in a directory that this copy made: nothing need be asked.
    pub(crate) fn new(at: FtpPath, to: FtpPath) -> Self {
        let there = There::Nothing;
        Self { at, to, there }
    }

    /// Says whether there is something that a rename must not replace.
    pub(crate) async fn bars_rename(self) -> Result<bool, ControlError> {
        Ok(self.there.old(&self.to).await? == Old::Other)
    }

    /// Sends the rename, unless the object of that name bars it.
    ///
    /// # Errors
    /// Where `keeps` says that nothing is to be overwritten, and something has appeared.
    pub(crate) async fn rename(
        self,
        control: &Control,
        keeps: bool,
    ) -> Result<Renaming, TransferError> {
        let Self { at, to, there } = self;
        let old = there.old(&to).await?;
        if keeps && matches!(old, Old::File | Old::Other) {
            return Err(appeared(&to));
        }
        let sent = (old != Old::Other).then(|| rename(control, &at, &to));
        Ok(Renaming {
            at,
            to,
            sent,
            told: None,
            keeps,
        })
    }

    /// Gives the file its own name; `None` where that cannot be, and the file goes back to be
    /// written straight there.
    pub(crate) async fn publish(
        self,
        control: &Control,
        shared: &CopyState,
        taken: Taken,
    ) -> Option<Taken> {
        match self.rename(control, shared.options.keeps_existing()).await {
            Ok(renaming) => renaming.publish(control, shared, taken).await,
            Err(error) => {
                shared.fail(taken, &error);
                None
            }
        }
    }
}

impl Renaming {
    /// Reads the replies to the rename; says whether nothing is left to be sent.
    pub(crate) async fn is_through(&mut self) -> bool {
        let Some(sent) = self.sent.take() else {
            return true;
        };
        let (_, into) = self.told.insert(renamed(sent).await);
        self.keeps || !into.as_ref().is_err_and(is_taken)
    }

    /// The second half of [`Hidden::publish`].
    pub(crate) async fn publish(
        self,
        control: &Control,
        shared: &CopyState,
        mut taken: Taken,
    ) -> Option<Taken> {
        match self.done(control, &shared.hiding).await {
            Ok(true) => Some(taken),
            Ok(false) => {
                shared.go_straight(taken);
                None
            }
            Err(error) => {
                // It may have its name, so that there is nothing to go on with.
                taken.file_mut().forget();
                shared.fail(taken, &error);
                None
            }
        }
    }

    /// Says whether the file has its own name now.
    pub(crate) async fn done(
        self,
        control: &Control,
        hiding: &HiddenNames,
    ) -> Result<bool, TransferError> {
        let Self { at, to, .. } = self;
        let told = match (self.told, self.sent) {
            (Some(told), _) => told,
            (None, Some(sent)) => renamed(sent).await,
            (None, None) => return Ok(false),
        };
        let named = match told {
            (Ok(()), Ok(())) => Ok(true),
            (Ok(()), Err(refusal)) if is_taken(&refusal) && self.keeps => Err(appeared(&to)),
            (Ok(()), Err(refusal)) if is_taken(&refusal) => {
                Ok(replace(control, hiding, [&at, &to]).await?)
            }
            (Ok(()), Err(refusal)) if is_final(&refusal) => Ok(false),
            (Err(refusal), _) if is_final(&refusal) && !refusal.is_not_found() => {
                hiding.off.store(true, Ordering::Relaxed);
                Ok(false)
            }
            (Err(error), _) | (Ok(()), Err(error)) => Err(error.into()),
        };
        if let Ok(true) = named {
            hiding.over(&at);
        }
        named
    }
}

/// The failure of a file that is not to replace another.
fn appeared(to: &FtpPath) -> TransferError {
    let what = "it appeared at the destination during the copy, and is left alone";
    TransferError::source(show(to.as_bytes()), what, "")
}

/// Has the file take the place of one that the server does not replace: the old one is moved aside,
/// and back where the new one does not get its name.
async fn replace(
    control: &Control,
    hiding: &HiddenNames,
    [at, to]: [&FtpPath; 2],
) -> Result<bool, ControlError> {
    let Some(aside) = FtpPath::new([at.as_bytes(), b".old"].concat()) else {
        return Ok(false);
    };
    if !succeeded(rename(control, to, &aside)).await? {
        return Ok(false);
    }
    // From here on it may be the only whole file.
    hiding.over(at);
    let done = succeeded(rename(control, at, to)).await?;
    let last = match done {
        true => [
            control.send(Command::Dele(aside)),
            control.send(Command::Noop),
        ],
        false => rename(control, &aside, to),
    };
    succeeded(last).await?;
    Ok(done)
}

/// Sends a rename; nothing may come between its two commands (RFC 959 §4.1.3).
fn rename(control: &Control, at: &FtpPath, to: &FtpPath) -> [Replies; 2] {
    let from = control.send(Command::Rnfr(at.clone()));
    [from, control.send(Command::Rnto(to.clone()))]
}

/// The replies to both commands of a rename.
type Renamed = (Result<(), ControlError>, Result<(), ControlError>);

/// Reads the replies to both commands of a rename.
async fn renamed([mut from, mut into]: [Replies; 2]) -> Renamed {
    (from.ended().await, into.ended().await)
}

/// Says whether both commands were accepted.
async fn succeeded(sent: [Replies; 2]) -> Result<bool, ControlError> {
    match renamed(sent).await {
        (Ok(()), Ok(())) => Ok(true),
        (Err(error @ ControlError::Lost { .. }), _)
        | (_, Err(error @ ControlError::Lost { .. })) => Err(error),
        _ => Ok(false),
    }
}

/// Says whether the server does not replace the object of that name.
fn is_taken(refusal: &ControlError) -> bool {
    refusal.kind() == Some(FailureKind::Exists)
}

/// Says whether the server refuses and will go on doing so.
fn is_final(refusal: &ControlError) -> bool {
    refusal.kind().is_some() && !refusal.is_transient()
}

/// Says whether a store under a hidden name may have been refused for that name alone.
pub(crate) fn may_be_for_name(refusal: &ControlError) -> bool {
    is_final(refusal) && refusal.kind() != Some(FailureKind::NoSpace)
}

#[cfg(test)]
mod tests;
