//! Work on names: CWD, MKD, DELE, RNFR and RNTO, SIZE, MDTM, MLST, CKSM and the SITE verbs of that
//! kind.

use std::time::Duration;

use ftp_wire::facts::{Entry, EntryKind, TimeVal};
use ftp_wire::marker::Marker;
use ftp_wire::partial::{MAX_PARTIALS, Partial};
use ftp_wire::path::{FtpPath, joined};
use ftp_wire::reply::{Code, Reply};

use super::out::Cx;
use super::state::{Activity, Job, Trigger};
use super::user::LoggedIn;
use super::view::{Access, ResolvedPath};
use crate::types::{Action, Event, ListForm, Names, Outcome, Ticket};

/// Longest wait of a `SITE STAGE`, which a client may repeat.
const LONGEST_STAGE: Duration = Duration::from_secs(600);

/// The form of the reply to work on names.
#[derive(Debug)]
pub(super) enum NameJob {
    /// `CWD`: the directory to enter, as the client sees it.
    Cwd(FtpPath),
    /// `SITE CHROOT`: the directory in the user's tree.
    Chroot(FtpPath),
    /// `MKD`: the directory as the client sees it.
    Mkd(FtpPath),
    /// 250 and no more.
    Change,
    /// `MFMT`: the time that is set, and the path as requested.
    Mfmt(TimeVal, FtpPath),
    /// `SITE RDEL`: the same as `Change`, after any time.
    Rdel,
    /// `RNFR`: the source of the rename.
    Rnfr(FtpPath),
    Size,
    Mdtm,
    /// `AVBL`.
    Free,
    /// `MLST`: the path as requested.
    Mlst(FtpPath),
    /// `STAT path`: the path as requested.
    Stat(FtpPath),
    /// `MLSC`: the path as requested.
    Mlsc(FtpPath),
    /// `STAT path` or `MLSC`, after its first lines were sent under this code.
    Continued(Code),
    Cksm,
    /// `SITE HELD`.
    Held(ResolvedPath),
    /// `SITE STAGE`: the path as requested.
    Stage(FtpPath),
    /// `SITE XATTR`: the path as requested.
    Attributes(FtpPath),
}

impl NameJob {
    /// Says whether an abort stops it: reads, and work in steps. A single change ends sooner than a
    /// reply could deny it.
    pub(super) const fn can_stop(&self) -> bool {
        !matches!(self, Self::Mkd(_) | Self::Mfmt(..) | Self::Change)
    }

    /// The code and the first line of a listing's reply, unless it was sent.
    fn heading(&self) -> Option<(Code, Vec<u8>)> {
        match self {
            Self::Stat(path) => {
                let first = [b"status of ", path.as_bytes()].concat();
                Some((Code::of::<213>(), first))
            }
            Self::Mlsc(path) => {
                let first = [b"Contents of ", path.as_bytes()].concat();
                Some((Code::of::<250>(), first))
            }
            _ => None,
        }
    }
}

impl LoggedIn {
    /// `PWD`.
    pub(super) fn print_directory(&self, cx: &mut Cx<'_>) {
        let mut text = self.view.cwd().quoted();
        text.extend_from_slice(b" is current directory.");
        cx.out.say::<257>(text);
    }

    /// `MKD`.
    pub(super) fn make_directory(&mut self, path: &FtpPath, cx: &mut Cx<'_>) {
        if let Some(found) = self.find(Some(path), Access::Write, cx) {
            self.work(Names::MakeDir(found.real), NameJob::Mkd(found.shown), cx);
        }
    }

    /// `MFMT`.
    pub(super) fn set_modified(&mut self, time: TimeVal, path: FtpPath, cx: &mut Cx<'_>) {
        if let Some(found) = self.find(Some(&path), Access::Write, cx) {
            let job = NameJob::Mfmt(time, path);
            self.work(Names::SetModified(found.real, time), job, cx);
        }
    }

    /// `MLST`.
    pub(super) fn print_facts(&mut self, path: Option<FtpPath>, cx: &mut Cx<'_>) {
        let path = path.unwrap_or_else(|| self.view.cwd());
        self.look(&path, NameJob::Mlst(path.clone()), cx);
    }

    /// `MLSC`.
    pub(super) fn print_contents(&mut self, path: Option<FtpPath>, cx: &mut Cx<'_>) {
        let path = path.unwrap_or_else(|| self.view.cwd());
        if let Some(found) = self.find(Some(&path), Access::Metadata, cx) {
            let form = self.facts_of(&found);
            self.work(Names::Lines(found.real, form), NameJob::Mlsc(path), cx);
        }
    }

