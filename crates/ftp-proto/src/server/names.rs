//! Work on names: CWD, MKD, DELE, RNFR and RNTO, SIZE, MDTM, MLST, CKSM and the SITE verbs of that kind.

use ftp_wire::command::{Command, Site};
use ftp_wire::facts::{Entry, EntryKind, TimeVal};
use ftp_wire::marker::Marker;
use ftp_wire::path::FtpPath;
use ftp_wire::reply::{Code, Reply};

use super::out::Cx;
use super::state::{Activity, Job, Trigger};
use super::user::LoggedIn;
use super::view::Access;
use crate::types::{Action, Event, ListForm, Names, Outcome, Ticket};

/// What to make of the outcome of work on names.
#[derive(Debug)]
pub(super) enum NameJob {
    /// `CWD`: the directory to enter, as the client sees it.
    Enter(FtpPath),
    /// `SITE CHROOT`: the directory in the user's tree.
    Root(FtpPath),
    /// `MKD`: the directory as the client sees it.
    Made(FtpPath),
    /// 250 and no more.
    Plain,
    /// `MFMT`: the time that is set, and the path as requested.
    Touched(TimeVal, FtpPath),
    /// `SITE RDEL`: the same as `Plain`, after any time.
    Tree,
    /// `RNFR`: what is to be renamed.
    From(FtpPath),
    Size,
    Modified,
    /// `MLST`: the path as requested.
    Facts(FtpPath),
    /// `STAT path`: the path as requested.
    Status(FtpPath),
    /// `MLSC`: the path as requested.
    Contents(FtpPath),
    /// Either, once lines have been said under this code.
    Lines(Code),
    Checksum,
    /// `SITE HELD`.
    Held,
}

impl NameJob {
    /// Says whether an abort stops it: what only looks, and what goes on step by step. A single change
    /// is over sooner than anybody could be told that it did not happen.
    pub(super) const fn can_stop(&self) -> bool {
        !matches!(self, Self::Made(_) | Self::Touched(..) | Self::Plain)
    }

    /// The code and the first line of a listing's reply that has not begun.
    fn heading(&self) -> Option<(Code, Vec<u8>)> {
        match self {
            Self::Status(path) => {
                let first = [b"status of ", path.as_bytes()].concat();
                Some((Code::of::<213>(), first))
            }
            Self::Contents(path) => {
                let first = [b"Contents of ", path.as_bytes()].concat();
                Some((Code::of::<250>(), first))
            }
            _ => None,
        }
    }
}

impl LoggedIn {
    /// Commands on names.
    pub(super) fn name_command(&mut self, command: Command, cx: &mut Cx<'_>) {
        match command {
            Command::Cwd(path) => self.enter(&path, cx),
            Command::Cdup => self.enter(&dot_dot(), cx),
            Command::Pwd => {
                let mut text = self.view.cwd().quoted();
                text.extend_from_slice(b" is current directory.");
                cx.out.say::<257>(text);
            }
            Command::Mkd(path) => {
                if let Some(resolved) = self.find(Some(&path), Access::Write, cx) {
                    self.work(
                        Names::MakeDir(resolved.real),
                        NameJob::Made(resolved.shown),
                        cx,
                    );
                }
            }
            Command::Rmd(path) => self.change(&path, Names::RemoveDir, cx),
            Command::Dele(path) => self.change(&path, Names::Delete, cx),
            Command::Mfmt(time, path) => {
                if let Some(resolved) = self.find(Some(&path), Access::Write, cx) {
                    let job = NameJob::Touched(time, path);
                    self.work(Names::SetModified(resolved.real, time), job, cx);
                }
            }
            Command::Rnfr(path) => {
                if let Some(resolved) = self.find_tree(Some(&path), Access::Write, cx) {
                    self.work(
                        Names::Stat(resolved.real.clone()),
                        NameJob::From(resolved.real),
                        cx,
                    );
                }
            }
            Command::Size(path) => self.look(&path, NameJob::Size, cx),
            Command::Mdtm(path) => self.look(&path, NameJob::Modified, cx),
            Command::Mlst(path) => {
                let path = path.unwrap_or_else(|| self.view.cwd());
                self.look(&path, NameJob::Facts(path.clone()), cx);
            }
            Command::Stat(None) => cx.out.say::<212>("GridFTP server status."),
            Command::Stat(Some(path)) => {
                if let Some(resolved) = self.find(Some(&path), Access::Look, cx) {
                    let names = Names::Lines(resolved.real, ListForm::Long);
                    self.work(names, NameJob::Status(path), cx);
                }
            }
            Command::Mlsc(path) => {
                let path = path.unwrap_or_else(|| self.view.cwd());
                if let Some(resolved) = self.find(Some(&path), Access::Look, cx) {
                    let form = self.facts_of(&resolved);
                    self.work(
                        Names::Lines(resolved.real, form),
                        NameJob::Contents(path),
                        cx,
                    );
                }
            }
            Command::Cksm {
                algorithm,
                offset,
                length,
                path,
            } => {
                let Some(algorithm) = cx.settings.checksum(&algorithm).map(str::to_owned) else {
                    return cx.out.say::<500>("Unknown checksum algorithm requested.");
                };
                if let Some(resolved) = self.find(Some(&path), Access::Read, cx) {
                    let work = Names::Checksum {
                        path: resolved.real,
                        algorithm,
                        offset,
                        length,
                        markers: self.hash_every,
                    };
                    self.work(work, NameJob::Checksum, cx);
                }
            }
            _ => cx.out.say::<502>("Command not implemented."),
        }
    }

