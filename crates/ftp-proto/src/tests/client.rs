//! The client's end over time: matching, pipelining, deadlines, the habits of real servers.

use std::time::{Duration, Instant};

use ftp_wire::command::{Command, Secret};

use super::{path, start};
use crate::client::{ClientSession, Ending, Input, Output, Settings};
use crate::error::{ApiMisuse, PeerMisbehaved};
use crate::types::Ticket;

/// A client session and its outputs, one a line.
struct Rig {
    session: ClientSession,
    now: Instant,
    log: Vec<String>,
    wait: Option<Instant>,
    closed: Option<Ending>,
}

impl Rig {
    fn with(settings: Settings) -> Self {
        let now = start();
        let session = ClientSession::new(now, settings);
        let mut rig = Self {
            session,
            now,
            log: Vec::new(),
            wait: None,
            closed: None,
        };
        rig.drain();
        rig
    }

    /// A session after the greeting.
    fn greeted() -> Self {
        let mut rig = Self::with(Settings::default());
        rig.bytes("220 ready\r\n");
        rig.log.clear();
        rig
    }

    fn drain(&mut self) {
        loop {
            let line = match self.session.poll() {
                Output::Send(outgoing) => format!("> {outgoing}"),
                Output::Preliminary(ticket, reply) => format!("{}~ {}", ticket.0, reply.code()),
                Output::Reply(ticket, reply) => format!("{} {}", ticket.0, reply.code()),
                Output::Unsolicited(reply) => format!("? {}", reply.code()),
                Output::Lost(ticket) => format!("{} lost", ticket.0),
                Output::Closed(ending) => {
                    self.closed = Some(ending);
                    "closed".into()
                }
                Output::Wait(until) => {
                    self.wait = until;
                    return;
                }
            };
            self.log.push(line);
        }
    }

    fn send(&mut self, command: &Command) -> Ticket {
        let ticket = self.session.send(self.now, command).unwrap();
        self.drain();
        ticket
    }

    fn input(&mut self, input: Input<'_>) {
        self.session.handle(self.now, input);
        self.drain();
    }

    fn bytes(&mut self, text: &str) {
        self.input(Input::Bytes(text.as_bytes()));
    }

    fn after(&mut self, time: Duration) {
        self.now += time;
        self.input(Input::Timeout);
    }

    fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }
}

#[test]
fn replies_are_matched_in_order_whatever_the_pieces() {
    let replies = "230-hello\r\n230 in\r\n150 go\r\n112-Perf Marker\r\n Timestamp: 1.0\r\n112 End.\r\n226 done\r\n200 ok\r\n";
    for piece in 1..replies.len() {
        let mut rig = Rig::greeted();
        rig.send(&Command::User("ann".into()));
        rig.send(&Command::Retr(path("/f")));
        rig.send(&Command::Noop);
        for chunk in replies.as_bytes().chunks(piece) {
            rig.input(Input::Bytes(chunk));
        }
        assert_eq!(
            rig.take(),
            [
                "> USER ann",
                "> RETR /f",
                "> NOOP",
                "1 230",
                "2~ 150",
                "2~ 112",
                "2 226",
                "3 200"
            ]
        );
        assert_eq!(rig.wait, None, "nothing is due");
    }
}

#[test]
fn the_window_holds_back_commands_beyond_the_servers_queue() {
    let settings = Settings {
        window: 2,
        waiting: 2,
        ..Settings::default()
    };
    let mut rig = Rig::with(settings);
    for _ in 0..3 {
        rig.send(&Command::Noop);
    }
    // The greeting takes one slot.
    assert_eq!(rig.take(), ["> NOOP"]);
    assert_eq!(
        rig.session.send(rig.now, &Command::Noop),
        Err(ApiMisuse::PipelineFull)
    );
    rig.bytes("220 ready\r\n200 ok\r\n200 ok\r\n200 ok\r\n");
    assert_eq!(
        rig.take(),
        ["0 220", "> NOOP", "1 200", "> NOOP", "2 200", "3 200"]
    );
}

#[test]
fn passwords_go_out_and_are_not_shown() {
    let mut rig = Rig::greeted();
    rig.session
        .send(rig.now, &Command::Pass(Secret::new("hunter2")))
        .unwrap();
    let Output::Send(outgoing) = rig.session.poll() else {
        panic!()
    };
    assert_eq!(outgoing.bytes(), b"PASS hunter2\r\n");
    assert!(!format!("{outgoing} {outgoing:?} {:?}", rig.session).contains("hunter2"));
}

