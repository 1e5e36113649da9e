//! `Report`: output for a person or a program: bars on a terminal, lines or JSON elsewhere.

use std::collections::HashSet;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use crate::copy::Summary;
use crate::error::TransferError;
use crate::options::Level;
use crate::program::bar::{Bars, state};
use crate::program::ends::{linked, moved, pasted};
use crate::program::events::know;
use crate::program::json::{end, fatal, level, object, progress, session, with_fields};
use crate::progress::{Counts, Event, Observer, Totals, Verification};
use crate::text::counted;
use crate::url::show_text;
use indicatif::{HumanBytes, HumanCount};
use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;

const UNEXPLAINED: &str = "no explanation: it took less than a second, or its data passed between servers that do not tell, or stayed on this machine";

/// Delay of a draw by which the process was stopped: the shell has written to the terminal meanwhile.
const STOPPED: Duration = Duration::from_secs(1);

/// The amount and the form of the output.
#[derive(Debug)]
pub struct Report {
    /// The name of the program, before lines that are no output.
    program: &'static str,
    json: bool,
    /// Whether the lines in JSON are entries of a directory, and nothing else.
    listing: bool,
    quiet: bool,
    verbose: u8,
    debug: bool,
    /// Whether the copy's data goes to standard output, which then carries nothing else.
    piped: AtomicBool,
    bars: Option<Bars>,
    /// Time between two lines of progress.
    stats: Option<Duration>,
    /// The sessions told so far, and their protection.
    connected: Mutex<HashSet<String>>,
    /// Keeps the lines of several tasks apart.
    line: Mutex<()>,
    /// Whether the end of a copy tells where the time went.
    explains: bool,
    /// Files of which no digests were compared.
    by_size: AtomicU64,
    /// The reason for a lost line of output.
    lost: OnceLock<std::io::Error>,
    /// Puts lines that are no output into the words of another program.
    words: Option<fn(&str) -> String>,
}

impl Report {
    /// The report of a command that copies nothing.
    pub fn of_lines(program: &'static str, json: bool, quiet: bool) -> Self {
        Self {
            program,
            json,
            listing: false,
            quiet,
            verbose: 0,
            debug: false,
            piped: AtomicBool::new(false),
            bars: None,
            stats: None,
            connected: Mutex::default(),
            line: Mutex::new(()),
            explains: false,
            by_size: AtomicU64::new(0),
            lost: OnceLock::new(),
            words: None,
        }
    }

    /// Shows the progress of copies where a person sees it; `piped` says whether their data goes to
    /// standard output.
    pub fn of_copies(self, verbose: u8, piped: bool) -> Self {
        let shown = !self.json && !self.quiet && !self.debug;
        Self {
            verbose,
            piped: AtomicBool::new(piped),
            bars: shown.then(Bars::new).flatten(),
            ..self
        }
    }

    /// Tells entries alone as JSON, and nothing of connections.
    pub fn of_entries(self, verbose: u8) -> Self {
        Self {
            listing: true,
            verbose,
            ..self
        }
    }

    /// Writes the control conversation, if `debug` asks for it.
    pub fn with_debug(self, debug: bool) -> Self {
        Self { debug, ..self }
    }

    /// Puts lines that are no output into the words of another program, but for the conversation.
    pub fn with_words(self, words: fn(&str) -> String) -> Self {
        let words = Some(words);
        Self { words, ..self }
    }

    /// Tells at the end of copies where the time went.
    pub fn with_explanation(self, explains: bool) -> Self {
        Self { explains, ..self }
    }

    /// Tells the progress of copies in a line every so often, where no person sees a bar.
    pub fn with_stats(self, every: Option<Duration>) -> Self {
        Self {
            stats: every.filter(|_| !self.quiet),
            ..self
        }
    }

    /// Shows the totals, and the running files on a terminal, until it is dropped.
    pub async fn follow(&self, totals: &Totals) {
        let period = match (&self.bars, self.stats) {
            (Some(_), _) => Duration::from_millis(125),
            (None, Some(every)) => every,
            (None, None) => return std::future::pending().await,
        };
        let mut tick = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
        // After a stop of the process there is no more to tell than after a period.
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut before = 0;
        loop {
            let is_late = tick.tick().await.elapsed() > STOPPED;
            let counts = totals.counts();
            match &self.bars {
                Some(bars) => {
                    if is_late {
                        bars.leave();
                    }
                    bars.draw(counts, &totals.running());
                }
                None => self.progress(counts, per_second(counts.bytes_moved - before, period)),
            }
            before = counts.bytes_moved;
        }
    }

    /// Tells the counts of a copy that moves so many bytes a second.
    fn progress(&self, counts: Counts, rate: u64) {
        if self.json {
            return self.emit(&progress(counts, rate));
        }
        let [moved, found] = [counts.bytes_moved, counts.bytes_found].map(HumanBytes);
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let state = state(counts, rate as f64);
        self.warned(&format!("{moved} of {found}, {state}"));
    }

