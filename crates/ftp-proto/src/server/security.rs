//! `Security`: the state of AUTH, PBSZ, PROT, DCAU and DCSC, and these commands.

use std::net::IpAddr;

use ftp_wire::command::{Dcau, Secret};

use super::out::Cx;
use super::settings::Settings;
use super::state::{Job, State, Trigger};
use super::user::LoggedIn;
use super::{Ending, ServerSession};
use crate::error::PeerMisbehaved;
use crate::security::{DataProtection, Demands, Level, LoginKind, Mechanism, Protection};
use crate::types::Action;

/// The security state of a session, before and after login.
#[derive(Debug)]
pub(super) struct Security {
    pub(super) protection: Protection,
    pub(super) demands: Demands,
    /// After `PBSZ`.
    sized: bool,
    /// `PROT`.
    level: Level,
    /// `DCAU`.
    authentication: Dcau,
}

impl Security {
    /// A clear channel with this peer.
    pub(super) fn new(peer: IpAddr) -> Self {
        Self {
            protection: Protection::default(),
            demands: Demands::of_peer(peer),
            sized: false,
            level: Level::Clear,
            authentication: Dcau::None,
        }
    }

    /// Puts a protection of the control channel in force, with its defaults for data connections:
    /// `DCAU A` after GSSAPI without a command (GFD.20 §5).
    pub(super) fn upgrade(&mut self, protection: Protection) {
        (self.sized, self.level) = (false, Level::Clear);
        self.authentication = match protection.by {
            Some(Mechanism::Gssapi) => Dcau::Own,
            Some(Mechanism::Tls) | None => Dcau::None,
        };
        self.protection = protection;
    }

    /// The kind of a login under this name: on a channel of Grid security the peer is known.
    pub(super) fn kind_of(&self, user: &str) -> LoginKind {
        match self.protection.by {
            Some(Mechanism::Gssapi) => LoginKind::User,
            Some(Mechanism::Tls) if self.protection.users.iter().any(|own| own == user) => {
                LoginKind::User
            }
            Some(Mechanism::Tls) | None => LoginKind::of_name(user),
        }
    }

    /// The protection of the next data connections. `PROT` counts for nothing under `DCAU N`, as
    /// at the Globus server.
    pub(super) fn data(&self) -> DataProtection {
        match (self.protection.by, &self.authentication) {
            (Some(Mechanism::Tls), _) => DataProtection::new(Dcau::None, self.level),
            (_, Dcau::None) => DataProtection::default(),
            (_, peer) => DataProtection::new(peer.clone(), self.level),
        }
    }

    /// Says whether data connections may be those of Grid security: behind `AUTH GSSAPI`, and on a
    /// clear channel that belongs to one person.
    pub(super) fn has_grid_data(&self, settings: &Settings) -> bool {
        match self.protection.by {
            Some(Mechanism::Gssapi) => true,
            Some(Mechanism::Tls) => false,
            None => settings.dcsc,
        }
    }
}

impl ServerSession {
    /// Runs `AUTH`.
    ///
    /// Commands behind it in clear end the session, so that none injected before the handshake
    /// runs after it.
    pub(super) fn authenticate(&mut self, name: &str) {
        let mechanism = match name.to_ascii_uppercase().as_str() {
            "TLS" | "TLS-C" if self.settings.tls => Mechanism::Tls,
            "GSSAPI" if self.settings.gssapi => Mechanism::Gssapi,
            _ => return self.out.say::<504>("Unknown authentication type."),
        };
        if matches!(self.state, State::In(_)) {
            return self.out.say::<500>("Command not supported.");
        }
        if self.security.protection.by.is_some() {
            let text = "The control channel is protected already.";
            return self.out.say::<503>(text);
        }
        if self.queue.len() > 0 {
            return self.close(Ending::Misbehaved(PeerMisbehaved::Injected));
        }
        match mechanism {
            Mechanism::Tls => self.out.say::<234>("AUTH TLS successful."),
            Mechanism::Gssapi => {
                self.out
                    .say::<334>("Using authentication type; ADAT must follow.");
            }
        }
        self.out.upgrade(mechanism);
        self.state.shift(Trigger::Auth, State::Upgrading);
    }

    /// Continues behind the handshake; the login begins anew (RFC 2228 §3).
    pub(super) fn on_upgraded(&mut self, protection: Protection) {
        if matches!(self.state, State::Upgrading) {
            self.security.upgrade(protection);
            self.state.shift(Trigger::Secured, State::Greeted);
            if !self.greeted {
                self.greet();
            }
        }
    }
}

