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
use crate::program::failed_list::FailedList;
use crate::program::json::{end, fatal, object};
use crate::program::receipts::Receipts;
use crate::program::report::Report;
use crate::progress::{Event, Observer, UNTRIED};

/// Passes events on to the report, and writes those that belong there to files.
#[derive(Debug)]
pub struct Records {
    report: Arc<Report>,
    /// The list of names that failed, until the run ends.
    failed: Mutex<Option<FailedList>>,
    /// Whether the run leaves out names that an older list may have.
    leaves_out: AtomicBool,
    log: Option<Mutex<File>>,
    /// The sessions in the log: one with the same protection as another is no news.
    connected: Mutex<HashSet<String>>,
    receipts: Option<Receipts>,
    /// Whether something was not written.
    lost: AtomicBool,
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
            leaves_out: AtomicBool::new(false),
            log: log.map(append).transpose()?,
            connected: Mutex::default(),
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
        match event {
            Event::Failed { name, error, .. } => {
                // A failure of no one name, or of a server, may be that of all behind it.
                let of_file = matches!(error.class(), Class::Transfer | Class::Verify);
                if name.is_empty() || !of_file {
                    self.leaves_out.store(true, Ordering::Relaxed);
                }
                if name.is_empty() {
                    return;
                }
                let mut list = lock(&self.failed);
                let written = list.as_mut().map(|list| list.add(name));
                drop(list);
                self.tell("--failed-list", written.unwrap_or(Ok(())));
            }
            Event::Planned { .. } | Event::PlannedLink { .. } => {
                self.leaves_out.store(true, Ordering::Relaxed);
            }
            Event::Skipped { why, .. } if *why == UNTRIED => {
                self.leaves_out.store(true, Ordering::Relaxed);
            }
            _ => {}
        }
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
        let mut file = lock(log);
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
