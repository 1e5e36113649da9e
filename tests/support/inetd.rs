//! `Inetd`: a listener that starts a server program for each connection, on standard input and
//! output.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Result;
use rustix::process::{Signal, kill_process_group};

use crate::run::group_of;

/// A port on which each connection gets a server process, as under inetd.
///
/// It runs servers that cannot choose a free port themselves. Dropping it kills the running
/// processes.
#[derive(Debug)]
pub struct Inetd {
    addr: SocketAddr,
    state: Arc<State>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct State {
    stopped: AtomicBool,
    /// The running processes, by process number.
    children: Mutex<HashMap<u32, Child>>,
}

impl Inetd {
    /// Listens on a free port of the loopback interface; `command` makes the program for one
    /// connection.
    pub fn start(command: impl Fn() -> Command + Send + 'static) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let addr = listener.local_addr()?;
        let state = Arc::<State>::default();
        let shared = Arc::clone(&state);
        let accepting = thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.stopped.load(Ordering::SeqCst) {
                    return;
                }
                // If the program does not start, the client sees its connection closed.
                let _ = stream.and_then(|stream| shared.serve(&mut command(), stream));
            }
        });
        Ok(Self {
            addr,
            state,
            accepting: Some(accepting),
        })
    }

    /// Returns the address of the listener.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Sends a signal to the running processes and to those that they started.
    pub fn signal(&self, signal: Signal) {
        for child in self.state.children().values_mut() {
            if matches!(child.try_wait(), Ok(None)) {
                let _ = kill_process_group(group_of(child), signal);
            }
        }
    }
}

impl State {
    fn children(&self) -> MutexGuard<'_, HashMap<u32, Child>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, command: &mut Command, stream: TcpStream) -> io::Result<()> {
        let output = OwnedFd::from(stream.try_clone()?);
        let child = command
            .stdin(Stdio::from(OwnedFd::from(stream)))
            .stdout(Stdio::from(output))
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let mut children = self.children();
        // Reaps the children that have exited.
        children.retain(|_, child| matches!(child.try_wait(), Ok(None)));
        children.insert(child.id(), child);
        Ok(())
    }
}

impl Drop for Inetd {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::SeqCst);
        // Wakes the thread that waits in accept.
        if let Ok(stream) = TcpStream::connect_timeout(&self.addr, Duration::from_secs(1)) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        self.signal(Signal::KILL);
        for child in self.state.children().values_mut() {
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn each_connection_gets_its_own_process() -> Result<()> {
        let inetd = Inetd::start(|| Command::new("cat"))?;
        for word in ["one", "two"] {
            let mut stream = TcpStream::connect(inetd.addr())?;
            stream.write_all(word.as_bytes())?;
            stream.shutdown(Shutdown::Write)?;
            let mut reply = String::new();
            stream.read_to_string(&mut reply)?;
            assert_eq!(reply, word);
        }
        Ok(())
    }
}