#[test]
fn a_name_with_a_line_end_in_it_is_one_command_all_the_same() {
    let mut rig = Rig::greeted();
    let evil = Command::User("ann\r\nDELE /f".into());
    rig.session.send(rig.now, &evil).unwrap();
    let Output::Send(outgoing) = rig.session.poll() else {
        panic!()
    };
    let ends = outgoing
        .bytes()
        .iter()
        .filter(|b| matches!(b, b'\r' | b'\n'));
    assert_eq!(ends.count(), 2, "{outgoing}");
}

#[test]
fn every_wait_ends() {
    let mut rig = Rig::with(Settings::default());
    rig.after(Duration::from_secs(59));
    assert_eq!(rig.closed, None);
    rig.after(Duration::from_secs(1));
    assert_eq!(rig.closed, Some(Ending::TimedOut("greeting")));
    assert_eq!(rig.take(), ["0 lost", "closed"]);

    let mut rig = Rig::greeted();
    rig.send(&Command::Retr(path("/f")));
    rig.send(&Command::Noop);
    rig.after(Duration::from_secs(599));
    rig.input(Input::Moved);
    rig.after(Duration::from_secs(599));
    rig.bytes("150 go\r\n");
    rig.after(Duration::from_secs(599));
    rig.bytes("226 done\r\n");
    // The next command's time begins when its turn comes.
    rig.after(Duration::from_secs(59));
    assert_eq!(rig.closed, None);
    rig.after(Duration::from_secs(1));
    assert_eq!(rig.closed, Some(Ending::TimedOut("NOOP")));
    assert_eq!(
        rig.session.send(rig.now, &Command::Noop),
        Err(ApiMisuse::Closed)
    );
}

#[test]
fn the_broken_second_line_of_an_echo_is_skipped() {
    let mut rig = Rig::greeted();
    rig.send(&Command::Lang(Some("FR".into())));
    rig.send(&Command::Noop);
    rig.take();
    rig.bytes("501 'LANG FR\r\n' unrecognized language.\r\n200 NOOP command successful.\r\n");
    assert_eq!(rig.take(), ["1 501", "2 200"]);
}

#[test]
fn a_reply_that_ends_with_another_code_is_settled_at_the_deadline() {
    let mut rig = Rig::greeted();
    rig.send(&Command::Feat);
    rig.take();
    rig.bytes("211-Extensions\r\n SIZE\r\n214 End\r\n");
    assert!(rig.take().is_empty());
    rig.after(Duration::from_secs(60));
    assert_eq!(rig.take(), ["1 211"]);
    assert_eq!(rig.closed, None);
}

#[test]
fn globus_ends_the_connection_after_abor() {
    let mut rig = Rig::greeted();
    rig.send(&Command::Retr(path("/f")));
    rig.session.abort(rig.now).unwrap();
    rig.drain();
    rig.bytes("150 go\r\n226 Transfer Complete.\r\n");
    rig.input(Input::Eof);
    assert_eq!(
        rig.take(),
        ["> RETR /f", "> ABOR", "1~ 150", "1 226", "2 lost", "closed"]
    );
    assert_eq!(rig.closed, Some(Ending::Eof));
}

#[test]
fn abort_overtakes_unsent_commands() {
    let settings = Settings {
        window: 1,
        ..Settings::default()
    };
    let mut rig = Rig::with(settings);
    rig.bytes("220 ready\r\n");
    rig.send(&Command::Retr(path("/f")));
    rig.send(&Command::Retr(path("/g")));
    rig.take();
    rig.session.abort(rig.now).unwrap();
    rig.drain();
    rig.bytes("426 aborted\r\n226 Abort successful\r\n");
    assert_eq!(rig.take(), ["2 lost", "> ABOR", "1 426", "3 226"]);
    assert_eq!(rig.closed, None);
}

#[test]
fn a_421_ends_the_session_whenever_it_comes() {
    let mut rig = Rig::greeted();
    rig.bytes("421 Idle Timeout: closing control connection.\r\n");
    assert!(matches!(rig.closed, Some(Ending::Refused(_))));
    let mut rig = Rig::greeted();
    rig.send(&Command::Noop);
    rig.send(&Command::Noop);
    rig.take();
    rig.bytes("421 Server is stopping\r\n");
    assert_eq!(rig.take(), ["1 421", "2 lost", "closed"]);
}

#[test]
fn the_greeting_of_another_protocol_is_not_waited_on() {
    for greeting in ["SSH-2.0-OpenSSH_9.2\r\n", "HTTP/1.1 400 Bad Request\r\n"] {
        let mut rig = Rig::with(Settings::default());
        rig.bytes(greeting);
        let how = PeerMisbehaved::OtherGreeting;
        assert_eq!(rig.closed, Some(Ending::Misbehaved(how)), "{greeting}");
        let mut rig = Rig::greeted();
        rig.bytes(greeting);
        assert_eq!(rig.closed, None, "later it is a line as any other");
    }
}