    /// `STAT`.
    pub(super) fn print_status(&mut self, path: Option<FtpPath>, cx: &mut Cx<'_>) {
        let Some(path) = path else {
            return cx.out.say::<212>("GridFTP server status.");
        };
        if let Some(found) = self.find(Some(&path), Access::Metadata, cx) {
            let names = Names::Lines(found.real, ListForm::Long);
            self.work(names, NameJob::Stat(path), cx);
        }
    }

    /// `CKSM`.
    pub(super) fn checksum(
        &mut self,
        algorithm: &str,
        offset: u64,
        length: Option<u64>,
        path: &FtpPath,
        cx: &mut Cx<'_>,
    ) {
        let Some(algorithm) = cx.settings.checksum(algorithm).map(str::to_owned) else {
            return cx.out.say::<500>("Unknown checksum algorithm requested.");
        };
        if let Some(found) = self.find(Some(path), Access::Read, cx) {
            let work = Names::Checksum {
                path: found.real,
                algorithm,
                offset,
                length,
                markers: self.hash_every,
            };
            self.work(work, NameJob::Cksm, cx);
        }
    }

    /// `SITE CHMOD`.
    pub(super) fn set_mode_bits(&mut self, mode: u32, path: &FtpPath, cx: &mut Cx<'_>) {
        // The administrator alone grants what setuid and setgid programs may do.
        if mode > 0o777 {
            return cx.out.say::<550>(
                "Permission bits only: setuid, setgid and sticky bits are not set from here.",
            );
        }
        self.change(path, |path| Names::SetMode(path, mode), cx);
    }

    /// `SITE HELD`.
    pub(super) fn print_held(&mut self, path: &FtpPath, cx: &mut Cx<'_>) {
        // Nothing changes, but only a client that may store can use the answer.
        if let Some(found) = self.find(Some(path), Access::Write, cx) {
            self.work(Names::Held(found.real.clone()), NameJob::Held(found), cx);
        }
    }

    /// `AVBL`.
    pub(super) fn print_free(&mut self, path: &FtpPath, cx: &mut Cx<'_>) {
        if let Some(found) = self.find(Some(path), Access::Metadata, cx) {
            self.work(Names::Free(found.real), NameJob::Free, cx);
        }
    }

    /// `SITE XATTR`.
    pub(super) fn print_attributes(&mut self, path: FtpPath, cx: &mut Cx<'_>) {
        if let Some(found) = self.find(Some(&path), Access::Read, cx) {
            let names = Names::Attributes(found.real);
            self.work(names, NameJob::Attributes(path), cx);
        }
    }

    /// `SITE STAGE`.
    pub(super) fn stage(&mut self, seconds: u64, path: FtpPath, cx: &mut Cx<'_>) {
        if let Some(found) = self.find(Some(&path), Access::Read, cx) {
            let within = Duration::from_secs(seconds).min(LONGEST_STAGE);
            let names = Names::Stage(found.real, within);
            self.work(names, NameJob::Stage(path), cx);
        }
    }

    /// `SITE RDEL`.
    pub(super) fn remove_tree(&mut self, path: &FtpPath, cx: &mut Cx<'_>) {
        let Some(found) = self.find_tree(Some(path), Access::Write, cx) else {
            return;
        };
        // One slip of a client must not empty the whole tree.
        if found.shown.as_bytes() == b"/" {
            return cx.out.say::<550>("The root cannot be removed.");
        }
        self.work(Names::RemoveTree(found.real), NameJob::Rdel, cx);
    }

    /// `SITE CHROOT`.
    pub(super) fn change_root(&mut self, path: &FtpPath, cx: &mut Cx<'_>) {
        if self.view.has_root() {
            return cx.out.say::<500>("Root directory is already set.");
        }
        if let Some(found) = self.find(Some(path), Access::Metadata, cx) {
            self.work(
                Names::Stat(found.real.clone()),
                NameJob::Chroot(found.real),
                cx,
            );
        }
    }

    /// `SITE SYMLINKFROM`.
    pub(super) fn link_from(&mut self, target: FtpPath, cx: &mut Cx<'_>) {
        if self.may_link(cx) {
            self.shift(Trigger::Target, Activity::Linking { target });
            cx.out
                .say::<350>("OK. Send SITE SYMLINKTO with symlink name.");
        }
    }

