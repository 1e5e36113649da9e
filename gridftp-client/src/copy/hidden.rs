//! `Hidden`: the name that an upload to a server of others has until it is whole and takes its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use ftp_proto::client::FailureKind;
use ftp_wire::command::Command;
use ftp_wire::facts::EntryKind;
use ftp_wire::path::FtpPath;

use crate::abilities::Abilities;
use crate::client::parse_mlst;
use crate::control::{Control, Replies};
use crate::copy::job::{FileJob, Item};
use crate::copy::look::told_by;
use crate::copy::queue::Taken;
use crate::copy::shared::Shared;
use crate::error::{ControlError, TransferError};
use crate::names;
use crate::url::show;

/// The end of a hidden name; its beginning is a dot.
const END: &[u8] = b".gridftp-part";
/// Bytes that a name may have on most systems.
const LONGEST: usize = 255;

/// What the uploads of a copy know of hidden names at their server.
#[derive(Debug, Default)]
pub(crate) struct Hiding {
    /// Whether the server was asked if it renames.
    asked: AtomicBool,
    /// Whether it does not.
    off: AtomicBool,
    /// Hidden files of uploads that were given up.
    left: Mutex<Vec<FtpPath>>,
}

impl Hiding {
    /// Notes that an upload was given up.
    pub(crate) fn leave(&self, item: &Item) {
        if let Item::File(job) = item
            && let Some(hidden) = &job.hidden
        {
            let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
            left.push(hidden.clone());
        }
    }

    /// Says whether uploads were given up that left something.
    pub(crate) fn has_left(&self) -> bool {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        !left.is_empty()
    }

    /// Removes what uploads left that were given up.
    pub(crate) async fn clean(&self, control: &Control) {
        let left = {
            let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *left)
        };
        for path in left {
            // A server that kept nothing of it says so; one that is gone is asked again.
            let told = control.send(Command::Dele(path.clone())).finish().await;
            if let Err(ControlError::Lost { .. }) = told {
                let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
                left.push(path);
            }
        }
    }

    /// The hidden name of an upload; `None` where it is written under its own name.
    async fn name(
        &self,
        control: &Control,
        job: &FileJob,
    ) -> Result<Option<FtpPath>, TransferError> {
        if job.straight || self.off.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let name = names::last(&job.to);
        if name.starts_with(b".") && name.ends_with(END) {
            return Err(TransferError::BadName {
                name: show(&job.to),
                why: "another upload may have it until it is whole",
            });
        }
        let hidden = [b".", name, END].concat();
        if hidden.len() > LONGEST {
            return Ok(None);
        }
        let Some(at) = control.path(&names::join(names::parent(&job.to), &hidden)) else {
            return Ok(None);
        };
        if !self.asked.swap(true, Ordering::Relaxed) {
            // One that lets nobody rename says so of a file that is not there, too.
            let mut from = control.send(Command::Rnfr(at.clone()));
            // RFC 959 §4.1.3: nothing else may follow; where the file is left over, it keeps its name.
            drop(control.send(Command::Rnto(at.clone())));
            let kind = from.finish().await.err().and_then(|error| error.kind());
            if let Some(FailureKind::Denied | FailureKind::Unsupported) = kind {
                self.off.store(true, Ordering::Relaxed);
                return Ok(None);
            }
        }
        Ok(Some(at))
    }
}

impl Shared {
    /// The name to write a file under until it is whole; `None` for its own. Our server keeps such
    /// files apart by itself, a part is written into what is there, and the layers of a server show in
    /// names.
    pub(crate) async fn hide(
        &self,
        control: &Control,
        abilities: &Abilities,
        job: &FileJob,
    ) -> Result<Option<FtpPath>, TransferError> {
        if abilities.held || self.is_partial() || self.through_layers() {
            return Ok(None);
        }
        self.hiding.name(control, job).await
    }
}

/// A whole file under its hidden name, and what is under its own.
pub(crate) struct Hidden {
    at: FtpPath,
    to: FtpPath,
    there: There,
}

