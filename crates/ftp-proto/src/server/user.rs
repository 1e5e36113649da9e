//! `LoggedIn`: what a session knows once somebody is in, and which part of it answers which command.

use std::time::Duration;

use ftp_wire::command::{Command, Dcau, Site, StackSide};
use ftp_wire::facts::FactSet;
use ftp_wire::opts::Opts;
use ftp_wire::path::FtpPath;

use super::channel::DataSide;
use super::help;
use super::out::Cx;
use super::settings::Settings;
use super::state::{Activity, Job, Trigger, allows};
use super::transfer::NextTransfer;
use super::view::{Access, Forbidden, ResolvedPath, View};
use crate::types::{Action, Outcome, Ticket};

/// A session with somebody in it.
#[derive(Debug)]
pub(super) struct LoggedIn {
    /// The name given by `USER`.
    pub(super) name: String,
    pub(super) view: View,
    pub(super) data: DataSide,
    /// What the next transfer is to mind.
    pub(super) next: NextTransfer,
    pub(super) activity: Activity,
    /// Facts that MLST and its kin print.
    pub(super) facts: FactSet,
    /// `OPTS MLSR`: whether an unreadable directory ends the listing.
    pub(super) tree_fails: bool,
    /// `OPTS MLSR`: whether links to directories are followed.
    pub(super) tree_follows: bool,
    /// `OPTS CKSM`: interval of 113 markers.
    pub(super) hash_every: Option<Duration>,
}

impl LoggedIn {
    /// Lets somebody in.
    pub(super) fn new(name: String, home: &FtpPath, settings: &Settings) -> Self {
        Self {
            name,
            view: View::new(home),
            data: DataSide::new(settings),
            next: NextTransfer::default(),
            activity: Activity::Ready,
            facts: FactSet::DEFAULT,
            tree_fails: false,
            tree_follows: false,
            hash_every: None,
        }
    }

    /// Moves to another activity by a transition of the table.
    pub(super) fn shift(&mut self, trigger: Trigger, to: Activity) {
        debug_assert!(
            allows(self.activity.stage(), trigger, to.stage()),
            "{:?} --{trigger:?}--> {:?} is not in the table",
            self.activity.stage(),
            to.stage(),
        );
        self.activity = to;
    }

    /// Gives up an `RNFR` or `SITE SYMLINKFROM` that another command follows.
    pub(super) fn forget_pair(&mut self) {
        if matches!(
            self.activity,
            Activity::Renaming { .. } | Activity::Linking { .. }
        ) {
            self.shift(Trigger::Other, Activity::Ready);
        }
    }

    /// Resolves a path; answers 550 itself where the session's restrictions forbid it.
    pub(super) fn find(
        &self,
        named: Option<&FtpPath>,
        access: Access,
        cx: &mut Cx<'_>,
    ) -> Option<ResolvedPath> {
        match self.view.find(&self.name, named, access) {
            Ok(resolved) => Some(resolved),
            Err(Forbidden) => {
                cx.out.say::<550>("Path not allowed.");
                None
            }
        }
    }

    /// As [`find`](Self::find), for work on all that lies beneath the path as well.
    pub(super) fn find_tree(
        &self,
        named: Option<&FtpPath>,
        access: Access,
        cx: &mut Cx<'_>,
    ) -> Option<ResolvedPath> {
        let resolved = self.find(named, access, cx)?;
        if self.view.permits_beneath(&resolved, access) {
            return Some(resolved);
        }
        cx.out
            .say::<550>("Path not allowed: something beneath it is restricted.");
        None
    }

