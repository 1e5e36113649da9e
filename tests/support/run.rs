//! Runs a program to its end, or to its deadline, and keeps what it said.

use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

/// What a program left behind when it ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// All that it wrote to its standard output.
    pub stdout: String,
    /// All that it wrote to its standard error.
    pub stderr: String,
    /// How long it took.
    pub took: Duration,
    what: String,
}

impl Finished {
    /// Returns itself when the program reported success, else an error that carries all its output.
    pub fn ok(self) -> Result<Self> {
        if !self.status.success() {
            bail!("{}", self.report());
        }
        Ok(self)
    }

    /// Returns itself when the program reported failure by an exit status of its own, else an error.
    pub fn failed(self) -> Result<Self> {
        if self.status.success() || self.status.signal().is_some() {
            bail!("expected a failure with an exit status: {}", self.report());
        }
        Ok(self)
    }

    /// Returns the command line, its end and its output, for people.
    pub fn report(&self) -> String {
        format!(
            "{} ended with {} after {:.1} s\n--- stdout\n{}--- stderr\n{}",
            self.what,
            self.status,
            self.took.as_secs_f64(),
            self.stdout,
            self.stderr
        )
    }
}

/// Runs `command` for at most `limit`; at the limit the program and its children are killed and an error says so.
pub fn run(command: &mut Command, limit: Duration) -> Result<Finished> {
    let what = describe(command);
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .with_context(|| format!("start {what}"))?;
    let group = group_of(&child);
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let (sender, ended) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait()));
    let status = ended.recv_timeout(limit);
    if status.is_err() {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let text = |pipe: thread::JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&pipe.join().unwrap_or_default()).into_owned()
    };
    let Ok(status) = status else {
        bail!(
            "{what} did not end within {limit:?}\n--- stdout\n{}--- stderr\n{}",
            text(stdout),
            text(stderr)
        );
    };
    Ok(Finished {
        status: status?,
        took: started.elapsed(),
        stdout: text(stdout),
        stderr: text(stderr),
        what,
    })
}

/// Returns the process group that a child started with `process_group(0)` leads.
pub(crate) fn group_of(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// Returns a command line as one would type it.
pub(crate) fn describe(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(
        command
            .get_args()
            .map(|arg| arg.to_string_lossy().into_owned()),
    );
    words.join(" ")
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_status_are_kept() -> Result<()> {
        let done = run(
            Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]),
            Duration::from_secs(20),
        )?;
        assert_eq!(
            (done.stdout.as_str(), done.stderr.as_str()),
            ("out\n", "err\n")
        );
        assert_eq!(done.failed()?.status.code(), Some(3));
        Ok(())
    }

    #[test]
    fn a_program_that_hangs_is_ended_with_its_children() {
        let hang = run(
            Command::new("sh").args(["-c", "echo before; sleep 600 & wait"]),
            Duration::from_millis(300),
        );
        let text = hang.unwrap_err().to_string();
        assert!(
            text.contains("did not end within") && text.contains("before"),
            "{text}"
        );
    }
}