    /// Subcommands of `SITE` on names.
    pub(super) fn site_name_command(&mut self, site: Site, cx: &mut Cx<'_>) {
        match site {
            // What they would let a program do is for the administrator to say.
            Site::Chmod(mode, _) if mode > 0o777 => cx.out.say::<550>(
                "Permission bits only: setuid, setgid and sticky bits are not set from here.",
            ),
            Site::Chmod(mode, path) => self.change(&path, |path| Names::SetMode(path, mode), cx),
            Site::Chgrp(group, path) => {
                self.change(&path, |path| Names::SetGroup(path, group), cx);
            }
            Site::Utime(time, path) => {
                self.change(&path, |path| Names::SetModified(path, time), cx);
            }
            Site::Trnc(length, path) => {
                self.change(&path, |path| Names::Truncate(path, length), cx);
            }
            Site::Held(path) => {
                // Nothing changes, but only who may store has a use for it.
                if let Some(resolved) = self.find(Some(&path), Access::Write, cx) {
                    self.work(Names::Held(resolved.real), NameJob::Held, cx);
                }
            }
            Site::DropHeld(path) => self.change(&path, Names::DropHeld, cx),
            Site::Rdel(path) => {
                let Some(resolved) = self.find_tree(Some(&path), Access::Write, cx) else {
                    return;
                };
                // One slip of a client must not empty the whole tree.
                if resolved.shown.as_bytes() == b"/" {
                    return cx.out.say::<550>("The root cannot be removed.");
                }
                self.work(Names::RemoveTree(resolved.real), NameJob::Tree, cx);
            }
            Site::Symlink(target, link) => {
                if self.may_link(cx) {
                    self.change(&link, |link| Names::Symlink(target, link), cx);
                }
            }
            Site::SymlinkFrom(target) => {
                if !self.may_link(cx) {
                    return;
                }
                self.shift(Trigger::Target, Activity::Linking { target });
                cx.out
                    .say::<350>("OK. Send SITE SYMLINKTO with symlink name.");
            }
            Site::Chroot(path) => {
                if self.view.has_root() {
                    return cx.out.say::<500>("Root directory is already set.");
                }
                if let Some(resolved) = self.find(Some(&path), Access::Look, cx) {
                    self.work(
                        Names::Stat(resolved.real.clone()),
                        NameJob::Root(resolved.real),
                        cx,
                    );
                }
            }
            _ => cx.out.say::<500>("Invalid command."),
        }
    }

    /// `RNTO`, which must follow `RNFR` (RFC 959 §4.1.3).
    pub(super) fn rename_to(&mut self, to: &FtpPath, cx: &mut Cx<'_>) {
        let Activity::Renaming { from } = &self.activity else {
            self.forget_pair();
            return cx.out.say::<501>("Invalid command arguments.");
        };
        let from = from.clone();
        match self.find(Some(to), Access::Write, cx) {
            Some(resolved) => self.work(Names::Rename(from, resolved.real), NameJob::Plain, cx),
            None => self.forget_pair(),
        }
    }

