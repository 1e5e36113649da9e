//! Extended attributes, times and modes of files, read at the source and set at the destination.

use std::sync::atomic::{AtomicBool, Ordering};

use ftp_proto::client::FailureKind;
use ftp_wire::attribute::Attribute;
use ftp_wire::command::{Command, SiteCommand};
use ftp_wire::path::FtpPath;
use gridftp_dsi::ErrorKind;
use gridftp_dsi::types::Attribute as FileAttribute;
use gridftp_dsi_posix::{FileSink, FileSource};

use super::admission::Server;
use super::job::{Facts, FileJob};
use super::state::CopyState;
use crate::client::parse_mlst;
use crate::control::{Control, Replies};
use crate::error::{ControlError, TransferError};
use crate::url::show;

/// Name of the attributes of a source that tells none of them.
pub(super) const ALL: &str = "extended attributes";

/// Longest arguments of a command that a server takes, in bytes.
const LONGEST_LINE: usize = 8000;

/// A command that sets an attribute, a time or a mode of a copy.
#[derive(Debug)]
pub(super) struct Setting {
    /// The attribute, the time or the mode.
    part: String,
    replies: Replies,
}

/// The settings of a copy that is whole.
#[derive(Debug)]
pub(crate) struct Settings {
    control: Control,
    to: FtpPath,
    attributes: Vec<Setting>,
    /// Those of the mode and the time, once they are sent.
    meta: Option<Vec<Setting>>,
    /// Whether the server is asked for the facts behind these.
    asks: bool,
    /// The facts of the copy, once they are asked for.
    there: Option<Replies>,
    lacks: Lacks,
}

/// The parts of its source that a whole copy lacks.
#[derive(Debug, Default)]
pub(super) struct Lacks {
    parts: Vec<String>,
    /// The first failure, or that of a session that is gone.
    cause: Option<TransferError>,
}

impl Lacks {
    pub(super) fn add(&mut self, part: String, cause: TransferError) {
        self.parts.push(part);
        if self.cause.is_none() || cause.is_gone() {
            self.cause = Some(cause);
        }
    }

    /// The failure of the copy at `path`, if it lacks anything; a session that is gone has its own.
    pub(super) fn done(self, path: impl FnOnce() -> String) -> Result<(), TransferError> {
        match self.cause {
            None => Ok(()),
            Some(cause) if cause.is_gone() => Err(cause),
            Some(cause) => Err(TransferError::Unset {
                path: path(),
                parts: self.parts.join(", "),
                cause: Box::new(cause),
            }),
        }
    }
}

/// Whether it was told that an end does not keep this, or that the source does not tell it.
#[derive(Debug, Default)]
pub(super) struct Unkept {
    attributes: AtomicBool,
    times: AtomicBool,
    source_modes: AtomicBool,
    source_times: AtomicBool,
}

impl CopyState {
    /// Says whether attributes are carried over; a part of a file has none.
    pub(super) fn carries_attributes(&self) -> bool {
        self.options.xattrs && !self.is_partial()
    }

    pub(super) fn warn_unkept(&self, what: &str) {
        if !self.unkept.attributes.swap(true, Ordering::Relaxed) {
            self.warn(&format!(
                "{what} keeps no extended attributes; files are copied without them"
            ));
        }
    }

    /// Warns once of a mode, and once of a time, that the server of the sources does not tell, where
    /// copies are to have it.
    pub(super) fn warn_untold(&self, from: &[u8], facts: &Facts) {
        if self.source.is_none() || !self.preserves() {
            return;
        }
        let told = &self.unkept;
        for (part, is_told, warned) in [
            ("mode", facts.mode.is_some(), &told.source_modes),
            ("time", facts.modified.is_some(), &told.source_times),
        ] {
            if !is_told {
                let what = format!(
                    "tells no {part} of {} and perhaps others; --preserve sets none",
                    show(from)
                );
                self.warn_once(warned, self.source.as_ref(), &what);
            }
        }
    }

    /// Says whether a server keeps attributes, and warns once of one that does not.
    fn may_ask(&self, (control, abilities): Server<'_>) -> bool {
        if !abilities.xattrs {
            self.warn_unkept(&format!("{}: the server", control.site()));
        }
        abilities.xattrs
    }

    /// Asks for the attributes of a source at a server.
    pub(crate) fn ask_attributes(&self, server: Server<'_>, path: FtpPath) -> Option<Replies> {
        let asks = self.carries_attributes() && self.may_ask(server);
        let xattr = Command::Site(SiteCommand::Xattr(path));
        asks.then(|| server.0.send(xattr))
    }

