//! Transfers: RETR, STOR, APPE and listings, REST and ALLO before them, ABOR after them.

use byte_ranges::RangeSet;
use ftp_wire::command::{Mode, Restart, StorAttr, Tag};
use ftp_wire::facts::TimeVal;
use ftp_wire::marker::{Marker, Perf};
use ftp_wire::path::FtpPath;
use ftp_wire::reply::{Code, Reply};

use super::channel::Ready;
use super::out::Cx;
use super::state::{Activity, Job, Moving, PassiveForm, Trigger};
use super::user::LoggedIn;
use super::view::{Access, ResolvedPath};
use crate::types::{Action, Event, ListForm, Outcome, Placement, Transfer, TransferKind};

/// The text of the 150 at the beginning of a transfer.
const BEGINNING: &str = "Beginning transfer.";

/// Settings for the next transfer; each is used up by the transfer it applies to.
#[derive(Debug, Default)]
pub(super) struct NextTransfer {
    /// `REST`; spent by any transfer.
    restart: Option<Restart>,
    /// `ALLO`; spent by any store.
    pub(super) size: Option<u64>,
    /// `SITE STORATTR modify=`; spent by `STOR`.
    modified: Option<TimeVal>,
    /// `SCKS`, `SITE STORATTR x.checksum.`; spent by `STOR`.
    checksum: Option<(String, String)>,
    /// `SITE STORATTR x.exclusive=1`; spent by `STOR`.
    exclusive: bool,
}

impl LoggedIn {
    /// `ALLO`.
    pub(super) fn announce_size(&mut self, size: u64, cx: &mut Cx<'_>) {
        self.next.size = Some(size);
        cx.out.say::<200>("ALLO command successful.");
    }

    /// `REST`.
    pub(super) fn restart_at(&mut self, restart: Restart, cx: &mut Cx<'_>) {
        self.next.restart = Some(restart);
        cx.out
            .say::<350>("Restart Marker OK. Send STORE or RETR to initiate transfer.");
    }

    /// `SCKS`.
    pub(super) fn store_checksum(&mut self, algorithm: &str, digest: String, cx: &mut Cx<'_>) {
        if self.expect_digest(algorithm, digest, cx) {
            cx.out.say::<200>("OK.");
        }
    }

    /// `NLST`.
    pub(super) fn list_names(&mut self, path: Option<&FtpPath>, cx: &mut Cx<'_>) {
        let before = path.map(directory).unwrap_or_default().to_vec();
        self.list(path, |_, _| ListForm::Names { before }, cx);
    }

    /// `MLSR`.
    pub(super) fn list_tree(&mut self, path: Option<&FtpPath>, cx: &mut Cx<'_>) {
        let form = ListForm::Tree {
            facts: self.facts,
            follow: self.tree_follows,
            fail: self.tree_fails,
        };
        let found = self.find_tree(path, Access::Metadata, cx);
        self.list_found(found, |_, _| form, cx);
    }

    /// Sends a listing of `path`, in a form that may depend on the path.
    pub(super) fn list(
        &mut self,
        path: Option<&FtpPath>,
        form: impl FnOnce(&Self, &ResolvedPath) -> ListForm,
        cx: &mut Cx<'_>,
    ) {
        let found = self.find(path, Access::Metadata, cx);
        self.list_found(found, form, cx);
    }

    /// `SITE STORATTR`.
    pub(super) fn store_attributes(&mut self, attributes: StorAttr, cx: &mut Cx<'_>) {
        if attributes.exclusive == Some(true) && !cx.settings.exclusive {
            cx.out.say::<504>("x.exclusive is not available.");
            return;
        }
        if let Some((algorithm, digest)) = attributes.checksum
            && !self.expect_digest(&algorithm, digest, cx)
        {
            return;
        }
        if attributes.modified.is_some() {
            self.next.modified = attributes.modified;
        }
        if let Some(exclusive) = attributes.exclusive {
            self.next.exclusive = exclusive;
        }
        cx.out.say::<250>("OK.");
    }

    /// Remembers a digest; answers 500 where the server lacks its algorithm.
    fn expect_digest(&mut self, algorithm: &str, digest: String, cx: &mut Cx<'_>) -> bool {
        match cx.settings.checksum(algorithm) {
            Some(known) => {
                self.next.checksum = Some((known.to_owned(), digest));
                true
            }
            None => {
                cx.out.say::<500>("Unknown checksum algorithm requested.");
                false
            }
        }
    }

