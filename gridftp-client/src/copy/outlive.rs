//! Uploads that outlive a run: the first attempt goes on with the upload that an earlier run noted.

use super::job::FileJob;
use super::lock;
use super::notes::{Note, Upload, expired};
use super::state::CopyState;
use crate::error::TransferError;
use crate::names;
use crate::progress::Event;

/// The note of a file's upload, and the state that it tells.
#[derive(Debug)]
pub(crate) struct Noted {
    note: Note,
    upload: Upload,
    /// Whether it is to be told that the file goes on with the bytes of an earlier run.
    recalled: bool,
}

impl FileJob {
    /// Notes the hidden name and the held ranges of the upload.
    pub(crate) fn note_state(&mut self) {
        if let Some(noted) = &mut self.note {
            noted.upload.hidden.clone_from(&self.hidden);
            noted.upload.held.clone_from(&self.held);
            noted.note.write(&noted.upload);
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
        let name = names::last(&job.from).escape_ascii();
        Some(format!("{size} {seconds} {nanos} {name}"))
    }

    /// Opens the note of an upload before its first attempt, which goes on with the upload of an
    /// earlier run where that was of the same version of the source.
    pub(crate) async fn recall(&self, job: &mut FileJob) {
        let (Some(notes), Some(source)) = (&self.options.notes, self.version(job)) else {
            return;
        };
        if job.note.is_some() || job.begun {
            return;
        }
        let to = self.name_destination(job);
        let dir = self.describe(self.destination.as_ref(), names::parent(&job.to));
        if lock(&self.swept).insert(dir.clone()) {
            for hidden in expired(notes, dir.clone()).await {
                self.hiding.leave(hidden);
            }
        }
        let Some((note, before)) = Note::open(notes, &to).await else {
            return;
        };
        let mut recalled = false;
        match before {
            Some(before) if before.source == source => {
                (job.begun, recalled) = (true, true);
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
            dir,
            source,
            hidden: None,
            held: job.held.clone(),
        };
        job.note = Some(Noted {
            note,
            upload,
            recalled,
        });
    }

    /// Tells, once, that an upload goes on with `held` bytes of an earlier run.
    pub(crate) fn tell_recalled(&self, job: &mut FileJob, held: u64) {
        let Some(noted) = job.note.as_mut().filter(|noted| noted.recalled) else {
            return;
        };
        noted.recalled = false;
        if let (Some(size), 1..) = (job.facts.size, held) {
            self.tell_continuing(job, held, size);
        }
    }

    /// Tells that a file goes on with `held` of its `size` bytes.
    pub(crate) fn tell_continuing(&self, job: &FileJob, held: u64, size: u64) {
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
        if job.note.is_some() && job.begun && !job.straight && error.is_transient() {
            job.note_state();
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