    /// `RNFR`.
    pub(super) fn rename_from(&mut self, path: &FtpPath, cx: &mut Cx<'_>) {
        if let Some(found) = self.find_tree(Some(path), Access::Write, cx) {
            self.work(
                Names::Stat(found.real.clone()),
                NameJob::Rnfr(found.real),
                cx,
            );
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
            Some(found) => self.work(Names::Rename(from, found.real), NameJob::Change, cx),
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
            Some(found) => self.work(Names::Symlink(target, found.real), NameJob::Change, cx),
            None => self.forget_pair(),
        }
    }

    /// Says whether links may be made, and answers 550 if not: a link could lead out of a narrowed
    /// view.
    pub(super) fn may_link(&self, cx: &mut Cx<'_>) -> bool {
        let narrowed = self.view.is_restricted() || self.view.has_root();
        if narrowed {
            cx.out
                .say::<550>("Links are not made after SITE CHROOT or SITE RESTRICT.");
        }
        !narrowed
    }

    pub(super) fn enter(&mut self, path: &FtpPath, cx: &mut Cx<'_>) {
        if let Some(found) = self.find(Some(path), Access::Metadata, cx) {
            self.work(Names::Stat(found.real), NameJob::Cwd(found.shown), cx);
        }
    }

    pub(super) fn look(&mut self, path: &FtpPath, job: NameJob, cx: &mut Cx<'_>) {
        if let Some(found) = self.find(Some(path), Access::Metadata, cx) {
            self.work(Names::Stat(found.real), job, cx);
        }
    }

    pub(super) fn change(
        &mut self,
        path: &FtpPath,
        what: impl FnOnce(FtpPath) -> Names,
        cx: &mut Cx<'_>,
    ) {
        if let Some(found) = self.find(Some(path), Access::Write, cx) {
            self.work(what(found.real), NameJob::Change, cx);
        }
    }

    fn work(&mut self, names: Names, job: NameJob, cx: &mut Cx<'_>) {
        self.start(Action::Names(names), Job::Names(job), cx);
    }

