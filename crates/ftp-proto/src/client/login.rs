//! `Login`: the steps from the greeting to a protected session with known features.

use std::collections::VecDeque;
use std::fmt;

use ftp_wire::command::{Command, Dcau, Mode, Secret, Type};
use ftp_wire::reply::Reply;

use super::capabilities::Capabilities;
use crate::security::{DataProtection, Level, Mechanism};

/// Size of the buffers for protected data of the Globus programs, which limits nothing there.
const BUFFER: u64 = 1 << 20;

/// Protects the session if the settings demand it, logs in, asks for the features, and sets TYPE I
/// and the mode; a value that does no I/O.
///
/// A server that refuses the protection gets neither name nor password: FEAT is not
/// consulted, since a third party on the way could have changed it.
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
    security: Security,
    /// The mechanism that the server agreed to, until the caller has run its handshake.
    agreed: Option<Mechanism>,
    /// Commands ready to be sent.
    to_send: VecDeque<(Due, Command)>,
    /// Commands after the login.
    then: Vec<(Due, Command)>,
    password: Option<Secret>,
    /// The commands without a reply yet.
    due: VecDeque<Due>,
    must_extend: bool,
    /// The features without which data would be less protected than asked for.
    needs: Vec<&'static str>,
    error: Option<LoginError>,
    found: LoggedIn,
}

/// The protection of a session, and of its data channels by `PROT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Security {
    /// None: everything goes in clear text.
    #[default]
    Clear,
    /// By `AUTH` before anything else.
    Explicit(Mechanism, Level),
    /// TLS from the first byte on, before the greeting.
    Implicit(Level),
}

/// The protection of data connections by Grid security.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct DataSecurity {
    /// The credential for the server's end, as `DCSC P` takes it; by default the one that was
    /// delegated.
    pub credential: Option<Secret>,
    /// The protection itself.
    pub protection: DataProtection,
}

impl DataSecurity {
    /// Makes a protection with the credential of the session, if there is one.
    pub const fn new(protection: DataProtection, credential: Option<Secret>) -> Self {
        Self {
            credential,
            protection,
        }
    }
}

/// The next step of a login.
#[derive(Debug)]
pub enum LoginStep {
    /// Send this command, then call again.
    Send(Command),
    /// Run the handshake of this mechanism, to which the server agreed, then call
    /// [`Login::secured`]. After a failure nothing may be sent any more.
    Secure(Mechanism),
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
    /// The security mechanism that was asked for; neither name nor password was sent.
    Mechanism(Mechanism, Reply),
    /// A setting without which the copy would differ.
    Setting(Command, Reply),
    /// It lacks a feature without which data would be less protected than asked for.
    Feature(&'static str),
}

impl fmt::Display for LoginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, reply) = match self {
            Self::Greeting(reply) => ("greeting".to_owned(), reply),
            Self::Account(reply) => ("login".to_owned(), reply),
            Self::Clear(reply) => ("login in clear text".to_owned(), reply),
            Self::Mechanism(mechanism, reply) => (format!("AUTH {}", mechanism.name()), reply),
            Self::Setting(command, reply) => (command.to_string(), reply),
            Self::Feature(name) => return write!(f, "server: it has no {name}"),
        };
        write!(f, "server: {what}: {} {}", reply.code(), reply.text())
    }
}

impl std::error::Error for LoginError {}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Due {
    Greeting,
    Auth(Mechanism),
    User,
    Pass,
    Feat,
    /// A setting that must succeed.
    Must(Command),
    /// `DCAU N`, which a server without that feature does not know, and does not need.
    Unauthenticated,
    Mode,
}

impl Login {
    /// Logs in with this name and password; without a `mode`, MODE E is used where the server has
    /// it.
    pub fn new(user: &str, password: Secret, mode: Option<Mode>) -> Self {
        let mut then = vec![(Due::Feat, Command::Feat), must(Command::Type(Type::Image))];
        if mode != Some(Mode::Stream) {
            then.push((Due::Mode, Command::Mode(Mode::Extended)));
        }
        Self {
            user: user.to_owned(),
            security: Security::Clear,
            agreed: None,
            to_send: VecDeque::new(),
            then,
            password: Some(password),
            due: VecDeque::from([Due::Greeting]),
            must_extend: mode == Some(Mode::Extended),
            needs: Vec::new(),
            error: None,
            found: LoggedIn::default(),
        }
    }

    /// Protects the session first.
    #[must_use]
    pub fn with_security(self, security: Security) -> Self {
        Self { security, ..self }
    }

    /// Protects data connections by Grid security. It follows [`with_security`](Self::with_security).
    ///
    /// The settings are sent behind `FEAT`. A server that does not list the feature is refused: some
    /// ignore a demand that they do not know.
    #[must_use]
    pub fn with_data(mut self, data: DataSecurity) -> Self {
        let is_gssapi = matches!(self.security, Security::Explicit(Mechanism::Gssapi, _));
        let DataProtection {
            authentication,
            level,
        } = data.protection;
        let mut commands = Vec::new();
        let delegated = data.credential.is_none();
        if let Some(credential) = data.credential {
            self.needs.push("DCSC");
            let text = Secret::new(format!("P {}", credential.reveal()));
            commands.push(must(Command::Dcsc(text)));
        }
        if authentication == Dcau::None {
            // It is in force unless a login by GSSAPI has put another in force.
            let due = (Due::Unauthenticated, Command::Dcau(Dcau::None));
            commands.extend(is_gssapi.then_some(due));
        } else {
            self.needs.push("DCAU");
            // A login by GSSAPI has put it in force.
            if !(is_gssapi && delegated && authentication == Dcau::Own) {
                commands.push(must(Command::Dcau(authentication)));
            }
            if is_gssapi {
                commands.push(must(Command::Pbsz(BUFFER)));
            }
            commands.push(must(Command::Prot(level.letter())));
        }
        self.then.splice(1..1, commands);
        self
    }

