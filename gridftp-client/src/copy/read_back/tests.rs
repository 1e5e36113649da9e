//! The bytes read back decide the offset at which an upload goes on.

use std::os::unix::ffi::OsStringExt as _;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use super::part::STEP;
use super::*;
use crate::client::scripted;
use crate::copy::job::Item;

fn range(start: u64, end: u64) -> Range64 {
    Range64::new(start, end).unwrap()
}

#[test]
fn the_last_bytes_are_compared_from_an_aligned_offset_on() {
    for (start, end, most, first) in [
        (0, 5, MOST, 0),
        (0, MOST, MOST, 0),
        (0, MOST + 1, MOST, STEP),
        (0, 9 * MOST, MOST, 8 * MOST),
        (0, 9 * MOST + 5, MOST, 8 * MOST + STEP),
        (7, STEP + 7, STEP, 7),
        (7, 3 * STEP + 7, STEP, 3 * STEP),
    ] {
        let part = Part::last(range(start, end), most);
        assert_eq!(part.start, first, "{start}-{end}");
        assert!(part.left() <= most && part.left() > 0, "{start}-{end}");
    }
}

#[test]
fn an_upload_goes_on_before_the_step_of_the_first_difference() {
    let (all, first) = (9 * MOST + 5, 8 * MOST + STEP);
    let here = vec![7; 3 * 1024 * 1024];
    for (differs, goes_on) in [
        (None, Some(first + 3 * STEP)),
        (Some(0), None),
        (Some(STEP - 1), None),
        (Some(STEP), Some(first + STEP)),
        (Some(3 * STEP - 1), Some(first + 2 * STEP)),
    ] {
        let mut there = here.clone();
        if let Some(at) = differs {
            there[usize::try_from(at).unwrap()] = 8;
        }
        let mut part = Part::last(range(0, all), MOST);
        part.note(&there, &here);
        assert_eq!(part.differs, differs.is_some());
        // Less came than the server says that it has, so a whole step counts.
        let equal = part.equal().map(|range| (range.start(), range.end()));
        assert_eq!(equal, goes_on.map(|end| (0, end)), "{differs:?}");
    }
    // Zeros may be a hole, and prove nothing of the bytes before them.
    let mut zeros = Part::last(range(0, all), MOST);
    zeros.note(&[0; 8192], &[0; 8192]);
    zeros.equal = first + STEP;
    assert_eq!(zeros.equal(), None);
    zeros.note(b"ab", b"ac");
    assert_eq!(zeros.equal(), Some(range(0, first + STEP)));
    let mut whole = Part::last(range(0, 5), MOST);
    whole.note(b"ab", b"ab");
    assert_eq!((whole.left(), whole.equal()), (3, None));
    whole.note(b"cde", b"cde");
    assert_eq!((whole.left(), whole.equal()), (0, Some(range(0, 5))));
}

#[test]
fn ranges_share_the_bound_and_are_left_where_the_server_sends_too_much() {
    let there: RangeSet = (0..64)
        .map(|n| range(n * MOST, n * MOST + 5 * STEP))
        .collect();
    let size = there.end();
    let all = parts(&there, size, true);
    assert_eq!(all.len(), 64);
    assert_eq!(all.iter().map(Part::left).sum::<u64>(), MOST);
    let ends = parts(&there, size, false);
    let starts: Vec<_> = ends.iter().map(|part| part.start).collect();
    assert_eq!(starts, [size - STEP]);
}

