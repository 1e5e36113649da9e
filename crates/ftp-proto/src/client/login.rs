//! `Login`: the steps from the greeting to a session with known features.

use std::collections::VecDeque;
use std::fmt;

use ftp_wire::command::{Command, Mode, Secret, Type};
use ftp_wire::reply::Reply;

use super::capabilities::Capabilities;

/// Logs in, asks for the features, and sets TYPE I and the mode; a value that does no I/O.
///
/// The password is sent only after 331: a server that wants `AUTH` first must not get it in clear
/// text, and one that accepts the name alone gets none. The commands after the login are sent with
/// it, without waiting for further replies.
///
/// ```
/// use ftp_proto::client::{Login, LoginStep};
/// use ftp_wire::command::Secret;
/// use ftp_wire::reply::Reply;
///
/// let mut login = Login::new("anonymous", Secret::new("guest@"), None);
/// let mut replies = [
///     Reply::of::<220>("ready"),
///     Reply::of::<331>("password?"),
///     Reply::of::<230>("welcome"),
///     Reply::of::<500>("FEAT? what is that?"),
///     Reply::of::<200>("TYPE I"),
///     Reply::of::<200>("MODE E"),
/// ]
/// .into_iter();
/// let mut sent = 0;
/// let session = loop {
///     match login.step() {
///         LoginStep::Send(_command) => sent += 1,
///         LoginStep::Wait => login.reply(&replies.next().unwrap()),
///         LoginStep::Done(result) => break result.unwrap(),
///         _ => unreachable!(),
///     }
/// };
/// assert_eq!(sent, 5);
/// assert!(session.extended);
/// ```
#[derive(Debug)]
pub struct Login {
    user: String,
    /// Commands ready to be sent.
    to_send: VecDeque<(Due, Command)>,
    /// Commands after the login.
    then: Vec<(Due, Command)>,
    password: Option<Secret>,
    /// The commands without a reply yet.
    due: VecDeque<Due>,
    must_extend: bool,
    error: Option<LoginError>,
    found: LoggedIn,
}

/// The next step of a login.
#[derive(Debug)]
pub enum LoginStep {
    /// Send this command, then call again.
    Send(Command),
    /// Wait for the next final reply.
    Wait,
    /// The login has ended: all replies have arrived, or it was refused.
    Done(Result<LoggedIn, LoginError>),
}

/// The result of a login.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LoggedIn {
    /// The server's features.
    pub capabilities: Capabilities,
    /// Whether MODE E is in force; otherwise MODE S is.
    pub extended: bool,
    /// Whether its greeting is that of a server of the Grid Community Toolkit or its ancestor.
    /// These drop every byte from 0x7f on from commands in clear text, which would change names.
    pub ascii_only: bool,
}

/// The step that a server refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoginError {
    /// Any session at all.
    Greeting(Reply),
    /// This account.
    Account(Reply),
    /// A login in clear text: it wants another security mechanism first.
    Clear(Reply),
    /// A setting without which the copy would differ.
    Setting(Command, Reply),
}

impl fmt::Display for LoginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, reply) = match self {
            Self::Greeting(reply) => ("greeting".to_owned(), reply),
            Self::Account(reply) => ("login".to_owned(), reply),
            Self::Clear(reply) => ("login in clear text".to_owned(), reply),
            Self::Setting(command, reply) => (command.to_string(), reply),
        };
        write!(f, "server: {what}: {} {}", reply.code(), reply.text())
    }
}

impl std::error::Error for LoginError {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    Greeting,
    User,
    Pass,
    Feat,
    Type,
    Mode,
}

impl Login {
    /// Logs in with this name and password; without a `mode`, MODE E is used where the server has
    /// it.
    pub fn new(user: &str, password: Secret, mode: Option<Mode>) -> Self {
        let mut then = vec![
            (Due::Feat, Command::Feat),
            (Due::Type, Command::Type(Type::Image)),
        ];
        if mode != Some(Mode::Stream) {
            then.push((Due::Mode, Command::Mode(Mode::Extended)));
        }
        Self {
            user: user.to_owned(),
            to_send: VecDeque::new(),
            then,
            password: Some(password),
            due: VecDeque::from([Due::Greeting]),
            must_extend: mode == Some(Mode::Extended),
            error: None,
            found: LoggedIn::default(),
        }
    }

