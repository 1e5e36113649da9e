//! The lines of a copy on a terminal: its totals with a bar, and the running files.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use indicatif::{HumanBytes, HumanDuration, ProgressBar};
use unicode_width::UnicodeWidthStr as _;

use crate::copy::lock;
use crate::program::lines::lines;
use crate::progress::Counts;
use crate::running::RunningFile;

/// Columns of a bar at least; without them the text stands alone.
const BAR: usize = 10;

/// The line of the totals, and those of the running files below it. They are drawn by hand: indicatif
/// fills rows with blanks in place of line ends, so that a terminal of another width joins them, and
/// the next draw erases output above.
#[derive(Debug)]
pub(super) struct Bars {
    /// The lines on the terminal, with the cursor behind the last one.
    shown: Mutex<Vec<String>>,
    /// Averages the rate, and draws nothing.
    rate: ProgressBar,
}

impl Bars {
    /// The lines at standard error; `None` where that is no terminal, or one that does not move its
    /// cursor.
    pub(super) fn new() -> Option<Self> {
        let moves = std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        (moves && std::io::stderr().is_terminal()).then(|| Self {
            shown: Mutex::default(),
            rate: ProgressBar::hidden(),
        })
    }

    /// Shows the counts and the files, unless the terminal is another's now. Before a file is found,
    /// `ssh` may ask for a passphrase.
    pub(super) fn draw(&self, counts: Counts, files: &[Arc<RunningFile>]) {
        self.rate.set_position(counts.bytes_moved);
        let mut shown = lock(&self.shown);
        if !is_foreground() {
            shown.clear();
        } else if counts.files_found > 0 {
            let (rows, columns) = terminal();
            // The cursor stays in front of the last column: behind it, terminals differ.
            let width = columns.saturating_sub(1);
            let total = total(counts, self.rate.per_sec(), width);
            let all = std::iter::once(total).chain(lines(files, rows, width));
            let all = all.collect::<Vec<_>>();
            put(&replace(&shown, &all, columns));
            *shown = all;
        }
    }

    /// Writes something else while the lines are away.
    pub(super) fn suspend(&self, write: impl FnOnce()) {
        let mut shown = lock(&self.shown);
        let columns = terminal().1;
        put(&replace(&shown, &[], columns));
        write();
        // Those that no longer fit come back at the next draw.
        if shown.iter().any(|line| line.width() >= columns) {
            shown.clear();
        }
        put(&replace(&[], &shown, columns));
    }

    /// Leaves the lines on the terminal, where others have written behind them.
    pub(super) fn leave(&self) {
        lock(&self.shown).clear();
    }

    /// Takes the lines away for good.
    pub(super) fn clear(&self) {
        let shown = std::mem::take(&mut *lock(&self.shown));
        put(&replace(&shown, &[], terminal().1));
    }
}

/// The text that replaces the lines `shown` on a terminal of so many columns now.
fn replace(shown: &[String], lines: &[String], columns: usize) -> String {
    if shown.is_empty() && lines.is_empty() {
        return String::new();
    }
    // A terminal that has become narrower has wrapped them.
    let rows = |line: &String| line.width().div_ceil(columns.max(1)).max(1);
    let up = match shown.iter().map(rows).sum::<usize>() {
        0 | 1 => String::new(),
        rows => format!("\x1b[{}A", rows - 1),
    };
    format!("\r{up}\x1b[J{}", lines.join("\r\n"))
}

/// Whether this process is in the foreground of its terminal.
fn is_foreground() -> bool {
    let group = rustix::termios::tcgetpgrp(std::io::stderr());
    group.map_or(true, |group| group == rustix::process::getpgrp())
}

fn put(text: &str) {
    // A terminal that is gone does not end the copy.
    let _gone = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Rows and columns of the terminal at standard error.
fn terminal() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(std::io::stderr()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row.into(), size.ws_col.into()),
        _ => (24, 80),
    }
}

/// The line of the totals at `rate` bytes a second, of at most `width` columns.
fn total(counts: Counts, rate: f64, width: usize) -> String {
    let there = counts.bytes_moved.saturating_add(counts.bytes_held);
    let there = there.min(counts.bytes_found.max(counts.bytes_moved));
    let found = (counts.complete || counts.bytes_found > 0).then_some(counts.bytes_found);
    let bytes = match found {
        Some(found) => format!("{}/{}", HumanBytes(there), HumanBytes(found)),
        None => HumanBytes(there).to_string(),
    };
    let text = format!("{bytes} {}", state(counts, rate));
    let room = width.saturating_sub(text.width() + 1);
    match found {
        Some(found) if room >= BAR => format!("{} {text}", bar(there, found, room)),
        // A character of it has one column.
        _ => text.chars().take(width).collect(),
    }
}

/// A bar of so many columns.
fn bar(there: u64, found: u64, columns: usize) -> String {
    let full = u128::from(there) * columns as u128 / u128::from(found.max(1));
    let full = usize::try_from(full).map_or(columns, |full| full.min(columns));
    "█".repeat(full) + &"░".repeat(columns - full)
}