/// A file that is being given its own name.
pub(crate) struct Renaming {
    at: FtpPath,
    to: FtpPath,
    /// What was sent for that, unless what is there bars it.
    sent: Option<[Replies; 2]>,
}

/// The question what is under a name.
enum There {
    Facts(Replies),
    /// As `LIST` shows it.
    Line(Replies),
}

impl Hidden {
    /// Asks what the file is to replace.
    pub(crate) fn ask(control: &Control, mlst: bool, at: FtpPath, to: FtpPath) -> Self {
        let there = match mlst {
            true => There::Facts(control.send(Command::Mlst(Some(to.clone())))),
            false => There::Line(control.send(Command::Stat(Some(to.clone())))),
        };
        Self { at, to, there }
    }

    /// Says whether there is something that a rename must not replace.
    pub(crate) async fn bars_rename(self) -> Result<bool, ControlError> {
        self.there.bars_rename().await
    }

    /// Sends for the file's own name, unless what is there bars that.
    pub(crate) async fn rename(self, control: &Control) -> Result<Renaming, ControlError> {
        let Self { at, to, there } = self;
        let bars = there.bars_rename().await?;
        let sent = (!bars).then(|| rename(control, &at, &to));
        Ok(Renaming { at, to, sent })
    }

    /// Gives the file its own name; `None` where that cannot be, and the file goes back to be written
    /// straight there.
    pub(crate) async fn publish(
        self,
        control: &Control,
        shared: &Shared,
        taken: Taken,
    ) -> Option<Taken> {
        match self.rename(control).await {
            Ok(renaming) => renaming.publish(control, shared, taken).await,
            Err(error) => {
                shared.fail(taken, &error.into());
                None
            }
        }
    }
}

impl Renaming {
    /// As [`Hidden::publish`], whose second half it is.
    pub(crate) async fn publish(
        self,
        control: &Control,
        shared: &Shared,
        taken: Taken,
    ) -> Option<Taken> {
        let at = self.at.clone();
        match self.done(control, &shared.hiding).await {
            Ok(true) => Some(taken),
            Ok(false) => {
                let _told = control.send(Command::Dele(at)).finish().await;
                go_straight(taken);
                None
            }
            Err(error) => {
                shared.fail(taken, &error.into());
                None
            }
        }
    }

    /// Says whether the file has its own name now.
    pub(crate) async fn done(
        self,
        control: &Control,
        hiding: &Hiding,
    ) -> Result<bool, ControlError> {
        let Self { at, to, sent } = self;
        let Some(sent) = sent else {
            return Ok(false);
        };
        match renamed(sent).await? {
            (true, done @ true) => return Ok(done),
            (true, false) => {}
            (false, _) => {
                hiding.off.store(true, Ordering::Relaxed);
                return Ok(false);
            }
        }
        // It may refuse to replace a file.
        let mut removed = control.send(Command::Dele(to.clone()));
        if told_by(&mut removed).await?.is_none() {
            return Ok(false);
        }
        Ok(renamed(rename(control, &at, &to)).await? == (true, true))
    }
}

/// Sends a rename; nothing may come between its two commands (RFC 959 §4.1.3).
fn rename(control: &Control, at: &FtpPath, to: &FtpPath) -> [Replies; 2] {
    let from = control.send(Command::Rnfr(at.clone()));
    [from, control.send(Command::Rnto(to.clone()))]
}

/// Says whether both commands of a rename were accepted.
async fn renamed([mut from, mut into]: [Replies; 2]) -> Result<(bool, bool), ControlError> {
    let from = told_by(&mut from).await?;
    Ok((from.is_some(), told_by(&mut into).await?.is_some()))
}

/// Says whether a store under a hidden name may have been refused for that name alone.
pub(crate) fn may_be_for_name(refusal: &ControlError) -> bool {
    let kind = refusal.kind();
    kind.is_some_and(|kind| kind != FailureKind::NoSpace && !kind.is_transient())
        && !refusal.is_transient()
}

