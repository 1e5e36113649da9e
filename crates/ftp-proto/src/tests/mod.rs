//! Both sessions driven with simulated time and no I/O: the rig, and the suites that use it.

mod client;
mod files;
mod held;
mod memory;
mod operations;
mod pair;
mod rate;
mod replies;
mod security;
mod server;
mod stripes;
mod transfers;
mod unauthenticated;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ftp_wire::facts::{Entry, EntryKind, TimeVal};
use ftp_wire::path::FtpPath;
use ftp_wire::reply::{Code, Reply};

use crate::security::{Demands, Mechanism};
use crate::server::{Ending, Input, Output, ServerSession, Settings};
use crate::types::{Action, Event, Names, Outcome, Ticket, TransferKind};

pub(crate) const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The moment at which every test begins; tests only add to it.
#[expect(
    clippy::disallowed_methods,
    reason = "an Instant can be had in no other way"
)]
pub(crate) fn start() -> Instant {
    Instant::now()
}

pub(crate) fn path(text: &str) -> FtpPath {
    FtpPath::new(text).unwrap()
}

pub(crate) fn settings() -> Settings {
    let mut settings = Settings::new("dtn.example.org", "0.1 (test)");
    settings.dsi = Some("mem-0.1".into());
    settings.checksums = vec![("MD5".into(), 10), ("SHA256".into(), 11)];
    settings.keeps = true;
    settings.exclusive = true;
    settings.durable = true;
    settings.boot = Some(42);
    settings.space = true;
    settings.attributes = true;
    settings.rates = true;
    settings
}

/// A server session with its replies and its outstanding actions.
pub(crate) struct Rig {
    pub(crate) session: ServerSession,
    pub(crate) now: Instant,
    /// Wire text of the replies not looked at yet.
    pub(crate) said: String,
    pub(crate) wanted: VecDeque<(Ticket, Action)>,
    pub(crate) upgrading: Option<Mechanism>,
    pub(crate) closed: Option<Ending>,
    pub(crate) wait: Option<Instant>,
}

impl Rig {
    pub(crate) fn with(settings: Settings) -> Self {
        Self::from(HOST, settings)
    }

    /// A session with a client at `peer`.
    pub(crate) fn from(peer: IpAddr, settings: Settings) -> Self {
        let now = start();
        let session = ServerSession::new(now, Arc::new(settings), peer);
        let mut rig = Self {
            session,
            now,
            said: String::new(),
            wanted: VecDeque::new(),
            upgrading: None,
            closed: None,
            wait: None,
        };
        rig.drain();
        rig.said.clear();
        rig
    }

    /// A session logged in as `ann`, with the home `/home/ann`.
    pub(crate) fn logged_in() -> Self {
        Self::logged_in_with(settings())
    }

    pub(crate) fn logged_in_with(settings: Settings) -> Self {
        Self::logged_in_from(HOST, settings)
    }

    pub(crate) fn logged_in_from(peer: IpAddr, settings: Settings) -> Self {
        let mut rig = Self::from(peer, settings);
        rig.session = rig.session.with_demands(Demands::default());
        rig.line("USER ann");
        rig.line("PASS secret");
        rig.done(Outcome::LoggedIn {
            user: None,
            home: path("/home/ann"),
            message: Vec::new(),
        });
        rig.said.clear();
        rig
    }

    pub(crate) fn drain(&mut self) {
        for _ in 0..100_000 {
            match self.session.poll() {
                Output::Reply(reply) => {
                    let mut bytes = Vec::new();
                    reply.write_to(&mut bytes);
                    self.said.push_str(&String::from_utf8_lossy(&bytes));
                }
                Output::Action(ticket, action) => self.wanted.push_back((ticket, action)),
                Output::Upgrade(mechanism) => self.upgrading = Some(mechanism),
                Output::Close(ending) => self.closed = Some(ending),
                Output::Wait(until) => {
                    self.wait = until;
                    return;
                }
            }
        }
        panic!("the session never waits");
    }

    pub(crate) fn input(&mut self, input: Input<'_>) -> &mut Self {
        self.session.handle(self.now, input);
        self.drain();
        self
    }

    pub(crate) fn line(&mut self, line: &str) -> &mut Self {
        self.input(Input::Line(line.as_bytes()))
    }

    pub(crate) fn lines(&mut self, lines: &[&str]) -> &mut Self {
        for line in lines {
            self.line(line);
        }
        self
    }

    /// Takes the oldest action that is answered.
    pub(crate) fn action(&mut self) -> (Ticket, Action) {
        loop {
            let (ticket, action) = self.wanted.pop_front().expect("no action is wanted");
            if action.is_answered() {
                return (ticket, action);
            }
        }
    }

    /// Answers the oldest action.
    pub(crate) fn done(&mut self, outcome: Outcome) -> &mut Self {
        let (ticket, _) = self.action();
        self.input(Input::Done(ticket, outcome))
    }

    /// Returns the replies since the last call.
    pub(crate) fn take(&mut self) -> String {
        std::mem::take(&mut self.said)
    }

