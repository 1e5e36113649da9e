//! `Records`: the files that tell of a copy beside the report: its log, and the names that failed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::copy::Summary;
use crate::program::json::{end, object};
use crate::program::receipts::Receipts;
use crate::program::report::Report;
use crate::progress::{Event, Observer};

/// Passes events on to the report, and writes those that belong there to files.
#[derive(Debug)]
pub struct Records {
    report: Arc<Report>,
    failed: Option<Mutex<Names>>,
    log: Option<Mutex<File>>,
    receipts: Option<Receipts>,
    /// Whether something was not written.
    lost: AtomicBool,
}

/// A list of names that can be read again, each ended by a line end, or all by a NUL where one of
/// them has a line end itself.
#[derive(Debug)]
struct Names {
    path: PathBuf,
    file: File,
    end: u8,
}

impl Records {
    /// Begins the list of names that fail, and goes on with the log.
    ///
    /// # Errors
    /// When one of them cannot be written.
    pub fn open(
        report: &Arc<Report>,
        failed: Option<&Path>,
        log: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let names = |path: &Path| {
            let file = File::create(path).with_context(|| place("--failed-list", path))?;
            let path = path.to_owned();
            let end = b'\n';
            anyhow::Ok(Mutex::new(Names { path, file, end }))
        };
        let append = |path: &Path| {
            let file = OpenOptions::new().append(true).create(true).open(path);
            file.map(Mutex::new)
                .with_context(|| place("--log-file", path))
        };
        Ok(Self {
            report: Arc::clone(report),
            failed: failed.map(names).transpose()?,
            log: log.map(append).transpose()?,
            receipts: None,
            lost: AtomicBool::new(false),
        })
    }

    /// Writes receipts too.
    #[must_use]
    pub fn with_receipts(mut self, receipts: Option<Receipts>) -> Self {
        self.receipts = receipts;
        self
    }

    /// Signs the last receipts, also of a run that is stopped.
    pub fn sign(&self) {
        if let Some(receipts) = &self.receipts {
            self.tell("--receipt", receipts.end());
        }
    }

    /// Tells the end of a copy.
    pub fn end(&self, summary: &Summary) {
        self.report.end(summary);
        self.sign();
        self.log(end(summary));
    }

    fn log(&self, mut value: Value) {
        let Some(log) = &self.log else { return };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        if let Some(fields) = value.as_object_mut() {
            let seconds = now.map_or(0.0, |now| now.as_secs_f64());
            fields.insert("time".to_owned(), json!(seconds));
        }
        let mut file = log.lock().unwrap_or_else(PoisonError::into_inner);
        let written = file.write_all(format!("{value}\n").as_bytes());
        drop(file);
        self.tell("--log-file", written);
    }

    /// Says whether a receipt, a name or a line of the log was not written.
    pub fn has_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    fn tell(&self, flag: &str, written: io::Result<()>) {
        if let Err(error) = written {
            self.lost.store(true, Ordering::Relaxed);
            self.report.warn(&format!("{flag}: write: {error}"));
        }
    }
}

fn place(flag: &str, path: &Path) -> String {
    format!("{flag}: {}: write", path.display())
}

impl Observer for Records {
    fn event(&self, event: &Event<'_>) {
        self.report.event(event);
        if let Some(receipts) = &self.receipts {
            self.tell("--receipt", receipts.event(event));
        }
        if self.log.is_some()
            && let Some(value) = object(event)
        {
            self.log(value);
        }
        if let (Event::Failed { name, .. }, Some(failed)) = (event, &self.failed)
            && !name.is_empty()
        {
            let mut names = failed.lock().unwrap_or_else(PoisonError::into_inner);
            let written = names.add(name);
            drop(names);
            self.tell("--failed-list", written);
        }
    }

    fn wants_control(&self) -> bool {
        self.report.wants_control()
    }
}

impl Names {
    fn add(&mut self, name: &[u8]) -> io::Result<()> {
        if name.contains(&b'\n') && self.end != 0 {
            let mut text = fs::read(&self.path)?;
            for byte in text.iter_mut().filter(|byte| **byte == self.end) {
                *byte = 0;
            }
            self.file = File::create(&self.path)?;
            self.file.write_all(&text)?;
            self.end = 0;
        }
        self.file.write_all(&[name, &[self.end]].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_bytes_are_kept_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        let file = File::create(&path).unwrap();
        let mut names = Names {
            path: path.clone(),
            file,
            end: b'\n',
        };
        names.add(b"a \xff").unwrap();
        names.add(b"b").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"a \xff\nb\n");
        for name in [&b"c\nd"[..], b"e"] {
            names.add(name).unwrap();
        }
        assert_eq!(fs::read(&path).unwrap(), b"a \xff\0b\0c\nd\0e\0");
    }
}
