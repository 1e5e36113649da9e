//! Servers that break an upload off, and what they then say of it, true or not.

use std::io::{BufRead, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, ensure};
use workspace_tests::{Break, Relay, Tree, run, sha256, sha256_range};

use crate::{Bed, LIMIT, command, cp_in, fails};

const SIZE: u64 = 3_000_001;
/// Bytes of the first upload that the server takes.
const TAKEN: u64 = 1_000_003;

/// How a server differs from one that goes on with what it has.
#[derive(Clone, Copy)]
struct Habits {
    /// Its word on the upload that broke off; it hangs up after a good one.
    first: &'static str,
    /// Its reply to `REST`.
    rest: &'static str,
    /// Its reply to a `STOR` behind a `REST`, when it is no good one.
    behind: Option<&'static str>,
    /// Whether a piece of what it took is a hole.
    hole: bool,
    /// Whether that piece becomes one later, when more is stored behind it.
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
    /// The commands that store, and `REST`.
    commands: Mutex<Vec<String>>,
}

impl Server {
    fn start(file: PathBuf, habits: Habits) -> Result<Self> {
        let door = TcpListener::bind("127.0.0.1:0")?;
        let addr = door.local_addr()?;
        let seen = Arc::new(Seen {
            habits,
            file,
            uploads: AtomicU32::new(0),
            bytes: AtomicU64::new(0),
            commands: Mutex::default(),
        });
        let shared = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in door.incoming().flatten() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    // The client may hang up at any time.
                    let _ended = shared.session(stream);
                });
            }
        });
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
        let mut passive: Option<TcpListener> = None;
        let mut active: Option<SocketAddr> = None;
        let mut begin = None;
        for line in BufReader::new(control.try_clone()?).lines() {
            let line = line?;
            let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
            // RFC 959 §4.1.3: "This command shall be immediately followed by the appropriate FTP service
            // command".
            if !matches!(verb, "STOR" | "APPE" | "RETR") {
                begin = None;
            }
            let reply = match verb {
                "USER" => "331 password".to_owned(),
                "PASS" => "230 in".to_owned(),
                "FEAT" => "211-features\r\n CKSM SHA256:10;\r\n SIZE\r\n211 end".to_owned(),
                "TYPE" | "ALLO" => "200 ok".to_owned(),
                "MLST" | "SIZE" => match self.size() {
                    Some(size) if verb == "SIZE" => format!("213 {size}"),
                    Some(size) => format!(
                        "250-facts\r\n type=file;size={size};modify=20260101000000; {rest}\r\n250 end"
                    ),
                    None => "550 no such file".to_owned(),
                },
                "CKSM" => {
                    let mut words = rest.split(' ').skip(1);
                    let mut number = || words.next().and_then(|word| word.parse().ok());
                    let (offset, length) = (number().unwrap_or(0), number().unwrap_or(u64::MAX));
                    format!("213 {}", sha256_range(&self.file, offset, length)?)
                }
                "PASV" => {
                    let door = TcpListener::bind("127.0.0.1:0")?;
                    let port = door.local_addr()?.port();
                    passive = Some(door);
                    format!("227 passive (127,0,0,1,{},{})", port >> 8, port & 255)
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
                            let (from, _) = passive.take().context("no PASV")?.accept()?;
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
                    let numbers: Vec<u16> = rest
                        .split(',')
                        .filter_map(|word| word.parse().ok())
                        .collect();
                    let (high, low) =
                        (numbers.get(4).context("p1")?, numbers.get(5).context("p2")?);
                    active = Some(SocketAddr::from(([127, 0, 0, 1], high << 8 | low)));
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

    /// Stores what comes, behind `at` or as a new file; false for the first, which breaks off.
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

/// Copies a file to such a server, and gives the number of bytes it took and what it was asked.
fn upload(from: &str, here: &Tree, source: &Path, habits: Habits) -> Result<(u64, Vec<String>)> {
    let there = Tree::new()?;
    let server = Server::start(there.path("file"), habits)?;
    // A directory that may have to be made.
    let to = format!("ftp://{}/dir/file", server.addr);
    // What the first try left is not what `--no-clobber` spares.
    let flags = ["--mode", "stream", "--no-clobber", "--debug", from, &to];
    let finished = cp_in(here, &flags)?.ok()?;
    ensure!(
        sha256(source)? == sha256(&there.path("file"))?,
        "the copy differs: {}",
        finished.report()
    );
    Ok((server.seen.bytes.load(Ordering::SeqCst), server.commands()))
}

/// As `upload`, once from here and once from a server.
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
fn a_server_that_has_the_beginning_is_sent_the_rest() -> Result<()> {
    both(PLAIN, SIZE, &["STOR", "REST", "STOR"])
}

#[test]
fn where_rest_is_refused_the_rest_is_added() -> Result<()> {
    let habits = Habits {
        rest: "502 no REST here",
        ..PLAIN
    };
    both(habits, SIZE, &["STOR", "REST", "APPE"])
}

#[test]
fn a_size_with_a_hole_in_it_proves_nothing() -> Result<()> {
    let habits = Habits {
        hole: true,
        ..PLAIN
    };
    both(habits, SIZE + TAKEN, &["STOR", "STOR"])
}

#[test]
fn what_changes_before_the_rest_comes_is_noticed() -> Result<()> {
    let habits = Habits {
        later: true,
        ..PLAIN
    };
    both(habits, SIZE + SIZE, &["STOR", "REST", "STOR", "STOR"])
}

#[test]
fn a_refused_restart_is_not_tried_again() -> Result<()> {
    let habits = Habits {
        behind: Some("451 not behind a REST"),
        ..PLAIN
    };
    both(habits, SIZE + TAKEN, &["STOR", "REST", "STOR", "STOR"])
}

/// The source sends all of it then, and the destination must not put that behind what it has.
#[test]
fn a_source_without_rest_sends_all_of_it_again() -> Result<()> {
    for (rest, asked) in [
        ("350 go on", ["RETR", "REST", "RETR"]),
        ("502 no REST here", ["RETR", "REST", "RETR"]),
    ] {
        let bed = Bed::new()?;
        let file = bed.here.file("file", SIZE, 3)?;
        let source = Server::start(file, Habits { rest, ..PLAIN })?;
        // Paced, so that the destination has what passed.
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

/// It says that it takes the offset, and begins at the start all the same.
#[test]
fn a_rest_that_means_nothing_does_no_harm() -> Result<()> {
    let habits = Habits {
        rest: "200 never heard of it",
        ..PLAIN
    };
    both(habits, SIZE + SIZE, &["STOR", "REST", "STOR", "STOR"])
}

/// What was taken for the end of the file is not believed only because nobody says otherwise.
#[test]
fn a_server_that_hangs_up_before_it_tells_the_size_is_asked_again() -> Result<()> {
    let habits = Habits {
        first: "226 done",
        ..PLAIN
    };
    both(habits, SIZE, &["STOR", "REST", "STOR"])
}

/// The same from standard input, which cannot be read again.
#[test]
fn a_server_that_hangs_up_on_a_pipe_is_not_believed() -> Result<()> {
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
