//! `ScriptedServer`: a plain FTP server in memory, whose reactions a test scripts command by
//! command.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;

use crate::rewrite::host_port;
use crate::{passive, serve_sessions};

/// Time after connecting in which data that is sent before the 150 reply would arrive.
const EARLY: Duration = Duration::from_millis(200);

/// Longest wait for an expected command.
const LIMIT: Duration = Duration::from_secs(10);

/// The server's reaction to one command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reaction {
    /// Executes the command.
    Usual,
    /// Executes the command, and sends its reply together with the next reply.
    Later,
    /// Sends this reply and does nothing else.
    Say(String),
    /// Sends this reply, unless it is empty, and closes the connection.
    HangUp(String),
    /// Sends nothing more on this connection.
    Silence,
}

impl Reaction {
    /// Sends the reply `text` and does nothing else.
    pub fn say(text: &str) -> Self {
        Self::Say(text.to_owned())
    }
}

type Script = dyn Fn(&str) -> Reaction + Send + Sync;

/// A server with MODE S, `PASV`, `PORT`, `REST`, `SIZE`, `LIST` and renaming, and nothing newer.
///
/// The script decides on each of these lines: every command; `CONNECT` before the greeting;
/// `MIDWAY` with a transfer command after the first bytes of an upload or half of a download; and
/// `END` with a transfer command before its final reply.
#[derive(Clone)]
pub struct ScriptedServer {
    addr: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    script: Box<Script>,
    /// Files, and directories as `None`, by absolute path.
    names: Mutex<BTreeMap<String, Option<Vec<u8>>>>,
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
    pub fn usual() -> Result<Self> {
        Self::start(|_| Reaction::Usual)
    }

    /// Starts a server; each session has a thread until the test's process ends.
    pub fn start(script: impl Fn(&str) -> Reaction + Send + Sync + 'static) -> Result<Self> {
        let shared = Arc::new(Shared {
            script: Box::new(script),
            names: Mutex::new(BTreeMap::from([("/".to_owned(), None)])),
            commands: Mutex::default(),
            more: Condvar::new(),
            early: AtomicUsize::new(0),
            received: AtomicUsize::new(0),
        });
        let of_sessions = Arc::clone(&shared);
        let addr = serve_sessions(move |control| Ok(Session::new(&of_sessions, control).run()?))?;
        Ok(Self { addr, shared })
    }

    /// Returns the URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("ftp://{}/{path}", self.addr)
    }

    /// Adds a file and its parent directories.
    pub fn file(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        let mut names = lock(&self.shared.names);
        for (at, _) in path.match_indices('/').skip(1) {
            names.insert(path.get(..at).unwrap_or_default().to_owned(), None);
        }
        names.insert(path.to_owned(), Some(bytes.into()));
    }

    /// Adds an empty directory.
    pub fn dir(&self, path: &str) {
        lock(&self.shared.names).insert(path.to_owned(), None);
    }

    /// Returns the bytes of a file.
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        lock(&self.shared.names).get(path).cloned().flatten()
    }

    /// Returns the paths of all files.
    pub fn files(&self) -> Vec<String> {
        let names = lock(&self.shared.names);
        let files = names.iter().filter(|(_, bytes)| bytes.is_some());
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
}

struct Session<'a> {
    shared: &'a Shared,
    control: TcpStream,
    passive: Option<TcpListener>,
    active: Option<SocketAddr>,
    offset: usize,
    from: String,
    /// Replies that are sent together with the next.
    kept: String,
    /// Whether the next reply is kept too.
    keeps: bool,
}

impl<'a> Session<'a> {
    fn new(shared: &'a Shared, control: TcpStream) -> Self {
        Self {
            shared,
            control,
            passive: None,
            active: None,
            offset: 0,
            from: String::new(),
            kept: String::new(),
            keeps: false,
        }
    }