    /// Returns the next step; called again after every [`LoginStep::Send`] and every reply.
    pub fn step(&mut self) -> LoginStep {
        // The server may close the connection after a refusal: no further reply is awaited.
        if self.error.is_none() {
            if let Some((due, command)) = self.to_send.pop_front() {
                self.due.push_back(due);
                return LoginStep::Send(command);
            }
            if !self.due.is_empty() {
                return LoginStep::Wait;
            }
        }
        LoginStep::Done(match self.error.take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut self.found)),
        })
    }

    /// Handles the final reply to the oldest command without one; the first is the greeting.
    pub fn reply(&mut self, reply: &Reply) {
        let well = reply.code().is_success();
        let refused = |make: fn(Reply) -> LoginError| Some(make(reply.clone()));
        let error = match self.due.pop_front() {
            // Nothing is sent to a server that does not greet.
            Some(Due::Greeting) => {
                let text = reply.text();
                self.found.ascii_only = ["[Grid Community Toolkit", "[Globus Toolkit"]
                    .iter()
                    .any(|name| text.contains(name));
                if well {
                    let user = std::mem::take(&mut self.user);
                    self.to_send.push_back((Due::User, Command::User(user)));
                }
                (!well).then(|| LoginError::Greeting(reply.clone()))
            }
            Some(Due::User | Due::Pass) if well => {
                self.to_send.extend(self.then.drain(..));
                None
            }
            Some(Due::User) if reply.code().number() == 331 => {
                let pass = self.password.take().map(Command::Pass);
                self.to_send.extend(pass.map(|pass| (Due::Pass, pass)));
                // A server that admits nobody answers 530 to each of them.
                self.to_send.extend(self.then.drain(..));
                None
            }
            Some(Due::User) if wants_more(reply) => refused(LoginError::Clear),
            // 332 asks for an account, which no client has any more.
            Some(Due::User | Due::Pass) => refused(LoginError::Account),
            Some(Due::Feat) => {
                self.found.capabilities = Capabilities::from_feat(reply);
                None
            }
            Some(Due::Type) if !well => {
                let command = Command::Type(Type::Image);
                Some(LoginError::Setting(command, reply.clone()))
            }
            Some(Due::Mode) if !well && self.must_extend => {
                let command = Command::Mode(Mode::Extended);
                Some(LoginError::Setting(command, reply.clone()))
            }
            Some(Due::Mode) => {
                self.found.extended = well;
                None
            }
            Some(Due::Type) | None => None,
        };
        if self.error.is_none() {
            self.error = error;
        }
    }
}

/// Says whether the refusal names a security mechanism.
fn wants_more(reply: &Reply) -> bool {
    let text = reply.text().to_ascii_uppercase();
    ["GSSAPI", "AUTH ", "TLS", "SSL"]
        .iter()
        .any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(mut login: Login, replies: &[Reply]) -> (Vec<String>, Result<LoggedIn, LoginError>) {
        let mut replies = replies.iter();
        let mut sent = Vec::new();
        loop {
            match login.step() {
                LoginStep::Send(command) => sent.push(command.verb().to_owned()),
                LoginStep::Wait => login.reply(replies.next().expect("no reply is left")),
                LoginStep::Done(result) => {
                    assert!(replies.next().is_none(), "a reply is left over");
                    return (sent, result);
                }
            }
        }
    }

    fn ann(mode: Option<Mode>) -> Login {
        Login::new("ann", Secret::new("secret"), mode)
    }

    #[test]
    fn nothing_is_sent_before_a_greeting_that_welcomes() {
        assert!(matches!(ann(None).step(), LoginStep::Wait));
        let busy = Reply::of::<421>("Service busy");
        let (sent, result) = run(ann(None), std::slice::from_ref(&busy));
        assert!(sent.is_empty());
        assert_eq!(result, Err(LoginError::Greeting(busy)));
    }

    #[test]
    fn a_login_without_a_password_is_put_up_with() {
        let replies = [
            Reply::of::<220>("hi"),
            Reply::of::<230>("come in"),
            Reply::of::<500>("FEAT?"),
            Reply::of::<200>("I"),
        ];
        let (sent, result) = run(ann(Some(Mode::Stream)), &replies);
        assert_eq!(sent, ["USER", "FEAT", "TYPE"]);
        assert!(!result.unwrap().extended);
    }

    #[test]
    fn servers_that_drop_bytes_of_names_are_known_by_their_greeting() {
        for (greeting, drops) in [
            (
                "vm GridFTP Server 13.24 (gcc64, 1) [Grid Community Toolkit 6.2] ready.",
                true,
            ),
            ("vm GridFTP Server 0.1.0 ready.", false),
        ] {
            let mut replies = vec![Reply::of::<200>("ok"); 6];
            replies[0] = Reply::of::<220>(greeting);
            replies[1] = Reply::of::<331>("?");
            assert_eq!(run(ann(None), &replies).1.unwrap().ascii_only, drops);
        }
    }

    #[test]
    fn a_refused_login_is_told_at_once() {
        let replies = [
            Reply::of::<220>("hi"),
            Reply::of::<331>("Password required for ann."),
            Reply::of::<530>("Login incorrect."),
        ];
        // The server may close the connection at once, so nothing else is awaited.
        let (sent, result) = run(ann(Some(Mode::Extended)), &replies);
        assert_eq!(sent, ["USER", "PASS", "FEAT", "TYPE", "MODE"]);
        assert_eq!(result, Err(LoginError::Account(replies[2].clone())));
        assert_eq!(
            result.unwrap_err().to_string(),
            "server: login: 530 Login incorrect."
        );
    }

    #[test]
    fn no_password_goes_to_a_server_that_wants_another_mechanism_first() {
        for text in ["Must perform GSSAPI authentication.", "Do AUTH TLS first."] {
            let want = Reply::of::<530>(text);
            let (sent, result) = run(ann(None), &[Reply::of::<220>("hi"), want.clone()]);
            assert_eq!(sent, ["USER"]);
            assert_eq!(result, Err(LoginError::Clear(want)));
        }
    }

    #[test]
    fn mode_e_is_done_without_unless_it_was_asked_for() {
        let replies = [
            Reply::of::<220>("hi"),
            Reply::of::<331>("?"),
            Reply::of::<230>("in"),
            Reply::of::<500>("FEAT?"),
            Reply::of::<200>("I"),
            Reply::of::<504>("E?"),
        ];
        assert!(!run(ann(None), &replies).1.unwrap().extended);
        let error = run(ann(Some(Mode::Extended)), &replies).1.unwrap_err();
        assert!(matches!(error, LoginError::Setting(..)), "{error}");
    }
}
