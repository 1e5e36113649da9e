//! Uploads that outlive a run: the first attempt goes on with the upload that an earlier run noted.

use std::ffi::OsStr;
use std::mem;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use byte_ranges::RangeSet;
use gridftp_data::{Earlier, Watch};
use gridftp_dsi::{Source as _, Version};
use gridftp_dsi_posix::{FileSource, GroupFile};
use tokio::time::timeout;

use super::job::{FileJob, ReadBack};
use super::lock;
use super::notes::{Note, Upload, expired};
use super::state::CopyState;
use crate::abilities::Abilities;
use crate::error::TransferError;
use crate::masked::masked;
use crate::names;
use crate::progress::Event;
use crate::verify::PROOFS;

/// Shortest time between two states of a note.
const EVERY: Duration = Duration::from_secs(1);
/// Longest wait for the file system of the values of a source.
const KEEPING: Duration = Duration::from_secs(2);
/// Longest wait for the file system of the notes.
const OPENING: Duration = Duration::from_secs(10);

/// The note of a file's upload, and the state that it tells.
#[derive(Debug)]
pub(crate) struct Noted {
    note: Note,
    upload: Upload,
    /// The values of the groups of the source that were sent.
    groups: Option<(Version, GroupFile)>,
    /// Whether it was told that the file goes on with the bytes of an earlier run.
    is_told: bool,
    /// Whether a later run can prove the bytes that this one leaves.
    is_provable: bool,
    /// Time of the last state that was written.
    last: Option<Instant>,
}

impl Noted {
    /// Says whether a later run goes on with the upload.
    pub(crate) fn goes_on(&self) -> bool {
        self.is_provable
    }
}

/// Says whether the bytes of a transfer that failed with `error` are the source's, and a later attempt
/// goes on with them.
pub(crate) fn leaves_bytes(error: &TransferError) -> bool {
    match error {
        TransferError::Changed { .. } | TransferError::Unset { .. } => false,
        TransferError::Size { expected, got, .. } => got < expected,
        error => !error.is_corrupt(),
    }
}

/// Runs the transfer `work` of a source, and keeps the values of the sent groups in `groups`.
pub(crate) async fn noted<T>(
    groups: Option<GroupFile>,
    watch: &Watch,
    work: impl Future<Output = T>,
) -> T {
    let Some(groups) = groups else {
        return work.await;
    };
    let groups = &groups;
    let keep = |values| async move {
        if !matches!(timeout(KEEPING, groups.note(values)).await, Ok(Ok(()))) {
            tracing::debug!("the values of a source are not kept");
        }
    };
    watch.with_groups(EVERY / 4, work, keep).await
}

impl FileJob {
    /// The file for the values of the groups of the source, where it is to have one.
    pub(crate) fn groups(&self) -> Option<GroupFile> {
        let (_, groups) = self.note.as_ref()?.groups.as_ref()?;
        Some(groups.clone())
    }

    /// The values of the held ranges of the `source` of an upload that has a note, of which the last
    /// ones alone are read again.
    pub(crate) async fn earlier(&mut self, source: &FileSource) -> Option<Earlier> {
        let (noted, version) = (self.note.as_mut()?, source.version()?);
        if noted.groups.as_ref().is_none_or(|(of, _)| *of != version) {
            let groups = timeout(OPENING, noted.note.groups(version)).await;
            noted.groups = Some((version, groups.ok()??));
        }
        let groups = self.groups()?;
        let values = timeout(OPENING, groups.values(&self.held)).await;
        Some(Earlier::of_source(source, values.ok()?.ok()?, &self.held).await)
    }

    /// Notes the hidden name and the held ranges of the upload, at most once a second.
    pub(crate) fn note_state(&mut self) {
        let is_due = |noted: &&mut Box<Noted>| {
            let is_fresh = noted.last.is_some_and(|last| last.elapsed() < EVERY);
            !is_fresh || self.held.is_empty()
        };
        if let Some(noted) = self.note.as_mut().filter(is_due) {
            noted.last = Some(Instant::now());
            noted.upload.hidden.clone_from(&self.hidden);
            noted.upload.held.clone_from(&self.held);
            noted.note.write(noted.upload.clone());
        }
    }

    /// Forgets the upload's note: no later run goes on with it.
    pub(crate) fn forget_note(&mut self) {
        if let Some(noted) = self.note.take() {
            noted.note.remove();
        }
    }
}

impl CopyState {
    /// The version of the source of an upload that outlives the run: one whose size and time are
    /// known.
    fn version(&self, job: &FileJob) -> Option<String> {
        let size = job
            .facts
            .size
            .filter(|size| self.options.resume.takes(*size))?;
        let (seconds, nanos) = job.facts.modified?;
        if self.is_partial() || self.through_layers() {
            return None;
        }
        let name = self.lasting_source(job)?;
        Some(format!("{size} {seconds} {nanos} {}", name.escape_ascii()))
    }

    /// Gives up the old uploads to the directories of this run's uploads, at its end: it may have gone
    /// on with some.
    pub(super) async fn sweep_uploads(&self) {
        let dirs = mem::take(&mut *lock(&self.swept));
        let Some(notes) = self.options.notes.as_ref().filter(|_| !dirs.is_empty()) else {
            return;
        };
        let expired = timeout(OPENING, expired(notes, dirs)).await;
        for hidden in expired.unwrap_or_default() {
            self.hiding.leave(hidden);
        }
    }