    fn run(mut self) -> io::Result<()> {
        let lines = BufReader::new(self.control.try_clone()?).lines();
        if !self.acts("CONNECT", |session| session.say("220 ready").map(|()| true))? {
            return Ok(());
        }
        for line in lines {
            let line = line?;
            lock(&self.shared.commands).push(line.clone());
            self.shared.more.notify_all();
            if !self.acts(&line, |session| session.usual(&line))? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Performs the scripted reaction to `about`; returns false when the session is over.
    fn acts(
        &mut self,
        about: &str,
        usual: impl FnOnce(&mut Self) -> io::Result<bool>,
    ) -> io::Result<bool> {
        match (self.shared.script)(about) {
            Reaction::Usual => usual(self),
            Reaction::Later => {
                self.keeps = true;
                usual(self)
            }
            act => self.does(act),
        }
    }

    /// Performs a reaction other than executing the command.
    fn does(&mut self, act: Reaction) -> io::Result<bool> {
        match act {
            Reaction::Usual | Reaction::Later => Ok(true),
            Reaction::Say(text) => self.say(&text).map(|()| true),
            Reaction::HangUp(text) if text.is_empty() => Ok(false),
            Reaction::HangUp(text) => self.say(&text).map(|()| false),
            Reaction::Silence => {
                io::copy(&mut self.control, &mut io::sink())?;
                Ok(false)
            }
        }
    }

    fn say(&mut self, text: &str) -> io::Result<()> {
        self.kept += &format!("{text}\r\n");
        if std::mem::take(&mut self.keeps) {
            return Ok(());
        }
        let all = std::mem::take(&mut self.kept);
        self.control.write_all(all.as_bytes())
    }

    fn usual(&mut self, line: &str) -> io::Result<bool> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let path = absolute(rest);
        let reply = match verb {
            "USER" => "331 password".to_owned(),
            "PASS" => "230 in".to_owned(),
            "FEAT" => "211-features\r\n SIZE\r\n MDTM\r\n REST STREAM\r\n211 end".to_owned(),
            "TYPE" | "OPTS" | "ALLO" | "ABOR" => "200 ok".to_owned(),
            "MODE" if rest == "S" => "200 ok".to_owned(),
            "REST" => {
                self.offset = rest.parse().unwrap_or(0);
                "350 go on".to_owned()
            }
            "PASV" => {
                let (listener, reply) = passive(Ipv4Addr::LOCALHOST)?;
                self.passive = Some(listener);
                reply
            }
            "PORT" => {
                self.active = host_port(rest);
                "200 ok".to_owned()
            }
            "RETR" | "STOR" | "APPE" | "LIST" | "NLST" => {
                let done = self.transfer(line, verb, &path);
                self.offset = 0;
                return done;
            }
            "QUIT" => {
                self.say("221 bye")?;
                return Ok(false);
            }
            _ => self.named(verb, &path),
        };
        self.say(&reply).map(|()| true)
    }

    /// Executes a command that concerns one name.
    fn named(&mut self, verb: &str, path: &str) -> String {
        let mut names = lock(&self.shared.names);
        let there = names.get(path);
        match verb {
            "SIZE" => match there {
                Some(Some(bytes)) => format!("213 {}", bytes.len()),
                _ => "550 no such file".to_owned(),
            },
            "MDTM" if there.is_some_and(Option::is_some) => "213 20200102030405".to_owned(),
            "CWD" if there.is_some_and(Option::is_none) => "250 there".to_owned(),
            "CWD" | "MDTM" => "550 no such file".to_owned(),
            "MKD" if there.is_some() => "550 it exists".to_owned(),
            "MKD" => {
                names.insert(path.to_owned(), None);
                "257 made".to_owned()
            }
            "DELE" => match names.remove(path) {
                Some(_) => "250 gone".to_owned(),
                None => "550 no such file".to_owned(),
            },
            "RNFR" if there.is_some() => {
                path.clone_into(&mut self.from);
                "350 whereto".to_owned()
            }
            "RNTO" => match names.remove(&self.from) {
                Some(bytes) => {
                    names.insert(path.to_owned(), bytes);
                    "250 renamed".to_owned()
                }
                None => "550 no such file".to_owned(),
            },
            "RNFR" => "550 no such file".to_owned(),
            _ => "500 no".to_owned(),
        }
    }

    fn transfer(&mut self, line: &str, verb: &str, path: &str) -> io::Result<bool> {
        let there = lock(&self.shared.names).get(path).cloned();
        let send = match (verb, there) {
            ("STOR" | "APPE", _) => None,
            ("LIST", Some(None)) => Some(self.listing(path, line.contains(" -a "))),
            ("RETR", Some(Some(bytes))) => Some(bytes),
            _ => return self.say("550 no such file").map(|()| true),
        };
        let mut data = match (self.passive.take(), self.active.take()) {
            (_, Some(to)) => match TcpStream::connect(to) {
                Ok(data) => data,
                Err(_) => return self.say("425 no connection").map(|()| true),
            },
            (Some(listener), None) => listener.accept()?.0,
            (None, None) => return self.say("425 no PASV").map(|()| true),
        };
        let done = match send {
            Some(bytes) => {
                self.say("150 it comes")?;
                let bytes = bytes.get(self.offset..).unwrap_or_default();
                let (first, second) = bytes.split_at(bytes.len() / 2);
                let sent = data.write_all(first);
                let midway = (self.shared.script)(&format!("MIDWAY {line}"));
                if midway != Reaction::Usual {
                    drop(data);
                    return self.does(midway);
                }
                sent.and_then(|()| data.write_all(second))
                    .map_err(|_| "426 no data connection")
            }
            None => return self.store(line, verb, path, data),
        };
        drop(data);
        self.end(line, done)
    }

    fn end(&mut self, line: &str, done: Result<(), &str>) -> io::Result<bool> {
        self.acts(&format!("END {line}"), |session| {
            session.say(done.err().unwrap_or("226 done"))?;
            Ok(true)
        })
    }

    fn store(
        &mut self,
        line: &str,
        verb: &str,
        path: &str,
        mut data: TcpStream,
    ) -> io::Result<bool> {
        data.set_read_timeout(Some(EARLY))?;
        if matches!(data.peek(&mut [0]), Ok(n) if n > 0) {
            self.shared.early.fetch_add(1, Ordering::SeqCst);
        }
        data.set_read_timeout(None)?;
        self.say("150 send it")?;
        let offset = match verb {
            "STOR" => self.offset,
            _ => usize::MAX,
        };
        let keep = |bytes: &[u8]| {
            let mut names = lock(&self.shared.names);
            let file = names.entry(path.to_owned()).or_default();
            let file = file.get_or_insert_default();
            file.truncate(offset);
            file.extend_from_slice(bytes);
        };
        let (mut all, mut block) = (Vec::new(), vec![0; 64 << 10]);
        keep(&[]);
        loop {
            let n = match data.read(&mut block) {
                Ok(0) => break,
                Ok(n) => n,
                Err(_) => {
                    keep(&all);
                    return self.end(line, Err("426 it broke off"));
                }
            };
            self.shared.received.fetch_add(n, Ordering::SeqCst);
            let first = all.is_empty();
            all.extend_from_slice(block.get(..n).unwrap_or_default());
            if first {
                let midway = (self.shared.script)(&format!("MIDWAY {line}"));
                if midway != Reaction::Usual {
                    keep(&all);
                    return self.does(midway);
                }
            }
        }
        keep(&all);
        drop(data);
        self.end(line, Ok(()))
    }

    /// Returns the listing of a directory in the form of `ls -l`, hidden names only if `all` is
    /// set.
    fn listing(&self, dir: &str, all: bool) -> Vec<u8> {
        let names = lock(&self.shared.names);
        let dir = format!("{}/", dir.trim_end_matches('/'));
        let mut lines = String::new();
        for (path, bytes) in names.iter() {
            let Some(name) = path.strip_prefix(&dir) else {
                continue;
            };
            if name.is_empty() || name.contains('/') || (name.starts_with('.') && !all) {
                continue;
            }
            let (kind, size) = match bytes {
                Some(bytes) => ('-', bytes.len()),
                None => ('d', 4096),
            };
            if lines.is_empty() {
                lines += "total 1\r\n";
            }
            lines += &format!(
                "{kind}rw-r--r--    1 ftp      ftp      {size:>8} Jan 02  2020 {name}\r\n"
            );
        }
        lines.into_bytes()
    }
}

fn absolute(path: &str) -> String {
    let path = path
        .strip_prefix("-a ")
        .unwrap_or(path)
        .trim_end_matches('/');
    format!("/{}", path.trim_start_matches('/'))
}

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
