//! `Unfinished`: the log line of a running transfer.

use std::net::IpAddr;
use std::time::Instant;

use ftp_proto::types::{ListForm, Placement, TransferKind};
use gridftp_data::Watch;

use crate::error::{Error, chain};
use crate::log::TransferLine;

/// The verb and the path of a transfer, for the log.
fn about(kind: &TransferKind) -> (&'static str, &[u8]) {
    let (verb, path) = match kind {
        TransferKind::Retrieve { region, path, .. } => match region {
            None => ("RETR", path),
            Some(_) => ("ERET", path),
        },
        TransferKind::RetrieveBy { path, .. } => ("ERET", path),
        TransferKind::StoreBy { path, .. } => ("ESTO", path),
        TransferKind::RetrieveMemory { path, .. } => ("ERET memory", path),
        TransferKind::StoreMemory { path, .. } => ("ESTO memory", path),
        TransferKind::Store { into, path, .. } => match into {
            Placement::Whole | Placement::New => ("STOR", path),
            Placement::End => ("APPE", path),
            Placement::At(_) => ("ESTO", path),
        },
        TransferKind::List { form, path } => match form {
            ListForm::Long => ("LIST", path),
            ListForm::Names { .. } => ("NLST", path),
            ListForm::Facts { .. } => ("MLSD", path),
            ListForm::Tree { .. } => ("MLSR", path),
        },
    };
    (verb, path.as_bytes())
}

/// The log line of a transfer, written at its end or when it is dropped with its session.
pub(crate) struct Unfinished<'a> {
    user: &'a str,
    verb: &'static str,
    path: Vec<u8>,
    task: &'a str,
    peer: IpAddr,
    start: Instant,
    pub(crate) watch: Watch,
    written: bool,
}

impl<'a> Unfinished<'a> {
    /// Begins the line of a transfer.
    pub(crate) fn new(user: &'a str, kind: &TransferKind, task: &'a str, peer: IpAddr) -> Self {
        let (verb, path) = about(kind);
        Self {
            user,
            verb,
            path: path.to_vec(),
            task,
            peer,
            start: Instant::now(),
            watch: Watch::new(),
            written: false,
        }
    }

    pub(crate) fn write(&mut self, result: Result<u64, &Error>) {
        let why;
        let (bytes, result) = match result {
            Ok(bytes) => (bytes, "ok"),
            Err(error) => {
                why = chain(error);
                (self.watch.bytes(), why.as_str())
            }
        };
        self.line(bytes, result);
    }

    fn line(&mut self, bytes: u64, result: &str) {
        self.written = true;
        TransferLine {
            user: self.user,
            verb: self.verb,
            path: &self.path,
            bytes,
            took: self.start.elapsed(),
            streams: self.watch.most_carrying(),
            peer: self.peer,
            task: self.task,
            result,
        }
        .write();
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.written {
            self.line(self.watch.bytes(), "session ended");
        }
    }
}

#[cfg(test)]
mod tests {
    use ftp_wire::memory::MemoryLimits;
    use ftp_wire::path::FtpPath;

    use super::*;

    #[test]
    fn a_measurement_is_told_from_a_file() {
        let (path, most) = (FtpPath::root(), MemoryLimits::new(1, 1));
        let down = TransferKind::RetrieveMemory {
            path: path.clone(),
            most,
        };
        assert_eq!(about(&down), ("ERET memory", b"/".as_slice()));
        let up = TransferKind::StoreMemory { path, most };
        assert_eq!(about(&up), ("ESTO memory", b"/".as_slice()));
    }
}