    /// Whether lines are JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Whether errors only are wanted.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Tells the end of a copy.
    pub fn end(&self, summary: &Summary) {
        if let Some(bars) = &self.bars {
            bars.clear();
        }
        let counts = summary.counts;
        let seconds = summary.took.as_secs_f64();
        if self.json {
            self.emit(&end(summary));
        } else if !self.quiet {
            let rate = HumanBytes(per_second(counts.bytes_moved, summary.took));
            let mut text = format!(
                "{}, {} in {seconds:.2} s ({rate}/s)",
                counted(counts.files_done, "file", "files"),
                HumanBytes(counts.bytes_moved)
            );
            let by_size = self.by_size.load(Ordering::Relaxed);
            let others = [
                (counts.files_same, "the same", "the same"),
                (counts.links, "link", "links"),
                (counts.deleted, "deleted", "deleted"),
                (counts.files_planned, "would be copied", "would be copied"),
                (counts.files_skipped, "left out", "left out"),
                (counts.files_failed, "failed", "failed"),
                (by_size, "compared by size only", "compared by size only"),
            ];
            for (number, one, many) in others.into_iter().filter(|(number, ..)| *number > 0) {
                text.push_str(&format!(", {}", counted(number, one, many)));
            }
            self.out(&text);
            match &summary.explanation {
                Some(explanation) => self.out(&explanation.to_string()),
                None if self.explains => self.out(UNEXPLAINED),
                None => {}
            }
            if let Some(tuned) = summary.tuned.filter(|_| self.explains) {
                self.out(&tuned.to_string());
            }
        }
    }

    /// Tells of a possible mistake, and goes on.
    pub fn warn(&self, text: &str) {
        self.event(&Event::Warning(text));
    }

    /// Tells why nothing more is done.
    pub fn fatal(&self, error: &dyn std::fmt::Display, parts: Option<&TransferError>) {
        if let Some(bars) = &self.bars {
            bars.clear();
        }
        if self.json {
            self.emit(&fatal(error, parts));
        } else {
            self.warned(&error.to_string());
        }
    }

    /// Writes one line of output proper.
    pub fn out(&self, text: &str) {
        if self.piped.load(Ordering::Relaxed) {
            return self.err(text);
        }
        self.hidden(|| {
            if let Err(error) = writeln!(std::io::stdout().lock(), "{text}")
                // A reader that has gone away wants no more lines.
                && error.kind() != std::io::ErrorKind::BrokenPipe
            {
                self.lost.get_or_init(|| error);
            }
        });
    }

    /// The reason for a lost line of output, if one was lost.
    pub fn lost(&self) -> Option<&std::io::Error> {
        self.lost.get()
    }

    /// Writes one line that is no output.
    pub fn err(&self, text: &str) {
        self.hidden(|| {
            let _gone = writeln!(std::io::stderr().lock(), "{text}");
        });
    }

    /// Writes one line that is no output behind the name of the program.
    pub fn warned(&self, text: &str) {
        let text = self
            .words
            .map_or_else(|| text.to_owned(), |words| words(text));
        self.err(&format!("{}: {text}", self.program));
    }

    /// Tells the failure of one of several objects.
    pub fn failed(&self, source: &str, error: &TransferError) {
        self.failure("failed", source, error);
    }

    /// Writes an object with an event and fields that the help has.
    pub fn emit(&self, value: &Value) {
        debug_assert!(know(value), "no help has {value}");
        self.out(&value.to_string());
    }

    fn hidden(&self, write: impl FnOnce()) {
        let _apart = self.line.lock();
        match &self.bars {
            Some(bars) => bars.suspend(write),
            None => write(),
        }
    }

    /// Tells an event in a line of text.
    fn line_of(&self, event: &Event<'_>) {
        match event {
            Event::Gone { error, within } if !self.quiet => self.warned(&format!(
                "connection lost, trying again for {} (--retry-for): {error}",
                minutes(*within)
            )),
            Event::Continuing {
                destination,
                held,
                size,
                ..
            } if !self.quiet => {
                let (held, size) = (HumanBytes(*held), HumanBytes(*size));
                self.warned(&format!("{destination}: continuing at {held} of {size}"));
            }
            Event::Kept {
                destination,
                held,
                size,
                ..
            } if !self.quiet => {
                let (held, size) = (HumanBytes(*held), HumanBytes(*size));
                self.warned(&format!(
                    "{destination}: {held} of {size} are kept; the same command goes on with them"
                ));
            }
            Event::Incomplete {
                destination,
                sent,
                size,
                ..
            } => self.warned(&incomplete(destination, *sent, *size)),
            Event::Finished {
                source,
                destination,
                bytes,
                stripes,
                verified,
                ..
            } if self.verbose > 0 => {
                let stripes = match stripes.len() {
                    0 => String::new(),
                    many => format!(", {many} stripes"),
                };
                let proof = verified.map(|(a, d)| format!(", {a} {d}"));
                let (bytes, proof) = (HumanBytes(*bytes), proof.unwrap_or_default());
                self.out(&moved(
                    source,
                    destination,
                    &format!(" ({bytes}{stripes}{proof})"),
                ));
            }
            Event::Linked {
                source,
                destination,
                target,
            } if self.verbose > 0 => self.out(&linked(source, destination, target)),
            Event::Removed { path } if self.verbose > 0 => {
                self.out(&format!("{}: deleted", pasted(path)));
            }
            Event::Skipped { source, why, .. } if self.verbose > 0 => {
                self.out(&format!("{source}: left out, {why}"));
            }
            Event::Warning(text) if !self.quiet => self.warned(text),
            Event::Note(text) if self.verbose > 0 => self.warned(text),
            _ => self.planned(event),
        }
    }