    /// Sends a line and returns the replies.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.said.clear();
        self.line(line);
        self.take()
    }

    pub(crate) fn after(&mut self, time: Duration) -> &mut Self {
        self.now += time;
        self.input(Input::Timeout)
    }

    /// Sets up a passive data connection.
    pub(crate) fn passive(&mut self) -> &mut Self {
        self.line("PASV").done(listening());
        self.said.clear();
        self
    }

    /// Sets up an active data connection.
    pub(crate) fn active(&mut self) -> &mut Self {
        self.line("PORT 127,0,0,1,100,1").done(Outcome::Done);
        self.said.clear();
        self
    }
}

pub(crate) fn listening() -> Outcome {
    Outcome::Listening(vec![SocketAddr::new(HOST, 50_000)])
}

pub(crate) fn entry(kind: EntryKind) -> Box<Entry> {
    let mut entry = Entry::new(kind, *b"name");
    entry.size = 7;
    entry.modified = TimeVal {
        seconds: 1_795_202_752,
        nanos: 5,
    };
    Box::new(entry)
}

pub(crate) fn refused<const CODE: u16>(text: &str) -> Outcome {
    Outcome::Failed(Reply::new(Code::of::<CODE>(), text))
}

/// A tree in memory that carries out every action at once: the edge of the simulated server.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// Contents of files; directories are `None`.
    pub(crate) objects: BTreeMap<String, Option<Vec<u8>>>,
    /// Whether data connections of an earlier transfer are open.
    pub(crate) cached: bool,
    /// Transfers begun, for assertions.
    pub(crate) transfers: Vec<TransferKind>,
    /// Numbers of their tags.
    pub(crate) tags: Vec<u64>,
}

impl Tree {
    /// The events and the outcome of an action; `None` for those that are not answered.
    pub(crate) fn act(&mut self, action: Action) -> (Vec<Event>, Option<Outcome>) {
        let outcome = match action {
            Action::Login { user, password } => {
                if password.reveal() == "secret" || user == "anonymous" {
                    Outcome::LoggedIn {
                        user: None,
                        home: path("/"),
                        message: Vec::new(),
                    }
                } else {
                    refused::<530>("Login incorrect.")
                }
            }
            Action::Listen { .. } => {
                self.cached = false;
                listening()
            }
            Action::Connect(..) => {
                self.cached = false;
                Outcome::Done
            }
            Action::Transfer(transfer) => {
                let reused = std::mem::replace(
                    &mut self.cached,
                    transfer.channel.mode == ftp_wire::command::Mode::Extended,
                );
                self.transfers.push(transfer.kind.clone());
                self.tags.extend(transfer.tag.map(|tag| tag.number));
                if let TransferKind::Retrieve { path, .. } = &transfer.kind
                    && !self.objects.contains_key(&name(path))
                {
                    return (vec![], Some(refused::<550>("No such file or directory")));
                }
                if let TransferKind::Store { path, .. } = &transfer.kind {
                    self.objects.insert(name(path), Some(b"stored".to_vec()));
                }
                let outcome = Outcome::Transferred { bytes: 6 };
                return (vec![Event::Opened { reused }], Some(outcome));
            }
            Action::Stack(_, Some(stack)) if stack == "gopher" => {
                refused::<500>("stack: no driver `gopher`")
            }
            Action::Stack(..) => Outcome::Done,
            Action::Waits => Outcome::Waits(Box::default()),
            Action::DropData => {
                self.cached = false;
                return (vec![], None);
            }
            Action::DataCredential(_) => Outcome::Done,
            Action::LoginCertified { .. } => Outcome::LoggedIn {
                user: None,
                home: path("/"),
                message: Vec::new(),
            },
            Action::Abort(_) | Action::Annotate { .. } | Action::NoLinks | Action::Rate(_) => {
                return (vec![], None);
            }
            Action::Names(names) => self.names(names),
        };
        (vec![], Some(outcome))
    }

    fn names(&mut self, names: Names) -> Outcome {
        match names {
            Names::Stat(path) => match self.objects.get(&name(&path)) {
                Some(None) => Outcome::Stat(entry(EntryKind::Dir)),
                Some(Some(_)) => Outcome::Stat(entry(EntryKind::File)),
                None => refused::<550>("No such file or directory"),
            },
            Names::MakeDir(path) => {
                self.objects.insert(name(&path), None);
                Outcome::Done
            }
            Names::Rename(from, to) => match self.objects.remove(&name(&from)) {
                Some(object) => {
                    self.objects.insert(name(&to), object);
                    Outcome::Done
                }
                None => refused::<550>("No such file or directory"),
            },
            Names::Lines(..) => Outcome::Lines(vec![b"a line".to_vec()]),
            Names::Checksum { .. } => Outcome::Checksum("00ff".into()),
            Names::Stage(..) => Outcome::Staged(true),
            Names::Held(_) => Outcome::Held(byte_ranges::RangeSet::new()),
            Names::Delete(path) | Names::RemoveDir(path) | Names::RemoveTree(path) => {
                match self.objects.remove(&name(&path)) {
                    Some(_) => Outcome::Done,
                    None => refused::<550>("No such file or directory"),
                }
            }
            _ => Outcome::Done,
        }
    }
}

fn name(path: &FtpPath) -> String {
    String::from_utf8_lossy(path.as_bytes()).into_owned()
}
