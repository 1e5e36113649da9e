//! `ThirdParty`: one file from one server to another, over two control connections and no data of ours.

use std::collections::VecDeque;
use std::fmt;
use std::net::IpAddr;

use ftp_wire::addr::Passive;
use ftp_wire::command::{Command, Epsv, Family, Mode};
use ftp_wire::reply::Reply;

use super::super::capabilities::Capabilities;
use super::super::failure::Failure;
use super::{Channel, Get, Put, Script, ScriptError, SetUp, Step, Wanted};
use crate::error::{PeerIncompatible, PeerMisbehaved};

/// Which of the two servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a third party has two others")]
pub enum Side {
    /// The one that sends.
    Source,
    /// The one that receives.
    Destination,
}

impl Side {
    /// The other one.
    pub const fn other(self) -> Self {
        match self {
            Self::Source => Self::Destination,
            Self::Destination => Self::Source,
        }
    }

    const fn index(self) -> usize {
        match self {
            Self::Source => 0,
            Self::Destination => 1,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Source => "source",
            Self::Destination => "destination",
        })
    }
}

/// What the script wants next.
#[derive(Debug)]
#[non_exhaustive]
pub enum ThirdStep {
    /// Send this command to this server, and ask again.
    Send(Side, Command),
    /// Nothing until a final reply of either, or the loss of a connection.
    Wait,
    /// It is over, and every reply has come that can come.
    Done(Result<Transferred, ThirdPartyError>),
}

/// What both servers' data sides are after a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transferred {
    /// For the next set-up of the source.
    pub source: Channel,
    /// For the next set-up of the destination.
    pub destination: Channel,
}

/// What either server said when it did not work out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThirdPartyError {
    /// The first to fail comes first; what the other says after it was aborted follows.
    pub errors: Vec<(Side, ScriptError)>,
    /// Servers whose control connection was lost.
    pub lost: Vec<Side>,
}

impl fmt::Display for ThirdPartyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lost = self
            .lost
            .iter()
            .map(|side| format!("{side}: connection lost"));
        let errors = self
            .errors
            .iter()
            .map(|(side, error)| format!("{side}: {error}"));
        f.write_str(&errors.chain(lost).collect::<Vec<_>>().join("; "))
    }
}

impl std::error::Error for ThirdPartyError {}

/// What one server is asked to do.
#[derive(Debug)]
struct Party {
    setup: Option<SetUp>,
    channel: Channel,
    /// Commands still to be sent, after the set-up.
    to_send: VecDeque<Command>,
    /// Verbs whose replies are due, after those of the set-up.
    due: VecDeque<&'static str>,
    /// The commands of the file itself.
    plan: Vec<Command>,
    /// Whether the transfer command has its final reply.
    finished: bool,
    aborted: bool,
    lost: bool,
}

impl Party {
    fn new(setup: SetUp, channel: Channel, plan: Vec<Command>) -> Self {
        Self {
            setup: Some(setup),
            channel,
            to_send: VecDeque::new(),
            due: VecDeque::new(),
            plan,
            finished: false,
            aborted: false,
            lost: false,
        }
    }

    const fn is_set_up(&self) -> bool {
        self.setup.is_none()
    }
}

/// Moves one file between two servers.
///
/// The destination listens and the source connects, as MODE E requires; in MODE S the other way is
/// tried when the destination cannot listen. When one server fails, the other is told to abort.
#[derive(Debug)]
pub struct ThirdParty {
    parties: [Party; 2],
    hosts: [IpAddr; 2],
    mode: Mode,
    /// Who listens; `None` when the data connections of the last transfer serve again.
    passive: Option<Side>,
    /// Whether the transfer commands are under way.
    going: bool,
    errors: Vec<(Side, ScriptError)>,
}

impl ThirdParty {
    /// Plans a transfer between two servers at these addresses.
    ///
    /// # Errors
    ///
    /// [`ScriptError::Incompatible`] with the side that cannot do its part.
    pub fn new(
        mode: Mode,
        parallelism: u32,
        source: (IpAddr, Channel, &Capabilities, &Get),
        destination: (IpAddr, Channel, &Capabilities, &Put),
    ) -> Result<Self, (Side, ScriptError)> {
        let at = |side| move |what| (side, ScriptError::Incompatible(what));
        let (from, from_channel, from_caps, get) = source;
        let (to, to_channel, to_caps, put) = destination;
        let get = get.plan(mode, from_caps).map_err(at(Side::Source))?;
        if get.stop_after.is_some() {
            // Nobody in between could stop the source in time.
            return Err(at(Side::Source)(PeerIncompatible::NoPartial));
        }
        let put = put.plan(mode, to_caps).map_err(at(Side::Destination))?;
        let mut wanted = Wanted::new(mode);
        let receiving = SetUp::new(to_channel, wanted, to_caps);
        wanted.parallelism = Some(parallelism);
        let sending = SetUp::new(from_channel, wanted, from_caps);
        let mut this = Self {
            parties: [
                Party::new(sending, from_channel, get.commands),
                Party::new(receiving, to_channel, put.commands),
            ],
            hosts: [from, to],
            mode,
            passive: Some(Side::Destination),
            going: false,
            errors: Vec::new(),
        };
        this.ask_to_listen(Side::Destination);
        Ok(this)
    }

    /// Uses the data connections that the last transfer between these two left open (MODE E).
    pub fn reusing_connections(mut self) -> Self {
        self.passive = None;
        self.party(Side::Destination).to_send.clear();
        self
    }