    /// Runs one command; QUIT and those of the login are answered elsewhere.
    pub(super) fn command(&mut self, command: Command, cx: &mut Cx<'_>) {
        match command {
            Command::Rnto(to) => return self.rename_to(&to, cx),
            Command::Site(Site::SymlinkTo(link)) => return self.link_to(&link, cx),
            _ => self.forget_pair(),
        }
        match command {
            Command::User(_) | Command::Pass(_) => {
                cx.out.say::<503>("You are already logged in.");
            }
            // RFC 959 §4.2: known, and of no use to a server that keeps no accounts of cost.
            Command::Acct(_) => cx.out.say::<202>("ACCT is superfluous at this site."),
            Command::Abor => self.abort_idle(cx),

            Command::Pasv
            | Command::Epsv(_)
            | Command::Spas(_)
            | Command::Port(_)
            | Command::Eprt(_)
            | Command::Spor(_)
            | Command::Type(_)
            | Command::Mode(_)
            | Command::Stru(_)
            | Command::Sbuf(_)
            | Command::Trev(..) => self.data_command(command, cx),

            Command::Retr(_)
            | Command::Stor(_)
            | Command::Appe(_)
            | Command::Eret(..)
            | Command::Esto(..)
            | Command::List(_)
            | Command::Nlst(_)
            | Command::Mlsd(_)
            | Command::Mlsr(_)
            | Command::Allo(_)
            | Command::Rest(_)
            | Command::Scks { .. } => self.transfer_command(command, cx),

            Command::Cwd(_)
            | Command::Cdup
            | Command::Pwd
            | Command::Mkd(_)
            | Command::Rmd(_)
            | Command::Dele(_)
            | Command::Rnfr(_)
            | Command::Size(_)
            | Command::Mdtm(_)
            | Command::Mfmt(..)
            | Command::Cksm { .. }
            | Command::Stat(_)
            | Command::Mlst(_)
            | Command::Mlsc(_) => self.name_command(command, cx),

            Command::Site(site) => self.site_command(site, cx),
            Command::Opts(opts) => self.options(opts, cx),

            Command::Help(about) => help::help(about.as_deref(), cx),
            Command::Feat => help::features(Some(self.facts), cx),
            Command::Noop => cx.out.say::<200>("NOOP command successful."),
            Command::Syst => cx.out.say::<215>("UNIX Type: L8"),
            Command::Lang(tag) => language(tag.as_deref(), cx),

            Command::Auth(_) => cx.out.say::<504>("Unknown authentication type."),
            Command::Adat(_) => cx.out.say::<503>("Send AUTH first."),
            Command::Pbsz(size) if u32::try_from(size).is_err() => {
                cx.out.say::<501>(format!("Bad value for PBSZ: {size}"));
            }
            Command::Pbsz(size) => cx.out.say::<200>(format!("PBSZ={size}")),
            Command::Prot('C') => cx.out.say::<200>("Protection level set to C."),
            Command::Prot(level) => {
                cx.out
                    .say::<536>(format!("{level} protection level not supported."));
            }
            Command::Dcau(Dcau::None) => cx.out.say::<200>("DCAU N."),
            Command::Dcau(_) => cx.out.say::<504>("Bad DCAU mode."),
            Command::Dcsc(_) => cx.out.say::<502>("DCSC is not implemented."),

            // Later additions to the grammar are unknown here until they are handled.
            _ => cx.out.say::<502>("Command not implemented."),
        }
    }

    /// The edge has finished what this ticket names.
    pub(super) fn done(&mut self, ticket: Ticket, outcome: Outcome, cx: &mut Cx<'_>) {
        // The activity is taken apart only when the ticket fits, and put back by a transition below.
        if self.activity.ticket() != Some(ticket) {
            return;
        }
        let opened = matches!(self.activity, Activity::Moving { .. });
        match &mut self.activity {
            Activity::Working { job, aborting, .. } => {
                let (job, aborting) = (std::mem::replace(job, Job::Connect), *aborting);
                match job {
                    Job::Names(job) => self.name_done(job, aborting, outcome, cx),
                    Job::DelayedListen(form, transfer) => {
                        self.listening_late(form, *transfer, aborting, outcome, cx);
                    }
                    Job::Listen(form) => {
                        self.shift(Trigger::Worked, Activity::Ready);
                        self.listening(form, false, outcome, cx);
                    }
                    Job::Connect => {
                        self.shift(Trigger::Worked, Activity::Ready);
                        self.connected(outcome, cx);
                    }
                    Job::Stack => {
                        self.shift(Trigger::Worked, Activity::Ready);
                        match outcome {
                            Outcome::Done => cx.out.say::<250>("OK."),
                            other => super::unexpected(other, cx),
                        }
                    }
                }
            }
            Activity::Opening { kind, aborting, .. } | Activity::Moving { kind, aborting, .. } => {
                let (kind, aborting) = (*kind, *aborting);
                self.transfer_done(kind, opened, aborting, outcome, cx);
            }
            Activity::Ready | Activity::Renaming { .. } | Activity::Linking { .. } => {}
        }
    }

