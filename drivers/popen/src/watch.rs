//! `Watch`: waits for the exit of a program, and keeps the end of its standard error.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr};
use tokio::task::JoinHandle;

/// Bytes kept of standard error.
const KEPT: usize = 2048;
/// Bytes read of standard error after the exit, as a pipe holds: children may write for ever.
const LEFT_BEHIND: usize = 64 << 10;

/// The process group of a program, whose number is the program's own; `None` once the kernel may reuse its number.
type Group = Arc<Mutex<Option<Pid>>>;

/// The task that waits for one program. Dropping it kills the program, unless
/// [`let_finish`](Self::let_finish) was called.
pub(crate) struct Watch {
    program: String,
    group: Group,
    state: State,
    /// Whether the program shares the group of this process, so that it alone is killed.
    foreground: bool,
    finish: bool,
}

enum State {
    Running(JoinHandle<(io::Result<ExitStatus>, String)>),
    /// The failure, if any.
    Ended(Option<String>),
}

impl Watch {
    pub(crate) fn new(
        program: String,
        child: Child,
        errors: ChildStderr,
        foreground: bool,
    ) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        let group = Arc::new(Mutex::new(id.and_then(Pid::from_raw)));
        let task = tokio::spawn(watch(child, errors, Arc::clone(&group)));
        Self {
            program,
            group,
            state: State::Running(task),
            foreground,
            finish: false,
        }
    }

    /// Leaves the program running when this is dropped.
    pub(crate) fn let_finish(&mut self) {
        self.finish = true;
    }

    /// Waits for the exit and returns the failure, if any.
    pub(crate) fn poll_failure(&mut self, cx: &mut Context<'_>) -> Poll<Option<String>> {
        let task = match &mut self.state {
            State::Ended(failure) => return Poll::Ready(failure.clone()),
            State::Running(task) => task,
        };
        let (status, said) = match ready!(pin!(task).poll(cx)) {
            Ok(done) => done,
            Err(gone) => (Err(io::Error::other(gone)), String::new()),
        };
        let program = &self.program;
        let failure = match status {
            Ok(status) if status.success() => None,
            Ok(status) if said.is_empty() => Some(format!("`{program}` ended with {status}")),
            Ok(status) => Some(format!("`{program}` ended with {status} and said: {said}")),
            Err(error) => Some(format!("`{program}` cannot be waited for: {error}")),
        };
        self.state = State::Ended(failure.clone());
        Poll::Ready(failure)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // At once and not in the task: the program must be killed before it sees its input end.
        if let Some(group) = *lock(&self.group)
            && !self.finish
        {
            // It fails if the group has no process left.
            let _ = match self.foreground {
                true => kill_process(group, Signal::KILL),
                false => kill_process_group(group, Signal::KILL),
            };
        }
    }
}

fn lock(group: &Mutex<Option<Pid>>) -> std::sync::MutexGuard<'_, Option<Pid>> {
    group.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for the exit, and clears `group`, since the kernel may then reuse the number.
async fn exit(child: &mut Child, group: &Mutex<Option<Pid>>) -> io::Result<ExitStatus> {
    let mut exit = pin!(child.wait());
    poll_fn(|cx| {
        // Locked while the kernel releases the number, so that no other process is killed.
        let mut group = lock(group);
        let status = exit.as_mut().poll(cx);
        if status.is_ready() {
            *group = None;
        }
        status
    })
    .await
}

async fn watch(
    mut child: Child,
    mut errors: ChildStderr,
    group: Group,
) -> (io::Result<ExitStatus>, String) {
    let mut kept = VecDeque::with_capacity(KEPT);
    let mut buf = [0; 512];
    let mut open = true;
    let mut keep = |part: &[u8]| {
        kept.extend(part);
        let surplus = kept.len().saturating_sub(KEPT);
        kept.drain(..surplus);
    };
    // Read standard error as long as the program runs, or it would wait for a reader.
    let status = loop {
        tokio::select! {
            status = exit(&mut child, &group) => break status,
            read = errors.read(&mut buf), if open => match read {
                Ok(n) if n > 0 => keep(buf.get(..n).unwrap_or_default()),
                _ => open = false,
            },
        }
    };
    // Bypass the reactor, which may not know yet of the last bytes; the descriptor is non-blocking.
    let mut left = LEFT_BEHIND;
    while let Ok(n) = rustix::io::read(&errors, &mut buf)
        && n > 0
        && left > 0
    {
        keep(buf.get(..n).unwrap_or_default());
        left = left.saturating_sub(n);
    }
    let said = String::from_utf8_lossy(kept.make_contiguous());
    // Escape line ends, since the text becomes part of an error message.
    let words: Vec<_> = said.trim().escape_debug().collect();
    (status, words.into_iter().collect())
}
