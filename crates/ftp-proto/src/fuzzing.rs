//! Runs operations, read from bytes, against either machine and checks its invariants.
//!
//! The fuzz targets and the property tests share it, so that whatever one finds the other can
//! replay. An operation is a byte that names it, two bytes of length (little-endian), and that many
//! bytes.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use byte_ranges::RangeSet;
use ftp_wire::command::Command;
use ftp_wire::error::BadLine;
use ftp_wire::facts::{Entry, EntryKind};
use ftp_wire::path::FtpPath;
use ftp_wire::receipt::Receipt;
use ftp_wire::reply::Reply;

use crate::client::{self, ClientSession};
use crate::server::{self, ServerSession};
use crate::types::{Action, Event, Names, Outcome, Ticket};

/// Lines that reach every part of the server.
pub const LINES: &[&str] = &[
    "USER a",
    "PASS a",
    "QUIT",
    "NOOP",
    "FEAT",
    "HELP",
    "SITE HELP",
    "SYST",
    "STAT",
    "STAT f",
    "TYPE A",
    "TYPE I",
    "MODE E",
    "MODE S",
    "PASV",
    "EPSV",
    "EPSV ALL",
    "SPAS",
    "SPAS 2",
    "PORT 127,0,0,1,100,1",
    "EPRT |1|127.0.0.1|2000|",
    "SPOR 127,0,0,1,100,1 127,0,0,1,100,2",
    "RETR f",
    "STOR f",
    "APPE f",
    "ERET P 1 2 f",
    "ERET P 1 -1 f",
    "ESTO A 5 f",
    "LIST",
    "NLST d",
    "MLSD",
    "MLSR d",
    "MLST f",
    "MLSC d",
    "REST 10",
    "REST 0-5,9-20",
    "ALLO 5",
    "ABOR",
    "CWD d",
    "CDUP",
    "PWD",
    "MKD d",
    "RMD d",
    "DELE f",
    "RNFR a",
    "RNTO b",
    "SIZE f",
    "MDTM f",
    "MFMT 20200101000000 f",
    "CKSM MD5 0 -1 f",
    "SCKS MD5 00",
    "OPTS RETR Parallelism=4,4,4;",
    "OPTS PASV AllowDelayed=1;",
    "OPTS PASV AllowDelayed=0;",
    "ESTO tag=1 f",
    "ERET tag=2 f",
    "SITE HELD f",
    "OPTS MLST size;",
    "OPTS CKSM markers=1;",
    "TREV PERF 1",
    "LANG EN",
    "SBUF 100",
    "PBSZ 0",
    "PROT C",
    "DCAU N",
    "AUTH TLS",
    "SITE CHMOD 644 f",
    "SITE SYMLINKFROM a",
    "SITE SYMLINKTO b",
    "SITE RDEL d",
    "SITE CHROOT /home",
    "SITE RESTRICT R/home,/tmp",
    "SITE TASKID 1",
    "SITE STORATTR modify=20200101000000;x.checksum.md5=00;",
    "SITE WHOAMI",
    "FOO",
    "",
    "RETR",
    "GET / HTTP/1.1",
    "SITE SETNETSTACK udt,gsi",
    "SITE SETDISKSTACK default",
];

/// Lines that servers send.
const REPLIES: &[&str] = &[
    "220 ready\r\n",
    "331 password\r\n",
    "230 in\r\n",
    "200 ok\r\n",
    "226 done\r\n",
    "150 go\r\n",
    "125 go on\r\n",
    "111 Range Marker 0-5\r\n",
    "112-Perf Marker\r\n",
    " Timestamp: 1.0\r\n",
    "112 End.\r\n",
    "211-Extensions\r\n",
    " SIZE\r\n",
    "211 End.\r\n",
    "500 no\r\n",
    "426 aborted\r\n",
    "227 Entering Passive Mode (127,0,0,1,100,1)\r\n",
    "421 bye\r\n",
    "' unrecognized type.\r\n",
    "550-GlobusError: v=1 c=PATH_NOT_FOUND\r\n",
    "550 End.\r\n",
    "999 what\r\n",
    "\r\n",
    "2",
];

/// Writes one operation.
pub fn encode(op: u8, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len()).unwrap_or(u16::MAX);
    let mut out = vec![op];
    out.extend_from_slice(&len.to_le_bytes());
    out.extend(payload.iter().take(len.into()));
    out
}

/// Reads operations until there are no more bytes; the last may be shorter than it says.
fn decode(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let ([op, low, high], rest) = bytes.split_first_chunk::<3>()?;
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (payload, rest) = rest.split_at(len);
        bytes = rest;
        Some((*op, payload))
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "an Instant can be had in no other way"
)]
fn start() -> Instant {
    Instant::now()
}

