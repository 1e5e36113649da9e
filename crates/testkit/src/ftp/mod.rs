//! `ScriptedServer`: an FTP server in memory, whose reactions a test scripts command by command.
//!
//! The conversation is that of [`ftp_proto::server::ServerSession`]; the files are in memory, and
//! each session has a thread.

mod objects;
mod session;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use self::objects::Object;
use self::session::Session;

/// Longest wait for an expected command.
const LIMIT: Duration = Duration::from_secs(10);

/// The server's reaction to one command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reaction {
    /// Executes a command of RFC 959, and `SIZE`, `MDTM` and `REST` of RFC 3659; refuses others.
    Usual,
    /// Executes the command, a newer one too.
    Execute,
    /// Executes the command, and sends its reply together with the next reply.
    Later,
    /// Executes the passive command, and names this host in its reply.
    Announce(Ipv4Addr),
    /// Executes the passive command, and closes the port of its reply.
    Shut,
    /// Executes the transfer, and asks the script about `MIDWAY` after that many bytes.
    Until(usize),
    /// Executes the transfer with these bytes, one element for each data connection, and then reacts
    /// so, in place of asking about `MIDWAY`.
    Send(Vec<Vec<u8>>, Box<Self>),
    /// Reacts so in MODE E, and executes the command in MODE S.
    Extended(Box<Self>),
    /// Sends this reply and does nothing else; a 230 logs in.
    Say(String),
    /// Sends these bytes, or none, and does nothing else.
    Raw(Vec<u8>),
    /// Sends these bytes, and reacts as the script says of `AGAIN` with the command.
    Begin(Vec<u8>),
    /// Sends this reply, unless it is empty, and closes the connection.
    HangUp(String),
    /// Sends nothing more on this connection.
    Silence,
    /// `MIDWAY`: keeps the data connections open, and sends no final reply.
    Hold,
    /// `MIDWAY`: resets the data connections, and sends this reply.
    Reset(String),
}

impl Reaction {
    /// Sends the reply `text` and does nothing else.
    pub fn say(text: &str) -> Self {
        Self::Say(text.to_owned())
    }

    /// Executes the transfer over one data connection with these bytes.
    pub fn send(bytes: &[u8]) -> Self {
        Self::Send(vec![bytes.to_owned()], Box::new(Self::Usual))
    }
}

/// Returns one block of MODE E.
pub fn block(flags: u8, count: u64, offset: u64, payload: &[u8]) -> Vec<u8> {
    let numbers = [count.to_be_bytes(), offset.to_be_bytes()].concat();
    [&[flags], &numbers[..], payload].concat()
}

type Script = dyn Fn(&ScriptedServer, &str) -> Reaction + Send + Sync;

/// A server with files in memory, by default with MODE S only and nothing newer than RFC 3659's
/// `SIZE`, `MDTM` and `REST`.
///
/// The script decides on each of these lines: every command; `CONNECT` before the greeting;
/// `MIDWAY` with a transfer command after the first bytes of an upload or half of a download;
/// `END` with a transfer command before its final reply; and `AGAIN` with a command behind
/// [`Reaction::Begin`].
#[derive(Clone)]
pub struct ScriptedServer {
    addr: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    script: Box<Script>,
    names: Mutex<BTreeMap<String, Object>>,
    commands: Mutex<Vec<String>>,
    more: Condvar,
    early: AtomicUsize,
    received: AtomicUsize,
}

impl std::fmt::Debug for ScriptedServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ScriptedServer").field(&self.addr).finish()
    }
}

impl ScriptedServer {
    /// Starts a server that executes every command.
    ///
    /// # Errors
    ///
    /// No loopback port could be bound.
    pub fn usual() -> io::Result<Self> {
        Self::start(|_| Reaction::Usual)
    }

    /// Starts a server with a script of lines.
    ///
    /// # Errors
    ///
    /// No loopback port could be bound.
    pub fn start(script: impl Fn(&str) -> Reaction + Send + Sync + 'static) -> io::Result<Self> {
        Self::with(move |_, line| script(line))
    }

    /// Starts a server with a script that may look at the server and change its files; each session
    /// has a thread until the test's process ends.
    ///
    /// # Errors
    ///
    /// No loopback port could be bound.
    pub fn with(
        script: impl Fn(&Self, &str) -> Reaction + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let shared = Shared {
            script: Box::new(script),
            names: Mutex::new(BTreeMap::from([("/".to_owned(), Object::default())])),
            commands: Mutex::default(),
            more: Condvar::new(),
            early: AtomicUsize::new(0),
            received: AtomicUsize::new(0),
        };
        let server = Self {
            addr: listener.local_addr()?,
            shared: Arc::new(shared),
        };
        let accepting = server.clone();
        thread::spawn(move || {
            for control in listener.incoming().flatten() {
                let server = accepting.clone();
                // The client may hang up at any time.
                thread::spawn(move || drop(Session::new(server, control).run()));
            }
        });
        Ok(server)
    }

    /// Returns the URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("ftp://{}/{path}", self.addr)
    }

    /// Adds or replaces a file, and adds its parent directories.
    pub fn file(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        let mut names = self.names();
        for (at, _) in path.match_indices('/').skip(1) {
            let dir = path.get(..at).unwrap_or_default();
            names.entry(dir.to_owned()).or_default();
        }
        let age = names.get(path).map_or(0, |old| old.age + 1);
        let bytes = Some(bytes.into());
        names.insert(path.to_owned(), Object { bytes, age });
    }

    /// Replaces the bytes of a file that keeps its time.
    pub fn change(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        if let Some(object) = self.names().get_mut(path) {
            object.bytes = Some(bytes.into());
        }
    }

    /// Adds an empty directory.
    pub fn dir(&self, path: &str) {
        self.names().insert(path.to_owned(), Object::default());
    }

    /// Returns the bytes of a file.
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        self.names().get(path)?.bytes.clone()
    }

    /// Returns the paths of all files.
    pub fn files(&self) -> Vec<String> {
        let names = self.names();
        let files = names.iter().filter(|(_, object)| object.bytes.is_some());
        files.map(|(path, _)| path.clone()).collect()
    }

    /// Returns the commands of all sessions, in order of arrival.
    pub fn commands(&self) -> Vec<String> {
        lock(&self.shared.commands).clone()
    }

    /// Returns the number of received commands with that verb.
    pub fn count(&self, verb: &str) -> usize {
        let is = |line: &&String| line.split(' ').next() == Some(verb);
        lock(&self.shared.commands).iter().filter(is).count()
    }

    /// Waits for a command that begins with `start`; returns false if none comes within ten
    /// seconds.
    pub fn waits_for(&self, start: &str) -> bool {
        let missing =
            |commands: &mut Vec<String>| !commands.iter().any(|line| line.starts_with(start));
        let shared = &self.shared;
        let waited = shared
            .more
            .wait_timeout_while(lock(&shared.commands), LIMIT, missing);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Returns the number of uploads whose data came before the 150 reply.
    pub fn early(&self) -> usize {
        self.shared.early.load(Ordering::SeqCst)
    }

    /// Returns the number of received bytes of all uploads.
    pub fn received(&self) -> usize {
        self.shared.received.load(Ordering::SeqCst)
    }

    fn names(&self) -> MutexGuard<'_, BTreeMap<String, Object>> {
        lock(&self.shared.names)
    }
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