/// Says why a login under this name is refused on this channel.
pub(super) fn refusal(user: &str, cx: &Cx<'_>) -> Option<&'static str> {
    let kind = cx.security.kind_of(user);
    let demand = cx.security.demands.of(kind, user).control;
    if cx.security.protection.level() >= demand {
        return None;
    }
    let (tls, gssapi) = (cx.settings.tls, cx.settings.gssapi);
    Some(match (tls, gssapi) {
        (true, _) => {
            "This login needs a protected control channel: send AUTH TLS first, or see the server's --allow-clear-passwords."
        }
        (false, true) => {
            "This login needs a protected control channel: send AUTH GSSAPI first, or see the server's --allow-clear-passwords."
        }
        (false, false) => {
            "This login needs a protected control channel, and the server has no certificate for one: see its --tls-cert and --allow-clear-passwords."
        }
    })
}

/// `PBSZ`: answered before the login only on a protected channel.
pub(super) fn buffer_size(size: u64, cx: &mut Cx<'_>) {
    if u32::try_from(size).is_err() {
        return cx.out.say::<501>(format!("Bad value for PBSZ: {size}"));
    }
    cx.security.sized = true;
    // RFC 4217 §8: TLS has no such buffer, and the answer says so.
    let size = match cx.security.protection.by {
        Some(Mechanism::Tls) => 0,
        Some(Mechanism::Gssapi) | None => size,
    };
    cx.out.say::<200>(format!("PBSZ={size}"));
}

/// The reason why TLS protects no data on other hosts.
const ELSEWHERE: &str = "Data connections are on other hosts, without the TLS session of this channel: send PROT C, or log in behind AUTH GSSAPI.";

/// `PROT`.
pub(super) fn set_level(letter: char, cx: &mut Cx<'_>) {
    let tls = cx.security.protection.by == Some(Mechanism::Tls);
    if tls && !cx.security.sized {
        // RFC 4217 §9.
        return cx.out.say::<503>("Send PBSZ 0 first.");
    }
    let grid = cx.security.has_grid_data(cx.settings);
    let level = match letter {
        'C' => Level::Clear,
        'S' if grid => Level::Integrity,
        // RFC 2228 §3: data connections of other hosts do not have the session of this channel.
        'P' if tls && cx.settings.data_elsewhere => return cx.out.say::<536>(ELSEWHERE),
        'P' if grid || tls => Level::Private,
        _ => {
            return cx
                .out
                .say::<536>(format!("{letter} protection level not supported."));
        }
    };
    cx.security.level = level;
    cx.out
        .say::<200>(format!("Protection level set to {letter}."));
}

impl LoggedIn {
    /// `PROT`, refused where it is below the demand on this login (RFC 2228 §3).
    pub(super) fn protect(&mut self, letter: char, cx: &mut Cx<'_>) {
        let demand = cx.security.demands.of(self.kind, &self.name).data;
        let weak = match letter {
            'C' => demand > Level::Clear,
            'S' => demand > Level::Integrity,
            _ => false,
        };
        if weak {
            let text = format!("This server requires more than PROT {letter}.");
            return cx.out.say::<534>(text);
        }
        self.change_data(|cx| set_level(letter, cx), cx);
    }

    /// `DCAU`.
    pub(super) fn authenticate_data(&mut self, peer: Dcau, cx: &mut Cx<'_>) {
        let letter = match peer {
            Dcau::None => 'N',
            _ if !cx.security.has_grid_data(cx.settings) => {
                return cx.out.say::<504>("Bad DCAU mode.");
            }
            Dcau::Own => 'A',
            Dcau::Subject(_) => 'S',
        };
        self.change_data(
            |cx| {
                cx.security.authentication = peer;
                cx.out.say::<200>(format!("DCAU {letter}."));
            },
            cx,
        );
    }

    /// Changes the protection of data, and closes a data side with the previous one.
    fn change_data(&mut self, change: impl FnOnce(&mut Cx<'_>), cx: &mut Cx<'_>) {
        let before = cx.security.data();
        change(cx);
        if cx.security.data() != before && self.data.is_set() {
            self.data.drop_all(cx);
        }
    }

    /// `DCSC`: `D`, or `P` and a credential in base64.
    pub(super) fn data_credential(&mut self, text: &str, cx: &mut Cx<'_>) {
        if !cx.security.has_grid_data(cx.settings) {
            return cx.out.say::<502>(match cx.settings.gssapi {
                true => "DCSC needs a session of Grid security: log in behind AUTH GSSAPI.",
                false => "DCSC needs Grid security, which this server does not offer.",
            });
        }
        let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
        let rest = rest.trim();
        let credential = match (kind.to_ascii_uppercase().as_str(), rest) {
            ("D", "") => None,
            ("P", base64) if !base64.is_empty() => Some(Secret::new(base64)),
            _ => return cx.out.say::<501>("Invalid command arguments."),
        };
        // The data side belongs to the old credential.
        if self.data.is_set() {
            self.data.drop_all(cx);
        }
        self.start(Action::DataCredential(credential), Job::Plain, cx);
    }

    /// Refuses a transfer whose data connections are below the demand on this login.
    pub(super) fn is_protected_enough(&self, cx: &mut Cx<'_>) -> bool {
        let demand = cx.security.demands.of(self.kind, &self.name).data;
        let data = cx.security.data();
        if data.level >= demand {
            return true;
        }
        match cx.security.protection.by {
            Some(Mechanism::Gssapi) => cx.out.say::<534>(format!(
                "Data connection auth error : {} is required.",
                match demand {
                    Level::Private => "Encryption",
                    Level::Clear | Level::Integrity => "Integrity",
                }
            )),
            Some(Mechanism::Tls) if cx.settings.data_elsewhere => cx.out.say::<521>(
                "Data connection cannot be opened in clear: log in behind AUTH GSSAPI.",
            ),
            Some(Mechanism::Tls) => cx.out.say::<521>(
                "Data connection cannot be opened with this PROT setting: send PBSZ 0 and PROT P.",
            ),
            None => cx.out.say::<521>(
                "Data connection cannot be opened in clear: log in behind AUTH TLS or AUTH GSSAPI.",
            ),
        }
        false
    }
}
