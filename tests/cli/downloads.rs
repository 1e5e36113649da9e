//! Downloads from servers that break off, refuse to restart, or change the file.

use std::io::{BufRead, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use workspace_tests::{Tree, passive, serve_sessions};

use crate::cp_in;

const SIZE: usize = 3_000_001;
/// Bytes sent before a retrieval breaks off.
const SENT: usize = 1_000_003;

/// The server's reaction to one `RETR`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Turn {
    /// Sends the file from the restart offset.
    Send,
    /// Sends `SENT` bytes and replies 426.
    Break,
    /// Replies 450.
    Busy,
    /// Closes its data port and the session.
    Away,
    /// Sends half of the file, and the rest from the next version.
    Rewrite,
}

/// The commands by which the server describes its file.
#[derive(Clone, Copy, PartialEq)]
enum Describes {
    Mlst,
    SizeAndTime,
    Size,
}

/// A server of one file, in MODE S.
struct Server {
    describes: Describes,
    state: Mutex<State>,
}

struct State {
    /// Reactions to come; after the last, the server sends the file.
    turns: Vec<Turn>,
    /// Versions of the file, the current one first.
    versions: Vec<Vec<u8>>,
    /// Number of replacements of the file.
    age: u32,
    /// Number of `RETR` commands.
    retrieved: u32,
}

impl Server {
    /// Starts a server; after a retrieval broke off, the next version replaces the file.
    fn start(
        describes: Describes,
        turns: &[Turn],
        versions: Vec<Vec<u8>>,
    ) -> Result<(SocketAddr, Arc<Self>)> {
        let state = State {
            turns: turns.to_vec(),
            versions,
            age: 0,
            retrieved: 0,
        };
        let server = Arc::new(Self {
            describes,
            state: Mutex::new(state),
        });
        let shared = Arc::clone(&server);
        let addr = serve_sessions(move |control| shared.session(control))?;
        Ok((addr, server))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current version of the file, and its time.
    fn file(&self) -> (Vec<u8>, String) {
        let state = self.state();
        let file = state.versions.first().cloned().unwrap_or_default();
        (file, format!("202601010000{:02}", state.age))
    }

    /// Replaces the file by its next version, if any.
    fn replace(&self) {
        let mut state = self.state();
        if state.versions.len() > 1 {
            state.versions.remove(0);
            state.age += 1;
        }
    }

    fn turn(&self) -> Turn {
        let mut state = self.state();
        if state.turns.is_empty() {
            Turn::Send
        } else {
            state.turns.remove(0)
        }
    }

    fn session(&self, mut control: TcpStream) -> Result<()> {
        control.write_all(b"220 ready\r\n")?;
        let mut data: Option<TcpListener> = None;
        let mut begin = 0;
        for line in BufReader::new(control.try_clone()?).lines() {
            let line = line?;
            let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
            let (file, time) = self.file();
            let reply = match verb {
                "USER" => "331 password".to_owned(),
                "PASS" => "230 in".to_owned(),
                "FEAT" if self.describes == Describes::Mlst => {
                    "211-features\r\n MLST Size*;Modify*;\r\n211 end".to_owned()
                }
                "FEAT" => "211-features\r\n SIZE\r\n211 end".to_owned(),
                "TYPE" => "200 ok".to_owned(),
                "SIZE" => format!("213 {}", file.len()),
                "MDTM" if self.describes != Describes::Size => format!("213 {time}"),
                "MLST" if self.describes == Describes::Mlst => {
                    let size = file.len();
                    format!("250-facts\r\n type=file;size={size};modify={time}; {rest}\r\n250 end")
                }
                "PASV" => {
                    let (listener, reply) = passive(Ipv4Addr::LOCALHOST)?;
                    let away = self.state().turns.first() == Some(&Turn::Away);
                    // A closed port refuses connections.
                    data = Some(listener).filter(|_| !away);
                    reply
                }
                "REST" => {
                    begin = rest.parse()?;
                    "350 go on".to_owned()
                }
                "RETR" => {
                    let turn = self.turn();
                    self.state().retrieved += 1;
                    let from = std::mem::take(&mut begin);
                    match turn {
                        Turn::Busy => "450 busy".to_owned(),
                        Turn::Away => return Ok(()),
                        _ => {
                            control.write_all(b"150 coming\r\n")?;
                            let (to, _) = data.take().context("no PASV")?.accept()?;
                            self.send(turn, to, &file, from)?.to_owned()
                        }
                    }
                }
                "QUIT" => "221 bye".to_owned(),
                _ => "500 no".to_owned(),
            };
            control.write_all(format!("{reply}\r\n").as_bytes())?;
        }
        Ok(())
    }

    fn send(
        &self,
        turn: Turn,
        mut to: TcpStream,
        file: &[u8],
        from: usize,
    ) -> Result<&'static str> {
        match turn {
            Turn::Break => {
                to.write_all(file.get(from..from + SENT).context("too little")?)?;
                drop(to);
                self.replace();
                Ok("426 broken")
            }
            Turn::Rewrite => {
                to.write_all(file.get(from..SENT).context("too little")?)?;
                self.replace();
                to.write_all(self.file().0.get(SENT..).context("too little")?)?;
                Ok("226 done")
            }
            _ => {
                to.write_all(file.get(from..).context("beyond the end")?)?;
                Ok("226 done")
            }
        }
    }
}

/// Returns bytes that depend on their offset and on `version`.
fn bytes(version: u8) -> Vec<u8> {
    let place = |at: usize| u8::try_from((at / 251 + at) % 251).unwrap_or(0);
    (0..SIZE).map(|at| place(at) ^ version).collect()
}

/// Downloads from such a server, checks that the copy is the last version, and returns the number
/// of `RETR` commands.
fn download(describes: Describes, turns: &[Turn], versions: u8) -> Result<u32> {
    let here = Tree::new()?;
    let versions: Vec<_> = (0..versions).map(bytes).collect();
    let last = versions.last().cloned().unwrap_or_default();
    let (addr, server) = Server::start(describes, turns, versions)?;
    let url = format!("ftp://{addr}/file");
    let said = cp_in(&here, &["--mode", "stream", "--debug", &url, "file"])?.ok()?;
    ensure!(
        std::fs::read(here.path("file"))? == last,
        "the copy differs from the file: {}",
        said.report()
    );
    ensure!(here.names("")? == ["file"], "{:?}", here.names("")?);
    let retrieved = server.state().retrieved;
    Ok(retrieved)
}

#[test]
fn received_data_survives_a_refused_restart() -> Result<()> {
    for refused in [Turn::Busy, Turn::Away] {
        let turns = [Turn::Break, refused];
        download(Describes::Mlst, &turns, 1).with_context(|| format!("{refused:?}"))?;
    }
    Ok(())
}

#[test]
fn a_download_restarts_only_if_the_file_is_unchanged() -> Result<()> {
    for describes in [Describes::Mlst, Describes::SizeAndTime, Describes::Size] {
        download(describes, &[Turn::Break], 2)?;
    }
    Ok(())
}

#[test]
fn a_file_rewritten_during_a_download_is_read_again() -> Result<()> {
    for describes in [Describes::Mlst, Describes::SizeAndTime] {
        let retrieved = download(describes, &[Turn::Rewrite], 2)?;
        ensure!(retrieved == 2, "read {retrieved} times");
    }
    Ok(())
}
