//! The line of a running file: its name, shortened in the middle, and its progress.

use std::sync::Arc;

use indicatif::HumanBytes;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::running::RunningFile;

/// Files with a line at most.
const MOST: usize = 8;

/// Columns of a name below which the rate is left out.
const NAME: usize = 12;

/// The state of a running file.
#[derive(Debug)]
struct Moving {
    name: String,
    bytes: u64,
    size: Option<u64>,
    /// Bytes per second.
    rate: u64,
}

impl Moving {
    fn of(file: &RunningFile) -> Self {
        Self {
            name: file.source().to_owned(),
            bytes: file.bytes(),
            size: file.size(),
            rate: file.rate(),
        }
    }

    /// Its line of at most `columns` columns.
    fn line(&self, columns: usize) -> String {
        let done = match self.size.filter(|size| *size > 0) {
            Some(size) => {
                let percent = u128::from(self.bytes) * 100 / u128::from(size);
                format!("{} %", percent.min(100))
            }
            None => HumanBytes(self.bytes).to_string(),
        };
        let with_rate = format!("{done}, {}/s", HumanBytes(self.rate));
        let state = match with_rate.width() + 1 + NAME <= columns {
            true => with_rate,
            false => done,
        };
        let Some(room) = columns.checked_sub(state.width() + 1) else {
            return shorten(&self.name, columns);
        };
        let name = shorten(&self.name, room);
        let gap = " ".repeat(columns.saturating_sub(name.width() + state.width()));
        format!("{name}{gap}{state}")
    }
}

/// Number of files with a line on a terminal of so many rows: with the totals and the number of the
/// others they take half of it.
fn room(rows: usize) -> usize {
    (rows.saturating_sub(2) / 2).min(MOST)
}

/// The lines of the first files, and of the number of the others, on a terminal of so many rows, each
/// of at most `columns` columns.
pub(super) fn lines(files: &[Arc<RunningFile>], rows: usize, columns: usize) -> Vec<String> {
    let shown = files.iter().take(room(rows));
    let mut lines: Vec<_> = shown.map(|file| Moving::of(file).line(columns)).collect();
    let others = files.len().saturating_sub(lines.len());
    if others > 0 && !lines.is_empty() {
        lines.push(shorten(&format!("and {others} more"), columns));
    }
    lines
}

/// Shortens a text in its middle to `columns` columns; of its end one more column stays, which tells
/// names apart better.
fn shorten(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let Some(room) = columns.checked_sub(1) else {
        return String::new();
    };
    let fits = |left: &mut usize, c: char| {
        let rest = left.checked_sub(c.width().unwrap_or(0));
        *left = rest.unwrap_or(0);
        rest.is_some()
    };
    let (mut head, mut tail) = (room / 2, room - room / 2);
    let mut begin: String = text.chars().take_while(|c| fits(&mut head, *c)).collect();
    let end: Vec<_> = text
        .chars()
        .rev()
        .take_while(|c| fits(&mut tail, *c))
        .collect();
    let mut end: String = end.into_iter().rev().collect();
    // Some characters are wider together than each alone.
    while begin.width() + 1 + end.width() > columns {
        if !end.is_empty() {
            end.remove(0);
        } else if begin.pop().is_none() {
            break;
        }
    }
    format!("{begin}…{end}")
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use super::*;
    use crate::running::{Attempt, RunningFiles};

    fn moving(name: &str, bytes: u64, size: Option<u64>) -> Moving {
        Moving {
            name: name.to_owned(),
            bytes,
            size,
            rate: 12 << 20,
        }
    }

    #[test]
    fn a_text_is_shortened_in_its_middle() {
        assert_eq!(shorten("short", 5), "short");
        assert_eq!(shorten("/data/run7/events.root", 11), "/data….root");
        assert_eq!(shorten("abcdef", 4), "a…ef");
        assert_eq!(shorten("abcdef", 1), "…");
        assert_eq!(shorten("abcdef", 0), "");
        // Each of these has two columns.
        assert_eq!(shorten("数据数据数据", 7), "数…据");
    }

    #[test]
    fn no_shortened_text_is_wider_than_asked() {
        let texts = [
            "ftp://host.example.org:2811/data/2026/run7/events-0001.root",
            "目录/目录/目录/文件的名字很长很长",
            "e\u{301}e\u{301}e\u{301}e\u{301}e\u{301}e\u{301}",
            "a❤\u{fe0f}b❤\u{fe0f}c❤\u{fe0f}d❤\u{fe0f}",
        ];
        for text in texts {
            for columns in 0..70 {
                let short = shorten(text, columns);
                assert!(short.width() <= columns, "{columns}: {short}");
                let line = moving(text, 7 << 30, None).line(columns);
                assert!(line.width() <= columns, "{columns}: {line}");
            }
        }
    }

    #[test]
    fn a_line_has_the_name_the_percentage_and_the_rate() {
        let file = moving("/a/b", 450, Some(1000));
        assert_eq!(file.line(30), "/a/b         45 %, 12.00 MiB/s");
        assert_eq!(file.line(12), "/a/b    45 %");
        let file = moving("/data/long/name", 3 << 20, None);
        assert_eq!(file.line(18), "/dat…name 3.00 MiB");
        // More may come than a source told.
        assert_eq!(moving("/a", 9, Some(3)).line(8), "/a 100 %");
    }

    #[test]
    fn half_of_the_terminal_has_files_and_the_others_are_counted() {
        assert_eq!([0, 3, 4, 10, 50].map(room), [0, 0, 1, 4, 8]);
        let running = RunningFiles::default();
        let add = |n: u32| {
            let ends = [format!("/{n}"), String::new()];
            running.add(ends, Some(2), Attempt::new(0, Weak::new(), false))
        };
        let files: Vec<_> = (0..12).filter_map(add).collect();
        let told = lines(&files, 10, 40);
        assert_eq!(told.len(), 5);
        assert!(
            told[0].starts_with("/0 ") && told[3].starts_with("/3 "),
            "{told:?}"
        );
        assert_eq!(told[4], "and 8 more");
        assert_eq!(lines(&files[..4], 10, 40).len(), 4);
        assert_eq!(lines(&files, 3, 40), Vec::<String>::new());
    }
}