/// The outcome of reading `there` back from a server that replies so to `RETR`.
async fn outcome(source: &[u8], there: Vec<u8>, retr: &str) -> (RangeSet, ReadBack, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, source).unwrap();
    let opened = FileSource::open(&path).await.unwrap();
    let mut job = FileJob::new(path.into_os_string().into_vec(), b"/file".to_vec());
    job.facts = Facts::of_source(&opened);
    job.hidden = FtpPath::new(b"/.file.gridftp-0".to_vec());
    (job.begun, job.read_back) = (true, ReadBack::Due);
    // The next attempt would be the last.
    job.failures = 2;
    let shared = Arc::new(CopyState::plain());
    shared.queue.push(Item::File(Box::new(job)));
    let taken = shared.queue.next(|_| true).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let replies = vec![
        ("SIZE", format!("213 {}", there.len())),
        ("PASV", scripted::passive(port)),
        ("REST", "350 from there".to_owned()),
        ("RETR", retr.to_owned()),
        ("QUIT", "221 bye".to_owned()),
    ];
    let (mut client, server) = scripted::session(replies).await;
    let using = async {
        let mode = shared.mode(&client);
        let read = Box::pin(read_back(&mut client, None, mode, &shared, taken)).await;
        client.close().await;
        read
    };
    let sends = retr.starts_with("150");
    let data = async {
        if sends {
            let (mut data, _) = listener.accept().await.unwrap();
            data.write_all(&there).await.unwrap();
        }
    };
    let (read, sent, ()) = tokio::join!(using, server, data);
    let taken = read.unwrap().unwrap();
    let job = taken.file();
    (job.held.clone(), job.read_back, sent)
}

#[tokio::test]
async fn a_server_sends_its_bytes_back() {
    let source: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let sends = "150 here it comes\r\n226 that was it";
    let half = source.get(..5_000_003).unwrap().to_vec();
    let (held, state, sent) = outcome(&source, half.clone(), sends).await;
    assert_eq!(held, RangeSet::up_to(5_000_003));
    assert_eq!(state, ReadBack::Done { ends: true });
    let file = "/.file.gridftp-0";
    let lines = [
        format!("SIZE {file}"),
        "PASV".to_owned(),
        format!("RETR {file}"),
        "QUIT".to_owned(),
    ];
    assert_eq!(sent, lines);
    let mut damaged = half.clone();
    damaged.truncate(4_000_000);
    damaged.resize(5_000_003, 0);
    let (held, state, _) = outcome(&source, damaged, sends).await;
    assert_eq!(held, RangeSet::up_to(3 * STEP));
    assert_eq!(state, ReadBack::Done { ends: false });
    let nothing = (RangeSet::new(), ReadBack::Done { ends: false });
    let (held, state, _) = outcome(&source, vec![0; 5_000_003], sends).await;
    assert_eq!((held, state), nothing);
    // A file longer than the source is not read.
    let longer = [source.clone(), vec![0]].concat();
    let (held, state, sent) = outcome(&source, longer, "").await;
    assert_eq!((held, state), nothing);
    assert_eq!(sent, [format!("SIZE {file}"), "QUIT".to_owned()]);
    let refused = (RangeSet::new(), ReadBack::Refused);
    for retr in ["550 you may not read that", "150 well\r\n451 it broke off"] {
        let (held, state, _) = outcome(&source, half.clone(), retr).await;
        assert_eq!((held, state), refused, "{retr}");
    }
}

/// A server of one file for a session.
struct Server<'a> {
    bytes: &'a [u8],
    /// The time of its last change.
    changed: &'a str,
    /// The reply to `RETR`; data is sent behind a 150.
    retr: &'a str,
    /// Whether its data port is open.
    is_open: bool,
    /// The refusal of such a port.
    passive: Option<&'a str>,
}

const SENDS: &str = "150 here it comes\r\n226 that was it";
const CHANGED: &str = "20200102030405";

impl<'a> Server<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            changed: CHANGED,
            retr: SENDS,
            is_open: true,
            passive: None,
        }
    }

    /// Its session, and itself.
    async fn start(self) -> (Client, impl Future<Output = ()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let listener = Some(listener).filter(|_| self.is_open);
        let own = || scripted::passive(port);
        let passive = self.passive.map_or_else(own, str::to_owned);
        let replies = vec![
            ("SIZE", format!("213 {}", self.bytes.len())),
            ("MDTM", format!("213 {}", self.changed)),
            ("PASV", passive),
            ("RETR", self.retr.to_owned()),
            ("QUIT", "221 bye".to_owned()),
        ];
        let sends = self.retr.starts_with("150");
        let bytes = self.bytes.to_vec();
        let (client, control) = scripted::session(replies).await;
        let data = async move {
            if let Some(listener) = listener.filter(|_| sends) {
                let (mut data, _) = listener.accept().await.unwrap();
                // It may be cut off.
                let _sent = data.write_all(&bytes).await;
            }
            std::future::pending().await
        };
        (client, async {
            tokio::select! {
                _commands = control => {}
                () = data => {}
            }
        })
    }
}

