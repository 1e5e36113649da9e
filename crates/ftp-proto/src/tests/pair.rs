//! A `Pair`: one client session and one server session over a wire of chosen chunk sizes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ftp_wire::command::{Command, Esto, Mode, Secret, Spot, Tag};
use ftp_wire::line::LineSplitter;
use ftp_wire::receipt::Extent;
use ftp_wire::reply::Reply;

use super::{HOST, Tree, path, settings, start};
use crate::client::{self, Capabilities, ClientSession, LoggedIn, Login, LoginError, LoginStep};
use crate::server::{self, ServerSession};
use crate::types::{Action, Ticket};

/// Both ends, the wire between them, and a tree behind the server.
pub(crate) struct Pair {
    pub(crate) client: ClientSession,
    server: ServerSession,
    splitter: LineSplitter,
    pub(crate) tree: Tree,
    pub(crate) now: Instant,
    /// Bytes on their way.
    to_server: VecDeque<u8>,
    to_client: VecDeque<u8>,
    /// Bytes handed over at once.
    chunk: usize,
    /// Final replies not looked at yet.
    pub(crate) replies: VecDeque<(Ticket, Reply)>,
    pub(crate) news: Vec<(Ticket, Reply)>,
    pub(crate) lost: Vec<Ticket>,
    /// Transfers wait here instead of running when set, for tests of ABOR.
    pub(crate) hold_transfers: bool,
    held: Option<Ticket>,
    /// Times that something crossed the wire from the client while nothing else was under way.
    pub(crate) flights: usize,
}

impl Pair {
    pub(crate) fn new(chunk: usize) -> Self {
        let now = start();
        let mut pair = Self {
            client: ClientSession::new(now, client::Settings::default()),
            server: ServerSession::new(now, Arc::new(settings()), HOST),
            splitter: LineSplitter::new(),
            tree: Tree::default(),
            now,
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            chunk,
            replies: VecDeque::new(),
            news: Vec::new(),
            lost: Vec::new(),
            hold_transfers: false,
            held: None,
            flights: 0,
        };
        pair.tree.objects.insert("/".into(), None);
        pair.tree
            .objects
            .insert("/f".into(), Some(b"hello".to_vec()));
        pair.settle();
        pair
    }

    /// Moves bytes both ways until neither end has anything to do.
    pub(crate) fn settle(&mut self) {
        self.drain_client();
        self.drain_server();
        if !self.to_server.is_empty() {
            self.flights += 1;
        }
        while !(self.to_server.is_empty() && self.to_client.is_empty()) {
            let n = self.chunk.min(self.to_server.len());
            let bytes: Vec<u8> = self.to_server.drain(..n).collect();
            self.splitter.push(&bytes);
            loop {
                let input = match self.splitter.next_line() {
                    None => break,
                    Some(Ok(line)) => server::Input::Line(line),
                    Some(Err(bad)) => server::Input::BadLine(bad),
                };
                self.server.handle(self.now, input);
                // The splitter lends its line, so the session is drained behind the loop's back.
                Self::drain(
                    &mut self.server,
                    self.now,
                    &mut self.tree,
                    &mut self.to_client,
                    (self.hold_transfers, &mut self.held),
                );
            }
            let n = self.chunk.min(self.to_client.len());
            let bytes: Vec<u8> = self.to_client.drain(..n).collect();
            self.client.handle(self.now, client::Input::Bytes(&bytes));
            self.drain_client();
        }
    }

    fn drain_server(&mut self) {
        Self::drain(
            &mut self.server,
            self.now,
            &mut self.tree,
            &mut self.to_client,
            (self.hold_transfers, &mut self.held),
        );
    }

    /// The edge of the server: carries out actions at once, unless transfers are to be held.
    fn drain(
        server: &mut ServerSession,
        now: Instant,
        tree: &mut Tree,
        wire: &mut VecDeque<u8>,
        (hold, held): (bool, &mut Option<Ticket>),
    ) {
        loop {
            match server.poll() {
                server::Output::Reply(reply) => {
                    let mut bytes = Vec::new();
                    reply.write_to(&mut bytes);
                    wire.extend(bytes);
                }
                server::Output::Action(ticket, Action::Transfer(_)) if hold => {
                    *held = Some(ticket);
                    let opened = crate::types::Event::Opened { reused: false };
                    server.handle(now, server::Input::Event(ticket, opened));
                }
                server::Output::Action(_, Action::Abort(ticket)) if *held == Some(ticket) => {
                    *held = None;
                    let outcome = super::refused::<426>("aborted");
                    server.handle(now, server::Input::Done(ticket, outcome));
                }
                server::Output::Action(ticket, action) => {
                    let (events, outcome) = tree.act(action);
                    for event in events {
                        server.handle(now, server::Input::Event(ticket, event));
                    }
                    if let Some(outcome) = outcome {
                        server.handle(now, server::Input::Done(ticket, outcome));
                    }
                }
                server::Output::Close(_) | server::Output::Upgrade(_) => {}
                server::Output::Wait(_) => return,
            }
        }
    }

