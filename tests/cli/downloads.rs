//! Servers that break a download off, refuse to go on, or whose file changes: what must not be taken for the file.

use std::io::{BufRead, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, ensure};
use workspace_tests::Tree;

use crate::cp_in;

const SIZE: usize = 3_000_001;
/// Bytes of a retrieval that breaks off.
const SENT: usize = 1_000_003;

/// What a server does when it is asked for the file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Turn {
    /// Sends it, from where it was told.
    Send,
    /// Sends `SENT` bytes, and says that it broke.
    Break,
    /// Says that it is busy.
    Busy,
    /// Listens no more on the port that it named.
    Away,
    /// Sends half of it, and the rest of what the file is then.
    Rewrite,
}

/// How a server tells of its file.
#[derive(Clone, Copy, PartialEq)]
enum Tells {
    Mlst,
    SizeAndTime,
    Size,
}

/// A server of one file, in MODE S.
struct Server {
    tells: Tells,
    state: Mutex<State>,
}

struct State {
    /// What is still to happen; after the last, it sends.
    turns: Vec<Turn>,
    /// Versions of the file, the current one first.
    versions: Vec<Vec<u8>>,
    /// How often the file was replaced.
    age: u32,
    retrieved: u32,
}

impl Server {
    /// Starts one; the second version takes the place of the first as soon as a retrieval broke.
    fn start(
        tells: Tells,
        turns: &[Turn],
        versions: Vec<Vec<u8>>,
    ) -> Result<(SocketAddr, Arc<Self>)> {
        let door = TcpListener::bind("127.0.0.1:0")?;
        let addr = door.local_addr()?;
        let state = State {
            turns: turns.to_vec(),
            versions,
            age: 0,
            retrieved: 0,
        };
        let server = Arc::new(Self {
            tells,
            state: Mutex::new(state),
        });
        let shared = Arc::clone(&server);
        thread::spawn(move || {
            for stream in door.incoming().flatten() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    // The client may hang up at any time.
                    let _ended = shared.session(stream);
                });
            }
        });
        Ok((addr, server))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file as it is now, and its time.
    fn file(&self) -> (Vec<u8>, String) {
        let state = self.state();
        let file = state.versions.first().cloned().unwrap_or_default();
        (file, format!("202601010000{:02}", state.age))
    }

    /// Replaces the file by its next version, if there is one.
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
        let mut passive: Option<TcpListener> = None;
        let mut begin = 0;
        for line in BufReader::new(control.try_clone()?).lines() {
            let line = line?;
            let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
            let (file, time) = self.file();
            let reply = match verb {
                "USER" => "331 password".to_owned(),
                "PASS" => "230 in".to_owned(),
                "FEAT" if self.tells == Tells::Mlst => {
                    "211-features\r\n MLST Size*;Modify*;\r\n211 end".to_owned()
                }
                "FEAT" => "211-features\r\n SIZE\r\n211 end".to_owned(),
                "TYPE" => "200 ok".to_owned(),
                "SIZE" => format!("213 {}", file.len()),
                "MDTM" if self.tells != Tells::Size => format!("213 {time}"),
                "MLST" if self.tells == Tells::Mlst => {
                    let size = file.len();
                    format!("250-facts\r\n type=file;size={size};modify={time}; {rest}\r\n250 end")
                }
                "PASV" => {
                    let door = TcpListener::bind("127.0.0.1:0")?;
                    let port = door.local_addr()?.port();
                    // Whoever connects to a port that nobody listens on is refused.
                    let away = self.state().turns.first() == Some(&Turn::Away);
                    passive = Some(door).filter(|_| !away);
                    format!("227 passive (127,0,0,1,{},{})", port >> 8, port & 255)
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
                            let (to, _) = passive.take().context("no PASV")?.accept()?;
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

/// Bytes that tell their place, different for each `version`.
fn bytes(version: u8) -> Vec<u8> {
    let place = |at: usize| u8::try_from((at / 251 + at) % 251).unwrap_or(0);
    (0..SIZE).map(|at| place(at) ^ version).collect()
}

/// Downloads from such a server, and checks that the last version came whole; gives how often it was
/// asked for.
fn download(tells: Tells, turns: &[Turn], versions: u8) -> Result<u32> {
    let here = Tree::new()?;
    let versions: Vec<_> = (0..versions).map(bytes).collect();
    let last = versions.last().cloned().unwrap_or_default();
    let (addr, server) = Server::start(tells, turns, versions)?;
    let url = format!("ftp://{addr}/file");
    let said = cp_in(&here, &["--mode", "stream", "--debug", &url, "file"])?.ok()?;
    ensure!(
        std::fs::read(here.path("file"))? == last,
        "the copy is another than the file: {}",
        said.report()
    );
    ensure!(here.names("")? == ["file"], "{:?}", here.names("")?);
    let retrieved = server.state().retrieved;
    Ok(retrieved)
}

#[test]
fn what_came_stays_in_its_place_when_going_on_is_refused() -> Result<()> {
    for refused in [Turn::Busy, Turn::Away] {
        let turns = [Turn::Break, refused];
        download(Tells::Mlst, &turns, 1).with_context(|| format!("{refused:?}"))?;
    }
    Ok(())
}

#[test]
fn a_download_goes_on_only_while_the_file_is_the_same() -> Result<()> {
    for tells in [Tells::Mlst, Tells::SizeAndTime, Tells::Size] {
        download(tells, &[Turn::Break], 2)?;
    }
    Ok(())
}

#[test]
fn a_file_that_is_rewritten_while_it_is_read_is_read_again() -> Result<()> {
    for tells in [Tells::Mlst, Tells::SizeAndTime] {
        let retrieved = download(tells, &[Turn::Rewrite], 2)?;
        ensure!(retrieved == 2, "read {retrieved} times");
    }
    Ok(())
}
