//! The set-up of the data channel: PASV, PORT and their kin, MODE, TYPE, buffers, markers.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZero;
use std::time::Duration;

use byte_ranges::Layout;
use ftp_wire::addr;
use ftp_wire::command::{BufferSide, Epsv, Event, Family, Mode, Type};
use ftp_wire::opts::Parallelism;
use ftp_wire::reply::Reply;

use super::out::Cx;
use super::settings::Settings;
use super::state::{Job, PassiveForm};
use super::user::{LoggedIn, seconds};
use crate::security::LoginKind;
use crate::types::{Action, Channel, Outcome, Transfer};

/// The state of the data side between transfers.
#[derive(Debug)]
pub(super) struct DataSide {
    /// Parameters of the next transfer; changed by TYPE, MODE, OPTS and the buffer commands.
    pub(super) channel: Channel,
    setup: Setup,
    /// `OPTS PASV AllowDelayed=1;`.
    pub(super) delayed: bool,
    /// `OPTS SPAS Stripes=n;`.
    pub(super) most_stripes: u32,
    /// `OPTS SPAS Command=RETR;`.
    pub(super) lists_senders: bool,
    /// After `EPSV ALL`.
    only_epsv: bool,
    perf_every: Option<Duration>,
    /// Whether `TREV` set that interval: such a client understands markers in MODE S too.
    perf_asked: bool,
    restart_every: Option<Duration>,
    /// `OPTS RETR Markers=`: 112 markers on sends too.
    send_perf_every: Option<Duration>,
    always_markers: bool,
}

/// The way to make the next data connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Setup {
    /// Not at all.
    None,
    /// We listen, once a transfer begins.
    Delayed(PassiveForm, Option<Family>),
    /// We listen.
    Passive(Connections),
    /// We connect.
    Active(Connections),
}

/// The data connections of a set-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Connections {
    /// Whether they are open, after a transfer in MODE E.
    cached: bool,
    /// Whether there are several stripes, each with a part of the bytes.
    striped: bool,
}

impl Connections {
    const fn new(striped: bool) -> Self {
        let cached = false;
        Self { cached, striped }
    }
}

/// The step before a transfer can begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ready {
    Now,
    /// Listen first, and announce the address with 127 or 129.
    AfterListen(PassiveForm, Option<Family>),
}