    /// The next thing to do; asked again after every send, reply and loss.
    pub fn step(&mut self) -> ThirdStep {
        for side in [Side::Destination, Side::Source] {
            if let Some(command) = self.next_of(side) {
                return ThirdStep::Send(side, command);
            }
        }
        let idle = |p: &Party| p.lost || (p.is_set_up() && p.due.is_empty());
        let all_idle = self.parties.iter().all(idle);
        let may_go = self.parties.iter().all(|p| p.is_set_up() && !p.lost);
        if self.passive.is_none() && may_go && !self.going && self.errors.is_empty() {
            self.go(None);
            return self.step();
        }
        if !all_idle {
            return ThirdStep::Wait;
        }
        let lost: Vec<Side> = [Side::Source, Side::Destination]
            .into_iter()
            .filter(|side| self.parties.get(side.index()).is_some_and(|p| p.lost))
            .collect();
        if self.errors.is_empty() && lost.is_empty() {
            let [source, destination] = &self.parties;
            return ThirdStep::Done(Ok(Transferred {
                source: source.channel,
                destination: destination.channel,
            }));
        }
        let errors = std::mem::take(&mut self.errors);
        ThirdStep::Done(Err(ThirdPartyError { errors, lost }))
    }

    /// Takes the final reply of this server to the oldest of its commands that has none yet.
    pub fn reply(&mut self, side: Side, reply: &Reply) {
        let party = self.party(side);
        if let Some(setup) = &mut party.setup {
            setup.reply(reply);
            return self.settle_setup(side);
        }
        let Some(verb) = party.due.pop_front() else {
            return;
        };
        match verb {
            "PASV" | "EPSV" => self.on_listening(side, verb, reply),
            "ABOR" => {}
            // What only helps may fail: ALLO, SITE STORATTR.
            "ALLO" | "SITE" => {}
            verb => {
                let party = self.party(side);
                party.finished = party.due.is_empty() && party.to_send.is_empty();
                if reply.code().is_failure() {
                    self.fail(side, ScriptError::Refused(Failure::new(verb, reply)));
                }
            }
        }
    }

    /// This server's control connection is gone; no more replies of it will come.
    pub fn lost(&mut self, side: Side) {
        let party = self.party(side);
        party.lost = true;
        party.to_send.clear();
        party.due.clear();
        self.abort(side.other());
    }

    fn party(&mut self, side: Side) -> &mut Party {
        let [source, destination] = &mut self.parties;
        match side {
            Side::Source => source,
            Side::Destination => destination,
        }
    }

    fn next_of(&mut self, side: Side) -> Option<Command> {
        if self.party(side).lost {
            return None;
        }
        if let Some(setup) = &mut self.party(side).setup {
            if let Step::Send(command) = setup.step() {
                return Some(command);
            }
            self.settle_setup(side);
            // The rest waits until what was set up is known to hold.
            if self.party(side).setup.is_some() {
                return None;
            }
        }
        let party = self.party(side);
        let command = party.to_send.pop_front()?;
        party.due.push_back(command.verb());
        Some(command)
    }

    fn settle_setup(&mut self, side: Side) {
        let party = self.party(side);
        let Some(setup) = &mut party.setup else {
            return;
        };
        if let Step::Done(result) = setup.step() {
            party.setup = None;
            match result {
                Ok(channel) => party.channel = channel,
                Err(error) => self.fail(side, error),
            }
        }
    }

    fn host(&self, side: Side) -> IpAddr {
        let [source, destination] = self.hosts;
        match side {
            Side::Source => source,
            Side::Destination => destination,
        }
    }

    fn ask_to_listen(&mut self, side: Side) {
        let command = match self.host(side).to_canonical() {
            IpAddr::V4(_) => Command::Pasv,
            IpAddr::V6(_) => Command::Epsv(Epsv::Family(Family::V6)),
        };
        self.party(side).to_send.push_back(command);
    }

    fn on_listening(&mut self, side: Side, verb: &'static str, reply: &Reply) {
        if reply.code().is_success() {
            match Passive::from_reply(reply) {
                Ok(at) => {
                    let to = at.resolve(self.host(side));
                    self.go(Some((side, to)));
                }
                Err(_) => self.fail(side, ScriptError::Misbehaved(PeerMisbehaved::BadReply)),
            }
        } else if side == Side::Destination && self.mode != Mode::Extended {
            self.passive = Some(Side::Source);
            self.ask_to_listen(Side::Source);
        } else {
            self.fail(side, ScriptError::Refused(Failure::new(verb, reply)));
        }
    }

    /// Sends the transfer commands: nobody waits for a 150, which comes only once data connects.
    fn go(&mut self, listening: Option<(Side, Vec<std::net::SocketAddr>)>) {
        if self.going || !self.errors.is_empty() {
            return;
        }
        self.going = true;
        if let Some((passive, to)) = listening {
            let command = match to.as_slice() {
                [one] if one.is_ipv4() => Command::Port(*one),
                [one] => Command::Eprt(*one),
                _ => Command::Spor(to),
            };
            self.party(passive.other()).to_send.push_back(command);
        }
        for party in &mut self.parties {
            party.to_send.extend(party.plan.drain(..));
        }
    }

    fn fail(&mut self, side: Side, error: ScriptError) {
        self.errors.push((side, error));
        let party = self.party(side);
        party.to_send.clear();
        // A command refused on the way to the transfer leaves the transfer itself still to be stopped.
        if !party.due.is_empty() {
            self.abort(side);
        }
        self.abort(side.other());
    }

    fn abort(&mut self, side: Side) {
        let going = self.going;
        let party = self.party(side);
        party.to_send.clear();
        if going && !party.finished && !party.aborted && !party.lost && !party.due.is_empty() {
            party.aborted = true;
            party.to_send.push_back(Command::Abor);
        }
    }
}
