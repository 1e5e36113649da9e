//! `LoggedIn`: the state of a session after login, and the match that runs its commands.

use std::time::Duration;

use ftp_wire::command::{Command, Family, SiteCommand, StackSide};
use ftp_wire::facts::FactSet;
use ftp_wire::opts::Opts;
use ftp_wire::path::FtpPath;

use super::channel::DataSide;
use super::names::{NameJob, dot_dot};
use super::out::Cx;
use super::security;
use super::settings::Settings;
use super::state::{Activity, Job, PassiveForm, Trigger, allows};
use super::transfer::NextTransfer;
use super::view::{Access, Forbidden, ResolvedPath, View};
use crate::security::LoginKind;
use crate::types::{Action, ListForm, Names, Outcome, Placement, Ticket};

/// A session after login.
#[derive(Debug)]
pub(super) struct LoggedIn {
    /// The name given by `USER`, or that of the mapped identity.
    pub(super) name: String,
    pub(super) kind: LoginKind,
    pub(super) view: View,
    pub(super) data: DataSide,
    /// Settings for the next transfer.
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
    /// Whether a rate came since the login: it was in force at once. Those before wait for their turn.
    pub(super) rate_arrived: bool,
}

impl LoggedIn {
    /// Begins a session after a login.
    pub(super) fn new(name: String, kind: LoginKind, home: &FtpPath, settings: &Settings) -> Self {
        Self {
            name,
            kind,
            view: View::new(home),
            data: DataSide::new(settings),
            next: NextTransfer::default(),
            activity: Activity::Ready,
            facts: FactSet::DEFAULT,
            tree_fails: false,
            tree_follows: false,
            hash_every: None,
            rate_arrived: false,
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

    /// Gives up an `RNFR` or `SITE SYMLINKFROM` unless `next` is its second half, or a rate, which
    /// clients send at any time.
    pub(super) fn expect_pair(&mut self, next: &Command) {
        if !matches!(
            next,
            Command::Rnto(_) | Command::Site(SiteCommand::SymlinkTo(_) | SiteCommand::Rate(_))
        ) {
            self.forget_pair();
        }
    }

    pub(super) fn forget_pair(&mut self) {
        if matches!(
            self.activity,
            Activity::Renaming { .. } | Activity::Linking { .. }
        ) {
            self.shift(Trigger::Other, Activity::Ready);
        }
    }

    /// Resolves a path, or answers 550 where the session's restrictions forbid it.
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

    /// As [`find`](Self::find), for work on the whole tree beneath the path.
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

    /// Runs a command that needs a login; `State::open_command` runs the others.
    pub(super) fn command(&mut self, command: Command, cx: &mut Cx<'_>) {
        match command {
            Command::User(_)
            | Command::Pass(_)
            | Command::Quit
            | Command::Feat
            | Command::Help(_)
            | Command::Noop
            | Command::Auth(_)
            | Command::Adat(_)
            | Command::Site(SiteCommand::Help(_)) => {}

            // RFC 959 §4.2: superfluous on a server without accounting.
            Command::Acct(_) => cx.out.say::<202>("ACCT is superfluous at this site."),
            Command::Syst => cx.out.say::<215>("UNIX Type: L8"),
            Command::Lang(tag) => language(tag.as_deref(), cx),
            Command::Opts(opts) => self.options(opts, cx),
            Command::Site(site) => self.site_command(site, cx),
            Command::Pbsz(size) => security::buffer_size(size, cx),
            Command::Prot(letter) => self.protect(letter, cx),
            Command::Dcau(peer) => self.authenticate_data(peer, cx),
            Command::Dcsc(text) => self.data_credential(text.reveal(), cx),

            Command::Type(ty) => self.set_type(ty, cx),
            Command::Mode(mode) => self.set_mode(mode, cx),
            Command::Stru(structure) => super::channel::structure(structure, cx),
            Command::Sbuf(bytes) => self.set_buffers(bytes, cx),
            Command::Trev(event, seconds) => self.set_marker_interval(event, seconds, cx),
            Command::Pasv => self.listen(PassiveForm::Pasv, Some(Family::V4), cx),
            Command::Epsv(argument) => self.extended_passive(argument, cx),
            Command::Spas(family) => self.striped_passive(family, cx),
            Command::Port(to) | Command::Eprt(to) => self.connect(vec![to], cx),
            Command::Spor(to) => self.connect(to, cx),

            Command::Allo(size) => self.announce_size(size, cx),
            Command::Rest(restart) => self.restart_at(restart, cx),
            Command::Scks { algorithm, digest } => self.store_checksum(&algorithm, digest, cx),
            Command::Retr(path) => self.retrieve(&path, None, None, cx),
            Command::Eret(how, path) => self.extended_retrieve(how, &path, cx),
            Command::Stor(path) => self.store(&path, Placement::Whole, None, cx),
            Command::Appe(path) => self.store(&path, Placement::End, None, cx),
            Command::Esto(how, path) => self.extended_store(how, &path, cx),
            Command::List(path) => self.list(path.as_ref(), |_, _| ListForm::Long, cx),
            Command::ListAll(path) => self.list(Some(&path), |_, _| ListForm::Long, cx),
            Command::Nlst(path) => self.list_names(path.as_ref(), cx),
            Command::Mlsd(path) => self.list(path.as_ref(), Self::facts_of, cx),
            Command::Mlsr(path) => self.list_tree(path.as_ref(), cx),
            Command::Abor => self.abort_idle(cx),

            Command::Cwd(path) => self.enter(&path, cx),
            Command::Cdup => self.enter(&dot_dot(), cx),
            Command::Pwd => self.print_directory(cx),
            Command::Mkd(path) => self.make_directory(&path, cx),
            Command::Rmd(path) => self.change(&path, Names::RemoveDir, cx),
            Command::Dele(path) => self.change(&path, Names::Delete, cx),
            Command::Rnfr(path) => self.rename_from(&path, cx),
            Command::Rnto(to) => self.rename_to(&to, cx),
            Command::Size(path) => self.look(&path, NameJob::Size, cx),
            Command::Mdtm(path) => self.look(&path, NameJob::Mdtm, cx),
            Command::Mfmt(time, path) => self.set_modified(time, path, cx),
            Command::Mlst(path) => self.print_facts(path, cx),
            Command::Mlsc(path) => self.print_contents(path, cx),
            Command::Stat(path) => self.print_status(path, cx),
            Command::Avbl(path) => self.print_free(&path, cx),
            // No parser makes one.
            Command::Raw(_) => cx.out.say::<500>("Command not supported."),
            Command::Cksm {
                algorithm,
                offset,
                length,
                path,
            } => self.checksum(&algorithm, offset, length, &path, cx),
        }
    }

    /// Hands an action to the caller and waits for its outcome.
    pub(super) fn start(&mut self, action: Action, job: Job, cx: &mut Cx<'_>) {
        let ticket = cx.out.action(action);
        self.shift(
            Trigger::Work,
            Activity::Working {
                ticket,
                job,
                aborting: false,
            },
        );
    }

    /// Handles the outcome of the action with this ticket.
    pub(super) fn done(&mut self, ticket: Ticket, outcome: Outcome, cx: &mut Cx<'_>) {
        // The activity is taken apart only for its own ticket; a transition below restores it.
        if self.activity.ticket() != Some(ticket) {
            return;
        }
        let opened = matches!(self.activity, Activity::Moving { .. });
        match &mut self.activity {
            Activity::Working { job, aborting, .. } => {
                let (job, aborting) = (std::mem::replace(job, Job::Plain), *aborting);
                match job {
                    Job::Names(job) => self.name_done(job, aborting, outcome, cx),
                    Job::DelayedListen(form, transfer) => {
                        self.listening_late(form, *transfer, aborting, outcome, cx);
                    }
                    Job::Listen(form) => {
                        self.shift(Trigger::Worked, Activity::Ready);
                        self.listening(form, false, outcome, cx);
                    }
                    Job::Connect { striped } => {
                        self.shift(Trigger::Worked, Activity::Ready);
                        self.connected(striped, outcome, cx);
                    }
                    Job::Plain => {
                        self.shift(Trigger::Worked, Activity::Ready);
                        match outcome {
                            Outcome::Done => cx.out.say::<250>("OK."),
                            Outcome::Waits(waits) => {
                                cx.out.say::<250>(format!("Waits: {waits}"));
                            }
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

    /// Runs a subcommand of `SITE`.
    fn site_command(&mut self, site: SiteCommand, cx: &mut Cx<'_>) {
        match site {
            SiteCommand::Help(_) => {}
            SiteCommand::Buffer(side, bytes) => {
                self.data.set_buffers(side, bytes, cx.settings);
                cx.out.say::<200>("Site Command Successful.");
            }
            SiteCommand::Whoami => cx.out.say::<200>(self.name.as_str()),
            SiteCommand::Waits => self.start(Action::Waits, Job::Plain, cx),
            SiteCommand::Rate(rate) => self.limit(rate, cx),
            SiteCommand::Version => cx.out.say::<200>(cx.settings.version.as_str()),
            SiteCommand::ClientInfo(value) => annotate("clientinfo", value, cx),
            SiteCommand::TaskId(value) => annotate("taskid", value, cx),
            SiteCommand::StorAttr(attributes) => self.store_attributes(attributes, cx),
            SiteCommand::Stack(side, stack) => {
                // The data side belongs to the old stack.
                if side == StackSide::Net {
                    self.data.drop_all(cx);
                }
                self.start(Action::Stack(side, stack), Job::Plain, cx);
            }
            SiteCommand::Restrict(list) => self.restrict(&list, cx),
            SiteCommand::Chroot(path) => self.change_root(&path, cx),

            SiteCommand::Chmod(mode, path) => self.set_mode_bits(mode, &path, cx),
            SiteCommand::Chgrp(group, path) => {
                self.change(&path, |path| Names::SetGroup(path, group), cx);
            }
            SiteCommand::Utime(time, path) => {
                self.change(&path, |path| Names::SetModified(path, time), cx);
            }
            SiteCommand::Trnc(length, path) => {
                self.change(&path, |path| Names::Truncate(path, length), cx);
            }
            SiteCommand::Rdel(path) => self.remove_tree(&path, cx),
            SiteCommand::Held(path) => self.print_held(&path, cx),
            SiteCommand::Xattr(path) => self.print_attributes(path, cx),
            SiteCommand::SetXattr(attribute, path) => {
                self.change(&path, |path| Names::SetAttribute(path, attribute), cx);
            }
            SiteCommand::Stage(seconds, path) => self.stage(seconds, path, cx),
            SiteCommand::DropHeld(path) => self.change(&path, Names::DropHeld, cx),
            SiteCommand::Symlink(target, link) => {
                if self.may_link(cx) {
                    self.change(&link, |link| Names::Symlink(target, link), cx);
                }
            }
            SiteCommand::SymlinkFrom(target) => self.link_from(target, cx),
            SiteCommand::SymlinkTo(link) => self.link_to(&link, cx),
        }
    }

    /// `SITE RESTRICT`.
    fn restrict(&mut self, list: &str, cx: &mut Cx<'_>) {
        if self.view.is_restricted() {
            cx.out
                .say::<500>("Session restricted paths list already set.");
        } else if self.view.restrict(&self.name, list) {
            cx.out.action(Action::NoLinks);
            cx.out.say::<250>("OK.");
        } else {
            cx.out.say::<501>("Invalid command arguments.");
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
            Opts::Passive { delayed } => self.data.delayed = delayed,
            Opts::Stripes { most } => self.data.most_stripes = most.get(),
            Opts::SpasCommand { retrieve } => self.data.lists_senders = retrieve,
            Opts::Retr {
                parallelism,
                stripe_block,
                markers,
            } => {
                self.data
                    .set_retrieve_options(parallelism, stripe_block, markers, cx.settings);
                if stripe_block.is_some() && cx.settings.stripes.is_none() {
                    return cx.out.say::<200>(
                        "OPTS Command Successful: single stripe, StripeLayout and BlockSize change nothing.",
                    );
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