impl DataSide {
    /// Starts in MODE S, TYPE A, without a set-up.
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            channel: Channel::default(),
            setup: Setup::None,
            delayed: false,
            most_stripes: u32::MAX,
            lists_senders: false,
            only_epsv: false,
            perf_every: settings.perf_every,
            perf_asked: false,
            restart_every: settings.restart_every,
            send_perf_every: None,
            always_markers: settings.always_markers,
        }
    }

    /// Says whether this transfer can begin; the error is the text of a 425.
    pub(super) fn readiness(&self, transfer: &Transfer) -> Result<Ready, &'static str> {
        let sending = transfer.is_sending();
        let extended = self.channel.mode == Mode::Extended;
        match self.setup {
            Setup::None => {
                Err("No data connection is set up: send PASV, EPSV, SPAS, PORT, EPRT or SPOR.")
            }
            // GFD.20: in MODE E the sender connects, so that the receiver sees end-of-data marks of
            // however many connections the sender opens.
            Setup::Delayed(..) | Setup::Passive(_) if extended && sending => {
                Err("In MODE E the sender of data connects: send PORT, EPRT or SPOR first.")
            }
            Setup::Active(_) if extended && !sending => {
                Err("In MODE E the receiver of data listens: send PASV, EPSV or SPAS first.")
            }
            Setup::Passive(Connections { cached, striped })
            | Setup::Active(Connections { cached, striped })
                if !extended && (cached || striped) =>
            {
                Err("The data connections are in MODE E: set up a new one for MODE S.")
            }
            // Modules make and take bytes in order.
            Setup::Passive(Connections { striped: true, .. })
            | Setup::Active(Connections { striped: true, .. })
                if transfer.is_of_module() =>
            {
                Err("Modules have no stripes: set up one data connection.")
            }
            // Offsets of text are not those of the file. Listings are sent by one stripe.
            Setup::Passive(Connections { striped: true, .. })
            | Setup::Active(Connections { striped: true, .. })
                if self.channel.ty == Type::Ascii && transfer.is_file() =>
            {
                Err("Text has no stripes: send TYPE I, or set up one data connection.")
            }
            Setup::Delayed(form, family) => Ok(Ready::AfterListen(form, family)),
            Setup::Passive(_) | Setup::Active(_) => Ok(Ready::Now),
        }
    }

    /// The intervals of 112 and 111 markers for a transfer in this direction.
    pub(super) fn markers(&self, sending: bool) -> (Option<Duration>, Option<Duration>) {
        let extended = self.channel.mode == Mode::Extended;
        if sending {
            let default = self.perf_every.filter(|_| self.always_markers);
            (self.send_perf_every.or(default), None)
        } else if extended {
            (self.perf_every, self.restart_every)
        } else {
            let wanted = self.always_markers || self.perf_asked;
            (self.perf_every.filter(|_| wanted), None)
        }
    }

    /// Keeps the connections of a MODE E transfer that ended well.
    pub(super) const fn keep(&mut self) {
        match &mut self.setup {
            Setup::Passive(now) | Setup::Active(now) => now.cached = true,
            Setup::None | Setup::Delayed(..) => {}
        }
    }

    /// The action that listens for data connections.
    pub(super) fn listen_action(
        &self,
        form: PassiveForm,
        family: Option<Family>,
        cx: &Cx<'_>,
    ) -> Action {
        // MODE S has one data connection (RFC 959 §3.3).
        let striped =
            matches!(form, PassiveForm::Spas { .. }) && self.channel.mode == Mode::Extended;
        let most = match cx.settings.shares_uploads || self.lists_senders {
            true => self.most_stripes,
            false => 1,
        };
        let stripes = cx.settings.stripes.filter(|_| striped);
        Action::Listen {
            stripes: stripes.map(|all| all.min(most)),
            family,
            send_buffer: self.channel.send_buffer,
            receive_buffer: self.channel.receive_buffer,
            protection: cx.security.data(),
        }
    }

    /// Closes listener and connections.
    pub(super) fn drop_all(&mut self, cx: &mut Cx<'_>) {
        self.setup = Setup::None;
        cx.out.action(Action::DropData);
    }

    /// Says whether any set-up is in force.
    pub(super) fn is_set(&self) -> bool {
        self.setup != Setup::None
    }

    /// `SBUF` and the `SITE` buffer commands.
    pub(super) fn set_buffers(&mut self, side: BufferSide, bytes: u64, settings: &Settings) {
        let bytes = bytes.min(settings.limits.buffer);
        if side != BufferSide::Receive {
            self.channel.send_buffer = bytes;
        }
        if side != BufferSide::Send {
            self.channel.receive_buffer = bytes;
        }
    }

    /// `OPTS RETR`.
    pub(super) fn set_retrieve_options(
        &mut self,
        parallelism: Option<Parallelism>,
        stripe_block: Option<u64>,
        markers: Option<u32>,
        settings: &Settings,
    ) {
        if let Some(block) = stripe_block {
            let block = NonZero::new(block);
            let least = NonZero::new(settings.limits.stripe_block).unwrap_or(NonZero::<u64>::MIN);
            self.channel.layout = block.map_or(Layout::Partitioned, |block| {
                Layout::Blocked(block.max(least))
            });
        }
        if let Some(Parallelism { start, most, .. }) = parallelism {
            let limit = settings.limits.parallelism.max(1);
            self.channel.parallelism = start.clamp(1, limit);
            self.channel.most_parallelism = most.clamp(self.channel.parallelism, limit);
        }
        if let Some(n) = markers {
            self.send_perf_every = seconds(n);
        }
    }
}