    /// Handles the progress of a checksum or a listing.
    pub(super) fn name_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        let Activity::Working {
            job: Job::Names(job),
            ..
        } = &mut self.activity
        else {
            return;
        };
        match event {
            Event::Hashed { at, bytes } if matches!(job, NameJob::Cksm) => {
                cx.out.reply(Marker::Hash { at, bytes }.to_reply());
            }
            Event::Lines(lines) => {
                if let Some((code, first)) = job.heading() {
                    cx.out.reply(Reply::opening(code, first));
                    *job = NameJob::Continued(code);
                }
                if let NameJob::Continued(code) = job {
                    cx.out.reply(Reply::inside(*code, lines));
                }
            }
            _ => {}
        }
    }

    /// Says whether this action is in the middle of a reply of many lines, and not aborted.
    pub(super) fn is_in_reply(&self, filled: Ticket) -> bool {
        matches!(
            &self.activity,
            Activity::Working { ticket, job: Job::Names(NameJob::Continued(_)), aborting: false }
                if *ticket == filled
        )
    }

    /// Says whether a digest is being computed.
    pub(super) const fn is_hashing(&self) -> bool {
        matches!(
            self.activity,
            Activity::Working {
                job: Job::Names(NameJob::Cksm),
                ..
            }
        )
    }

    /// Answers finished work on names. The next activity is `Ready`, except after `RNFR`.
    pub(super) fn name_done(
        &mut self,
        job: NameJob,
        aborting: bool,
        outcome: Outcome,
        cx: &mut Cx<'_>,
    ) {
        if let (NameJob::Rnfr(from), Outcome::Stat(_)) = (&job, &outcome) {
            let from = from.clone();
            self.shift(Trigger::Found, Activity::Renaming { from });
            return cx.out.say::<350>("OK. Send RNTO with destination name.");
        }
        self.shift(Trigger::Worked, Activity::Ready);
        if let (Some((code, first)), Outcome::Lines(lines)) = (job.heading(), &outcome) {
            let lines = lines.iter().map(Vec::as_slice);
            return cx.out.reply(Reply::indented(code, first, lines, "End."));
        }
        match (job, outcome) {
            (NameJob::Continued(code), Outcome::Lines(lines)) => {
                cx.out.reply(Reply::inside(code, lines));
                cx.out.reply(Reply::closing(code, "End."));
            }
            (NameJob::Continued(code), _) => {
                cx.out
                    .reply(Reply::closing(code, "Command aborted, lines are missing."));
            }
            (_, Outcome::Failed(_)) if aborting => cx.out.say::<426>("Command aborted."),
            (job, Outcome::Stat(entry)) => self.stat_done(job, *entry, cx),
            (NameJob::Mkd(shown), Outcome::Done) => {
                // RFC 959, appendix II: the name comes first, where clients look for it.
                let mut text = shown.quoted();
                text.extend_from_slice(b" created.");
                cx.out.say::<257>(text);
            }
            // draft-somers-ftp-mfxx §3.1: the facts that were set, and the name.
            (NameJob::Mfmt(time, path), Outcome::Done) => {
                let mut text = format!("Modify={time}; ").into_bytes();
                text.extend_from_slice(path.as_bytes());
                cx.out.say::<213>(text);
            }
            (NameJob::Change | NameJob::Rdel, Outcome::Done) => cx.out.say::<250>("OK."),
            (NameJob::Cksm, Outcome::Checksum(digest)) => cx.out.say::<213>(digest),
            (NameJob::Stage(path), Outcome::Staged(is_here)) => {
                let mut text = path.as_bytes().to_vec();
                if is_here {
                    text.extend_from_slice(b": is at hand.");
                    cx.out.say::<250>(text);
                } else {
                    text.extend_from_slice(b": is being retrieved from the archive...");
                    cx.out.say::<450>(text);
                }
            }
            (NameJob::Attributes(path), Outcome::Attributes(all)) => {
                let first = [b"Attributes of ", path.as_bytes()].concat();
                let lines = all.iter().map(ToString::to_string);
                let code = Code::of::<250>();
                cx.out.reply(Reply::indented(code, first, lines, "End."));
            }
            (NameJob::Free, Outcome::Free(bytes)) => cx.out.say::<213>(bytes.to_string()),
            (NameJob::Held(_), Outcome::Held(ranges)) => cx.out.reply(Marker::held(&ranges)),
            (NameJob::Held(dir), Outcome::Partials(all, is_cut)) => {
                self.partials_done(&dir, (all, is_cut), cx);
            }
            (_, outcome) => super::unexpected(outcome, cx),
        }
    }

    /// Answers `SITE HELD` of a directory with the names that the session may write.
    fn partials_done(
        &self,
        dir: &ResolvedPath,
        (all, is_cut): (Vec<Partial>, bool),
        cx: &mut Cx<'_>,
    ) {
        let is_cut = is_cut || all.len() > MAX_PARTIALS;
        let may = |partial: &Partial| {
            let real = joined(dir.real.as_bytes(), partial.name.as_bytes());
            self.view.permits(&real, Access::Write)
        };
        let all = all.into_iter().take(MAX_PARTIALS).filter(may);
        cx.out.reply(Partial::list(&dir.shown, all, is_cut));
    }

    /// Answers work that needed the facts of an object.
    fn stat_done(&mut self, job: NameJob, mut entry: Entry, cx: &mut Cx<'_>) {
        match job {
            NameJob::Cwd(to) if is_dir(&entry) => {
                self.view.enter(&to);
                cx.out.say::<250>("CWD command successful.");
            }
            NameJob::Chroot(real) if is_dir(&entry) && entry.target.is_none() => {
                cx.out.action(Action::NoLinks);
                self.view.set_root(&real);
                cx.out.say::<250>("OK.");
            }
            NameJob::Cwd(_) | NameJob::Chroot(_) => {
                refuse("NOT_A_DIRECTORY", "Not a directory", cx);
            }
            // A dangling link has neither size nor time of its own (RFC 3659 §3.3, §4.3).
            NameJob::Size | NameJob::Mdtm if entry.kind == EntryKind::Slink => {
                refuse("PATH_NOT_FOUND", "No such file or directory", cx);
            }
            NameJob::Size => cx.out.say::<213>(entry.size.to_string()),
            NameJob::Mdtm => {
                // Whole seconds, as every client of MDTM expects them (RFC 3659 §3.1 allows both).
                let time = TimeVal {
                    nanos: 0,
                    ..entry.modified
                };
                cx.out.say::<213>(time.to_string());
            }
            NameJob::Mlst(path) => {
                entry.name = path.as_bytes().to_vec();
                let mut line = Vec::new();
                entry.write_facts(self.facts, &mut line);
                let first = [b"status of ", path.as_bytes()].concat();
                cx.out
                    .reply(Reply::indented(Code::of::<250>(), first, [line], "End."));
            }
            _ => cx.out.say::<451>("Local error in processing."),
        }
    }
}

fn is_dir(entry: &Entry) -> bool {
    matches!(
        entry.kind,
        EntryKind::Dir | EntryKind::Cdir | EntryKind::Pdir
    )
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

pub(super) fn dot_dot() -> FtpPath {
    FtpPath::new("..").expect("two dots are a path")
}
