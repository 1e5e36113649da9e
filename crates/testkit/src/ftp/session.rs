//! One session of a scripted server: drives the pure session, and moves the data.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::mem;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ftp_proto::server::{Input, Output, ServerSession, Settings};
use ftp_proto::types::{Action, Event, Outcome, Placement, Ticket, Transfer, TransferKind};
use ftp_wire::command::Mode;
use ftp_wire::path::FtpPath;
use rustix::net::sockopt::set_socket_linger;

use super::objects::{refused, text};
use super::{Reaction, ScriptedServer, block, lock};

/// Time after connecting in which data that is sent before the 150 reply would arrive.
const EARLY: Duration = Duration::from_millis(200);

/// Commands under [`Reaction::Usual`], apart from `FEAT`.
const USUAL: &[&str] = &[
    "USER", "PASS", "TYPE", "MODE", "OPTS", "ALLO", "ABOR", "REST", "PASV", "PORT", "RETR", "STOR",
    "APPE", "LIST", "SIZE", "MDTM", "CWD", "MKD", "DELE", "RNFR", "RNTO", "QUIT",
];

const FEATURES: &str = "211-features\r\n SIZE\r\n MDTM\r\n REST STREAM\r\n211 end";

pub(super) struct Session {
    server: ScriptedServer,
    control: TcpStream,
    machine: ServerSession,
    /// The command under way, and the reaction to it.
    line: String,
    reaction: Reaction,
    /// Whether MODE E is in force.
    is_extended: bool,
    listener: Option<TcpListener>,
    targets: Vec<SocketAddr>,
    /// Replies that are sent together with the next.
    kept: Vec<u8>,
    /// Whether the next reply is kept too.
    keeps: bool,
    /// Whether replies to the command under way are dropped, as the script has replied.
    muted: bool,
    held: Vec<TcpStream>,
}

impl Session {
    pub(super) fn new(server: ScriptedServer, control: TcpStream) -> Self {
        let mut settings = Settings::new("", "");
        settings.banner = vec!["ready".to_owned()];
        let peer = Ipv4Addr::LOCALHOST.into();
        Self {
            server,
            control,
            machine: ServerSession::new(Instant::now(), Arc::new(settings), peer),
            line: String::new(),
            reaction: Reaction::Usual,
            is_extended: false,
            listener: None,
            targets: Vec::new(),
            kept: Vec::new(),
            keeps: false,
            muted: false,
            held: Vec::new(),
        }
    }

    pub(super) fn run(mut self) -> io::Result<()> {
        let lines = BufReader::new(self.control.try_clone()?).lines();
        let greeting = self.ask("CONNECT");
        self.muted = greeting != Reaction::Usual;
        self.drain()?;
        if !self.perform(greeting)? {
            return Ok(());
        }
        for line in lines {
            self.line = line?;
            lock(&self.server.shared.commands).push(self.line.clone());
            self.server.shared.more.notify_all();
            if !self.command()? {
                break;
            }
        }
        Ok(())
    }

    fn ask(&self, about: &str) -> Reaction {
        (self.server.shared.script)(&self.server, about)
    }

    /// Reacts to the command; returns false when the session is over.
    fn command(&mut self) -> io::Result<bool> {
        self.reaction = match self.ask(&self.line) {
            Reaction::Extended(reaction) if self.is_extended => *reaction,
            Reaction::Extended(_) => Reaction::Execute,
            reaction => reaction,
        };
        let verb = self.line.split(' ').next().unwrap_or_default();
        match &self.reaction {
            Reaction::Usual if verb == "FEAT" => self.say(FEATURES).map(|()| true),
            Reaction::Usual if !USUAL.contains(&verb) || self.line == "MODE E" => {
                self.say("500 no").map(|()| true)
            }
            Reaction::Later => {
                self.keeps = true;
                self.hear(&self.line.clone())
            }
            Reaction::Shut => {
                let open = self.hear(&self.line.clone());
                self.listener = None;
                open
            }
            Reaction::Usual
            | Reaction::Execute
            | Reaction::Announce(_)
            | Reaction::Until(_)
            | Reaction::Send(..) => self.hear(&self.line.clone()),
            Reaction::Say(text) if text.starts_with("230") => {
                self.say(&text.clone())?;
                self.silently("USER any")?;
                self.silently("PASS any")
            }
            other => {
                let other = other.clone();
                if matches!(verb, "STOR" | "APPE" | "RETR") {
                    // RFC 959 §4.1.3: REST applies to the next command alone.
                    self.silently("REST 0")?;
                }
                self.perform(other)
            }
        }
    }