impl LoggedIn {
    /// `TYPE`.
    pub(super) fn set_type(&mut self, ty: Type, cx: &mut Cx<'_>) {
        self.data.channel.ty = ty;
        let letter = if ty == Type::Ascii { 'A' } else { 'I' };
        cx.out.say::<200>(format!("Type set to {letter}."));
    }

    /// `MODE`.
    pub(super) fn set_mode(&mut self, mode: Mode, cx: &mut Cx<'_>) {
        self.data.channel.mode = mode;
        let letter = if mode == Mode::Extended { 'E' } else { 'S' };
        cx.out.say::<200>(format!("Mode set to {letter}."));
    }

    /// `TREV`.
    pub(super) fn set_marker_interval(&mut self, event: Event, every: u32, cx: &mut Cx<'_>) {
        match event {
            Event::Perf => {
                self.data.perf_every = seconds(every);
                self.data.perf_asked = true;
            }
            Event::Restart => self.data.restart_every = seconds(every),
        }
        cx.out.say::<200>("Command Successful.");
    }

    /// `SBUF`.
    pub(super) fn set_buffers(&mut self, bytes: u64, cx: &mut Cx<'_>) {
        self.data.set_buffers(BufferSide::Both, bytes, cx.settings);
        cx.out.say::<200>("SBUF Command Successful.");
    }

    /// `SPAS`.
    pub(super) fn striped_passive(&mut self, family: Option<Family>, cx: &mut Cx<'_>) {
        let extended = family.is_some();
        self.listen(PassiveForm::Spas { extended }, family, cx);
    }

    /// `EPSV`.
    pub(super) fn extended_passive(&mut self, argument: Epsv, cx: &mut Cx<'_>) {
        // Only clients of GridFTP read an address in the reply, which has none by RFC 2428 §3.
        if cx.settings.data_elsewhere && !cx.out.dialect.is_gridftp() {
            let remedy = match cx.peer.to_canonical().is_ipv4() {
                true => "PASV",
                false => "EPRT",
            };
            return cx.out.say::<502>(format!(
                "EPSV names no host, and data ports are on other hosts here: send {remedy} or SPAS."
            ));
        }
        match argument {
            Epsv::All => {
                self.data.only_epsv = true;
                cx.out.say::<229>("EPSV ALL Successful.");
            }
            Epsv::Any => self.listen(PassiveForm::Epsv, None, cx),
            Epsv::Family(family) => self.listen(PassiveForm::Epsv, Some(family), cx),
        }
    }

    /// Refuses a set-up command other than `EPSV` after `EPSV ALL` (RFC 2428 §4).
    fn is_only_epsv(&self, cx: &mut Cx<'_>) -> bool {
        if self.data.only_epsv {
            cx.out.say::<503>("Only EPSV is allowed after EPSV ALL.");
        }
        self.data.only_epsv
    }

    /// Runs a passive command: listens now, or when a transfer begins.
    pub(super) fn listen(&mut self, form: PassiveForm, family: Option<Family>, cx: &mut Cx<'_>) {
        if form != PassiveForm::Epsv && self.is_only_epsv(cx) {
            return;
        }
        if self.data.delayed {
            self.data.drop_all(cx);
            self.data.setup = Setup::Delayed(form, family);
            return cx.out.say::<200>("Passive delayed.");
        }
        self.data.setup = Setup::None;
        let action = self.data.listen_action(form, family, cx);
        self.start(action, Job::Listen(form), cx);
    }

