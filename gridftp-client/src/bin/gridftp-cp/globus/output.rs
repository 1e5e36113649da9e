//! The output of `globus-url-copy`, and the pairs of URLs that are left for another run.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use gridftp_client::program::report::Report;
use gridftp_client::progress::UNTRIED;
use gridftp_client::{Event, Observer, RunningFile, Totals, counted};

use super::options::Verbosity;
use super::pairs::{self, Pair};
use super::rates::Rates;
use super::words::told;

/// Time between two looks for lines with rates.
const LOOK: Duration = Duration::from_millis(100);

/// Tells events in the words of `globus-url-copy`.
#[derive(Debug)]
pub(super) struct Output {
    report: Arc<Report>,
    shown: Verbosity,
    /// Whether other files are copied after a failure.
    goes_on: bool,
    /// The file of `-do`.
    plan: Option<Mutex<File>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The pairs of the copy that runs.
    now: Vec<Pair>,
    /// Whether one of its files has begun.
    begun: bool,
    /// Files that are not copied.
    left: Vec<Pair>,
    failed: u64,
    /// Whether lines with rates were told, which do not end with a new line.
    is_rated: bool,
}

impl Output {
    /// Opens the file of `-do`, where one is to be written.
    pub(super) fn new(
        report: Arc<Report>,
        (shown, goes_on): (Verbosity, bool),
        plan: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let plan = plan.map(|path| {
            let file = File::create(path).with_context(|| path.display().to_string());
            file.map(Mutex::new)
        });
        Ok(Self {
            report,
            shown,
            goes_on,
            plan: plan.transpose()?,
            state: Mutex::default(),
        })
    }

    /// Begins the copy of `pairs`.
    pub(super) fn begin(&self, pairs: &[Pair]) {
        let mut state = self.state();
        (state.now, state.begun) = (pairs.to_vec(), false);
        drop(state);
        for dir in pairs.iter().filter(|pair| pair.is_match && !pair.is_file()) {
            self.name(&dir.from.to_string_lossy(), &dir.to.to_string_lossy());
        }
    }

    /// Tells a failure of the whole copy, of which all is left.
    pub(super) fn fail(&self, error: &dyn std::fmt::Display) {
        let mut state = self.state();
        let now = std::mem::take(&mut state.now);
        let first = now.first().filter(|_| !state.begun).cloned();
        state.left.extend(now);
        state.failed += 1;
        drop(state);
        self.tell_ends(first);
        self.tell(error);
    }

    /// Notes pairs that are not begun.
    pub(super) fn leave(&self, pairs: impl IntoIterator<Item = Pair>) {
        self.state().left.extend(pairs);
    }

    /// Notes that the copy which runs is stopped.
    pub(super) fn stop(&self) {
        let mut state = self.state();
        let now = std::mem::take(&mut state.now);
        state.left.extend(now);
    }

    /// Tells the number of failures, and gives the pairs that are left.
    pub(super) fn end(&self) -> (u64, Vec<Pair>) {
        let mut state = self.state();
        let (failed, left) = (state.failed, std::mem::take(&mut state.left));
        let is_rated = state.is_rated;
        drop(state);
        if is_rated {
            self.report.out("");
        }
        if self.goes_on && failed > 0 {
            let failed = counted(failed, "transfer", "transfers");
            let told = format!("\nerror: There was an error with {failed}.\n");
            self.report.err(&told);
        }
        (failed, left)
    }

