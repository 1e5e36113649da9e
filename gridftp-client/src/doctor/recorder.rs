//! `Recorder`: the replies of a session, for the steps that tell of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::progress::{Event, Observer};

/// Most lines of a conversation that are kept.
const LINES: usize = 1000;

/// Keeps the lines that the server sends, and passes on all that no finding tells.
pub(super) struct Recorder {
    lines: Mutex<Vec<String>>,
    next: Arc<dyn Observer>,
}

impl Recorder {
    pub(super) fn new(next: Arc<dyn Observer>) -> Self {
        Self {
            lines: Mutex::default(),
            next,
        }
    }

    fn lines(&self) -> MutexGuard<'_, Vec<String>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first line of the last reply of this code.
    pub(super) fn received(&self, code: &str) -> Option<String> {
        let lines = self.lines();
        let begins = |end: char| {
            let start = format!("{code}{end}");
            lines.iter().rev().find(|line| line.starts_with(&start))
        };
        begins('-').or_else(|| begins(' ')).cloned()
    }

    /// The second line of the last reply of this code with several.
    pub(super) fn second_line(&self, code: &str) -> Option<String> {
        let (lines, start) = (self.lines(), format!("{code}-"));
        let mut pairs = lines.windows(2).rev();
        pairs.find_map(|pair| match pair {
            [first, second] if first.starts_with(&start) => Some(second.clone()),
            _ => None,
        })
    }

    /// Says whether a line of `FEAT` is this one.
    pub(super) fn lists(&self, label: &str) -> bool {
        let is_it = |line: &String| {
            line.strip_prefix(' ')
                .is_some_and(|line| line.trim().eq_ignore_ascii_case(label))
        };
        self.lines().iter().any(is_it)
    }
}

impl Observer for Recorder {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Control { sent, line, .. } => {
                let mut lines = self.lines();
                if !*sent && lines.len() < LINES {
                    lines.push((*line).to_owned());
                }
                drop(lines);
                if self.next.wants_control() {
                    self.next.event(event);
                }
            }
            // The findings tell it.
            Event::Connected { .. } => {}
            other => self.next.event(other),
        }
    }

    fn wants_control(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Silent;

    #[test]
    fn replies_are_found_by_their_code() {
        let recorder = Recorder::new(Arc::new(Silent));
        for line in [
            "220-hello",
            "220 there",
            "211-list",
            " UTF8",
            "211 end",
            "230 in",
        ] {
            let site = "h:1";
            recorder.event(&Event::Control {
                site,
                sent: false,
                line,
            });
            recorder.event(&Event::Control {
                site,
                sent: true,
                line: "331 not ours",
            });
        }
        assert_eq!(recorder.received("220").as_deref(), Some("220-hello"));
        assert_eq!(recorder.received("230").as_deref(), Some("230 in"));
        assert_eq!(recorder.received("331"), None);
        assert!(recorder.lists("utf8") && !recorder.lists("list"));
    }
}
