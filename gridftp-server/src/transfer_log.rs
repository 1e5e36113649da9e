//! `Unfinished`: the log line of a running transfer.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

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
        TransferKind::RetrieveFiles { dir, .. } => ("ERET files", dir),
        TransferKind::StoreFiles { dir, .. } => ("ESTO files", dir),
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

/// The client of a transfer, as log lines name it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requester<'a> {
    /// Login name.
    pub(crate) user: &'a str,
    /// The value of `SITE TASKID`.
    pub(crate) task: &'a str,
    /// The control connection's other end.
    pub(crate) peer: IpAddr,
    /// Lines of small files so far.
    pub(crate) files: &'a AtomicUsize,
}

/// The log line of a small file that is being stored; dropped before its end, the outcome is unknown.
pub(crate) struct Storing<'a> {
    requester: Requester<'a>,
    verb: &'static str,
    path: Vec<u8>,
    begun: Instant,
    has_ended: bool,
}

impl Storing<'_> {
    /// Writes the line of a stored file of so many bytes, or none.
    pub(crate) fn end(mut self, bytes: Option<u64>) {
        self.has_ended = true;
        if let Some(bytes) = bytes {
            self.requester
                .file((self.verb, &self.path), self.begun.elapsed(), bytes);
        }
    }
}

impl Drop for Storing<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            let about = (self.verb, self.path.as_slice());
            self.requester
                .line(about, self.begun.elapsed(), (0, 1), "transfer ended");
        }
    }
}

impl<'a> Requester<'a> {
    /// Begins the line of a small file that is stored.
    pub(crate) fn begin(self, verb: &'static str, path: &[u8]) -> Storing<'a> {
        Storing {
            requester: self,
            verb,
            path: path.to_vec(),
            begun: Instant::now(),
            has_ended: false,
        }
    }

    /// Writes the line of a small file that shared its transfer with others.
    pub(crate) fn file(self, about: (&'static str, &[u8]), took: Duration, bytes: u64) {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.line(about, took, (bytes, 1), "ok");
    }

    fn line(
        self,
        (verb, path): (&'static str, &[u8]),
        took: Duration,
        (bytes, streams): (u64, u32),
        result: &str,
    ) {
        TransferLine {
            user: self.user,
            verb,
            path,
            bytes,
            took,
            streams,
            peer: self.peer,
            task: self.task,
            result,
        }
        .write();
    }
}

/// The log line of a transfer, written at its end or when it is dropped with its session.
pub(crate) struct Unfinished<'a> {
    requester: Requester<'a>,
    verb: &'static str,
    path: Vec<u8>,
    start: Instant,
    pub(crate) watch: Watch,
    written: bool,
}

impl<'a> Unfinished<'a> {
    /// Begins the line of a transfer.
    pub(crate) fn new(requester: Requester<'a>, kind: &TransferKind) -> Self {
        let (verb, path) = about(kind);
        Self {
            requester,
            verb,
            path: path.to_vec(),
            start: Instant::now(),
            watch: Watch::new(),
            written: false,
        }
    }

    pub(crate) fn write(&mut self, result: Result<u64, &Error>) {
        let has_lines = self.requester.files.load(Ordering::Relaxed) > 0;
        if has_lines && result.is_ok() {
            self.written = true;
            return;
        }
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
        let streams = self.watch.most_carrying();
        let about = (self.verb, self.path.as_slice());
        self.requester
            .line(about, self.start.elapsed(), (bytes, streams), result);
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
