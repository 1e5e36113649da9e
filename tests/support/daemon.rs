//! `Daemon`: a server process that reports its address when ready, and is killed when dropped.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

use crate::run::{describe, group_of};

const READY: Duration = Duration::from_secs(30);

/// A running server process.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    addr: SocketAddr,
    output: Arc<Output>,
}

/// The output of a process so far, shared with the threads that read its pipes.
#[derive(Debug, Default)]
struct Output {
    written: Mutex<Written>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Written {
    text: String,
    /// Number of pipes read to their end.
    ended: usize,
}

impl Output {
    fn lock(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Written)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits until `enough` holds, and returns the text.
    fn wait(&self, limit: Duration, enough: impl Fn(&Written) -> bool) -> Result<String> {
        let (written, late) = self
            .changed
            .wait_timeout_while(self.lock(), limit, |written| !enough(written))
            .unwrap_or_else(PoisonError::into_inner);
        ensure!(
            !late.timed_out(),
            "the expected output did not come within {limit:?}; it was:\n{}",
            written.text
        );
        Ok(written.text.clone())
    }
}

impl Daemon {
    /// Starts `command` and waits for the line of its output from which `ready` reads the address.
    pub fn start(
        command: &mut Command,
        ready: impl Fn(&str) -> Option<SocketAddr> + Send + 'static,
    ) -> Result<Self> {
        let what = describe(command);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {what}"))?;
        let output = Arc::<Output>::default();
        let (sender, address) = mpsc::channel();
        let stdout = child.stdout.take().context("no pipe")?;
        collect_lines(stdout, output.clone(), move |line| {
            if let Some(addr) = ready(line) {
                let _ = sender.send(addr);
            }
        });
        collect_lines(
            child.stderr.take().context("no pipe")?,
            output.clone(),
            |_| (),
        );
        match address.recv_timeout(READY) {
            Ok(addr) => Ok(Self {
                child,
                addr,
                output,
            }),
            Err(_) => {
                let _ = kill_process_group(group_of(&child), Signal::KILL);
                let status = child.wait()?;
                let output = output.lock().text.clone();
                bail!("{what} was not ready within {READY:?} ({status}); its output:\n{output}");
            }
        }
    }

    /// Returns the address on which the server listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns the process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the output so far, both streams together.
    pub fn output(&self) -> String {
        self.output.lock().text.clone()
    }

    /// Waits until the output contains `word`.
    pub fn wait_for(&self, word: &str) -> Result<()> {
        self.wait_for_any(&[word])
    }

    /// Waits until the output contains one of `words`.
    pub fn wait_for_any(&self, words: &[&str]) -> Result<()> {
        let is_there = |output: &Written| words.iter().any(|word| output.text.contains(word));
        self.output.wait(READY, is_there).map(drop)
    }

    /// Waits until both pipes are closed, and returns the whole output.
    pub fn all_output(&self) -> Result<String> {
        self.output.wait(READY, |output| output.ended == 2)
    }

    /// Sends a signal to the server process alone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(group_of(&self.child), signal)?)
    }

    /// Sends a signal to the server process and to those that it started.
    pub fn signal_all(&self, signal: Signal) -> Result<()> {
        Ok(kill_process_group(group_of(&self.child), signal)?)
    }

    /// Waits until the process exits by itself, and returns whether it reported success.
    pub fn wait(&mut self, limit: Duration) -> Result<bool> {
        let ended = pidfd_open(group_of(&self.child), PidfdFlags::empty())?;
        let limit_spec = limit
            .try_into()
            .context("the limit exceeds the kernel's range")?;
        if poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&limit_spec))? == 0 {
            bail!("process {} still runs after {limit:?}", self.pid());
        }
        Ok(self.child.wait()?.success())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = kill_process_group(group_of(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

fn collect_lines(
    pipe: impl std::io::Read + Send + 'static,
    output: Arc<Output>,
    mut line_seen: impl FnMut(&str) + Send + 'static,
) {
    thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        let mut bytes = Vec::new();
        while matches!(reader.read_until(b'\n', &mut bytes), Ok(n) if n > 0) {
            let line = String::from_utf8_lossy(&bytes).into_owned();
            line_seen(line.trim_end());
            output.change(|written| written.text.push_str(&line));
            bytes.clear();
        }
        output.change(|written| written.ended += 1);
    });
}