    /// Reads the attributes of a source at a server.
    pub(crate) async fn told_attributes(
        &self,
        asked: Option<Replies>,
    ) -> Result<Vec<Attribute>, TransferError> {
        let Some(mut asked) = asked else {
            return Ok(Vec::new());
        };
        let reply = asked.finish().await?;
        let all = Attribute::all_of(&reply);
        all.ok_or_else(|| {
            asked
                .misbehaved("the reply to SITE XATTR is no list of attributes")
                .into()
        })
    }

    /// Sets the attributes that the source `told` of a received file, which has its mode and its name
    /// afterwards.
    pub(crate) async fn land_attributes(
        &self,
        told: Result<Vec<FileAttribute>, TransferError>,
        (sink, to): (&FileSink, &[u8]),
    ) -> Result<(), TransferError> {
        let mut lacks = Lacks::default();
        let told = told.unwrap_or_else(|error| {
            lacks.add(ALL.to_owned(), error);
            Vec::new()
        });
        for (name, value) in told {
            let part = describe(&name);
            if let Err(error) = sink.set_attributes(vec![(name, value)]).await {
                self.note_unset((part, to), error, &mut lacks);
            }
        }
        lacks.done(|| show(to))
    }

    /// Notes that an attribute of the copy at `to` was not set here.
    pub(super) fn note_unset(
        &self,
        (part, to): (String, &[u8]),
        error: gridftp_dsi::Error,
        lacks: &mut Lacks,
    ) {
        match error.kind() {
            // A file system that keeps none is no failure.
            ErrorKind::Unsupported => self.warn_unkept("the file system here"),
            _ => lacks.add(part, TransferError::local("set attributes", to, error)),
        }
    }

    /// Reads the attributes of a local source.
    pub(crate) async fn source_attributes(
        &self,
        (source, from): (&FileSource, &[u8]),
    ) -> Result<Vec<FileAttribute>, TransferError> {
        if !self.carries_attributes() {
            return Ok(Vec::new());
        }
        let failed = |error| TransferError::local("read", from, error);
        source.attributes().await.map_err(failed)
    }