    fn drain_client(&mut self) {
        loop {
            match self.client.poll() {
                client::Output::Send(outgoing) => self.to_server.extend(outgoing.bytes()),
                client::Output::Preliminary(ticket, reply) => self.news.push((ticket, reply)),
                client::Output::Reply(ticket, reply) => self.replies.push_back((ticket, reply)),
                client::Output::Lost(ticket) => self.lost.push(ticket),
                client::Output::Unsolicited(reply) => panic!("unsolicited {reply}"),
                client::Output::Closed(_) => {}
                client::Output::Wait(_) => return,
            }
        }
    }

    pub(crate) fn send(&mut self, command: &Command) -> Ticket {
        let ticket = self.client.send(self.now, command).unwrap();
        self.drain_client();
        ticket
    }

    /// Logs in, or returns the refusal.
    pub(crate) fn try_log_in(&mut self, password: &str) -> Result<LoggedIn, LoginError> {
        let mut login = Login::new("ann", Secret::new(password), None);
        loop {
            match login.step() {
                LoginStep::Send(command) => {
                    self.send(&command);
                }
                LoginStep::Wait => {
                    if self.replies.is_empty() {
                        self.settle();
                    }
                    let (_, reply) = self.replies.pop_front().expect("a reply is due");
                    login.reply(&reply);
                }
                LoginStep::Secure(_) => unreachable!("no protection is asked for"),
                LoginStep::Done(result) => return result,
            }
        }
    }

    pub(crate) fn log_in(&mut self) -> Capabilities {
        self.try_log_in("secret").unwrap().capabilities
    }
}

#[test]
fn a_session_from_greeting_to_files_in_chunks_of_every_size() {
    for chunk in [1, 2, 3, 7, 64, 100_000] {
        let mut pair = Pair::new(chunk);
        let caps = pair.log_in();
        assert!(caps.extended_mode().is_yes() && caps.tagged_transfers().is_yes());
        assert_eq!(caps.checksums()[0].0, "MD5");
        pair.send(&Command::Pasv);
        for (number, name) in (1..).zip(["/a", "/b", "/c"]) {
            let tag = Tag::new(number, Extent::Head);
            let spot = Spot::Sized(6);
            pair.send(&Command::Esto(Esto::Tagged { tag, spot }, path(name)));
        }
        pair.settle();
        let codes: Vec<u16> = pair
            .replies
            .iter()
            .map(|(_, r)| r.code().number())
            .collect();
        assert_eq!(codes, [227, 226, 226, 226]);
        let news: Vec<u16> = pair.news.iter().map(|(_, r)| r.code().number()).collect();
        assert_eq!(news, [150, 125, 125], "the connections serve again");
        assert!(pair.tree.objects.contains_key("/c"));
        assert_eq!(pair.tree.tags, [1, 2, 3]);
    }
}

#[test]
fn login_takes_two_flights_after_the_greeting() {
    let mut pair = Pair::new(100_000);
    pair.log_in();
    assert_eq!(pair.flights, 2);
}

#[test]
fn a_thousand_pipelined_commands_have_one_reply_each_in_order() {
    let mut pair = Pair::new(1460);
    pair.log_in();
    let mut tickets = vec![pair.send(&Command::Mode(Mode::Stream))];
    for n in 0..1000 {
        let name = path(if n % 3 == 0 { "/missing" } else { "/f" });
        tickets.push(pair.send(&Command::Pasv));
        tickets.push(pair.send(&Command::Retr(name)));
    }
    pair.settle();
    let answered: Vec<Ticket> = pair.replies.iter().map(|(ticket, _)| *ticket).collect();
    assert_eq!(answered, tickets);
    assert!(pair.lost.is_empty());
}

#[test]
fn abort_of_a_running_transfer_leaves_both_ends_in_step() {
    let mut pair = Pair::new(100);
    pair.log_in();
    pair.hold_transfers = true;
    pair.send(&Command::Mode(Mode::Stream));
    pair.send(&Command::Pasv);
    pair.send(&Command::Retr(path("/f")));
    pair.send(&Command::Noop);
    pair.settle();
    pair.client.abort(pair.now).unwrap();
    pair.settle();
    pair.send(&Command::Noop);
    pair.settle();
    let codes: Vec<u16> = pair
        .replies
        .iter()
        .map(|(_, r)| r.code().number())
        .collect();
    assert_eq!(codes, [200, 227, 426, 426, 226, 200]);
}

#[test]
fn a_refused_login_is_told_with_the_servers_words() {
    let mut pair = Pair::new(100);
    let error = pair.try_log_in("wrong").unwrap_err();
    assert_eq!(error.to_string(), "server: login: 530 Login incorrect.");
}

#[test]
fn an_idle_session_ends_on_both_sides() {
    let mut pair = Pair::new(100);
    pair.log_in();
    pair.now += Duration::from_secs(600);
    pair.server.handle(pair.now, server::Input::Timeout);
    pair.settle();
    assert!(pair.client.is_closed());
}
