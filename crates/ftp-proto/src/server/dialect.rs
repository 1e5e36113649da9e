//! `Dialect`: whether a client speaks GridFTP, and the form in which it is told of failures for
//! that.

use ftp_wire::command::{Command, Mode, Site};
use ftp_wire::opts::Opts;
use ftp_wire::reply::Reply;

/// What is known of the client by the commands that it has sent.
#[derive(Debug, Default)]
pub(super) struct Dialect {
    is_gridftp: bool,
}

impl Dialect {
    /// Notes a command.
    pub(super) fn hear(&mut self, command: &Command) {
        self.is_gridftp |= is_gridftp(command);
    }

    /// Whether one was of GridFTP.
    pub(super) const fn is_gridftp(&self) -> bool {
        self.is_gridftp
    }

    /// The form of a reply for this client.
    ///
    /// Clients of plain FTP need one line: some take the lines of a failure for the name of another
    /// one.
    pub(super) fn shape(&self, reply: Reply) -> Reply {
        match reply.lines() {
            [reason, ..] if !self.is_gridftp && reply.error_class().is_some() => {
                Reply::new(reply.code(), reason.clone())
            }
            _ => reply,
        }
    }
}

/// Says whether only clients of GridFTP send a command.
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
            Site::Buffer(..)
                | Site::Held(_)
                | Site::DropHeld(_)
                | Site::ClientInfo(_)
                | Site::TaskId(_)
                | Site::StorAttr(_)
                | Site::Stack(..)
                | Site::Rdel(_)
                | Site::Trnc(..)
        ),
        _ => false,
    }
}
