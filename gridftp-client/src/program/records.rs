//! `Records`: the files that tell of a copy beside the report: its log, and the names that failed.

use std::collections::HashSet;
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::copy::Summary;
use crate::error::{Class, TransferError};
use crate::masked::masked;
use crate::program::failed_list::FailedList;
use crate::program::json::{end, fatal, object};
use crate::program::receipts::Receipts;
use crate::program::report::Report;
use crate::progress::{Event, Observer};

/// Passes events on to the report, and writes those that belong there to files.
#[derive(Debug)]
pub struct Records {
    report: Arc<Report>,
    /// The list of names that failed, until the run ends.
    failed: Mutex<Option<FailedList>>,
    /// Whether the first failure ends the run.
    fail_fast: bool,
    /// Whether the run leaves out names that an older list may have.
    leaves_out: AtomicBool,
    log: Option<Mutex<File>>,
    /// The sessions in the log: one with the same protection as another is no news.
    connected: Mutex<HashSet<String>>,
    receipts: Option<Receipts>,
    /// The flags of the files to which something was not written.
    lost: Mutex<HashSet<&'static str>>,
}

impl Records {
    /// Begins the list of names that fail, leaves that of the last run, and goes on with the log.
    ///
    /// # Errors
    /// When one of them cannot be written.
    pub fn open(
        report: &Arc<Report>,
        failed: Option<&Path>,
        log: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let begin =
            |path: &Path| FailedList::begin(path).with_context(|| place("--failed-list", path));
        let append = |path: &Path| {
            let file = OpenOptions::new().append(true).create(true).open(path);
            file.map(Mutex::new)
                .with_context(|| place("--log-file", path))
        };
        Ok(Self {
            report: Arc::clone(report),
            failed: Mutex::new(failed.map(begin).transpose()?),
            fail_fast: false,
            leaves_out: AtomicBool::new(false),
            log: log.map(append).transpose()?,
            connected: Mutex::default(),
            receipts: None,
            lost: Mutex::default(),
        })
    }

    /// Writes receipts too.
    #[must_use]
    pub fn with_receipts(mut self, receipts: Option<Receipts>) -> Self {
        self.receipts = receipts;
        self
    }

    /// Keeps the names of the last run where the first failure ends this one.
    #[must_use]
    pub fn with_fail_fast(self, fail_fast: bool) -> Self {
        Self { fail_fast, ..self }
    }

    /// Keeps the names of the last run where this one copies nothing.
    #[must_use]
    pub fn with_dry_run(self, dry_run: bool) -> Self {
        let leaves_out = AtomicBool::new(dry_run);
        Self { leaves_out, ..self }
    }

    /// Tells the end of a copy.
    pub fn end(&self, summary: &Summary) {
        self.report.end(summary);
        self.sign();
        self.log(end(summary));
        self.close(match self.leaves_out.load(Ordering::Relaxed) {
            true => FailedList::join,
            false => FailedList::replace,
        });
    }

    /// Tells why a copy broke off: an error of the whole, or a signal.
    pub fn break_off(&self, error: &dyn Display, parts: Option<&TransferError>) {
        self.sign();
        self.close(FailedList::join);
        self.report.fatal(error, parts);
        self.log(fatal(error, parts));
    }

    /// Signs the last receipts.
    fn sign(&self) {
        if let Some(receipts) = &self.receipts {
            self.tell("--receipt", receipts.end());
        }
    }

    /// Ends the list of names that failed.
    fn close(&self, close: fn(FailedList) -> io::Result<()>) {
        let list = lock(&self.failed).take();
        if let Some(list) = list {
            self.tell("--failed-list", close(list));
        }
    }

    /// Notes the name of a failure, or that names are left out.
    fn note(&self, event: &Event<'_>) {
        let Event::Failed { name, error, .. } = event else {
            return;
        };
        // A failure of no one name, or of a server, may be that of all behind it.
        let of_file = matches!(error.class(), Class::Transfer | Class::Verify);
        if self.fail_fast || name.is_empty() || !of_file {
            self.leaves_out.store(true, Ordering::Relaxed);
        }
        if name.is_empty() {
            return;
        }
        let mut list = lock(&self.failed);
        let written = list.as_mut().map_or(Ok(()), |list| list.add(name));
        if written.is_err() {
            // A list that lacks a name replaces no other.
            *list = None;
        }
        drop(list);
        self.tell("--failed-list", written);
    }

    /// Says whether the log has no such session yet.
    fn is_news(&self, event: &Event<'_>, value: &Value) -> bool {
        !matches!(event, Event::Connected { .. }) || lock(&self.connected).insert(value.to_string())
    }

    fn log(&self, mut value: Value) {
        let Some(log) = &self.log else { return };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        if let Some(fields) = value.as_object_mut() {
            let seconds = now.map_or(0.0, |now| now.as_secs_f64());
            fields.insert("time".to_owned(), json!(seconds));
        }
        let line = masked(&value.to_string());
        let mut file = lock(log);
        let written = file.write_all(format!("{line}\n").as_bytes());
        drop(file);
        self.tell("--log-file", written);
    }

    /// Says whether a receipt, a name or a line of the log was not written.
    pub fn has_lost(&self) -> bool {
        !lock(&self.lost).is_empty()
    }

    /// Tells the first failure to write to the file of a flag: a full disk has one for each event.
    fn tell(&self, flag: &'static str, written: io::Result<()>) {
        let Err(error) = written else { return };
        if lock(&self.lost).insert(flag) {
            let text = format!("{flag}: write: {error}");
            // The exit status depends on it, so that --quiet does not hide it.
            match self.report.is_json() {
                true => self.report.warn(&text),
                false => self.report.warned(&text),
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
            && self.is_news(event, &value)
        {
            self.log(value);
        }
        self.note(event);
    }

    fn wants_control(&self) -> bool {
        self.report.wants_control()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::progress::Counts;

    #[test]
    fn a_run_that_its_first_failure_ends_keeps_the_names_behind_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        let summary = Summary {
            counts: Counts::default(),
            took: Duration::ZERO,
            failed: Some(Class::Transfer),
            explanation: None,
            tuned: None,
        };
        let error = &TransferError::Changed {
            path: "b".to_owned(),
        };
        for (fail_fast, expected) in [(true, "b\na\n"), (false, "b\n")] {
            std::fs::write(&path, "a\nb\n").unwrap();
            let report = Arc::new(Report::of_lines("gridftp-cp", false, true));
            let records = Records::open(&report, Some(&path), None).unwrap();
            let records = records.with_fail_fast(fail_fast);
            records.event(&Event::Failed {
                source: "b",
                destination: None,
                name: b"b",
                error,
            });
            records.end(&summary);
            let list = std::fs::read_to_string(&path).unwrap();
            assert_eq!(list, expected, "{fail_fast}");
        }
    }

    #[test]
    fn a_full_disk_is_told_and_lost() {
        let full = Path::new("/dev/full");
        let report = Arc::new(Report::of_lines("gridftp-cp", false, true));
        let records = Records::open(&report, None, Some(full)).unwrap();
        assert!(!records.has_lost());
        records.event(&Event::Note("a"));
        assert!(records.has_lost());
    }
}