    /// The handshake that [`LoginStep::Secure`] asked for is done.
    pub fn secured(&mut self) {
        if self.agreed.take().is_some() {
            self.protect_data();
        }
    }

    /// Asks for the protection of data channels, then names the account. The replies are read in
    /// order, so a refusal is known before the password is sent.
    fn protect_data(&mut self) {
        if let Security::Explicit(Mechanism::Tls, level) | Security::Implicit(level) = self.security
        {
            // RFC 4217 §8: PBSZ must precede PROT, and is 0 under TLS.
            let prot = Command::Prot(level.letter());
            self.to_send.extend([must(Command::Pbsz(0)), must(prot)]);
        }
        let user = std::mem::take(&mut self.user);
        self.to_send.push_back((Due::User, Command::User(user)));
    }

    /// Returns the next step; called again after every [`LoginStep::Send`] and every reply.
    pub fn step(&mut self) -> LoginStep {
        // The server may close the connection after a refusal: no further reply is awaited.
        if self.error.is_none() {
            if let Some(mechanism) = self.agreed {
                return LoginStep::Secure(mechanism);
            }
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

    fn on_greeting(&mut self, reply: &Reply) {
        let text = reply.text();
        self.found.ascii_only = ["[Grid Community Toolkit", "[Globus Toolkit"]
            .iter()
            .any(|name| text.contains(name));
        match self.security {
            // Nothing is sent to a server that does not greet.
            _ if !reply.code().is_success() => {}
            Security::Explicit(mechanism, _) => {
                let auth = Command::Auth(mechanism.name().to_owned());
                self.to_send.push_back((Due::Auth(mechanism), auth));
            }
            Security::Clear | Security::Implicit(_) => self.protect_data(),
        }
    }

    /// Handles the final reply to the oldest command without one; the first is the greeting.
    pub fn reply(&mut self, reply: &Reply) {
        let well = reply.code().is_success();
        let refused = |make: fn(Reply) -> LoginError| Some(make(reply.clone()));
        let setting = |command| Some(LoginError::Setting(command, reply.clone()));
        let listed = |found: &LoggedIn, name: &str| found.capabilities.has(name).is_yes();
        let error = match self.due.pop_front() {
            Some(Due::Greeting) => {
                self.on_greeting(reply);
                (!well).then(|| LoginError::Greeting(reply.clone()))
            }
            Some(Due::Auth(mechanism)) => {
                let agrees = reply.code().number() == mechanism.agreement();
                self.agreed = agrees.then_some(mechanism);
                (!agrees).then(|| LoginError::Mechanism(mechanism, reply.clone()))
            }
            Some(Due::Must(command)) if !well => setting(command),
            Some(Due::Unauthenticated) if !well && listed(&self.found, "DCAU") => {
                setting(Command::Dcau(Dcau::None))
            }
            Some(Due::User | Due::Pass) if well => {
                self.to_send.extend(self.then.drain(..));
                None
            }
            Some(Due::User) if reply.code().number() == 331 => {
                let pass = self.password.take().map(Command::Pass);
                self.to_send.extend(pass.map(|pass| (Due::Pass, pass)));
                // A refused login gets 530 for every pipelined command.
                self.to_send.extend(self.then.drain(..));
                None
            }
            Some(Due::User) if wants_more(reply) => refused(LoginError::Clear),
            // 332 asks for an account, which no client has any more.
            Some(Due::User | Due::Pass) => refused(LoginError::Account),
            Some(Due::Feat) => {
                self.found.capabilities = Capabilities::from_feat(reply);
                let mut needs = self.needs.iter().copied();
                let missing = needs.find(|name| !listed(&self.found, name));
                missing.map(LoginError::Feature)
            }
            Some(Due::Mode) if !well && self.must_extend => setting(Command::Mode(Mode::Extended)),
            Some(Due::Mode) => {
                self.found.extended = well;
                None
            }
            Some(Due::Must(_) | Due::Unauthenticated) | None => None,
        };
        if self.error.is_none() {
            self.error = error;
        }
    }
}

fn must(command: Command) -> (Due, Command) {
    (Due::Must(command.clone()), command)
}

/// Says whether the refusal names a security mechanism.
fn wants_more(reply: &Reply) -> bool {
    let text = reply.text().to_ascii_uppercase();
    // RFC 2228 §5: 534 is the code of a demand for more protection.
    reply.code().number() == 534
        || ["GSSAPI", "AUTH ", "TLS", "SSL", "ENCRYPTION"]
            .iter()
            .any(|word| text.contains(word))
}