    /// PORT, EPRT or SPOR.
    pub(super) fn connect(&mut self, to: Vec<SocketAddr>, cx: &mut Cx<'_>) {
        if self.is_only_epsv(cx) {
            return;
        }
        if to.is_empty() || to.len() > cx.settings.limits.stripes {
            return cx.out.say::<501>("Illegal PORT command.");
        }
        // RFC 2577 §3: well-known ports are never a data port of an honest client.
        if to.iter().any(|addr| addr.port() < 1024) {
            return cx
                .out
                .say::<500>("Illegal PORT command: ports below 1024 are refused.");
        }
        let peer = cx.peer.to_canonical();
        for ip in to.iter().map(|addr| addr.ip().to_canonical()) {
            // With authenticated connections a stranger gets nothing. Connecting to any host is for
            // known users all the same: the replies tell whether a port is open (RFC 2577 §3).
            let authenticated = self.kind == LoginKind::User && cx.security.data().is_some();
            if ip != peer && !cx.settings.third_party && !authenticated {
                return cx.out.say::<500>(
                    "Illegal PORT command: data goes to the client's own host only, see the server's --third-party.",
                );
            }
            // RFC 2577 §3: services that trust this host or its link would answer to any client.
            if ip != peer && scope(ip) > scope(peer) {
                return cx.out.say::<500>(
                    "Illegal PORT command: loopback and link-local addresses are for clients that are there.",
                );
            }
        }
        self.data.setup = Setup::None;
        let protection = cx.security.data();
        let striped = cx.settings.stripes.is_some() && to.len() > 1;
        self.start(
            Action::Connect(to, protection),
            Job::Connect { striped },
            cx,
        );
    }

    /// Answers `PORT`, `EPRT` or `SPOR`.
    pub(super) fn connected(&mut self, striped: bool, outcome: Outcome, cx: &mut Cx<'_>) {
        match outcome {
            Outcome::Done => {
                self.data.setup = Setup::Active(Connections::new(striped));
                cx.out.say::<200>("PORT Command successful.");
            }
            other => super::unexpected(other, cx),
        }
    }

    /// Answers a passive command; says whether the listener exists.
    pub(super) fn listening(
        &mut self,
        form: PassiveForm,
        delayed: bool,
        outcome: Outcome,
        cx: &mut Cx<'_>,
    ) -> bool {
        let addresses = match outcome {
            Outcome::Listening(addresses) if !addresses.is_empty() => addresses,
            other => {
                self.data.setup = Setup::None;
                super::unexpected(other, cx);
                return false;
            }
        };
        match passive_reply(form, delayed, &addresses, cx.settings.data_elsewhere) {
            Some(reply) => {
                let all = matches!(form, PassiveForm::Spas { .. });
                let striped = all && addresses.len() > 1;
                self.data.setup = Setup::Passive(Connections::new(striped));
                cx.out.reply(reply);
                true
            }
            None => {
                self.data.drop_all(cx);
                cx.out.say::<522>("Network protocol not supported.");
                false
            }
        }
    }
}

/// The scope of an address (RFC 4007). A client may reach addresses of its own scope or a wider
/// one.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Global,
    Link,
    Loopback,
}

fn scope(ip: IpAddr) -> Scope {
    let on_link = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    if ip.is_loopback() || ip.is_unspecified() {
        Scope::Loopback
    } else if on_link {
        Scope::Link
    } else {
        Scope::Global
    }
}

/// `STRU`: files have no structure (RFC 959 §3.1.2.1).
pub(super) fn structure(structure: char, cx: &mut Cx<'_>) {
    if structure.eq_ignore_ascii_case(&'F') {
        cx.out.say::<200>("STRU F ok.");
    } else {
        cx.out.say::<501>("Syntax error in parameter.");
    }
}

/// The reply that tells these addresses, `elsewhere` or on this host.
fn passive_reply(
    form: PassiveForm,
    delayed: bool,
    addresses: &[SocketAddr],
    elsewhere: bool,
) -> Option<Reply> {
    let first = *addresses.first()?;
    match form {
        PassiveForm::Pasv => addr::pasv_reply(first, delayed),
        PassiveForm::Epsv if elsewhere => Some(addr::epsv_host_reply(first, delayed)),
        PassiveForm::Epsv => Some(addr::epsv_reply(first.port(), delayed)),
        PassiveForm::Spas { extended } => Some(addr::spas_reply(addresses, extended, delayed)),
    }
}