    /// `SITE SYMLINKTO`, which must follow `SITE SYMLINKFROM`.
    pub(super) fn link_to(&mut self, link: &FtpPath, cx: &mut Cx<'_>) {
        let Activity::Linking { target } = &self.activity else {
            self.forget_pair();
            return cx.out.say::<501>("Invalid command arguments.");
        };
        let target = target.clone();
        match self.find(Some(link), Access::Write, cx) {
            Some(resolved) => self.work(Names::Symlink(target, resolved.real), NameJob::Plain, cx),
            None => self.forget_pair(),
        }
    }

    /// In a narrowed view a link could lead where the session itself may not go; answers 550 itself.
    fn may_link(&self, cx: &mut Cx<'_>) -> bool {
        let narrowed = self.view.is_restricted() || self.view.has_root();
        if narrowed {
            cx.out
                .say::<550>("Links are not made after SITE CHROOT or SITE RESTRICT.");
        }
        !narrowed
    }

    fn enter(&mut self, path: &FtpPath, cx: &mut Cx<'_>) {
        if let Some(resolved) = self.find(Some(path), Access::Look, cx) {
            self.work(
                Names::Stat(resolved.real),
                NameJob::Enter(resolved.shown),
                cx,
            );
        }
    }

    fn look(&mut self, path: &FtpPath, job: NameJob, cx: &mut Cx<'_>) {
        if let Some(resolved) = self.find(Some(path), Access::Look, cx) {
            self.work(Names::Stat(resolved.real), job, cx);
        }
    }

    fn change(&mut self, path: &FtpPath, what: impl FnOnce(FtpPath) -> Names, cx: &mut Cx<'_>) {
        if let Some(resolved) = self.find(Some(path), Access::Write, cx) {
            self.work(what(resolved.real), NameJob::Plain, cx);
        }
    }

    fn work(&mut self, names: Names, job: NameJob, cx: &mut Cx<'_>) {
        let ticket = cx.out.action(Action::Names(names));
        self.shift(
            Trigger::Work,
            Activity::Working {
                ticket,
                job: Job::Names(job),
                aborting: false,
            },
        );
    }

