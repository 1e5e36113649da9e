//! Runs a program under a deadline, and keeps its output.

use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};

/// The result of a program that has exited.
#[derive(Debug)]
#[non_exhaustive]
pub struct Finished {
    /// Exit status.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Time from start to exit.
    pub took: Duration,
    /// The command line.
    command: String,
}

impl Finished {
    /// Returns itself when the program reported success, else an error with all its output.
    pub fn ok(self) -> Result<Self> {
        if !self.status.success() {
            bail!("{}", self.report());
        }
        Ok(self)
    }

    /// Returns itself when the program reported failure by an exit status, else an error.
    pub fn failed(self) -> Result<Self> {
        if self.status.success() || self.status.signal().is_some() {
            bail!("expected a failure with an exit status: {}", self.report());
        }
        Ok(self)
    }

    /// Returns the command line, the exit status and the output, for messages.
    pub fn report(&self) -> String {
        format!(
            "{} ended with {} after {:.1} s\n--- stdout\n{}--- stderr\n{}",
            self.command,
            self.status,
            self.took.as_secs_f64(),
            self.stdout,
            self.stderr
        )
    }
}

/// Returns the number of bytes that a process has read from files.
pub fn bytes_read(pid: u32) -> Result<u64> {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io"))?;
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: "));
    Ok(line.context("no rchar")?.parse()?)
}

/// Runs `command` for at most `limit`; then kills the program and its children, and returns an
/// error.
pub fn run(command: &mut Command, limit: Duration) -> Result<Finished> {
    run_with_input(command, Stdio::null(), limit)
}

/// Runs `command` like [`run`], with `input` as its standard input.
pub fn run_with_input(command: &mut Command, input: Stdio, limit: Duration) -> Result<Finished> {
    let what = describe(command);
    let started = Instant::now();
    let mut child = command
        .stdin(input)
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
        command: what,
    })
}

/// Returns the process group of a child that was started with `process_group(0)`.
pub(crate) fn group_of(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// Returns the command line, for messages.
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
    fn output_and_status_are_returned() -> Result<()> {
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
    fn a_hanging_program_is_killed_with_its_children() {
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