    /// Passes a command to the session.
    fn hear(&mut self, line: &str) -> io::Result<bool> {
        if let Some(mode) = line.strip_prefix("MODE ") {
            self.is_extended = mode == "E";
        }
        let now = Instant::now();
        self.machine.handle(now, Input::Line(line.as_bytes()));
        self.drain()
    }

    fn silently(&mut self, line: &str) -> io::Result<bool> {
        self.muted = true;
        self.hear(line)
    }

    /// Runs the session until it waits for a command; returns false when it is over.
    fn drain(&mut self) -> io::Result<bool> {
        let mut wanted = None;
        loop {
            match self.machine.poll() {
                Output::Reply(reply) if !self.muted => {
                    let mut wire = Vec::new();
                    reply.write_to(&mut wire);
                    self.send(&wire)?;
                }
                Output::Reply(_) => {}
                Output::Action(_, Action::DropData) => {
                    self.listener = None;
                    self.targets.clear();
                }
                Output::Action(ticket, action) => wanted = Some((ticket, action)),
                Output::Close(_) | Output::Upgrade(_) => return Ok(false),
                Output::Wait(_) => {
                    let Some((ticket, action)) = wanted.take() else {
                        self.muted = false;
                        return Ok(true);
                    };
                    let Some(outcome) = self.execute(ticket, action)? else {
                        return Ok(false);
                    };
                    let done = Input::Done(ticket, outcome);
                    self.machine.handle(Instant::now(), done);
                }
            }
        }
    }

    /// Performs a reaction other than executing the command; returns false when the session is
    /// over.
    fn perform(&mut self, reaction: Reaction) -> io::Result<bool> {
        match reaction {
            Reaction::Say(text) => self.say(&text).map(|()| true),
            Reaction::Raw(bytes) => self.send(&bytes).map(|()| true),
            Reaction::Begin(bytes) => {
                self.send(&bytes)?;
                let then = self.ask(&format!("AGAIN {}", self.line));
                self.perform(then)
            }
            Reaction::HangUp(text) if text.is_empty() => Ok(false),
            Reaction::HangUp(text) => self.say(&text).map(|()| false),
            Reaction::Silence => {
                io::copy(&mut self.control, &mut io::sink())?;
                Ok(false)
            }
            _ => Ok(true),
        }
    }

    fn say(&mut self, text: &str) -> io::Result<()> {
        self.send(format!("{text}\r\n").as_bytes())
    }

    fn send(&mut self, wire: &[u8]) -> io::Result<()> {
        self.kept.extend_from_slice(wire);
        if mem::take(&mut self.keeps) {
            return Ok(());
        }
        self.control.write_all(&mem::take(&mut self.kept))
    }

    /// Runs an action; returns nothing when the session is over.
    fn execute(&mut self, ticket: Ticket, action: Action) -> io::Result<Option<Outcome>> {
        Ok(Some(match action {
            Action::Login { .. } => Outcome::LoggedIn {
                user: None,
                home: FtpPath::root(),
                message: Vec::new(),
            },
            Action::Listen { .. } => {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
                let mut addr = listener.local_addr()?;
                if let Reaction::Announce(host) = self.reaction {
                    addr.set_ip(host.into());
                }
                self.targets.clear();
                self.listener = Some(listener);
                Outcome::Listening(vec![addr])
            }
            Action::Connect(targets, _) => {
                self.listener = None;
                self.targets = targets;
                Outcome::Done
            }
            Action::Transfer(transfer) => return self.transfer(ticket, &transfer),
            Action::Names(names) => self.server.work(&self.line, names),
            _ => refused::<502>("not here"),
        }))
    }