    /// The name of a source by which a later run knows it, whatever its working directory.
    pub(crate) fn lasting_source(&self, job: &FileJob) -> Option<Vec<u8>> {
        if self.source.is_some() {
            // It stands on disk.
            let mut name = masked(&self.name_source(job));
            // Of a file on the web it tells more than its size and its time.
            name.extend(job.validator.iter().flat_map(|value| [" ", value]));
            return Some(name.into_bytes());
        }
        let path = Path::new(OsStr::from_bytes(&job.from));
        Some(std::path::absolute(path).ok()?.into_os_string().into_vec())
    }

    /// Has the notes of old uploads into a directory removed at the end of the run; gives the name by
    /// which they know it.
    pub(crate) fn sweep_notes_later(&self, dir: &[u8]) -> String {
        let dir = self.describe(self.destination.as_ref(), dir);
        self.sweep_later(dir.as_bytes());
        dir
    }

    /// Opens the note of an upload before its first attempt, which goes on with the upload of an
    /// earlier run where that was of the same version of the source.
    pub(crate) async fn recall(&self, job: &mut FileJob, abilities: &Abilities) {
        let Some(notes) = &self.options.notes else {
            return;
        };
        if job.note.is_some() || job.begun {
            return;
        }
        let dir = self.sweep_notes_later(names::parent(&job.to));
        let (to, Some(source)) = (self.name_destination(job), self.version(job)) else {
            return;
        };
        let Ok(opened) = timeout(OPENING, Note::open(notes, &to)).await else {
            return self.note("the directory of the notes of uploads does not answer");
        };
        let Some((note, before)) = opened else {
            return;
        };
        match before {
            // Our server keeps the bytes apart; any other has them under the hidden name.
            Some(before)
                if before.source == source && before.hidden.is_none() == abilities.held =>
            {
                (job.begun, job.recalled) = (true, true);
                (job.held, job.hidden) = (before.held, before.hidden);
            }
            Some(before) => {
                let what = "the source is not the one of the bytes that an earlier run stored";
                self.warn(&format!("{to}: begun anew: {what}"));
                before
                    .hidden
                    .into_iter()
                    .for_each(|at| self.hiding.leave(at));
            }
            None => {}
        }
        let upload = Upload {
            to,
            dir,
            source,
            hidden: None,
            held: RangeSet::new(),
        };
        let (is_told, last) = (!job.recalled, None);
        job.note = Some(Box::new(Noted {
            note,
            upload,
            groups: None,
            is_told,
            is_provable: false,
            last,
        }));
    }

    /// Notes the upload that is about to begin, from the server with the abilities `source` if it is on
    /// one; `sends_back` says whether this machine can get its bytes back. An upload that is written
    /// under its own name does not outlive the run.
    pub(crate) async fn renew_note(
        &self,
        job: &mut FileJob,
        abilities: &Abilities,
        (source, sends_back): (Option<&Abilities>, bool),
    ) {
        let is_offered = |ends: &Abilities, proof| ends.cost(proof).is_some();
        let is_refused = job.read_back == ReadBack::Refused;
        let reads_back = sends_back && job.hidden.is_some() && !is_refused;
        let is_provable = reads_back
            || PROOFS.into_iter().any(|proof| {
                is_offered(abilities, proof)
                    && source.is_none_or(|source| is_offered(source, proof))
            });
        let version = self
            .version(job)
            .filter(|_| job.hidden.is_some() || abilities.held);
        match (version, &mut job.note) {
            (Some(version), Some(noted)) => {
                noted.is_provable = is_provable;
                noted.upload.source = version;
                noted.upload.hidden.clone_from(&job.hidden);
                noted.upload.held.clone_from(&job.held);
                noted.note.settle(noted.upload.clone()).await;
            }
            _ => {
                job.forget_note();
                if let Some(at) = &job.hidden {
                    self.record_hidden(at).await;
                }
            }
        }
    }

    /// Tells, once, that an upload goes on with `held` bytes of an earlier run.
    pub(crate) fn tell_recalled(&self, job: &mut FileJob, held: u64) {
        let Some(noted) = job.note.as_mut().filter(|noted| !noted.is_told) else {
            return;
        };
        noted.is_told = true;
        if let (Some(size), 1..) = (job.facts.size, held) {
            self.tell_continuing(job, held, size);
        }
    }

    /// Tells that a file goes on with `held` of its `size` bytes.
    pub(crate) fn tell_continuing(&self, job: &mut FileJob, held: u64, size: u64) {
        job.counted = job.counted.saturating_add(held);
        self.totals.held(held);
        self.observer.event(&Event::Continuing {
            source: &self.name_source(job),
            destination: &self.name_destination(job),
            held,
            size,
        });
    }

    /// Tells how many bytes are kept of a file that has failed for good.
    pub(crate) fn tell_kept(&self, job: &FileJob) {
        let held = job.held.total();
        if let (Some(size), 1..) = (job.facts.size, held) {
            self.observer.event(&Event::Kept {
                source: &self.name_source(job),
                destination: &self.name_destination(job),
                held,
                size,
            });
        }
    }

    /// Keeps the server's bytes of an upload that has failed for good with `error` for a later run,
    /// or leaves them to be removed.
    pub(crate) fn keep_upload(&self, job: &mut FileJob, error: &TransferError) {
        let noted = job.note.as_mut().filter(|_| job.begun && !job.straight);
        if let Some(noted) = noted.filter(|_| leaves_bytes(error)) {
            noted.upload.held.clone_from(&job.held);
            noted.note.write_now(noted.upload.clone());
            self.tell_kept(job);
            return;
        }
        job.forget_note();
        job.hidden
            .take()
            .into_iter()
            .for_each(|at| self.hiding.leave(at));
    }
}