/// Runs operations against a server session.
///
/// # Panics
///
/// When an invariant is broken, by design.
pub fn server(bytes: &[u8]) {
    let mut settings = server::Settings::new("host", "0");
    settings.checksums = vec![("MD5".into(), 10)];
    settings.limits.queued_commands = 20;
    settings.limits.queued_bytes = 400;
    let mut rig = ServerRig {
        session: ServerSession::new(start(), Arc::new(settings), IpAddr::V4(Ipv4Addr::LOCALHOST)),
        now: start(),
        outstanding: None,
        last: None,
        lines: 0,
        finals: 0,
        closed: false,
        draining: false,
    };
    rig.drain();
    for (op, payload) in decode(bytes) {
        rig.apply(op, payload);
    }
}

struct ServerRig {
    session: ServerSession,
    now: Instant,
    /// The action that must be answered.
    outstanding: Option<(Ticket, Action)>,
    /// A ticket that is no longer outstanding.
    last: Option<Ticket>,
    lines: usize,
    finals: usize,
    closed: bool,
    draining: bool,
}

impl ServerRig {
    fn apply(&mut self, op: u8, payload: &[u8]) {
        use server::Input;
        let pick = payload.first().copied().unwrap_or(0);
        let now = self.now;
        match op % 12 {
            0 => {
                self.lines += 1;
                self.session.handle(now, Input::Line(payload));
            }
            1 => {
                if let Some((ticket, action)) = self.outstanding.take() {
                    self.last = Some(ticket);
                    let outcome = outcome(&action, pick);
                    self.session.handle(now, Input::Done(ticket, outcome));
                }
            }
            2 | 3 => {
                if let Some((ticket, _)) = &self.outstanding {
                    let event = event(pick);
                    self.session.handle(now, Input::Event(*ticket, event));
                }
            }
            4 => {
                self.now += Duration::from_secs(pick.into());
                self.session.handle(self.now, Input::Timeout);
            }
            5 if pick % 8 == 7 => {
                self.draining = true;
                self.session.handle(now, Input::Drain);
            }
            6 if pick % 8 == 7 => {
                self.draining = true;
                self.session.handle(now, Input::Eof);
            }
            7 => {
                self.lines += 1;
                let bad = BadLine::Control { byte: 0, at: 0 };
                self.session.handle(now, Input::BadLine(bad));
            }
            8 if pick % 8 == 7 => {
                let bad = BadLine::TooLong { limit: 1 };
                self.session.handle(now, Input::BadLine(bad));
            }
            10 => {
                if let Some(stale) = self.last {
                    let outcome = Outcome::Transferred { bytes: 0 };
                    self.session.handle(now, Input::Done(stale, outcome));
                }
            }
            11 if pick % 8 == 7 => self.session.handle(now, Input::Evict),
            _ => {}
        }
        self.drain();
    }

    fn drain(&mut self) {
        for _ in 0..500 {
            match self.session.poll() {
                server::Output::Reply(reply) => {
                    assert!(!self.closed, "a reply after the end: {reply}");
                    self.finals += usize::from(is_final(&reply));
                }
                server::Output::Action(ticket, action) => {
                    assert!(!self.closed, "an action after the end: {action:?}");
                    if action.is_answered() {
                        assert!(
                            self.outstanding.is_none(),
                            "two actions at once: {action:?}"
                        );
                        self.outstanding = Some((ticket, action));
                    }
                }
                server::Output::Close(_) => {
                    assert!(!self.closed, "closed twice");
                    self.closed = true;
                    self.outstanding = None;
                }
                server::Output::Wait(until) => return self.check(until),
            }
        }
        panic!("the session never waits");
    }

    fn check(&self, until: Option<Instant>) {
        if self.closed {
            assert_eq!(until, None);
            return;
        }
        let busy = self.session.is_busy();
        assert_eq!(busy, self.outstanding.is_some(), "busy without an action");
        assert!(busy || until.is_some(), "waits without a deadline");
        if busy {
            assert!(self.finals <= self.lines + 1, "more replies than commands");
        } else if !self.draining {
            // The greeting is one reply more.
            assert_eq!(self.finals, self.lines + 1, "one final reply a command");
        }
    }
}

/// Says whether this answers a command for good: no marker, and no part of a long reply but its
/// last line.
fn is_final(reply: &Reply) -> bool {
    let (code, text) = (reply.code(), reply.to_string());
    let last = text.lines().next_back().unwrap_or_default();
    !code.is_preliminary() && last.starts_with(&format!("{} ", code.number()))
}