    /// Moves the data; returns nothing when the session is over.
    fn transfer(&mut self, ticket: Ticket, transfer: &Transfer) -> io::Result<Option<Outcome>> {
        let streams = match &transfer.kind {
            TransferKind::Store { .. } => Some(vec![Vec::new()]),
            _ => self.streams(transfer),
        };
        let Some(streams) = streams else {
            return Ok(Some(refused::<550>("no such file")));
        };
        let mut conns = Vec::new();
        for _ in &streams {
            let conn = match (&self.listener, self.targets.first()) {
                (Some(listener), _) => listener.accept().map(|(conn, _)| conn),
                (None, Some(target)) => TcpStream::connect(target),
                (None, None) => Err(io::ErrorKind::NotConnected.into()),
            };
            match conn {
                Ok(conn) => conns.push(conn),
                Err(_) => return Ok(Some(refused::<425>("no connection"))),
            }
        }
        if let TransferKind::Store {
            path, into, held, ..
        } = &transfer.kind
        {
            let offset = match into {
                Placement::Whole | Placement::New => held.end(),
                Placement::At(offset) => *offset,
                Placement::End => self
                    .server
                    .bytes(&text(path))
                    .map_or(0, |old| old.len() as u64),
            };
            let offset = usize::try_from(offset).unwrap_or(usize::MAX);
            return self.store(ticket, conns, &text(path), offset);
        }
        self.opened(ticket)?;
        let cut = match (&self.reaction, streams.as_slice()) {
            (Reaction::Until(bytes), _) => *bytes,
            (Reaction::Send(..), _) | (_, []) => usize::MAX,
            (_, [first, ..]) => first.len() / 2,
        };
        let mut sent = write(&mut conns, &streams, |stream| {
            stream.get(..cut).unwrap_or(stream)
        });
        let midway = match &self.reaction {
            Reaction::Send(_, then) => (**then).clone(),
            _ => self.ask(&format!("MIDWAY {}", self.line)),
        };
        if midway != Reaction::Usual {
            return self.interrupt(conns, midway);
        }
        // The script may have replaced the file.
        let rest = self.streams(transfer).unwrap_or_default();
        sent = sent.and_then(|()| {
            write(&mut conns, &rest, |stream| {
                stream.get(cut..).unwrap_or_default()
            })
        });
        drop(conns);
        self.end(sent)
    }

    /// Tells the session that the data connections are open, for the 150 reply.
    fn opened(&mut self, ticket: Ticket) -> io::Result<bool> {
        let opened = Event::Opened { reused: false };
        self.machine
            .handle(Instant::now(), Input::Event(ticket, opened));
        self.drain()
    }

    /// Ends a transfer by a reaction to `MIDWAY`.
    fn interrupt(
        &mut self,
        conns: Vec<TcpStream>,
        reaction: Reaction,
    ) -> io::Result<Option<Outcome>> {
        self.muted = true;
        let goes_on = match reaction {
            Reaction::Hold => {
                self.held.extend(conns);
                true
            }
            Reaction::Silence => self.perform(reaction)?,
            Reaction::Reset(text) => {
                for conn in conns {
                    set_socket_linger(conn, Some(Duration::ZERO))?;
                }
                self.say(&text).map(|()| true)?
            }
            other => {
                drop(conns);
                self.perform(other)?
            }
        };
        Ok(goes_on.then(|| refused::<426>("interrupted")))
    }

    /// Ends a transfer whose data was moved.
    fn end(&mut self, moved: io::Result<()>) -> io::Result<Option<Outcome>> {
        let reaction = self.ask(&format!("END {}", self.line));
        self.muted = reaction != Reaction::Usual;
        let goes_on = self.perform(reaction)?;
        Ok(goes_on.then(|| match moved {
            Ok(()) => Outcome::Transferred { bytes: 0 },
            Err(_) => refused::<426>("the data connection broke"),
        }))
    }