    pub(super) fn retrieve(
        &mut self,
        path: &FtpPath,
        region: Option<(u64, Option<u64>)>,
        tag: Option<Tag>,
        cx: &mut Cx<'_>,
    ) {
        let held = self.take_held(tag);
        let Some(found) = self.find(Some(path), Access::Read, cx) else {
            return;
        };
        self.begin(
            TransferKind::Retrieve {
                path: found.real,
                region,
                held,
            },
            tag,
            cx,
        );
    }

    pub(super) fn store(
        &mut self,
        path: &FtpPath,
        into: Placement,
        tag: Option<Tag>,
        cx: &mut Cx<'_>,
    ) {
        let held = self.take_held(tag);
        let size = self.next.size.take();
        let (modified, checksum) = match into {
            Placement::Whole | Placement::New => {
                (self.next.modified.take(), self.next.checksum.take())
            }
            Placement::At(_) | Placement::End => (None, None),
        };
        let is_new = into.is_whole() && std::mem::take(&mut self.next.exclusive);
        let into = if is_new { Placement::New } else { into };
        let Some(found) = self.find(Some(path), Access::Write, cx) else {
            return;
        };
        self.begin(
            TransferKind::Store {
                path: found.real,
                into,
                held,
                size,
                modified,
                checksum,
            },
            tag,
            cx,
        );
    }

    fn list_found(
        &mut self,
        found: Option<ResolvedPath>,
        form: impl FnOnce(&Self, &ResolvedPath) -> ListForm,
        cx: &mut Cx<'_>,
    ) {
        // REST applies to the next transfer of any kind, and a listing ignores it.
        self.next.restart = None;
        if let Some(found) = found {
            let form = form(self, &found);
            let path = found.real;
            self.begin(TransferKind::List { path, form }, None, cx);
        }
    }

    /// The facts of one directory, as `MLSD` and `MLSC` print them.
    pub(super) fn facts_of(&self, found: &ResolvedPath) -> ListForm {
        ListForm::Facts {
            facts: self.facts,
            root: found.shown.as_bytes() == b"/",
        }
    }

    /// The ranges held by the receiver of a transfer with this tag according to `REST`.
    pub(super) fn take_held(&mut self, tag: Option<Tag>) -> RangeSet {
        let held = match self.next.restart.take() {
            Some(Restart::Offset(n)) => RangeSet::up_to(n),
            Some(Restart::Ranges(ranges)) => ranges,
            None => return RangeSet::new(),
        };
        match self.data.channel.mode {
            // The end of a plain stream may be anywhere, so it can only begin at the first hole.
            Mode::Stream if tag.is_none() => RangeSet::up_to(held.first_hole()),
            Mode::Stream | Mode::Extended => held,
        }
    }

    /// Hands a transfer to the caller, or refuses it.
    pub(super) fn begin(&mut self, kind: TransferKind, tag: Option<Tag>, cx: &mut Cx<'_>) {
        if !self.is_protected_enough(cx) {
            return;
        }
        let mut transfer = Transfer::new(kind, self.data.channel.clone());
        transfer.channel.protection = cx.security.data();
        transfer.tag = tag;
        transfer.drains = !cx.out.dialect.is_gridftp();
        let sending = transfer.is_sending();
        (transfer.perf_every, transfer.restart_every) = self.data.markers(sending);
        match self.data.readiness(&transfer) {
            Err(text) => {
                cx.out.say::<425>(text);
            }
            Ok(Ready::Now) => self.hand_over(transfer, cx),
            Ok(Ready::AfterListen(form, family)) => {
                let job = Job::DelayedListen(form, Box::new(transfer));
                self.start(self.data.listen_action(form, family, cx), job, cx);
            }
        }
    }

    fn hand_over(&mut self, transfer: Transfer, cx: &mut Cx<'_>) {
        let kind = Moving {
            keeps_channel: transfer.channel.mode == Mode::Extended,
            is_waiting: false,
        };
        let ticket = cx.out.action(Action::Transfer(Box::new(transfer)));
        self.shift(
            Trigger::Start,
            Activity::Opening {
                ticket,
                kind,
                aborting: false,
            },
        );
    }

    /// Continues a transfer with the listener of a delayed passive command, or refuses it.
    pub(super) fn listening_late(
        &mut self,
        form: PassiveForm,
        transfer: Transfer,
        aborting: bool,
        outcome: Outcome,
        cx: &mut Cx<'_>,
    ) {
        if aborting {
            self.shift(Trigger::Worked, Activity::Ready);
            cx.out.say::<426>("Transfer aborted.");
            self.data.drop_all(cx);
        } else if self.listening(form, true, outcome, cx) {
            self.hand_over(transfer, cx);
        } else {
            self.shift(Trigger::Worked, Activity::Ready);
        }
    }