/// Reads a destination back for a copy between two servers; the listing of the source told
/// [`CHANGED`]. Returns the held bytes, the state and the failures of the job, and whether the
/// sessions are kept.
async fn between(source: Server<'_>, destination: Server<'_>) -> (u64, ReadBack, u32, bool) {
    let mut job = FileJob::new(b"/from".to_vec(), b"/file".to_vec());
    job.facts = Facts {
        size: Some(source.bytes.len() as u64),
        modified: Some((1_577_934_245, 0)),
        mode: None,
    };
    job.hidden = FtpPath::new(b"/.file.gridftp-0".to_vec());
    (job.begun, job.read_back) = (true, ReadBack::Due);
    let shared = Arc::new(CopyState::plain());
    shared.queue.push(Item::File(Box::new(job)));
    let taken = shared.queue.next(|_| true).await.unwrap();
    let (mut from, source) = source.start().await;
    let (mut to, destination) = destination.start().await;
    let using = async {
        let ends = (&mut to, Some(&mut from));
        let read = Box::pin(read_back(ends.0, ends.1, Mode::Stream, &shared, taken)).await;
        // A reply may be owed.
        drop((from, to));
        read
    };
    let (read, (), ()) = tokio::join!(using, source, destination);
    let is_kept = read.is_ok();
    let taken = match read.unwrap_or_default() {
        Some(taken) => taken,
        None => shared.queue.next(|_| true).await.unwrap(),
    };
    let job = taken.file();
    let held = job.held.first_hole();
    assert_eq!(held, job.held.total());
    (held, job.read_back, job.failures, is_kept)
}

#[tokio::test]
async fn another_server_sends_the_bytes_of_the_source() {
    let source: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let half = source.get(..5_000_003).unwrap();
    let equal = ReadBack::Done { ends: true };
    // All that is behind them is cut off, and a server that says nothing of that is left.
    for (retr, is_kept) in [(SENDS, true), ("150 here it comes", false)] {
        let from = Server {
            retr,
            ..Server::of(&source)
        };
        let outcome = between(from, Server::of(half)).await;
        assert_eq!(outcome, (5_000_003, equal, 0, is_kept), "{retr}");
    }
    let mut damaged = half.to_vec();
    damaged[4_000_000] ^= 1;
    let outcome = between(Server::of(&source), Server::of(&damaged)).await;
    let differs = ReadBack::Done { ends: false };
    assert_eq!(outcome, (3 * STEP, differs, 0, true));
    // Another version of it proves nothing.
    let from = Server {
        changed: "20200102030406",
        ..Server::of(&source)
    };
    assert_eq!(between(from, Server::of(half)).await, (0, differs, 0, true));
}

#[tokio::test]
async fn a_server_that_does_not_send_to_this_machine_costs_no_attempt() {
    let source = vec![7; 300_000];
    let half = source.get(..150_000).unwrap();
    let unreachable = || Server {
        retr: "150 well",
        is_open: false,
        ..Server::of(half)
    };
    let outcome = between(Server::of(&source), unreachable()).await;
    assert_eq!(outcome, (0, ReadBack::Refused, 0, false));
    let outcome = between(
        Server {
            bytes: &source,
            ..unreachable()
        },
        Server::of(half),
    );
    assert_eq!(outcome.await, (0, ReadBack::Refused, 0, false));
    let refusing = Server {
        retr: "550 you may not read that",
        ..Server::of(half)
    };
    let outcome = between(Server::of(&source), refusing).await;
    assert_eq!(outcome, (0, ReadBack::Refused, 0, true));
    // One that serves other servers alone.
    let active = Server {
        passive: Some("550 Permission denied."),
        ..Server::of(&source)
    };
    let outcome = between(active, Server::of(half)).await;
    assert_eq!(outcome, (0, ReadBack::Refused, 0, true));
    // A source that is busy takes none of them away.
    let busy = Server {
        retr: "450 later",
        ..Server::of(&source)
    };
    let outcome = between(busy, Server::of(half)).await;
    assert_eq!(outcome, (0, ReadBack::Due, 1, true));
}