    /// Returns the bytes of each data connection, or nothing without such a file or directory.
    fn streams(&self, transfer: &Transfer) -> Option<Vec<Vec<u8>>> {
        if let Reaction::Send(streams, _) = &self.reaction {
            return Some(streams.clone());
        }
        let bytes = match &transfer.kind {
            TransferKind::Retrieve { path, held, .. } => {
                let bytes = self.server.bytes(&text(path))?;
                let offset = usize::try_from(held.end()).unwrap_or(usize::MAX);
                bytes.get(offset..).unwrap_or_default().to_vec()
            }
            TransferKind::List { path, form } => {
                let all = self.line.contains(" -a ");
                self.server.listing(&text(path), form, all)?
            }
            TransferKind::RetrieveBy { .. }
            | TransferKind::RetrieveMemory { .. }
            | TransferKind::StoreBy { .. }
            | TransferKind::StoreMemory { .. }
            | TransferKind::RetrieveFiles { .. }
            | TransferKind::StoreFiles { .. }
            | TransferKind::Store { .. } => return None,
        };
        Some(vec![match transfer.channel.mode {
            Mode::Stream => bytes,
            // End of file, end of data and close, with one announced end of data.
            Mode::Extended => [
                block(0, bytes.len() as u64, 0, &bytes),
                block(0x4c, 0, 1, b""),
            ]
            .concat(),
        }])
    }

    /// Stores received bytes from `offset`.
    fn store(
        &mut self,
        ticket: Ticket,
        mut conns: Vec<TcpStream>,
        path: &str,
        offset: usize,
    ) -> io::Result<Option<Outcome>> {
        let Some(mut data) = conns.pop() else {
            return Ok(None);
        };
        let server = self.server.clone();
        data.set_read_timeout(Some(EARLY))?;
        if matches!(data.peek(&mut [0]), Ok(n) if n > 0) {
            server.shared.early.fetch_add(1, Ordering::SeqCst);
        }
        data.set_read_timeout(None)?;
        self.opened(ticket)?;
        let keep = |bytes: &[u8]| {
            let mut objects = server.names();
            let file = objects.entry(path.to_owned()).or_default();
            let file = file.bytes.get_or_insert_default();
            file.truncate(offset);
            file.extend_from_slice(bytes);
        };
        let until = match self.reaction {
            Reaction::Until(bytes) => Some(bytes),
            _ => None,
        };
        let mut asked = false;
        let (mut all, mut block) = (Vec::new(), vec![0; 64 << 10]);
        keep(&[]);
        let stored = loop {
            let most = match until {
                Some(bytes) if !asked => block.len().min(bytes - all.len()),
                _ => block.len(),
            };
            let n = match data.read(block.get_mut(..most).unwrap_or_default()) {
                Ok(0) => break Ok(()),
                Ok(n) => n,
                Err(error) => break Err(error),
            };
            server.shared.received.fetch_add(n, Ordering::SeqCst);
            all.extend_from_slice(block.get(..n).unwrap_or_default());
            if !asked && until.is_none_or(|bytes| all.len() >= bytes) {
                asked = true;
                keep(&all);
                let midway = self.ask(&format!("MIDWAY {}", self.line));
                if midway != Reaction::Usual {
                    return self.interrupt(vec![data], midway);
                }
            }
        };
        keep(&all);
        drop(data);
        self.end(stored)
    }
}

/// Writes a part of each stream to its connection.
fn write(
    conns: &mut [TcpStream],
    streams: &[Vec<u8>],
    part: impl Fn(&Vec<u8>) -> &[u8],
) -> io::Result<()> {
    let mut each = conns.iter_mut().zip(streams);
    each.try_for_each(|(conn, stream)| conn.write_all(part(stream)))
}
