//! Transfers under watch: counted in the totals of their copy, and listed among its running files.

use std::sync::{Arc, Weak};

use gridftp_data::Watch;

use super::job::FileJob;
use super::state::CopyState;
use crate::control::Control;
use crate::explain::Way;
use crate::progress::{Observer, Totals};
use crate::running::Attempt;
use crate::transfer::Failure;

impl CopyState {
    /// Lists a file that begins an attempt with `held` bytes, the others of which `watch` counts.
    pub(crate) fn show(&self, job: &mut FileJob, held: u64, watch: Weak<Watch>) {
        let is_exposed = self.destination.is_some() && job.hidden.is_none() && !job.kept_apart;
        let attempt = Attempt::new(held, watch, is_exposed);
        match &job.running {
            Some(running) => running.begin(attempt),
            None => {
                let ends = [self.name_source(job), self.name_destination(job)];
                let size = self.expected(job);
                job.running = self.totals.running.add(ends, size, attempt);
            }
        }
        job.note_kept(job.note.as_ref().is_some_and(|noted| noted.goes_on()));
    }

    /// Notes the bytes of an attempt so far, as a server tells them.
    pub(crate) fn note_moved(&self, job: &FileJob, bytes: u64) {
        if let Some(running) = &job.running {
            running.note(bytes);
        }
    }

    /// Counts bytes of a file that no watch counts.
    pub(crate) fn count(&self, job: &FileJob, bytes: u64) {
        self.totals.moved(bytes);
        if let Some(running) = &job.running {
            running.add(bytes);
        }
    }

    /// Tells of a file that is given up that a part of it may be under its own name.
    pub(super) fn tell_incomplete(&self, job: &FileJob) {
        if let Some(event) = job.running.as_ref().and_then(|file| file.incomplete()) {
            self.observer.event(&event);
        }
    }

    /// The watch of a transfer that begins.
    pub(crate) fn watch(&self, way: Way) -> Arc<Watch> {
        let watch = Arc::new(Watch::new());
        if self.options.explain {
            self.totals.samples.begin(&watch, way);
        }
        self.tuning.note(&watch, way);
        watch
    }

    /// Runs a transfer until its end, or until its session is left; counts its bytes for the totals
    /// and the control session meanwhile.
    pub(crate) async fn watched<T>(
        &self,
        control: &Control,
        watch: &Watch,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let count = |bytes| self.totals.moved(bytes);
        self.watched_by(control, watch, count, work).await
    }

    /// As [`watched`](Self::watched), where `count` gets the bytes that have moved.
    pub(crate) async fn watched_by<T>(
        &self,
        control: &Control,
        watch: &Watch,
        count: impl FnMut(u64),
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let work = async {
            tokio::select! {
                biased;
                done = work => done,
                () = control.left.cancelled() => Err(Failure::left()),
            }
        };
        let done = control.watched(watch, count, work).await;
        let done = done.map_err(|failure| self.of_stack(control, failure));
        self.totals.samples.end(watch);
        self.tuning.note_end(watch);
        done
    }
}

/// Tells, when a copy breaks off, the files of which a part may be under their own names, and counts
/// all that were under way.
pub(super) struct BrokenOff<'a> {
    pub(super) totals: &'a Totals,
    pub(super) observer: &'a dyn Observer,
}

impl Drop for BrokenOff<'_> {
    fn drop(&mut self) {
        self.totals.running.break_off();
        for file in self.totals.running.known() {
            if let Some(event) = file.incomplete() {
                self.observer.event(&event);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::copy::job::Item;
    use crate::copy::lock;
    use crate::progress::Event;
    use crate::url::Site;

    #[derive(Default)]
    struct Told(Mutex<Vec<String>>);

    impl Observer for Told {
        fn event(&self, event: &Event<'_>) {
            if let Event::Incomplete { destination, .. } = event {
                lock(&self.0).push((*destination).to_owned());
            }
        }
    }

    #[tokio::test]
    async fn each_part_under_a_final_name_is_told_once() {
        let told = Arc::new(Told::default());
        let mut shared = CopyState::plain();
        shared.observer = Arc::clone(&told) as Arc<dyn Observer>;
        shared.destination = Some(Site::new("host", 21));
        let begin = |name: &str, kept_apart| {
            let name = name.as_bytes().to_vec();
            let mut job = FileJob::new(name.clone(), name);
            job.kept_apart = kept_apart;
            shared.show(&mut job, 0, Weak::new());
            job
        };
        let untried = begin("/untried", false);
        let whole = begin("/whole", false);
        whole.leaves_no_part();
        let _apart = begin("/apart", true);
        let _broken_off = begin("/broken", false);
        // A caller may keep files that have ended.
        let kept = shared.totals.running();
        shared.leave_untried(&Item::File(Box::new(untried)));
        drop(BrokenOff {
            totals: &shared.totals,
            observer: &*shared.observer,
        });
        assert_eq!(kept.len(), 4);
        let name = |path: &[u8]| shared.describe(shared.destination.as_ref(), path);
        assert_eq!(*lock(&told.0), [name(b"/untried"), name(b"/broken")]);
    }
}
