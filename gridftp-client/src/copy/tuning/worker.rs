//! `Worker`: a connection that copies files, counted until it leaves or ends.

use std::sync::{Arc, Mutex};

use super::State;
use crate::copy::engine::Task;
use crate::copy::lock;
use crate::copy::state::CopyState;

/// The phase of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// It connects, or waits to try again.
    Connecting,
    /// It has a session.
    Working,
    /// It ends for others to have less, or has ended.
    Left,
}

/// A connection that copies files, or one that lists, which counts for nothing.
pub(in crate::copy) struct Worker {
    pub(in crate::copy) shared: Arc<CopyState>,
    pub(in crate::copy) task: Task,
    phase: Mutex<Phase>,
}

impl Worker {
    /// Counts a worker in until the result is dropped.
    pub(in crate::copy) fn of(shared: Arc<CopyState>, task: Task) -> Self {
        let worker = Self {
            shared,
            task,
            phase: Mutex::new(Phase::Left),
        };
        worker.enter(Phase::Connecting);
        worker
    }

    /// Notes that it has a session.
    pub(in crate::copy) fn begin(&self) {
        self.enter(Phase::Working);
    }

    /// Notes that its session has ended.
    pub(in crate::copy) fn end(&self) {
        self.enter(Phase::Connecting);
    }

    /// Says whether it is to end, which counts it out.
    pub(in crate::copy) fn leaves(&self) -> bool {
        let mut state = self.shared.tuning.state();
        let mut phase = lock(&self.phase);
        if self.task == Task::Copy && state.may_leave(*phase) {
            state.change(&mut phase, Phase::Left);
        }
        drop(state);
        *phase == Phase::Left && self.task == Task::Copy
    }

    /// Says whether it ends for others to have less.
    pub(in crate::copy) fn has_left(&self) -> bool {
        self.task == Task::Copy && *lock(&self.phase) == Phase::Left
    }

    fn enter(&self, next: Phase) {
        if self.task == Task::Copy {
            let mut state = self.shared.tuning.state();
            state.change(&mut lock(&self.phase), next);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.enter(Phase::Left);
    }
}

impl State {
    /// Workers with a session or on the way to one.
    pub(super) fn workers(&self) -> u32 {
        self.working.saturating_add(self.connecting)
    }

    /// Says whether the pipeline of a worker is to end, so that the worker can leave.
    pub(super) fn drains(&mut self) -> bool {
        let stay = self.working.saturating_sub(self.draining);
        let drains = self.files.is_some_and(|files| stay > files.max(1));
        self.draining += u32::from(drains);
        drains
    }

    /// Says whether a worker in this phase is one too many. One with a session stays unless there
    /// are enough others that have one, since those that connect may never do.
    fn may_leave(&mut self, phase: Phase) -> bool {
        let stay = match phase {
            Phase::Working => self.working,
            Phase::Connecting => self.workers(),
            Phase::Left => return false,
        };
        let leaves = self.files.is_some_and(|files| stay > files.max(1));
        self.draining = if leaves {
            self.draining.saturating_sub(1)
        } else {
            0
        };
        leaves
    }

    fn change(&mut self, phase: &mut Phase, next: Phase) {
        if let Some(count) = self.count(*phase) {
            *count = count.saturating_sub(1);
        }
        *phase = next;
        if let Some(count) = self.count(next) {
            *count = count.saturating_add(1);
        }
    }

    fn count(&mut self, phase: Phase) -> Option<&mut u32> {
        match phase {
            Phase::Connecting => Some(&mut self.connecting),
            Phase::Working => Some(&mut self.working),
            Phase::Left => None,
        }
    }
}
