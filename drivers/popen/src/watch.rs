//! `Watch`: waits for a program to exit, and keeps the last of what it said.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::process::ExitStatus;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr};
use tokio::task::JoinHandle;

/// How much of what a program said is kept, in bytes.
const KEPT: usize = 2048;
/// How many reads are spent on what it left behind; its children may never stop.
const LAST_READS: usize = 16;

/// The task that waits for one program. Dropping it kills the program, unless it was let finish.
pub(crate) struct Watch {
    program: String,
    state: State,
    finish: bool,
}

enum State {
    Running(JoinHandle<(io::Result<ExitStatus>, String)>),
    /// Why it failed, where it did.
    Ended(Option<String>),
}

impl Watch {
    pub(crate) fn new(program: String, child: Child, errors: ChildStderr) -> Self {
        Self {
            program,
            state: State::Running(tokio::spawn(watch(child, errors))),
            finish: false,
        }
    }

    /// Leaves the program to itself when this is dropped.
    pub(crate) fn let_finish(&mut self) {
        self.finish = true;
    }

    /// Waits for the exit and says why that was a failure, where it was one.
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
        if let State::Running(task) = &self.state
            && !self.finish
        {
            // The task owns the child, which is killed when it is dropped.
            task.abort();
        }
    }
}

async fn watch(mut child: Child, mut errors: ChildStderr) -> (io::Result<ExitStatus>, String) {
    let mut kept = VecDeque::with_capacity(KEPT);
    let mut buf = [0; 512];
    let mut open = true;
    let mut keep = |part: &[u8]| {
        kept.extend(part);
        let surplus = kept.len().saturating_sub(KEPT);
        kept.drain(..surplus);
    };
    // What it says is read as long as it lives, or it would wait for a reader.
    let status = loop {
        tokio::select! {
            status = child.wait() => break status,
            read = errors.read(&mut buf), if open => match read {
                Ok(n) if n > 0 => keep(buf.get(..n).unwrap_or_default()),
                _ => open = false,
            },
        }
    };
    for _ in 0..LAST_READS {
        let mut reading = pin!(errors.read(&mut buf));
        let read = poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx))).await;
        match read {
            Poll::Ready(Ok(n)) if n > 0 => keep(buf.get(..n).unwrap_or_default()),
            _ => break,
        }
    }
    let said = String::from_utf8_lossy(kept.make_contiguous());
    // One line: it goes into a message.
    let words: Vec<_> = said.trim().escape_debug().collect();
    (status, words.into_iter().collect())
}
