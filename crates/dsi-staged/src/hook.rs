//! `Hook`: a program of the administrator, run with a path as its argument, for a bounded time.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use gridftp_dsi::{DsiPath, Error, ErrorKind, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;

/// Bytes of a program's complaint that are kept.
const COMPLAINT: usize = 1024;

/// A program, and the bounds on its use.
#[derive(Debug)]
pub(crate) struct Hook {
    op: &'static str,
    program: PathBuf,
    limit: Duration,
    running: Arc<Semaphore>,
}

/// The end of a program.
#[derive(Debug)]
pub(crate) struct Ended {
    status: ExitStatus,
    complaint: Vec<u8>,
}

/// A process group that ends with this value.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            // It may have ended by itself.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

impl Hook {
    /// At most `most` processes of `program` run at a time, each for `limit`.
    pub(crate) fn new(op: &'static str, program: PathBuf, limit: Duration, most: usize) -> Self {
        let running = Arc::new(Semaphore::new(most));
        Self {
            op,
            program,
            limit,
            running,
        }
    }

    /// Runs the program for a file.
    ///
    /// The path is its only argument and its environment holds the user and the task alone, so that
    /// no shell and no variable gives a name of a client another meaning.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if it cannot be started, or runs too long.
    ///
    /// # Cancel safety
    /// Dropping the future kills the program and its children.
    pub(crate) async fn run(&self, path: &DsiPath, user: &str, task: &str) -> Result<Ended> {
        let running = Arc::clone(&self.running).acquire_owned().await;
        let _running = running.map_err(|closed| self.error(path, closed))?;
        let mut command = Command::new(&self.program);
        command.arg(OsStr::from_bytes(path.as_bytes()));
        command.env_clear().current_dir("/");
        for (key, value) in [("STAGE_USER", user), ("STAGE_TASK", task)] {
            // A value with NUL could not be passed.
            command.env(key, value.replace('\0', ""));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::piped()).process_group(0);
        let child = command.spawn().map_err(|error| self.error(path, error))?;
        match tokio::time::timeout(self.limit, wait(child)).await {
            Ok(Ok(ended)) => Ok(ended),
            Ok(Err(error)) => Err(self.error(path, error)),
            Err(_) => {
                let fact = format!(
                    "it ran longer than {} s, and was killed",
                    self.limit.as_secs()
                );
                Err(self.error(path, fact))
            }
        }
    }

    /// The failure of the program for a file.
    pub(crate) fn error(&self, path: &DsiPath, why: impl fmt::Display) -> Error {
        let why = format!("{}: {why}", self.program.display());
        Error::new(ErrorKind::Io, self.op).at(path).because(why)
    }
}

impl Ended {
    /// The exit code; `None` for a program that a signal ended.
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => write!(f, "exit status {code}")?,
            (None, Some(signal)) => write!(f, "ended by signal {signal}")?,
            (None, None) => f.write_str("ended")?,
        }
        let complaint = String::from_utf8_lossy(&self.complaint);
        match complaint.lines().next().map(str::trim) {
            None | Some("") => Ok(()),
            Some(line) => write!(f, ": {}", line.escape_debug()),
        }
    }
}

/// Waits for the end of a program, and keeps the beginning of its standard error.
async fn wait(mut child: Child) -> std::io::Result<Ended> {
    let pid = child.id().and_then(|id| i32::try_from(id).ok());
    let mut group = Group(pid.and_then(Pid::from_raw));
    let mut complaint = Vec::new();
    let mut stderr = child.stderr.take();
    let mut block = [0; COMPLAINT];
    let status = loop {
        tokio::select! {
            biased;
            read = async {
                match &mut stderr {
                    Some(stderr) => stderr.read(&mut block).await,
                    None => std::future::pending().await,
                }
            } => match read {
                Ok(0) | Err(_) => stderr = None,
                Ok(n) => {
                    let room = COMPLAINT - complaint.len();
                    complaint.extend_from_slice(block.get(..n.min(room)).unwrap_or_default());
                }
            },
            status = child.wait() => break status?,
        }
    };
    // The number of a process that has ended may be another's.
    group.0 = None;
    Ok(Ended { status, complaint })
}