    /// Reads the attributes of a local source, for commands to the server of the copy at `to`.
    pub(crate) async fn local_attributes(
        &self,
        source: (&FileSource, &[u8]),
        (server, to): (Server<'_>, &[u8]),
    ) -> Result<Vec<Attribute>, TransferError> {
        carried(self.source_attributes(source).await?, (server, to))
    }

    /// Sends the commands that give the copy at `to` the attributes, the mode and the time of its
    /// source. The first come first: a mode may take the permission to set them, and a copy without
    /// one does not have the time by which the next run would leave it.
    pub(crate) fn send_settings(
        &self,
        server: Server<'_>,
        job: &FileJob,
        to: FtpPath,
        attributes: Result<Vec<Attribute>, TransferError>,
    ) -> Settings {
        let mut lacks = Lacks::default();
        let attributes = attributes.unwrap_or_else(|error| {
            lacks.add(ALL.to_owned(), error);
            Vec::new()
        });
        let attributes = self.send_attributes(server, &attributes, &to);
        let mut settings = Settings {
            control: server.0.clone(),
            to,
            attributes,
            meta: None,
            // Between servers nothing but a time waits for a reply, and the facts are asked for before.
            asks: self.asks_of_done(server) && (self.source.is_none() || self.keeps_times()),
            there: None,
            lacks,
        };
        if settings.attributes.is_empty() {
            self.send_meta(job, &mut settings);
        }
        settings
    }

    /// Reads the replies to the commands that set attributes; those of the mode and the time follow.
    pub(crate) async fn settle_attributes(&self, job: &FileJob, settings: &mut Settings) {
        let sent = std::mem::take(&mut settings.attributes);
        self.settle_sent(sent, &mut settings.lacks).await;
        if settings.meta.is_none() {
            self.send_meta(job, settings);
        }
    }

    /// Reads the replies to commands that set attributes.
    pub(super) async fn settle_sent(&self, sent: Vec<Setting>, lacks: &mut Lacks) {
        for Setting { part, mut replies } in sent {
            match replies.finish().await {
                Ok(_) => {}
                // A file system that keeps none is no failure.
                Err(error) if error.kind() == Some(FailureKind::Unsupported) => {
                    self.warn_unkept("the file system of the server");
                }
                Err(error) => lacks.add(part, error.into()),
            }
        }
    }

    /// Reads the replies to all those commands; gives the facts of the copy, where they were asked for.
    pub(crate) async fn settle_settings(
        &self,
        job: &FileJob,
        mut settings: Settings,
    ) -> Result<Option<Facts>, TransferError> {
        self.settle_attributes(job, &mut settings).await;
        let Settings {
            meta,
            there,
            mut lacks,
            ..
        } = settings;
        for Setting { part, mut replies } in meta.into_iter().flatten() {
            match replies.finish().await {
                Ok(_) => {}
                // A time that only the next run would miss is no failure.
                Err(error) if error.reply().is_some() && !self.preserves() => {
                    self.warn_untimed(&error);
                }
                Err(error) => lacks.add(part, error.into()),
            }
        }
        let told = match there {
            // Only a later run misses them.
            Some(mut asked) => asked.told().await.ok().flatten(),
            None => None,
        };
        lacks.done(|| self.name_destination(job))?;
        let told = told.as_ref().and_then(parse_mlst);
        Ok(told.map(|(entry, known)| Facts::of_entry(&entry, known)))
    }

    /// Sends the commands that set attributes of the copy at `to`.
    pub(super) fn send_attributes(
        &self,
        server: Server<'_>,
        attributes: &[Attribute],
        to: &FtpPath,
    ) -> Vec<Setting> {
        if attributes.is_empty() || !self.may_ask(server) {
            return Vec::new();
        }
        let send = |attribute: &Attribute| {
            let set = SiteCommand::SetXattr(attribute.clone(), to.clone());
            Setting {
                part: describe(attribute.name()),
                replies: server.0.send(Command::Site(set)),
            }
        };
        attributes.iter().map(send).collect()
    }

    /// Sends the commands that give a copy the mode and, where it lacks nothing, the time of its source.
    fn send_meta(&self, job: &FileJob, settings: &mut Settings) {
        let Settings {
            control, to, asks, ..
        } = settings;
        self.warn_untold(&job.from, &job.facts);
        let is_whole = settings.lacks.cause.is_none();
        let mode = job.facts.mode.filter(|_| self.preserves());
        let time = job.facts.time_val();
        let time = time.filter(|_| self.keeps_times() && is_whole);
        let chmod = |mode| control.send(Command::Site(SiteCommand::Chmod(mode, to.clone())));
        let utime = |time| control.send_modified(time, to.clone());
        let setting = |part: &str, replies| Setting {
            part: part.to_owned(),
            replies,
        };
        let mode = mode.map(|mode| setting("mode", chmod(mode)));
        let time = time.map(|time| setting("time", utime(time)));
        let there = asks.then(|| control.send(Command::Mlst(Some(to.clone()))));
        settings.meta = Some(mode.into_iter().chain(time).collect());
        settings.there = there;
    }

    /// Warns once of a time that only the next run would look at.
    fn warn_untimed(&self, error: &ControlError) {
        if !self.unkept.times.swap(true, Ordering::Relaxed) {
            self.warn(&format!(
                "{error}; the next run copies these files again, use --checksum"
            ));
        }
    }
}

/// The name of an attribute, made safe to print.
pub(super) fn describe(name: &[u8]) -> String {
    format!("attribute {}", show(name))
}

/// Attributes of a file as commands have them, for the server of the copy at `to`.
pub(super) fn carried(
    all: Vec<FileAttribute>,
    (server, to): (Server<'_>, &[u8]),
) -> Result<Vec<Attribute>, TransferError> {
    let all: Option<Vec<_>> = (all.into_iter())
        .map(|(name, value)| Attribute::new(name, value))
        .collect();
    let all = all.ok_or_else(|| uncarried(to, "an attribute has a name that no command has"))?;
    must_fit(&all, server, to)?;
    Ok(all)
}

/// Refuses attributes with a command too long for the server of the copy at `to`.
pub(crate) fn must_fit(
    attributes: &[Attribute],
    (_, abilities): Server<'_>,
    to: &[u8],
) -> Result<(), TransferError> {
    let encoded = |one: &Attribute| one.name().len() * 3 + one.value().len() * 4 / 3;
    let is_long = |one: &&Attribute| encoded(one) + to.len() > LONGEST_LINE;
    match attributes.iter().find(is_long).filter(|_| abilities.xattrs) {
        None => Ok(()),
        Some(one) => {
            let why = format!(
                "{} and the path are too long for one command",
                describe(one.name())
            );
            Err(uncarried(to, why))
        }
    }
}

fn uncarried(to: &[u8], why: impl Into<String>) -> TransferError {
    let error = gridftp_dsi::Error::new(ErrorKind::TooLarge, "attributes").because(why.into());
    TransferError::local("send attributes", to, error)
}
