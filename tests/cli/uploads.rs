//! Uploads that break off, to servers with true and false replies about the stored bytes.

use std::io::{BufRead, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use workspace_tests::{
    Break, Relay, Tree, host_port, passive, run, serve_sessions, sha256, sha256_range,
};

use crate::{Bed, LIMIT, command, cp_in, fails};

const SIZE: u64 = 3_000_001;
/// Stored bytes of the first upload.
const TAKEN: u64 = 1_000_003;

/// Behaviour of a server after an upload broke off.
#[derive(Clone, Copy)]
struct Habits {
    /// Final reply of the broken upload; the session ends after a 2xx reply.
    first: &'static str,
    /// Reply to `REST`.
    rest: &'static str,
    /// Error reply to a `STOR` after `REST`, if any.
    behind: Option<&'static str>,
    /// Replaces a piece of the stored bytes by a hole.
    hole: bool,
    /// Replaces that piece only after the second upload.
    later: bool,
}

const PLAIN: Habits = Habits {
    first: "426 broken",
    rest: "350 go on",
    behind: None,
    hole: false,
    later: false,
};

/// A server of one file, in MODE S.
struct Server {
    addr: SocketAddr,
    seen: Arc<Seen>,
}

struct Seen {
    habits: Habits,
    file: PathBuf,
    uploads: AtomicU32,
    bytes: AtomicU64,
    /// `REST` and the transfer commands.
    commands: Mutex<Vec<String>>,
}

impl Server {
    fn start(file: PathBuf, habits: Habits) -> Result<Self> {
        let seen = Arc::new(Seen {
            habits,
            file,
            uploads: AtomicU32::new(0),
            bytes: AtomicU64::new(0),
            commands: Mutex::default(),
        });
        let shared = Arc::clone(&seen);
        let addr = serve_sessions(move |control| shared.session(control))?;
        Ok(Self { addr, seen })
    }

    fn commands(&self) -> Vec<String> {
        let commands = self.seen.commands.lock();
        commands.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Seen {
    fn note(&self, line: String) {
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        commands.push(line);
    }

    fn size(&self) -> Option<u64> {
        std::fs::metadata(&self.file).ok().map(|meta| meta.len())
    }

    fn session(&self, mut control: TcpStream) -> Result<()> {
        control.write_all(b"220 ready\r\n")?;
        let mut data: Option<TcpListener> = None;
        let mut active: Option<SocketAddr> = None;
        let mut begin = None;
        for line in BufReader::new(control.try_clone()?).lines() {
            let line = line?;
            let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
            // RFC 959 §4.1.3: "This command shall be immediately followed by the appropriate FTP
            // service command".
            if !matches!(verb, "STOR" | "APPE" | "RETR") {
                begin = None;
            }
            let reply = match verb {
                "USER" => "331 password".to_owned(),
                "PASS" => "230 in".to_owned(),
                "FEAT" => "211-features\r\n CKSM SHA256:10;\r\n SIZE\r\n211 end".to_owned(),
                "TYPE" | "ALLO" => "200 ok".to_owned(),
                "MLST" | "SIZE" | "CKSM" => self.facts(verb, rest)?,
                "PASV" => {
                    let (listener, reply) = passive(Ipv4Addr::LOCALHOST)?;
                    data = Some(listener);
                    reply
                }
                "REST" => {
                    self.note(verb.to_owned());
                    if self.habits.rest.starts_with('3') {
                        begin = rest.parse().ok();
                    }
                    self.habits.rest.to_owned()
                }
                "STOR" | "APPE" => {
                    self.note(verb.to_owned());
                    let behind = self.habits.behind.filter(|_| begin.is_some());
                    let begin = begin.take();
                    match behind {
                        Some(refusal) => refusal.to_owned(),
                        None => {
                            let at = if verb == "APPE" { self.size() } else { begin };
                            control.write_all(b"150 come\r\n")?;
                            let (from, _) = data.take().context("no PASV")?.accept()?;
                            if self.store(from, at)? {
                                "226 done".to_owned()
                            } else {
                                let first = self.habits.first;
                                control.write_all(format!("{first}\r\n").as_bytes())?;
                                if first.starts_with('2') {
                                    return Ok(());
                                }
                                continue;
                            }
                        }
                    }
                }
                "PORT" => {
                    active = host_port(rest);
                    "200 ok".to_owned()
                }
                "RETR" => {
                    self.note(verb.to_owned());
                    let mut file = std::fs::File::open(&self.file)?;
                    file.seek(SeekFrom::Start(begin.take().unwrap_or(0)))?;
                    control.write_all(b"150 coming\r\n")?;
                    let mut to = TcpStream::connect(active.take().context("no PORT")?)?;
                    match std::io::copy(&mut file, &mut to) {
                        Ok(_) => "226 done".to_owned(),
                        Err(_) => "426 broken".to_owned(),
                    }
                }
                "QUIT" => "221 bye".to_owned(),
                _ => "500 no".to_owned(),
            };
            control.write_all(format!("{reply}\r\n").as_bytes())?;
        }
        Ok(())
    }

    /// The reply to a command about the file as it is.
    fn facts(&self, verb: &str, rest: &str) -> Result<String> {
        if verb == "CKSM" {
            let mut words = rest.split(' ').skip(1);
            let mut number = || words.next().and_then(|word| word.parse().ok());
            let (offset, length) = (number().unwrap_or(0), number().unwrap_or(u64::MAX));
            return Ok(format!("213 {}", sha256_range(&self.file, offset, length)?));
        }
        Ok(match self.size() {
            Some(size) if verb == "SIZE" => format!("213 {size}"),
            Some(size) => format!(
                "250-facts\r\n type=file;size={size};modify=20260101000000; {rest}\r\n250 end"
            ),
            None => "550 no such file".to_owned(),
        })
    }

    /// Stores received bytes from `at` or as a new file; returns false for the first upload, which
    /// breaks off.
    fn store(&self, from: TcpStream, at: Option<u64>) -> Result<bool> {
        let mut file = std::fs::File::options()
            .create(true)
            .truncate(at.is_none())
            .write(true)
            .open(&self.file)?;
        file.seek(SeekFrom::Start(at.unwrap_or(0)))?;
        let first = self.uploads.fetch_add(1, Ordering::SeqCst) == 0;
        let most = if first { TAKEN } else { u64::MAX };
        let taken = std::io::copy(&mut from.take(most), &mut file)?;
        self.bytes.fetch_add(taken, Ordering::SeqCst);
        let second = self.uploads.load(Ordering::SeqCst) == 2;
        if (first && self.habits.hole) || (second && self.habits.later) {
            file.write_all_at(&[0; 4096], TAKEN / 2)?;
        }
        Ok(!first)
    }
}

/// Copies a file to such a server, and returns the number of stored bytes and the commands.
fn upload(from: &str, here: &Tree, source: &Path, habits: Habits) -> Result<(u64, Vec<String>)> {
    let there = Tree::new()?;
    let server = Server::start(there.path("file"), habits)?;
    // The directory may have to be created.
    let to = format!("ftp://{}/dir/file", server.addr);
    // `--no-clobber` does not apply to the rest of the first attempt.
    let flags = ["--mode", "stream", "--no-clobber", "--debug", from, &to];
    let finished = cp_in(here, &flags)?.ok()?;
    ensure!(
        sha256(source)? == sha256(&there.path("file"))?,
        "the copy differs: {}",
        finished.report()
    );
    Ok((server.seen.bytes.load(Ordering::SeqCst), server.commands()))
}

/// Runs `upload` from a local file and from a server.
fn both(habits: Habits, bytes: u64, commands: &[&str]) -> Result<()> {
    let bed = Bed::new()?;
    bed.here.file("file", SIZE, 3)?;
    bed.there.file("file", SIZE, 3)?;
    let source = bed.here.path("file");
    for from in ["file", &bed.url("file")] {
        let (taken, asked) = upload(from, &bed.here, &source, habits)?;
        ensure!(
            asked == commands,
            "{from}: {asked:?} instead of {commands:?}"
        );
        ensure!(taken == bytes, "{from}: {taken} bytes instead of {bytes}");
    }
    Ok(())
}

#[test]
fn an_upload_continues_behind_the_stored_bytes() -> Result<()> {
    both(PLAIN, SIZE, &["STOR", "REST", "STOR"])
}

#[test]
fn where_rest_is_refused_the_upload_continues_with_appe() -> Result<()> {
    let habits = Habits {
        rest: "502 no REST here",
        ..PLAIN
    };
    both(habits, SIZE, &["STOR", "REST", "APPE"])
}

#[test]
fn stored_bytes_with_a_hole_are_sent_again() -> Result<()> {
    let habits = Habits {
        hole: true,
        ..PLAIN
    };
    both(habits, SIZE + TAKEN, &["STOR", "STOR"])
}

#[test]
fn a_change_of_the_stored_bytes_is_noticed() -> Result<()> {
    let habits = Habits {
        later: true,
        ..PLAIN
    };
    both(habits, SIZE + SIZE, &["STOR", "REST", "STOR", "STOR"])
}

#[test]
fn a_refused_restart_is_not_repeated() -> Result<()> {
    let habits = Habits {
        behind: Some("451 not behind a REST"),
        ..PLAIN
    };
    both(habits, SIZE + TAKEN, &["STOR", "REST", "STOR", "STOR"])
}

/// The destination must not append the whole file to the stored bytes.
#[test]
fn a_source_without_rest_sends_the_whole_file_again() -> Result<()> {
    for (rest, asked) in [
        ("350 go on", ["RETR", "REST", "RETR"]),
        ("502 no REST here", ["RETR", "REST", "RETR"]),
    ] {
        let bed = Bed::new()?;
        let file = bed.here.file("file", SIZE, 3)?;
        let source = Server::start(file, Habits { rest, ..PLAIN })?;
        // Paced, so that the destination has received the forwarded bytes.
        let plan = Break::Everything { after: TAKEN };
        let relay = Relay::paced(bed.server.addr(), plan, 4_000_000)?;
        let from = format!("ftp://{}/file", source.addr);
        let to = bed.server.url_at(relay.addr(), "file");
        let finished = bed.cp(&["--mode", "stream", "--debug", &from, &to])?.ok()?;
        bed.same("file", "file")
            .with_context(|| finished.report())?;
        ensure!(
            source.commands() == asked,
            "{rest}: {:?}",
            source.commands()
        );
        let (passed, all) = (relay.passed(), SIZE + TAKEN);
        ensure!(
            relay.broke() && (passed < all) == rest.starts_with('3'),
            "{rest}: {passed} bytes passed: {}",
            finished.report()
        );
    }
    Ok(())
}

/// The server accepts the offset, and stores from the start.
#[test]
fn an_ignored_rest_is_noticed() -> Result<()> {
    let habits = Habits {
        rest: "200 never heard of it",
        ..PLAIN
    };
    both(habits, SIZE + SIZE, &["STOR", "REST", "STOR", "STOR"])
}

/// A 226 reply without a size check does not prove that the whole file was stored.
#[test]
fn a_session_lost_before_the_size_check_is_replaced() -> Result<()> {
    let habits = Habits {
        first: "226 done",
        ..PLAIN
    };
    both(habits, SIZE, &["STOR", "REST", "STOR"])
}

/// Standard input cannot be read again.
#[test]
fn an_upload_from_a_pipe_fails_when_its_size_check_is_lost() -> Result<()> {
    let habits = Habits {
        first: "226 done",
        ..PLAIN
    };
    let (here, there) = (Tree::new()?, Tree::new()?);
    let source = here.file("file", SIZE, 3)?;
    let server = Server::start(there.path("file"), habits)?;
    let to = format!("ftp://{}/file", server.addr);
    let mut copying = command(&here, &["-", &to])?;
    copying.stdin(std::fs::File::open(source)?);
    fails(&run(&mut copying, LIMIT)?, 3, &["SIZE"])
}