/// The text behind the bar at `rate` bytes a second: an estimate only where there is one.
pub(super) fn state(counts: Counts, rate: f64) -> String {
    let mut text = format!("{}/{} files", counts.files_done, counts.files_found);
    let hashed = counts.bytes_hashed.saturating_mul(100);
    if let Some(percent) = hashed.checked_div(counts.bytes_hashing) {
        text.push_str(&format!(", verifying {percent} %"));
    }
    if counts.bytes_moved == 0 || rate < 1.0 {
        return text;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate for people"
    )]
    let whole = rate as u64;
    text.insert_str(0, &format!("{}/s, ", HumanBytes(whole)));
    let there = counts.bytes_moved.saturating_add(counts.bytes_held);
    let left = counts.bytes_found.saturating_sub(there) / whole;
    let left = HumanDuration(Duration::from_secs(left));
    // Files that are not found yet take longer.
    match (counts.complete, counts.bytes_found > there) {
        (true, _) => text.push_str(&format!(", {left} left")),
        (false, true) => text.push_str(&format!(", at least {left} left")),
        (false, false) => {}
    }
    if let Some(cause) = counts.mostly {
        text.push_str(&format!(", most of the time {}", cause.text()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::Cause;

    #[test]
    fn lines_replace_each_other_and_leave_the_rest_of_the_terminal() {
        let lines = |all: &[&str]| -> Vec<String> { all.iter().map(|&line| line.into()).collect() };
        let three = lines(&["total", "a", ""]);
        assert_eq!(replace(&[], &[], 40), "");
        assert_eq!(replace(&[], &three, 40), "\r\x1b[Jtotal\r\na\r\n");
        assert_eq!(replace(&three, &three[..1], 40), "\r\x1b[2A\x1b[Jtotal");
        assert_eq!(replace(&three[..1], &[], 40), "\r\x1b[J");
        // Of 39, 24 and 2 columns.
        let wrapped = ["a".repeat(39), "b".repeat(24), "数".to_owned()];
        assert_eq!(replace(&wrapped, &[], 40), "\r\x1b[2A\x1b[J");
        assert_eq!(replace(&wrapped, &[], 12), "\r\x1b[6A\x1b[J");
        assert_eq!(replace(&wrapped, &[], 0), "\r\x1b[64A\x1b[J");
    }

    #[test]
    fn the_totals_have_a_bar_where_there_is_room() {
        let mut counts = Counts {
            bytes_found: 4 << 30,
            bytes_moved: 1 << 30,
            ..Counts::default()
        };
        for width in 0..100 {
            assert!(total(counts, 1e9, width).width() <= width, "{width}");
        }
        let text = "1.00 GiB/4.00 GiB 0/0 files";
        assert_eq!(total(counts, 0.0, 40), format!("███░░░░░░░░░ {text}"));
        assert_eq!(total(counts, 0.0, 37), text);
        assert_eq!(total(counts, 0.0, 9), "1.00 GiB/");
        counts.bytes_found = 0;
        assert_eq!(total(counts, 0.0, 80), "1.00 GiB 0/0 files");
        assert_eq!([bar(0, 0, 3), bar(9, 3, 3)], ["░░░", "███"]);
    }

    /// `Counts` is made by the library alone.
    fn state_of(found: u64, bytes: u64, moved: u64, complete: bool, rate: f64) -> String {
        let mut counts = Counts::default();
        (counts.files_found, counts.bytes_found) = (found, bytes);
        (counts.bytes_moved, counts.complete) = (moved, complete);
        state(counts, rate)
    }

    #[test]
    fn nothing_is_estimated_before_there_is_an_estimate() {
        assert_eq!(state_of(3, 1000, 0, true, 0.0), "0/3 files");
        assert_eq!(state_of(3, 1000, 0, true, 9.0), "0/3 files");
        assert_eq!(state_of(3, 1000, 10, true, 0.2), "0/3 files");
        let text = state_of(3, 10_000, 1000, true, 100.0);
        assert_eq!(text, "100 B/s, 0/3 files, 2 minutes left");
        let text = state_of(3, 10_000, 1000, false, 100.0);
        assert_eq!(text, "100 B/s, 0/3 files, at least 2 minutes left");
        assert_eq!(state_of(3, 1000, 1000, false, 100.0), "100 B/s, 0/3 files");
    }

    #[test]
    fn digests_of_servers_and_the_cause_of_most_of_the_time_are_told() {
        let counts = Counts {
            files_found: 3,
            bytes_found: 10_000,
            complete: true,
            bytes_moved: 1000,
            bytes_hashing: 300,
            bytes_hashed: 130,
            mostly: Some(Cause::Polite),
            ..Counts::default()
        };
        let cause = "most of the time leaving the path to others (--polite)";
        assert_eq!(
            state(counts, 100.0),
            format!("100 B/s, 0/3 files, verifying 43 %, 2 minutes left, {cause}")
        );
        let unmoved = Counts {
            bytes_moved: 0,
            ..counts
        };
        assert_eq!(state(unmoved, 0.0), "0/3 files, verifying 43 %");
    }
}
