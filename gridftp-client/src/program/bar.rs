//! The lines of a copy on a terminal: its totals with a bar, and the running files.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use indicatif::{
    HumanBytes, HumanDuration, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle,
};
use unicode_width::UnicodeWidthStr as _;

use crate::copy::lock;
use crate::program::lines::{Moving, lines, room};
use crate::progress::Counts;
use crate::running::RunningFile;

/// Columns of a bar at least; without them the text stands alone.
const BAR: usize = 10;

/// The line of the totals, and those of the running files below it.
#[derive(Debug)]
pub(super) struct Bars {
    all: MultiProgress,
    total: ProgressBar,
    files: Mutex<Vec<ProgressBar>>,
}

impl Bars {
    pub(super) fn new(target: ProgressDrawTarget) -> Self {
        let all = MultiProgress::with_draw_target(target);
        let total = all.add(line("{spinner} {wide_msg}"));
        let files = Mutex::default();
        Self { all, total, files }
    }

    /// Shows the counts and the files on a terminal of so many rows and columns.
    pub(super) fn draw(
        &self,
        counts: Counts,
        files: &[Arc<RunningFile>],
        (rows, columns): (usize, usize),
    ) {
        self.draw_total(counts, columns);
        let shown: Vec<_> = files.iter().take(room(rows)).collect();
        let others = files.len().saturating_sub(shown.len());
        let shown: Vec<_> = shown.into_iter().map(|file| Moving::of(file)).collect();
        let lines = lines(&shown, others, columns);
        let mut bars = lock(&self.files);
        while bars.len() > lines.len()
            && let Some(bar) = bars.pop()
        {
            self.all.remove(&bar);
        }
        while bars.len() < lines.len() {
            bars.push(self.all.add(line("{wide_msg}")));
        }
        for (bar, line) in bars.iter().zip(lines) {
            bar.set_message(line);
        }
    }

    fn draw_total(&self, counts: Counts, columns: usize) {
        let there = counts.bytes_moved.saturating_add(counts.bytes_held);
        let there = there.min(counts.bytes_found.max(counts.bytes_moved));
        let found = (counts.complete || counts.bytes_found > 0).then_some(counts.bytes_found);
        let bytes = match found {
            Some(found) => format!("{}/{}", HumanBytes(there), HumanBytes(found)),
            None => HumanBytes(there).to_string(),
        };
        let text = format!("{bytes} {}", state(counts, self.total.per_sec()));
        let template = match found {
            Some(_) if BAR + 1 + text.width() <= columns => "{wide_bar} {msg}",
            Some(_) => "{wide_msg}",
            None => "{spinner} {wide_msg}",
        };
        self.total.set_style(style(template));
        self.total.set_message(text);
        if let Some(found) = found {
            self.total.set_length(found);
        }
        self.total.set_position(there);
    }

    /// Writes something else while the lines are away.
    pub(super) fn suspend(&self, write: impl FnOnce()) {
        // A terminal that is gone does not end the copy.
        let _gone = self.all.clear();
        write();
        self.total.force_draw();
    }

    /// Takes the lines away for good.
    pub(super) fn clear(&self) {
        for bar in lock(&self.files).drain(..) {
            self.all.remove(&bar);
        }
        self.total.finish_and_clear();
    }
}

/// A line that is drawn once it is added to the others.
fn line(template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
    bar.set_style(style(template));
    bar
}

/// Rows and columns of the terminal at standard error.
pub(super) fn terminal() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(std::io::stderr()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row.into(), size.ws_col.into()),
        _ => (24, 80),
    }
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

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use std::io;

    use indicatif::TermLike;

    use super::*;
    use crate::progress::Totals;

    /// A terminal that keeps the lines that are written to it.
    #[derive(Debug)]
    struct Screen {
        columns: u16,
        written: Arc<Mutex<Vec<String>>>,
    }

    impl TermLike for Screen {
        fn width(&self) -> u16 {
            self.columns
        }

        fn height(&self) -> u16 {
            24
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            lock(&self.written).extend(text.lines().map(str::to_owned));
            Ok(())
        }

        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for columns in [20, 40, 80] {
            let written = Arc::new(Mutex::new(Vec::new()));
            let screen = Screen {
                columns,
                written: Arc::clone(&written),
            };
            let bars = Bars::new(ProgressDrawTarget::term_like(Box::new(screen)));
            let totals = Totals::default();
            assert!(totals.running().is_empty());
            let name = |n: u32| format!("ftp://host.example.org/data/目录/long/name-{n:04}");
            let mut files: Vec<_> = (0..12)
                .map(|n| totals.running.add(|| name(n), Some(1 << 30)).unwrap())
                .collect();
            let columns = usize::from(columns);
            for found in [0, 12 << 30] {
                totals.found(Some(found));
                totals.moved(found / 3);
                bars.draw(totals.counts(), &totals.running(), (10, columns));
            }
            let told = std::mem::take(&mut *lock(&written));
            for line in &told {
                assert!(line.width() <= columns, "{columns}: {line:?}");
            }
            let has = |told: &[String], text: &str| told.iter().any(|line| line.contains(text));
            assert!(has(&told, "and 7 more") && has(&told, "0004"), "{told:?}");
            assert!(!has(&told, "0005"), "{told:?}");
            files.truncate(1);
            bars.draw(totals.counts(), &totals.running(), (10, columns));
            let _before = std::mem::take(&mut *lock(&written));
            bars.suspend(|| ());
            let told = std::mem::take(&mut *lock(&written));
            assert!(has(&told, "0000") && !has(&told, "more"), "{told:?}");
            bars.clear();
            lock(&written).clear();
            bars.suspend(|| ());
            assert!(!has(&lock(&written), "0000"));
        }
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