    /// News of a checksum or a listing that runs.
    pub(super) fn name_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        let Activity::Working {
            job: Job::Names(job),
            ..
        } = &mut self.activity
        else {
            return;
        };
        match event {
            Event::Hashed { at, bytes } if matches!(job, NameJob::Checksum) => {
                cx.out.reply(Marker::Hash { at, bytes }.to_reply());
            }
            Event::Lines(lines) => {
                if let Some((code, first)) = job.heading() {
                    cx.out.reply(Reply::opening(code, first));
                    *job = NameJob::Lines(code);
                }
                if let NameJob::Lines(code) = job {
                    cx.out.reply(Reply::inside(*code, lines));
                }
            }
            _ => {}
        }
    }

    /// Says whether this action fills a reply of many lines, and nobody asked to stop it.
    pub(super) fn is_in_reply(&self, filled: Ticket) -> bool {
        matches!(
            &self.activity,
            Activity::Working { ticket, job: Job::Names(NameJob::Lines(_)), aborting: false }
                if *ticket == filled
        )
    }

    /// Says whether a digest is being computed.
    pub(super) const fn is_hashing(&self) -> bool {
        matches!(
            self.activity,
            Activity::Working {
                job: Job::Names(NameJob::Checksum),
                ..
            }
        )
    }

    /// Work on names is done; the activity is already `Ready`-to-be, so only `RNFR` moves it elsewhere.
    pub(super) fn name_done(
        &mut self,
        job: NameJob,
        aborting: bool,
        outcome: Outcome,
        cx: &mut Cx<'_>,
    ) {
        if let (NameJob::From(from), Outcome::Stat(_)) = (&job, &outcome) {
            let from = from.clone();
            self.shift(Trigger::Found, Activity::Renaming { from });
            return cx.out.say::<350>("OK. Send RNTO with destination name.");
        }
        self.shift(Trigger::Worked, Activity::Ready);
        if let (Some((code, first)), Outcome::Lines(lines)) = (job.heading(), &outcome) {
            return cx.out.reply(Reply::indented(
                code,
                first,
                lines.iter().map(Vec::as_slice),
                "End.",
            ));
        }
        match (job, outcome) {
            (NameJob::Lines(code), Outcome::Lines(lines)) => {
                cx.out.reply(Reply::inside(code, lines));
                cx.out.reply(Reply::closing(code, "End."));
            }
            (NameJob::Lines(code), _) => {
                cx.out
                    .reply(Reply::closing(code, "Command aborted, lines are missing."));
            }
            (_, Outcome::Failed(_)) if aborting => cx.out.say::<426>("Command aborted."),
            (NameJob::Enter(to), Outcome::Stat(entry)) => {
                if is_dir(&entry) {
                    self.view.enter(&to);
                    cx.out.say::<250>("CWD command successful.");
                } else {
                    not_a_directory(cx);
                }
            }
            (NameJob::Root(real), Outcome::Stat(entry)) => {
                if is_dir(&entry) && entry.target.is_none() {
                    cx.out.action(Action::NoLinks);
                    self.view.set_root(&real);
                    cx.out.say::<250>("OK.");
                } else {
                    not_a_directory(cx);
                }
            }
            (NameJob::Made(shown), Outcome::Done) => {
                // RFC 959, appendix II: the name comes first, where clients look for it.
                let mut text = shown.quoted();
                text.extend_from_slice(b" created.");
                cx.out.say::<257>(text);
            }
            // draft-somers-ftp-mfxx §3.1: the facts that were set, and the name.
            (NameJob::Touched(time, path), Outcome::Done) => {
                let mut text = format!("Modify={time}; ").into_bytes();
                text.extend_from_slice(path.as_bytes());
                cx.out.say::<213>(text);
            }
            (NameJob::Plain | NameJob::Tree, Outcome::Done) => cx.out.say::<250>("OK."),
            // A link that leads nowhere has neither size nor time of its own (RFC 3659 §3.3, §4.3).
            (NameJob::Size | NameJob::Modified, Outcome::Stat(entry))
                if entry.kind == EntryKind::Slink =>
            {
                refuse("PATH_NOT_FOUND", "No such file or directory", cx);
            }
            (NameJob::Size, Outcome::Stat(entry)) => cx.out.say::<213>(entry.size.to_string()),
            (NameJob::Modified, Outcome::Stat(entry)) => {
                // Whole seconds, as every client of MDTM expects them (RFC 3659 §3.1 allows both).
                let time = TimeVal {
                    nanos: 0,
                    ..entry.modified
                };
                cx.out.say::<213>(time.to_string());
            }
            (NameJob::Facts(path), Outcome::Stat(mut entry)) => {
                entry.name = path.as_bytes().to_vec();
                let mut line = Vec::new();
                entry.write_facts(self.facts, &mut line);
                let first = [b"status of ", path.as_bytes()].concat();
                cx.out
                    .reply(Reply::indented(Code::of::<250>(), first, [line], "End."));
            }
            (NameJob::Checksum, Outcome::Checksum(digest)) => cx.out.say::<213>(digest),
            (NameJob::Held, Outcome::Held(ranges)) => cx.out.reply(Marker::held(&ranges)),
            (_, outcome) => super::unexpected(outcome, cx),
        }
    }
}

fn is_dir(entry: &Entry) -> bool {
    matches!(
        entry.kind,
        EntryKind::Dir | EntryKind::Cdir | EntryKind::Pdir
    )
}

fn not_a_directory(cx: &mut Cx<'_>) {
    refuse("NOT_A_DIRECTORY", "Not a directory", cx);
}

/// Answers 550 in the words of the system and with GCT's class for them.
fn refuse(class: &str, reason: &str, cx: &mut Cx<'_>) {
    cx.out.reply(Reply::globus_error(
        Code::of::<550>(),
        reason,
        class,
        &[("GridFTP-Error-String", reason)],
    ));
}

fn dot_dot() -> FtpPath {
    FtpPath::new("..").expect("two dots are a path")
}
