//! Runs operations, read from bytes, against either machine and checks its invariants.
//!
//! The fuzz targets and the property tests share it, so that whatever one finds the other can
//! replay. An operation is a byte that names it, two bytes of length (little-endian), and that many
//! bytes.

mod lines;

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

pub use self::lines::LINES;
use self::lines::REPLIES;
use crate::client::{self, ClientSession};
use crate::security::{Mechanism, Protection};
use crate::server::{self, ServerSession};
use crate::types::{Action, Event, Names, Outcome, Ticket};

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
    (settings.tls, settings.gssapi, settings.dcsc) = (true, true, true);
    (settings.stripes, settings.rates) = (Some(3), true);
    settings.limits.queued_commands = 20;
    settings.limits.queued_bytes = 400;
    let mut rig = ServerRig {
        session: ServerSession::new(start(), Arc::new(settings), IpAddr::V4(Ipv4Addr::LOCALHOST)),
        now: start(),
        outstanding: None,
        upgrading: None,
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
    /// The handshake that must end.
    upgrading: Option<Mechanism>,
    /// A ticket that is no longer outstanding.
    last: Option<Ticket>,
    lines: usize,
    finals: usize,
    closed: bool,
    draining: bool,
}

impl ServerRig {
    fn apply(&mut self, op: u8, payload: &[u8]) {
        use server::{Input, UpgradeFailure};
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
            9 => {
                let by = self.upgrading.take().unwrap_or(Mechanism::Tls);
                let input = match pick % 4 {
                    0 => Input::UpgradeFailed(UpgradeFailure::Handshake(None)),
                    1 => Input::UpgradeFailed(UpgradeFailure::Injected),
                    _ => Input::Upgraded(Protection::new(by)),
                };
                self.session.handle(now, input);
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
                    assert!(self.upgrading.is_none(), "a reply in a handshake: {reply}");
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
                server::Output::Upgrade(mechanism) => {
                    assert!(!self.closed && self.upgrading.is_none(), "two handshakes");
                    self.upgrading = Some(mechanism);
                }
                server::Output::Close(_) => {
                    assert!(!self.closed, "closed twice");
                    self.closed = true;
                    (self.outstanding, self.upgrading) = (None, None);
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
        let upgrading = self.upgrading.is_some();
        assert_eq!(
            busy,
            self.outstanding.is_some() || upgrading,
            "busy without an action"
        );
        assert!(
            busy && !upgrading || until.is_some(),
            "waits without a deadline"
        );
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
        Action::Login { .. } | Action::LoginCertified { .. } => Outcome::LoggedIn {
            user: None,
            home: path,
            message: vec!["hello".into()],
        },
        Action::Listen { stripes, .. } => {
            let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
            let number = stripes.map_or(1, |most| u32::from(pick) % most + 1);
            Outcome::Listening((0..number).map(|_| address).collect())
        }
        Action::Transfer(_) => match pick % 4 {
            1 => Outcome::Transferred { bytes: 1 },
            2 => Outcome::Proven(Receipt::new(1, None)),
            3 if pick > 128 => Outcome::Digested {
                bytes: 1,
                algorithm: "MD5".into(),
                digest: "00".into(),
            },
            _ => Outcome::Spared(Reply::of::<552>("full")),
        },
        Action::Names(Names::Stat(_)) => Outcome::Stat(Box::new(Entry::new(kind, *b"x"))),
        Action::Names(Names::Lines(..)) => Outcome::Lines(vec![b"x".to_vec()]),
        Action::Names(Names::Checksum { .. }) => Outcome::Checksum("00".into()),
        Action::Names(Names::Stage(..)) => Outcome::Staged(pick.is_multiple_of(3)),
        Action::Waits => Outcome::Waits(Box::default()),
        Action::Names(Names::Held(_)) if pick.is_multiple_of(2) => {
            Outcome::Partials(Vec::new(), pick.is_multiple_of(3))
        }
        Action::Names(Names::Held(_)) => Outcome::Held(RangeSet::up_to(9)),
        _ => Outcome::Done,
    }
}

fn event(pick: u8) -> Event {
    let n = u64::from(pick);
    match pick % 7 {
        0 | 1 => Event::Opened {
            reused: pick.is_multiple_of(2),
        },
        2 => Event::Received(RangeSet::up_to(n)),
        3 => Event::Moved {
            at: n,
            stripe: 0,
            stripes: 1,
            bytes: n,
            waits: pick.is_multiple_of(2).then(Box::default),
        },
        4 => Event::Lines(vec![b"x".to_vec()]),
        5 => Event::Waiting,
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