#[test]
fn noise_is_bounded() {
    let mut rig = Rig::greeted();
    for _ in 0..20 {
        rig.bytes("200 ok\r\n");
    }
    assert_eq!(
        rig.closed,
        Some(Ending::Misbehaved(PeerMisbehaved::Unsolicited))
    );
    let mut rig = Rig::greeted();
    for _ in 0..1000 {
        rig.bytes("garbage\r\n");
    }
    assert_eq!(
        rig.closed,
        Some(Ending::Misbehaved(PeerMisbehaved::NotAReply))
    );
    let settings = Settings {
        reply_bytes: 1000,
        ..Settings::default()
    };
    let mut rig = Rig::with(settings);
    rig.bytes("220-begin\r\n");
    for _ in 0..100 {
        rig.bytes(" and so on and so forth\r\n");
    }
    assert_eq!(
        rig.closed,
        Some(Ending::Misbehaved(PeerMisbehaved::ReplyTooLong))
    );
}

#[test]
fn a_last_reply_that_the_end_settles_says_why_it_ended_once() {
    let mut rig = Rig::greeted();
    rig.send(&Command::Feat);
    rig.send(&Command::Noop);
    rig.take();
    rig.bytes("421-Going down\r\n for today\r\n214 End\r\n");
    rig.input(Input::Eof);
    assert_eq!(rig.take(), ["1 421", "2 lost", "closed"]);
    assert!(matches!(rig.closed, Some(Ending::Refused(_))));
}

#[test]
fn an_end_after_all_replies_is_no_error() {
    let mut rig = Rig::greeted();
    rig.send(&Command::Quit);
    rig.bytes("221 Goodbye.\r\n");
    rig.input(Input::Eof);
    assert_eq!(rig.closed, Some(Ending::Finished));
    rig.input(Input::Eof);
    assert_eq!(
        rig.take().iter().filter(|line| *line == "closed").count(),
        1
    );
}

/// RFC 4217 §4: the handshake begins right behind the 234, so neither end sends anything else.
#[test]
fn commands_wait_for_the_handshake() {
    let mut rig = Rig::greeted();
    rig.send(&Command::Auth("TLS".into()));
    rig.send(&Command::User("ann".into()));
    rig.session.abort(rig.now).unwrap();
    rig.drain();
    rig.bytes("234 go on\r\n");
    assert_eq!(rig.take(), ["> AUTH TLS", "2 lost", "1 234"]);
    rig.send(&Command::Noop);
    assert!(rig.take().is_empty());
    rig.session.upgraded(rig.now);
    rig.drain();
    assert_eq!(rig.take(), ["> ABOR", "> NOOP"]);
    // A refusal leaves the connection as it was.
    let mut rig = Rig::greeted();
    rig.send(&Command::Auth("TLS".into()));
    rig.send(&Command::Noop);
    rig.bytes("504 what?\r\n");
    assert_eq!(rig.take(), ["> AUTH TLS", "1 504", "> NOOP"]);
}

#[test]
fn clear_text_in_front_of_the_handshake_ends_the_session() {
    for text in [
        "234 go on\r\n230 you are in\r\n",
        "234 go on\r\n2",
        "234 go on\r\n\r\n",
    ] {
        for whole in [true, false] {
            let mut rig = Rig::greeted();
            rig.send(&Command::Auth("TLS".into()));
            match whole {
                true => rig.bytes(text),
                false => (0..text.len()).for_each(|at| rig.bytes(&text[at..=at])),
            }
            assert_eq!(rig.take(), ["> AUTH TLS", "1 234", "closed"], "{text:?}");
            let misbehaved = Ending::Misbehaved(PeerMisbehaved::ClearText);
            assert_eq!(rig.closed, Some(misbehaved), "{text:?}");
        }
    }
}

#[test]
fn the_lines_of_a_reply_that_has_begun_are_signs_of_life() {
    let mut rig = Rig::greeted();
    rig.send(&Command::Retr(path("/f")));
    rig.bytes("150-Waiting\r\n");
    for _ in 0..3 {
        rig.after(Duration::from_secs(599));
        rig.bytes(" still\r\n");
    }
    rig.take();
    rig.bytes("150 go\r\n");
    assert_eq!(rig.take(), ["1~ 150"]);
    rig.after(Duration::from_secs(600));
    assert!(!rig.take().is_empty(), "a silent server is waited for");
}
