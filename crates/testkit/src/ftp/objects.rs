//! Files and directories of a scripted server.

use ftp_proto::types::{ListForm, Names, Outcome};
use ftp_wire::facts::{Entry, EntryKind, TimeVal};
use ftp_wire::path::FtpPath;
use ftp_wire::reply::Reply;

use super::ScriptedServer;

/// Modification time of new files, in seconds since 1970: 2020-01-02 03:04:05.
const MODIFIED: i64 = 1_577_934_245;

/// A file or directory.
#[derive(Clone, Default)]
pub(super) struct Object {
    /// Content of a file.
    pub(super) bytes: Option<Vec<u8>>,
    /// Number of replacements of the file; each makes it one second newer.
    pub(super) age: u32,
}

impl Object {
    fn entry(&self, name: &[u8]) -> Entry {
        let (kind, size) = match &self.bytes {
            Some(bytes) => (EntryKind::File, bytes.len() as u64),
            None => (EntryKind::Dir, 4096),
        };
        let mut entry = Entry::new(kind, name);
        entry.size = size;
        entry.mode = 0o644;
        entry.modified = TimeVal::new(MODIFIED + i64::from(self.age), 0);
        entry
    }
}

impl ScriptedServer {
    /// Executes work on names for the command `line`.
    pub(super) fn work(&self, line: &str, names: Names) -> Outcome {
        let is_about_a_file = line.starts_with("SIZE") || line.starts_with("MDTM");
        let mut objects = self.names();
        let done = match names {
            // RFC 3659 §4: a directory has no size for a transfer.
            Names::Stat(path) => objects
                .get(&text(&path))
                .filter(|object| object.bytes.is_some() || !is_about_a_file)
                .map(|object| {
                    let entry = object.entry(path.file_name().unwrap_or_default());
                    Outcome::Stat(Box::new(entry))
                }),
            Names::MakeDir(path) => {
                if objects.contains_key(&text(&path)) {
                    return refused::<550>("it exists");
                }
                objects.insert(text(&path), Object::default());
                Some(Outcome::Done)
            }
            Names::Delete(path) => objects.remove(&text(&path)).map(|_| Outcome::Done),
            Names::Rename(from, to) => objects.remove(&text(&from)).map(|object| {
                objects.insert(text(&to), object);
                Outcome::Done
            }),
            _ => return refused::<502>("not here"),
        };
        done.unwrap_or_else(|| refused::<550>("no such file"))
    }

    /// Returns the listing of a directory, in the long form with hidden names only if `all` is set.
    pub(super) fn listing(&self, dir: &str, form: &ListForm, all: bool) -> Option<Vec<u8>> {
        let objects = self.names();
        if objects.get(dir)?.bytes.is_some() {
            return None;
        }
        let dir = format!("{}/", dir.trim_end_matches('/'));
        let mut lines = match form {
            ListForm::Facts { .. } => Vec::new(),
            _ => b"total 1\r\n".to_vec(),
        };
        for (path, object) in objects.range(dir.clone()..) {
            let Some(name) = path.strip_prefix(&dir) else {
                break;
            };
            if name.is_empty() || name.contains('/') {
                continue;
            }
            let entry = object.entry(name.as_bytes());
            match form {
                ListForm::Facts { facts, .. } => entry.write_facts(*facts, &mut lines),
                _ if name.starts_with('.') && !all => continue,
                _ => entry.write_long(TimeVal::new(i64::MAX, 0), &mut lines),
            }
            lines.extend_from_slice(b"\r\n");
        }
        Some(lines)
    }
}

pub(super) fn text(path: &FtpPath) -> String {
    String::from_utf8_lossy(path.as_bytes()).into_owned()
}

pub(super) fn refused<const CODE: u16>(why: &str) -> Outcome {
    Outcome::Failed(Reply::of::<CODE>(why))
}