    fn tell(&self, error: &dyn std::fmt::Display) {
        let how = match self.goes_on {
            true => "continuing on error",
            false => "error",
        };
        let error = told(&error.to_string());
        self.report.err(&format!("\n{how}: {error}\n"));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Leaves the file at `source`.
    fn leave_source(&self, source: &str) {
        let source = pairs::url(source);
        let mut state = self.state();
        let pair = state.now.iter().find_map(|pair| pair.of(&source));
        // Of a source that no pair names all pairs are left: none may be lost.
        let pairs = pair.map_or_else(|| state.now.clone(), |pair| vec![pair]);
        for pair in pairs {
            if !state.left.contains(&pair) {
                state.left.push(pair);
            }
        }
    }

    /// Names a file that fails before it begins.
    fn tell_ends(&self, pair: Option<Pair>) {
        if let Some(pair) = pair.filter(|pair| pair.is_file() && !pair.is_piped()) {
            self.started(&pair.from.to_string_lossy(), &pair.to.to_string_lossy());
        }
    }

    fn started(&self, source: &str, destination: &str) {
        self.state().begun = true;
        self.name(source, destination);
    }

    /// Says whether data passes through standard input or output, which then carries nothing else.
    fn is_piped(&self) -> bool {
        self.state().now.iter().any(Pair::is_piped)
    }

    /// Names a file or, with a slash at its end, a directory.
    fn name(&self, source: &str, destination: &str) {
        if self.shown == Verbosity::Nothing || self.is_piped() {
            return;
        }
        let ends = [source, destination].map(pairs::url);
        let [(from, name), (to, other)] = ends.each_ref().map(|url| {
            let cut = url.trim_end_matches('/').rfind('/');
            url.split_at(cut.map_or(0, |cut| cut + 1))
        });
        let arrow = match name == other {
            true => String::new(),
            false => format!("  ->  {other}"),
        };
        let end = if self.shown == Verbosity::Rates {
            "\n"
        } else {
            ""
        };
        self.report.out(&format!(
            "Source: {from}\nDest:   {to}\n  {name}{arrow}{end}"
        ));
    }

    /// Tells bytes and rates of each file of a copy once a second, until it is dropped.
    pub(super) async fn follow(&self, totals: &Totals) {
        if self.shown != Verbosity::Rates || self.is_piped() {
            return std::future::pending().await;
        }
        let mut rates = Rates::new();
        loop {
            tokio::time::sleep(LOOK).await;
            let lines = rates.look(&totals.running(), RunningFile::bytes);
            if lines.is_empty() {
                continue;
            }
            self.state().is_rated = true;
            let mut out = std::io::stdout().lock();
            // A reader that has gone away wants no more.
            let _gone = out.write_all(lines.as_bytes()).and_then(|()| out.flush());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Observer for Output {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Started {
                source,
                destination,
                ..
            } => self.started(source, destination),
            Event::Directory {
                source,
                destination,
            } => self.name(&format!("{source}/"), &format!("{destination}/")),
            Event::Planned {
                source,
                destination,
                ..
            } => {
                self.started(source, destination);
                let [from, to] = [source, destination].map(|end| pairs::url(end));
                let named = self.state().now.iter().find_map(|pair| pair.of(&from));
                let planned = Pair {
                    from: from.into(),
                    to: to.into(),
                    part: named.and_then(|pair| pair.part),
                    is_match: false,
                };
                if let Some(plan) = &self.plan
                    && let Err(error) = planned.write(&mut *lock(plan))
                {
                    // A part of a plan must not pass for the whole.
                    self.state().failed += 1;
                    self.tell(&format!("-do: write: {error}"));
                }
            }
            Event::Failed { source, error, .. } => {
                self.leave_source(source);
                let mut state = self.state();
                state.failed += 1;
                let first = state.now.first().filter(|_| !state.begun).cloned();
                drop(state);
                self.tell_ends(first);
                self.tell(error);
            }
            Event::Skipped { source, why, .. } if *why == UNTRIED => {
                self.leave_source(source);
            }
            Event::Warning(_)
            | Event::Retrying { .. }
            | Event::Gone { .. }
            | Event::Incomplete { .. }
            | Event::Control { .. } => self.report.event(event),
            _ => {}
        }
    }

    fn wants_control(&self) -> bool {
        self.report.wants_control()
    }
}