    /// Tells an event of a dry run in a line of text.
    fn planned(&self, event: &Event<'_>) {
        match event {
            Event::Planned {
                source,
                destination,
                size,
            } => {
                let size = size.map(|n| format!(" ({})", HumanBytes(n)));
                self.out(&moved(source, destination, &size.unwrap_or_default()));
            }
            Event::PlannedDir { path } => self.out(&format!("make directory {}", pasted(path))),
            Event::PlannedMove {
                source,
                destination,
            } => self.out(&format!(
                "move {} to {}",
                pasted(source),
                pasted(destination)
            )),
            Event::PlannedLink {
                source,
                destination,
                target,
            } => self.out(&linked(source, destination, target)),
            Event::PlannedRemoval { path } => self.out(&format!("delete {}", pasted(path))),
            _ => {}
        }
    }

    /// Tells the protection of a session; of several that have the same, once.
    fn connected(
        &self,
        site: &str,
        round_trip: Duration,
        control: Option<&str>,
        (data, peer): (Level, Option<&str>),
    ) {
        let value = session(site, control, data, peer);
        let (control, data) = (control.unwrap_or("clear"), level(data));
        let dcau = peer.map(|peer| format!(", DCAU {peer}"));
        let dcau = dcau.unwrap_or_default();
        let told = format!("{site}: control {control}, data {data}{dcau}");
        if self.verbose > 1 {
            self.warned(&format!("{told}, round trip {round_trip:.1?}"));
        }
        let Ok(mut known) = self.connected.lock() else {
            return;
        };
        if known.contains(&told) {
            return;
        }
        if self.json {
            if self.listing {
                return;
            }
            self.emit(&value);
        } else if self.verbose == 1 {
            self.warned(&told);
        }
        known.insert(told);
    }

    fn failure(&self, event: &str, source: &str, error: &TransferError) {
        if self.json {
            self.emit(&with_fields(
                json!({ "event": event, "source": source }),
                error,
            ));
        } else {
            let error = error.to_string();
            // Most errors name the place themselves.
            let place = match error.contains(source) {
                true => String::new(),
                false => format!("{source}: "),
            };
            self.warned(&format!("{place}{event}: {error}"));
        }
    }
}

impl Observer for Report {
    fn wants_control(&self) -> bool {
        self.debug
    }

    fn event(&self, event: &Event<'_>) {
        if let Event::Finished { verification, .. } = event
            && *verification == Verification::Size
        {
            self.by_size.fetch_add(1, Ordering::Relaxed);
        }
        match event {
            Event::Failed { source, error, .. } => self.failure("failed", source, error),
            Event::Retrying {
                source,
                error,
                attempt,
            } if !self.quiet => {
                self.failure(&format!("retry {attempt}"), source, error);
            }
            Event::Control { site, sent, line } => {
                let arrow = if *sent { ">" } else { "<" };
                self.err(&format!("{site} {arrow} {}", show_text(line.as_bytes())));
            }
            Event::Connected {
                site,
                round_trip,
                control,
                data,
                data_peer,
            } => self.connected(site, *round_trip, *control, (*data, *data_peer)),
            _ if self.json => {
                if let Some(value) = object(event) {
                    self.emit(&value);
                }
            }
            _ => self.line_of(event),
        }
    }
}

fn per_second(bytes: u64, took: Duration) -> u64 {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
    u64::try_from(u128::from(bytes) * 1_000_000 / u128::from(micros)).unwrap_or(u64::MAX)
}

/// The words on a file of which a part may be at its destination.
fn incomplete(destination: &str, sent: u64, size: Option<u64>) -> String {
    let unit = if size == Some(1) { "byte" } else { "bytes" };
    let size = size.map_or_else(
        || "an unknown number of".to_owned(),
        |size| HumanCount(size).to_string(),
    );
    let sent = HumanCount(sent);
    format!("{destination}: may be incomplete: {sent} of {size} {unit}")
}

/// A time in minutes and seconds, as `9:30`.
fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}
