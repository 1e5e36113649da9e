//! `Daemon`: a server process that says when it is ready and ends, children included, when dropped.

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
    said: Arc<Said>,
}

/// What a process wrote so far, and whether more may come.
#[derive(Debug, Default)]
struct Said {
    so_far: Mutex<SoFar>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SoFar {
    text: String,
    /// Pipes that were read to their end.
    ended: usize,
}

impl Said {
    /// A thread that panicked leaves text all the same.
    fn lock(&self) -> MutexGuard<'_, SoFar> {
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut SoFar)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits until it is `enough`, and returns the text.
    fn wait(&self, limit: Duration, enough: impl Fn(&SoFar) -> bool) -> Result<String> {
        let (so_far, late) = self
            .changed
            .wait_timeout_while(self.lock(), limit, |so_far| !enough(so_far))
            .unwrap_or_else(PoisonError::into_inner);
        ensure!(
            !late.timed_out(),
            "not all was said within {limit:?}, but:\n{}",
            so_far.text
        );
        Ok(so_far.text.clone())
    }
}

impl Daemon {
    /// Starts `command` and waits until a line of its output is one from which `ready` reads the address.
    pub fn start(command: &mut Command, ready: fn(&str) -> Option<SocketAddr>) -> Result<Self> {
        let what = describe(command);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {what}"))?;
        let said = Arc::<Said>::default();
        let (sender, address) = mpsc::channel();
        let stdout = child.stdout.take().context("no pipe")?;
        listen(stdout, said.clone(), move |line| {
            if let Some(addr) = ready(line) {
                let _ = sender.send(addr);
            }
        });
        listen(
            child.stderr.take().context("no pipe")?,
            said.clone(),
            |_| (),
        );
        match address.recv_timeout(READY) {
            Ok(addr) => Ok(Self { child, addr, said }),
            Err(_) => {
                let _ = kill_process_group(group_of(&child), Signal::KILL);
                let status = child.wait()?;
                let said = said.lock().text.clone();
                bail!("{what} was not ready within {READY:?} ({status}); it said:\n{said}");
            }
        }
    }

    /// Returns the address it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Returns its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns all that it wrote so far, both streams together.
    pub fn said(&self) -> String {
        self.said.lock().text.clone()
    }

    /// Waits until it has written `word`.
    pub fn hear(&self, word: &str) -> Result<()> {
        let heard = self.said.wait(READY, |said| said.text.contains(word));
        heard.map(drop)
    }

    /// Returns all that a process which has ended ever wrote.
    pub fn last_words(&self) -> Result<String> {
        self.said.wait(READY, |said| said.ended == 2)
    }

    /// Sends a signal to the server process alone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(group_of(&self.child), signal)?)
    }

    /// Waits until the process ended by itself and returns whether it reported success.
    pub fn wait(&mut self, limit: Duration) -> Result<bool> {
        let ended = pidfd_open(group_of(&self.child), PidfdFlags::empty())?;
        let limit_spec = limit
            .try_into()
            .context("a limit too long for the kernel")?;
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

fn listen(
    pipe: impl std::io::Read + Send + 'static,
    said: Arc<Said>,
    mut line_seen: impl FnMut(&str) + Send + 'static,
) {
    thread::spawn(move || {
        let mut reader = BufReader::new(pipe);
        let mut bytes = Vec::new();
        while matches!(reader.read_until(b'\n', &mut bytes), Ok(n) if n > 0) {
            let line = String::from_utf8_lossy(&bytes).into_owned();
            line_seen(line.trim_end());
            said.change(|so_far| so_far.text.push_str(&line));
            bytes.clear();
        }
        said.change(|so_far| so_far.ended += 1);
    });
}