/// An outcome for this action: mostly one that fits.
fn outcome(action: &Action, pick: u8) -> Outcome {
    let port = 50_000;
    let path = FtpPath::root();
    let odd = [
        Outcome::Failed(Reply::of::<550>("no")),
        Outcome::Failed(Reply::of::<150>("not a final reply")),
        Outcome::Listening(Vec::new()),
        Outcome::Listening(vec![SocketAddr::new(Ipv6Addr::LOCALHOST.into(), port)]),
        Outcome::Done,
    ];
    if pick.is_multiple_of(4) {
        let [failed, ..] = &odd;
        return odd.get(usize::from(pick / 4)).unwrap_or(failed).clone();
    }
    let kind = if pick.is_multiple_of(2) {
        EntryKind::File
    } else {
        EntryKind::Dir
    };
    match action {
        Action::Login { .. } => Outcome::LoggedIn {
            home: path,
            message: vec!["hello".into()],
        },
        Action::Listen { .. } => {
            Outcome::Listening(vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)])
        }
        Action::Transfer(_) => match pick % 4 {
            1 => Outcome::Transferred { bytes: 1 },
            2 => Outcome::Proven(Receipt::new(1, None)),
            _ => Outcome::Spared(Reply::of::<552>("full")),
        },
        Action::Names(Names::Stat(_)) => Outcome::Stat(Box::new(Entry::new(kind, *b"x"))),
        Action::Names(Names::Lines(..)) => Outcome::Lines(vec![b"x".to_vec()]),
        Action::Names(Names::Checksum { .. }) => Outcome::Checksum("00".into()),
        Action::Names(Names::Held(_)) => Outcome::Held(RangeSet::up_to(9)),
        _ => Outcome::Done,
    }
}

fn event(pick: u8) -> Event {
    let n = u64::from(pick);
    match pick % 6 {
        0 | 1 => Event::Opened {
            reused: pick.is_multiple_of(2),
        },
        2 => Event::Received(RangeSet::up_to(n)),
        3 => Event::Moved {
            at: n,
            stripe: 0,
            stripes: 1,
            bytes: n,
        },
        4 => Event::Lines(vec![b"x".to_vec()]),
        _ => Event::Hashed { at: n, bytes: n },
    }
}

/// Runs operations against a client session.
///
/// # Panics
///
/// When an invariant is broken, by design.
pub fn client(bytes: &[u8]) {
    let settings = client::Settings {
        window: 5,
        waiting: 10,
        reply_bytes: 2000,
        ..client::Settings::default()
    };
    let now = start();
    let mut rig = ClientRig {
        session: ClientSession::new(now, settings),
        now,
        due: BTreeSet::from([Ticket::BANNER]),
        answered: None,
        closed: false,
    };
    rig.drain();
    for (op, payload) in decode(bytes) {
        rig.apply(op, payload);
    }
}

struct ClientRig {
    session: ClientSession,
    now: Instant,
    /// Tickets without a final reply.
    due: BTreeSet<Ticket>,
    /// The last ticket that was answered.
    answered: Option<Ticket>,
    closed: bool,
}

impl ClientRig {
    fn apply(&mut self, op: u8, payload: &[u8]) {
        use client::Input;
        let pick = usize::from(payload.first().copied().unwrap_or(0));
        match op % 8 {
            0 => self.session.handle(self.now, Input::Bytes(payload)),
            1 | 2 => {
                let reply = REPLIES
                    .get(pick % REPLIES.len())
                    .copied()
                    .unwrap_or_default();
                self.session
                    .handle(self.now, Input::Bytes(reply.as_bytes()));
            }
            3 => {
                let line = LINES.get(pick % LINES.len()).copied().unwrap_or_default();
                if let Ok(command) = Command::parse(line.as_bytes())
                    && let Ok(ticket) = self.session.send(self.now, &command)
                {
                    self.due.insert(ticket);
                }
            }
            4 => {
                self.now += Duration::from_secs(pick.try_into().unwrap_or(0));
                self.session.handle(self.now, Input::Timeout);
            }
            5 => self.session.handle(self.now, Input::Moved),
            6 => {
                if let Ok(ticket) = self.session.abort(self.now) {
                    self.due.insert(ticket);
                }
            }
            _ if pick % 8 == 7 => self.session.handle(self.now, Input::Eof),
            _ => {}
        }
        self.drain();
    }

    fn drain(&mut self) {
        for _ in 0..500 {
            match self.session.poll() {
                client::Output::Send(outgoing) => {
                    assert!(outgoing.bytes().ends_with(b"\r\n"), "{outgoing}");
                }
                client::Output::Preliminary(ticket, reply) => {
                    assert!(self.due.contains(&ticket) && reply.code().is_preliminary());
                }
                client::Output::Reply(ticket, reply) => {
                    assert!(!reply.code().is_preliminary());
                    assert!(self.due.remove(&ticket), "answered twice");
                    assert!(self.answered < Some(ticket), "out of order");
                    self.answered = Some(ticket);
                }
                client::Output::Lost(ticket) => assert!(self.due.remove(&ticket), "lost twice"),
                client::Output::Unsolicited(_) => {}
                client::Output::Closed(_) => {
                    assert!(!self.closed, "closed twice");
                    self.closed = true;
                }
                client::Output::Wait(until) => {
                    assert_eq!(self.session.outstanding(), self.due.len());
                    assert_eq!(self.closed, self.session.is_closed());
                    assert!(
                        !self.closed || self.due.is_empty(),
                        "left without an answer"
                    );
                    assert_eq!(until.is_some(), !self.due.is_empty());
                    return;
                }
            }
        }
        panic!("the session never waits");
    }
}