    /// `SITE`.
    fn site_command(&mut self, site: Site, cx: &mut Cx<'_>) {
        match site {
            Site::Help(about) => help::site_help(about.as_deref(), cx),
            Site::Buffer(side, bytes) => {
                self.data.set_buffers(side, bytes, cx.settings);
                cx.out.say::<200>("Site Command Successful.");
            }
            Site::Whoami => cx.out.say::<200>(self.name.as_str()),
            Site::Version => cx.out.say::<200>(cx.settings.version.as_str()),
            Site::ClientInfo(value) => annotate("clientinfo", value, cx),
            Site::TaskId(value) => annotate("taskid", value, cx),
            Site::StorAttr(attributes) => self.store_attributes(attributes, cx),
            Site::Stack(side, stack) => {
                // What was set up, and what is kept open, is of the old stack.
                if side == StackSide::Net {
                    self.data.drop_all(cx);
                }
                let ticket = cx.out.action(Action::Stack(side, stack));
                let job = Job::Stack;
                let aborting = false;
                self.shift(
                    Trigger::Work,
                    Activity::Working {
                        ticket,
                        job,
                        aborting,
                    },
                );
            }
            Site::Restrict(list) => {
                if self.view.is_restricted() {
                    cx.out
                        .say::<500>("Session restricted paths list already set.");
                } else if self.view.restrict(&self.name, &list) {
                    cx.out.action(Action::NoLinks);
                    cx.out.say::<250>("OK.");
                } else {
                    cx.out.say::<501>("Invalid command arguments.");
                }
            }
            site => self.site_name_command(site, cx),
        }
    }

    /// `OPTS`.
    fn options(&mut self, opts: Opts, cx: &mut Cx<'_>) {
        match opts {
            Opts::Facts(facts) => {
                self.facts = facts;
                // RFC 3659 §7.9: the answer lists the facts now in force.
                let mut text = format!("MLST OPTS {facts}");
                text.truncate(text.trim_end().len());
                return cx.out.say::<200>(text);
            }
            Opts::Mlsr {
                facts,
                fail,
                follow,
            } => {
                self.facts = facts.unwrap_or(self.facts);
                self.tree_fails = fail.unwrap_or(self.tree_fails);
                self.tree_follows = follow.unwrap_or(self.tree_follows);
            }
            Opts::Cksm { markers } => self.hash_every = seconds(markers),
            Opts::Utf8 => {}
            Opts::Retr {
                stripe_block: Some(_),
                ..
            } => {
                self.data.option(&opts, cx.settings);
                return cx.out.say::<200>(
                    "OPTS Command Successful: single stripe, StripeLayout and BlockSize change nothing.",
                );
            }
            opts => {
                if !self.data.option(&opts, cx.settings) {
                    return cx.out.say::<500>("OPTS failed.");
                }
            }
        }
        cx.out.say::<200>("OPTS Command Successful.");
    }
}

/// An interval in seconds; 0 is none.
pub(super) fn seconds(n: u32) -> Option<Duration> {
    (n > 0).then(|| Duration::from_secs(n.into()))
}

fn language(tag: Option<&str>, cx: &mut Cx<'_>) {
    let tag = tag.unwrap_or("EN");
    let primary = tag.split('-').next().unwrap_or(tag);
    if primary.eq_ignore_ascii_case("EN") {
        cx.out.say::<200>("lang set to EN.");
    } else {
        cx.out
            .say::<501>(format!("'LANG {tag}' unrecognized language."));
    }
}

fn annotate(key: &'static str, value: String, cx: &mut Cx<'_>) {
    cx.out.action(Action::Annotate { key, value });
    cx.out.say::<250>("OK.");
}
