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

/// The line of the totals, and those of the running files below it.
#[derive(Debug)]
pub(super) struct Bars {
    frame: Mutex<Frame>,
    /// Averages the rate, and draws nothing.
    rate: ProgressBar,
}

impl Bars {
    /// The lines at standard error; `None` where that is no terminal, or one that does not move its
    /// cursor.
    pub(super) fn new() -> Option<Self> {
        let moves = std::env::var_os("TERM").is_some_and(|term| term != "dumb");
        (moves && std::io::stderr().is_terminal()).then(|| Self {
            frame: Mutex::default(),
            rate: ProgressBar::hidden(),
        })
    }

    /// Shows the counts and the files.
    pub(super) fn draw(&self, counts: Counts, files: &[Arc<RunningFile>]) {
        self.rate.set_position(counts.bytes_moved);
        let (rows, columns) = terminal();
        // The cursor stays in front of the last column: behind it, terminals differ.
        let width = columns.saturating_sub(1);
        let total = total(counts, self.rate.per_sec(), width);
        let all = std::iter::once(total).chain(lines(files, rows, width));
        let mut frame = lock(&self.frame);
        put(&frame.replace(all.collect(), columns));
    }

    /// Writes something else while the lines are away.
    pub(super) fn suspend(&self, write: impl FnOnce()) {
        let mut frame = lock(&self.frame);
        let columns = terminal().1;
        let lines = frame.lines.clone();
        put(&frame.replace(Vec::new(), columns));
        write();
        // Those that no longer fit come back at the next draw.
        if lines.iter().all(|line| line.width() < columns) {
            put(&frame.replace(lines, columns));
        }
    }

    /// Takes the lines away for good.
    pub(super) fn clear(&self) {
        let mut frame = lock(&self.frame);
        put(&frame.replace(Vec::new(), terminal().1));
    }
}

/// Lines on a terminal, with the cursor behind the last one.
#[derive(Debug, Default)]
struct Frame {
    lines: Vec<String>,
}

impl Frame {
    /// Replaces the lines; gives the text for that, on a terminal of so many columns now.
    fn replace(&mut self, lines: Vec<String>, columns: usize) -> String {
        // A terminal that has become narrower has wrapped them.
        let rows = |line: &String| line.width().div_ceil(columns.max(1)).max(1);
        let rows: usize = self.lines.iter().map(rows).sum();
        let mut text = match rows {
            0 if lines.is_empty() => return String::new(),
            0 => String::new(),
            1 => "\r".to_owned(),
            rows => format!("\r\x1b[{}A", rows - 1),
        };
        for (n, line) in lines.iter().enumerate() {
            text.push_str(if n > 0 { "\r\n\x1b[K" } else { "\x1b[K" });
            text.push_str(line);
        }
        text.push_str("\x1b[J");
        self.lines = lines;
        text
    }
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

    /// A terminal of endless rows, which wraps its lines again when it becomes narrower.
    struct Screen {
        rows: Vec<Vec<char>>,
        at: (usize, usize),
        columns: usize,
    }

    impl Screen {
        fn new(columns: usize) -> Self {
            Self {
                rows: vec![Vec::new()],
                at: (0, 0),
                columns,
            }
        }

        fn write(&mut self, text: &str) {
            let mut chars = text.chars();
            while let Some(c) = chars.next() {
                let (row, column) = self.at;
                match c {
                    '\r' => self.at.1 = 0,
                    '\n' => {
                        self.at.0 += 1;
                        if self.at.0 == self.rows.len() {
                            self.rows.push(Vec::new());
                        }
                    }
                    '\x1b' => {
                        let code: String = chars.by_ref().take(2).collect();
                        match code.as_str() {
                            "[K" => self.rows[row].truncate(column),
                            "[J" => {
                                self.rows[row].truncate(column);
                                self.rows.truncate(row + 1);
                            }
                            up => {
                                assert_eq!(chars.next(), Some('A'), "{text:?}");
                                self.at.0 -= up[1..].parse::<usize>().unwrap();
                            }
                        }
                    }
                    c => {
                        assert!(column < self.columns, "{text:?}");
                        self.rows[row].resize(column, ' ');
                        self.rows[row].push(c);
                        self.at.1 += 1;
                    }
                }
            }
        }

        fn narrow(&mut self, columns: usize) {
            assert_eq!(self.at.0 + 1, self.rows.len());
            let wrap = |row: Vec<char>| -> Vec<Vec<char>> {
                let rows = row.chunks(columns).map(<[char]>::to_vec);
                rows.chain(row.is_empty().then(Vec::new)).collect()
            };
            self.rows = std::mem::take(&mut self.rows)
                .into_iter()
                .flat_map(wrap)
                .collect();
            self.columns = columns;
            self.at = (self.rows.len() - 1, self.rows.last().map_or(0, Vec::len));
        }

        fn text(&self) -> Vec<String> {
            self.rows.iter().map(|row| row.iter().collect()).collect()
        }
    }

    #[test]
    fn lines_replace_each_other_and_leave_the_rest_of_the_terminal() {
        let texts =
            |all: &[&str]| -> Vec<String> { all.iter().map(|&text| text.to_owned()).collect() };
        let (mut screen, mut frame) = (Screen::new(40), Frame::default());
        screen.write("before\r\n");
        assert_eq!(frame.replace(Vec::new(), 40), "");
        let mut lines = vec!["a".repeat(39), "b".repeat(9), "c".repeat(20)];
        screen.write(&frame.replace(lines.clone(), 40));
        assert_eq!(screen.text()[1..], lines);
        lines[0] = "short".to_owned();
        lines.truncate(2);
        screen.write(&frame.replace(lines, 40));
        assert_eq!(screen.text(), texts(&["before", "short", "bbbbbbbbb"]));
        let lines = vec!["d".repeat(39), "e".repeat(39)];
        screen.write(&frame.replace(lines, 40));
        screen.narrow(12);
        assert_eq!(screen.text().len(), 1 + 4 + 4);
        screen.write(&frame.replace(texts(&["f", "g"]), 12));
        assert_eq!(screen.text(), texts(&["before", "f", "g"]));
        screen.write(&frame.replace(Vec::new(), 12));
        assert_eq!(screen.text(), texts(&["before", ""]));
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
}