impl There {
    /// Whether there is something that is no regular file.
    async fn bars_rename(self) -> Result<bool, ControlError> {
        match self {
            Self::Facts(mut facts) => {
                let told = told_by(&mut facts).await?;
                let known = told.as_ref().and_then(parse_mlst);
                Ok(known.is_some_and(|(entry, _)| entry.kind != EntryKind::File))
            }
            Self::Line(mut line) => {
                let told = told_by(&mut line).await?;
                Ok(told.is_some_and(|told| told.inner().iter().any(|line| is_special(line))))
            }
        }
    }
}

/// Whether a line of a listing is that of a pipe, a socket or a device.
fn is_special(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    let kind = line.first().is_some_and(|kind| b"psbc".contains(kind));
    let access = line.get(1..10).unwrap_or_default();
    kind && access.len() == 9 && access.iter().all(|bit| b"rwxsStT-".contains(bit))
}

/// Gives a file back to be written under its own name.
pub(crate) fn go_straight(mut taken: Taken) {
    if let Item::File(job) = taken.item_mut() {
        job.straight = true;
        job.hidden = None;
        job.forget();
    }
}

#[cfg(test)]
mod tests {
    use ftp_proto::client::Settings;
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

    use super::*;
    use crate::played;

    #[test]
    fn pipes_and_devices_are_known_by_their_lines() {
        assert!(is_special(
            b"crw-rw-rw-    1 0  0   1,   3 Jan 01 00:00 null"
        ));
        assert!(is_special(b" prw-r--r--    1 0  0   0 Jan 01 00:00 pipe"));
        assert!(!is_special(b"-rw-r--r--    1 0  0   0 Jan 01 00:00 file"));
        assert!(!is_special(b"public notice"));
    }

    /// Renames with a server that gives these replies; says what was sent.
    async fn published(replies: &[&str]) -> (bool, Vec<String>) {
        let (control, mut banner, far) = played::connect(Settings::default());
        let [at, to] = ["/.f.gridftp-part", "/f"].map(|name| FtpPath::new(name).unwrap());
        let hiding = Hiding::default();
        let (far, mut back) = tokio::io::split(far);
        let mut lines = BufReader::new(far).lines();
        back.write_all(b"220 ready\r\n").await.unwrap();
        banner.finish().await.unwrap();
        let server = async {
            let mut sent = Vec::new();
            for reply in replies {
                sent.push(lines.next_line().await.unwrap().unwrap());
                back.write_all(format!("{reply}\r\n").as_bytes())
                    .await
                    .unwrap();
            }
            sent
        };
        let hidden = Hidden::ask(&control, true, at, to);
        let renamed = async { hidden.rename(&control).await?.done(&control, &hiding).await };
        let (done, sent) = tokio::join!(renamed, server);
        (done.unwrap(), sent)
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_lost_session_did_not_remove_is_still_to_be_removed() {
        let (control, _banner, far) = played::connect(Settings::default());
        drop(far);
        let hiding = Hiding::default();
        let mut job = FileJob::new(b"f".to_vec(), b"/f".to_vec());
        job.hidden = FtpPath::new("/.f.gridftp-part");
        hiding.leave(&Item::File(Box::new(job)));
        hiding.clean(&control).await;
        assert!(hiding.has_left());
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_replaces_nothing_is_asked_to_remove_the_old_file() {
        let (done, sent) = published(&[
            "550 nothing there",
            "350 well",
            "553 it exists",
            "250 gone",
            "350 well",
            "250 done",
        ])
        .await;
        assert!(done);
        let verbs: Vec<&str> = sent.iter().filter_map(|line| line.get(..4)).collect();
        assert_eq!(verbs, ["MLST", "RNFR", "RNTO", "DELE", "RNFR", "RNTO"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_bars_rename_is_not_replaced_by_one() {
        let facts = "250-Listing\r\n type=OS.unix=chr;size=0; /f\r\n250 End";
        let (done, sent) = published(&[facts]).await;
        assert!(!done);
        assert_eq!(sent, ["MLST /f"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_rename_gets_the_file_under_its_name() {
        let (done, _) = published(&["550 no", "550 not you", "503 RNFR first"]).await;
        assert!(!done);
    }
}
