//! `Dialect`: whether a client speaks GridFTP, and the form of failures for it.

use ftp_wire::command::{Command, Mode, SiteCommand};
use ftp_wire::opts::Opts;
use ftp_wire::reply::Reply;

/// The dialect of a client, as its commands show it.
#[derive(Debug, Default)]
pub(super) struct Dialect {
    is_gridftp: bool,
}

impl Dialect {
    /// Notes a command.
    pub(super) fn hear(&mut self, command: &Command) {
        self.is_gridftp |= is_gridftp(command);
    }

    /// Says whether one of them was of GridFTP.
    pub(super) const fn is_gridftp(&self) -> bool {
        self.is_gridftp
    }

    /// The form of a reply for this client.
    ///
    /// Clients of plain FTP get one line: some take the lines of one failure for several.
    pub(super) fn shape(&self, reply: Reply) -> Reply {
        match reply.lines() {
            [reason, ..] if !self.is_gridftp && reply.error_class().is_some() => {
                Reply::new(reply.code(), reason.clone())
            }
            _ => reply,
        }
    }
}

/// Says whether only clients of GridFTP send this command.
fn is_gridftp(command: &Command) -> bool {
    match command {
        Command::Opts(Opts::Facts(_) | Opts::Utf8) => false,
        Command::Spor(_)
        | Command::Spas(_)
        | Command::Mode(Mode::Extended)
        | Command::Eret(..)
        | Command::Esto(..)
        | Command::Mlsr(_)
        | Command::Mlsc(_)
        | Command::Cksm { .. }
        | Command::Scks { .. }
        | Command::Opts(_)
        | Command::Sbuf(_)
        | Command::Trev(..)
        | Command::Adat(_)
        | Command::Dcau(_)
        | Command::Dcsc(_) => true,
        Command::Site(site) => matches!(
            site,
            SiteCommand::Buffer(..)
                | SiteCommand::Held(_)
                | SiteCommand::Waits
                | SiteCommand::Rate(_)
                | SiteCommand::DropHeld(_)
                | SiteCommand::Xattr(_)
                | SiteCommand::SetXattr(..)
                | SiteCommand::ClientInfo(_)
                | SiteCommand::TaskId(_)
                | SiteCommand::StorAttr(_)
                | SiteCommand::Stack(..)
                | SiteCommand::Rdel(_)
                | SiteCommand::Stage(..)
                | SiteCommand::Trnc(..)
        ),
        _ => false,
    }
}