    /// Handles the progress of the running transfer.
    pub(super) fn transfer_event(&mut self, event: Event, cx: &mut Cx<'_>) {
        match (&mut self.activity, event) {
            (Activity::Opening { kind, .. }, Event::Waiting) => {
                let code = Code::of::<150>();
                if std::mem::replace(&mut kind.is_waiting, true) {
                    let line = "The file is not at hand yet.";
                    cx.out.reply(Reply::inside(code, [line]));
                } else {
                    let line = "Waiting for the storage, which retrieves the file.";
                    cx.out.reply(Reply::opening(code, line));
                }
            }
            (
                &mut Activity::Opening {
                    ticket,
                    kind,
                    aborting,
                },
                Event::Opened { reused },
            ) => {
                if kind.is_waiting {
                    cx.out.reply(Reply::closing(Code::of::<150>(), BEGINNING));
                } else if reused {
                    cx.out
                        .say::<125>("Beginning transfer; reusing existing data connection.");
                } else {
                    cx.out.say::<150>(BEGINNING);
                }
                self.shift(
                    Trigger::Opened,
                    Activity::Moving {
                        ticket,
                        kind,
                        aborting,
                    },
                );
            }
            (Activity::Moving { .. }, Event::Received(ranges)) if !ranges.is_empty() => {
                for marker in Marker::restarts(&ranges) {
                    cx.out.reply(marker.to_reply());
                }
            }
            (
                Activity::Moving { .. },
                Event::Moved {
                    at,
                    stripe,
                    stripes,
                    bytes,
                    waits,
                },
            ) => {
                let mut perf = Perf::new(at, stripe, bytes, stripes);
                perf.waits = waits.map(|waits| *waits);
                cx.out.reply(Marker::Perf(perf).to_reply());
            }
            // A marker before the 150 or of another kind of work would confuse any client.
            _ => {}
        }
    }

    /// Answers the end of a transfer.
    pub(super) fn transfer_done(
        &mut self,
        kind: Moving,
        opened: bool,
        aborting: bool,
        outcome: Outcome,
        cx: &mut Cx<'_>,
    ) {
        self.shift(Trigger::Ended, Activity::Ready);
        let is_begun = kind.is_waiting && !opened;
        if is_begun {
            cx.out
                .reply(Reply::closing(Code::of::<150>(), "The wait is over."));
        }
        // Connections are kept only where none of this transfer's data is left on them.
        let mut in_step = !opened;
        match outcome {
            Outcome::Transferred { .. }
            | Outcome::Digested { .. }
            | Outcome::Proven(_)
            | Outcome::Unpacked(_)
            | Outcome::Done => {
                in_step = kind.keeps_channel;
                if !opened && !is_begun {
                    // RFC 959 §5.4: a transfer's 226 follows a preliminary reply.
                    cx.out.say::<150>(BEGINNING);
                }
                match outcome {
                    Outcome::Proven(receipt) => {
                        cx.out.say::<226>(format!("Transfer Complete. {receipt}"));
                    }
                    Outcome::Digested {
                        bytes,
                        algorithm,
                        digest,
                    } => {
                        let told = format!("Bytes={bytes};{algorithm}={digest};");
                        cx.out.say::<226>(format!("Transfer Complete. {told}"));
                    }
                    Outcome::Unpacked(stored) => {
                        cx.out.say::<226>(format!("Transfer Complete. {stored}"));
                    }
                    _ => cx.out.say::<226>("Transfer Complete."),
                }
                self.data.keep();
            }
            Outcome::Failed(reply) if aborting && reply.code() == Code::of::<426>() => {
                cx.out.reply(reply);
            }
            _ if aborting => cx.out.say::<426>("Transfer aborted."),
            Outcome::Spared(reply) => {
                in_step = kind.keeps_channel;
                super::unexpected(Outcome::Failed(reply), cx);
                self.data.keep();
            }
            other => super::unexpected(other, cx),
        }
        if aborting || !in_step {
            self.data.drop_all(cx);
        }
    }

    /// `ABOR` when nothing runs any more.
    pub(super) fn abort_idle(&mut self, cx: &mut Cx<'_>) {
        // RFC 959 §4.1.3: the data connection is closed if it is still open.
        if self.data.is_set() {
            self.data.drop_all(cx);
        }
        cx.out.say::<226>("Abort successful");
    }
}

/// The path without its last component, up to and with the slash.
fn directory(path: &FtpPath) -> &[u8] {
    let path = path.as_bytes();
    let end = path.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
    path.get(..end).unwrap_or_default()
}
