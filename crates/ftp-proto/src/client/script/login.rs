//! `Login`: from the greeting to a session whose capabilities are known, in two flights.

use std::collections::VecDeque;

use ftp_wire::command::{Command, Secret, Site};
use ftp_wire::reply::Reply;

use super::super::capabilities::Capabilities;
use super::super::failure::Failure;
use super::{Script, ScriptError, Step};
use crate::error::PeerIncompatible;

/// Logs in and asks for the features.
///
/// After the greeting everything goes out at once: a server that lets the name in without a password
/// answers 503 or 202 to `PASS`, and one that refuses the login answers 530 to what follows, all of
/// which is put up with. Before the greeting nothing is sent, least of all a password.
#[derive(Debug)]
pub struct Login {
    /// What is still to be sent.
    to_send: VecDeque<Command>,
    /// What the replies to come answer.
    due: VecDeque<Due>,
    /// Whether the greeting has come.
    greeted: bool,
    logged_in: bool,
    error: Option<ScriptError>,
    found: Session,
}

/// What login found out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Session {
    /// What the server greeted with.
    pub greeting: String,
    /// What it said at login.
    pub welcome: String,
    /// What it can do.
    pub capabilities: Capabilities,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Greeting,
    User,
    Pass,
    Feat,
    ClientInfo,
}

impl Login {
    /// Logs in with this name and password; `client_info` is sent by `SITE CLIENTINFO` when given.
    pub fn new(user: &str, password: &str, client_info: Option<&str>) -> Self {
        let mut to_send = VecDeque::from([
            Command::User(user.to_owned()),
            Command::Pass(Secret::new(password)),
            Command::Feat,
        ]);
        let info = client_info.map(|info| Command::Site(Site::ClientInfo(info.to_owned())));
        to_send.extend(info);
        Self {
            to_send,
            due: VecDeque::from([Due::Greeting]),
            greeted: false,
            logged_in: false,
            error: None,
            found: Session::default(),
        }
    }

    fn refuse(&mut self, verb: &'static str, reply: &Reply) {
        if self.error.is_some() {
            return;
        }
        let text = reply.text().to_ascii_uppercase();
        let wants_more = ["GSSAPI", "AUTH ", "TLS", "SSL"]
            .iter()
            .any(|w| text.contains(w));
        let is_refused_name = verb == "USER" && reply.code().is_failure();
        self.error = Some(if is_refused_name && wants_more {
            ScriptError::Incompatible(PeerIncompatible::SecurityRequired)
        } else {
            ScriptError::Refused(Failure::new(verb, reply))
        });
    }
}

impl Script for Login {
    type Value = Session;

    fn step(&mut self) -> Step<Session> {
        if self.greeted
            && let Some(command) = self.to_send.pop_front()
        {
            self.due.push_back(match command {
                Command::User(_) => Due::User,
                Command::Pass(_) => Due::Pass,
                Command::Feat => Due::Feat,
                _ => Due::ClientInfo,
            });
            return Step::Send(command);
        }
        if !self.due.is_empty() {
            return Step::Wait;
        }
        match self.error.take() {
            Some(error) => Step::Done(Err(error)),
            None => Step::Done(Ok(std::mem::take(&mut self.found))),
        }
    }

    fn reply(&mut self, reply: &Reply) {
        let code = reply.code();
        match self.due.pop_front() {
            Some(Due::Greeting) if code.is_success() => {
                self.greeted = true;
                self.found.greeting = reply.text();
            }
            // Nothing is sent to a server that does not greet.
            Some(Due::Greeting) => self.refuse("greeting", reply),
            Some(Due::User) if code.is_success() => {
                self.logged_in = true;
                self.found.welcome = reply.text();
            }
            Some(Due::User) if code.number() == 331 => {}
            Some(Due::User) => self.refuse("USER", reply),
            Some(Due::Pass) if self.logged_in => {}
            Some(Due::Pass) if code.is_success() => {
                self.logged_in = true;
                self.found.welcome = reply.text();
            }
            // 332: an account is wanted, which nobody has any more.
            Some(Due::Pass) => self.refuse("PASS", reply),
            Some(Due::Feat) => self.found.capabilities = Capabilities::from_feat(reply),
            Some(Due::ClientInfo) | None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::FailureKind;

    fn run(mut script: Login, replies: &[Reply]) -> (Vec<String>, Result<Session, ScriptError>) {
        let mut replies = replies.iter();
        let mut sent = Vec::new();
        loop {
            match script.step() {
                Step::Send(command) => sent.push(command.verb().to_owned()),
                Step::Wait => script.reply(replies.next().expect("no reply is left")),
                Step::Done(result) => {
                    assert!(replies.next().is_none(), "a reply is left over");
                    return (sent, result);
                }
            }
        }
    }

    #[test]
    fn nothing_is_sent_before_a_greeting_that_welcomes() {
        let mut script = Login::new("ann", "secret", None);
        assert!(matches!(script.step(), Step::Wait));
        let (sent, result) = run(script, &[Reply::of::<421>("Service busy")]);
        assert!(sent.is_empty());
        assert!(matches!(result, Err(ScriptError::Refused(_))));
    }

    #[test]
    fn a_name_that_is_let_in_at_once_may_have_its_password_refused() {
        let (sent, result) = run(
            Login::new("anonymous", "x", Some("appname=\"t\";")),
            &[
                Reply::of::<220>("hi"),
                Reply::of::<230>("welcome"),
                Reply::of::<503>("You are already logged in."),
                Reply::of::<500>("no FEAT"),
                Reply::of::<500>("no SITE"),
            ],
        );
        assert_eq!(sent, ["USER", "PASS", "FEAT", "SITE"]);
        assert_eq!(result.unwrap().welcome, "welcome");
    }

    #[test]
    fn a_refusal_says_which_command() {
        let replies = [
            Reply::of::<220>("hi"),
            Reply::of::<331>("Password required for ann."),
            Reply::of::<530>("Login incorrect."),
            Reply::of::<211>("End."),
        ];
        let (_, result) = run(Login::new("ann", "wrong", None), &replies);
        let Err(ScriptError::Refused(failure)) = result else {
            panic!("{result:?}")
        };
        assert_eq!((failure.verb, failure.kind), ("PASS", FailureKind::Login));
    }

    #[test]
    fn a_server_that_wants_gssapi_is_told_apart() {
        let replies = [
            Reply::of::<220>("hi"),
            Reply::of::<530>("Must perform GSSAPI authentication."),
            Reply::of::<530>("Must perform GSSAPI authentication."),
            Reply::of::<530>("Must perform GSSAPI authentication."),
        ];
        let (_, result) = run(Login::new("ann", "x", None), &replies);
        let expected = ScriptError::Incompatible(PeerIncompatible::SecurityRequired);
        assert_eq!(result, Err(expected));
    }
}
